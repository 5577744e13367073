// The stored kernels as compiled plans, by id and by name, cached so that look-ups need no database.
//
// Thread-safe. The store outlives it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/mutex.h"
#include "server/definition/kernel_plan.h"
#include "server/store/kernel_store.h"
#include "server/store/store.h"

namespace tunefarm {

class KernelRegistry {
 public:
  // At most this many plans and names are cached; the one used longest ago leaves first.
  static constexpr size_t kPlansMax = 256;

  explicit KernelRegistry(Store* store) : store_(store) {}

  // "kernels/{id}" or a display name (the newest: the one that was submitted last). NotFound (KERNEL_NOT_FOUND) with
  // "did you mean"; NotFound (KERNEL_DELETED).
  absl::StatusOr<std::shared_ptr<const KernelPlan>> Get(std::string_view name);
  // The newest of a name and a program; null where none is stored. The store's errors.
  absl::StatusOr<std::shared_ptr<const KernelPlan>> FindProgram(std::string_view display_name,
                                                                std::string_view program_digest);
  absl::StatusOr<std::shared_ptr<const KernelPlan>> GetById(std::string_view kernel_id);
  // Whether Get of the name, and FindProgram of what it stands for, need no database now. `program_digest`: empty where
  // no program is asked for.
  bool IsCached(std::string_view name, std::string_view program_digest);

  // Others store kernels too: asks what up to `names_max` of the cached names, each in its turn, stand for now.
  // Look-ups of cached names never wait for the store. The store's errors.
  absl::Status FollowNames(int names_max);
  // The same for one name, or a new one; NotFound as Get.
  absl::Status FollowName(const std::string& name);
  // The newest definitions of all cached names, and the way to cache them without a store.
  std::vector<std::shared_ptr<const KernelPlan>> Named();
  void Restore(const std::shared_ptr<const KernelPlan>& plan);

  // Call after a kernel was stored: names it resolves to may have changed.
  void Stored(const std::shared_ptr<const KernelPlan>& plan);
  // Call after a kernel was deleted.
  void Deleted(std::string_view kernel_id);

  // The row that stores a plan, without an owner.
  static KernelRow RowOf(const KernelPlan& plan, int64_t now_ms);
  // A stored definition. DataLoss if it cannot be read.
  static absl::StatusOr<tunefarm::v1::Kernel> KernelOf(const KernelRow& row);

 private:
  struct Slot {
    std::shared_ptr<const KernelPlan> plan;
    uint64_t used = 0;
  };
  using Slots = std::map<std::string, Slot, std::less<>>;

  std::shared_ptr<const KernelPlan> Cached(Slots* slots, std::string_view key) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Keep(Slots* slots, const std::string& key, std::shared_ptr<const KernelPlan> plan)
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::shared_ptr<const KernelPlan>> Compile(const KernelRow& row);
  absl::Status UnknownKernel(std::string_view name);

  Store* const store_;
  Mutex mutex_;
  uint64_t uses_ GUARDED_BY(mutex_) = 0;
  uint64_t generation_ GUARDED_BY(mutex_) = 0;  // grows with Stored and Deleted
  Slots by_id_ GUARDED_BY(mutex_);
  Slots by_name_ GUARDED_BY(mutex_);
  Slots by_program_ GUARDED_BY(mutex_);      // by display name, a space and the program's digest
  std::string followed_ GUARDED_BY(mutex_);  // the last name that FollowNames asked about
};

// The kernel without source contents: what most answers carry.
tunefarm::v1::Kernel WithoutSources(tunefarm::v1::Kernel kernel);

}  // namespace tunefarm
