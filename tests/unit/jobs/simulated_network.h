// The network between agents and control daemons, as one agent sees it: requests that never arrive, or long after the
// caller has given up; answers that get lost; daemons that cannot be reached. Everything on one thread: while a call is
// on its way, the world runs everybody else.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/agent/control_channel.h"
#include "server/base/clock.h"
#include "server/farm/control_link.h"
#include "tests/unit/jobs/dice.h"

namespace tunefarm {

// What an agent's machine and its network live in.
class NetworkWorld {
 public:
  virtual ~NetworkWorld() = default;
  virtual Dice& dice() = 0;
  virtual MonotonicTime Now() const = 0;
  // Nothing goes wrong any more.
  virtual bool IsCalm() const = 0;
  virtual int nodes() const = 0;
  // Null: the control daemon is down or stands still.
  virtual ControlLink* ControlAt(int node) = 0;
  // Grows when the daemon is started anew: what waited there has gone.
  virtual int BootOf(int node) const = 0;
  // Runs what is the daemon's, on an agent's behalf.
  virtual void InNode(int node, const std::function<void()>& call) = 0;
  // Everybody else goes on for so long.
  virtual void LetPass(Duration time) = 0;
  // Runs it then, on its own.
  virtual void Later(Duration delay, std::function<void()> task) = 0;
};

// What an agent is told of its control daemons.
std::vector<std::string> ControlAddresses(int nodes);

// An agent's side of the network. Lives as long as its machine, over all its agents' lives.
class SimulatedNetwork {
 public:
  struct Counts {
    int lost = 0, late = 0, unanswered = 0, refused = 0;
  };

  explicit SimulatedNetwork(NetworkWorld* world) : world_(world) {}

  ControlDialer Dialer();
  // No call reaches the control daemon until then.
  void CutOff(int node, MonotonicTime until);
  // Whether a wait that was begun may be looked at: it is answered, over, or its daemon has gone.
  bool MayWaitAgain() const;
  // The agent has died: nobody waits any more.
  void Forget() { wait_.reset(); }
  const Counts& counts() const { return counts_; }

 private:
  class Channel;
  struct Waiting {
    int node = 0, boot = 0;
    std::string agent_id;
    int64_t epoch = 0;
    uint64_t ticket = 0;
    MonotonicTime until{};
    std::shared_ptr<std::optional<tunefarm::agent::v1::WaitResponse>> answer;
  };

  bool Reaches(int node) const;
  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(int node, const Request& request,
                                absl::StatusOr<Response> (ControlLink::*method)(const Request&));
  // Arrives when it may, also after the agent has died; nobody hears the answer.
  template <typename Request, typename Response>
  void DeliverLate(int node, Request request, absl::StatusOr<Response> (ControlLink::*method)(const Request&));
  absl::StatusOr<tunefarm::agent::v1::WaitResponse> Wait(int node, const tunefarm::agent::v1::WaitRequest& request);

  NetworkWorld* const world_;
  std::vector<MonotonicTime> cut_until_;
  std::optional<Waiting> wait_;
  Counts counts_;
};

}  // namespace tunefarm
