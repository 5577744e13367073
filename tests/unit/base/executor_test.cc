#include "server/base/executor.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <vector>

#include "tests/fakes/fake_clock.h"
#include "tests/fakes/manual_executor.h"

namespace tunefarm {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(ThreadExecutorTest, RunsInOrderAndDrainsOnDestruction) {
  std::vector<int> order;
  {
    ThreadExecutor executor("order", Clock::Real());
    for (int i = 0; i < 1000; ++i) executor.Post([&order, i] { order.push_back(i); });
  }
  ASSERT_EQ(order.size(), 1000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

TEST(ThreadTest, WhatAThreadThatYieldsStartsYieldsToo) {
  int own = -1, of_its_thread = -1;
  Thread thread("yields", [&] {
    YieldToOthers();
    own = sched_getscheduler(0);
    Thread inner("inner", [&] { of_its_thread = sched_getscheduler(0); });
  });
  thread.Join();
  EXPECT_EQ(own, SCHED_IDLE);
  EXPECT_EQ(of_its_thread, SCHED_IDLE);
  EXPECT_NE(sched_getscheduler(0), SCHED_IDLE);
}

TEST(ThreadExecutorTest, NeverTwoTasksAtOnce) {
  int unguarded = 0;  // ThreadSanitizer and lost updates would show two at once.
  {
    ThreadExecutor executor("serial", Clock::Real());
    std::vector<Thread> posters;
    for (int i = 0; i < 4; ++i) {
      posters.emplace_back("poster", [&] {
        for (int j = 0; j < 500; ++j) executor.Post([&unguarded] { ++unguarded; });
      });
    }
    posters.clear();
  }
  EXPECT_EQ(unguarded, 2000);
}

TEST(ThreadExecutorTest, TimersRunInOrderOfDueTimeThenOfPosting) {
  FakeClock clock;  // Stands still: all due times are exact, and everything at or before now is due.
  std::vector<int> order;
  Notification release, done;
  ThreadExecutor executor("timers", &clock);
  executor.Post([&] { release.WaitForNotification(); });
  executor.PostAfter(seconds(2), [&] { order.push_back(4); });
  executor.PostAfter(seconds(1), [&] { order.push_back(2); });
  executor.PostAfter(seconds(1), [&] { order.push_back(3); });
  executor.Post([&] { order.push_back(1); });
  executor.PostAfter(seconds(3), [&] { done.Notify(); });
  executor.PostAfter(seconds(4), [&] { order.push_back(5); });
  clock.Advance(seconds(3));
  release.Notify();
  done.WaitForNotification();
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3, 4}));
}

TEST(ThreadExecutorTest, TimerWakesTheSleepingThread) {
  Notification done;
  ThreadExecutor executor("wake", Clock::Real());
  executor.PostAfter(hours(1), [] {});
  executor.PostAfter(milliseconds(1), [&] { done.Notify(); });
  done.WaitForNotification();
}

TEST(ThreadExecutorTest, Cancel) {
  bool ran = false;
  Notification release;
  TimerId self = 0;
  bool cancelled_self = true;
  {
    ThreadExecutor executor("cancel", Clock::Real());
    executor.Post([&] { release.WaitForNotification(); });
    const TimerId due = executor.PostAfter(Duration::zero(), [&] { ran = true; });
    const TimerId far = executor.PostAfter(hours(1), [&] { ran = true; });
    EXPECT_NE(due, 0u);
    EXPECT_TRUE(executor.Cancel(due));
    EXPECT_FALSE(executor.Cancel(due));
    EXPECT_TRUE(executor.Cancel(far));
    EXPECT_FALSE(executor.Cancel(0));
    EXPECT_FALSE(executor.Cancel(12345));
    Notification done;
    executor.Post([&] {
      self = executor.PostAfter(Duration::zero(), [&] {
        cancelled_self = executor.Cancel(self);
        done.Notify();
      });
    });
    release.Notify();
    done.WaitForNotification();
  }
  EXPECT_FALSE(ran);
  EXPECT_FALSE(cancelled_self);
}

TEST(ThreadExecutorTest, StopKeepsWhatWasPostedAndDropsTheRest) {
  std::vector<std::string> ran;
  auto owned = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = owned;
  {
    Notification release;
    ThreadExecutor executor("stop", Clock::Real());
    executor.Post([&] {
      release.WaitForNotification();
      executor.Post([&] { ran.push_back("from a task after Stop"); });
    });
    executor.Post([&] { ran.push_back("before Stop"); });
    executor.PostAfter(hours(1), [&, owned = std::move(owned)] { ran.push_back("timer"); });
    executor.Stop();
    EXPECT_TRUE(watched.expired());
    executor.Post([&] { ran.push_back("after Stop"); });
    EXPECT_NE(executor.PostAfter(Duration::zero(), [&] { ran.push_back("timer after Stop"); }), 0u);
    executor.Stop();
    release.Notify();
  }
  EXPECT_EQ(ran, std::vector<std::string>{"before Stop"});
}

TEST(ThreadExecutorTest, EndlessDelayDoesNotOverflow) {
  Notification done;
  ThreadExecutor executor("endless", Clock::Real());
  const TimerId id = executor.PostAfter(Duration::max(), [] {});
  executor.PostAfter(Duration::min(), [&] { done.Notify(); });
  done.WaitForNotification();
  EXPECT_TRUE(executor.Cancel(id));
}

