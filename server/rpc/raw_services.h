// The gRPC services of a router: gRPC hands them the bytes of each call, and RawCall does the rest.
#pragma once

#include <grpcpp/impl/service_type.h>

#include <memory>
#include <vector>

#include "server/api/router.h"
#include "server/rpc/raw_call.h"

namespace tunefarm {

// One for each service, each to be registered with one server, once. Both arguments outlive the server.
std::vector<std::unique_ptr<grpc::Service>> MakeServices(const Router& router, const CallSurroundings* around);

}  // namespace tunefarm
