// AgentLink: the only way in which control (jobs, studies, store) and agent (claim, compile, run, report) talk.
// In-process within one daemon; RemoteLink between machines.
//
// Threads: all methods may be called from any thread; all but ClaimWork block until control has answered, which is a
// few milliseconds in process. Errors: Unavailable when control cannot be reached or cannot write (repeat the call);
// others are bugs.
#pragma once

#include <chrono>
#include <functional>

#include "absl/status/statusor.h"
#include "server/base/clock.h"
#include "tunefarm/agent/v1/agent.pb.h"

namespace tunefarm {

// How long compiled trials wait for an answer to ClaimWork before they run: from the first call that brings none, while
// a control daemon is restarted or another one is found.
inline constexpr Duration kAgentClaimPatience = std::chrono::seconds(5);

class AgentLink {
 public:
  virtual ~AgentLink() = default;

  virtual absl::StatusOr<tunefarm::agent::v1::RegisterResponse> Register(
      const tunefarm::agent::v1::RegisterRequest& request) = 0;
  virtual absl::StatusOr<tunefarm::agent::v1::SynchronizeResponse> Synchronize(
      const tunefarm::agent::v1::SynchronizeRequest& request) = 0;
  virtual absl::StatusOr<tunefarm::agent::v1::ReportTrialsResponse> ReportTrials(
      const tunefarm::agent::v1::ReportTrialsRequest& request) = 0;
  virtual absl::StatusOr<tunefarm::agent::v1::FetchKernelResponse> FetchKernel(
      const tunefarm::agent::v1::FetchKernelRequest& request) = 0;

  // `wake` is called, on any thread, when a Synchronize may bring something new (work, a cancel). It must not block. An
  // empty function ends it; no call is under way once SetWake returns.
  virtual void SetWake(std::function<void()> wake) = 0;

  // Whether trials that this agent does not know of may do the same work: of other agents, or of its process before.
  // If so, the agent claims the work of a compiled trial (Trial.work) before it runs it, so that it is measured once.
  // While control is away it stays as control said last, for kAgentClaimPatience.
  virtual bool shares_work() const { return false; }
  // Does not wait for control. `done` is called at most once, on any thread, possibly before this returns, but not
  // after SetWake has returned from removing the wake function. It must not block. With any error nothing is known
  // about the claims, and their trials may run.
  virtual void ClaimWork(const tunefarm::agent::v1::ClaimWorkRequest& /*request*/,
                         const std::function<void(absl::StatusOr<tunefarm::agent::v1::ClaimWorkResponse>)>& done) {
    done(absl::UnimplementedError("this link shares no work"));
  }

  // How long control takes to answer, lately; zero in process. The agent asks for work so much ahead to keep a device
  // busy.
  virtual Duration round_trip() const { return Duration::zero(); }
};

}  // namespace tunefarm
