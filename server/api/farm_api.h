// FarmApi: the calls of FarmService. Agents are listed and drained, and devices taken out of service.
//
// Thread-safe. What changes something returns when the change is durable.
#pragma once

#include "absl/status/statusor.h"
#include "server/farm/device_directory.h"
#include "server/farm/device_orders.h"
#include "server/farm/farm_agents.h"
#include "server/jobs/driver.h"
#include "tunefarm/v1/farm_service.pb.h"

namespace tunefarm {

class FarmApi {
 public:
  // All outlive it. `driver` tells those who watch jobs that these now wait for a device.
  FarmApi(FarmAgents* agents, const DeviceDirectory* devices, DeviceOrders* orders, Driver* driver)
      : agents_(agents), devices_(devices), orders_(orders), driver_(driver) {}

  // By display name, then by id. InvalidArgument (PAGE_TOKEN_INVALID); the store's errors.
  absl::StatusOr<v1::ListAgentsResponse> ListAgents(const v1::ListAgentsRequest& request);
  // The errors of FarmAgents::Drain.
  absl::StatusOr<v1::DrainAgentResponse> DrainAgent(const v1::DrainAgentRequest& request);
  absl::StatusOr<v1::UndrainAgentResponse> UndrainAgent(const v1::UndrainAgentRequest& request);
  // Takes a device of any agent out of service until it is released: for all control daemons, and beyond their ends.
  // InvalidArgument (REASON_INVALID), NotFound (DEVICE_NOT_FOUND); the store's errors.
  absl::StatusOr<v1::QuarantineDeviceResponse> QuarantineDevice(const v1::QuarantineDeviceRequest& request);

 private:
  FarmAgents* const agents_;
  const DeviceDirectory* const devices_;
  DeviceOrders* const orders_;
  Driver* const driver_;
};

}  // namespace tunefarm
