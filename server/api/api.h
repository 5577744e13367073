// Api: every public call, without transport: StatusOr<Response> Method(const CallContext&, const Request&). The gRPC
// adapter (and later others) only translate. Rights are checked before, in one place and by one table (access/gate.h,
// access/call_rules.h); what depends on a call's content is checked here.
//
// Threads: all methods may be called from any thread. Look-ups, gets and lists return in microseconds to milliseconds;
// CreateKernel, CountSpace and CreateJob may build a space and take seconds; writes block until durable.
//
// Errors carry a reason (ReasonOf), which adapters turn into an ErrorDetail.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/access/principal.h"
#include "server/access/token_book.h"
#include "server/api/job_quota.h"
#include "server/base/clock.h"
#include "server/jobs/job_service.h"
#include "tunefarm/v1/access_service.pb.h"
#include "tunefarm/v1/catalog_service.pb.h"
#include "tunefarm/v1/device_service.pb.h"
#include "tunefarm/v1/farm_service.pb.h"
#include "tunefarm/v1/kernel_service.pb.h"
#include "tunefarm/v1/lookup_service.pb.h"
#include "tunefarm/v1/server_service.pb.h"
#include "tunefarm/v1/tuning_service.pb.h"

namespace tunefarm {

// Who calls. The adapter has it from the Gate (server/access), which has checked the right that the call needs.
struct CallContext {
  Principal principal;
  std::string peer;  // for the audit log
};

// What the API needs of server/access.
struct ApiAccess {
  TokenBook* tokens = nullptr;     // outlives the Api; null: tokens can be neither made nor seen
  int jobs_per_principal_max = 0;  // active at once, of each certificate or token; 0: no limit
};

// What of the daemon itself the API can ask for; the composition root fills it in. All functions are set, callable from
// any thread, and outlive the Api.
struct ServerHooks {
  std::function<tunefarm::v1::GetServerInfoResponse()> info;
  std::function<absl::StatusOr<tunefarm::v1::CreateBackupResponse>(const std::string& file_name)> backup;
  // Returns at once; the daemon ends on its own.
  std::function<void(bool immediately)> shutdown;
};

class Api {
 public:
  // All of them outlive the Api.
  Api(JobService* jobs, ServerHooks hooks, Clock* clock, ApiAccess access = {});

  // --- KernelService ---
  absl::StatusOr<v1::CreateKernelResponse> CreateKernel(const CallContext&, const v1::CreateKernelRequest&);
  absl::StatusOr<v1::GetKernelResponse> GetKernel(const CallContext&, const v1::GetKernelRequest&);
  absl::StatusOr<v1::ListKernelsResponse> ListKernels(const CallContext&, const v1::ListKernelsRequest&);
  absl::StatusOr<v1::CountSpaceResponse> CountSpace(const CallContext&, const v1::CountSpaceRequest&);

  // --- TuningService ---
  // With a definition in the request: PermissionDenied (RIGHT_MISSING) without the right to submit kernels.
  // ResourceExhausted (JOB_QUOTA) where the principal has too many active jobs.
  absl::StatusOr<v1::CreateJobResponse> CreateJob(const CallContext&, const v1::CreateJobRequest&);
  absl::StatusOr<v1::GetJobResponse> GetJob(const CallContext&, const v1::GetJobRequest&);
  absl::StatusOr<v1::ListJobsResponse> ListJobs(const CallContext&, const v1::ListJobsRequest&);
  absl::StatusOr<v1::CancelJobResponse> CancelJob(const CallContext&, const v1::CancelJobRequest&);
  absl::StatusOr<v1::PauseJobResponse> PauseJob(const CallContext&, const v1::PauseJobRequest&);
  absl::StatusOr<v1::ResumeJobResponse> ResumeJob(const CallContext&, const v1::ResumeJobRequest&);
  absl::StatusOr<v1::DeleteJobResponse> DeleteJob(const CallContext&, const v1::DeleteJobRequest&);
  absl::StatusOr<v1::ListTrialsResponse> ListTrials(const CallContext&, const v1::ListTrialsRequest&);
  absl::StatusOr<v1::GetTrialResponse> GetTrial(const CallContext&, const v1::GetTrialRequest&);
  // As JobService::Watch.
  absl::StatusOr<std::unique_ptr<WatchSubscription>> WatchJob(const CallContext&, const v1::WatchJobRequest&,
                                                              std::function<void(const v1::JobEvent&)> sink,
                                                              std::function<void(absl::Status)> end);

  // --- LookupService ---
  absl::StatusOr<v1::LookupConfigResponse> LookupConfig(const CallContext&, const v1::LookupConfigRequest&);
  absl::StatusOr<v1::BatchLookupConfigsResponse> BatchLookupConfigs(const CallContext&,
                                                                    const v1::BatchLookupConfigsRequest&);
  absl::StatusOr<v1::ListBestConfigsResponse> ListBestConfigs(const CallContext&, const v1::ListBestConfigsRequest&);

