#include "server/farm/work_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>

namespace tunefarm {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class WorkTableTest : public testing::Test {
 protected:
  static WorkTable::Key Work(uint64_t work, int64_t study_id = 10, int64_t job_id = 1) {
    return {job_id, study_id, "scope", work};
  }
  // Asks for a trial of the agent, which is assigned to it from here on.
  WorkTable::Answer Ask(const std::string& agent, int64_t ordinal, const WorkTable::Key& key) {
    in_hand_.insert(ordinal);
    return table_.Ask(key, {agent, 1, 1, ordinal},
                      [this](const WorkTable::Holder& holder) { return in_hand_.count(holder.ordinal) > 0; });
  }
  bool Runs(const std::string& agent, int64_t ordinal, const WorkTable::Key& key) {
    const WorkTable::Answer answer = Ask(agent, ordinal, key);
    EXPECT_FALSE(answer.is_elsewhere && answer.measured.has_value());
    return !answer.is_elsewhere && !answer.measured.has_value();
  }
  std::vector<std::string> End(int64_t ordinal, const WorkTable::Key& key, bool is_verdict) {
    in_hand_.erase(ordinal);
    return table_.End(key, ordinal, is_verdict);
  }

  WorkTable table_;
  std::set<int64_t> in_hand_;  // ordinals
};

TEST_F(WorkTableTest, TheFirstAgentRunsAndTheOthersTakeItsVerdictOver) {
  EXPECT_TRUE(Runs("a", 1, Work(7)));
  EXPECT_TRUE(Ask("b", 2, Work(7)).is_elsewhere);
  EXPECT_TRUE(Ask("c", 3, Work(7)).is_elsewhere);
  EXPECT_TRUE(Ask("c", 4, Work(7)).is_elsewhere);
  EXPECT_TRUE(Runs("b", 5, Work(8))) << "another work";
  EXPECT_TRUE(Runs("b", 6, Work(7, 11))) << "another study";
  EXPECT_THAT(End(1, Work(7), true), ElementsAre("b", "c"));
  EXPECT_EQ(Ask("b", 2, Work(7)).measured, 1);
  EXPECT_EQ(Ask("a", 9, Work(7)).measured, 1);
  EXPECT_THAT(End(2, Work(7), false), IsEmpty()) << "it was taken over";
  EXPECT_EQ(Ask("c", 3, Work(7)).measured, 1);
}

TEST_F(WorkTableTest, WhatIsNoVerdictLetsTheNextOneRun) {
  EXPECT_TRUE(Runs("a", 1, Work(7)));
  EXPECT_TRUE(Ask("b", 2, Work(7)).is_elsewhere);
  EXPECT_TRUE(Ask("c", 3, Work(7)).is_elsewhere);
  EXPECT_THAT(End(1, Work(7), false), ElementsAre("b", "c"));
  EXPECT_TRUE(Runs("c", 3, Work(7)));
  EXPECT_TRUE(Ask("b", 2, Work(7)).is_elsewhere);
  EXPECT_THAT(End(3, Work(7), true), ElementsAre("b"));
}

TEST_F(WorkTableTest, OtherTrialsOfTheHolderComeBeforeOtherAgents) {
  EXPECT_TRUE(Runs("a", 1, Work(7)));
  EXPECT_TRUE(Runs("a", 2, Work(7))) << "its agent makes one of them wait";
  EXPECT_TRUE(Ask("b", 3, Work(7)).is_elsewhere);
  EXPECT_THAT(End(1, Work(7), false), IsEmpty());
  EXPECT_TRUE(Ask("b", 3, Work(7)).is_elsewhere);
  EXPECT_THAT(End(2, Work(7), true), ElementsAre("b"));
  EXPECT_EQ(Ask("b", 3, Work(7)).measured, 2);
}

TEST_F(WorkTableTest, AClaimIsVoidWhenItsTrialsHaveLeftTheAgent) {
  EXPECT_TRUE(Runs("a", 1, Work(7)));
  EXPECT_TRUE(Runs("a", 2, Work(7)));
  in_hand_.erase(1);
  EXPECT_TRUE(Ask("b", 3, Work(7)).is_elsewhere);
  in_hand_.erase(2);
  EXPECT_TRUE(Runs("b", 3, Work(7)));
  EXPECT_TRUE(Ask("a", 1, Work(7)).is_elsewhere) << "it has come back";
  EXPECT_TRUE(Runs("b", 3, Work(7))) << "who holds the claim may ask twice";
}

TEST_F(WorkTableTest, WhatWasMeasuredWithoutAClaimIsTakenOverToo) {
  EXPECT_THAT(End(1, Work(7), true), IsEmpty());
  EXPECT_EQ(Ask("b", 2, Work(7)).measured, 1);
  EXPECT_THAT(End(3, Work(8), false), IsEmpty());
  EXPECT_TRUE(Runs("b", 4, Work(8)));
  // Of two that ended the first counts.
  EXPECT_THAT(End(5, Work(7), true), IsEmpty());
  EXPECT_EQ(Ask("c", 6, Work(7)).measured, 1);
}

TEST_F(WorkTableTest, DevicesOfAnotherScopeMeasureForThemselves) {
  WorkTable::Key other = Work(7);
  other.scope = "another driver";
  EXPECT_TRUE(Runs("a", 1, Work(7)));
  EXPECT_TRUE(Runs("b", 2, other));
  EXPECT_THAT(End(1, Work(7), true), IsEmpty());
  EXPECT_TRUE(Ask("c", 3, other).is_elsewhere);
}

TEST_F(WorkTableTest, AJobThatHasEndedIsForgotten) {
  End(1, Work(7), true);
  End(1, Work(7, 20, 2), true);
  EXPECT_TRUE(Runs("a", 2, Work(8)));
  table_.ForgetJob(1);
  EXPECT_TRUE(Runs("b", 3, Work(8)));
  EXPECT_TRUE(Runs("b", 4, Work(7)));
  EXPECT_EQ(Ask("b", 5, Work(7, 20, 2)).measured, 1);
  table_.Clear();
  EXPECT_TRUE(Runs("b", 5, Work(7, 20, 2)));
}

TEST_F(WorkTableTest, MemoryIsBounded) {
  EXPECT_TRUE(Runs("a", 1, Work(1)));
  End(2, Work(2, 20, 2), true);
  for (uint64_t work = 3; work <= WorkTable::kWorksMax; ++work) table_.End(Work(work), 3, true);
  EXPECT_TRUE(Ask("b", 4, Work(1)).is_elsewhere);
  EXPECT_EQ(Ask("b", 4, Work(2, 20, 2)).measured, 2);
  table_.End(Work(WorkTable::kWorksMax + 1), 3, true);
  table_.End(Work(WorkTable::kWorksMax + 2), 3, true);
  EXPECT_EQ(Ask("b", 5, Work(3)).measured, 3) << "the oldest go first";
  EXPECT_TRUE(Runs("b", 6, Work(1)));
  EXPECT_TRUE(Runs("b", 7, Work(2, 20, 2)));
}

}  // namespace
}  // namespace tunefarm
