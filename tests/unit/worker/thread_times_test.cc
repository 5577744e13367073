#include "server/worker/verify/thread_times.h"

#include <gtest/gtest.h>
#include <poll.h>
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

TEST(ThreadTimesTest, AProcessThatDoesNotExistHasNone) {
  // Above any number that Linux gives.
  EXPECT_EQ(FirstThreadTimes(0x7f000000).busy_ns, 0);
  EXPECT_EQ(FirstThreadTimes(0x7f000000).waited_ns, 0);
}

}  // namespace
}  // namespace tunefarm
