#include "server/measure/duty_cycle.h"

#include <gtest/gtest.h>

namespace tunefarm {
namespace {

TEST(DutyCycle, NeverRestsBelowTheLimit) {
  DutyCycle duty;
  for (int i = 0; i < 1000; ++i) duty.Add(10e6, false);
  EXPECT_EQ(duty.rest_ns(), 0);
  EXPECT_EQ(duty.share(), 1);
}

TEST(DutyCycle, StepsDownWhileTheLimitIsReachedAndHoldsThen) {
  DutyCycle duty;
  duty.Add(10e6, true);
  EXPECT_DOUBLE_EQ(duty.share(), 0.8);
  EXPECT_DOUBLE_EQ(duty.rest_ns(), 2.5e6);
  // 15 blocks of 12.5 ms with their rests: less than a step needs to show.
  for (int i = 0; i < 15; ++i) duty.Add(10e6, true);
  EXPECT_DOUBLE_EQ(duty.share(), 0.8);
  duty.Add(10e6, true);
  EXPECT_DOUBLE_EQ(duty.share(), 0.64);
  for (int i = 0; i < 1000; ++i) duty.Add(10e6, false);
  EXPECT_DOUBLE_EQ(duty.share(), 0.64) << "a device that works more would reach the limit again";
}

TEST(DutyCycle, HasAFloor) {
  DutyCycle duty;
  for (int i = 0; i < 1000; ++i) duty.Add(10e6, true);
  EXPECT_DOUBLE_EQ(duty.share(), DutyCycle::kShareMin);
  EXPECT_DOUBLE_EQ(duty.rest_ns(), 30e6);
}

// A device whose power follows its load with a delay, and whose limit allows `sustained` of the time.
TEST(DutyCycle, FindsWhatADeviceSustains) {
  for (const double sustained : {0.9, 0.7, 0.5, 0.3}) {
    DutyCycle duty;
    double load = 0;
    int at_limit = 0;
    for (int block = 0; block < 400; ++block) {
      load += (duty.share() - load) * 0.2;
      const bool is_at_limit = load > sustained;
      if (block >= 200) at_limit += is_at_limit ? 1 : 0;
      duty.Add(10e6, is_at_limit);
    }
    EXPECT_EQ(at_limit, 0) << sustained;
    EXPECT_LE(duty.share(), sustained);
    EXPECT_GT(duty.share(), 0.6 * sustained) << sustained;
  }
}

}  // namespace
}  // namespace tunefarm
