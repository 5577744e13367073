// Catalog: the best configs, in memory, and the rules by which one of them answers a question.
//
// Threads: all methods may be called from any thread. Readers take a snapshot (a shared_ptr copied under a lock held
// for nanoseconds) and never wait for a promotion; a promotion copies the part of the index it changes. The store is
// used only by Load.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/base/mutex.h"
#include "server/definition/kernel_plan.h"
#include "server/device/device_class.h"
#include "server/store/store.h"
#include "tunefarm/v1/best_config.pb.h"

namespace tunefarm {

// A question. Everything it points to must live during the call only.
struct CatalogQuery {
  const KernelPlan* plan = nullptr;          // of the newest definition of that name, or the one asked for by id
  const ResolvedProblem* problem = nullptr;  // resolved by that plan
  const DeviceClass* device_class = nullptr;
  std::string_view class_id;  // device_class->Id()
  // Of the asked device. Empty: not known, and then nothing is STALE.
  std::string_view driver_version;
  std::string_view toolkit_version;
  // Worse matches are answered as NOT_FOUND. UNSPECIFIED: DEFAULT.
  tunefarm::v1::Match worst = tunefarm::v1::MATCH_DEFAULT;
};

struct CatalogAnswer {
  std::shared_ptr<const tunefarm::v1::BestConfig> best;  // null for NOT_FOUND; for DEFAULT only the config is set
  tunefarm::v1::Match match = tunefarm::v1::MATCH_NOT_FOUND;
  double distance = 0;   // NEAREST_SHAPE: sum over LOG dims of |log2(a / b)|
  int64_t revision = 0;  // of the catalog when the answer was made
};

class Catalog {
 public:
  Catalog();
  ~Catalog();
  Catalog(const Catalog&) = delete;
  Catalog& operator=(const Catalog&) = delete;

  // Reads all bests and device classes. Once, before the first question. The store's errors.
  absl::Status Load(Store* store);

  // Files a promoted best (with its revision), in place of the one under the same program, problem and class,
  // whatever kernel name it was filed under. A row
  // with a detail that is no BestConfig is DataLoss.
  absl::Status Update(const BestRow& row);

  // Makes a class known, so that its bests can answer for others of its compute capability.
  void AddClass(std::string_view class_id, const DeviceClass& device_class);

  // Never fails: the match says how good the answer is. In this order, the first that applies: EXACT (same program,
  // problem and class), STALE (another driver or toolkit), STALE_SOURCE (same name, another program), NEAREST_SHAPE
  // (same name and class, EXACT dims equal, BUCKET dims in the same bucket, nearest by LOG dims and within the
  // definition's lookup_distance_max, pins obeyed),
  // SAME_ARCH (another class of the same compute capability; the same problem), DEFAULT, NOT_FOUND. From STALE_SOURCE
  // on, only configs that the asked definition accepts for the asked problem and class answer.
  CatalogAnswer Lookup(const CatalogQuery& query) const;

  // The best filed under exactly these keys; null if there is none.
  std::shared_ptr<const tunefarm::v1::BestConfig> Find(std::string_view program_digest, std::string_view problem_key,
                                                       std::string_view class_id) const;

  // Up to `page_size` bests in the order of (kernel name, class id, problem key, program), of one kernel name or all if
  // empty. InvalidArgument (PAGE_TOKEN_INVALID) for a token that is not from here.
  absl::StatusOr<std::pair<std::vector<std::shared_ptr<const tunefarm::v1::BestConfig>>, std::string>> List(
      std::string_view kernel_name, int page_size, std::string_view page_token) const;

  int64_t revision() const;

 private:
  struct Entry;
  struct KernelIndex;
  struct KeyIndex;
  struct Snapshot;

  static absl::StatusOr<std::shared_ptr<const Entry>> MakeEntry(const BestRow& row);
  std::shared_ptr<const Snapshot> Current() const LOCKS_EXCLUDED(mutex_);

  mutable Mutex mutex_;
  std::shared_ptr<const Snapshot> snapshot_ GUARDED_BY(mutex_);
};

}  // namespace tunefarm
