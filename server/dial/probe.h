// One attempt to connect to a daemon with plain sockets, which says what gRPC does not: whether there is a socket, who
// may open it, whether anybody answers.
//
// The functions may be called from any thread and block for at most some seconds.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "server/base/unique_fd.h"

namespace tunefarm {

struct HostPort {
  std::string host;  // IPv6 without brackets
  std::string port;
};
// Of "host:port", as CheckAddress accepts it.
HostPort SplitAddress(const std::string& address);

// 0: somebody listens on the Unix socket (also where the queue of connections is full); else the errno of connect().
// Never waits.
int UnixSocketError(const std::string& path);

// A connected socket whose reads and writes give up after 3 s. Unavailable with the reasons of ExplainUnreachable.
absl::StatusOr<UniqueFd> ConnectTo(const std::string& address);

// The error for a process that accepts connections and says nothing.
absl::Status DoesNotAnswer(const std::string& address);

}  // namespace tunefarm
