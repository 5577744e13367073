#include "server/daemon/watchdog.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/fakes/fake_clock.h"
#include "tests/fakes/manual_executor.h"

namespace tunefarm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::optional<Duration> PeriodOf(const std::map<std::string, std::string>& variables) {
  return WatchdogPeriod(
      [&variables](const char* name) -> std::optional<std::string> {
        const auto found = variables.find(name);
        return found == variables.end() ? std::nullopt : std::optional<std::string>(found->second);
      },
      17);
}

TEST(WatchdogPeriodTest, IsWhatTheServiceManagerAsksThisProcessFor) {
  EXPECT_EQ(PeriodOf({{"WATCHDOG_USEC", "60000000"}}), Duration(seconds(60)));
  EXPECT_EQ(PeriodOf({{"WATCHDOG_USEC", "1500"}, {"WATCHDOG_PID", "17"}}), Duration(std::chrono::microseconds(1500)));
  EXPECT_EQ(PeriodOf({}), std::nullopt);
  EXPECT_EQ(PeriodOf({{"WATCHDOG_USEC", ""}}), std::nullopt);
  EXPECT_EQ(PeriodOf({{"WATCHDOG_USEC", "60000000"}, {"WATCHDOG_PID", "18"}}), std::nullopt);
  EXPECT_EQ(PeriodOf({{"WATCHDOG_USEC", "60000000"}, {"WATCHDOG_PID", "x"}}), std::nullopt);
  for (const char* const wrong : {"0", "-1", "1s", "99999999999999999999"}) {
    EXPECT_EQ(PeriodOf({{"WATCHDOG_USEC", wrong}}), std::nullopt) << wrong;
  }
}

class WatchdogTest : public testing::Test {
 protected:
  FakeClock clock_;
  ManualExecutor first_{&clock_}, second_{&clock_};
  int told_ = 0;
  Watchdog watchdog_{{&first_, &second_}, seconds(10), &clock_, [this] { ++told_; }};
};

TEST_F(WatchdogTest, TellsWhenAllHaveAnswered) {
  watchdog_.Poll();
  first_.RunUntilIdle();
  EXPECT_EQ(told_, 0);
  second_.RunUntilIdle();
  EXPECT_EQ(told_, 1);
}

TEST_F(WatchdogTest, AsksTwiceInEachPeriod) {
  for (int i = 0; i < 41; ++i) {
    watchdog_.Poll();
    first_.RunUntilIdle();
    second_.RunUntilIdle();
    clock_.Advance(milliseconds(500));
  }
  EXPECT_EQ(told_, 5);  // at 0, 5, 10, 15 and 20 s
}

TEST_F(WatchdogTest, AStuckThreadSilencesItAndIsAskedOnce) {
  for (int i = 0; i < 100; ++i) {
    watchdog_.Poll();
    first_.RunUntilIdle();
    clock_.Advance(seconds(5));
  }
  EXPECT_EQ(told_, 0);
  EXPECT_EQ(second_.RunUntilIdle(), 1u);
  EXPECT_EQ(told_, 1);
  watchdog_.Poll();
  EXPECT_EQ(first_.RunUntilIdle() + second_.RunUntilIdle(), 2u);
  EXPECT_EQ(told_, 2);
}

}  // namespace
}  // namespace tunefarm
