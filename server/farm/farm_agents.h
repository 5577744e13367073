// FarmAgents: looks after the agents of a farm: gives up those that have not been heard for a lease, keeps up with
// those that other control daemons serve, and shows and drains them for people.
//
// Threads: all methods may be called from any thread; what recurs happens on the executor.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/executor.h"
#include "server/farm/control_link.h"
#include "server/farm/device_directory.h"
#include "server/farm/device_orders.h"
#include "server/store/store.h"
#include "tunefarm/v1/farm_service.pb.h"

namespace tunefarm {

class FarmAgents {
 public:
  // The holder of the lease of this name releases lost agents.
  static constexpr char kReaperLease[] = "reaper";

  // All outlive it, and the executor has stopped before it ends. lease_ms 0: there are only agents in this process.
  FarmAgents(Store* store, ControlLink* link, DeviceDirectory* devices, DeviceOrders* orders, Executor* executor,
             int64_t lease_ms)
      : store_(store), link_(link), devices_(devices), orders_(orders), executor_(executor), lease_ms_(lease_ms) {}

  // The agents, and what people say of devices, as the store has them. Its errors.
  absl::Status Load();
  // Looks after them from now on. An agent that could not reach anybody while all control daemons were away gets a
  // whole lease to come back.
  void Start();
  void Stop() { stopped_.store(true); }

  // By display name, then by id.
  absl::StatusOr<std::vector<tunefarm::v1::Agent>> List();
  // `name`: "agents/{id}", an id, its beginning, or a display name that only one has. NotFound (AGENT_NOT_FOUND),
  // InvalidArgument (AGENT_AMBIGUOUS).
  absl::StatusOr<tunefarm::v1::Agent> Drain(std::string_view name, bool draining);

 private:
  void LookAfter(Duration delay);

  Store* const store_;
  ControlLink* const link_;
  DeviceDirectory* const devices_;
  DeviceOrders* const orders_;
  Executor* const executor_;
  const int64_t lease_ms_;
  std::atomic<bool> stopped_{false};
};

}  // namespace tunefarm
