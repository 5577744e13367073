// FarmApi: the calls of DeviceService and FarmService. Devices, known device classes and agents are listed, agents
// drained, and devices taken out of service and released.
//
// Thread-safe. What changes something returns when the change is durable.
#pragma once

#include "absl/status/statusor.h"
#include "server/farm/device_directory.h"
#include "server/farm/device_orders.h"
#include "server/farm/farm_agents.h"
#include "server/jobs/scheduler.h"
#include "tunefarm/v1/device_service.pb.h"
#include "tunefarm/v1/farm_service.pb.h"

namespace tunefarm {

class FarmApi {
 public:
  // All outlive it. `scheduler` tells those who watch jobs that these now wait for a device.
  FarmApi(FarmAgents* agents, const DeviceDirectory* devices, DeviceOrders* orders, Scheduler* scheduler)
      : agents_(agents), devices_(devices), orders_(orders), scheduler_(scheduler) {}

  // GPUs first. InvalidArgument (PAGE_TOKEN_INVALID).
  absl::StatusOr<v1::ListDevicesResponse> ListDevices(const v1::ListDevicesRequest& request);
  absl::StatusOr<v1::ListDeviceClassesResponse> ListDeviceClasses(const v1::ListDeviceClassesRequest& request);
  // Takes a device of any agent out of service until it is released: for all control daemons, and beyond their ends.
  // InvalidArgument (REASON_INVALID), NotFound (DEVICE_NOT_FOUND); the store's errors.
  absl::StatusOr<v1::QuarantineDeviceResponse> QuarantineDevice(const v1::QuarantineDeviceRequest& request);
  // Takes back QuarantineDevice and accepts sentinels that deviate, and tells the device's agent that it is to serve
  // again. A device in service stays so. Answers with the device as it was before. NotFound (DEVICE_NOT_FOUND); the
  // store's errors.
  absl::StatusOr<v1::ReleaseDeviceResponse> ReleaseDevice(const v1::ReleaseDeviceRequest& request);

  // By display name, then by id. InvalidArgument (PAGE_TOKEN_INVALID); the store's errors.
  absl::StatusOr<v1::ListAgentsResponse> ListAgents(const v1::ListAgentsRequest& request);
  // The errors of FarmAgents::Drain.
  absl::StatusOr<v1::DrainAgentResponse> DrainAgent(const v1::DrainAgentRequest& request);
  absl::StatusOr<v1::UndrainAgentResponse> UndrainAgent(const v1::UndrainAgentRequest& request);

 private:
  FarmAgents* const agents_;
  const DeviceDirectory* const devices_;
  DeviceOrders* const orders_;
  Scheduler* const scheduler_;
};

}  // namespace tunefarm
