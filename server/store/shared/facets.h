#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/kernel_store.h"
#include "server/store/page_token.h"
#include "server/store/shared/sql.h"
#include "server/store/store.h"

namespace tunefarm {

struct QueueCounts;

// A facet of the store, or what both databases have in common of it, over the backend of either.
template <typename Interface>
class SharedFacet : public Interface {
 public:
  // The backend outlives the facet.
  explicit SharedFacet(SqlBackend* backend) : backend_(backend) {}

 protected:
  SqlBackend* const backend_;
};

// Facets that are the same on both databases, each in a file of its own.
std::unique_ptr<KernelStore> NewKernelStore(SqlBackend* backend);
std::unique_ptr<DeviceStore> NewDeviceStore(SqlBackend* backend);
std::unique_ptr<BestStore> NewBestStore(SqlBackend* backend);
std::unique_ptr<LookupStore> NewLookupStore(SqlBackend* backend);
std::unique_ptr<PoisonStore> NewPoisonStore(SqlBackend* backend);
std::unique_ptr<TokenStore> NewTokenStore(SqlBackend* backend);
// `on_catalog_id` (may be null) is called with the catalog's id whenever it was read or written, by the calling thread.
std::unique_ptr<SettingStore> NewSettingStore(SqlBackend* backend,
                                              std::function<void(std::string_view id)> on_catalog_id);

// See StoreMaintenance.
absl::StatusOr<QueueCounts> CountQueue(Sql& sql);
// Stores a kernel, or makes the one of its id the newest of its name. ResourceExhausted (KERNEL_QUOTA).
absl::Status InsertKernel(Sql& sql, const KernelRow& kernel);
// Copies the trials that bests of the job stand on to best_trial.
absl::Status KeepBestTrials(Sql& sql, int64_t job_id);

// Ends a list that was read with one row more than a page of `size`, which tells whether there is a next page: takes
// that row away, and answers whether it was there.
template <typename T>
bool CutToPage(int size, std::vector<T>* rows) {
  if (rows->size() <= static_cast<size_t>(size)) return false;
  rows->resize(static_cast<size_t>(size));
  return true;
}

}  // namespace tunefarm
