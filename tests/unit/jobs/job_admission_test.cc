#include "server/jobs/job_admission.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tunefarm {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

JobAdmission::Job MakeJob(int64_t id, int priority = 0, std::set<std::string> classes = {"gpu"}) {
  return {id, priority, std::move(classes)};
}

std::vector<int64_t> TakeAll(JobAdmission* admission) {
  std::vector<int64_t> taken;
  while (const auto next = admission->TakeNext()) taken.push_back(*next);
  return taken;
}

TEST(JobAdmission, ThoseThatCameFirstAreHeldAndTheOthersFollowInOrder) {
  JobAdmission admission(2);
  EXPECT_TRUE(admission.HoldOrWait(MakeJob(1)));
  EXPECT_TRUE(admission.HoldOrWait(MakeJob(2)));
  for (const int64_t id : {5, 3, 4}) EXPECT_FALSE(admission.HoldOrWait(MakeJob(id)));
  EXPECT_TRUE(admission.HoldOrWait(MakeJob(1))) << "it is held already";
  EXPECT_EQ(admission.out(), 3u);
  EXPECT_TRUE(admission.IsOut(4));
  EXPECT_THAT(TakeAll(&admission), IsEmpty());
  admission.Remove(1);
  EXPECT_THAT(TakeAll(&admission), ElementsAre(3));
  admission.Remove(4);  // cancelled while it waited
  admission.Remove(2);
  admission.Remove(3);
  EXPECT_THAT(TakeAll(&admission), ElementsAre(5));
  EXPECT_EQ(admission.out(), 0u);
}

TEST(JobAdmission, HigherPriorityDoesNotWaitForLower) {
  JobAdmission admission(1);
  EXPECT_TRUE(admission.HoldOrWait(MakeJob(1)));
  EXPECT_TRUE(admission.HoldOrWait(MakeJob(2, 5)));
  EXPECT_FALSE(admission.HoldOrWait(MakeJob(3, 5)));
  EXPECT_FALSE(admission.HoldOrWait(MakeJob(4, -1)));
  EXPECT_FALSE(admission.HoldOrWait(MakeJob(5, 4)));
  admission.Remove(2);
  EXPECT_THAT(TakeAll(&admission), ElementsAre(3));
  admission.Remove(3);
  EXPECT_THAT(TakeAll(&admission), ElementsAre(5));
  admission.Remove(1);
  EXPECT_THAT(TakeAll(&admission), IsEmpty()) << "4 stands behind 5";
  admission.Remove(5);
  EXPECT_THAT(TakeAll(&admission), ElementsAre(4));
}

TEST(JobAdmission, ClassesDoNotWaitForEachOther) {
  JobAdmission admission(1);
  EXPECT_TRUE(admission.HoldOrWait(MakeJob(1, 0, {"gpu"})));
  EXPECT_FALSE(admission.HoldOrWait(MakeJob(2, 0, {"gpu"})));
  EXPECT_TRUE(admission.HoldOrWait(MakeJob(3, 0, {"host"})));
  EXPECT_FALSE(admission.HoldOrWait(MakeJob(4, 0, {"host"})));
  admission.Remove(3);
  EXPECT_THAT(TakeAll(&admission), ElementsAre(4)) << "2 is before it, but for another class";
}

TEST(JobAdmission, WhatHasBegunIsHeldWithoutRoom) {
  JobAdmission admission(1);
  EXPECT_TRUE(admission.HoldOrWait(MakeJob(1)));
  EXPECT_FALSE(admission.HoldOrWait(MakeJob(2)));
  admission.Hold(MakeJob(2));
  EXPECT_FALSE(admission.IsOut(2));
  EXPECT_TRUE(admission.HoldOrWait(MakeJob(2)));
}

}  // namespace
}  // namespace tunefarm
