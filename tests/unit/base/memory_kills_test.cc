#include "server/base/memory_kills.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/base/clock.h"

namespace tunefarm {
namespace {

TEST(MemoryKills, NothingIsKnownBeforeABeginning) {
  const MemoryKillWatch watch;
  EXPECT_EQ(watch.Look(), MemoryKills::kUnknown);
}

TEST(MemoryKills, AKillByAnotherProcessIsNoneOfThem) {
  const std::optional<int64_t> before = CountMemoryKills();
  if (!before.has_value()) GTEST_SKIP() << "this kernel does not count them";
  MemoryKillWatch watch;
  watch.Begin(Clock::Real()->Now());
  const pid_t child = fork();
  if (child == 0) {
    while (true) pause();
  }
  ASSERT_EQ(kill(child, SIGKILL), 0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  const MemoryKills found = watch.Look();
  // The machine may run out of memory meanwhile.
  if (CountMemoryKills() == before) {
    EXPECT_EQ(found, MemoryKills::kNone);
  }
}

}  // namespace
}  // namespace tunefarm