  // --- CatalogService ---
  // As JobService::WatchBests.
  absl::StatusOr<std::unique_ptr<CatalogStream>> WatchBestConfigs(const CallContext&,
                                                                  const v1::WatchBestConfigsRequest&,
                                                                  std::function<void()> wake,
                                                                  std::function<void(absl::Status)> end);
  absl::StatusOr<v1::PinBestConfigResponse> PinBestConfig(const CallContext&, const v1::PinBestConfigRequest&);
  absl::StatusOr<v1::UnpinBestConfigResponse> UnpinBestConfig(const CallContext&, const v1::UnpinBestConfigRequest&);
  absl::StatusOr<v1::RetireBestConfigResponse> RetireBestConfig(const CallContext&, const v1::RetireBestConfigRequest&);
  absl::StatusOr<v1::AnnotateBestConfigResponse> AnnotateBestConfig(const CallContext&,
                                                                    const v1::AnnotateBestConfigRequest&);
  absl::StatusOr<v1::ListBestConfigChangesResponse> ListBestConfigChanges(const CallContext&,
                                                                          const v1::ListBestConfigChangesRequest&);

  // --- DeviceService ---
  absl::StatusOr<v1::ListDevicesResponse> ListDevices(const CallContext&, const v1::ListDevicesRequest&);
  // NotFound (DEVICE_NOT_FOUND). A device in service stays so.
  absl::StatusOr<v1::ReleaseDeviceResponse> ReleaseDevice(const CallContext&, const v1::ReleaseDeviceRequest&);
  absl::StatusOr<v1::ListDeviceClassesResponse> ListDeviceClasses(const CallContext&,
                                                                  const v1::ListDeviceClassesRequest&);

  // --- FarmService (api_farm.cc) ---
  absl::StatusOr<v1::ListAgentsResponse> ListAgents(const CallContext&, const v1::ListAgentsRequest&);
  // The next three: PermissionDenied (ADMIN_ONLY) off the admin socket; NotFound (AGENT_NOT_FOUND, DEVICE_NOT_FOUND).
  absl::StatusOr<v1::DrainAgentResponse> DrainAgent(const CallContext&, const v1::DrainAgentRequest&);
  absl::StatusOr<v1::UndrainAgentResponse> UndrainAgent(const CallContext&, const v1::UndrainAgentRequest&);
  absl::StatusOr<v1::QuarantineDeviceResponse> QuarantineDevice(const CallContext&, const v1::QuarantineDeviceRequest&);

  // --- CatalogService: misses ---
  absl::StatusOr<v1::ListMissesResponse> ListMisses(const CallContext&, const v1::ListMissesRequest&);
  absl::StatusOr<v1::DeleteMissesResponse> DeleteMisses(const CallContext&, const v1::DeleteMissesRequest&);

  // --- ServerService ---
  absl::StatusOr<v1::GetServerInfoResponse> GetServerInfo(const CallContext&, const v1::GetServerInfoRequest&);
  absl::StatusOr<v1::CreateBackupResponse> CreateBackup(const CallContext&, const v1::CreateBackupRequest&);
  absl::StatusOr<v1::ShutdownResponse> Shutdown(const CallContext&, const v1::ShutdownRequest&);

  // --- AccessService: as TokenBook ---
  absl::StatusOr<v1::CreateTokenResponse> CreateToken(const CallContext&, const v1::CreateTokenRequest&);
  absl::StatusOr<v1::ListTokensResponse> ListTokens(const CallContext&, const v1::ListTokensRequest&);
  absl::StatusOr<v1::RevokeTokenResponse> RevokeToken(const CallContext&, const v1::RevokeTokenRequest&);

  // For the idle exit: calls begun and not ended, and when the last one ended. GetServerInfo does not count, so that
  // asking whether the daemon is idle does not keep it busy.
  int open_calls() const { return open_calls_.load(); }
  // From now on CreateJob, WatchJob and WatchBestConfigs answer Unavailable (reason DAEMON_ENDING): nothing may be
  // accepted by a daemon that is about to leave. A stop cannot be taken back.
  void RefuseCalls() { is_ending_.store(true); }
  MonotonicTime last_call_ended() const;

  // Held by adapters while a call is open.
  class OpenCall {
   public:
    explicit OpenCall(Api* api) : api_(api) { api_->open_calls_.fetch_add(1); }
    ~OpenCall();
    OpenCall(const OpenCall&) = delete;
    OpenCall& operator=(const OpenCall&) = delete;

   private:
    Api* const api_;
  };

 private:
  JobService* const jobs_;
  const ServerHooks hooks_;
  Clock* const clock_;
  TokenBook* const tokens_;
  JobQuota quota_;
  absl::Status CheckNotEnding() const;

  std::atomic<bool> is_ending_{false};
  std::atomic<int> open_calls_{0};
  std::atomic<int64_t> last_call_ended_ns_;
};

}  // namespace tunefarm
