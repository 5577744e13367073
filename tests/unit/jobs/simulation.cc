#include "tests/unit/jobs/simulation.h"

#include <fmt/core.h>

#include <algorithm>

#include "gtest/gtest.h"
#include "server/base/check.h"
#include "server/base/hash.h"
#include "server/base/status.h"
#include "server/jobs/study.h"
#include "tests/unit/jobs/farm.h"

namespace tunefarm {

namespace wire = tunefarm::agent::v1;
using tunefarm::v1::Trial;

namespace {

constexpr int kDevices = 3;
constexpr Duration kLease = std::chrono::seconds(3);
constexpr Duration kAgentLease = std::chrono::seconds(4);
constexpr Duration kTooLong = std::chrono::minutes(30);
constexpr int64_t kStepsMax = 3'000'000;
constexpr size_t kSentKept = 6;

std::vector<tunefarm::v1::Device> Devices() {
  std::vector<tunefarm::v1::Device> devices;
  for (int i = 0; i < kDevices; ++i) devices.push_back(HostDevice(fmt::format("HOST-{}", i + 1)));
  return devices;
}

int64_t IdOf(const std::string& job_name) { return std::stoll(job_name.substr(job_name.find('/') + 1)); }

}  // namespace

// ---- Agents ----

void SimulatedAgent::Act() {
  Dice& dice = farm_->dice();
  if (epoch_ == 0) {
    AgentLink* const link = farm_->LinkTo(&node_);
    if (link == nullptr) return;
    wire::RegisterRequest request;
    request.set_agent_id(id_);
    request.set_host("simulated");
    for (const auto& device : Devices()) {
      if (device.uuid() == device_) *request.add_devices() = device;
    }
    const auto response = link->Register(request);
    if (response.ok()) epoch_ = response->epoch();
    held_.clear();
    return;
  }
  if (dice.OneIn(40)) node_ = dice.Below(8);  // it lost its connection
  if (!sent_.empty() && dice.OneIn(12)) {
    Send(sent_[static_cast<size_t>(dice.Below(static_cast<int>(sent_.size())))]);
    return;
  }
  if (held_.empty() || dice.OneIn(3)) {
    Synchronize();
    return;
  }
  auto unit = held_.begin();
  std::advance(unit, dice.Below(static_cast<int>(held_.size())));
  Report(&unit->second);
}

void SimulatedAgent::Synchronize() {
  AgentLink* const link = farm_->LinkTo(&node_);
  if (link == nullptr) return;
  wire::SynchronizeRequest request;
  request.set_agent_id(id_);
  request.set_epoch(epoch_);
  for (const auto& [unit_id, held] : held_) {
    auto* unit = request.add_units();
    unit->set_unit_id(unit_id);
    unit->set_token(held.assignment.token());
  }
  if (held_.size() < 2) {
    auto* demand = request.add_demands();
    demand->set_device_uuid(device_);
    demand->set_units(1 + farm_->dice().Below(2));
  }
  const auto response = link->Synchronize(request);
  if (!response.ok() || farm_->dice().OneIn(30)) return;  // or the answer was lost
  if (response->epoch_expired()) {
    epoch_ = 0;
    held_.clear();
    return;
  }
  for (int64_t unit_id : response->revoked_unit_ids()) held_.erase(unit_id);
  for (const wire::Assignment& assignment : response->assignments()) held_[assignment.unit_id()] = {assignment, {}};
}

Trial SimulatedAgent::Measure(const Held& held, const wire::TrialSpec& spec) {
  Trial trial;
  trial.set_ordinal(spec.ordinal());
  trial.set_attempt(spec.attempt());
  trial.set_purpose(spec.purpose());
  trial.set_device_uuid(device_);
  trial.set_phase(tunefarm::v1::PHASE_MEASURE);
  *trial.mutable_config() = spec.config();
  const std::string& problem = held.assignment.problem().key();
  if (Simulation::Fails(spec.config(), problem)) {
    trial.set_outcome(tunefarm::v1::OUTCOME_WRONG_RESULT);
    return trial;
  }
  trial.set_outcome(tunefarm::v1::OUTCOME_OK);
  auto& measurement = *trial.mutable_measurement();
  const double median = Simulation::TrueTime(spec.config(), problem);
  measurement.set_median_ns(median);
  measurement.set_ci_low_ns(median * 0.99);
  measurement.set_ci_high_ns(median * 1.01);
  measurement.set_samples(5);
  measurement.set_converged(true);
  for (int i = 0; i < 5 * std::max(1, held.assignment.interleaved_rounds()); ++i) {
    measurement.add_sample_ns(static_cast<float>(median * (1 + 0.0005 * (i % 5 - 2))));
  }
  return trial;
}

void SimulatedAgent::Report(Held* held) {
  Dice& dice = farm_->dice();
  wire::ReportTrialsRequest request;
  request.set_agent_id(id_);
  request.set_epoch(epoch_);
  request.set_unit_id(held->assignment.unit_id());
  request.set_token(held->assignment.token());
  const auto& specs = held->assignment.trials();
  int left = 1 + dice.Below(4);
  for (const wire::TrialSpec& spec : specs) {
    if (held->reported.count(spec.ordinal()) > 0 || left-- <= 0) continue;
    *request.add_trials() = Measure(*held, spec);
  }
  const bool all = static_cast<int>(held->reported.size()) + request.trials_size() == specs.size();
  if (all) {
    request.set_unit_done(true);
  } else if (dice.OneIn(25)) {
    request.set_unit_returned(true);
  }
  Send(request);
  sent_.push_back(request);
  if (sent_.size() > kSentKept) sent_.pop_front();
}

void SimulatedAgent::Send(const wire::ReportTrialsRequest& request) {
  AgentLink* const link = farm_->LinkTo(&node_);
  if (link == nullptr) return;
  const auto response = link->ReportTrials(request);
  if (!response.ok() || farm_->dice().OneIn(20)) return;
  const auto held = held_.find(request.unit_id());
  if (held == held_.end() || held->second.assignment.token() != request.token()) return;
  if (response->verdict() == wire::REPORT_VERDICT_STALE || request.unit_done() || request.unit_returned()) {
    held_.erase(held);
    return;
  }
  for (const Trial& trial : request.trials()) held->second.reported.insert(trial.ordinal());
}

// ---- The farm ----

double Simulation::TrueTime(const tunefarm::v1::Config& config, const std::string& problem_key) {
  tunefarm::v1::Config bare = config;
  std::string text;
  for (const auto& [name, value] :
       std::map<std::string, tunefarm::v1::Value>(bare.values().begin(), bare.values().end()))
    text += fmt::format("{}={};", name, value.int_value());
  return 1000 + static_cast<double>(Xxh3(text + problem_key) % 64) * 50;
}

bool Simulation::Fails(const tunefarm::v1::Config& config, const std::string& problem_key) {
  return static_cast<int64_t>(TrueTime(config, problem_key)) % 9 == 0;
}

Simulation::Simulation(const Options& options, const std::string& directory)
    : options_(options), dice_(options.seed), entropy_(options.seed) {
  SqliteOptions sqlite;
  sqlite.path = directory + "/tunefarm.db";
  sqlite.backup_directory = directory;
  sqlite.clock = &clock_;
  auto store = OpenSqliteStore(sqlite);
  TUNEFARM_CHECK_OK(store);
  store_ = *std::move(store);
  nodes_.resize(static_cast<size_t>(options.nodes));
  for (size_t i = 0; i < nodes_.size(); ++i) Boot(i);
  for (int i = 0; i < kDevices; ++i) {
    agents_.push_back(
        std::make_unique<SimulatedAgent>(this, fmt::format("agent-{}", ++agents_made_), fmt::format("HOST-{}", i + 1)));
  }
}

Simulation::~Simulation() {
  watched_.clear();
  for (size_t i = 0; i < nodes_.size(); ++i) Kill(i);
}

void Simulation::Boot(size_t index) {
  Node& node = nodes_[index];
  node.store = std::make_unique<FaultyStore>(store_.get());
  node.control = std::make_unique<ManualExecutor>(&clock_);
  node.lease = std::make_unique<ManualExecutor>(&clock_);
  JobServiceOptions options;
  options.store = node.store.get();
  options.control = node.control.get();
  options.lease = node.lease.get();
  options.entropy = &entropy_;
  options.node.id = fmt::format("node-{}-{}", index, dice_.Below(1 << 30));
  options.node.lease = kLease;
  node.service = std::make_unique<JobService>(options);
  TUNEFARM_CHECK_OK(node.service->SetDevices(Devices()));
  TUNEFARM_CHECK_OK(node.service->Start());
  node.thaws = node.store_back = clock_.Now();
  node.store->set_faults([this, index](std::string_view call) {
    if (calm_ || clock_.Now() >= nodes_[index].store_back) return FaultyStore::Fault::kNone;
    const int draw = dice_.Below(4);
    if (draw > 1) return FaultyStore::Fault::kNone;
    ++outcome_.faults;
    // Units of a claim whose answer was lost are the agent's until it ends.
    return draw == 0 || call == "ClaimUnits" ? FaultyStore::Fault::kBefore : FaultyStore::Fault::kAfter;
  });
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
    return one.service->agent_link();
  }
  return nullptr;
}

