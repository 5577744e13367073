#include "server/worker/verify/trial_phases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace tunefarm {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using worker::v1::Result;

// Notes every step in the order in which it is taken.
class NotedPhases : public PhaseReporter {
 public:
  explicit NotedPhases(std::vector<std::string>* steps) : steps_(steps) {}
  void Begin(v1::Phase phase) override { steps_->push_back(v1::Phase_Name(phase)); }
  void Log(std::string_view) override {}

 private:
  std::vector<std::string>* const steps_;
};

// A trial whose step of a given name fails.
class ScriptedTrial : public TrialPhases {
 public:
  ScriptedTrial(const RunInput& input, PhaseReporter* reporter, std::vector<std::string>* steps)
      : TrialPhases(input, reporter), steps_(steps) {}

  void FailAt(std::string step, Failure failure) {
    fails_at_ = std::move(step);
    failure_ = std::move(failure);
  }
  void MeasureNoise() { noisy_ = true; }

 private:
  Failure Load(uint64_t input_seed) override { return Take("load" + std::to_string(input_seed)); }
  Failure SelectInputs(uint64_t input_seed) override { return Take("select" + std::to_string(input_seed)); }
  Failure Launch(PoisonPattern pattern) override { return Take("launch" + NumberOf(pattern)); }
  Failure FindDamage() override { return Take("damage" + std::to_string(++damage_checks_)); }
  Failure Verify(PoisonPattern pattern, v1::Verification* verification) override {
    verification->set_mismatches(pattern == PoisonPattern::kFirst ? 1 : 2);
    return Take("verify" + NumberOf(pattern));
  }
  Failure Measure() override {
    if (noisy_) {
      result().set_outcome(v1::OUTCOME_NOISY);
      result().set_message("Noisy.");
    }
    return Take("measure");
  }
  Failure AfterTiming(Failure failure) override {
    failure.message += " Late.";
    return failure;
  }
  Failure Settle(Failure failure) override {
    failure.message += " Settled.";
    return failure;
  }

  Failure Take(const std::string& step) {
    steps_->push_back(step);
    return step == fails_at_ ? failure_ : Failure{};
  }
  static std::string NumberOf(PoisonPattern pattern) { return pattern == PoisonPattern::kFirst ? "1" : "2"; }

  std::vector<std::string>* const steps_;
  std::string fails_at_;
  Failure failure_;
  bool noisy_ = false;
  int damage_checks_ = 0;
};

class TrialPhasesTest : public ::testing::Test {
 protected:
  Result RunFailingAt(const std::string& step, bool sticky = false) {
    trial_.FailAt(step, {v1::OUTCOME_WRONG_RESULT, "Bad " + step + ".", sticky});
    return trial_.Run();
  }

  RunInput input_;
  std::vector<std::string> steps_;
  NotedPhases reporter_{&steps_};
  ScriptedTrial trial_{input_, &reporter_, &steps_};
};

TEST_F(TrialPhasesTest, TakesEveryStepInOrder) {
  const Result result = trial_.Run();
  EXPECT_THAT(steps_,
              ElementsAre("PHASE_LOAD", "load1", "PHASE_FIRST_LAUNCH", "launch1", "PHASE_VERIFY", "damage1", "verify1",
                          "PHASE_MEASURE", "measure", "damage2", "PHASE_VERIFY", "launch2", "damage3", "verify2"));
  EXPECT_EQ(result.outcome(), v1::OUTCOME_OK);
  EXPECT_EQ(result.phase(), v1::PHASE_MEASURE);
  EXPECT_THAT(result.message(), IsEmpty());
  EXPECT_EQ(result.verification().mismatches(), 1) << "of a good kernel the first check is reported";
}

TEST_F(TrialPhasesTest, OnlyVerifiesIfAskedTo) {
  input_.verify_only = true;
  const Result result = trial_.Run();
  EXPECT_EQ(steps_.back(), "verify1");
  EXPECT_EQ(result.outcome(), v1::OUTCOME_OK);
  EXPECT_EQ(result.phase(), v1::PHASE_VERIFY);
}

