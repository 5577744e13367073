#include "tests/unit/jobs/simulation.h"

#include <fmt/core.h>

#include <algorithm>

#include "gtest/gtest.h"
#include "server/base/check.h"
#include "server/base/hash.h"
#include "server/base/status.h"
#include "server/store/agent_store.h"
#include "tests/unit/jobs/farm.h"

namespace tunefarm {

namespace {

constexpr int kDevices = 3;
constexpr Duration kLease = std::chrono::seconds(3);
constexpr Duration kAgentLease = std::chrono::seconds(4);
constexpr Duration kTooLong = std::chrono::minutes(30);
constexpr int64_t kStepsMax = 3'000'000;

// Sees to it that a node of a farm never takes a step that no epoch fences.
class FencedStore : public FaultyStore {
 public:
  using FaultyStore::FaultyStore;
  StudyStore* studies() override { return &studies_; }

 private:
  class Studies : public FaultyStudies {
   public:
    using FaultyStudies::FaultyStudies;

    absl::StatusOr<DriveResult> Drive(const DriveStep& step) override {
      EXPECT_GT(step.driver_epoch, 0) << "of study " << step.study_id;
      return FaultyStudies::Drive(step);
    }
  };

  Studies studies_{&state_, &Store::studies};
};

bool IsCallOfAgents(std::string_view call) {
  return call == "ClaimUnits" || call == "ReportTrials" || call == "RegisterAgent" || call == "RenewAgent" ||
         call == "ReapAgents" || call == "ClaimsOf";
}

std::vector<tunefarm::v1::Device> Devices() {
  std::vector<tunefarm::v1::Device> devices;
  for (int i = 0; i < kDevices; ++i) devices.push_back(HostDevice(fmt::format("HOST-{}", i + 1)));
  return devices;
}

int64_t IdOf(const std::string& job_name) { return std::stoll(job_name.substr(job_name.find('/') + 1)); }

}  // namespace

Simulation::Outcome& Simulation::Outcome::operator+=(const Outcome& other) {
  steps += other.steps;
  took += other.took;
  for (int Outcome::*count : {&Outcome::crashes, &Outcome::freezes, &Outcome::stalls, &Outcome::stops, &Outcome::faults,
                              &Outcome::orders, &Outcome::edits, &Outcome::agents_lost, &Outcome::agents_frozen,
                              &Outcome::cut_off, &Outcome::drained, &Outcome::quarantined}) {
    this->*count += other.*count;
  }
  using Calls = SimulatedNetwork::Counts;
  for (int Calls::*count : {&Calls::lost, &Calls::late, &Calls::unanswered, &Calls::refused}) {
    calls.*count += other.calls.*count;
  }
  return *this;
}

// ---- The farm ----

double Simulation::TrueTime(const std::string& config, const std::string& problem_key) {
  std::string text = config + ";";
  std::replace(text.begin(), text.end(), ',', ';');
  return 1000 + static_cast<double>(Xxh3(text + problem_key) % 64) * 50;
}

bool Simulation::Fails(const std::string& config, const std::string& problem_key) {
  return static_cast<int64_t>(TrueTime(config, problem_key)) % 9 == 0;
}

Simulation::Simulation(const Options& options, const std::string& directory)
    : options_(options), dice_(options.seed), entropy_(options.seed), store_entropy_(options.seed) {
  SqliteOptions sqlite;
  sqlite.path = directory + "/tunefarm.db";
  sqlite.backup_directory = directory;
  sqlite.clock = &clock_;
  sqlite.entropy = &store_entropy_;
  auto store = OpenSqliteStore(sqlite);
  TUNEFARM_CHECK_OK(store);
  store_ = *std::move(store);
  nodes_.resize(static_cast<size_t>(options.nodes));
  for (size_t i = 0; i < nodes_.size(); ++i) Boot(i);
  for (int i = 0; i < kDevices; ++i) {
    if (options.has_real_agents) {
      MakeMachine(i, directory);
      continue;
    }
    agents_.push_back(
        std::make_unique<SimulatedAgent>(this, fmt::format("agent-{}", ++agents_made_), fmt::format("HOST-{}", i + 1)));
  }
}

Simulation::~Simulation() {
  watched_.clear();
  machines_.clear();
  for (size_t i = 0; i < nodes_.size(); ++i) Kill(i);
}

void Simulation::Boot(size_t index) {
  Node& node = nodes_[index];
  node.store = std::make_unique<FencedStore>(store_.get());
  node.control = std::make_unique<ManualExecutor>(&clock_);
  node.lease = std::make_unique<ManualExecutor>(&clock_);
  node.search = std::make_unique<ManualExecutor>(&clock_);
  node.tasks = std::make_unique<DelayedRunner>(node.search.get(), &dice_);
  ControlPlaneOptions options;
  options.store = node.store.get();
  options.control = options.job_watchers = options.watchers = options.lease = node.control.get();
  options.lease = node.lease.get();
  options.tasks = node.tasks.get();
  options.entropy = &entropy_;
  const std::string id = fmt::format("node-{}-{}", index, dice_.Below(1 << 30));
  if (options_.is_lone) {
    options.node = PermanentNode(id);
    TUNEFARM_CHECK_OK(ReleaseEarlierProcess(store_.get(), &clock_));
  } else {
    options.node.id = id;
    options.node.lease = kLease;
  }
  if (options_.has_real_agents) {
    options.agent_lease_ms = std::chrono::duration_cast<std::chrono::milliseconds>(kAgentLease).count();
    options.has_own_agent = false;
  }
  node.service = std::make_unique<TestService>(options);
  ++node.boots;
  if (!options_.has_real_agents) TUNEFARM_CHECK_OK(node.service->SetDevices(Devices()));
  TUNEFARM_CHECK_OK(node.service->Start());
  node.thaws = node.store_back = clock_.Now();
  node.store->set_faults([this, index](std::string_view call) {
    if (call == "LoadHistory") GoOnMeanwhile(index);
    const bool writes = call == "Drive" || call == "SetJobState" || call == "PromoteBest" || call == "AdoptJobs" ||
                        (options_.has_real_agents && IsCallOfAgents(call));
    if (!calm_ && runs_node_ && writes && dice_.OneIn(60)) Stall(index);
    if (calm_ || clock_.Now() >= nodes_[index].store_back) return FaultyStore::Fault::kNone;
    const int draw = dice_.Below(4);
    if (draw > 1) return FaultyStore::Fault::kNone;
    ++outcome_.faults;
    // The store in a daemon's own process answers, or has done nothing.
    if (options_.is_lone) return FaultyStore::Fault::kBefore;
    // Units of a claim whose answer was lost are the agent's until it ends.
    return draw == 0 || call == "ClaimUnits" ? FaultyStore::Fault::kBefore : FaultyStore::Fault::kAfter;
  });
}

void Simulation::GoOnMeanwhile(size_t index) {
  Node& node = nodes_[index];
  if (!node.runs_task || stalled_ > 0 || !dice_.OneIn(4)) return;
  const bool runs_node = std::exchange(runs_node_, false);
  for (int i = dice_.Below(60); i > 0; --i) {
    if (!agents_.empty() && dice_.OneIn(4)) agents_[static_cast<size_t>(dice_.Below(kDevices))]->Act();
    if (!RunSomething() || dice_.OneIn(20)) clock_.Advance(dice_.Ms(1, 20));
  }
  runs_node_ = runs_node;
}

void Simulation::Stall(size_t index) {
  runs_node_ = false;
  ++stalled_;
  ++outcome_.stalls;
  const MonotonicTime thaws = clock_.Now() + dice_.Ms(500, 8000);
  nodes_[index].thaws = thaws;
  nodes_[index].is_stalled = true;
  while (clock_.Now() < thaws) {
    if (!agents_.empty() && dice_.OneIn(8)) agents_[static_cast<size_t>(dice_.Below(kDevices))]->Act();
    if (!RunSomething() || dice_.OneIn(10)) clock_.Advance(dice_.Ms(5, 120));
  }
  nodes_[index].is_stalled = false;
  --stalled_;
}

// As SIGKILL does: tasks that wait never run.
void Simulation::Kill(size_t index) {
  Node& node = nodes_[index];
  for (Watched& watched : watched_) {
    if (watched.node == static_cast<int>(index)) {
      watched.watch = nullptr;
      watched.node = -1;
    }
  }
  node.bests = nullptr;
  node.tasks = nullptr;
  node.search = nullptr;
  node.control = nullptr;
  node.lease = nullptr;
  node.service = nullptr;
  node.store = nullptr;
}

AgentLink* Simulation::LinkTo(int* node) {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    Node& one = nodes_[(static_cast<size_t>(*node) + i) % nodes_.size()];
    if (!Runs(one)) continue;
    *node = static_cast<int>((static_cast<size_t>(*node) + i) % nodes_.size());
    return &one.service->link();
  }
  return nullptr;
}

