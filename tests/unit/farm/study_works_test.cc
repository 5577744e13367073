#include "server/farm/study_works.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

namespace tunefarm {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(StudyWorks, AStudyIsSharedForGoodUntilItsJobHasEnded) {
  StudyWorks works;
  EXPECT_FALSE(works.Knows(10));
  works.Note(1, 10, false);
  EXPECT_TRUE(works.Knows(10));
  EXPECT_FALSE(works.has_shared());
  works.Note(1, 10, true);
  EXPECT_FALSE(works.has_shared()) << "its works are those of units that were handed out here";
  works.Note(2, 20, true);
  EXPECT_TRUE(works.has_shared());
  works.ForgetJob(2);
  EXPECT_FALSE(works.has_shared());
  works.ShareAll();
  EXPECT_TRUE(works.has_shared());
  works.ShareAll();
  works.Note(3, 30, false);
  works.ForgetJob(1);
  EXPECT_FALSE(works.has_shared()) << "the study came later";
  EXPECT_TRUE(works.Knows(30));
  works.ShareAll();
  works.Clear();
  EXPECT_FALSE(works.has_shared());
  EXPECT_FALSE(works.Knows(30));
}

TEST(StudyWorks, TheOtherAgentsThatWaitAreToldOnce) {
  StudyWorks works;
  works.Note(1, 10, false);
  works.Wait(10, 7, "b");
  works.Wait(10, 7, "c");
  works.Wait(10, 7, "c");
  works.Wait(10, 7, "d");
  works.Wait(10, 8, "b");
  works.Stop(10, 7, "d");
  works.Stop(10, 9, "d");
  works.Stop(11, 7, "d");
  EXPECT_THAT(works.End(10, 7, "a"), ElementsAre("b", "c"));
  EXPECT_THAT(works.End(10, 7, "a"), IsEmpty());
  EXPECT_THAT(works.End(10, 8, "b"), IsEmpty()) << "its own trial";
  works.Wait(11, 7, "b");
  EXPECT_THAT(works.End(11, 7, "a"), IsEmpty()) << "the study is not known";
  works.Wait(10, 7, "b");
  works.ForgetJob(1);
  works.Note(1, 10, false);
  EXPECT_THAT(works.End(10, 7, "a"), IsEmpty());
}

TEST(StudyWorks, MemoryIsBounded) {
  StudyWorks works;
  for (int64_t study = 1; study <= static_cast<int64_t>(StudyWorks::kStudiesMax); ++study) works.Note(1, study, true);
  EXPECT_TRUE(works.Knows(1));
  works.Note(1, 0, true);
  EXPECT_TRUE(works.Knows(0));
  EXPECT_FALSE(works.Knows(1)) << "the oldest goes first, but not the one that comes";
  works.ForgetJob(1);
  EXPECT_FALSE(works.has_shared());
  works.Note(1, 10, false);
  for (int64_t work = 1; work <= static_cast<int64_t>(StudyWorks::kAwaitedPerStudyMax) + 1; ++work) {
    works.Wait(10, work, "b");
  }
  works.Wait(10, 1, "c");
  EXPECT_THAT(works.End(10, 1, "a"), ElementsAre("b", "c"));
  EXPECT_THAT(works.End(10, static_cast<int64_t>(StudyWorks::kAwaitedPerStudyMax) + 1, "a"), IsEmpty());
}

}  // namespace
}  // namespace tunefarm
