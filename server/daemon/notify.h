// Readiness notification as systemd defines it (sd_notify(3)): one datagram to the socket that NOTIFY_SOCKET names.
// Does nothing where the variable is unset; never fails the daemon.
#pragma once

#include <string_view>

#include "server/base/xdg.h"

namespace tunefarm {

// `state` is "READY=1", "STOPPING=1", "WATCHDOG=1" or "STATUS=...". May be called from any thread.
void NotifyServiceManager(std::string_view state, const EnvironmentGetter& environment);

}  // namespace tunefarm
