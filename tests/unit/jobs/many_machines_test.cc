// Machines of one GPU each, with the real agent and its link, on a fake clock: what several do takes as many times
// less.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/store/store.h"
#include "tests/fakes/cuda_definition.h"
#include "tests/fakes/temporary_directory.h"
#include "tests/unit/jobs/farm.h"
#include "tests/unit/jobs/remote_machine.h"

namespace tunefarm {
namespace {

constexpr int kTrialsOfMany = 500;
constexpr Duration kRun = std::chrono::milliseconds(20);

struct FarmSize {
  int machines, cores;  // each compiles on so many
};

tunefarm::v1::Kernel KernelOf500() {
  return CudaDefinition("wide", "parameters { name: 'T' range { first: 1 last: 500 } }", "T", "32");
}

class ManyMachinesTest : public testing::TestWithParam<FarmSize>, public NetworkWorld {
 protected:
  ManyMachinesTest() {
    SqliteOptions sqlite;
    sqlite.path = directory_.File("tunefarm.db");
    sqlite.backup_directory = directory_.path();
    sqlite.clock = &clock_;
    auto store = OpenSqliteStore(sqlite);
    TUNEFARM_CHECK_OK(store);
    store_ = *std::move(store);
    ControlPlaneOptions options;
    options.store = store_.get();
    options.control = options.job_watchers = options.watchers = options.lease = &control_;
    options.tasks = &control_;
    options.lease = &lease_;
    options.entropy = &entropy_;
    options.has_own_agent = false;
    options.agent_lease_ms = 60'000;
    options.node = PermanentNode("control");
    service_ = std::make_unique<TestService>(options);
    TUNEFARM_CHECK_OK(service_->Start());
  }
  ~ManyMachinesTest() override {
    machines_.clear();
    service_->Stop();
  }

  void AddMachine() {
    const std::string name = fmt::format("GPU-{}", machines_.size());
    std::filesystem::create_directory(directory_.File(name));
    const auto play = [this, name](const FakeEvaluator::Question& question) {
      FakeEvaluator::Script script;
      if (!question.is_run) compiled_by_.insert(name);
      script.compile_time = std::chrono::milliseconds(2);
      script.run_time = kRun;
      if (question.is_run) ++runs_[question.device_uuid];
      if (question.is_run) configs_.insert(question.config);
      return script;
    };
    machines_.push_back(std::make_unique<RemoteMachine>(this, &clock_, &entropy_, FakeGpu(name), directory_.File(name),
                                                        play, GetParam().cores));
    machines_.back()->Boot();
    EXPECT_TRUE(RunUntil([&] { return service_->devices().List().size() == machines_.size(); }));
  }

  // Seconds from the submission to the end of the search.
  double Search() {
    runs_.clear();
    const std::string job = Submit();
    const MonotonicTime began = clock_.Now();
    EXPECT_TRUE(RunUntil([&] { return Done(job) >= kTrialsOfMany; }));
    const double seconds = std::chrono::duration<double>(clock_.Now() - began).count();
    searched_ = runs_;
    EXPECT_TRUE(RunUntil([&] { return service_->GetJob(job)->state() == tunefarm::v1::JOB_STATE_SUCCEEDED; }));
    return seconds;
  }

  std::string Submit(const tunefarm::v1::Kernel& kernel = KernelOf500(), bool no_reuse = true) {
    tunefarm::v1::Job job;
    *job.add_problems() = TestProblem(1024);
    job.mutable_strategy()->set_strategy_name("exhaustive");
    job.mutable_policy()->set_no_reuse(no_reuse);
    const auto submitted = service_->Submit(job, kernel, "", false);
    TUNEFARM_CHECK_OK(submitted);
    return submitted->name();
  }
  int64_t Done(const std::string& job) { return service_->GetJob(job)->progress().done(); }

  template <typename Condition>
  bool RunUntil(Condition condition, Duration limit = std::chrono::minutes(5)) {
    const MonotonicTime end = clock_.Now() + limit;
    while (!condition()) {
      if (clock_.Now() >= end) return false;
      if (!RunSomething()) AdvanceTo(end);
    }
    return true;
  }