TestService* Simulation::AnyService() {
  const int first = dice_.Below(static_cast<int>(nodes_.size()));
  for (size_t i = 0; i < nodes_.size(); ++i) {
    Node& node = nodes_[(static_cast<size_t>(first) + i) % nodes_.size()];
    if (Runs(node)) return node.service.get();
  }
  return nullptr;
}

void Simulation::Submit() {
  static const char* const kStrategies[] = {"exhaustive", "random", "genetic"};
  tunefarm::v1::Job job;
  const int problems = 1 + dice_.Below(2);
  for (int i = 0; i < problems; ++i) *job.add_problems() = TestProblem(1024 << dice_.Below(3) << (4 * i));
  job.mutable_strategy()->set_strategy_name(kStrategies[dice_.Below(3)]);
  job.mutable_strategy()->set_seed(static_cast<uint64_t>(1 + dice_.Below(100)));
  job.set_no_memory(true);
  job.mutable_policy()->set_no_reuse(true);
  job.set_agent_losses_max(1'000'000);  // agents are lost for no reason
  if (dice_.OneIn(4)) job.mutable_budget()->set_max_trials(4 + dice_.Below(5));
  if (dice_.OneIn(6)) job.mutable_budget()->set_max_trials_without_gain(3);
  wanted_ = std::move(job);
}