JobService* Simulation::AnyService() {
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
  if (dice_.OneIn(4)) job.mutable_budget()->set_max_trials(4 + dice_.Below(5));
  if (dice_.OneIn(6)) job.mutable_budget()->set_max_trials_without_gain(3);
  wanted_ = std::move(job);
}

// The client tries again until it is told.
void Simulation::TrySubmit() {
  JobService* const service = AnyService();
  if (service == nullptr) return;
  const auto submitted = service->Submit(*wanted_, TestKernel(), fmt::format("request-{}", watched_.size()), false);
  if (!submitted.ok()) {
    EXPECT_EQ(submitted.status().code(), absl::StatusCode::kUnavailable) << submitted.status();
    return;
  }
  Watched watched;
  watched.name = submitted->name();
  watched_.push_back(std::move(watched));
  wanted_.reset();
}

// Somebody wants something of a job, through any daemon.
void Simulation::Order() {
  JobService* const service = AnyService();
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
    store_->ReleaseAgent(it->first, clock_.WallMs()).IgnoreError();
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
      LoseAgent();
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
  std::vector<ManualExecutor*> executors;
  for (Node& node : nodes_) {
    if (!Runs(node)) continue;
    executors.push_back(node.control.get());
    executors.push_back(node.lease.get());
  }
  const int first = executors.empty() ? 0 : dice_.Below(static_cast<int>(executors.size()));
  for (size_t i = 0; i < executors.size(); ++i) {
    if (executors[(static_cast<size_t>(first) + i) % executors.size()]->RunOne()) return true;
  }
  return false;
}