TEST(ThreadTest, JoinsInDestructorAndOnAssignment) {
  std::atomic<int> ran = 0;
  {
    Thread thread("a name longer than the kernel keeps", [&ran] { ++ran; });
    EXPECT_FALSE(thread.IsCurrent());
    thread = Thread("second", [&ran] { ++ran; });
    thread.Join();
    EXPECT_EQ(ran, 2);
    thread.Join();
    thread = Thread("third", [&ran] { ++ran; });
  }
  EXPECT_EQ(ran, 3);
  Thread empty;
  empty.Join();
}

class ThreadDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(ThreadDeathTest, ProgrammerErrorsAbort) {
  EXPECT_DEATH(Thread("thrower", [] { throw std::runtime_error("boom"); }).Join(),
               "thread thrower ended with an exception: boom");
  EXPECT_DEATH(ThreadExecutor("null", Clock::Real()).Post(nullptr), "check failed");
  EXPECT_DEATH(
      {
        Notification twice;
        twice.Notify();
        twice.Notify();
      },
      "check failed");
}

TEST(NotificationTest, WakesEveryWaiter) {
  Notification ready;
  std::atomic<int> woken = 0;
  std::vector<Thread> waiters;
  for (int i = 0; i < 4; ++i) {
    waiters.emplace_back("waiter", [&] {
      ready.WaitForNotification();
      ++woken;
    });
  }
  EXPECT_FALSE(ready.HasBeenNotified());
  EXPECT_FALSE(ready.WaitFor(Duration::zero()));
  EXPECT_FALSE(ready.WaitFor(milliseconds(1)));
  ready.Notify();
  waiters.clear();
  EXPECT_EQ(woken, 4);
  EXPECT_TRUE(ready.HasBeenNotified());
  EXPECT_TRUE(ready.WaitFor(Duration::zero()));
  EXPECT_TRUE(ready.WaitFor(Duration::max()));
}

TEST(ManualExecutorTest, RunsOnlyWhenTold) {
  FakeClock clock;
  ManualExecutor executor(&clock);
  std::vector<int> order;
  executor.Post([&] {
    order.push_back(1);
    executor.Post([&] { order.push_back(3); });
  });
  executor.Post([&] { order.push_back(2); });
  EXPECT_TRUE(order.empty());
  EXPECT_EQ(executor.RunUntilIdle(), 3u);
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
  EXPECT_FALSE(executor.RunOne());
}

TEST(ManualExecutorTest, TimersSeeTheirDueTime) {
  FakeClock clock;
  ManualExecutor executor(&clock);
  const MonotonicTime start = clock.Now();
  std::vector<Duration> seen;
  const auto record = [&] { seen.push_back(clock.Now() - start); };
  executor.PostAfter(seconds(3), record);
  executor.PostAfter(seconds(1), [&] {
    record();
    executor.PostAfter(seconds(1), record);
  });
  executor.PostAfter(seconds(60), record);
  EXPECT_EQ(executor.RunUntilIdle(), 0u);
  EXPECT_EQ(executor.NextDue(), start + seconds(1));
  EXPECT_EQ(executor.AdvanceBy(seconds(10)), 3u);
  EXPECT_EQ(seen, (std::vector<Duration>{seconds(1), seconds(2), seconds(3)}));
  EXPECT_EQ(clock.Now() - start, seconds(10));
  EXPECT_EQ(executor.timer_count(), 1u);
}

TEST(ManualExecutorTest, CancelDropsTheTask) {
  FakeClock clock;
  ManualExecutor executor(&clock);
  auto owned = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = owned;
  const TimerId id = executor.PostAfter(seconds(1), [owned = std::move(owned)] { FAIL(); });
  EXPECT_TRUE(executor.Cancel(id));
  EXPECT_TRUE(watched.expired());
  EXPECT_FALSE(executor.Cancel(id));
  EXPECT_EQ(executor.AdvanceBy(seconds(2)), 0u);
}

TEST(ManualExecutorTest, CancelOfADueTimerThatHasNotRun) {
  FakeClock clock;
  ManualExecutor executor(&clock);
  TimerId second = 0;
  bool cancelled = false;
  executor.PostAfter(seconds(1), [&] { cancelled = executor.Cancel(second); });
  second = executor.PostAfter(seconds(1), [] { FAIL(); });
  EXPECT_EQ(executor.AdvanceBy(seconds(1)), 1u);
  EXPECT_TRUE(cancelled);
}

TEST(FakeClockTest, BothTimesAdvanceAndOnlyWallTimeSteps) {
  FakeClock clock;
  const MonotonicTime start = clock.Now();
  clock.Advance(milliseconds(1500));
  EXPECT_EQ(clock.Now() - start, milliseconds(1500));
  EXPECT_EQ(clock.WallMs(), FakeClock::kStartWallMs + 1500);
  clock.StepWallMs(-1000);
  EXPECT_EQ(clock.Now() - start, milliseconds(1500));
  EXPECT_EQ(clock.WallMs(), FakeClock::kStartWallMs + 500);
  clock.AdvanceTo(start);
  EXPECT_EQ(clock.Now() - start, milliseconds(1500));
}

TEST(ClockTest, RealClockIsMonotonicAndInThisCentury) {
  const MonotonicTime first = Clock::Real()->Now();
  EXPECT_LE(first, Clock::Real()->Now());
  EXPECT_GT(Clock::Real()->WallMs(), int64_t{1'700'000'000'000});
  EXPECT_LT(Clock::Real()->WallMs(), int64_t{4'102'444'800'000});
}

}  // namespace
}  // namespace tunefarm
