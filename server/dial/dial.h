// Dial: a gRPC channel to a daemon, with TLS and whatever proves who calls.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>

#include "absl/status/statusor.h"
#include "server/base/clock.h"
#include "server/dial/dial_options.h"

namespace tunefarm {

// Connects when first used. Certificates that are replaced on disk are read again, within seconds, for new connections.
// Errors as Checked; InvalidArgument or ErrnoStatus for files that are of no use. Thread-safe.
absl::StatusOr<std::shared_ptr<grpc::Channel>> Dial(const DialOptions& options,
                                                    const grpc::ChannelArguments& arguments);

// How long a channel that lost its daemon pauses before it tries again: `first`, then longer, `longest` at most. gRPC's
// own pauses grow to two minutes, in which a daemon that is back is not found.
void SetReconnectPauses(Duration first, Duration longest, grpc::ChannelArguments* arguments);

}  // namespace tunefarm
