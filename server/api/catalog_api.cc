#include "server/api/catalog_api.h"

#include <cstdint>
#include <utility>

#include "server/base/status_macros.h"

namespace tunefarm {

absl::StatusOr<std::unique_ptr<CatalogStream>> CatalogApi::WatchBestConfigs(const v1::WatchBestConfigsRequest& request,
                                                                            std::function<void()> wake,
                                                                            std::function<void(absl::Status)> end) {
  RETURN_IF_ERROR(calls_->CheckNotEnding());
  return watch_->Watch(request, std::move(wake), std::move(end));
}

absl::StatusOr<v1::PinBestConfigResponse> CatalogApi::PinBestConfig(const v1::PinBestConfigRequest& request) {
  v1::PinBestConfigResponse response;
  ASSIGN_OR_RETURN(*response.mutable_best(), bests_->Pin(request));
  return response;
}

absl::StatusOr<v1::UnpinBestConfigResponse> CatalogApi::UnpinBestConfig(const v1::UnpinBestConfigRequest& request) {
  v1::UnpinBestConfigResponse response;
  ASSIGN_OR_RETURN(*response.mutable_best(), bests_->Unpin(request));
  return response;
}

absl::StatusOr<v1::RetireBestConfigResponse> CatalogApi::RetireBestConfig(const v1::RetireBestConfigRequest& request) {
  ASSIGN_OR_RETURN(const int64_t revision, bests_->Retire(request));
  v1::RetireBestConfigResponse response;
  response.set_revision(revision);
  return response;
}

absl::StatusOr<v1::AnnotateBestConfigResponse> CatalogApi::AnnotateBestConfig(
    const v1::AnnotateBestConfigRequest& request) {
  v1::AnnotateBestConfigResponse response;
  ASSIGN_OR_RETURN(*response.mutable_best(), bests_->Annotate(request));
  return response;
}

}  // namespace tunefarm