TEST_F(TrialPhasesTest, EveryStepsFailureEndsTheTrialInItsPhase) {
  struct Case {
    const char* step;
    v1::Phase phase;
    const char* message;
  };
  for (const Case& c :
       {Case{"load1", v1::PHASE_LOAD, "Bad load1. Settled."},
        Case{"launch1", v1::PHASE_FIRST_LAUNCH, "Bad launch1. Settled."},
        Case{"damage1", v1::PHASE_VERIFY, "Bad damage1. Settled."},
        Case{"verify1", v1::PHASE_VERIFY, "Bad verify1. Settled."},
        Case{"measure", v1::PHASE_MEASURE, "Bad measure. Settled."},
        Case{"damage2", v1::PHASE_MEASURE, "Bad damage2. Settled."},
        // A launch that fails says so itself; only what the check finds is news of state between launches.
        Case{"launch2", v1::PHASE_VERIFY, "Bad launch2. Settled."},
        Case{"damage3", v1::PHASE_VERIFY, "Bad damage3. Late. Settled."},
        Case{"verify2", v1::PHASE_VERIFY, "Bad verify2. Late. Settled."}}) {
    steps_.clear();
    ScriptedTrial trial(input_, &reporter_, &steps_);
    trial.FailAt(c.step, {v1::OUTCOME_WRONG_RESULT, std::string("Bad ") + c.step + ".", false});
    const Result result = trial.Run();
    EXPECT_EQ(steps_.back(), c.step);
    EXPECT_EQ(result.outcome(), v1::OUTCOME_WRONG_RESULT) << c.step;
    EXPECT_EQ(result.phase(), c.phase) << c.step;
    EXPECT_EQ(result.message(), c.message);
    EXPECT_FALSE(result.worker_is_damaged()) << c.step;
  }
}

TEST_F(TrialPhasesTest, VerifiesOnASecondInputSetLast) {
  input_.second_input_seed = 9;
  const Result result = trial_.Run();
  const std::vector<std::string> last(steps_.end() - 7, steps_.end());
  EXPECT_THAT(last, ElementsAre("PHASE_VERIFY", "load9", "launch1", "damage4", "verify1", "PHASE_VERIFY", "select1"));
  EXPECT_EQ(result.outcome(), v1::OUTCOME_OK);
  EXPECT_EQ(result.phase(), v1::PHASE_MEASURE);
}

TEST_F(TrialPhasesTest, AConfigThatIsRightOnOneInputSetOnlyIsWrong) {
  input_.second_input_seed = 9;
  const Result result = RunFailingAt("damage4");
  EXPECT_EQ(result.outcome(), v1::OUTCOME_WRONG_RESULT);
  EXPECT_EQ(result.phase(), v1::PHASE_VERIFY);
  EXPECT_EQ(result.message(), "On a second set of random inputs: Bad damage4. Settled.");
}

TEST_F(TrialPhasesTest, TheSameInputSetIsNoSecondOne) {
  input_.second_input_seed = input_.input_seed;
  (void)trial_.Run();
  EXPECT_EQ(steps_.back(), "verify2");
}

TEST_F(TrialPhasesTest, AFailedSecondCheckReplacesTheFirst) {
  EXPECT_EQ(RunFailingAt("verify2").verification().mismatches(), 2);
}

TEST_F(TrialPhasesTest, AStickyFailureDamagesTheWorker) {
  EXPECT_TRUE(RunFailingAt("launch1", true).worker_is_damaged());
}

TEST_F(TrialPhasesTest, NoiseStandsOnceTheLastCheckHasPassed) {
  trial_.MeasureNoise();
  const Result result = trial_.Run();
  EXPECT_EQ(result.outcome(), v1::OUTCOME_NOISY);
  EXPECT_EQ(result.message(), "Noisy.");
  EXPECT_EQ(result.phase(), v1::PHASE_MEASURE);
}

TEST_F(TrialPhasesTest, AWrongResultAfterTimingOutweighsNoise) {
  trial_.MeasureNoise();
  const Result result = RunFailingAt("verify2");
  EXPECT_EQ(result.outcome(), v1::OUTCOME_WRONG_RESULT);
  EXPECT_EQ(result.message(), "Bad verify2. Late. Settled.");
}

}  // namespace
}  // namespace tunefarm
