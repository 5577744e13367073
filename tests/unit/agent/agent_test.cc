// The agent against a scripted control and evaluator.
#include "server/agent/agent.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/agent/agent_data_files.h"
#include "server/agent/trial_report.h"
#include "server/base/check.h"
#include "server/base/hash.h"
#include "server/base/status.h"
#include "server/data_files/data_file_store.h"
#include "tests/fakes/cuda_definition.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_entropy.h"
#include "tests/fakes/fake_evaluator.h"
#include "tests/fakes/manual_executor.h"
#include "tests/fakes/temporary_directory.h"

namespace tunefarm {
namespace {

namespace wire = tunefarm::agent::v1;

tunefarm::v1::Kernel CudaKernel() {
  return CudaDefinition("scale", "parameters { name: 'T' range { first: 1 last: 60 } }", "1", "T * 32");
}

// Hands out what `ready` holds and keeps what is reported.
class ScriptedControl : public AgentLink {
 public:
  absl::StatusOr<wire::RegisterResponse> Register(const wire::RegisterRequest&) override {
    if (away) return Unavailable("away");
    wire::RegisterResponse response;
    response.set_epoch(++epoch);
    return response;
  }
  absl::StatusOr<wire::SynchronizeResponse> Synchronize(const wire::SynchronizeRequest& request) override {
    if (away) return Unavailable("away");
    wire::SynchronizeResponse response;
    response.set_epoch_expired(request.epoch() != epoch);
    for (const auto& unit : request.units()) {
      if (unit.unit_id() == revoked) response.add_revoked_unit_ids(revoked);
    }
    if (request.demands_size() > 0 && !ready.empty() && !response.epoch_expired()) {
      *response.add_assignments() = ready.front();
      ready.erase(ready.begin());
    }
    in_hand = request.units_size();
    return response;
  }
  absl::StatusOr<wire::ReportTrialsResponse> ReportTrials(const wire::ReportTrialsRequest& request) override {
    if (away) return Unavailable("away");
    reports.push_back(request);
    wire::ReportTrialsResponse response;
    response.set_verdict(stale ? wire::REPORT_VERDICT_STALE : wire::REPORT_VERDICT_ACCEPTED);
    return response;
  }
  absl::StatusOr<wire::FetchKernelResponse> FetchKernel(const wire::FetchKernelRequest&) override {
    ++fetches;
    wire::FetchKernelResponse response;
    response.set_kernel(kernel.SerializeAsString());
    return response;
  }
  bool shares_work() const override { return shares; }
  void ClaimWork(const wire::ClaimWorkRequest& request,
                 const std::function<void(absl::StatusOr<wire::ClaimWorkResponse>)>& done) override {
    claims.push_back(request);
    if (keep != nullptr) *keep = done;
    if (answer) done(answer(request));
  }
  void SetWake(std::function<void()> function) override { wake = std::move(function); }

  int reported() const {
    int count = 0;
    for (const auto& report : reports) count += report.trials_size();
    return count;
  }

  tunefarm::v1::Kernel kernel = CudaKernel();
  bool away = false, stale = false, shares = false;
  std::function<absl::StatusOr<wire::ClaimWorkResponse>(const wire::ClaimWorkRequest&)> answer;  // empty: none comes
  std::function<void(absl::StatusOr<wire::ClaimWorkResponse>)>* keep = nullptr;                  // the test answers
  std::vector<wire::ClaimWorkRequest> claims;
  std::function<void()> wake;
  int64_t epoch = 0, revoked = 0;
  int in_hand = 0, fetches = 0;
  std::vector<wire::Assignment> ready;
  std::vector<wire::ReportTrialsRequest> reports;
};

class AgentTest : public testing::Test {
 protected:
  AgentTest() : agent_executor_(&clock_), evaluator_executor_(&clock_), evaluator_(&evaluator_executor_) {
    agent_ = std::make_unique<Agent>(
        AgentOptions{&control_, &evaluator_, &agent_executor_, &entropy_, "here", {FakeGpu("GPU-1")}});
  }

  void Offer(int64_t unit_id, int first, int count, int rounds = 0, std::vector<uint64_t> seeds = {}) {
    wire::Assignment assignment;
    assignment.set_unit_id(unit_id);
    assignment.set_token(1);
    assignment.set_device_uuid("GPU-1");
    assignment.set_kernel_id("kernels/x");
    assignment.set_interleaved_rounds(rounds);
    for (uint64_t seed : seeds) assignment.mutable_problem()->add_input_seeds(seed);
    for (int i = 0; i < count; ++i) {
      auto* trial = assignment.add_trials();
      trial->set_ordinal(first + i);
      trial->set_attempt(1);
      trial->set_config("T=" + std::to_string(first + i + 1));
    }
    control_.ready.push_back(assignment);
  }

  void RunFor(Duration time) {
    const MonotonicTime end = clock_.Now() + time;
    while (true) {
      while (agent_executor_.RunOne() || evaluator_executor_.RunOne()) {
      }
      std::optional<MonotonicTime> due = agent_executor_.NextDue();
      if (const auto other = evaluator_executor_.NextDue(); other.has_value() && (!due.has_value() || *other < *due))
        due = other;
      if (!due.has_value() || *due > end) break;
      clock_.AdvanceTo(*due);
    }
    clock_.AdvanceTo(end);
  }

