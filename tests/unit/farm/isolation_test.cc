#include "server/farm/isolation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/base/status.h"

namespace tunefarm {
namespace {

using testing::HasSubstr;

const std::string kFull = "L1: pid namespace, seccomp";
const std::string kLess = "L0: seccomp; without pid namespace (Operation not permitted)";

TEST(IsolationTest, NothingIsRequiredUnlessSomebodyAsks) {
  EXPECT_TRUE(CheckIsolation({kLess, ""}, "").ok());
  EXPECT_TRUE(CheckIsolation({"", ""}, "L0").ok());
  EXPECT_TRUE(CheckIsolation({kLess, "L0"}, "L0").ok());
}

TEST(IsolationTest, WhatIsRequiredAndReachedIsTaken) {
  EXPECT_TRUE(CheckIsolation({kFull, ""}, "L1").ok());
  EXPECT_TRUE(CheckIsolation({kFull, "L1"}, "").ok());
}

TEST(IsolationTest, WhatIsRequiredAndNotReachedIsRefusedWithTheReason) {
  const absl::Status by_job = CheckIsolation({kLess, ""}, "L1");
  EXPECT_TRUE(absl::IsFailedPrecondition(by_job));
  EXPECT_EQ(ReasonOf(by_job), "ISOLATION_NOT_REACHED");
  EXPECT_THAT(MessageOf(by_job), HasSubstr("the job requires isolation L1"));
  EXPECT_THAT(MessageOf(by_job), HasSubstr("without pid namespace (Operation not permitted)"));
  // A job cannot ask for less than the daemon's owner does.
  const absl::Status by_daemon = CheckIsolation({kLess, "L1"}, "L0");
  EXPECT_TRUE(absl::IsFailedPrecondition(by_daemon));
  EXPECT_THAT(MessageOf(by_daemon), HasSubstr("this daemon requires isolation L1"));
  EXPECT_TRUE(absl::IsFailedPrecondition(CheckIsolation({"", ""}, "L1")));
}

TEST(IsolationTest, OnlyKnownLevels) {
  EXPECT_TRUE(absl::IsInvalidArgument(CheckIsolation({kFull, ""}, "L2")));
  EXPECT_TRUE(absl::IsInvalidArgument(CheckIsolation({kFull, ""}, "l1")));
}

}  // namespace
}  // namespace tunefarm
