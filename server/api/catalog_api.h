// CatalogApi: the calls of CatalogService. Changes of best configs are watched, listed and made by people; misses are
// listed and deleted.
//
// Thread-safe. What changes the catalog returns when the change is durable.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/api/open_calls.h"
#include "server/catalog/best_changes.h"
#include "server/catalog/catalog_watch.h"
#include "server/catalog/misses.h"
#include "tunefarm/v1/catalog_service.pb.h"

namespace tunefarm {

class CatalogApi {
 public:
  // All outlive it.
  CatalogApi(CatalogWatch* watch, BestChanges* bests, Misses* misses, const OpenCalls* calls)
      : watch_(watch), bests_(bests), misses_(misses), calls_(calls) {}

  // As CatalogWatch::Watch. Unavailable (DAEMON_ENDING).
  absl::StatusOr<std::unique_ptr<CatalogStream>> WatchBestConfigs(const v1::WatchBestConfigsRequest& request,
                                                                  std::function<void()> wake,
                                                                  std::function<void(absl::Status)> end);
  // The errors of BestChanges.
  absl::StatusOr<v1::PinBestConfigResponse> PinBestConfig(const v1::PinBestConfigRequest& request);
  absl::StatusOr<v1::UnpinBestConfigResponse> UnpinBestConfig(const v1::UnpinBestConfigRequest& request);
  absl::StatusOr<v1::RetireBestConfigResponse> RetireBestConfig(const v1::RetireBestConfigRequest& request);
  absl::StatusOr<v1::AnnotateBestConfigResponse> AnnotateBestConfig(const v1::AnnotateBestConfigRequest& request);
  absl::StatusOr<v1::ListBestConfigChangesResponse> ListBestConfigChanges(
      const v1::ListBestConfigChangesRequest& request) {
    return bests_->List(request);
  }
  // The errors of Misses.
  absl::StatusOr<v1::ListMissesResponse> ListMisses(const v1::ListMissesRequest& request) {
    return misses_->List(request);
  }
  absl::StatusOr<v1::DeleteMissesResponse> DeleteMisses(const v1::DeleteMissesRequest& request) {
    return misses_->Delete(request);
  }

 private:
  CatalogWatch* const watch_;
  BestChanges* const bests_;
  Misses* const misses_;
  const OpenCalls* const calls_;
};

}  // namespace tunefarm
