#include "server/base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
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