  // NetworkWorld:
  Dice& dice() override { return dice_; }
  MonotonicTime Now() const override { return clock_.Now(); }
  bool IsCalm() const override { return true; }
  int nodes() const override { return 1; }
  ControlLink* ControlAt(int) override { return &service_->link(); }
  int BootOf(int) const override { return 1; }
  void InNode(int, const std::function<void()>& call) override { call(); }
  void Later(Duration, std::function<void()>) override {}  // nothing comes late where all is calm
  void LetPass(Duration time) override {
    constexpr int kPassingMax = 3;
    if (passing_ >= kPassingMax) return;
    ++passing_;
    const MonotonicTime end = clock_.Now() + time;
    while (clock_.Now() < end) {
      if (!RunSomething()) AdvanceTo(end);
    }
    --passing_;
  }

  std::set<std::string> configs_;               // that have run
  std::set<std::string> compiled_by_;           // machines
  std::map<std::string, int> runs_, searched_;  // by device; until the last search had ended

 protected:
  bool RunSomething() {
    for (const auto& machine : machines_) {
      for (ManualExecutor* executor : machine->Executors()) {
        if (machine->Run(executor)) return true;
      }
    }
    // A call that comes in meanwhile runs beside these, as threads do.
    if (runs_control_) return false;
    runs_control_ = true;
    const bool has_run = control_.RunOne() || lease_.RunOne();
    runs_control_ = false;
    return has_run;
  }

  // To the next timer, at most to `end`.
  void AdvanceTo(MonotonicTime end) {
    std::vector<ManualExecutor*> executors = {&control_, &lease_};
    for (const auto& machine : machines_) {
      for (ManualExecutor* executor : machine->Executors()) executors.push_back(executor);
    }
    for (ManualExecutor* executor : executors) {
      if (const auto due = executor->NextDue(); due.has_value() && *due > clock_.Now()) end = std::min(end, *due);
    }
    clock_.AdvanceTo(end);
  }

