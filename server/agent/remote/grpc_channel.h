// ControlChannel over gRPC. Connections that say nothing are probed, so that a machine that is gone is noticed within
// 80 seconds also by a call that waits.
//
// Thread-safe. The channel connects with its first call, and again after a loss with gRPC's own back-off, which is kept
// short: ControlList decides how often to try.
#pragma once

#include <grpcpp/security/credentials.h>

#include <memory>
#include <string>

#include "server/agent/control_channel.h"

namespace tunefarm {

// One channel to the address ("host:port" or "unix:/path").
std::shared_ptr<ControlChannel> DialControl(const std::string& address,
                                            std::shared_ptr<grpc::ChannelCredentials> credentials);

// What agents show and demand of control daemons.
std::shared_ptr<grpc::ChannelCredentials> ControlCredentials();

}  // namespace tunefarm