void Simulation::Advance() {
  clock_.Advance(dice_.Ms(5, 120));
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].service == nullptr && (calm_ || clock_.Now() >= nodes_[i].comes_back)) Boot(i);
  }
  ReleaseLost();
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
      JobService* const service = AnyService();
      for (const Watched& watched : watched_) {
        if (service != nullptr) service->Resume(watched.name).IgnoreError();
      }
    }
    if (!calm_ && dice_.OneIn(25)) Disturb();
    if (dice_.OneIn(8)) agents_[static_cast<size_t>(dice_.Below(kDevices))]->Act();
    if (!watched_.empty() && dice_.OneIn(10)) {
      KeepWatching(&watched_[static_cast<size_t>(dice_.Below(static_cast<int>(watched_.size())))]);
    }
    if (!RunSomething() || dice_.OneIn(20)) Advance();
    if (calm_ && to_submit == 0 && !wanted_.has_value() && AllEnded()) break;
  }
  outcome_.took = clock_.Now() - began;
  for (const Watched& watched : watched_) EXPECT_TRUE(watched.ended) << watched.name << " has not ended";
  Settle();
  Check();
  return outcome_;
}

// What is on its way arrives.
void Simulation::Settle() {
  const MonotonicTime end = clock_.Now() + std::chrono::seconds(15);
  while (clock_.Now() < end) {
    if (dice_.OneIn(4)) agents_[static_cast<size_t>(dice_.Below(kDevices))]->Act();
    if (!RunSomething()) Advance();
  }
}

// ---- What must hold ----

void Simulation::Check() {
  std::string page;
  do {
    const auto jobs = store_->ListJobs({}, {100, page});
    ASSERT_TRUE(jobs.ok()) << jobs.status();
    for (const JobRow& row : jobs->rows) CheckJob(row);
    page = jobs->next_page_token;
  } while (!page.empty());
  const auto queue = store_->CountQueue();
  ASSERT_TRUE(queue.ok());
  EXPECT_EQ(queue->ready_units, 0) << "units of ended jobs are left";
  for (const Node& node : nodes_) {
    ASSERT_NE(node.service, nullptr);
    EXPECT_EQ(node.service->Stats()->catalog_revision, *store_->CatalogRevision()) << "a node's catalog is behind";
  }
}

