#pragma once

#include <memory>

#include "server/store/shared/facets.h"

namespace tunefarm {

// A store as the facets that it is made of. Thread-safe once all are set.
class FacetStore : public Store {
 public:
  ~FacetStore() override;

  KernelStore* kernels() final { return kernels_.get(); }
  DeviceStore* devices() final { return devices_.get(); }
  JobStore* jobs() final { return jobs_.get(); }
  StudyStore* studies() final { return studies_.get(); }
  UnitStore* units() final { return units_.get(); }
  TrialStore* trials() final { return trials_.get(); }
  AgentStore* agents() final { return agents_.get(); }
  LeaseStore* leases() final { return leases_.get(); }
  BestStore* bests() final { return bests_.get(); }
  LookupStore* lookups() final { return lookups_.get(); }
  PoisonStore* poison() final { return poison_.get(); }
  SettingStore* settings() final { return settings_.get(); }
  TokenStore* tokens() final { return tokens_.get(); }
  StoreMaintenance* maintenance() final { return maintenance_.get(); }

 protected:
  FacetStore();
  // Sets those that are the same on both databases. The backend outlives every call of them; `on_catalog_id`: see
  // NewSettingStore.
  void MakeSharedFacets(SqlBackend* backend, std::function<void(std::string_view id)> on_catalog_id);

  // The constructor of each store sets these.
  std::unique_ptr<JobStore> jobs_;
  std::unique_ptr<StudyStore> studies_;
  std::unique_ptr<UnitStore> units_;
  std::unique_ptr<TrialStore> trials_;
  std::unique_ptr<AgentStore> agents_;
  std::unique_ptr<LeaseStore> leases_;
  std::unique_ptr<StoreMaintenance> maintenance_;

 private:
  std::unique_ptr<KernelStore> kernels_;
  std::unique_ptr<DeviceStore> devices_;
  std::unique_ptr<BestStore> bests_;
  std::unique_ptr<LookupStore> lookups_;
  std::unique_ptr<PoisonStore> poison_;
  std::unique_ptr<SettingStore> settings_;
  std::unique_ptr<TokenStore> tokens_;
};

}  // namespace tunefarm
