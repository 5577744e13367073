// Router: which call is answered by what, and where. A listener's services are made of it: gRPC hands them the bytes of
// each call, and RawCall does the rest.
//
// All is added before MakeServices, by one thread; the router outlives the gRPC server.
#pragma once

#include <google/protobuf/message.h>
#include <grpcpp/impl/service_type.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/clock.h"
#include "server/base/status.h"
#include "server/base/work_limit.h"
#include "server/rpc/raw_call.h"

namespace tunefarm {

// The processor time of a call that searches a space; after the quick one it makes way for other calls.
inline constexpr Duration kSpaceTimeQuick = std::chrono::seconds(3);
inline constexpr Duration kSpaceTimeMax = std::chrono::seconds(15);

class Router {
 public:
  explicit Router(const CallSurroundings& around) : around_(around) {}
  Router(const Router&) = delete;
  Router& operator=(const Router&) = delete;

  // `run`: StatusOr<Response>(const CallContext&, const Request&). `counts`: as open, for the idle exit.
  template <typename Request, typename Run>
  void Add(std::string_view call, CallKind kind, Lane lane, Run run, bool counts = true) {
    Put<Request>(call, kind, lane, [run, counts](RawCall* raw, const google::protobuf::Message& message) {
      const auto& request = static_cast<const Request&>(message);
      const auto answer = [&] {
        std::optional<OpenCalls::Call> open;
        if (counts) open.emplace(raw->around().open_calls);
        return run(raw->caller(), request);
      }();
      raw->Answer(&request, answer.status(), answer.ok() ? &*answer : nullptr);
    });
  }

  // One that searches a space: the same, but `run` may be called again, on a slow thread of the lane, where the first
  // time took longer than kSpaceTimeQuick, and is asked to end when nobody waits any more.
  template <typename Request, typename Run>
  void AddOfSpace(std::string_view call, Lane lane, Run run) {
    Put<Request>(call, CallKind::kCall, lane, [run, lane](RawCall* raw, const google::protobuf::Message& message) {
      // False: it takes longer than `give_up_after`.
      const auto answer = [run, raw](const Request& request, Duration give_up_after) {
        CallContext context = raw->caller();
        context.grant = {.processor_time = kSpaceTimeMax, .give_up_after = give_up_after, .is_cancelled = [raw] {
                           return !raw->IsAwaited();
                         }};
        const OpenCalls::Call open(raw->around().open_calls);
        const auto result = run(context, request);
        if (give_up_after < kSpaceTimeMax && ReasonOf(result.status()) == kWorkLimitReason) return false;
        raw->Answer(&request, result.status(), result.ok() ? &*result : nullptr);
        return true;
      };
      const auto& request = static_cast<const Request&>(message);
      if (answer(request, kSpaceTimeQuick)) return;
      lane.threads->PostSlow(raw->caller().principal.name, [answer, raw, kept = std::make_shared<Request>(request)] {
        if (!raw->IsAwaited()) return raw->GiveUp();
        answer(*kept, Duration::max());
      });
    });
  }

  // One that is answered later. `run`: void(const Request&, std::function<void(Response)> done), with `done` called
  // once.
  template <typename Request, typename Response, typename Run>
  void AddDeferred(std::string_view call, CallKind kind, Run run) {
    Put<Request>(call, kind, Lane(), [run](RawCall* raw, const google::protobuf::Message& message) {
      run(static_cast<const Request&>(message),
          [raw](const Response& response) { raw->Answer(nullptr, absl::OkStatus(), &response); });
    });
  }

  // `make`: std::unique_ptr<RawStream>(RawCall*, const Request&).
  template <typename Request, typename Make>
  void AddStream(std::string_view call, Make make) {
    Put<Request>(call, CallKind::kStream, Lane(), [make](RawCall* raw, const google::protobuf::Message& message) {
      raw->Stream(make(raw, static_cast<const Request&>(message)));
    });
  }

  // Answered at once with the bytes, without identity: no byte of its request is read.
  void AddProbe(std::string_view call, std::function<std::string()> answer);

  // One for each service. Each is registered with one server; once.
  std::vector<std::unique_ptr<grpc::Service>> MakeServices() const;

 private:
  class Service;

  template <typename Request>
  void Put(std::string_view call, CallKind kind, Lane lane,
           std::function<void(RawCall*, const google::protobuf::Message&)> run) {
    auto route = std::make_unique<Route>();
    route->call = std::string(call);
    route->kind = kind;
    route->lane = lane;
    route->prototype = &Request::default_instance();
    route->shape = WireShape::Of(Request::descriptor());
    route->run = std::move(run);
    routes_.push_back(std::move(route));
  }

  const CallSurroundings around_;
  std::vector<std::unique_ptr<Route>> routes_;
};

}  // namespace tunefarm
