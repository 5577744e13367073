#include "server/rpc/late_refusals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/fakes/fake_clock.h"
#include "tests/fakes/manual_executor.h"

namespace tunefarm {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr int kAtOnceMax = LateRefusals::kAtOnceMax;
constexpr Duration kInterval = LateRefusals::kInterval;

class LateRefusalsTest : public testing::Test {
 protected:
  ~LateRefusalsTest() override { refusals_.End(); }

  void Refuse(const std::string& caller, Duration time_left = hours(1)) {
    refusals_.Send(caller, time_left, [this, caller] { sent_.push_back(caller); });
  }
  void RefuseAtOnce(const std::string& caller) {
    for (int i = 0; i < kAtOnceMax; ++i) Refuse(caller);
    EXPECT_EQ(TakeSent().size(), static_cast<size_t>(kAtOnceMax));
  }
  std::vector<std::string> TakeSent() { return std::exchange(sent_, {}); }
  std::vector<std::string> SentAfter(Duration time) {
    executor_.AdvanceBy(time);
    return TakeSent();
  }

  FakeClock clock_;
  ManualExecutor executor_{&clock_};
  LateRefusals refusals_{&executor_};
  std::vector<std::string> sent_;
};

TEST_F(LateRefusalsTest, SomeComeAtOnceTheOthersOneByOne) {
  RefuseAtOnce("eve");
  Refuse("eve");
  Refuse("eve");
  EXPECT_THAT(TakeSent(), IsEmpty());
  EXPECT_THAT(SentAfter(kInterval - milliseconds(1)), IsEmpty());
  EXPECT_THAT(SentAfter(milliseconds(1)), ElementsAre("eve"));
  EXPECT_THAT(SentAfter(kInterval), ElementsAre("eve"));
}

TEST_F(LateRefusalsTest, OthersArePaidForByThemselves) {
  RefuseAtOnce("eve");
  Refuse("eve");
  Refuse("alice");
  EXPECT_THAT(TakeSent(), ElementsAre("alice"));
}

TEST_F(LateRefusalsTest, WhoHasWaitedIsAnsweredAtOnceAgain) {
  RefuseAtOnce("eve");
  executor_.AdvanceBy(kAtOnceMax * kInterval);
  RefuseAtOnce("eve");
}

TEST_F(LateRefusalsTest, NoneIsLaterThanTheLatest) {
  RefuseAtOnce("eve");
  constexpr int kMany = 3 * static_cast<int>(LateRefusals::kLateMax / kInterval);
  for (int i = 0; i < kMany; ++i) Refuse("eve");
  EXPECT_EQ(SentAfter(LateRefusals::kLateMax).size(), static_cast<size_t>(kMany));
  // What it did counts no longer than that.
  executor_.AdvanceBy(LateRefusals::kLateMax + kAtOnceMax * kInterval);
  RefuseAtOnce("eve");
}

TEST_F(LateRefusalsTest, AnAnswerComesBeforeTheDeadline) {
  RefuseAtOnce("eve");
  for (int i = 0; i < 20; ++i) Refuse("eve");
  Refuse("eve", milliseconds(200));
  EXPECT_EQ(SentAfter(milliseconds(100)).size(), 3U) << "two whose turn it is, and the one with 200 ms";
  Refuse("eve", Duration::zero());
  EXPECT_EQ(TakeSent().size(), 1U);
  Refuse("eve", -seconds(1));
  EXPECT_EQ(TakeSent().size(), 1U);
}

TEST_F(LateRefusalsTest, AsManyWaitAsMay) {
  RefuseAtOnce("eve");
  for (int i = 0; i < LateRefusals::kHeldMax; ++i) Refuse("eve");
  EXPECT_THAT(TakeSent(), IsEmpty());
  Refuse("eve");
  EXPECT_THAT(TakeSent(), ElementsAre("eve"));
}

TEST_F(LateRefusalsTest, TheEndWaitsForNothing) {
  RefuseAtOnce("eve");
  Refuse("eve");
  refusals_.End();
  EXPECT_THAT(TakeSent(), ElementsAre("eve"));
  Refuse("eve");
  EXPECT_THAT(TakeSent(), ElementsAre("eve"));
  EXPECT_THAT(SentAfter(LateRefusals::kLateMax), IsEmpty()) << "each is sent once";
}

}  // namespace
}  // namespace tunefarm
