#include "server/base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <string>
#include <thread>

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

TEST(ThreadPoolTest, SlowTasksLeaveHalfOfTheThreads) {
  std::atomic<int> running = 0, most = 0, ended = 0;
  {
    Notification two_run, released, quick_ran;
    ThreadPool pool("pool", 4);
    for (int owner = 0; owner < 6; ++owner) {
      pool.PostSlow(std::to_string(owner), [&] {
        const int now = ++running;
        for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) continue;
        if (now == 2 && !two_run.HasBeenNotified()) two_run.Notify();
        released.WaitForNotification();
        --running;
        ++ended;
      });
    }
    two_run.WaitForNotification();
    pool.Post([&] { quick_ran.Notify(); });
    quick_ran.WaitForNotification();
    EXPECT_EQ(ended, 0);
    released.Notify();
  }
  EXPECT_EQ(most, 2);
  EXPECT_EQ(ended, 6);
}

// Two may run at a time, and of one owner one.
TEST(ThreadPoolTest, AnOwnersSlowTasksLeaveHalfOfTheThreadsOfSlowOnes) {
  std::atomic<bool> is_first_over = false;
  {
    Notification other_ran;
    ThreadPool pool("pool", 4);
    pool.PostSlow("one", [&] {
      other_ran.WaitForNotification();
      is_first_over = true;
    });
    pool.PostSlow("one", [&] { EXPECT_TRUE(is_first_over); });
    pool.PostSlow("other", [&] { other_ran.Notify(); });
  }
  EXPECT_TRUE(is_first_over);
}

TEST(ThreadPoolTest, OneThreadRunsSlowTasksToo) {
  std::atomic<int> ran = 0;
  {
    ThreadPool pool("pool", 1);
    for (int owner = 0; owner < 3; ++owner) pool.PostSlow(std::to_string(owner), [&] { ++ran; });
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
