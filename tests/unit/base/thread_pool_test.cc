#include "server/base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace tunefarm {
namespace {

TEST(ThreadPoolTest, RunsEachTaskOnceAndDrainsOnDestruction) {
  std::atomic<int> ran = 0;
  {
    ThreadPool pool("pool", 3);
    for (int i = 0; i < 1000; ++i) pool.Post([&ran] { ++ran; });
  }
  EXPECT_EQ(ran, 1000);
}

TEST(ThreadPoolTest, ATaskThatWaitsKeepsNoOtherFromRunning) {
  ThreadPool pool("pool", 2);
  Notification others_ran, ended;
  pool.Post([&] {
    others_ran.WaitForNotification();
    ended.Notify();
  });
  std::atomic<int> left = 100;
  for (int i = 0; i < 100; ++i) {
    pool.Post([&] {
      if (--left == 0) others_ran.Notify();
    });
  }
  ended.WaitForNotification();
  EXPECT_EQ(left, 0);
}

TEST(ThreadPoolTest, SlowTasksHoldUpNoOthers) {
  std::atomic<int> ended = 0;
  {
    Notification released, quick_ran;
    ThreadPool pool("pool", 1, {}, {"slow", 2});
    for (const char* owner : {"a", "b", "c", "d"}) {
      pool.PostSlow(owner, [&] {
        released.WaitForNotification();
        ++ended;
      });
    }
    pool.Post([&] { quick_ran.Notify(); });
    quick_ran.WaitForNotification();
    EXPECT_EQ(ended, 0);
    released.Notify();
  }
  EXPECT_EQ(ended, 4);
}

// Of four threads two may run those of one owner.
TEST(ThreadPoolTest, SlowTasksOfAnOwnerLeaveThreadsToOthers) {
  std::atomic<int> running = 0, most = 0, ended = 0;
  {
    Notification other_ran;
    ThreadPool pool("pool", 1, {}, {"slow", 4});
    for (int i = 0; i < 6; ++i) {
      pool.PostSlow("one", [&] {
        const int now = ++running;
        for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) continue;
        other_ran.WaitForNotification();
        --running;
        ++ended;
      });
    }
    pool.PostSlow("other", [&] { other_ran.Notify(); });
  }
  EXPECT_GE(most, 1);
  EXPECT_LE(most, 2);
  EXPECT_EQ(ended, 6);
}

TEST(ThreadPoolTest, ThreadsForSlowTasksAlone) {
  std::atomic<int> ended = 0;
  {
    ThreadPool pool("pool", 0, {}, {"slow", 2});
    for (const char* owner : {"a", "a", "b"}) pool.PostSlow(owner, [&] { ++ended; });
  }
  EXPECT_EQ(ended, 3);
}

// Of three threads two may run those of one owner, however many it has posted.
TEST(ThreadPoolTest, TasksOfAnOwnerLeaveAThreadToOthers) {
  std::atomic<int> running = 0, most = 0, ended = 0;
  {
    Notification other_ran;
    ThreadPool pool("pool", 3);
    for (int i = 0; i < 8; ++i) {
      pool.PostFor("one", [&] {
        const int now = ++running;
        for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) continue;
        other_ran.WaitForNotification();
        --running;
        ++ended;
      });
    }
    pool.PostFor("other", [&] { other_ran.Notify(); });
  }
  EXPECT_GE(most, 1);
  EXPECT_LE(most, 2);
  EXPECT_EQ(ended, 8);
}

TEST(ThreadPoolTest, TheOwnerWithTheFewestRunningTasksComesFirst) {
  Mutex mutex;
  std::vector<std::string> order;
  {
    Notification posted, second_began, both_posted;
    ThreadPool pool("pool", 2);
    pool.PostFor("one", [&] {
      posted.Notify();
      both_posted.WaitForNotification();
      second_began.WaitForNotification();
    });
    posted.WaitForNotification();
    // Takes the second thread until all are posted.
    Notification second_taken;
    pool.Post([&] {
      second_taken.Notify();
      both_posted.WaitForNotification();
    });
    second_taken.WaitForNotification();
    pool.PostFor("one", [&] {
      MutexLock lock(&mutex);
      order.push_back("one");
    });
    pool.PostFor("two", [&] {
      MutexLock lock(&mutex);
      order.push_back("two");
      second_began.Notify();
    });
    both_posted.Notify();
  }
  EXPECT_EQ(order, (std::vector<std::string>{"two", "one"}));
}

TEST(ThreadPoolTest, WithoutThreadsForThemSlowTasksAreAsOthers) {
  std::atomic<int> ran = 0;
  {
    ThreadPool pool("pool", 1);
    for (const char* owner : {"a", "a", "b"}) pool.PostSlow(owner, [&] { ++ran; });
    pool.Post([&] { ++ran; });
  }
  EXPECT_EQ(ran, 4);
}

TEST(ThreadPoolTest, EachThreadBeginsWithWhatItWasGiven) {
  Mutex mutex;
  std::set<std::thread::id> started, ran;
  {
    ThreadPool pool("pool", 4, [&] {
      MutexLock lock(&mutex);
      started.insert(std::this_thread::get_id());
    });
    for (int i = 0; i < 100; ++i) {
      pool.Post([&] {
        MutexLock lock(&mutex);
        ran.insert(std::this_thread::get_id());
        EXPECT_EQ(started.count(std::this_thread::get_id()), 1u);
      });
    }
  }
  EXPECT_EQ(started.size(), 4u);
  EXPECT_FALSE(ran.empty());
}

}  // namespace
}  // namespace tunefarm
