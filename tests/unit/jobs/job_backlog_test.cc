#include "server/jobs/job_backlog.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tunefarm {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

JobBacklog::Job MakeJob(int64_t id, int priority = 0, std::set<std::string> classes = {"gpu"}) {
  return {id, priority, std::move(classes)};
}

std::vector<int64_t> TakeAll(JobBacklog* backlog) {
  std::vector<int64_t> taken;
  while (const auto next = backlog->TakeNext()) taken.push_back(*next);
  return taken;
}

TEST(JobBacklog, ThoseThatCameFirstAreDrivenAndTheOthersFollowInOrder) {
  JobBacklog backlog(2);
  EXPECT_TRUE(backlog.DriveOrWait(MakeJob(1)));
  EXPECT_TRUE(backlog.DriveOrWait(MakeJob(2)));
  for (const int64_t id : {5, 3, 4}) EXPECT_FALSE(backlog.DriveOrWait(MakeJob(id)));
  EXPECT_TRUE(backlog.DriveOrWait(MakeJob(1))) << "it is driven already";
  EXPECT_EQ(backlog.waiting(), 3u);
  EXPECT_TRUE(backlog.IsWaiting(4));
  EXPECT_THAT(TakeAll(&backlog), IsEmpty());
  backlog.Remove(1);
  EXPECT_THAT(TakeAll(&backlog), ElementsAre(3));
  backlog.Remove(4);  // cancelled while it waited
  backlog.Remove(2);
  backlog.Remove(3);
  EXPECT_THAT(TakeAll(&backlog), ElementsAre(5));
  EXPECT_EQ(backlog.waiting(), 0u);
}

TEST(JobBacklog, HigherPriorityDoesNotWaitForLower) {
  JobBacklog backlog(1);
  EXPECT_TRUE(backlog.DriveOrWait(MakeJob(1)));
  EXPECT_TRUE(backlog.DriveOrWait(MakeJob(2, 5)));
  EXPECT_FALSE(backlog.DriveOrWait(MakeJob(3, 5)));
  EXPECT_FALSE(backlog.DriveOrWait(MakeJob(4, -1)));
  EXPECT_FALSE(backlog.DriveOrWait(MakeJob(5, 4)));
  backlog.Remove(2);
  EXPECT_THAT(TakeAll(&backlog), ElementsAre(3));
  backlog.Remove(3);
  EXPECT_THAT(TakeAll(&backlog), ElementsAre(5));
  backlog.Remove(1);
  EXPECT_THAT(TakeAll(&backlog), IsEmpty()) << "4 stands behind 5";
  backlog.Remove(5);
  EXPECT_THAT(TakeAll(&backlog), ElementsAre(4));
}

TEST(JobBacklog, ClassesDoNotWaitForEachOther) {
  JobBacklog backlog(1);
  EXPECT_TRUE(backlog.DriveOrWait(MakeJob(1, 0, {"gpu"})));
  EXPECT_FALSE(backlog.DriveOrWait(MakeJob(2, 0, {"gpu"})));
  EXPECT_TRUE(backlog.DriveOrWait(MakeJob(3, 0, {"host"})));
  EXPECT_FALSE(backlog.DriveOrWait(MakeJob(4, 0, {"host"})));
  backlog.Remove(3);
  EXPECT_THAT(TakeAll(&backlog), ElementsAre(4)) << "2 is before it, but for another class";
}

TEST(JobBacklog, WhatHasBegunIsDrivenWithoutRoom) {
  JobBacklog backlog(1);
  EXPECT_TRUE(backlog.DriveOrWait(MakeJob(1)));
  EXPECT_FALSE(backlog.DriveOrWait(MakeJob(2)));
  backlog.Drive(MakeJob(2));
  EXPECT_FALSE(backlog.IsWaiting(2));
  EXPECT_TRUE(backlog.DriveOrWait(MakeJob(2)));
}

}  // namespace
}  // namespace tunefarm
