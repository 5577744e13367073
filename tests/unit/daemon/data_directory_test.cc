#include "server/daemon/data_directory.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <string_view>

#include "server/base/file.h"
#include "server/upkeep/disk_reserve.h"
#include "tests/fakes/temporary_directory.h"

namespace tunefarm {
namespace {

mode_t ModeOf(const std::string& path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0 ? info.st_mode & 0777 : 0;
}

std::optional<std::string> NoEnvironment(const char*) { return std::nullopt; }

TEST(DataDirectory, IsClosedToOtherUsers) {
  TemporaryDirectory directory;
  const std::string data = directory.File("data");
  ASSERT_TRUE(OpenDataDirectory(data, NoEnvironment).ok());
  for (const char* const path : {"", "/backups", "/run"}) EXPECT_EQ(ModeOf(data + path), 0700u) << path;
  EXPECT_EQ(ModeOf(data + "/tunefarmd.lock"), 0600u);
  ASSERT_EQ(chmod((data + "/tunefarmd.lock").c_str(), 0644), 0);
  for (const mode_t open : {0755, 0777, 0750}) {
    ASSERT_EQ(chmod(data.c_str(), open), 0);
    ASSERT_EQ(chmod((data + "/backups").c_str(), open), 0);
    ASSERT_EQ(chmod((data + "/run").c_str(), open), 0);
    ASSERT_TRUE(OpenDataDirectory(data, NoEnvironment).ok());
    EXPECT_EQ(ModeOf(data), 0700u);
    EXPECT_EQ(ModeOf(data + "/backups"), 0700u);
    EXPECT_EQ(ModeOf(data + "/tunefarmd.lock"), 0600u);
    EXPECT_EQ(ModeOf(data + "/run"), open & 0755) << "its sockets have modes of their own";
  }
  // Others may pass through, and see nothing.
  ASSERT_EQ(chmod(data.c_str(), 0711), 0);
  ASSERT_TRUE(OpenDataDirectory(data, NoEnvironment).ok());
  EXPECT_EQ(ModeOf(data), 0711u);
}

// Two values of XDG_DATA_HOME with one runtime directory.
TEST(DataDirectory, SocketsOfTwoLieApart) {
  TemporaryDirectory directory;
  const std::string runtime = directory.File("runtime");
  const auto environment = [&](const std::string& home) {
    return [home = directory.File(home), runtime](const char* name) -> std::optional<std::string> {
      if (std::string_view(name) == "XDG_DATA_HOME") return home;
      if (std::string_view(name) == "XDG_RUNTIME_DIR") return runtime;
      return std::nullopt;
    };
  };
  const std::string first = directory.File("a") + "/tunefarm", second = directory.File("b") + "/tunefarm";
  EXPECT_EQ(SocketPathsFor(second, environment("b"))->directory, runtime + "/tunefarm") << "nobody has it yet";
  for (int start = 0; start < 2; ++start) {
    const auto opened = OpenDataDirectory(first, environment("a"));
    const auto other = OpenDataDirectory(second, environment("b"));
    ASSERT_TRUE(opened.ok() && other.ok());
    EXPECT_EQ(opened->sockets.directory, runtime + "/tunefarm");
    EXPECT_EQ(other->sockets.directory, second + "/run");
    // Clients find each.
    EXPECT_EQ(SocketPathsFor(first, environment("a"))->admin, opened->sockets.admin);
    EXPECT_EQ(SocketPathsFor(second, environment("b"))->admin, other->sockets.admin);
  }
  // Another name of the first.
  ASSERT_EQ(symlink(directory.File("a").c_str(), directory.File("c").c_str()), 0);
  EXPECT_EQ(SocketPathsFor(directory.File("c") + "/tunefarm", environment("c"))->directory, runtime + "/tunefarm");
  // What was first is gone: the second's stay where they are.
  ASSERT_TRUE(RemoveTree(first).ok());
  EXPECT_EQ(SocketPathsFor(second, environment("b"))->directory, second + "/run");
}

TEST(DataDirectory, RoomIsSetAsideForAStartOnAFullDisk) {
  TemporaryDirectory directory;
  const std::string reserve = directory.File("disk.reserve");
  KeepDiskReserve(directory.path());
  struct stat info = {};
  if (stat(reserve.c_str(), &info) != 0) GTEST_SKIP() << "this file system sets no room aside, or is almost full";
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_GE(info.st_blocks * 512, info.st_size);
  EXPECT_GE(info.st_size, 4 << 20);
  // It is used on a full disk only.
  UseDiskReserve(directory.path());
  EXPECT_EQ(ModeOf(reserve), 0600u);
}

}  // namespace
}  // namespace tunefarm
