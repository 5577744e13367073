#include "server/rpc/agent_calls.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "tunefarm/agent/v1/agent.pb.h"

namespace tunefarm {
namespace {

namespace wire = tunefarm::agent::v1;

// They wait for the store's disk most of the time: what waits together is made durable together.
constexpr int kThreads = 14;
// Of ClaimWork; agents of one principal use at most two of them at a time (ThreadPool). Claims of one study follow one
// another in the store: more threads would only wait there, each with a connection to the database.
constexpr int kWorkThreads = 3;
constexpr int kWaitMsMax = 10'000;
// Of work that waits for a thread: an agent that is told to come back does so.
constexpr Duration kQueueTimeMax = std::chrono::seconds(20);

template <typename Request, typename Response>
void AddCall(Router* router, std::string_view call, Lane lane, ControlLink* link,
             absl::StatusOr<Response> (ControlLink::*method)(const Request&)) {
  router->Add<Request>(
      call, CallKind::kAgentCall, lane,
      [link, method](const CallContext& /*context*/, const Request& request) { return (link->*method)(request); },
      false);
}

}  // namespace

AgentCalls::AgentCalls(ControlLink* link, Clock* clock)
    : link_(link),
      timers_("rpc-agent-wait", clock),
      threads_("rpc-agent", kThreads),
      work_threads_("rpc-work", kWorkThreads) {}

void AgentCalls::AddTo(Router* router) {
  const Lane lane{&threads_, kQueueTimeMax};
  AddCall(router, "tunefarm.agent.v1.AgentService/Register", lane, link_, &ControlLink::RegisterRemote);
  AddCall(router, "tunefarm.agent.v1.AgentService/Synchronize", lane, link_, &ControlLink::Synchronize);
  AddCall(router, "tunefarm.agent.v1.AgentService/ClaimWork", Lane{&work_threads_, kAgentClaimPatience}, link_,
          &ControlLink::ClaimWork);
  AddCall(router, "tunefarm.agent.v1.AgentService/ReportUnits", lane, link_, &ControlLink::ReportUnits);
  AddCall(router, "tunefarm.agent.v1.AgentService/FetchKernel", lane, link_, &ControlLink::FetchKernel);
  AddCall(router, "tunefarm.agent.v1.AgentService/TakeCompiles", lane, link_, &ControlLink::TakeCompiles);
  AddCall(router, "tunefarm.agent.v1.AgentService/OfferBinary", lane, link_, &ControlLink::OfferBinary);
  AddCall(router, "tunefarm.agent.v1.AgentService/FetchBinary", lane, link_, &ControlLink::FetchBinary);
  AddCall(router, "tunefarm.agent.v1.AgentService/FetchDataFile", lane, link_, &ControlLink::FetchDataFile);
  AddCall(router, "tunefarm.agent.v1.AgentService/Deregister", lane, link_, &ControlLink::Deregister);
  router->AddDeferred<wire::WaitRequest, wire::WaitResponse>(
      "tunefarm.agent.v1.AgentService/Wait", CallKind::kAgentCall,
      [this](const wire::WaitRequest& request, const std::function<void(wire::WaitResponse)>& done) {
        const std::string agent_id = request.agent_id();
        const int wait_ms = std::clamp(request.wait_ms(), 0, kWaitMsMax);
        const uint64_t ticket = link_->Wait(request, done);
        // A timer that comes too late finds another ticket, and does nothing.
        if (ticket != 0) {
          timers_.PostAfter(std::chrono::milliseconds(wait_ms),
                            [link = link_, agent_id, ticket] { link->ExpireWait(agent_id, ticket); });
        }
      });
}

}  // namespace tunefarm
