#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "server/base/unique_fd.h"
#include "tests/exec/evaluator_fixture.h"

namespace tunefarm {
namespace {

// A process that owns an evaluator with a hanging runner and an idle compiler dies of SIGKILL: whatever it started
// ends.
TEST(ParentDeath, NoProcessOutlivesTheDaemon) {
  TemporaryDirectory directory;
  const std::string bin = std::getenv("TUNEFARM_BIN_DIR");
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  UniqueFd read_end(ends[0]), write_end(ends[1]);
  const pid_t host = fork();
  if (host == 0) {
    dup2(write_end.get(), 1);
    execl((bin + "/evaluator_host").c_str(), "evaluator_host", (bin + "/fake_worker").c_str(),
          directory.File("scratch").c_str(), nullptr);
    _exit(127);
  }
  ASSERT_GT(host, 0);
  write_end.Reset();
  char ready[6] = {};
  ASSERT_EQ(read(read_end.get(), ready, sizeof(ready)), 6);
  std::vector<pid_t> workers = ProcessesWith(directory.path());
  workers.erase(std::remove(workers.begin(), workers.end(), host), workers.end());
  // A compile worker and a run worker, each with its stub and, where there are pid namespaces, its init.
  EXPECT_GE(workers.size(), 4u);
  ASSERT_EQ(kill(host, SIGKILL), 0);
  ASSERT_EQ(waitpid(host, nullptr, 0), host);
  EXPECT_TRUE(AllEnd(workers)) << "a worker lives on";
  EXPECT_THAT(ProcessesWith(directory.path()), testing::IsEmpty());
}

}  // namespace
}  // namespace tunefarm
