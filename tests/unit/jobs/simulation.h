// A farm that goes wrong, from one seed: two or three control daemons on one real store, agents that come, die, report
// late and twice, people who cancel and pause through any daemon, and a database that fails before or after it did what
// it was asked. Everything runs on one thread and one fake clock, in an order that is drawn from the seed.
//
// Its agents are either played (SimulatedAgent), which reports and asks as no real one would, or the real thing behind
// a network that plays (RemoteMachine), with leases, links and spools.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/agent/agent_link.h"
#include "server/store/store.h"
#include "server/store/study_store.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_entropy.h"
#include "tests/fakes/faulty_store.h"
#include "tests/fakes/manual_executor.h"
#include "tests/unit/jobs/dice.h"
#include "tests/unit/jobs/remote_machine.h"
#include "tests/unit/jobs/simulated_network.h"
#include "tests/unit/jobs/test_service.h"

namespace tunefarm {

// What an agent lives in.
class AgentWorld {
 public:
  virtual ~AgentWorld() = default;
  virtual Dice& dice() = 0;
  // The link of the node, or of another that runs, whose number it becomes; null: none does.
  virtual AgentLink* LinkTo(int* node) = 0;
};

// A machine with one device: it claims, pretends to measure, and reports.
class SimulatedAgent {
 public:
  SimulatedAgent(AgentWorld* farm, std::string id, std::string device)
      : farm_(farm), id_(std::move(id)), device_(std::move(device)) {}

  // One thing that it does next.
  void Act();
  const std::string& id() const { return id_; }

 private:
  struct Held {
    tunefarm::agent::v1::Assignment assignment;
    std::set<int64_t> reported;
  };
  void Synchronize();
  // The results of other agents' trials that did the work of these, by ordinal. This agent never waits for others, as
  // if the answer were lost: control must handle that.
  std::map<int64_t, tunefarm::v1::Trial> Claim(const Held& held,
                                               const std::vector<tunefarm::agent::v1::TrialSpec>& specs);
  void Report(Held* held);
  void Send(const tunefarm::agent::v1::ReportTrialsRequest& request);
  // Equal for configs with equal times.
  static uint64_t WorkOf(const Held& held, const tunefarm::agent::v1::TrialSpec& spec);
  tunefarm::v1::Trial Measure(const Held& held, const tunefarm::agent::v1::TrialSpec& spec);

  AgentWorld* const farm_;
  const std::string id_, device_;
  int64_t epoch_ = 0;  // 0: not registered
  int node_ = 0;       // it talks to
  std::map<int64_t, Held> held_;
  std::deque<tunefarm::agent::v1::ReportTrialsRequest> sent_;  // some are sent again
};

// Runs each task some time after it was posted, as if others kept its threads busy.
class DelayedRunner : public TaskRunner {
 public:
  DelayedRunner(Executor* executor, Dice* dice) : executor_(executor), dice_(dice) {}
  void Post(std::function<void()> task) override {
    const Duration delay = dice_->OneIn(2) ? Duration::zero() : dice_->Ms(0, 300);
    executor_->PostAfter(delay, std::move(task));
  }

 private:
  Executor* const executor_;
  Dice* const dice_;
};

class Simulation : public AgentWorld, public NetworkWorld {
 public:
  struct Options {
    uint64_t seed = 0;
    int nodes = 3;
    bool is_lone = false;  // the only daemon of its store: with one node
    int jobs = 3;
    bool has_real_agents = false;
  };
  // What the run came to, to be the same for the same seed.
  struct Outcome {
    int64_t steps = 0;
    Duration took{};
    int crashes = 0, freezes = 0, stalls = 0, stops = 0, faults = 0, orders = 0, edits = 0, agents_lost = 0;
    int agents_frozen = 0, cut_off = 0, drained = 0, quarantined = 0;
    SimulatedNetwork::Counts calls;
    std::string digest;  // of all that is stored of jobs

    Outcome& operator+=(const Outcome& other);  // counts
  };

  Simulation(const Options& options, const std::string& directory);
  ~Simulation() override;

  // Until every job has ended, then checks what must hold. Problems are GoogleTest failures that name the seed.
  Outcome Run();