  FakeClock clock_;
  FakeEntropy entropy_;
  ManualExecutor agent_executor_, evaluator_executor_;
  FakeEvaluator evaluator_;
  ScriptedControl control_;
  std::unique_ptr<Agent> agent_;
};

TEST_F(AgentTest, ReportsEachTrialOnceAndTheLastOneEndsTheUnit) {
  Offer(1, 0, 10);
  Offer(2, 10, 10);
  agent_->Start();
  RunFor(std::chrono::seconds(5));
  EXPECT_EQ(control_.reported(), 20);
  int done = 0;
  for (const auto& report : control_.reports) done += report.unit_done();
  EXPECT_EQ(done, 2);
  EXPECT_EQ(control_.in_hand, 0);
  EXPECT_EQ(control_.fetches, 1);
  // In the order of the units, one at a time, compiling ahead meanwhile but not beyond the bound.
  ASSERT_EQ(evaluator_.runs().size(), 20u);
  EXPECT_EQ(evaluator_.runs().front().config, "T=1");
  EXPECT_EQ(evaluator_.runs().back().config, "T=20");
  EXPECT_EQ(evaluator_.most_running(), 1);
  EXPECT_TRUE(evaluator_.overlapped());
  EXPECT_LE(evaluator_.most_compiling(), evaluator_.compile_slots() * 3 + 2);
}

TEST_F(AgentTest, ADeviceLimitPrunesBeforeAnythingIsCompiled) {
  Offer(1, 31, 2);  // 32 * 32 threads fit, 33 * 32 do not
  agent_->Start();
  RunFor(std::chrono::seconds(2));
  ASSERT_EQ(control_.reported(), 2);
  int pruned = 0;
  for (const auto& report : control_.reports) {
    for (const auto& trial : report.trials()) {
      if (trial.outcome() != tunefarm::v1::OUTCOME_PRUNED) continue;
      ++pruned;
      EXPECT_EQ(trial.ordinal(), 32);
      EXPECT_NE(trial.message(), "");
    }
  }
  EXPECT_EQ(pruned, 1);
}

// The rounds of a final that has `count` trials, as they were run.
std::vector<std::vector<std::string>> RoundsOf(const std::vector<std::string>& runs, size_t count) {
  std::vector<std::vector<std::string>> rounds;
  for (size_t i = 0; i < runs.size(); i += count) {
    rounds.emplace_back(runs.begin() + static_cast<std::ptrdiff_t>(i),
                        runs.begin() + static_cast<std::ptrdiff_t>(std::min(i + count, runs.size())));
  }
  return rounds;
}

TEST_F(AgentTest, InterleavedRoundsHaveTheirOwnOrderAndGoThroughTheInputSets) {
  Offer(1, 0, 3, 4, {7, 8});
  agent_->Start();
  RunFor(std::chrono::seconds(5));
  std::vector<std::string> order;
  for (const auto& run : evaluator_.runs()) order.push_back(run.config);
  const auto rounds = RoundsOf(order, 3);
  ASSERT_EQ(rounds.size(), 4u);
  for (const auto& round : rounds) EXPECT_THAT(round, testing::UnorderedElementsAre("T=1", "T=2", "T=3"));
  EXPECT_GT(std::set<std::vector<std::string>>(rounds.begin(), rounds.end()).size(), 1u);
  for (size_t i = 0; i < order.size(); ++i) EXPECT_EQ(evaluator_.runs()[i].input_seed, i / 3 % 2 == 0 ? 7u : 8u);
  ASSERT_EQ(control_.reported(), 3);
  EXPECT_EQ(control_.reports[0].trials(0).measurement().samples(), 20);
  EXPECT_EQ(control_.reports[0].trials(0).measurement().median_ns(), 1000);
}

TEST_F(AgentTest, EnergyIsMeasuredOfFinalistsInTheirLastRoundAlone) {
  evaluator_.set_scripter([](const FakeEvaluator::Question& question) {
    FakeEvaluator::Script script;
    script.millijoules = question.attempt + 1;
    return script;
  });
  Offer(1, 0, 3);
  Offer(2, 3, 2, 4);
  Offer(3, 5, 2, 2);
  for (size_t i : {0u, 1u}) control_.ready[i].mutable_policy()->set_measure_energy(true);
  auto* const baseline = control_.ready[1].mutable_trials(1);
  baseline->set_purpose(v1::TRIAL_PURPOSE_BASELINE);
  baseline->clear_config();
  agent_->Start();
  RunFor(std::chrono::seconds(5));
  std::vector<std::string> measured;
  for (const auto& run : evaluator_.runs()) {
    if (run.measures_energy) measured.push_back(run.config);
  }
  EXPECT_THAT(measured, testing::ElementsAre("T=4"));
  for (const auto& report : control_.reports) {
    for (const auto& trial : report.trials()) {
      EXPECT_EQ(trial.measurement().has_energy(), trial.ordinal() == 3);
      // The attempts of the fourth round are the fourth ones.
      EXPECT_EQ(trial.measurement().energy().millijoules(), trial.ordinal() == 3 ? 4 : 0);
    }
  }
}

// Runs of microseconds wait for the device in the evaluator, but those of a final keep their rounds and their order.
TEST_F(AgentTest, AFinalOfVeryShortRunsKeepsItsRounds) {
  evaluator_.set_scripter([](const FakeEvaluator::Question&) {
    FakeEvaluator::Script script;
    script.run_time = std::chrono::microseconds(100);
    return script;
  });
  Offer(1, 0, 10);
  Offer(2, 10, 1, 5);
  Offer(3, 11, 2, 3);
  agent_->Start();
  RunFor(std::chrono::seconds(5));
  EXPECT_EQ(control_.reported(), 13);
  std::vector<std::string> order;
  for (const auto& run : evaluator_.runs()) order.push_back(run.config);
  ASSERT_EQ(order.size(), 10u + 5 + 6);
  const std::vector<std::string> finals(order.begin() + 10, order.end());
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(finals[i], "T=11");
  for (const auto& round : RoundsOf({finals.begin() + 5, finals.end()}, 2)) {
    EXPECT_THAT(round, testing::UnorderedElementsAre("T=12", "T=13"));
  }
}

TEST_F(AgentTest, ARoundIsMeasuredBesideOneYardstick) {
  Offer(1, 0, 5);
  Offer(2, 5, 3, 4);
  Offer(3, 8, 1, 2);
  agent_->Start();
  RunFor(std::chrono::seconds(5));
  const std::vector<FakeEvaluator::RunRecord> runs = evaluator_.runs();
  ASSERT_EQ(runs.size(), 5u + 12 + 2);
  for (size_t i = 0; i < runs.size(); ++i) {
    EXPECT_EQ(runs[i].yardstick, i >= 5 && i < 17 ? "T=6" : "") << i << ": only a final has something to compare";
  }
  EXPECT_EQ(runs[16].config, "T=6") << "an agent that is given the rest of the final must choose the same yardstick";
  for (const auto& report : control_.reports) {
    for (const auto& trial : report.trials()) {
      const bool is_compared = trial.ordinal() >= 5 && trial.ordinal() < 8;
      EXPECT_EQ(trial.measurement().yardstick_ns_size(), is_compared ? 20 : 0) << trial.ordinal();
    }
  }
}

// It cannot be told whose failure it is, and the yardstick must cost nobody a verdict.
TEST_F(AgentTest, WhatFailsBesideTheYardstickRunsAloneAndSoDoesTheRest) {
  evaluator_.set_scripter([](const FakeEvaluator::Question& question) {
    FakeEvaluator::Script script;
    const bool fails =
        question.is_run && question.config == "T=2" && question.attempt >= 1 && !question.yardstick.empty();
    if (fails) script.run = tunefarm::v1::OUTCOME_RUN_CRASH;
    return script;
  });
  Offer(1, 0, 3, 4);
  agent_->Start();
  RunFor(std::chrono::seconds(5));
  ASSERT_EQ(control_.reported(), 3);
  for (const auto& report : control_.reports) {
    for (const auto& trial : report.trials()) {
      EXPECT_EQ(trial.outcome(), tunefarm::v1::OUTCOME_OK) << trial.ordinal();
      EXPECT_EQ(trial.measurement().samples(), 20) << trial.ordinal();
      EXPECT_EQ(trial.measurement().yardstick_ns_size(), 0) << "the rounds before are compared by medians too";
    }
  }
  const std::vector<FakeEvaluator::RunRecord> runs = evaluator_.runs();
  EXPECT_EQ(runs.size(), 3u * 4 + 1);
  EXPECT_EQ(runs.back().yardstick, "");
}

TEST_F(AgentTest, AFailureWithoutTheYardstickIsTheTrialsOwnAndSoIsAWrongResult) {
  evaluator_.set_scripter([](const FakeEvaluator::Question& question) {
    FakeEvaluator::Script script;
    if (question.is_run && question.config == "T=2") script.run = tunefarm::v1::OUTCOME_WRONG_RESULT;
    if (question.is_run && question.config == "T=5") script.run = tunefarm::v1::OUTCOME_RUN_CRASH;
    return script;
  });
  Offer(1, 0, 3, 4);
  Offer(2, 3, 3, 4);
  agent_->Start();
  RunFor(std::chrono::seconds(5));
  std::map<int64_t, tunefarm::v1::Outcome> outcomes;
  for (const auto& report : control_.reports) {
    for (const auto& trial : report.trials()) outcomes[trial.ordinal()] = trial.outcome();
  }
  EXPECT_EQ(outcomes[1], tunefarm::v1::OUTCOME_WRONG_RESULT);
  EXPECT_EQ(outcomes[4], tunefarm::v1::OUTCOME_RUN_CRASH);
  EXPECT_EQ(control_.reported(), 6);
  std::map<std::string, int> runs;
  for (const auto& run : evaluator_.runs()) ++runs[run.config];
  EXPECT_EQ(runs["T=2"], 1) << "a wrong result is no other config's fault";
  EXPECT_EQ(runs["T=5"], 2);
}

TEST_F(AgentTest, UnitsOfADeviceThatLeavesServiceAreGivenBackWithWhatHasEnded) {
  bool sick = true;
  evaluator_.set_scripter([&](const FakeEvaluator::Question& question) {
    FakeEvaluator::Script script;
    script.out_of_service = sick && question.is_run && question.config != "T=1";
    return script;
  });
  Offer(1, 0, 4);
  Offer(2, 4, 4);
  agent_->Start();
  RunFor(std::chrono::milliseconds(500));
  std::set<int64_t> returned;
  for (const auto& report : control_.reports) {
    EXPECT_FALSE(report.unit_done());
    if (report.unit_returned()) returned.insert(report.unit_id());
    for (const auto& trial : report.trials()) EXPECT_EQ(trial.outcome(), tunefarm::v1::OUTCOME_OK) << "none is LOST";
  }
  EXPECT_EQ(returned, (std::set<int64_t>{1, 2}));
  EXPECT_EQ(control_.reported(), 1);
  EXPECT_EQ(control_.in_hand, 0);
  EXPECT_EQ(evaluator_.in_flight(), 0);
  // It asks again after a while, and gives back again as long as it is sick.
  Offer(2, 4, 4);
  RunFor(std::chrono::seconds(2));
  EXPECT_EQ(control_.reported(), 1);
  EXPECT_TRUE(control_.reports.back().unit_returned());
  sick = false;
  Offer(1, 1, 3);
  Offer(2, 4, 4);
  RunFor(std::chrono::seconds(5));
  EXPECT_EQ(control_.reported(), 8);
  EXPECT_TRUE(control_.reports.back().unit_done());
}

TEST_F(AgentTest, UnitsAreGivenBackWhenControlCanBeReachedAgain) {
  evaluator_.set_scripter([&](const FakeEvaluator::Question& question) {
    FakeEvaluator::Script script;
    script.out_of_service = question.is_run;
    if (question.is_run) control_.away = true;
    return script;
  });
  Offer(1, 0, 4);
  agent_->Start();
  RunFor(std::chrono::seconds(1));
  EXPECT_TRUE(control_.reports.empty());
  EXPECT_EQ(evaluator_.runs().size(), 1u) << "nothing is started on a device that takes no work";
  control_.away = false;
  RunFor(std::chrono::seconds(6));
  ASSERT_EQ(control_.reports.size(), 1u);
  EXPECT_TRUE(control_.reports[0].unit_returned());
}

TEST_F(AgentTest, CompilesAreForetoldFromThoseBeforeThem) {
  evaluator_.set_scripter([](const FakeEvaluator::Question& question) {
    FakeEvaluator::Script script;
    if (!question.is_run) script.compile_time = std::chrono::milliseconds(question.config == "T=2" ? 400 : 100);
    return script;
  });
  Offer(1, 0, 3);
  agent_->Start();
  RunFor(std::chrono::seconds(5));
  Offer(2, 1, 1);   // T=2 again
  Offer(3, 30, 1);  // not seen before
  RunFor(std::chrono::seconds(5));
  const std::vector<double> expected = evaluator_.expected_ms();
  ASSERT_EQ(expected.size(), 6u) << "the reference, three trials, two trials";
  for (int i = 0; i < 4; ++i) EXPECT_EQ(expected[static_cast<size_t>(i)], 0) << "nothing is known yet";
  EXPECT_GT(expected[4], 1.2 * expected[5]);
  EXPECT_GT(expected[5], 100);
}

TEST_F(AgentTest, AStaleVerdictDropsTheUnitAndKillsItsWork) {
  Offer(1, 0, 20);
  control_.stale = true;
  agent_->Start();
  RunFor(std::chrono::seconds(3));
  EXPECT_EQ(control_.reports.size(), 1u);
  EXPECT_GE(evaluator_.cancelled(), 1);
  EXPECT_EQ(evaluator_.in_flight(), 0);
  EXPECT_EQ(control_.in_hand, 0);
}

TEST_F(AgentTest, ResultsWaitWhileControlIsAway) {
  Offer(1, 0, 6);
  agent_->Start();
  RunFor(std::chrono::milliseconds(25));
  control_.away = true;
  RunFor(std::chrono::seconds(30));
  EXPECT_LT(control_.reported(), 6);
  control_.away = false;
  RunFor(std::chrono::seconds(10));
  EXPECT_EQ(control_.reported(), 6);
  EXPECT_EQ(evaluator_.runs().size(), 6u) << "nothing ran twice";
}

TEST_F(AgentTest, AnExpiredEpochRegistersAgainWithEmptyHands) {
  Offer(1, 0, 20);
  agent_->Start();
  RunFor(std::chrono::milliseconds(50));
  control_.epoch += 10;
  RunFor(std::chrono::seconds(3));
  EXPECT_EQ(control_.epoch, 12);
  EXPECT_EQ(control_.in_hand, 0);
  EXPECT_EQ(evaluator_.in_flight(), 0);
}

TEST_F(AgentTest, StopKillsEverythingAndReportsNothingMore) {
  Offer(1, 0, 20);
  agent_->Start();
  RunFor(std::chrono::milliseconds(25));
  const int before = control_.reported();
  bool stopped = false;
  agent_->Stop([&] { stopped = true; });
  RunFor(std::chrono::seconds(3));
  EXPECT_TRUE(stopped);
  EXPECT_EQ(control_.reported(), before);
  EXPECT_EQ(evaluator_.in_flight(), 0);
}

TEST_F(AgentTest, ALostReferenceIsCompiledAgainAlthoughEveryTrialIsReady) {
  evaluator_.set_scripter([](const FakeEvaluator::Question& question) {
    FakeEvaluator::Script script;
    if (question.config == "T=1" && question.attempt == 0) script.compile = tunefarm::v1::OUTCOME_LOST;
    return script;
  });
  Offer(1, 5, 3);
  Offer(2, 8, 10);
  agent_->Start();
  RunFor(std::chrono::seconds(5));
  EXPECT_EQ(control_.reported(), 13);
  EXPECT_EQ(evaluator_.runs().size(), 13u);
}

TEST_F(AgentTest, AReferenceWhoseCompilerWasStoppedIsCompiledAgainButNotForEver) {
  evaluator_.set_scripter([](const FakeEvaluator::Question& question) {
    FakeEvaluator::Script script;
    if (question.config == "T=1" && question.attempt < 2) script.compile = tunefarm::v1::OUTCOME_COMPILE_TIMEOUT;
    return script;
  });
  Offer(1, 5, 3);
  agent_->Start();
  RunFor(std::chrono::seconds(5));
  EXPECT_EQ(control_.reported(), 3);
  EXPECT_EQ(evaluator_.runs().size(), 3u);
}

TEST_F(AgentTest, AReferenceThatNeverCompilesEndsItsTrialsWithItsOutcome) {
  evaluator_.set_scripter([](const FakeEvaluator::Question& question) {
    FakeEvaluator::Script script;
    if (question.config == "T=1") script.compile = tunefarm::v1::OUTCOME_COMPILE_TIMEOUT;
    return script;
  });
  Offer(1, 5, 3);
  agent_->Start();
  RunFor(std::chrono::seconds(5));
  ASSERT_EQ(control_.reported(), 3);
  EXPECT_TRUE(evaluator_.runs().empty());
  const auto compiles = evaluator_.compiles();
  EXPECT_EQ(std::count(compiles.begin(), compiles.end(), "T=1"), 3);
  EXPECT_EQ(evaluator_.reference_compiles(), 3);
  EXPECT_EQ(control_.reports[0].trials(0).outcome(), tunefarm::v1::OUTCOME_COMPILE_TIMEOUT);
}

TEST_F(AgentTest, ARevokedUnitTakesItsReferenceAlong) {
  evaluator_.set_scripter([](const FakeEvaluator::Question& question) {
    FakeEvaluator::Script script;
    if (question.config == "T=1" && question.attempt == 0) script.compile_time = std::chrono::hours(1);
    return script;
  });
  Offer(1, 5, 1);
  agent_->Start();
  RunFor(std::chrono::milliseconds(100));
  EXPECT_EQ(evaluator_.in_flight(), 1);
  control_.revoked = 1;
  RunFor(std::chrono::seconds(5));
  EXPECT_EQ(evaluator_.in_flight(), 0);
  // The kill is no loss: the next unit compiles it anew.
  Offer(2, 6, 1);
  RunFor(std::chrono::seconds(5));
  EXPECT_EQ(control_.reported(), 1);
}

// ---- Works of several agents ----

class AgentAmongOthersTest : public AgentTest {
 protected:
  AgentAmongOthersTest() {
    control_.shares = true;
    control_.answer = [this](const wire::ClaimWorkRequest& request) {
      wire::ClaimWorkResponse response;
      for (const wire::WorkClaim& claim : request.claims()) {
        asked_.insert(claim.ordinal());
        wire::WorkAnswer* const answer = response.add_answers();
        answer->set_is_elsewhere(elsewhere_.count(claim.ordinal()) > 0);
        const auto known = known_.find(claim.ordinal());
        if (known != known_.end()) *answer->mutable_measured() = known->second;
      }
      return response;
    };
  }
  static tunefarm::v1::Trial Measured(int64_t ordinal, double median_ns) {
    tunefarm::v1::Trial trial;
    trial.set_ordinal(ordinal);
    trial.set_outcome(tunefarm::v1::OUTCOME_OK);
    trial.set_phase(tunefarm::v1::PHASE_MEASURE);
    trial.set_device_uuid("GPU-far");
    trial.mutable_measurement()->set_median_ns(median_ns);
    return trial;
  }
  // By ordinal.
  std::map<int64_t, tunefarm::v1::Trial> Reported() const {
    std::map<int64_t, tunefarm::v1::Trial> trials;
    for (const auto& report : control_.reports) {
      for (const auto& trial : report.trials()) EXPECT_TRUE(trials.emplace(trial.ordinal(), trial).second);
    }
    return trials;
  }
  std::vector<std::string> Runs() const {
    std::vector<std::string> runs;
    for (const auto& run : evaluator_.runs()) runs.push_back(run.config);
    return runs;
  }

