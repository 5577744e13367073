#include "server/jobs/stopping_rule.h"

#include <cmath>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/status.h"

namespace tunefarm {
namespace {

using testing::HasSubstr;
using tunefarm::v1::Budget;
using tunefarm::v1::Trial;

Trial Ended(double median_ns, tunefarm::v1::Outcome outcome = tunefarm::v1::OUTCOME_OK) {
  Trial trial;
  trial.set_outcome(outcome);
  if (outcome == tunefarm::v1::OUTCOME_OK) trial.mutable_measurement()->set_median_ns(median_ns);
  return trial;
}

// How many of these times it takes to end the search; 0: they do not.
int StopsAfter(StoppingRule rule, const std::vector<double>& times) {
  for (size_t i = 0; i < times.size(); ++i) {
    rule.Tell(Ended(times[i]));
    if (!rule.because().empty()) return static_cast<int>(i) + 1;
  }
  return 0;
}

TEST(StoppingRule, PatienceCountsFromTheLastGain) {
  Budget budget;
  budget.set_max_trials_without_gain(3);
  EXPECT_EQ(StopsAfter(StoppingRule(budget, 0), {10, 10, 10, 10}), 4);  // the first is a gain, equal ones are none
  EXPECT_EQ(StopsAfter(StoppingRule(budget, 0), {10, 11, 12, 9, 9, 9}), 0);
  EXPECT_EQ(StopsAfter(StoppingRule(budget, 0), {10, 11, 12, 9, 9, 9, 9.5}), 7);
  EXPECT_EQ(StopsAfter(StoppingRule(Budget(), 0), std::vector<double>(1000, 10)), 0);
}

TEST(StoppingRule, FailedConfigsTryPatienceAndLostOnesDoNot) {
  Budget budget;
  budget.set_max_trials_without_gain(2);
  StoppingRule rule(budget, 0);
  rule.Tell(Ended(0, tunefarm::v1::OUTCOME_LOST));
  rule.Tell(Ended(0, tunefarm::v1::OUTCOME_RUN_CRASH));
  rule.Tell(Ended(0, tunefarm::v1::OUTCOME_LOST));
  EXPECT_EQ(rule.because(), "");
  rule.Tell(Ended(0, tunefarm::v1::OUTCOME_WRONG_RESULT));
  EXPECT_EQ(rule.because(), "2 trials without a better one");
}

TEST(StoppingRule, TheFloorEndsTheSearchAtTheBoundItself) {
  Budget budget;
  budget.set_stop_within_floor(0.05);
  EXPECT_EQ(StopsAfter(StoppingRule(budget, 1000), {2000, 1050.1, 1050}), 3);
  EXPECT_EQ(StopsAfter(StoppingRule(budget, 0), {1}), 0) << "a floor that is not known ends nothing";
  StoppingRule rule(budget, 1000);
  rule.Tell(Ended(1020));
  EXPECT_THAT(rule.because(), HasSubstr("within 5 % of the roofline floor"));
  const std::string first = rule.because();
  rule.Tell(Ended(5));
  EXPECT_EQ(rule.because(), first);
}

TEST(StoppingRule, DeviceTimeIsWhatWasMeasuredElseWhatTheRunTook) {
  Trial trial;
  EXPECT_EQ(DeviceBusyMs(trial), 0);
  trial.set_run_ms(7);
  EXPECT_EQ(DeviceBusyMs(trial), 7);
  trial.set_device_busy_ms(5);
  EXPECT_EQ(DeviceBusyMs(trial), 5);
  trial.set_reused(true);
  EXPECT_EQ(DeviceBusyMs(trial), 0) << "a repeated measurement cost nothing";
  trial.set_reused(false);
  trial.set_device_busy_ms(std::numeric_limits<double>::infinity());
  EXPECT_EQ(DeviceBusyMs(trial), 0);
}

TEST(StoppingRule, AReferenceThatCrashesEndsTheSearch) {
  StoppingRule rule(Budget(), 0);
  const Trial never_began = Ended(0, tunefarm::v1::OUTCOME_RUN_CRASH);
  Trial crashed = never_began;
  crashed.set_phase(tunefarm::v1::PHASE_FIRST_LAUNCH);
  rule.Tell(never_began);
  rule.Tell(crashed);  // So its inputs and reference were there.
  rule.Tell(never_began);
  rule.Tell(Ended(0, tunefarm::v1::OUTCOME_COMPILE_ERROR));  // It did not come so far.
  rule.Tell(Ended(0, tunefarm::v1::OUTCOME_LOST));
  EXPECT_EQ(rule.because(), "");
  rule.Tell(Ended(0, tunefarm::v1::OUTCOME_RUN_TIMEOUT));
  EXPECT_THAT(rule.because(), HasSubstr("the reference or the inputs crash or hang"));
}

TEST(StoppingRule, InputsThatCannotBeMadeEndTheSearch) {
  StoppingRule rule(Budget(), 0);
  const Trial never_began = Ended(0, tunefarm::v1::OUTCOME_INFEASIBLE_LAUNCH);
  Trial refused = never_began;
  refused.set_phase(tunefarm::v1::PHASE_LOAD);
  rule.Tell(never_began);
  rule.Tell(refused);  // The config's own.
  EXPECT_EQ(rule.because(), "");
  rule.Tell(never_began);
  EXPECT_THAT(rule.because(), HasSubstr("the inputs cannot be made as the definition says"));
}

TEST(StoppingRule, FirstTrialsThatCannotBeMeasuredEndTheSearch) {
  Trial lost = Ended(0, tunefarm::v1::OUTCOME_LOST);
  lost.set_phase(tunefarm::v1::PHASE_MEASURE);
  lost.set_message("the clock cannot be held at 1410 MHz: NVML says no permission");
  const auto ends = [](const std::vector<Trial>& trials) {
    StoppingRule rule(Budget(), 0);
    for (const Trial& trial : trials) rule.Tell(trial);
    return !rule.because().empty();
  };
  EXPECT_TRUE(ends({lost, lost, lost}));
  EXPECT_FALSE(ends({lost, lost}));
  for (const auto outcome :
       {tunefarm::v1::OUTCOME_PRUNED, tunefarm::v1::OUTCOME_COMPILE_ERROR, tunefarm::v1::OUTCOME_COMPILE_TIMEOUT,
        tunefarm::v1::OUTCOME_COMPILE_CRASH, tunefarm::v1::OUTCOME_LOAD_ERROR, tunefarm::v1::OUTCOME_POISONED}) {
    const Trial unreached = Ended(0, outcome);
    EXPECT_TRUE(ends({unreached, lost, lost, lost})) << "it never reached the device";
    EXPECT_TRUE(ends({lost, unreached, lost, lost}));
    EXPECT_FALSE(ends({unreached, unreached, unreached, lost, lost}));
  }
  EXPECT_FALSE(ends({lost, lost, Ended(10), lost, lost, lost})) << "the device can measure";
  EXPECT_FALSE(ends({Ended(10), lost, lost, lost}));
  Trial other = lost;
  other.set_message("the worker was killed");
  EXPECT_FALSE(ends({lost, lost, other, lost, lost, lost}));
  other = lost;
  other.set_phase(tunefarm::v1::PHASE_UNSPECIFIED);
  EXPECT_FALSE(ends({other, other, other, other})) << "another machine may have what is missing here";
}

TEST(StoppingRule, BudgetsOutsideTheirLimitsAreRefused) {
  for (const double bad : {-1.0, std::nan(""), std::numeric_limits<double>::infinity(), 1e9}) {
    Budget budget;
    budget.set_max_device_seconds(bad);
    EXPECT_EQ(ReasonOf(CheckBudget(budget)), "BUDGET_INVALID") << bad;
    budget.Clear();
    budget.set_stop_within_floor(bad);
    EXPECT_EQ(ReasonOf(CheckBudget(budget)), "BUDGET_INVALID") << bad;
  }
  Budget good;
  good.set_max_device_seconds(0.5);
  good.set_stop_within_floor(10);
  EXPECT_TRUE(CheckBudget(good).ok());
  EXPECT_TRUE(CheckBudgetApplies(good, 100, "N=1", "GPU").ok());
  const absl::Status status = CheckBudgetApplies(good, 0, "N=1", "GPU");
  EXPECT_EQ(ReasonOf(status), "BUDGET_INVALID");
  EXPECT_THAT(std::string(MessageOf(status)), HasSubstr("roofline floor of N=1 on GPU"));
}

}  // namespace
}  // namespace tunefarm
