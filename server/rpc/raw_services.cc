#include "server/rpc/raw_services.h"

#include <grpcpp/impl/codegen/server_callback_handlers.h>
#include <grpcpp/impl/rpc_service_method.h>

#include <deque>
#include <map>
#include <string>

#include "server/rpc/raw_call.h"

namespace tunefarm {
namespace {

// To gRPC each call has a stream of requests and one of answers: only then is no byte of a request taken before we ask
// for it. On the wire a call with one of each looks the same.
class RawService : public grpc::Service {
 public:
  void Add(const CallSurroundings* around, const Route* route) {
    using Handler = grpc::internal::CallbackBidiHandler<grpc::ByteBuffer, grpc::ByteBuffer>;
    names_.push_back("/" + route->call);
    const int index = static_cast<int>(names_.size()) - 1;
    AddMethod(new grpc::internal::RpcServiceMethod(names_.back().c_str(), grpc::internal::RpcMethod::BIDI_STREAMING,
                                                   nullptr));
    MarkMethodRawCallback(index, new Handler([around, route](grpc::CallbackServerContext* context) {
                            return new RawCall(around, route, context);
                          }));
  }

 private:
  std::deque<std::string> names_;  // the library keeps pointers to them
};

}  // namespace

std::vector<std::unique_ptr<grpc::Service>> MakeServices(const Router& router, const CallSurroundings* around) {
  std::map<std::string, std::unique_ptr<RawService>> by_name;
  for (const auto& [call, route] : router.routes()) {
    std::unique_ptr<RawService>& service = by_name[call.substr(0, call.find('/'))];
    if (service == nullptr) service = std::make_unique<RawService>();
    service->Add(around, route.get());
  }
  std::vector<std::unique_ptr<grpc::Service>> services;
  for (auto& [name, service] : by_name) services.push_back(std::move(service));
  return services;
}

}  // namespace tunefarm
