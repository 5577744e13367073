#include "server/base/failpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "server/base/clock.h"
#include "server/base/status.h"

namespace tunefarm {
namespace {

using testing::HasSubstr;

class FailpointTest : public testing::Test {
 protected:
  ~FailpointTest() override { EXPECT_TRUE(ArmFailpoints("").ok()); }
};

TEST_F(FailpointTest, NothingHappensUnarmed) {
  for (const std::string_view name : kFailpoints) EXPECT_TRUE(Failpoint(name).ok()) << name;
}

TEST_F(FailpointTest, FailsAtItsHitOnly) {
  ASSERT_TRUE(ArmFailpoints("exec.result=error@2").ok());
  EXPECT_TRUE(Failpoint("exec.result").ok());
  EXPECT_TRUE(Failpoint("jobs.step.after").ok());
  EXPECT_TRUE(absl::IsUnavailable(Failpoint("exec.result")));
  EXPECT_TRUE(Failpoint("exec.result").ok());
}

TEST_F(FailpointTest, FailsFromItsHitOn) {
  ASSERT_TRUE(ArmFailpoints("exec.result=error@2+;jobs.step.after=error").ok());
  EXPECT_TRUE(Failpoint("exec.result").ok());
  EXPECT_FALSE(Failpoint("exec.result").ok());
  EXPECT_FALSE(Failpoint("exec.result").ok());
  EXPECT_FALSE(Failpoint("jobs.step.after").ok());
  EXPECT_TRUE(Failpoint("jobs.step.after").ok());
}

TEST_F(FailpointTest, FailsForAWhile) {
  ASSERT_TRUE(ArmFailpoints("exec.result=error@2-3").ok());
  std::string seen;
  for (int i = 0; i < 5; ++i) seen += Failpoint("exec.result").ok() ? '+' : '-';
  EXPECT_EQ(seen, "+--++");
}

TEST_F(FailpointTest, HoldsUpItsThread) {
  ASSERT_TRUE(ArmFailpoints("exec.result=delay:30").ok());
  const MonotonicTime began = Clock::Real()->Now();
  EXPECT_TRUE(Failpoint("exec.result").ok());
  EXPECT_GE(Clock::Real()->Now() - began, std::chrono::milliseconds(30));
}

TEST_F(FailpointTest, CrashesWithSigkill) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        if (ArmFailpoints("store.commit.after=crash@2").ok()) {
          PassFailpoint("store.commit.after");
          PassFailpoint("store.commit.after");
        }
        _exit(1);
      },
      testing::KilledBySignal(SIGKILL), "store.commit.after");
}

TEST_F(FailpointTest, WhatIsNoneIsRefusedAndChangesNothing) {
  ASSERT_TRUE(ArmFailpoints("exec.result=error@1+").ok());
  EXPECT_THAT(std::string(MessageOf(ArmFailpoints("exec.resolt=crash"))), HasSubstr("no failpoint 'exec.resolt'"));
  EXPECT_THAT(std::string(MessageOf(ArmFailpoints("exec.result"))), HasSubstr("NAME=ACTION"));
  EXPECT_THAT(std::string(MessageOf(ArmFailpoints("exec.result=explode"))), HasSubstr("'explode'"));
  EXPECT_THAT(std::string(MessageOf(ArmFailpoints("exec.result=crash@0"))), HasSubstr("'0'"));
  EXPECT_THAT(std::string(MessageOf(ArmFailpoints("exec.result=crash@2-x"))), HasSubstr("'x'"));
  EXPECT_THAT(std::string(MessageOf(ArmFailpoints("exec.result=delay:99999999"))), HasSubstr("60000"));
  EXPECT_FALSE(Failpoint("exec.result").ok());
}

}  // namespace
}  // namespace tunefarm
