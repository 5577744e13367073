#include "server/worker/verify/thread_times.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include <filesystem>

namespace tunefarm {
namespace {

TEST(ThreadTimesTest, CountsProcessorTimeOfThisThread) {
  if (!std::filesystem::exists("/proc/thread-self/schedstat")) GTEST_SKIP() << "this kernel does not count";
  const ThreadTimes before = OwnThreadTimes();
  ThreadTimes now = before;
  while (now.busy_ns <= before.busy_ns) now = OwnThreadTimes();
  EXPECT_GE(now.waited_ns, before.waited_ns);
  EXPECT_GT(FirstThreadTimes(getpid()).busy_ns, 0);
}

TEST(ThreadTimesTest, EachSleepIsFollowedByARun) {
  const ThreadTimes before = OwnThreadTimes();
  if (before.runs == 0) GTEST_SKIP() << "this kernel does not count";
  for (int i = 0; i < 10; ++i) poll(nullptr, 0, 1);
  EXPECT_GE(OwnThreadTimes().runs, before.runs + 10);
}

TEST(ThreadTimesTest, TheProcessorOfAProcessIsKnown) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (!CPU_ISSET(static_cast<unsigned>(processor), &allowed)) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<unsigned>(processor), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    EXPECT_EQ(LastProcessor(getpid()), processor);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof(allowed), &allowed), 0);
  EXPECT_EQ(LastProcessor(0x7f000000), -1);
}

TEST(ThreadTimesTest, AProcessThatDoesNotExistHasNone) {
  // Above any number that Linux gives.
  EXPECT_EQ(FirstThreadTimes(0x7f000000).busy_ns, 0);
  EXPECT_EQ(FirstThreadTimes(0x7f000000).waited_ns, 0);
}

}  // namespace
}  // namespace tunefarm
