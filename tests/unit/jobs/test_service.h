// TestService: a control plane, and its public calls with a name or a few values in place of a request.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "server/access/principal.h"
#include "server/base/status_macros.h"
#include "server/daemon/control_plane.h"

namespace tunefarm {

class TestService : public ControlPlane {
 public:
  using ControlPlane::ControlPlane;

  absl::StatusOr<v1::Kernel> CreateKernel(const v1::Kernel& kernel) {
    v1::CreateKernelRequest request;
    *request.mutable_kernel() = kernel;
    ASSIGN_OR_RETURN(const v1::CreateKernelResponse response, kernel_api().CreateKernel(AdminSocket(), request));
    return response.kernel();
  }
  absl::StatusOr<v1::Kernel> GetKernel(const std::string& name) {
    ASSIGN_OR_RETURN(const auto response, kernel_api().GetKernel(Named<v1::GetKernelRequest>(name)));
    return response.kernel();
  }
  absl::StatusOr<v1::Job> Submit(const v1::Job& job, const std::optional<v1::Kernel>& definition,
                                 const std::string& request_id = "", bool validate_only = false) {
    v1::CreateJobRequest request;
    *request.mutable_job() = job;
    if (definition.has_value()) *request.mutable_kernel_definition() = *definition;
    request.set_request_id(request_id);
    request.set_validate_only(validate_only);
    ASSIGN_OR_RETURN(const v1::CreateJobResponse response, tuning_api().CreateJob(AdminSocket(), request));
    return response.job();
  }
  absl::StatusOr<v1::Job> GetJob(const std::string& name) {
    ASSIGN_OR_RETURN(const auto response, tuning_api().GetJob(Named<v1::GetJobRequest>(name)));
    return response.job();
  }
  absl::StatusOr<v1::Job> Cancel(const std::string& name) {
    ASSIGN_OR_RETURN(const auto response, tuning_api().CancelJob(Named<v1::CancelJobRequest>(name)));
    return response.job();
  }
  absl::StatusOr<v1::Job> Pause(const std::string& name) {
    ASSIGN_OR_RETURN(const auto response, tuning_api().PauseJob(Named<v1::PauseJobRequest>(name)));
    return response.job();
  }
  absl::StatusOr<v1::Job> Resume(const std::string& name) {
    ASSIGN_OR_RETURN(const auto response, tuning_api().ResumeJob(Named<v1::ResumeJobRequest>(name)));
    return response.job();
  }
  absl::Status Delete(const std::string& name) {
    return tuning_api().DeleteJob(Named<v1::DeleteJobRequest>(name)).status();
  }
  absl::StatusOr<std::unique_ptr<WatchSubscription>> Watch(const std::string& name, int64_t after_event_id,
                                                           std::function<void(const v1::JobEvent&)> sink,
                                                           std::function<void(absl::Status)> end) {
    v1::WatchJobRequest request;
    request.set_name(name);
    request.set_after_event_id(after_event_id);
    return tuning_api().WatchJob(request, std::move(sink), std::move(end));
  }
  absl::StatusOr<v1::Trial> GetTrial(const std::string& name) {
    ASSIGN_OR_RETURN(const auto response, tuning_api().GetTrial(Named<v1::GetTrialRequest>(name)));
    return response.trial();
  }
  absl::Status QuarantineDevice(const std::string& name, const std::string& reason) {
    auto request = Named<v1::QuarantineDeviceRequest>(name);
    request.set_reason(reason);
    return farm_api().QuarantineDevice(request).status();
  }
  absl::Status ReleaseDevice(const std::string& name) {
    return farm_api().ReleaseDevice(Named<v1::ReleaseDeviceRequest>(name)).status();
  }
  absl::Status DrainAgent(const std::string& name) {
    return farm_api().DrainAgent(Named<v1::DrainAgentRequest>(name)).status();
  }

  absl::Status UndrainAgent(const std::string& name) {
    return farm_api().UndrainAgent(Named<v1::UndrainAgentRequest>(name)).status();
  }

 private:
  template <typename Request>
  static Request Named(const std::string& name) {
    Request request;
    request.set_name(name);
    return request;
  }
};

}  // namespace tunefarm