  std::set<int64_t> asked_, elsewhere_;           // ordinals
  std::map<int64_t, tunefarm::v1::Trial> known_;  // by ordinal
};

TEST_F(AgentAmongOthersTest, WhatControlKnowsIsReportedWithoutARun) {
  known_[1] = Measured(77, 500);
  known_[2] = Measured(78, 500);
  known_[2].set_outcome(tunefarm::v1::OUTCOME_NOISY);  // no verdict
  Offer(1, 0, 4);
  agent_->Start();
  RunFor(std::chrono::seconds(5));
  EXPECT_THAT(Runs(), testing::UnorderedElementsAre("T=1", "T=3", "T=4"));
  auto trials = Reported();
  ASSERT_EQ(trials.size(), 4u);
  EXPECT_TRUE(trials[1].reused());
  EXPECT_EQ(trials[1].reused_ordinal(), 77);
  EXPECT_EQ(trials[1].device_uuid(), "GPU-far");
  EXPECT_EQ(trials[1].measurement().median_ns(), 500);
  EXPECT_NE(trials[1].work(), 0u);
  EXPECT_FALSE(trials[2].reused());
  for (const auto& request : control_.claims) {
    for (const auto& claim : request.claims()) {
      EXPECT_EQ(claim.token(), 1);
      EXPECT_EQ(claim.unit_id(), 1);
      EXPECT_EQ(claim.work(), trials[claim.ordinal()].work());
    }
  }
  EXPECT_EQ(control_.claims.front().epoch(), 1);
}

TEST_F(AgentAmongOthersTest, WhatIsMeasuredElsewhereWaitsAndHoldsUpNothing) {
  for (int64_t ordinal = 0; ordinal < 20; ++ordinal) elsewhere_.insert(ordinal);
  Offer(1, 0, 20);
  Offer(2, 20, 5);
  agent_->Start();
  RunFor(std::chrono::milliseconds(900));
  EXPECT_THAT(Runs(), testing::UnorderedElementsAre("T=21", "T=22", "T=23", "T=24", "T=25"))
      << "neither the compiles nor the demand may stop at trials that wait";
  // Its verdict comes, and the agent is told.
  for (int64_t ordinal = 0; ordinal < 10; ++ordinal) known_[ordinal] = Measured(100, 500);
  elsewhere_.clear();
  control_.wake();
  RunFor(std::chrono::milliseconds(900));
  const auto trials = Reported();
  EXPECT_EQ(trials.size(), 25u);
  EXPECT_EQ(Runs().size(), 15u) << "what nobody measures any more is run";
  EXPECT_EQ(control_.in_hand, 0);
}

TEST_F(AgentAmongOthersTest, UnitsThatWaitLeaveRoomForOthers) {
  for (int64_t ordinal = 0; ordinal < 30; ++ordinal) {
    elsewhere_.insert(ordinal);
    Offer(1 + ordinal, static_cast<int>(ordinal), 1);
  }
  Offer(31, 30, 1);
  agent_->Start();
  RunFor(std::chrono::milliseconds(900));
  EXPECT_THAT(Runs(), testing::ElementsAre("T=31"));
}

// The verdict comes while the answer that knows nothing of it is on its way.
TEST_F(AgentAmongOthersTest, AWakeDuringAQuestionIsNotLost) {
  std::function<void(absl::StatusOr<wire::ClaimWorkResponse>)> late;
  const auto answers = std::exchange(control_.answer, nullptr);
  control_.keep = &late;
  Offer(1, 0, 1);
  agent_->Start();
  RunFor(std::chrono::milliseconds(100));
  ASSERT_TRUE(late);
  control_.wake();
  RunFor(std::chrono::milliseconds(10));
  known_[0] = Measured(77, 500);
  control_.answer = answers;
  wire::ClaimWorkResponse old;
  old.add_answers()->set_is_elsewhere(true);
  std::exchange(late, nullptr)(old);
  RunFor(std::chrono::milliseconds(100));
  ASSERT_EQ(control_.reported(), 1) << "before the next poll";
  EXPECT_TRUE(Reported()[0].reused());
}

TEST_F(AgentAmongOthersTest, WithoutAWakeControlIsAskedAgainAfterAWhile) {
  elsewhere_ = {0};
  Offer(1, 0, 1);
  agent_->Start();
  RunFor(std::chrono::milliseconds(900));
  EXPECT_TRUE(evaluator_.runs().empty());
  elsewhere_.clear();
  RunFor(std::chrono::seconds(2));
  EXPECT_EQ(control_.reported(), 1);
  EXPECT_EQ(evaluator_.runs().size(), 1u);
}

TEST_F(AgentAmongOthersTest, WithoutAnAnswerTrialsRun) {
  control_.answer = nullptr;
  Offer(1, 0, 3);
  agent_->Start();
  RunFor(std::chrono::seconds(4));
  EXPECT_TRUE(evaluator_.runs().empty());
  RunFor(std::chrono::seconds(20));
  EXPECT_EQ(control_.reported(), 3);
  control_.answer = [](const wire::ClaimWorkRequest&) { return Unavailable("away"); };
  Offer(2, 3, 3);
  RunFor(std::chrono::seconds(3));
  EXPECT_EQ(control_.reported(), 6);
  control_.answer = [](const wire::ClaimWorkRequest&) { return wire::ClaimWorkResponse(); };
  Offer(3, 6, 3);
  RunFor(std::chrono::seconds(3));
  EXPECT_EQ(control_.reported(), 9);
}

TEST_F(AgentAmongOthersTest, TrialsWaitWhileControlIsRestarted) {
  const auto knows = control_.answer;
  int failed = 0;
  control_.answer = [&failed](const wire::ClaimWorkRequest&) {
    ++failed;
    return Unavailable("the daemon is stopping");
  };
  known_[1] = Measured(77, 500);
  Offer(1, 0, 3);
  agent_->Start();
  RunFor(std::chrono::seconds(3));
  EXPECT_TRUE(evaluator_.runs().empty());
  EXPECT_GT(failed, 1);
  EXPECT_LT(failed, 20) << "not without a pause";
  control_.answer = knows;
  RunFor(std::chrono::seconds(2));
  EXPECT_EQ(control_.reported(), 3);
  EXPECT_THAT(Runs(), testing::UnorderedElementsAre("T=1", "T=3"));
  EXPECT_TRUE(Reported()[1].reused());
  // What is refused is not asked again.
  failed = 0;
  control_.answer = [&failed](const wire::ClaimWorkRequest&) {
    ++failed;
    return InvalidArgument("as scripted");
  };
  Offer(2, 3, 1);
  RunFor(std::chrono::seconds(2));
  EXPECT_EQ(control_.reported(), 4);
  EXPECT_EQ(failed, 1);
}

TEST_F(AgentAmongOthersTest, ThePatienceIsThatOfTheTrialsAndNotOfEachCall) {
  control_.answer = [](const wire::ClaimWorkRequest&) { return Unavailable("the daemon is stopping"); };
  Offer(1, 0, 3);
  agent_->Start();
  RunFor(std::chrono::milliseconds(4500));
  EXPECT_TRUE(evaluator_.runs().empty());
  control_.answer = nullptr;
  RunFor(std::chrono::milliseconds(1500));
  EXPECT_EQ(control_.reported(), 3);
  // Control is known not to answer.
  Offer(2, 3, 3);
  control_.wake();
  RunFor(std::chrono::seconds(1));
  EXPECT_EQ(control_.reported(), 6);
  // Nothing is claimed for a while.
  control_.shares = false;
  Offer(3, 6, 3);
  control_.wake();
  RunFor(std::chrono::seconds(1));
  EXPECT_EQ(control_.reported(), 9);
  control_.shares = true;
  Offer(4, 9, 3);
  control_.wake();
  RunFor(std::chrono::seconds(4));
  EXPECT_EQ(control_.reported(), 9);
  RunFor(std::chrono::seconds(2));
  EXPECT_EQ(control_.reported(), 12);
}

TEST_F(AgentAmongOthersTest, AnAnswerThatComesTooLateShowsThatControlAnswers) {
  std::function<void(absl::StatusOr<wire::ClaimWorkResponse>)> late;
  const auto answers = std::exchange(control_.answer, nullptr);
  control_.keep = &late;
  Offer(1, 0, 1);
  agent_->Start();
  RunFor(std::chrono::seconds(6));
  EXPECT_EQ(control_.reported(), 1);
  std::exchange(late, nullptr)(wire::ClaimWorkResponse());
  known_[1] = Measured(77, 500);
  Offer(2, 1, 1);
  control_.wake();
  RunFor(std::chrono::seconds(1));
  EXPECT_EQ(control_.reported(), 1) << "it waits for the answer";
  ASSERT_TRUE(late);
  late(answers(control_.claims.back()));
  RunFor(std::chrono::seconds(1));
  ASSERT_EQ(control_.reported(), 2);
  EXPECT_TRUE(Reported()[1].reused());
}

TEST_F(AgentAmongOthersTest, AloneAgainItWaitsForNobody) {
  elsewhere_ = {0, 1, 2};
  Offer(1, 0, 3);
  agent_->Start();
  RunFor(std::chrono::milliseconds(500));
  EXPECT_TRUE(evaluator_.runs().empty());
  control_.shares = false;
  RunFor(std::chrono::seconds(2));
  EXPECT_EQ(control_.reported(), 3);
}

TEST_F(AgentAmongOthersTest, FinalsAndPoliciesWithoutReuseClaimNothing) {
  Offer(1, 0, 2, 3);
  Offer(2, 2, 2);
  control_.ready.back().mutable_policy()->set_no_reuse(true);
  agent_->Start();
  RunFor(std::chrono::seconds(5));
  EXPECT_EQ(control_.reported(), 4);
  EXPECT_TRUE(control_.claims.empty());
}

// A unit comes back under another token while the answer for the old one is on its way.
TEST_F(AgentAmongOthersTest, AnAnswerForAnEarlierClaimOfTheUnitIsNotTaken) {
  std::function<void(absl::StatusOr<wire::ClaimWorkResponse>)> late;
  control_.answer = nullptr;
  control_.keep = &late;
  Offer(1, 0, 1);
  agent_->Start();
  RunFor(std::chrono::milliseconds(500));
  ASSERT_TRUE(late);
  const auto answered = std::exchange(late, nullptr);
  control_.keep = nullptr;
  control_.revoked = 1;
  RunFor(std::chrono::seconds(1));
  control_.revoked = 0;
  EXPECT_EQ(control_.in_hand, 0);
  Offer(1, 0, 1);
  control_.ready.back().set_token(2);
  RunFor(std::chrono::seconds(1));
  wire::ClaimWorkResponse response;
  *response.add_answers()->mutable_measured() = Measured(9, 500);
  control_.answer = [](const wire::ClaimWorkRequest&) { return wire::ClaimWorkResponse(); };
  answered(response);
  RunFor(std::chrono::seconds(2));
  ASSERT_EQ(control_.reported(), 1);
  EXPECT_FALSE(Reported()[0].reused());
}

TEST_F(AgentTest, AnAgentThatIsAloneClaimsNothing) {
  Offer(1, 0, 5);
  agent_->Start();
  RunFor(std::chrono::seconds(2));
  EXPECT_EQ(control_.reported(), 5);
  EXPECT_TRUE(control_.claims.empty());
}

// Kernels whose input x is the user's own.
class AgentWithDataFilesTest : public AgentTest {
 protected:
  AgentWithDataFilesTest() {
    auto store = DataFileStore::Open({.path = directory_.File("data_files"), .clock = &clock_});
    TUNEFARM_CHECK_OK(store);
    store_ = *std::move(store);
    files_ = std::make_unique<AgentDataFiles>(store_.get());
    AgentOptions options{&control_, &evaluator_, &agent_executor_, &entropy_, "here", {FakeGpu("GPU-1")}};
    options.data_files = files_.get();
    agent_ = std::make_unique<Agent>(options);
    tunefarm::v1::Argument* const argument = control_.kernel.add_arguments();
    argument->set_name("x");
    argument->mutable_buffer()->set_data_type(tunefarm::v1::DATA_TYPE_F32);
    argument->mutable_buffer()->set_length("N");
    argument->mutable_buffer()->set_access(tunefarm::v1::ACCESS_IN);
    tunefarm::v1::DataFile* const file = argument->mutable_buffer()->mutable_fill()->mutable_file();
    file->set_path("x.npy");
    file->set_digest(Sha256(content_).Hex());
    file->set_bytes(static_cast<int64_t>(content_.size()));
  }

