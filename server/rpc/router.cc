#include "server/rpc/router.h"

#include <grpcpp/impl/codegen/server_callback_handlers.h>
#include <grpcpp/impl/rpc_service_method.h>

#include <deque>

namespace tunefarm {
namespace {

using BidiHandler = grpc::internal::CallbackBidiHandler<grpc::ByteBuffer, grpc::ByteBuffer>;

// Of calls whose request comes with them. The library has handlers for that, whose calls can do less than RawCall: of
// one of them it takes how the request is received, and of the other the call.
class EarlyHandler final : public grpc::internal::MethodHandler {
 public:
  EarlyHandler(const CallSurroundings* around, const Route* route)
      : calls_([around, route](grpc::CallbackServerContext* context) {
          grpc::ByteBuffer none;
          auto* const call = new RawCall(around, route, context, arrived_ != nullptr ? arrived_ : &none);
          // It lies in the call's memory, which may be gone when RunHandler returns.
          if (arrived_ != nullptr) arrived_->~ByteBuffer();
          return call;
        }),
        requests_(nullptr) {}

  void RunHandler(const HandlerParameter& parameter) override {
    arrived_ = static_cast<grpc::ByteBuffer*>(parameter.request);
    calls_.RunHandler(parameter);  // makes the call on this thread
  }
  void* Deserialize(grpc_call* call, grpc_byte_buffer* bytes, grpc::Status* status, void** data) override {
    return requests_.Deserialize(call, bytes, status, data);
  }

 private:
  static thread_local grpc::ByteBuffer* arrived_;

  BidiHandler calls_;
  grpc::internal::CallbackServerStreamingHandler<grpc::ByteBuffer, grpc::ByteBuffer> requests_;
};

thread_local grpc::ByteBuffer* EarlyHandler::arrived_ = nullptr;

}  // namespace

// To gRPC each call has a stream of answers, and but for quick ones of known callers a stream of requests: only then is
// no byte of a request taken before we ask for it. On the wire a call with one of each looks the same.
class Router::Service : public grpc::Service {
 public:
  void Add(const CallSurroundings* around, const Route* route) {
    names_.push_back("/" + route->call);
    const int index = static_cast<int>(names_.size()) - 1;
    const bool is_early = route->is_quick && around->entrance->KnowsCallers();
    using Method = grpc::internal::RpcMethod;
    AddMethod(new grpc::internal::RpcServiceMethod(
        names_.back().c_str(), is_early ? Method::SERVER_STREAMING : Method::BIDI_STREAMING, nullptr));
    if (is_early) {
      MarkMethodRawCallback(index, new EarlyHandler(around, route));
      return;
    }
    MarkMethodRawCallback(index, new BidiHandler([around, route](grpc::CallbackServerContext* context) {
                            return new RawCall(around, route, context);
                          }));
  }

 private:
  std::deque<std::string> names_;  // the library keeps pointers to them
};

void Router::MarkQuick(std::string_view call) {
  for (const auto& route : routes_) route->is_quick = route->is_quick || route->call == call;
}

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
