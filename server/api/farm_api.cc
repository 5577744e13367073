#include "server/api/farm_api.h"

#include <vector>

#include "server/api/page_of.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm {

absl::StatusOr<v1::ListAgentsResponse> FarmApi::ListAgents(const v1::ListAgentsRequest& request) {
  ASSIGN_OR_RETURN(const std::vector<v1::Agent> agents, agents_->List());
  return PageOf<v1::ListAgentsResponse>(
      agents, request.page_size(), request.page_token(),
      [](const v1::Agent& agent, v1::ListAgentsResponse* response) { *response->add_agents() = agent; });
}

absl::StatusOr<v1::DrainAgentResponse> FarmApi::DrainAgent(const v1::DrainAgentRequest& request) {
  v1::DrainAgentResponse response;
  ASSIGN_OR_RETURN(*response.mutable_agent(), agents_->Drain(request.name(), true));
  return response;
}

absl::StatusOr<v1::UndrainAgentResponse> FarmApi::UndrainAgent(const v1::UndrainAgentRequest& request) {
  v1::UndrainAgentResponse response;
  ASSIGN_OR_RETURN(*response.mutable_agent(), agents_->Drain(request.name(), false));
  return response;
}

absl::StatusOr<v1::QuarantineDeviceResponse> FarmApi::QuarantineDevice(const v1::QuarantineDeviceRequest& request) {
  if (request.reason().empty() || request.reason().size() > 1024) {
    return WithReason(InvalidArgument("the reason has {} bytes; say in 1 to 1024 why the device takes no work",
                                      request.reason().size()),
                      "REASON_INVALID");
  }
  ASSIGN_OR_RETURN(const v1::Device device, devices_->Get(request.name()));
  RETURN_IF_ERROR(orders_->HoldOut(device.uuid(), request.reason()));
  driver_->TellWaiting();
  v1::QuarantineDeviceResponse response;
  ASSIGN_OR_RETURN(*response.mutable_device(), devices_->Get(request.name()));
  return response;
}

}  // namespace tunefarm
