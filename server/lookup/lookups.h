// Questions to the catalog as the public API asks them: names and messages in, answers out. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/base/clock.h"
#include "server/base/file_set.h"
#include "server/catalog/catalog.h"
#include "server/catalog/miss_table.h"
#include "server/farm/device_directory.h"
#include "server/records/kernel_registry.h"
#include "tunefarm/v1/lookup_service.pb.h"

namespace tunefarm {

struct LookupContext {
  KernelRegistry* kernels = nullptr;
  const DeviceDirectory* devices = nullptr;
  const Catalog* catalog = nullptr;
  Clock* clock = nullptr;
  MissTable* misses = nullptr;     // counts what is not answered exactly
  FileSetBook* headers = nullptr;  // of this machine; may be null
};

// What a question is about besides its problem: a definition of the kernel and a device, as named by the client.
struct LookupTarget {
  std::shared_ptr<const KernelPlan> plan;
  SelectedDevice device;
  std::string other_program;       // the program that is asked for where no definition of it is stored; else empty
  FileSetBook* headers = nullptr;  // the context's

  // `program_digest`: of the definition that is asked for; the newest of the name stands for one that is not stored,
  // and also for an empty digest.
  static absl::StatusOr<LookupTarget> Resolve(const LookupContext& context, const std::string& kernel,
                                              const std::string& program_digest, const std::string& selector);
  absl::StatusOr<ResolvedProblem> ResolveProblem(const tunefarm::v1::Problem& problem) const;
  // Lives as long as this and the problem.
  CatalogQuery Query(const ResolvedProblem& problem, tunefarm::v1::Match worst) const;
  // Of questions that are asked now. Lives as long as this.
  MissSource Source(int64_t now_ms) const;
};

// An answer whose best is the catalog's own, which is too large to be copied for each question.
class LookupAnswer {
 public:
  // `response` has no best of its own. `best` may be null.
  LookupAnswer(tunefarm::v1::LookupConfigResponse response, std::shared_ptr<const tunefarm::v1::BestConfig> best);
  ~LookupAnswer();
  LookupAnswer(LookupAnswer&& other) noexcept;
  LookupAnswer& operator=(LookupAnswer&&) = delete;

  // With the best. Lives as long as this.
  const tunefarm::v1::LookupConfigResponse& response() const { return response_; }
  operator const google::protobuf::Message&() const { return response_; }
  void set_catalog_age_ms(int64_t age_ms) { response_.set_catalog_age_ms(age_ms); }

 private:
  void Lend();
  void TakeBack();

  std::shared_ptr<const tunefarm::v1::BestConfig> best_;
  tunefarm::v1::LookupConfigResponse response_;
};

absl::StatusOr<LookupAnswer> LookupConfig(const LookupContext& context,
                                          const tunefarm::v1::LookupConfigRequest& request);

}  // namespace tunefarm
