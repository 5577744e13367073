#include "server/api/api.h"

#include <algorithm>
#include <utility>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/device/device_class.h"

namespace tunefarm {
namespace {

// A page of a list that is in memory and short: the token is the index of the next item.
template <typename Item, typename Response, typename Add>
absl::StatusOr<Response> PageOf(const std::vector<Item>& items, int page_size, const std::string& token, Add add) {
  size_t first = 0;
  if (!token.empty()) {
    if (token.size() > 9 || token.find_first_not_of("0123456789") != std::string::npos) {
      return WithReason(InvalidArgument("page token '{}' is not one of this list", token), "PAGE_TOKEN_INVALID");
    }
    first = std::stoul(token);
  }
  if (page_size <= 0) page_size = 50;
  if (page_size > 1000) page_size = 1000;
  Response response;
  size_t index = first;
  for (; index < items.size() && index < first + static_cast<size_t>(page_size); ++index) add(items[index], &response);
  if (index < items.size()) response.set_next_page_token(std::to_string(index));
  return response;
}

template <typename T, typename Repeated>
void MoveInto(Listing<T> listing, Repeated* repeated, std::string* next_page_token) {
  for (T& item : listing.items) *repeated->Add() = std::move(item);
  *next_page_token = std::move(listing.next_page_token);
}

}  // namespace

Api::Api(JobService* jobs, ServerHooks hooks, Clock* clock, ApiAccess access)
    : jobs_(jobs),
      hooks_(std::move(hooks)),
      clock_(clock),
      tokens_(access.tokens),
      quota_(jobs, access.jobs_per_principal_max, clock),
      last_call_ended_ns_(clock->Now().time_since_epoch().count()) {}

Api::OpenCall::~OpenCall() {
  api_->last_call_ended_ns_.store(api_->clock_->Now().time_since_epoch().count());
  api_->open_calls_.fetch_sub(1);
}

absl::Status Api::CheckNotEnding() const {
  if (!is_ending_.load()) return absl::OkStatus();
  return WithReason(Unavailable("the daemon is ending; repeat the call once it has been started again"),
                    "DAEMON_ENDING");
}

MonotonicTime Api::last_call_ended() const { return MonotonicTime(Duration(last_call_ended_ns_.load())); }

absl::StatusOr<v1::CreateKernelResponse> Api::CreateKernel(const CallContext&, const v1::CreateKernelRequest& request) {
  v1::CreateKernelResponse response;
  ASSIGN_OR_RETURN(*response.mutable_kernel(), jobs_->CreateKernel(request.kernel(), request.validate_only()));
  return response;
}

absl::StatusOr<v1::GetKernelResponse> Api::GetKernel(const CallContext&, const v1::GetKernelRequest& request) {
  v1::GetKernelResponse response;
  ASSIGN_OR_RETURN(*response.mutable_kernel(), jobs_->GetKernel(request.name(), request.include_sources()));
  return response;
}

absl::StatusOr<v1::ListKernelsResponse> Api::ListKernels(const CallContext&, const v1::ListKernelsRequest& request) {
  v1::ListKernelsResponse response;
  ASSIGN_OR_RETURN(Listing<v1::Kernel> listing, jobs_->ListKernels(request.page_size(), request.page_token()));
  MoveInto(std::move(listing), response.mutable_kernels(), response.mutable_next_page_token());
  return response;
}

absl::StatusOr<v1::CountSpaceResponse> Api::CountSpace(const CallContext&, const v1::CountSpaceRequest& request) {
  return jobs_->CountSpace(request);
}

absl::StatusOr<v1::CreateJobResponse> Api::CreateJob(const CallContext& context, const v1::CreateJobRequest& request) {
  RETURN_IF_ERROR(CheckNotEnding());
  std::optional<v1::Kernel> definition;
  if (request.has_kernel_definition()) {
    // A definition is code that is compiled and run.
    RETURN_IF_ERROR(CheckRight(context.principal, Right::kKernels, "CreateJob with a kernel definition"));
    definition = request.kernel_definition();
  }
  const bool is_local_socket = context.principal.kind == PrincipalKind::kSocket;
  if (!is_local_socket && !request.validate_only()) RETURN_IF_ERROR(quota_.Check(context.principal));
  v1::CreateJobResponse response;
  ASSIGN_OR_RETURN(*response.mutable_job(),
                   jobs_->Submit(request.job(), definition, request.request_id(), request.validate_only(),
                                 is_local_socket ? "" : context.principal.name));
  if (!is_local_socket && !request.validate_only()) quota_.Submitted(context.principal);
  return response;
}

absl::StatusOr<v1::GetJobResponse> Api::GetJob(const CallContext&, const v1::GetJobRequest& request) {
  v1::GetJobResponse response;
  ASSIGN_OR_RETURN(*response.mutable_job(), jobs_->GetJob(request.name()));
  return response;
}

absl::StatusOr<v1::ListJobsResponse> Api::ListJobs(const CallContext&, const v1::ListJobsRequest& request) {
  std::vector<v1::JobState> states;
  for (const int state : request.states()) states.push_back(static_cast<v1::JobState>(state));
  v1::ListJobsResponse response;
  ASSIGN_OR_RETURN(Listing<v1::Job> listing, jobs_->ListJobs(states, request.page_size(), request.page_token()));
  MoveInto(std::move(listing), response.mutable_jobs(), response.mutable_next_page_token());
  return response;
}

absl::StatusOr<v1::CancelJobResponse> Api::CancelJob(const CallContext&, const v1::CancelJobRequest& request) {
  v1::CancelJobResponse response;
  ASSIGN_OR_RETURN(*response.mutable_job(), jobs_->Cancel(request.name()));
  return response;
}

absl::StatusOr<v1::PauseJobResponse> Api::PauseJob(const CallContext&, const v1::PauseJobRequest& request) {
  v1::PauseJobResponse response;
  ASSIGN_OR_RETURN(*response.mutable_job(), jobs_->Pause(request.name()));
  return response;
}

absl::StatusOr<v1::ResumeJobResponse> Api::ResumeJob(const CallContext&, const v1::ResumeJobRequest& request) {
  v1::ResumeJobResponse response;
  ASSIGN_OR_RETURN(*response.mutable_job(), jobs_->Resume(request.name()));
  return response;
}

absl::StatusOr<v1::DeleteJobResponse> Api::DeleteJob(const CallContext&, const v1::DeleteJobRequest& request) {
  RETURN_IF_ERROR(jobs_->Delete(request.name()));
  return v1::DeleteJobResponse();
}

absl::StatusOr<v1::ListTrialsResponse> Api::ListTrials(const CallContext&, const v1::ListTrialsRequest& request) {
  return jobs_->ListTrials(request);
}

absl::StatusOr<v1::GetTrialResponse> Api::GetTrial(const CallContext&, const v1::GetTrialRequest& request) {
  v1::GetTrialResponse response;
  ASSIGN_OR_RETURN(*response.mutable_trial(), jobs_->GetTrial(request.name()));
  return response;
}

absl::StatusOr<std::unique_ptr<WatchSubscription>> Api::WatchJob(const CallContext&, const v1::WatchJobRequest& request,
                                                                 std::function<void(const v1::JobEvent&)> sink,
                                                                 std::function<void(absl::Status)> end) {
  RETURN_IF_ERROR(CheckNotEnding());
  return jobs_->Watch(request.name(), request.after_event_id(), std::move(sink), std::move(end));
}

absl::StatusOr<v1::LookupConfigResponse> Api::LookupConfig(const CallContext&, const v1::LookupConfigRequest& request) {
  return jobs_->Lookup(request);
}

absl::StatusOr<v1::BatchLookupConfigsResponse> Api::BatchLookupConfigs(const CallContext&,
                                                                       const v1::BatchLookupConfigsRequest& request) {
  return jobs_->BatchLookup(request);
}

absl::StatusOr<v1::ListBestConfigsResponse> Api::ListBestConfigs(const CallContext&,
                                                                 const v1::ListBestConfigsRequest& request) {
  v1::ListBestConfigsResponse response;
  ASSIGN_OR_RETURN(Listing<v1::BestConfig> listing,
                   jobs_->ListBest(request.kernel(), request.page_size(), request.page_token()));
  MoveInto(std::move(listing), response.mutable_bests(), response.mutable_next_page_token());
  return response;
}

absl::StatusOr<std::unique_ptr<CatalogStream>> Api::WatchBestConfigs(const CallContext&,
                                                                     const v1::WatchBestConfigsRequest& request,
                                                                     std::function<void()> wake,
                                                                     std::function<void(absl::Status)> end) {
  RETURN_IF_ERROR(CheckNotEnding());
  return jobs_->WatchBests(request, std::move(wake), std::move(end));
}

absl::StatusOr<v1::PinBestConfigResponse> Api::PinBestConfig(const CallContext&,
                                                             const v1::PinBestConfigRequest& request) {
  v1::PinBestConfigResponse response;
  ASSIGN_OR_RETURN(*response.mutable_best(), jobs_->PinBest(request));
  return response;
}

absl::StatusOr<v1::UnpinBestConfigResponse> Api::UnpinBestConfig(const CallContext&,
                                                                 const v1::UnpinBestConfigRequest& request) {
  v1::UnpinBestConfigResponse response;
  ASSIGN_OR_RETURN(*response.mutable_best(), jobs_->UnpinBest(request));
  return response;
}

absl::StatusOr<v1::RetireBestConfigResponse> Api::RetireBestConfig(const CallContext&,
                                                                   const v1::RetireBestConfigRequest& request) {
  v1::RetireBestConfigResponse response;
  ASSIGN_OR_RETURN(const int64_t revision, jobs_->RetireBest(request));
  response.set_revision(revision);
  return response;
}

absl::StatusOr<v1::AnnotateBestConfigResponse> Api::AnnotateBestConfig(const CallContext&,
                                                                       const v1::AnnotateBestConfigRequest& request) {
  v1::AnnotateBestConfigResponse response;
  ASSIGN_OR_RETURN(*response.mutable_best(), jobs_->AnnotateBest(request));
  return response;
}

absl::StatusOr<v1::ListBestConfigChangesResponse> Api::ListBestConfigChanges(
    const CallContext&, const v1::ListBestConfigChangesRequest& request) {
  return jobs_->ListBestChanges(request);
}

absl::StatusOr<v1::ListDevicesResponse> Api::ListDevices(const CallContext&, const v1::ListDevicesRequest& request) {
  return PageOf<v1::Device, v1::ListDevicesResponse>(
      jobs_->ListDevices(), request.page_size(), request.page_token(),
      [](const v1::Device& device, v1::ListDevicesResponse* response) { *response->add_devices() = device; });
}

absl::StatusOr<v1::ReleaseDeviceResponse> Api::ReleaseDevice(const CallContext&,
                                                             const v1::ReleaseDeviceRequest& request) {
  v1::ReleaseDeviceResponse response;
  ASSIGN_OR_RETURN(*response.mutable_device(), jobs_->GetDevice(request.name()));
  RETURN_IF_ERROR(jobs_->ReleaseDevice(request.name()));
  return response;
}

absl::StatusOr<v1::ListAgentsResponse> Api::ListAgents(const CallContext&, const v1::ListAgentsRequest& request) {
  ASSIGN_OR_RETURN(const std::vector<v1::Agent> agents, jobs_->ListAgents());
  return PageOf<v1::Agent, v1::ListAgentsResponse>(
      agents, request.page_size(), request.page_token(),
      [](const v1::Agent& agent, v1::ListAgentsResponse* response) { *response->add_agents() = agent; });
}

absl::StatusOr<v1::DrainAgentResponse> Api::DrainAgent(const CallContext&, const v1::DrainAgentRequest& request) {
  v1::DrainAgentResponse response;
  ASSIGN_OR_RETURN(*response.mutable_agent(), jobs_->DrainAgent(request.name(), true));
  return response;
}

absl::StatusOr<v1::UndrainAgentResponse> Api::UndrainAgent(const CallContext&, const v1::UndrainAgentRequest& request) {
  v1::UndrainAgentResponse response;
  ASSIGN_OR_RETURN(*response.mutable_agent(), jobs_->DrainAgent(request.name(), false));
  return response;
}

absl::StatusOr<v1::QuarantineDeviceResponse> Api::QuarantineDevice(const CallContext&,
                                                                   const v1::QuarantineDeviceRequest& request) {
  if (request.reason().empty() || request.reason().size() > 1024) {
    return WithReason(InvalidArgument("the reason has {} bytes; say in 1 to 1024 why the device takes no work",
                                      request.reason().size()),
                      "REASON_INVALID");
  }
  v1::QuarantineDeviceResponse response;
  ASSIGN_OR_RETURN(*response.mutable_device(), jobs_->HoldOutDevice(request.name(), request.reason()));
  return response;
}

absl::StatusOr<v1::ListDeviceClassesResponse> Api::ListDeviceClasses(const CallContext&,
                                                                     const v1::ListDeviceClassesRequest&) {
  v1::ListDeviceClassesResponse response;
  for (const KnownClass& known : KnownClasses()) {
    v1::KnownDeviceClass* added = response.add_classes();
    added->set_short_name(std::string(known.short_name));
    *added->mutable_device_class() = known.device_class.ToProto();
  }
  return response;
}

absl::StatusOr<v1::ListMissesResponse> Api::ListMisses(const CallContext&, const v1::ListMissesRequest& request) {
  return jobs_->ListMisses(request);
}

absl::StatusOr<v1::DeleteMissesResponse> Api::DeleteMisses(const CallContext&, const v1::DeleteMissesRequest& request) {
  return jobs_->DeleteMisses(request);
}

absl::StatusOr<v1::GetServerInfoResponse> Api::GetServerInfo(const CallContext&, const v1::GetServerInfoRequest&) {
  v1::GetServerInfoResponse response = hooks_.info();
  ASSIGN_OR_RETURN(const JobServiceStats stats, jobs_->Stats());
  response.set_active_jobs(stats.active_jobs);
  response.set_stored_trials(stats.stored_trials);
  response.set_schema_version(stats.schema_version);
  response.set_database_bytes(stats.database_bytes);
  response.set_database_away(stats.database_away);
  response.set_catalog_age_ms(stats.catalog_age_ms);
  return response;
}

absl::StatusOr<v1::CreateBackupResponse> Api::CreateBackup(const CallContext&, const v1::CreateBackupRequest& request) {
  return hooks_.backup(request.file_name());
}

absl::StatusOr<v1::ShutdownResponse> Api::Shutdown(const CallContext&, const v1::ShutdownRequest& request) {
  hooks_.shutdown(request.immediately());
  return v1::ShutdownResponse();
}

namespace {

v1::Token ToProto(const TokenRow& row) {
  v1::Token token;
  token.set_name(row.name);
  for (size_t begin = 0; begin <= row.roles.size();) {
    const size_t end = std::min(row.roles.find(',', begin), row.roles.size());
    token.add_roles(row.roles.substr(begin, end - begin));
    begin = end + 1;
  }
  token.set_created_at_ms(row.created_at_ms);
  token.set_expires_at_ms(row.expires_at_ms);
  token.set_last_used_at_ms(row.last_used_at_ms);
  token.set_revoked_at_ms(row.revoked_at_ms);
  return token;
}

absl::Status NoTokens() { return WithReason(Unimplemented("this daemon keeps no tokens"), "NO_TOKENS"); }

}  // namespace

absl::StatusOr<v1::CreateTokenResponse> Api::CreateToken(const CallContext&, const v1::CreateTokenRequest& request) {
  if (tokens_ == nullptr) return NoTokens();
  std::string roles;
  for (const std::string& role : request.roles()) roles += (roles.empty() ? "" : ",") + role;
  if (request.roles().empty()) {
    return WithReason(
        InvalidArgument("the token {} has no role; give it lookup, or submit, or submit,kernels", request.name()),
        "ROLE_UNKNOWN");
  }
  ASSIGN_OR_RETURN(const NewToken made, tokens_->Create(request.name(), roles, request.life_ms()));
  v1::CreateTokenResponse response;
  response.set_secret(made.token);
  *response.mutable_token() = ToProto(made.row);
  return response;
}

absl::StatusOr<v1::ListTokensResponse> Api::ListTokens(const CallContext&, const v1::ListTokensRequest&) {
  if (tokens_ == nullptr) return NoTokens();
  ASSIGN_OR_RETURN(const std::vector<TokenRow> rows, tokens_->List());
  v1::ListTokensResponse response;
  for (const TokenRow& row : rows) *response.add_tokens() = ToProto(row);
  return response;
}

absl::StatusOr<v1::RevokeTokenResponse> Api::RevokeToken(const CallContext&, const v1::RevokeTokenRequest& request) {
  if (tokens_ == nullptr) return NoTokens();
  ASSIGN_OR_RETURN(const TokenRow row, tokens_->Revoke(request.name()));
  v1::RevokeTokenResponse response;
  *response.mutable_token() = ToProto(row);
  return response;
}

}  // namespace tunefarm
