// LinkHooks: what a ControlLink tells those who drive jobs.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "server/farm/device_directory.h"
#include "tunefarm/v1/trial.pb.h"

namespace tunefarm {

// Called on the thread of the call that causes them, with no lock held. They must not block.
struct LinkHooks {
  // Trials were stored (maybe none), and whether that made the unit DONE.
  std::function<void(int64_t study_id, int64_t unit_id, std::vector<tunefarm::v1::Trial> trials, bool done)> reported;
  // Units of the job were handed out.
  std::function<void(int64_t job_id)> claimed;
  // A unit that was taken back, or that the agent gave back, has left the agent.
  std::function<void(int64_t job_id)> gone;
  // An agent on another machine brings devices, which are not in the directory yet; may be empty.
  std::function<absl::Status(const AgentDevices& agent)> brought = nullptr;
  // Devices of agents have gone, or their agents report another state of them; may be empty.
  std::function<void()> devices_changed = nullptr;
};

}  // namespace tunefarm
