// What this machine has: its devices, found by probe workers, and the settings under which its workers run.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/daemon/config.h"
#include "server/exec/process_evaluator.h"
#include "tunefarm/v1/device.pb.h"

namespace tunefarm {

struct LocalDevices {
  std::vector<v1::Device> devices;
  std::vector<std::string> notes;  // toolchains and what is missing
  std::string sandbox_level;
  bool runs_python = false;
};

// sandbox_level: as probed; empty before.
ProcessEvaluatorOptions EvaluatorOptions(const DaemonConfig& config, const std::string& sandbox_level);

// `host_uuid`: the CPU's, which has none of its own. Blocks while workers probe. A machine whose probe fails has no
// devices and a note; FailedPrecondition only where there is no worker program.
absl::StatusOr<LocalDevices> FindLocalDevices(const DaemonConfig& config,
                                              const std::function<absl::StatusOr<std::string>()>& host_uuid);

// The devices of a farm's machine, with the times of their sentinels (agent/sentinel_run.h) as far as the configuration
// wants them. Blocks for some seconds, at most half a minute: what takes longer is left out.
std::vector<v1::Device> WithSentinels(const DaemonConfig& config, Evaluator* evaluator,
                                      const std::vector<v1::Device>& devices);

}  // namespace tunefarm
