#include "server/api/open_calls.h"

#include <chrono>

#include "gtest/gtest.h"
#include "tests/fakes/fake_clock.h"

namespace tunefarm {
namespace {

TEST(OpenCalls, CountsCallsAndKnowsWhenTheLastOneEnded) {
  FakeClock clock;
  OpenCalls calls(&clock);
  const MonotonicTime begun = clock.Now();
  EXPECT_EQ(calls.last_ended(), begun);
  {
    const OpenCalls::Call one(&calls);
    clock.Advance(std::chrono::seconds(5));
    {
      const OpenCalls::Call two(&calls);
      EXPECT_EQ(calls.count(), 2);
      EXPECT_EQ(calls.last_ended(), begun);
    }
    EXPECT_EQ(calls.count(), 1);
    EXPECT_EQ(calls.last_ended(), begun + std::chrono::seconds(5));
    clock.Advance(std::chrono::seconds(1));
  }
  EXPECT_EQ(calls.count(), 0);
  EXPECT_EQ(calls.last_ended(), begun + std::chrono::seconds(6));
}

TEST(OpenCalls, OnceItRefusesItDoesSoForGood) {
  FakeClock clock;
  OpenCalls calls(&clock);
  EXPECT_TRUE(calls.CheckNotEnding().ok());
  calls.Refuse();
  EXPECT_EQ(calls.CheckNotEnding().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(calls.CheckNotEnding()), "DAEMON_ENDING");
}

}  // namespace
}  // namespace tunefarm