// The client tries again until it is told.
void Simulation::TrySubmit() {
  TestService* const service = AnyService();
  if (service == nullptr) return;
  const auto submitted = service->Submit(*wanted_, TestKernel(), fmt::format("request-{}", watched_.size()), false);
  if (!submitted.ok()) {
    // No agent has come yet, or all are gone.
    const std::string reason = ReasonOf(submitted.status());
    const bool has_no_device =
        options_.has_real_agents && (reason == "DEVICE_NOT_FOUND" || reason == "DEVICE_QUARANTINED");
    EXPECT_TRUE(has_no_device || submitted.status().code() == absl::StatusCode::kUnavailable) << submitted.status();
    return;
  }
  Watched watched;
  watched.name = submitted->name();
  watched_.push_back(std::move(watched));
  wanted_.reset();
}

// Somebody wants something of a job, through any daemon.
void Simulation::Order() {
  TestService* const service = AnyService();
  if (service == nullptr || watched_.empty()) return;
  const std::string name = watched_[static_cast<size_t>(dice_.Below(static_cast<int>(watched_.size())))].name;
  ++outcome_.orders;
  switch (dice_.Below(5)) {
    case 0:
      cancelled_.insert(name);  // also when it was refused: the answer may have been lost
      service->Cancel(name).IgnoreError();
      break;
    case 1:
    case 2:
      service->Pause(name).IgnoreError();
      break;
    default:
      service->Resume(name).IgnoreError();
  }
}

// Somebody decides about the best of one of the problems.
void Simulation::Edit() {
  TestService* const service = AnyService();
  if (service == nullptr) return;
  const auto bests = service->catalog().List("", 100, "");
  if (!bests.ok() || bests->first.empty()) return;
  const auto& best = *bests->first[static_cast<size_t>(dice_.Below(static_cast<int>(bests->first.size())))];
  tunefarm::v1::AnnotateBestConfigRequest request;
  request.mutable_key()->set_program_digest(best.program_digest());
  request.mutable_key()->set_problem_key(best.problem().key());
  request.mutable_key()->set_device_class_id(best.device_class_id());
  request.set_note(fmt::format("note {}", ++outcome_.edits));
  service->catalog_api().AnnotateBestConfig(request).IgnoreError();
}