  absl::Status Upload() {
    DataFilePart part;
    part.digest = Sha256(content_).Hex();
    part.total_bytes = static_cast<int64_t>(content_.size());
    part.bytes = content_;
    return store_->Write(part).status();
  }

  TemporaryDirectory directory_;
  const std::string content_ = std::string(4096, 'x');
  std::unique_ptr<DataFileStore> store_;
  std::unique_ptr<AgentDataFiles> files_;
};

TEST_F(AgentWithDataFilesTest, RunsGetTheOpenFiles) {
  ASSERT_TRUE(Upload().ok());
  Offer(1, 0, 3);
  agent_->Start();
  RunFor(std::chrono::seconds(5));
  EXPECT_EQ(control_.reported(), 3);
  ASSERT_EQ(evaluator_.runs().size(), 3u);
  for (const auto& run : evaluator_.runs()) EXPECT_EQ(run.data_files, 1u);
}

TEST_F(AgentWithDataFilesTest, WithoutAFileTrialsAreLostUntilItIsThere) {
  Offer(1, 0, 3);
  agent_->Start();
  RunFor(std::chrono::seconds(5));
  ASSERT_EQ(control_.reported(), 3);
  EXPECT_TRUE(evaluator_.runs().empty());
  EXPECT_EQ(control_.reports[0].trials(0).outcome(), tunefarm::v1::OUTCOME_LOST);
  EXPECT_THAT(control_.reports[0].trials(0).message(),
              testing::AllOf(testing::HasSubstr("the data file 'x.npy'"), testing::HasSubstr("upload it here")));
  ASSERT_TRUE(Upload().ok());
  Offer(2, 3, 2);
  RunFor(std::chrono::seconds(5));
  EXPECT_EQ(control_.reported(), 5);
  EXPECT_EQ(evaluator_.runs().size(), 2u);
}

TEST(TrialReportTest, TextFromWorkersBecomesValidAndBounded) {
  EXPECT_EQ(CleanText("a\xFF\xC3\xA9", 10), "a?\xC3\xA9");
  EXPECT_EQ(CleanText("ab\xC3\xA9", 3), "ab");
  EXPECT_EQ(CleanText("\xE2\x82", 10), "??");
}

}  // namespace
}  // namespace tunefarm
