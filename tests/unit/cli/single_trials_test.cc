#include "client/cli/studies/single_trials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tunefarm::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

v1::Trial Tried(v1::Outcome outcome, const std::string& message, uint64_t elements) {
  v1::Trial trial;
  trial.set_outcome(outcome);
  trial.set_phase(v1::PHASE_VERIFY);
  trial.set_message(message);
  trial.mutable_verification()->set_elements(elements);
  return trial;
}

TEST(SingleTrialsTest, TheMessageOfATrialThatIsOkIsAWarning) {
  const v1::Trial trial = Tried(v1::OUTCOME_OK, "A constant would pass.", 64);
  EXPECT_THAT(WarningsOf(trial), ElementsAre("A constant would pass."));
  EXPECT_THAT(TrialText(trial), HasSubstr("warning    A constant would pass.\n"));
  EXPECT_THAT(TrialText(trial), Not(HasSubstr("why")));
  EXPECT_THAT(TrialText(Tried(v1::OUTCOME_OK, "", 64)), Not(HasSubstr("warning")));
}

TEST(SingleTrialsTest, WarnsWhereNothingWasCompared) {
  EXPECT_THAT(WarningsOf(Tried(v1::OUTCOME_OK, "", 0)), ElementsAre(HasSubstr("No output was compared")));
}

TEST(SingleTrialsTest, AFailureHasAReasonAndNoWarning) {
  const v1::Trial trial = Tried(v1::OUTCOME_WRONG_RESULT, "y[7] is 3", 0);
  EXPECT_THAT(WarningsOf(trial), IsEmpty());
  EXPECT_THAT(TrialText(trial), HasSubstr("why        y[7] is 3 (in VERIFY)\n"));
}

}  // namespace
}  // namespace tunefarm::cli
