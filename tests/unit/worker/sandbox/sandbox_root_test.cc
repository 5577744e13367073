#include "server/worker/sandbox/sandbox_root.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <functional>
#include <string>

#include "server/worker/sandbox/sandbox_namespaces.h"
#include "tests/fakes/permitted.h"
#include "tests/fakes/temporary_directory.h"

namespace tunefarm {
namespace {

constexpr int kNoNamespaces = 77;

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }
bool Creates(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0600);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

class SandboxRootTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(MakeDirectories(File("staging")).ok());
    ASSERT_TRUE(MakeDirectories(File("shown/inner")).ok());
    ASSERT_TRUE(MakeDirectories(File("secret")).ok());
    ASSERT_TRUE(WriteFileAtomically(File("shown/inner/file"), "content").ok());
    ASSERT_TRUE(WriteFileAtomically(File("secret/file"), "secret").ok());
    ASSERT_EQ(symlink("shown/inner", File("link").c_str()), 0);
    ASSERT_EQ(symlink(File("link").c_str(), File("link-to-link").c_str()), 0);
  }

  std::string File(const std::string& name) const { return directory_.File(name); }

  // What `body`, run with the view as its root, answers: the number of its first failed check, 0 if all held.
  int Within(const RootView& view, const std::function<int()>& body) {
    const pid_t outer = fork();
    if (outer == 0) {
      SandboxLevel level;
      const Namespaces namespaces = UnshareNamespaces(&level);
      if (!namespaces.pid || !namespaces.mount) _exit(kNoNamespaces);
      const pid_t inner = fork();
      if (inner == 0) {
        const std::string failure = EnterRootView(view, File("staging"), geteuid(), getegid());
        if (!failure.empty()) std::fprintf(stderr, "%s\n", failure.c_str());
        _exit(failure.empty() ? body() : 100);
      }
      int status = 0;
      _exit(waitpid(inner, &status, 0) == inner && WIFEXITED(status) ? WEXITSTATUS(status) : 101);
    }
    int status = 0;
    EXPECT_EQ(waitpid(outer, &status, 0), outer);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 102;
  }

  TemporaryDirectory directory_;
};

#define EXPECT_WITHIN(view, body)                                                         \
  do {                                                                                    \
    const int answer = Within(view, body);                                                \
    if (answer == kNoNamespaces) SKIP_NOT_PERMITTED("namespaces are not permitted here"); \
    EXPECT_EQ(answer, 0);                                                                 \
  } while (false)

TEST_F(SandboxRootTest, ShowsWhatIsListedAndNothingElse) {
  RootView view;
  view.shown = {File("shown"), File("missing")};
  EXPECT_WITHIN(view, [this] {
    if (!Exists(File("shown/inner/file"))) return 1;
    if (Exists(File("secret")) || Exists(File("staging")) || Exists(File("missing"))) return 2;
    if (Exists("/usr") || Exists("/home") || Exists("/etc") || Exists("/var")) return 3;
    if (!Exists("/proc/self/status") || !Exists("/dev/null") || !Exists("/dev/urandom")) return 4;
    return 0;
  });
  EXPECT_TRUE(Exists(File("secret/file"))) << "outside nothing has changed";
}

TEST_F(SandboxRootTest, LinksOnTheWayAreRecreated) {
  RootView view;
  view.shown = {File("link-to-link") + "/../inner/file"};
  EXPECT_WITHIN(view, [this] {
    if (!Exists(File("shown/inner/file"))) return 1;
    if (!Exists(File("link-to-link") + "/file")) return 2;
    return 0;
  });
}

TEST_F(SandboxRootTest, OnlyScratchCanBeWritten) {
  RootView view;
  view.shown = {File("shown")};
  EXPECT_WITHIN(view, [this] {
    if (Creates(File("shown/new")) || errno != EROFS) return 1;
    if (Creates("/new") || Creates("/dev/new") || Creates(File("new"))) return 2;
    if (open("/proc/sys/kernel/hostname", O_WRONLY) >= 0) return 3;
    if (!Creates(std::string(kScratchInside) + "/new")) return 4;
    return 0;
  });
}

TEST_F(SandboxRootTest, FilesOfProcessesAreWritableWhereTheViewSaysSo) {
  const auto names_itself = [] { return open("/proc/self/comm", O_WRONLY) >= 0 ? 0 : errno; };
  RootView view;
  EXPECT_WITHIN(view, [&names_itself] { return names_itself() == EROFS ? 0 : 1; });
  view.proc_writable = true;
  EXPECT_WITHIN(view, names_itself);
}

TEST_F(SandboxRootTest, TheUsualPlaceForFilesLeadsToScratch) {
  EXPECT_WITHIN(RootView(), [] { return Creates("/tmp/new") && Exists(std::string(kScratchInside) + "/new") ? 0 : 1; });
}

TEST_F(SandboxRootTest, ScratchHasAnEnd) {
  RootView view;
  view.scratch_bytes_max = 1 << 20;
  EXPECT_WITHIN(view, [] {
    const int fd = open((std::string(kScratchInside) + "/file").c_str(), O_WRONLY | O_CREAT, 0600);
    static const char block[64 << 10] = {};
    int blocks = 0;
    while (write(fd, block, sizeof(block)) == static_cast<ssize_t>(sizeof(block))) ++blocks;
    return errno == ENOSPC && blocks <= 16 ? 0 : 1;
  });
}

TEST_F(SandboxRootTest, WhatIsHiddenIsEmptyInsideOfWhatIsShown) {
  RootView view;
  view.shown = {directory_.path()};
  view.hidden = {File("secret"), "/nowhere"};
  EXPECT_WITHIN(view, [this] {
    if (!Exists(File("shown/inner/file"))) return 1;
    if (!Exists(File("secret")) || Exists(File("secret/file"))) return 2;
    return 0;
  });
}

TEST_F(SandboxRootTest, AFailureLeavesTheRootAlone) {
  RootView view;
  EXPECT_NE(EnterRootView(view, File("missing"), geteuid(), getegid()), "");
  EXPECT_TRUE(Exists(File("secret/file")));
}

}  // namespace
}  // namespace tunefarm
