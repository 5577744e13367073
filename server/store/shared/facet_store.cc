#include "server/store/shared/facet_store.h"

#include <utility>

#include "server/store/agent_store.h"
#include "server/store/best_store.h"
#include "server/store/device_store.h"
#include "server/store/job_store.h"
#include "server/store/lease_store.h"
#include "server/store/lookup_store.h"
#include "server/store/poison_store.h"
#include "server/store/setting_store.h"
#include "server/store/store_maintenance.h"
#include "server/store/study_store.h"
#include "server/store/token_store.h"
#include "server/store/trial_store.h"
#include "server/store/unit_store.h"

namespace tunefarm {

FacetStore::FacetStore() = default;
FacetStore::~FacetStore() = default;

void FacetStore::MakeSharedFacets(SqlBackend* backend, std::function<void(std::string_view id)> on_catalog_id) {
  kernels_ = NewKernelStore(backend);
  devices_ = NewDeviceStore(backend);
  bests_ = NewBestStore(backend);
  lookups_ = NewLookupStore(backend);
  poison_ = NewPoisonStore(backend);
  settings_ = NewSettingStore(backend, std::move(on_catalog_id));
  tokens_ = NewTokenStore(backend);
}

}  // namespace tunefarm
