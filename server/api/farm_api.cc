#include "server/api/farm_api.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "server/api/response_of.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/device/device_class.h"

namespace tunefarm {
namespace {

// A page of a list that is in memory and short: the token is the index of the next item. page_size 0 or less: 50;
// at most 1000.
template <typename Response, typename Request, typename Item>
absl::StatusOr<Response> PageOf(const std::vector<Item>& items, const Request& request, Item* (Response::*add)()) {
  const std::string& token = request.page_token();
  if (token.size() > 9 || token.find_first_not_of("0123456789") != std::string::npos) {
    return WithReason(InvalidArgument("page token '{}' is not one of this list", token), "PAGE_TOKEN_INVALID");
  }
  size_t index = token.empty() ? 0 : std::stoul(token);
  const size_t end = index + static_cast<size_t>(request.page_size() <= 0 ? 50 : std::min(request.page_size(), 1000));
  Response response;
  for (; index < items.size() && index < end; ++index) *(response.*add)() = items[index];
  if (index < items.size()) response.set_next_page_token(std::to_string(index));
  return response;
}

}  // namespace

absl::StatusOr<v1::ListDevicesResponse> FarmApi::ListDevices(const v1::ListDevicesRequest& request) {
  return PageOf(devices_->List(), request, &v1::ListDevicesResponse::add_devices);
}

absl::StatusOr<v1::ListDeviceClassesResponse> FarmApi::ListDeviceClasses(
    const v1::ListDeviceClassesRequest& /*request*/) {
  v1::ListDeviceClassesResponse response;
  for (const KnownClass& known : KnownClasses()) {
    v1::KnownDeviceClass* added = response.add_classes();
    added->set_short_name(std::string(known.short_name));
    *added->mutable_device_class() = known.device_class.ToProto();
  }
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
  scheduler_->TellWaiting();
  return ResponseOf(devices_->Get(request.name()), &v1::QuarantineDeviceResponse::mutable_device);
}

absl::StatusOr<v1::ReleaseDeviceResponse> FarmApi::ReleaseDevice(const v1::ReleaseDeviceRequest& request) {
  v1::ReleaseDeviceResponse response;
  ASSIGN_OR_RETURN(*response.mutable_device(), devices_->Get(request.name()));
  RETURN_IF_ERROR(orders_->Release(response.device().uuid()));
  return response;
}

absl::StatusOr<v1::ListAgentsResponse> FarmApi::ListAgents(const v1::ListAgentsRequest& request) {
  ASSIGN_OR_RETURN(const std::vector<v1::Agent> agents, agents_->List());
  return PageOf(agents, request, &v1::ListAgentsResponse::add_agents);
}

absl::StatusOr<v1::DrainAgentResponse> FarmApi::DrainAgent(const v1::DrainAgentRequest& request) {
  return ResponseOf(agents_->Drain(request.name(), true), &v1::DrainAgentResponse::mutable_agent);
}

absl::StatusOr<v1::UndrainAgentResponse> FarmApi::UndrainAgent(const v1::UndrainAgentRequest& request) {
  return ResponseOf(agents_->Drain(request.name(), false), &v1::UndrainAgentResponse::mutable_agent);
}

}  // namespace tunefarm
