// ControlChannel over gRPC. Connections that say nothing are probed, so that a machine that is gone is noticed within
// 80 seconds also by a call that waits.
//
// Thread-safe. The channel connects with its first call, and again after a loss with gRPC's own back-off, which is kept
// short: ControlList decides how often to try.
#pragma once

#include <memory>
#include <string>

#include "server/agent/control_channel.h"
#include "server/dial/dial_options.h"

namespace tunefarm {

// One channel. What keeps it from being made (a file that is gone) is Unavailable to every call; a list of controls
// then goes on to the next, and comes back with a new one.
std::shared_ptr<ControlChannel> DialControl(const DialOptions& options);

}  // namespace tunefarm
