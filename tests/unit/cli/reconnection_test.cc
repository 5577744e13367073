#include "client/cli/reconnection.h"

#include <gtest/gtest.h>

#include <chrono>

#include "tests/fakes/fake_clock.h"

namespace tunefarm::cli {
namespace {

using std::chrono::milliseconds;

TEST(ReconnectionTest, TheDaemonHasAllThePatienceAfterAQuietStreamThatStoodForLong) {
  FakeClock clock;
  Reconnection reconnection(&clock);
  for (int i = 0; i < 3; ++i) {
    clock.Advance(std::chrono::hours(1));
    EXPECT_TRUE(reconnection.MayTry(true));
    clock.Advance(Reconnection::kPatience);
    EXPECT_TRUE(reconnection.MayTry(false));
  }
  clock.Advance(milliseconds(1));
  EXPECT_FALSE(reconnection.MayTry(false));
}

TEST(ReconnectionTest, StreamsThatBringNothingDoNotCount) {
  FakeClock clock;
  Reconnection reconnection(&clock);
  clock.Advance(Reconnection::kPatience / 2);
  EXPECT_TRUE(reconnection.MayTry(false));
  clock.Advance(Reconnection::kPatience);
  EXPECT_FALSE(reconnection.MayTry(false));
}

}  // namespace
}  // namespace tunefarm::cli
