#include "server/rpc/tarpit.h"

#include <gtest/gtest.h>

#include <chrono>

#include "tests/fakes/fake_clock.h"
#include "tests/fakes/manual_executor.h"

namespace tunefarm {
namespace {

using std::chrono::milliseconds;

class TarpitTest : public testing::Test {
 protected:
  ~TarpitTest() override { tarpit_.Drain(); }
  void Hold() {
    tarpit_.Hold([this] { ++told_; });
  }

  FakeClock clock_;
  ManualExecutor executor_{&clock_};
  Tarpit tarpit_{&executor_, milliseconds(2000)};
  int told_ = 0;
};

TEST_F(TarpitTest, EachRefusalIsToldOnceAfterTheDelay) {
  Hold();
  executor_.AdvanceBy(milliseconds(1500));
  Hold();
  Hold();
  EXPECT_EQ(told_, 0);
  executor_.AdvanceBy(milliseconds(500));
  EXPECT_EQ(told_, 1);
  executor_.AdvanceBy(milliseconds(1499));
  EXPECT_EQ(told_, 1);
  executor_.AdvanceBy(milliseconds(1));
  EXPECT_EQ(told_, 3);
  // The pit was empty in between.
  Hold();
  executor_.AdvanceBy(milliseconds(2000));
  EXPECT_EQ(told_, 4);
}

TEST_F(TarpitTest, WhereTooManyAreKeptBackTheNextIsToldAtOnce) {
  for (size_t i = 0; i < Tarpit::kHeldMax; ++i) Hold();
  EXPECT_EQ(told_, 0);
  Hold();
  EXPECT_EQ(told_, 1);
  executor_.AdvanceBy(milliseconds(2000));
  EXPECT_EQ(told_, static_cast<int>(Tarpit::kHeldMax) + 1);
}

TEST_F(TarpitTest, DrainedItKeepsNothingBack) {
  Hold();
  Hold();
  tarpit_.Drain();
  EXPECT_EQ(told_, 2);
  Hold();
  EXPECT_EQ(told_, 3);
  executor_.AdvanceBy(milliseconds(5000));
  EXPECT_EQ(told_, 3);
}

}  // namespace
}  // namespace tunefarm
