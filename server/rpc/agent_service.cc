#include "server/rpc/agent_service.h"

#include <fmt/core.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <utility>

#include "server/base/executor.h"
#include "server/base/mutex.h"
#include "server/base/status.h"
#include "server/rpc/entrance.h"
#include "server/rpc/status.h"
#include "tunefarm/agent/v1/agent.grpc.pb.h"

namespace tunefarm {
namespace {

namespace wire = tunefarm::agent::v1;

// They wait for the store's disk most of the time: what waits together is made durable together.
constexpr int kLanes = 14;
constexpr int kWaitMsMax = 10'000;
// Of work that waits for a thread: an agent that is told to come back does so.
constexpr Duration kQueueTimeMax = std::chrono::seconds(20);

}  // namespace

class AgentServiceAdapter::Service : public wire::AgentService::CallbackService {
 public:
  Service(ControlLink* link, const Entrance* entrance, Clock* clock)
      : link_(link), entrance_(entrance), clock_(clock), timers_("rpc-agent-wait", clock) {
    for (size_t i = 0; i < lanes_.size(); ++i) {
      lanes_[i] = std::make_unique<ThreadExecutor>(fmt::format("rpc-agent-{}", i), clock);
    }
  }

  grpc::ServerUnaryReactor* Register(grpc::CallbackServerContext* call, const wire::RegisterRequest* request,
                                     wire::RegisterResponse* response) override {
    return InLane(call, "tunefarm.agent.v1.AgentService/Register", request, response, &ControlLink::RegisterRemote);
  }
  grpc::ServerUnaryReactor* Synchronize(grpc::CallbackServerContext* call, const wire::SynchronizeRequest* request,
                                        wire::SynchronizeResponse* response) override {
    return InLane(call, "tunefarm.agent.v1.AgentService/Synchronize", request, response, &ControlLink::Synchronize);
  }
  grpc::ServerUnaryReactor* ReportUnits(grpc::CallbackServerContext* call, const wire::ReportUnitsRequest* request,
                                        wire::ReportUnitsResponse* response) override {
    return InLane(call, "tunefarm.agent.v1.AgentService/ReportUnits", request, response, &ControlLink::ReportUnits);
  }
  grpc::ServerUnaryReactor* FetchKernel(grpc::CallbackServerContext* call, const wire::FetchKernelRequest* request,
                                        wire::FetchKernelResponse* response) override {
    return InLane(call, "tunefarm.agent.v1.AgentService/FetchKernel", request, response, &ControlLink::FetchKernel);
  }
  grpc::ServerUnaryReactor* TakeCompiles(grpc::CallbackServerContext* call, const wire::TakeCompilesRequest* request,
                                         wire::TakeCompilesResponse* response) override {
    return InLane(call, "tunefarm.agent.v1.AgentService/TakeCompiles", request, response, &ControlLink::TakeCompiles);
  }
  grpc::ServerUnaryReactor* OfferBinary(grpc::CallbackServerContext* call, const wire::OfferBinaryRequest* request,
                                        wire::OfferBinaryResponse* response) override {
    return InLane(call, "tunefarm.agent.v1.AgentService/OfferBinary", request, response, &ControlLink::OfferBinary);
  }
  grpc::ServerUnaryReactor* FetchBinary(grpc::CallbackServerContext* call, const wire::FetchBinaryRequest* request,
                                        wire::FetchBinaryResponse* response) override {
    return InLane(call, "tunefarm.agent.v1.AgentService/FetchBinary", request, response, &ControlLink::FetchBinary);
  }
  grpc::ServerUnaryReactor* Deregister(grpc::CallbackServerContext* call, const wire::DeregisterRequest* request,
                                       wire::DeregisterResponse* response) override {
    return InLane(call, "tunefarm.agent.v1.AgentService/Deregister", request, response, &ControlLink::Deregister);
  }

  grpc::ServerUnaryReactor* Wait(grpc::CallbackServerContext* call, const wire::WaitRequest* request,
                                 wire::WaitResponse* response) override {
    grpc::ServerUnaryReactor* reactor = call->DefaultReactor();
    const auto context = entrance_->Authorize(*call, "tunefarm.agent.v1.AgentService/Wait");
    if (!context.ok()) {
      reactor->Finish(ToGrpc(context.status()));
      return reactor;
    }
    const std::string agent_id = request->agent_id();
    const int wait_ms = std::clamp(request->wait_ms(), 0, kWaitMsMax);
    const uint64_t ticket = link_->Wait(*request, [reactor, response](wire::WaitResponse answer) {
      *response = std::move(answer);
      reactor->Finish(grpc::Status::OK);
    });
    // A timer that comes too late finds another ticket, and does nothing.
    if (ticket != 0) {
      timers_.PostAfter(std::chrono::milliseconds(wait_ms),
                        [link = link_, agent_id, ticket] { link->ExpireWait(agent_id, ticket); });
    }
    return reactor;
  }

 private:
  template <typename Request, typename Response>
  grpc::ServerUnaryReactor* InLane(grpc::CallbackServerContext* call, std::string_view name, const Request* request,
                                   Response* response,
                                   absl::StatusOr<Response> (ControlLink::*method)(const Request&)) {
    grpc::ServerUnaryReactor* reactor = call->DefaultReactor();
    absl::StatusOr<CallContext> context = entrance_->Authorize(*call, name);
    if (!context.ok()) {
      reactor->Finish(ToGrpc(context.status()));
      return reactor;
    }
    const MonotonicTime deadline = clock_->Now() + kQueueTimeMax;
    lanes_[next_.fetch_add(1) % lanes_.size()]->Post([=, this, context = *std::move(context)] {
      if (call->IsCancelled() || clock_->Now() > deadline) {
        reactor->Finish(ToGrpc(Unavailable("control has more to do than it can; try again later")));
        return;
      }
      absl::StatusOr<Response> answer = (link_->*method)(*request);
      entrance_->Record(context, name, request, answer.ok() ? &*answer : nullptr, answer.status());
      if (answer.ok()) *response = *std::move(answer);
      reactor->Finish(ToGrpc(answer.status()));
    });
    return reactor;
  }

  ControlLink* const link_;
  const Entrance* const entrance_;
  Clock* const clock_;
  ThreadExecutor timers_;
  std::array<std::unique_ptr<ThreadExecutor>, kLanes> lanes_;
  std::atomic<unsigned> next_{0};
};

AgentServiceAdapter::AgentServiceAdapter(ControlLink* link, const Entrance* entrance, Clock* clock)
    : service_(std::make_unique<Service>(link, entrance, clock)) {}
AgentServiceAdapter::~AgentServiceAdapter() = default;

grpc::Service* AgentServiceAdapter::service() { return service_.get(); }

}  // namespace tunefarm