// A watcher of a catalog is told of changes in their order, and never of one twice.
void Simulation::ReadCatalog(Node* node) {
  if (!Runs(*node)) return;
  if (node->bests == nullptr) {
    auto stream = node->service->catalog_api().WatchBestConfigs(
        {}, [] {}, [](absl::Status) {});
    if (!stream.ok()) return;
    node->bests = *std::move(stream);
    node->told.clear();
    node->told_revision = 0;
  }
  while (const auto part = node->bests->Next()) {
    for (const auto& best : part->bests()) {
      const std::string key = best.program_digest() + best.problem().key() + best.device_class_id();
      EXPECT_GT(best.revision(), node->told_revision) << "a change comes after a later one";
      EXPECT_GT(best.revision(), node->told[key]) << "a change is told twice";
      node->told[key] = best.revision();
    }
    if (part->revision() > 0) node->told_revision = part->revision();
  }
}

void Simulation::LoseAgent() {
  const size_t index = static_cast<size_t>(dice_.Below(static_cast<int>(agents_.size())));
  lost_agents_[agents_[index]->id()] = clock_.Now() + kAgentLease;
  agents_[index] = std::make_unique<SimulatedAgent>(this, fmt::format("agent-{}", ++agents_made_),
                                                    fmt::format("HOST-{}", index + 1));
  ++outcome_.agents_lost;
}

void Simulation::ReleaseLost() {
  for (auto it = lost_agents_.begin(); it != lost_agents_.end();) {
    if (it->second > clock_.Now()) {
      ++it;
      continue;
    }
    store_->agents()->ReleaseAgent(it->first, clock_.WallMs(), true).IgnoreError();
    it = lost_agents_.erase(it);
  }
}

void Simulation::Disturb() {
  const size_t index = static_cast<size_t>(dice_.Below(static_cast<int>(nodes_.size())));
  Node& node = nodes_[index];
  switch (dice_.Below(8)) {
    case 0:
      if (node.service == nullptr) return;
      Kill(index);
      node.comes_back = clock_.Now() + dice_.Ms(0, 8000);
      ++outcome_.crashes;
      return;
    case 1:
      if (!Runs(node)) return;
      node.service->Stop();
      Kill(index);
      node.comes_back = clock_.Now() + dice_.Ms(0, 3000);
      ++outcome_.stops;
      return;
    case 2:
    case 3:
      node.thaws = clock_.Now() + dice_.Ms(100, 8000);
      ++outcome_.freezes;
      return;
    case 4:
    case 5:
      node.store_back = clock_.Now() + dice_.Ms(50, 4000);
      return;
    case 6:
      if (!agents_.empty()) LoseAgent();
      return;
    default:
      Order();
  }
}

void Simulation::KeepWatching(Watched* watched) {
  if (watched->ended || watched->node >= 0) return;
  const int first = dice_.Below(static_cast<int>(nodes_.size()));
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const size_t index = (static_cast<size_t>(first) + i) % nodes_.size();
    if (!Runs(nodes_[index])) continue;
    const int64_t id = IdOf(watched->name);
    const auto find = [this, id]() -> Watched& {
      return *std::find_if(watched_.begin(), watched_.end(), [&](const Watched& w) { return IdOf(w.name) == id; });
    };
    auto watch = nodes_[index].service->Watch(
        watched->name, watched->last_event,
        [find](const tunefarm::v1::JobEvent& event) {
          Watched& own = find();
          own.last_event = event.event_id();
          if (event.has_job()) own.told = event.job().state();
        },
        [find](absl::Status status) {
          Watched& own = find();
          own.ended = status.ok();
          own.node = -1;  // the subscription goes with the next one
        });
    if (!watch.ok()) return;
    watched->watch = *std::move(watch);
    watched->node = static_cast<int>(index);
    return;
  }
}

