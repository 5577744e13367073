#include "server/base/mutex.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "server/base/thread.h"

namespace tunefarm {
namespace {

// Whether a thread sleeps in the kernel for a lock that is part of `mutex`: in a futex call with an address in it.
bool WaitsFor(const SharedMutex& mutex, pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/syscall");
  int64_t call = -1;  // none where the file says "running"
  std::string address;
  if (!(file >> call >> address) || call < 0) return false;
  const uint64_t at = std::stoull(address, nullptr, 16), begin = reinterpret_cast<uintptr_t>(&mutex);
  return at >= begin && at < begin + sizeof(SharedMutex);
}

// Whether the kernel tells what threads wait for; some containers hide it.
bool CanSeeWaits() {
  std::string text;
  return static_cast<bool>(std::ifstream("/proc/self/syscall") >> text);
}

// A thread that takes the mutex, calls `hold`, and releases it.
class Holder {
 public:
  template <typename Hold>
  Holder(SharedMutex* mutex, bool writes, Hold hold)
      : mutex_(mutex), thread_([this, writes, hold] {
          id_ = gettid();
          if (writes) {
            const WriterMutexLock lock(mutex_);
            has_it_ = true;
            hold();
          } else {
            const ReaderMutexLock lock(mutex_);
            has_it_ = true;
            hold();
          }
        }) {}
  ~Holder() { thread_.join(); }

  bool has_it() const { return has_it_; }
  // Returns when it waits for the mutex, or has it.
  void AwaitWaiting() const {
    while (!has_it_ && (id_ == 0 || !WaitsFor(*mutex_, id_))) sched_yield();
  }

 private:
  SharedMutex* const mutex_;
  std::atomic<pid_t> id_ = 0;
  std::atomic<bool> has_it_ = false;
  std::thread thread_;  // the last: it uses the others
};

TEST(SharedMutexTest, ReadersHoldItTogether) {
  SharedMutex mutex;
  std::atomic<int> inside = 0;
  Notification all_are_inside;
  const auto meet = [&] {
    if (++inside == 3) all_are_inside.Notify();
    all_are_inside.WaitForNotification();
  };
  { const Holder first(&mutex, false, meet), second(&mutex, false, meet), third(&mutex, false, meet); }
  EXPECT_EQ(inside, 3);
}

TEST(SharedMutexTest, AWriterHoldsItAlone) {
  if (!CanSeeWaits()) GTEST_SKIP() << "/proc/self/syscall cannot be read";
  SharedMutex mutex;
  Notification released;
  const Holder first(&mutex, true, [&] { released.WaitForNotification(); });
  while (!first.has_it()) sched_yield();
  int written = 0;  // guarded by the mutex
  {
    const Holder writer(&mutex, true, [&] { ++written; });
    writer.AwaitWaiting();
    EXPECT_FALSE(writer.has_it());
    const Holder reader(&mutex, false, [] {});
    reader.AwaitWaiting();
    EXPECT_FALSE(reader.has_it());
    released.Notify();
  }
  EXPECT_EQ(written, 1);
}

TEST(SharedMutexTest, AWriterThatWaitsGoesBeforeLaterReaders) {
  if (!CanSeeWaits()) GTEST_SKIP() << "/proc/self/syscall cannot be read";
  SharedMutex mutex;
  Notification released;
  std::vector<std::string> order;  // guarded by the mutex; of the readers one adds to it
  {
    const Holder reading(&mutex, false, [&] { released.WaitForNotification(); });
    while (!reading.has_it()) sched_yield();
    const Holder writer(&mutex, true, [&] { order.emplace_back("writer"); });
    writer.AwaitWaiting();
    EXPECT_FALSE(writer.has_it());
    const Holder reader(&mutex, false, [&] { order.emplace_back("reader"); });
    reader.AwaitWaiting();
    EXPECT_FALSE(reader.has_it()) << "the first reader still reads, and the writer waits";
    released.Notify();
  }
  EXPECT_EQ(order, (std::vector<std::string>{"writer", "reader"}));
}

TEST(SharedMutexTest, ItIsFreeAfterEachHolder) {
  SharedMutex mutex;
  int written = 0;
  {
    std::vector<std::unique_ptr<Holder>> holders;
    for (int i = 0; i < 20; ++i) {
      holders.push_back(std::make_unique<Holder>(&mutex, i % 2 == 0, [&, i] {
        if (i % 2 == 0) ++written;
      }));
    }
  }
  const WriterMutexLock lock(&mutex);
  EXPECT_EQ(written, 10);
}

}  // namespace
}  // namespace tunefarm
