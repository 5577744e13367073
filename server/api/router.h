// Router: which call is answered by what, and where. The one list of calls that the transports of a listener serve.
//
// Threads: all is added by one thread, before the transport starts; Find by any. The router outlives the transport.
#pragma once

#include <google/protobuf/message.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "server/api/call.h"
#include "server/api/call_limits.h"
#include "server/api/wire_scan.h"
#include "server/base/check.h"
#include "server/base/clock.h"
#include "server/base/status.h"
#include "server/base/work_limit.h"

namespace tunefarm {

// The processor time of a call that searches a space; after the quick one it makes way for other calls.
inline constexpr Duration kSpaceTimeQuick = std::chrono::seconds(3);
inline constexpr Duration kSpaceTimeMax = std::chrono::seconds(15);

// What is known of a method.
struct Route {
  std::string call;  // "tunefarm.v1.TuningService/CreateJob"
  CallKind kind = CallKind::kCall;
  Lane lane;
  const google::protobuf::Message* prototype = nullptr;  // of the request
  const WireShape* shape = nullptr;
  // Answers with Call::Answer, at once or later. The request lives as long as this runs.
  std::function<void(Call* call, const google::protobuf::Message& request)> run;
  // Set: answers at once, to everybody, whatever is asked: no byte of the request is read. The serialized answer.
  std::function<std::string()> probe;
};

class Router {
 public:
  Router() = default;
  Router(const Router&) = delete;
  Router& operator=(const Router&) = delete;

  // `run`: StatusOr<Response>(const CallContext&, const Request&). `counts`: as open, for the idle exit.
  template <typename Request, typename Run>
  void Add(std::string_view call, CallKind kind, Lane lane, Run run, bool counts = true) {
    Put<Request>(call, kind, lane, [run, counts](Call* pending, const google::protobuf::Message& message) {
      const auto& request = static_cast<const Request&>(message);
      const auto answer = [&] {
        std::optional<OpenCalls::Call> open;
        if (counts) open.emplace(pending->open_calls());
        return run(pending->caller(), request);
      }();
      pending->Answer(&request, answer.status(), answer.ok() ? &*answer : nullptr);
    });
  }

  // One that searches a space: the same, but `run` may be called again, on a slow thread of the lane, where the first
  // time took longer than kSpaceTimeQuick, and is asked to end when nobody waits any more.
  template <typename Request, typename Run>
  void AddOfSpace(std::string_view call, Lane lane, Run run) {
    Put<Request>(call, CallKind::kCall, lane, [run, lane](Call* pending, const google::protobuf::Message& message) {
      // False: it takes longer than `give_up_after`.
      const auto answer = [run, pending](const Request& request, Duration give_up_after) {
        CallContext context = pending->caller();
        context.grant = {.processor_time = kSpaceTimeMax, .give_up_after = give_up_after, .is_cancelled = [pending] {
                           return !pending->IsAwaited();
                         }};
        const OpenCalls::Call open(pending->open_calls());
        const auto result = run(context, request);
        if (give_up_after < kSpaceTimeMax && ReasonOf(result.status()) == kWorkLimitReason) return false;
        pending->Answer(&request, result.status(), result.ok() ? &*result : nullptr);
        return true;
      };
      const auto& request = static_cast<const Request&>(message);
      if (answer(request, kSpaceTimeQuick)) return;
      lane.threads->PostSlow(pending->caller().principal.name,
                             [answer, pending, kept = std::make_shared<Request>(request)] {
                               if (!pending->IsAwaited()) return pending->GiveUp();
                               answer(*kept, Duration::max());
                             });
    });
  }

  // One that memory may answer, at once; else `run` does on a thread of the lane. `from_memory`: std::optional of a
  // response, or of what converts to one, for a const Request&.
  template <typename Request, typename FromMemory, typename Run>
  void AddRead(std::string_view call, Lane lane, FromMemory from_memory, Run run) {
    Put<Request>(call, CallKind::kCall, Lane(), [=](Call* pending, const google::protobuf::Message& message) {
      const auto& request = static_cast<const Request&>(message);
      const auto known = [&] {
        const OpenCalls::Call open(pending->open_calls());
        return from_memory(request);
      }();
      if (known.has_value()) {
        const google::protobuf::Message& response = *known;
        return pending->Answer(&request, absl::OkStatus(), &response);
      }
      pending->Defer(lane, [run, pending, kept = std::make_shared<Request>(request)] {
        const auto answer = [&] {
          const OpenCalls::Call open(pending->open_calls());
          return run(*kept);
        }();
        pending->Answer(kept.get(), answer.status(), answer.ok() ? &*answer : nullptr);
      });
    });
  }

  // One that is answered later. `run`: void(const Request&, std::function<void(Response)> done), with `done` called
  // once.
  template <typename Request, typename Response, typename Run>
  void AddDeferred(std::string_view call, CallKind kind, Run run) {
    Put<Request>(call, kind, Lane(), [run](Call* pending, const google::protobuf::Message& message) {
      run(static_cast<const Request&>(message),
          [pending](const Response& response) { pending->Answer(nullptr, absl::OkStatus(), &response); });
    });
  }

  // One with a way of its own to answer.
  template <typename Request>
  void Put(std::string_view call, CallKind kind, Lane lane,
           std::function<void(Call*, const google::protobuf::Message&)> run) {
    auto route = std::make_unique<Route>();
    route->call = std::string(call);
    route->kind = kind;
    route->lane = lane;
    route->prototype = &Request::default_instance();
    route->shape = WireShape::Of(Request::descriptor());
    route->run = std::move(run);
    Put(std::move(route));
  }

  // `answer`: as Route::probe.
  void AddProbe(std::string_view call, std::function<std::string()> answer) {
    auto route = std::make_unique<Route>();
    route->call = std::string(call);
    route->probe = std::move(answer);
    Put(std::move(route));
  }

  // Null: it answers no such call.
  const Route* Find(std::string_view call) const {
    const auto route = routes_.find(call);
    return route == routes_.end() ? nullptr : route->second.get();
  }

  // By their names.
  const std::map<std::string, std::unique_ptr<Route>, std::less<>>& routes() const { return routes_; }

 private:
  void Put(std::unique_ptr<Route> route) {
    std::string call = route->call;
    TUNEFARM_CHECK(routes_.emplace(std::move(call), std::move(route)).second);  // each call has one answer
  }

  std::map<std::string, std::unique_ptr<Route>, std::less<>> routes_;
};

}  // namespace tunefarm