bool Simulation::RunSomething() {
  std::vector<std::pair<ManualExecutor*, RemoteMachine*>> executors;  // null: a node's
  for (Node& node : nodes_) {
    if (!Runs(node)) continue;
    executors.emplace_back(node.control.get(), nullptr);
    if (!node.runs_task) executors.emplace_back(node.search.get(), nullptr);
    executors.emplace_back(node.lease.get(), nullptr);
  }
  for (Machine& machine : machines_) {
    for (ManualExecutor* executor : machine.process->Executors()) {
      executors.emplace_back(executor, machine.process.get());
    }
  }
  const int first = executors.empty() ? 0 : dice_.Below(static_cast<int>(executors.size()));
  for (size_t i = 0; i < executors.size(); ++i) {
    const auto& [executor, machine] = executors[(static_cast<size_t>(first) + i) % executors.size()];
    if (machine != nullptr) {
      if (machine->Run(executor)) return true;
      continue;
    }
    runs_node_ = stalled_ == 0;
    const bool has_run = RunOne(executor);
    runs_node_ = false;
    if (has_run) return true;
  }
  return false;
}

// Notes for what goes on meanwhile that it is not free.
bool Simulation::RunOne(ManualExecutor* executor) {
  Node* runs = nullptr;
  for (Node& node : nodes_) {
    if (executor == node.search.get()) runs = &node;
  }
  if (runs != nullptr) runs->runs_task = true;
  const bool has_run = executor->RunOne();
  if (runs != nullptr) runs->runs_task = false;
  return has_run;
}

void Simulation::Advance() {
  clock_.Advance(dice_.Ms(5, 120));
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].service == nullptr && (calm_ || clock_.Now() >= nodes_[i].comes_back)) Boot(i);
  }
  ReleaseLost();
  LookAfterMachines();
}

bool Simulation::AllEnded() {
  return std::all_of(watched_.begin(), watched_.end(), [](const Watched& watched) { return watched.ended; });
}

Simulation::Outcome Simulation::Run() {
  SCOPED_TRACE(fmt::format("seed {}", options_.seed));
  const MonotonicTime began = clock_.Now();
  const MonotonicTime disturbed_until = began + dice_.Ms(2000, 20000);
  int to_submit = options_.jobs;
  while (outcome_.steps++ < kStepsMax && clock_.Now() - began < kTooLong) {
    if (to_submit > 0 && !wanted_.has_value() && dice_.OneIn(40)) {
      --to_submit;
      Submit();
    }
    if (wanted_.has_value() && dice_.OneIn(5)) TrySubmit();
    if (!calm_ && clock_.Now() >= disturbed_until) {
      calm_ = true;
      // Somebody wants all of them to end.
      for (Node& node : nodes_) node.thaws = clock_.Now();
    }
    if (calm_ && dice_.OneIn(200)) {
      TestService* const service = AnyService();
      for (const Watched& watched : watched_) {
        if (service != nullptr) service->Resume(watched.name).IgnoreError();
      }
    }
    if (!calm_ && dice_.OneIn(25)) Disturb();
    if (!calm_ && !machines_.empty() && dice_.OneIn(60)) DisturbMachine();
    if (!calm_ && dice_.OneIn(80)) Order();
    if (dice_.OneIn(150)) Edit();
    if (dice_.OneIn(15)) ReadCatalog(&nodes_[static_cast<size_t>(dice_.Below(options_.nodes))]);
    if (!agents_.empty() && dice_.OneIn(8)) agents_[static_cast<size_t>(dice_.Below(kDevices))]->Act();
    if (!watched_.empty() && dice_.OneIn(10)) {
      KeepWatching(&watched_[static_cast<size_t>(dice_.Below(static_cast<int>(watched_.size())))]);
    }
    if (!RunSomething() || dice_.OneIn(20)) Advance();
    if (calm_ && to_submit == 0 && !wanted_.has_value() && AllEnded()) break;
  }
  outcome_.took = clock_.Now() - began;
  for (const Watched& watched : watched_) {
    EXPECT_TRUE(watched.ended) << watched.name << " has not ended: " << WhatIsLeft(IdOf(watched.name));
  }
  Settle();
  Check();
  for (Machine& machine : machines_) {
    Outcome of_network;
    of_network.calls = machine.process->network().counts();
    outcome_ += of_network;
  }
  return outcome_;
}

// What is on its way arrives.
void Simulation::Settle() {
  const MonotonicTime end = clock_.Now() + std::chrono::seconds(15);
  while (clock_.Now() < end) {
    if (!agents_.empty() && dice_.OneIn(4)) agents_[static_cast<size_t>(dice_.Below(kDevices))]->Act();
    if (!RunSomething()) Advance();
  }
}

}  // namespace tunefarm
