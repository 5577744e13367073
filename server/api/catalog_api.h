// CatalogApi: the calls of CatalogService. Changes of best configs are watched, listed and made by people; misses are
// listed and deleted.
//
// Thread-safe. What changes the catalog returns when the change is durable.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/api/open_calls.h"
#include "server/api/response_of.h"
#include "server/base/status_macros.h"
#include "server/catalog/best_changes.h"
#include "server/catalog/best_summary.h"
#include "server/catalog/catalog.h"
#include "server/catalog/catalog_watch.h"
#include "server/catalog/misses.h"
#include "server/store/kernel_store.h"
#include "server/store/store.h"
#include "tunefarm/v1/catalog_service.pb.h"

namespace tunefarm {

class CatalogApi {
 public:
  // All outlive it.
  CatalogApi(const Catalog* catalog, Store* store, CatalogWatch* watch, BestChanges* bests, Misses* misses,
             const OpenCalls* calls)
      : store_(store), watch_(watch), bests_(bests), misses_(misses), calls_(calls), summaries_(catalog) {}

  // As CatalogWatch::Watch. Unavailable (DAEMON_ENDING).
  absl::StatusOr<std::unique_ptr<CatalogStream>> WatchBestConfigs(const v1::WatchBestConfigsRequest& request,
                                                                  std::function<void()> wake,
                                                                  std::function<void(absl::Status)> end) {
    RETURN_IF_ERROR(calls_->CheckNotEnding());
    return watch_->Watch(request, std::move(wake), std::move(end));
  }
  // The errors of BestChanges, also of the next ones.
  absl::StatusOr<v1::PinBestConfigResponse> PinBestConfig(const v1::PinBestConfigRequest& request) {
    return ResponseOf(bests_->Pin(request), &v1::PinBestConfigResponse::mutable_best);
  }
  absl::StatusOr<v1::UnpinBestConfigResponse> UnpinBestConfig(const v1::UnpinBestConfigRequest& request) {
    return ResponseOf(bests_->Unpin(request), &v1::UnpinBestConfigResponse::mutable_best);
  }
  absl::StatusOr<v1::RetireBestConfigResponse> RetireBestConfig(const v1::RetireBestConfigRequest& request) {
    ASSIGN_OR_RETURN(const int64_t revision, bests_->Retire(request));
    v1::RetireBestConfigResponse response;
    response.set_revision(revision);
    return response;
  }
  absl::StatusOr<v1::AnnotateBestConfigResponse> AnnotateBestConfig(const v1::AnnotateBestConfigRequest& request) {
    return ResponseOf(bests_->Annotate(request), &v1::AnnotateBestConfigResponse::mutable_best);
  }
  absl::StatusOr<v1::ListBestConfigChangesResponse> ListBestConfigChanges(
      const v1::ListBestConfigChangesRequest& request) {
    return bests_->List(request);
  }
  // The store's errors.
  absl::StatusOr<v1::SummarizeBestConfigsResponse> SummarizeBestConfigs(
      const v1::SummarizeBestConfigsRequest& request) {
    ASSIGN_OR_RETURN(const auto newest_programs, store_->kernels()->NewestPrograms());
    return summaries_.Of(request.kernel(), newest_programs);
  }
  // The errors of Misses.
  absl::StatusOr<v1::ListMissesResponse> ListMisses(const v1::ListMissesRequest& request) {
    return misses_->List(request);
  }
  absl::StatusOr<v1::DeleteMissesResponse> DeleteMisses(const v1::DeleteMissesRequest& request) {
    return misses_->Delete(request);
  }

 private:
  Store* const store_;
  CatalogWatch* const watch_;
  BestChanges* const bests_;
  Misses* const misses_;
  const OpenCalls* const calls_;
  BestSummaries summaries_;
};

}  // namespace tunefarm
