#include "server/exec/bad_preparations.h"

#include <gtest/gtest.h>

namespace tunefarm {
namespace {

WorkerTaskEnd EndOf(tunefarm::v1::Outcome outcome, bool preparing) {
  WorkerTaskEnd end;
  end.preparing = preparing;
  end.verdict = {outcome, "killed by SIGSEGV"};
  if (outcome == tunefarm::v1::OUTCOME_OK) end.result.emplace();
  return end;
}

TEST(BadPreparationsTest, RefusesAfterFailuresInARow) {
  BadPreparations bad;
  bad.Note("a", EndOf(tunefarm::v1::OUTCOME_RUN_CRASH, true));
  EXPECT_FALSE(bad.Refusal("a").has_value());
  bad.Note("a", EndOf(tunefarm::v1::OUTCOME_RUN_TIMEOUT, true));
  const std::optional<Verdict> refusal = bad.Refusal("a");
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->outcome, tunefarm::v1::OUTCOME_RUN_TIMEOUT);
  EXPECT_EQ(refusal->message,
            "not run: the reference or the inputs of this problem failed 2 times in a row (killed by SIGSEGV)");
  EXPECT_FALSE(bad.Refusal("b").has_value()) << "another problem";
}

TEST(BadPreparationsTest, RefusesWhatCannotBeMade) {
  BadPreparations bad;
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(bad.Refusal("a").has_value());
    bad.Note("a", EndOf(tunefarm::v1::OUTCOME_INFEASIBLE_LAUNCH, true));
  }
  ASSERT_TRUE(bad.Refusal("a").has_value());
  EXPECT_EQ(bad.Refusal("a")->outcome, tunefarm::v1::OUTCOME_INFEASIBLE_LAUNCH);
}

TEST(BadPreparationsTest, ASuccessForgivesFailures) {
  BadPreparations bad;
  bad.Note("a", EndOf(tunefarm::v1::OUTCOME_RUN_CRASH, true));
  bad.Note("a", EndOf(tunefarm::v1::OUTCOME_OK, false));
  bad.Note("a", EndOf(tunefarm::v1::OUTCOME_RUN_CRASH, true));
  EXPECT_FALSE(bad.Refusal("a").has_value());
}

TEST(BadPreparationsTest, ACrashOfTheConfigOrALossBlamesNoPreparation) {
  BadPreparations bad;
  for (int i = 0; i < 3; ++i) {
    bad.Note("a", EndOf(tunefarm::v1::OUTCOME_RUN_CRASH, false));
    bad.Note("a", EndOf(tunefarm::v1::OUTCOME_LOST, true));
  }
  EXPECT_FALSE(bad.Refusal("a").has_value());
}

}  // namespace
}  // namespace tunefarm
