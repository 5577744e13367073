// The gRPC adapter: listens, asks who calls before it reads a request, hands each call to the class of server/api that
// answers it, and translates absl::Status into grpc::Status with an ErrorDetail. What calls and connections take is
// bounded (api/call_limits.h, server.cc).
//
// Threads: Start and Shutdown from one thread. Calls that are answered from memory run on the threads that take calls;
// those that may take seconds run on others, so that look-ups never queue behind them.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/access/gate.h"
#include "server/api/public_calls.h"
#include "server/base/clock.h"
#include "server/rpc/tls.h"

namespace tunefarm {

class CallLimits;
class ControlLink;

struct RpcServerOptions {
  // "unix:/path" or "127.0.0.1:7070". At least one, and all of one of these kinds.
  std::vector<std::string> addresses;
  // What calls on these addresses may do (without TLS): everything, or what the client socket may.
  bool is_admin = false;
  // Serves agents of other machines, too; null: none. Outlives the server.
  ControlLink* agents = nullptr;
  // Serve TLS: the caller presents a certificate or a token. Else the listener is the identity.
  std::optional<TlsFiles> tls = std::nullopt;
  // Plain text that others on the way can read; agents may use it too.
  bool is_insecure = false;
  // Who may do what; outlives the server. Null: the listener's identity decides, and nothing is written down.
  const Gate* gate = nullptr;
  // Of all listeners of the process; outlives the server. Null: limits of its own.
  CallLimits* limits = nullptr;
  // How long a request may take to arrive; then its call is cancelled.
  Duration request_time_max = std::chrono::minutes(2);
};

class RpcServer {
 public:
  // Binds and serves. Unix sockets get mode 0600 (admin) or 0660; a stale socket file is replaced, which is safe
  // because the caller holds the data directory's lock. Unavailable with the address when one cannot be bound.
  static absl::StatusOr<std::unique_ptr<RpcServer>> Start(const RpcServices& services, Clock* clock,
                                                          const RpcServerOptions& options);

  // Shutdown.
  ~RpcServer();

  // What it really listens on ("127.0.0.1:7070" with the port chosen for :0).
  const std::vector<std::string>& addresses() const;

  // Health answers NOT_SERVING from now on; calls still work. Before a drain.
  void SetNotServing();
  // Refuses new calls, gives open ones `grace` to end, then cancels them. May be called again.
  void Shutdown(Duration grace);

 private:
  struct Impl;
  explicit RpcServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tunefarm