  TemporaryDirectory directory_;
  FakeClock clock_;
  FakeEntropy entropy_;
  Dice dice_{1};
  ManualExecutor control_{&clock_}, lease_{&clock_};
  std::unique_ptr<Store> store_;
  std::unique_ptr<TestService> service_;
  std::vector<std::unique_ptr<RemoteMachine>> machines_;
  int passing_ = 0;
  bool runs_control_ = false;
};

TEST_P(ManyMachinesTest, AllWorkToTheEnd) {
  AddMachine();
  const double alone = Search();
  while (static_cast<int>(machines_.size()) < GetParam().machines) AddMachine();
  const double together = Search();
  // But for the first trial, which is alone, and about one trial at the end.
  const double run_seconds = std::chrono::duration<double>(kRun).count();
  EXPECT_LE(together, alone / GetParam().machines + 6 * run_seconds) << "of " << alone << " s by one";
  for (const auto& [uuid, runs] : searched_) {
    EXPECT_NEAR(runs, kTrialsOfMany / GetParam().machines, 6) << uuid;
  }
}

// An agent without devices is given what waits for one, each config once, and nothing that a device has.
TEST_P(ManyMachinesTest, WhatWaitsIsCompiledByOthers) {
  AddMachine();
  ControlLink* const control = &service_->link();
  tunefarm::agent::v1::RegisterRequest about;
  about.set_agent_id("helper");
  about.set_display_name("helper");
  about.set_protocol(ControlLink::kProtocol);
  about.set_compiles_only(true);
  tunefarm::agent::v1::TakeCompilesRequest request;
  request.set_agent_id("helper");
  request.set_configs(40);
  EXPECT_TRUE(absl::IsUnavailable(control->TakeCompiles(request).status())) << "it is not known";
  const auto registered = control->Register(about);
  ASSERT_TRUE(registered.ok()) << registered.status();
  request.set_epoch(registered->epoch() + 1);
  EXPECT_TRUE(absl::IsFailedPrecondition(control->TakeCompiles(request).status()));
  request.set_epoch(registered->epoch());
  ASSERT_TRUE(control->TakeCompiles(request).ok());

  const std::string job = Submit();
  std::set<std::string> taken;
  const auto take = [&] {
    const auto response = control->TakeCompiles(request);
    TUNEFARM_CHECK_OK(response);
    int count = 0;
    for (const auto& task : response->tasks()) {
      EXPECT_EQ(task.device_class().display_name(), FakeGpu("").device_class().display_name());
      tunefarm::agent::v1::FetchKernelRequest fetch;
      fetch.set_kernel_id(task.kernel_id());
      EXPECT_TRUE(control->FetchKernel(fetch).ok()) << task.kernel_id();
      EXPECT_EQ(task.problem().dims().at("N").int_value(), 1024);
      for (const auto& config : task.configs()) {
        EXPECT_TRUE(taken.insert(config).second) << config << " is compiled twice";
        EXPECT_EQ(configs_.count(config), 0u) << config << " has run";
        ++count;
      }
    }
    return count;
  };
  ASSERT_TRUE(RunUntil([&] { return Done(job) >= 10; }));
  EXPECT_EQ(take(), 40);
  ASSERT_TRUE(RunUntil([&] { return Done(job) >= 200; }));
  EXPECT_GT(take(), 0);
  ASSERT_TRUE(service_->Cancel(job).ok());
  EXPECT_EQ(take(), 0);

  tunefarm::agent::v1::OfferBinaryRequest offer;
  offer.set_key("no key");
  EXPECT_TRUE(absl::IsInvalidArgument(control->OfferBinary(offer).status()));
  offer.set_key(Sha256("key").Hex());
  offer.set_binary("binary");
  ASSERT_TRUE(control->OfferBinary(offer).ok());
  tunefarm::agent::v1::FetchBinaryRequest fetch;
  fetch.set_key(offer.key());
  EXPECT_EQ(control->FetchBinary(fetch)->binary(), "binary");
  fetch.set_key(Sha256("other").Hex());
  EXPECT_EQ(control->FetchBinary(fetch)->binary(), "");
}

TEST_P(ManyMachinesTest, ConfigsThatDoTheSameAreMeasuredOnceByAllMachinesTogether) {
  while (static_cast<int>(machines_.size()) < GetParam().machines) AddMachine();
  // T is in the binary, and no value of R changes the launch.
  const std::string job = Submit(CudaDefinition("twins",
                                                "parameters { name: 'R' range { first: 1 last: 64 } bind: BIND_RUN } "
                                                "parameters { name: 'T' values { ints: [ 1, 2 ] } }",
                                                "min(R, 1)", "32"),
                                 false);
  ASSERT_TRUE(RunUntil([&] { return service_->GetJob(job)->state() == tunefarm::v1::JOB_STATE_SUCCEEDED; }));
  tunefarm::v1::ListTrialsRequest request;
  request.set_parent(job);
  request.set_page_size(1000);
  const auto trials = service_->tuning_api().ListTrials(request);
  ASSERT_TRUE(trials.ok()) << trials.status();
  std::vector<int64_t> finalists;
  std::map<int64_t, std::vector<int64_t>> measured;  // ordinals by binary
  for (const tunefarm::v1::Trial& trial : trials->trials()) {
    if (trial.purpose() == tunefarm::v1::TRIAL_PURPOSE_FINALIST) {
      finalists.push_back(trial.config().values().at("T").int_value());
    } else if (trial.purpose() == tunefarm::v1::TRIAL_PURPOSE_SEARCH && !trial.reused()) {
      measured[trial.config().values().at("T").int_value()].push_back(trial.ordinal());
    }
  }
  ASSERT_EQ(measured.size(), 2u);
  for (const auto& [binary, ordinals] : measured) EXPECT_EQ(ordinals.size(), 1u) << "T=" << binary;
  // All others took that one's verdict over, whichever machine they were given to.
  int reused = 0;
  for (const tunefarm::v1::Trial& trial : trials->trials()) {
    if (trial.purpose() != tunefarm::v1::TRIAL_PURPOSE_SEARCH || !trial.reused()) continue;
    ++reused;
    EXPECT_EQ(trial.reused_ordinal(), measured[trial.config().values().at("T").int_value()].front());
    EXPECT_EQ(trial.outcome(), tunefarm::v1::OUTCOME_OK);
  }
  EXPECT_EQ(reused, 126);
  EXPECT_GT(compiled_by_.size(), 1u);
  std::sort(finalists.begin(), finalists.end());
  EXPECT_EQ(finalists, (std::vector<int64_t>{1, 2}));
}

INSTANTIATE_TEST_SUITE_P(Farms, ManyMachinesTest,
                         testing::Values(FarmSize{2, 16}, FarmSize{4, 16}, FarmSize{2, 64}, FarmSize{4, 64}),
                         [](const auto& size) {
                           return fmt::format("{}MachinesOf{}Cores", size.param.machines, size.param.cores);
                         });

}  // namespace
}  // namespace tunefarm
