#include "client/cli/studies/failure_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tunefarm::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

v1::Trial Failed(int64_t ordinal, v1::Outcome outcome, const std::string& message) {
  v1::Trial trial;
  trial.set_ordinal(ordinal);
  trial.set_outcome(outcome);
  trial.set_message(message);
  (*trial.mutable_config()->mutable_values())["TILE"].set_int_value(ordinal);
  return trial;
}

TEST(FailureTableTest, CountsOutcomesAndShowsTheFirstOfEach) {
  const Session session;
  EXPECT_EQ(FailuresText(session, {Failed(1, v1::OUTCOME_OK, ""), Failed(2, v1::OUTCOME_PRUNED, "slow")}), "");
  const std::string text = FailuresText(session, {Failed(7, v1::OUTCOME_WRONG_RESULT, "later"),
                                                  Failed(3, v1::OUTCOME_WRONG_RESULT, "y[7] is 3\nexpected 2"),
                                                  Failed(1, v1::OUTCOME_RUN_CRASH, "SIGSEGV\x1b[31m")});
  EXPECT_EQ(text,
            "\nfailure       count  first message    first config\n"
            "WRONG_RESULT      2  y[7] is 3        TILE=3\n"
            "RUN_CRASH         1  SIGSEGV\\x1b[31m  TILE=1\n");
}

TEST(FailureTableTest, NamesTheSettingThatRaisesALimit) {
  const Session session;
  const std::string text = FailuresText(session, {Failed(1, v1::OUTCOME_RUN_TIMEOUT, "the first launch")});
  EXPECT_THAT(text, HasSubstr("--launch-timeout-ms"));
  EXPECT_THAT(text, HasSubstr("--prepare-timeout-ms"));
  EXPECT_THAT(text, Not(HasSubstr("--compile-timeout-ms")));
  EXPECT_THAT(FailuresText(session, {Failed(1, v1::OUTCOME_COMPILE_TIMEOUT, "compiling")}),
              HasSubstr("--compile-timeout-ms"));
}

TEST(FailureTableTest, IsShort) {
  std::vector<v1::Trial> trials;
  for (const v1::Outcome outcome :
       {v1::OUTCOME_RUN_CRASH, v1::OUTCOME_WRONG_RESULT, v1::OUTCOME_COMPILE_ERROR, v1::OUTCOME_OUT_OF_BOUNDS,
        v1::OUTCOME_OUT_OF_MEMORY, v1::OUTCOME_NOISY, v1::OUTCOME_LOST}) {
    trials.push_back(Failed(static_cast<int64_t>(trials.size()), outcome, ""));
  }
  EXPECT_THAT(FailuresText(Session(), trials), HasSubstr("... and 2 more\n"));
}

}  // namespace
}  // namespace tunefarm::cli
