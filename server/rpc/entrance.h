// Entrance: what every call of the adapter goes through first (RawCall): from gRPC's view of the caller to the Gate's,
// and back with who it is.
//
// Threads: all methods from any thread.
#pragma once

#include <google/protobuf/message.h>
#include <grpcpp/grpcpp.h>

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/access/gate.h"
#include "server/access/principal.h"
#include "server/api/call.h"

namespace tunefarm {

// What is the same for all calls of one listener.
struct Listener {
  std::optional<Principal> identity;  // of every client that can reach it; none: with TLS
  bool is_readable = false;           // plain text on a network
};

class Entrance {
 public:
  // The gate outlives it.
  Entrance(const Gate* gate, Listener listener) : gate_(gate), listener_(std::move(listener)) {}

  // `call`: the service's full name and the method's. As Gate::Admit.
  absl::StatusOr<CallContext> Authorize(const grpc::ServerContextBase& context, std::string_view call) const;

  // After the call. As Gate::Record; both messages may be null.
  void Record(const CallContext& context, std::string_view call, const google::protobuf::Message* request,
              const google::protobuf::Message* response, const absl::Status& outcome) const;

  const Gate& gate() const { return *gate_; }

 private:
  const Gate* const gate_;
  const Listener listener_;
};

}  // namespace tunefarm
