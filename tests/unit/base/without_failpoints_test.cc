// A program for use: no text in its environment makes it fail or crash.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/base/failpoint.h"
#include "server/base/status.h"

namespace tunefarm {
namespace {

TEST(WithoutFailpoints, ArmingOneIsRefused) {
  const absl::Status refused = ArmFailpoints("exec.result=error");
  EXPECT_THAT(MessageOf(refused), testing::HasSubstr("built without failpoints"));
  EXPECT_TRUE(Failpoint("exec.result").ok());
}

TEST(WithoutFailpoints, ArmingNoneIsAccepted) { EXPECT_TRUE(ArmFailpoints("").ok()); }

}  // namespace
}  // namespace tunefarm
