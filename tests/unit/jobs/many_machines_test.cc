// Machines of one GPU each, with the real agent and its link, on a fake clock: what several do takes as many times less.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/fakes/cuda_definition.h"
#include "tests/fakes/temporary_directory.h"
#include "tests/unit/jobs/farm.h"
#include "tests/unit/jobs/remote_machine.h"

namespace tunefarm {
namespace {

constexpr int kTrials = 500;
constexpr Duration kRun = std::chrono::milliseconds(20);

struct FarmSize {
  int machines, cores;  // each compiles on so many
};

tunefarm::v1::Kernel WideKernel() {
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
    JobServiceOptions options;
    options.store = store_.get();
    options.control = &control_;
    options.lease = &lease_;
    options.entropy = &entropy_;
    options.has_own_agent = false;
    options.agent_lease_ms = 60'000;
    service_ = std::make_unique<JobService>(options);
    TUNEFARM_CHECK_OK(service_->Start());
  }
  ~ManyMachinesTest() override {
    machines_.clear();
    service_->Stop();
  }

  void AddMachine() {
    const std::string name = fmt::format("GPU-{}", machines_.size());
    std::filesystem::create_directory(directory_.File(name));
    const auto play = [this](const FakeEvaluator::Question& question) {
      FakeEvaluator::Script script;
      script.compile_time = std::chrono::milliseconds(2);
      script.run_time = kRun;
      if (question.is_run) ++runs_[question.device_uuid];
      return script;
    };
    machines_.push_back(std::make_unique<RemoteMachine>(this, &clock_, &entropy_, FakeGpu(name), directory_.File(name),
                                                        play, GetParam().cores));
    machines_.back()->Boot();
    EXPECT_TRUE(RunUntil([&] { return service_->ListDevices().size() == machines_.size(); }));
  }

  // Seconds from the submission to the end of the search.
  double Search() {
    runs_.clear();
    tunefarm::v1::Job job;
    *job.add_problems() = TestProblem(1024);
    job.mutable_strategy()->set_strategy_name("exhaustive");
    job.mutable_policy()->set_no_reuse(true);
    const auto submitted = service_->Submit(job, WideKernel(), "", false);
    TUNEFARM_CHECK_OK(submitted);
    const MonotonicTime began = clock_.Now();
    EXPECT_TRUE(RunUntil([&] { return service_->GetJob(submitted->name())->progress().done() >= kTrials; }));
    const double seconds = std::chrono::duration<double>(clock_.Now() - began).count();
    searched_ = runs_;
    EXPECT_TRUE(RunUntil([&] {
      return service_->GetJob(submitted->name())->state() == tunefarm::v1::JOB_STATE_SUCCEEDED;
    }));
    return seconds;
  }

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
  ControlLink* ControlAt(int) override { return service_->control_link(); }
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
  std::unique_ptr<JobService> service_;
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
    EXPECT_NEAR(runs, kTrials / GetParam().machines, 6) << uuid;
  }
}

INSTANTIATE_TEST_SUITE_P(Farms, ManyMachinesTest,
                         testing::Values(FarmSize{2, 16}, FarmSize{4, 16}, FarmSize{2, 64}, FarmSize{4, 64}),
                         [](const auto& size) {
                           return fmt::format("{}MachinesOf{}Cores", size.param.machines, size.param.cores);
                         });

}  // namespace
}  // namespace tunefarm