void Simulation::CheckJob(const JobRow& row) {
  SCOPED_TRACE(fmt::format("job {}", row.job_id));
  const std::string name = fmt::format("jobs/{}", row.job_id);
  if (row.state == JobState::kCancelled) {
    EXPECT_EQ(cancelled_.count(name), 1) << "nobody asked for that";
  } else {
    EXPECT_EQ(row.state, JobState::kSucceeded) << row.error;
  }
  for (const Watched& watched : watched_) {
    if (watched.name != name) continue;
    EXPECT_EQ(watched.told, row.state == JobState::kCancelled ? tunefarm::v1::JOB_STATE_CANCELLED
                                                              : tunefarm::v1::JOB_STATE_SUCCEEDED);
  }
  for (const StudyRow& study : row.studies) CheckStudy(row, study);
  outcome_.digest += fmt::format("{}:{};", row.job_id, static_cast<int>(row.state));
}

void Simulation::CheckStudy(const JobRow& row, const StudyRow& study) {
  SCOPED_TRACE(fmt::format("study {}", study.number));
  const auto history = store_->LoadHistory(study.study_id, 0, 100'000);
  ASSERT_TRUE(history.ok()) << history.status();
  std::map<int64_t, const UnitRow*> units;
  for (const UnitRow& unit : history->units) units[unit.unit_id] = &unit;
  std::set<int64_t> proposed, told;
  int64_t sequence = 0, next_ordinal = 0;
  for (const StudyEvent& event : history->events) {
    EXPECT_EQ(event.sequence, ++sequence) << "the decision log has a gap";
    const auto unit = units.find(event.unit_id);
    if (event.kind == StudyEvent::Kind::kPropose) {
      EXPECT_TRUE(proposed.insert(event.unit_id).second) << "unit " << event.unit_id << " was proposed twice";
      if (unit == units.end()) continue;  // removed with its job
      EXPECT_TRUE(unit->second->first_ordinal == next_ordinal || row.state == JobState::kCancelled)
          << "ordinals have a gap before " << unit->second->first_ordinal;
      next_ordinal = unit->second->first_ordinal + unit->second->trial_count;
    } else {
      EXPECT_EQ(proposed.count(event.unit_id), 1) << "unit " << event.unit_id << " was told before it was proposed";
      EXPECT_TRUE(told.insert(event.unit_id).second) << "unit " << event.unit_id << " was told twice";
    }
  }
  if (row.state != JobState::kSucceeded) return;
  EXPECT_EQ(told, proposed) << "units are left of a study that has ended";
  TrialQuery query;
  query.job_id = row.job_id;
  query.study_number = study.number;
  query.page.page_size = 1000;
  const auto trials = store_->ListTrials(query);
  ASSERT_TRUE(trials.ok());
  tunefarm::v1::Study summary;
  ASSERT_TRUE(summary.ParseFromString(study.space_summary));
  const bool is_whole = summary.search_ended_because().find("without a better one") == std::string::npos;
  if (is_whole) {
    EXPECT_EQ(static_cast<int64_t>(trials->rows.size()), next_ordinal) << "an ordinal has no outcome";
  }
  std::set<std::string> searched;
  for (const TrialRow& trial : trials->rows) {
    EXPECT_NE(trial.outcome, tunefarm::v1::OUTCOME_UNSPECIFIED);
    if (trial.purpose != tunefarm::v1::TRIAL_PURPOSE_SEARCH) continue;
    EXPECT_TRUE(searched.insert(trial.config).second) << trial.config << " was tried twice";
  }
  CheckProposals(row, study, *history);
  CheckBest(row, study);
}

// The strategy, asked again with the same seed and told the same, proposes the same.
void Simulation::CheckProposals(const JobRow& row, const StudyRow& study, const StudyHistory& history) {
  tunefarm::v1::Job spec;
  tunefarm::v1::Problem problem;
  ASSERT_TRUE(spec.ParseFromString(row.spec));
  ASSERT_TRUE(problem.ParseFromString(study.problem));
  const auto plan = KernelPlan::Compile(TestKernel());
  ASSERT_TRUE(plan.ok());
  const auto resolved = (*plan)->ResolveProblem(problem);
  ASSERT_TRUE(resolved.ok());
  const auto device_class = DeviceClass::FromProto(HostDevice().device_class());
  ASSERT_TRUE(device_class.ok());
  const auto space = (*plan)->BuildSpace(*resolved, *device_class);
  ASSERT_TRUE(space.ok());
  const auto guide = MakeCostGuide(spec.strategy().cost_model(), spec.strategy().strategy_name(), *plan, *resolved,
                                   *device_class, *space);
  ASSERT_TRUE(guide.ok());
  auto strategy = MakeStudyStrategy(spec, *space, {}, *guide);
  ASSERT_TRUE(strategy.ok()) << strategy.status();
  std::map<int64_t, const UnitRow*> units;
  for (const UnitRow& unit : history.units) units[unit.unit_id] = &unit;
  std::map<int64_t, const TrialRow*> trials;
  for (const TrialRow& trial : history.trials) trials[trial.ordinal] = &trial;
  for (const StudyEvent& event : history.events) {
    const UnitRow& unit = *units.at(event.unit_id);
    if (unit.kind != UnitKind::kSearch) continue;
    if (event.kind == StudyEvent::Kind::kPropose) {
      wire::Assignment payload;
      ASSERT_TRUE(payload.ParseFromString(unit.payload));
      const auto asked = (*strategy)->Ask(unit.trial_count);
      ASSERT_TRUE(asked.ok()) << asked.status();
      ASSERT_EQ(static_cast<int>(asked->size()), unit.trial_count) << "at event " << event.sequence;
      for (int i = 0; i < unit.trial_count; ++i) {
        const auto recorded = (*plan)->ParseConfig(payload.trials(i).config());
        ASSERT_TRUE(recorded.ok());
        EXPECT_EQ((*asked)[static_cast<size_t>(i)].ToText(), recorded->ToText()) << "at event " << event.sequence;
      }
      continue;
    }
    for (int64_t ordinal = unit.first_ordinal; ordinal < unit.first_ordinal + unit.trial_count; ++ordinal) {
      const auto found = trials.find(ordinal);
      if (found == trials.end()) continue;
      Trial trial;
      ASSERT_TRUE(trial.ParseFromString(found->second->detail));
      const auto config = (*plan)->ParseConfig(trial.config());
      ASSERT_TRUE(config.ok());
      (*strategy)->Tell({static_cast<uint64_t>(ordinal), *config,
                         HasTime(trial) ? ToldOutcome::kOk : ToldOutcome::kFailed,
                         HasTime(trial) ? trial.measurement().median_ns() : 0});
    }
  }
}

// The best is the fastest of all that were judged in a final, whichever job found it.
void Simulation::CheckBest(const JobRow& row, const StudyRow& study) {
  const auto plan = KernelPlan::Compile(TestKernel());
  const auto best = store_->FindBest((*plan)->program_digest(), study.problem_key, study.class_id);
  ASSERT_TRUE(best.ok());
  TrialQuery query;
  query.job_id = row.job_id;
  query.study_number = study.number;
  query.purpose = tunefarm::v1::TRIAL_PURPOSE_FINALIST;
  query.outcomes = {tunefarm::v1::OUTCOME_OK};
  query.order_by_time = true;
  query.page.page_size = 1;
  const auto fastest = store_->ListTrials(query);
  ASSERT_TRUE(fastest.ok());
  if (fastest->rows.empty()) return;
  ASSERT_TRUE(best->has_value()) << "a final had a winner, and nothing was promoted";
  EXPECT_LE((*best)->median_ns, fastest->rows[0].median_ns * 1.011)
      << "a finalist of job " << row.job_id << " is faster than the best";
  const auto trial = store_->GetTrial(
      (*best)->job_id, 1 + static_cast<int>((*best)->study_id - study.study_id) + study.number - 1, (*best)->ordinal);
  if ((*best)->job_id == row.job_id) {
    ASSERT_TRUE(trial.ok()) << trial.status();
    EXPECT_EQ(trial->purpose, tunefarm::v1::TRIAL_PURPOSE_FINALIST);
    EXPECT_EQ(trial->outcome, tunefarm::v1::OUTCOME_OK);
  }
}

}  // namespace tunefarm
