#include "server/rpc/router.h"

#include <grpcpp/impl/codegen/server_callback_handlers.h>
#include <grpcpp/impl/rpc_service_method.h>

#include <deque>

namespace tunefarm {

// To gRPC each call has a stream of requests and one of answers: only then is no byte of a request taken before we ask
// for it. On the wire a call with one of each looks the same.
class Router::Service : public grpc::Service {
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

void Router::AddProbe(std::string_view call, std::function<std::string()> answer) {
  auto route = std::make_unique<Route>();
  route->call = std::string(call);
  route->probe = std::move(answer);
  routes_.push_back(std::move(route));
}

std::vector<std::unique_ptr<grpc::Service>> Router::MakeServices() const {
  std::map<std::string, std::unique_ptr<Service>> by_name;
  for (const auto& route : routes_) {
    std::unique_ptr<Service>& service = by_name[route->call.substr(0, route->call.find('/'))];
    if (service == nullptr) service = std::make_unique<Service>();
    service->Add(&around_, route.get());
  }
  std::vector<std::unique_ptr<grpc::Service>> services;
  for (auto& [name, service] : by_name) services.push_back(std::move(service));
  return services;
}

}  // namespace tunefarm