  Dice& dice() override { return dice_; }
  FakeClock& clock() { return clock_; }
  AgentLink* LinkTo(int* node) override;
  // What is true of a config, given as its canonical text.
  static double TrueTime(const std::string& config, const std::string& problem_key);
  static bool Fails(const std::string& config, const std::string& problem_key);

  // NetworkWorld:
  MonotonicTime Now() const override { return clock_.Now(); }
  bool IsCalm() const override { return calm_; }
  int nodes() const override { return options_.nodes; }
  ControlLink* ControlAt(int node) override;
  int BootOf(int node) const override { return nodes_[static_cast<size_t>(node)].boots; }
  void InNode(int node, const std::function<void()>& call) override;
  void LetPass(Duration time) override;
  void Later(Duration delay, std::function<void()> task) override;

 private:
  struct Node {
    std::unique_ptr<FaultyStore> store;
    std::unique_ptr<ManualExecutor> control, search, lease;
    std::unique_ptr<DelayedRunner> tasks;
    std::unique_ptr<TestService> service;  // null: it is down
    int boots = 0;
    bool is_stalled = false;               // within a call of its store
    bool runs_task = false;                // on `search`
    MonotonicTime thaws{};                 // stands still until then
    MonotonicTime comes_back{};            // of one that is down
    MonotonicTime store_back{};            // its database fails until then
    std::unique_ptr<CatalogStream> bests;  // somebody watches its catalog
    std::map<std::string, int64_t> told;   // revisions of bests, by key
    int64_t told_revision = 0;
  };
  struct Machine {
    std::unique_ptr<RemoteMachine> process;
    MonotonicTime comes_back{}, heals{};
    bool is_out = false;  // its device
  };
  struct LateCall {
    MonotonicTime due;
    std::function<void()> task;
  };
  struct Watched {
    std::string name;
    std::unique_ptr<WatchSubscription> watch;
    int node = -1;
    int64_t last_event = 0;
    bool ended = false;
    tunefarm::v1::JobState told = tunefarm::v1::JOB_STATE_UNSPECIFIED;
  };

  void Boot(size_t index);
  // The node stands still within a call of the store, while everybody else goes on.
  void Stall(size_t index);
  // A task of the node is within a call of the store, while everybody else and the node's other threads go on.
  void GoOnMeanwhile(size_t index);
  void Kill(size_t index);
  bool Runs(const Node& node) const {
    return node.service != nullptr && clock_.Now() >= node.thaws && !node.is_stalled;
  }
  TestService* AnyService();
  void Submit();
  void TrySubmit();
  void Disturb();
  // simulation_machines.cc:
  void MakeMachine(int number, const std::string& directory);
  void DisturbMachine();
  void LookAfterMachines();
  void Order();
  void Edit();
  void KeepWatching(Watched* watched);
  void ReadCatalog(Node* node);
  bool RunSomething();
  bool RunOne(ManualExecutor* executor);
  void Advance();
  void LoseAgent();
  void ReleaseLost();
  bool AllEnded();
  void Settle();
  void Check();
  // Of a job that should have ended, for people.
  std::string WhatIsLeft(int64_t job_id);
  void CheckJob(const JobRow& row);
  void CheckStudy(const JobRow& row, const StudyRow& study);
  void CheckProposals(const JobRow& row, const StudyRow& study, const StudyHistory& history);
  void CheckFinals(const StudyHistory& history);
  void CheckBest(const JobRow& row, const StudyRow& study);

  const Options options_;
  FakeClock clock_;
  Dice dice_;
  FakeEntropy entropy_, store_entropy_;
  std::unique_ptr<Store> store_;
  std::vector<Node> nodes_;
  std::vector<std::unique_ptr<SimulatedAgent>> agents_;
  std::map<std::string, MonotonicTime> lost_agents_;  // when it is noticed
  int agents_made_ = 0;
  std::vector<Machine> machines_;
  std::vector<LateCall> late_calls_;
  int passing_ = 0;         // calls that are on their way, one within another
  bool calm_ = false;       // no more disturbances
  bool runs_node_ = false;  // a task of a node, and not within a stall
  int stalled_ = 0;
  std::vector<Watched> watched_;
  std::optional<tunefarm::v1::Job> wanted_;  // submitted until somebody says that it is
  std::set<std::string> cancelled_;
  Outcome outcome_;
};

}  // namespace tunefarm
