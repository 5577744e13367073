#include "server/exec/event_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <vector>

namespace tunefarm {
namespace {

TEST(EventLoop, RunsTasksInOrderAndDrainsOnStop) {
  std::vector<int> order;
  {
    EventLoop loop("test", Clock::Real());
    for (int i = 0; i < 100; ++i) loop.Post([&order, i] { order.push_back(i); });
  }
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

TEST(EventLoop, TimersRunInOrderOfTheirDueTimesAndCanBeCancelled) {
  EventLoop loop("test", Clock::Real());
  std::vector<int> order;
  Notification done;
  loop.Post([&] {
    loop.PostAfter(std::chrono::milliseconds(20), [&] {
      order.push_back(3);
      done.Notify();
    });
    loop.PostAfter(std::chrono::milliseconds(10), [&] { order.push_back(2); });
    const TimerId cancelled = loop.PostAfter(std::chrono::milliseconds(1), [&] { order.push_back(99); });
    loop.PostAfter(-std::chrono::milliseconds(1), [&] { order.push_back(1); });
    EXPECT_TRUE(loop.Cancel(cancelled));
    EXPECT_FALSE(loop.Cancel(cancelled));
    EXPECT_FALSE(loop.Cancel(0));
  });
  done.WaitForNotification();
  EXPECT_THAT(order, testing::ElementsAre(1, 2, 3));
}

TEST(EventLoop, WatchesDescriptorsUntilUnwatched) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  UniqueFd read_end(ends[0]), write_end(ends[1]);
  Notification done;
  int calls = 0;
  EventLoop loop("test", Clock::Real());
  loop.Post([&] {
    auto watch = std::make_shared<EventLoop::WatchId>();
    *watch = loop.Watch(read_end.get(), EPOLLIN, [&, watch](uint32_t events) {
      EXPECT_NE(events & EPOLLIN, 0u);
      char byte;
      ASSERT_EQ(read(read_end.get(), &byte, 1), 1);
      if (++calls < 3) return;
      loop.Unwatch(*watch);  // From within itself; a byte is left over.
      loop.Post([&] { done.Notify(); });
    });
  });
  ASSERT_EQ(write(write_end.get(), "abcd", 4), 4);
  done.WaitForNotification();
  EXPECT_EQ(calls, 3);
}

TEST(EventLoop, HangUpIsSeenWithoutWatchingForData) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  UniqueFd read_end(ends[0]), write_end(ends[1]);
  Notification done;
  EventLoop loop("test", Clock::Real());
  loop.Post([&] {
    auto watch = std::make_shared<EventLoop::WatchId>();
    *watch = loop.Watch(read_end.get(), EPOLLIN, [&, watch](uint32_t events) {
      EXPECT_NE(events & EPOLLHUP, 0u);
      loop.Unwatch(*watch);
      done.Notify();
    });
    loop.WatchHangUpOnly(*watch);
    EXPECT_EQ(write(write_end.get(), "x", 1), 1);
    loop.Post([&] { write_end.Reset(); });
  });
  done.WaitForNotification();
}

TEST(EventLoop, KnowsItsThread) {
  EventLoop loop("test", Clock::Real());
  EXPECT_FALSE(loop.IsCurrent());
  Notification done;
  loop.Post([&] {
    EXPECT_TRUE(loop.IsCurrent());
    done.Notify();
  });
  done.WaitForNotification();
}

TEST(EventLoop, DropsTimersAndLaterPostsOnStop) {
  auto held = std::make_shared<int>(1);
  EventLoop loop("test", Clock::Real());
  loop.PostAfter(std::chrono::hours(1), [held] { FAIL(); });
  loop.Stop();
  loop.Post([held] { FAIL(); });
  EXPECT_EQ(held.use_count(), 1);
}

}  // namespace
}  // namespace tunefarm
