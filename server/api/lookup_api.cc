#include "server/api/lookup_api.h"

#include "server/api/kernel_api.h"
#include "server/base/status_macros.h"
#include "server/lookup/batch_lookup.h"
#include "server/records/resource_names.h"

namespace tunefarm {

absl::StatusOr<v1::LookupConfigResponse> LookupApi::LookupConfig(const v1::LookupConfigRequest& request) {
  absl::StatusOr<LookupAnswer> answer = tunefarm::LookupConfig(context_, request);
  if (!answer.ok()) {
    tally_->AddBadLookup();
    return answer.status();
  }
  Complete(&*answer);
  return answer->response();
}

std::optional<LookupAnswer> LookupApi::LookupInMemory(const v1::LookupConfigRequest& request) {
  if (!context_.kernels->IsCached(request.kernel(), request.program_digest())) return std::nullopt;
  absl::StatusOr<LookupAnswer> answer = tunefarm::LookupConfig(context_, request);
  if (!answer.ok()) return std::nullopt;
  Complete(&*answer);
  return *std::move(answer);
}

void LookupApi::Complete(LookupAnswer* answer) {
  answer->set_catalog_age_ms(node_watch_->AgeMs());
  const int match = answer->response().match();
  tally_->AddLookups({&match, 1});
}

absl::StatusOr<v1::BatchLookupConfigsResponse> LookupApi::BatchLookupConfigs(
    const v1::BatchLookupConfigsRequest& request) {
  absl::StatusOr<v1::BatchLookupConfigsResponse> response = LookupConfigs(context_, request);
  if (!response.ok()) return response;
  response->set_catalog_age_ms(node_watch_->AgeMs());
  tally_->AddLookups({response->matches().data(), static_cast<size_t>(response->matches_size())});
  return response;
}

absl::StatusOr<v1::AgreeConfigResponse> LookupApi::AgreeConfig(const Principal& principal,
                                                               const v1::AgreeConfigRequest& request) {
  absl::StatusOr<v1::AgreeConfigResponse> response = agreements_.Agree(KernelOwner(principal), request);
  if (!response.ok()) {
    tally_->AddBadLookup();
  } else if (response->has_answer()) {
    const int match = response->answer().match();
    tally_->AddLookups({&match, 1});
  }
  return response;
}

absl::StatusOr<v1::ListBestConfigsResponse> LookupApi::ListBestConfigs(const v1::ListBestConfigsRequest& request) {
  ASSIGN_OR_RETURN(const int size, PageSize(request.page_size()));
  v1::ListBestConfigsResponse response;
  response.set_catalog_revision(context_.catalog->revision());
  ASSIGN_OR_RETURN(auto page, context_.catalog->List(request.kernel(), size, request.page_token(),
                                                     request.program_digest(), request.device_class_id()));
  for (const auto& best : page.first) *response.add_bests() = *best;
  response.set_next_page_token(page.second);
  return response;
}

}  // namespace tunefarm
