#include "server/daemon/daemon.h"

#include "server/daemon/agent_daemon.h"
#include "server/daemon/control_daemon.h"

namespace tunefarm {

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Start(const DaemonConfig& config,
                                                      const EnvironmentGetter& environment) {
  if (config.role == "agent") return AgentDaemon::Start(config, environment);
  return ControlDaemon::Start(config, environment);
}

}  // namespace tunefarm
