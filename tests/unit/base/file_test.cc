#include "server/base/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>

#include "server/base/status.h"
#include "server/base/unique_fd.h"
#include "tests/fakes/temporary_directory.h"
#include "tests/unit/base/file_size_limit.h"
#include "tests/unit/base/open_files.h"

namespace tunefarm {
namespace {

using testing::HasSubstr;

bool Exists(const std::string& path) {
  struct stat info;
  return lstat(path.c_str(), &info) == 0;
}

mode_t ModeOf(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 ? info.st_mode & 07777 : 0;
}

size_t CountEntries(const std::string& path) {
  DIR* directory = opendir(path.c_str());
  size_t count = 0;
  while (readdir(directory) != nullptr) ++count;
  closedir(directory);
  return count - 2;
}

TEST(FileTest, WriteThenRead) {
  TemporaryDirectory directory;
  const std::string path = directory.File("file");
  const size_t open_before = CountOpenFiles();
  for (const std::string& bytes : {std::string("a\0b", 3), std::string(), std::string(300000, 'x')}) {
    ASSERT_TRUE(WriteFileAtomically(path, bytes, 0640).ok());
    EXPECT_EQ(*ReadFile(path, bytes.size()), bytes);
    EXPECT_EQ(*ReadFile(path, uint64_t{1} << 40), bytes);
    EXPECT_EQ(*ReadFile(path, UINT64_MAX), bytes);
    EXPECT_EQ(ModeOf(path), 0640u);
  }
  EXPECT_EQ(ReadFile(path, 299999).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(CountEntries(directory.path()), 1u);
  EXPECT_EQ(CountOpenFiles(), open_before);
}

TEST(FileTest, ReadErrors) {
  TemporaryDirectory directory;
  const absl::Status missing = ReadFile(directory.File("none"), 10).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(MessageOf(missing)), HasSubstr(directory.File("none")));
  EXPECT_EQ(MessageOf(ReadFile(directory.path(), 10).status()),
            directory.path() + " is a directory; a regular file is needed here");
  EXPECT_EQ(MessageOf(ReadFile("/dev/zero", 1000).status()), "/dev/zero is a device; a regular file is needed here");
  // Nothing waits for a writer.
  ASSERT_EQ(mkfifo(directory.File("pipe").c_str(), 0600), 0);
  EXPECT_EQ(MessageOf(ReadFile(directory.File("pipe"), 10).status()),
            directory.File("pipe") + " is a pipe; a regular file is needed here");
  EXPECT_EQ(ReadFile(directory.File("pipe"), 10).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_GT(ReadFile("/proc/self/status", 100000)->size(), 0u);
}

TEST(FileTest, FailedWriteLeavesNothing) {
  TemporaryDirectory directory;
  ASSERT_TRUE(MakeDirectories(directory.File("taken/full")).ok());
  EXPECT_EQ(MessageOf(WriteFileAtomically(directory.File("taken"), "x")),  // A directory cannot be replaced.
            "cannot replace " + directory.File("taken") + ": Is a directory");
  EXPECT_EQ(CountEntries(directory.path()), 1u);
  const absl::Status no_folder = WriteFileAtomically(directory.File("none/file"), "x");
  EXPECT_EQ(no_folder.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(MessageOf(no_folder), "cannot create " + directory.File("none/file") + ": No such file or directory");
}

TEST(FileTest, FullDiskKeepsTheOldFile) {
  TemporaryDirectory directory;
  const std::string path = directory.File("file");
  ASSERT_TRUE(WriteFileAtomically(path, "old").ok());
  const size_t open_before = CountOpenFiles();
  {
    FileSizeLimit limit(10);  // The first write is cut to 10 bytes, the next one fails.
    EXPECT_EQ(WriteFileAtomically(path, std::string(100, 'x')).code(), absl::StatusCode::kResourceExhausted);
  }
  EXPECT_EQ(*ReadFile(path, 100), "old");
  EXPECT_EQ(CountEntries(directory.path()), 1u);
  EXPECT_EQ(CountOpenFiles(), open_before);
}

TEST(FileTest, AtomicWriteReplacesALinkNotItsTarget) {
  TemporaryDirectory directory;
  ASSERT_TRUE(WriteFileAtomically(directory.File("target"), "old").ok());
  ASSERT_EQ(symlink("target", directory.File("link").c_str()), 0);
  ASSERT_TRUE(WriteFileAtomically(directory.File("link"), "new").ok());
  EXPECT_EQ(*ReadFile(directory.File("target"), 10), "old");
  EXPECT_EQ(*ReadFile(directory.File("link"), 10), "new");
}

TEST(FileTest, OutputGoesThroughLinks) {
  TemporaryDirectory directory;
  ASSERT_TRUE(MakeDirectories(directory.File("folder")).ok());
  ASSERT_TRUE(WriteFileAtomically(directory.File("folder/target"), "old", 0604).ok());
  ASSERT_EQ(symlink("folder/target", directory.File("link").c_str()), 0);
  ASSERT_EQ(symlink(directory.File("link").c_str(), directory.File("chain").c_str()), 0);
  ASSERT_TRUE(WriteOutputFile(directory.File("chain"), "new").ok());
  EXPECT_EQ(*ReadFile(directory.File("folder/target"), 10), "new");
  EXPECT_EQ(ModeOf(directory.File("folder/target")), 0604u);
  struct stat info;
  ASSERT_EQ(lstat(directory.File("link").c_str(), &info), 0);
  EXPECT_TRUE(S_ISLNK(info.st_mode));
  // One that leads nowhere yet, and one that leads in a circle.
  ASSERT_EQ(symlink("folder/fresh", directory.File("dangling").c_str()), 0);
  ASSERT_TRUE(WriteOutputFile(directory.File("dangling"), "fresh").ok());
  EXPECT_EQ(*ReadFile(directory.File("folder/fresh"), 10), "fresh");
  EXPECT_EQ(ModeOf(directory.File("folder/fresh")), 0644u);
  ASSERT_EQ(symlink("circle", directory.File("circle").c_str()), 0);
  EXPECT_THAT(std::string(MessageOf(WriteOutputFile(directory.File("circle"), "x"))), HasSubstr("40 symbolic links"));
  EXPECT_EQ(CountEntries(directory.File("folder")), 2u);
}

TEST(FileTest, OutputGoesIntoDevicesAndPipes) {
  TemporaryDirectory directory;
  const std::string pipe = directory.File("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  // A pipe with a reader is written at once.
  const UniqueFd reader(open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  ASSERT_TRUE(reader.valid());
  ASSERT_TRUE(WriteOutputFile(pipe, "text").ok());
  char read_back[8] = {};
  EXPECT_EQ(read(reader.get(), read_back, sizeof(read_back)), 4);
  EXPECT_STREQ(read_back, "text");
  // An own link to the device: /dev itself is left alone.
  ASSERT_EQ(symlink("/dev/full", directory.File("full").c_str()), 0);
  ASSERT_EQ(symlink("/dev/null", directory.File("null").c_str()), 0);
  EXPECT_TRUE(WriteOutputFile(directory.File("null"), "x").ok());
  EXPECT_EQ(WriteOutputFile(directory.File("full"), "x").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(CountEntries(directory.path()), 3u);
  // An open file behind a link below /proc is appended to, and keeps its place.
  const UniqueFd open_file(open(directory.File("open").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_TRUE(WriteOutputFile("/proc/self/fd/" + std::to_string(open_file.get()), "one ").ok());
  ASSERT_TRUE(WriteOutputFile("/proc/self/fd/" + std::to_string(open_file.get()), "two").ok());
  EXPECT_EQ(read(open_file.get(), read_back, sizeof(read_back)), 7);
}

TEST(FileTest, OutputErrors) {
  TemporaryDirectory directory;
  EXPECT_EQ(MessageOf(WriteOutputFile(directory.path(), "x")), directory.path() + " is a directory");
  EXPECT_EQ(WriteOutputFile(directory.File("none/file"), "x").code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(WriteFileAtomically(directory.File("fixed"), "old", 0400).ok());
  if (geteuid() != 0) {
    EXPECT_EQ(WriteOutputFile(directory.File("fixed"), "x").code(), absl::StatusCode::kPermissionDenied);
    EXPECT_EQ(*ReadFile(directory.File("fixed"), 10), "old");
  }
}

TEST(FileTest, AFileBelowAFolderIsReadWhereverTheFolderLies) {
  TemporaryDirectory directory;
  ASSERT_TRUE(MakeDirectories(directory.File("folder/sub")).ok());
  ASSERT_TRUE(WriteFileAtomically(directory.File("folder/own"), "own").ok());
  ASSERT_TRUE(WriteFileAtomically(directory.File("folder/sub/deep"), "deep").ok());
  ASSERT_EQ(symlink("sub/deep", directory.File("folder/inner").c_str()), 0);
  ASSERT_EQ(symlink(directory.File("folder/own").c_str(), directory.File("folder/absolute").c_str()), 0);
  ASSERT_EQ(symlink("folder", directory.File("link").c_str()), 0);
  for (const char* folder : {"folder", "link", "folder/sub/..", "folder/"}) {
    EXPECT_EQ(ReadFileBelow(directory.File(folder), "own", 10).value(), "own") << folder;
    EXPECT_EQ(ReadFileBelow(directory.File(folder), "sub/deep", 10).value(), "deep") << folder;
    EXPECT_EQ(ReadFileBelow(directory.File(folder), "inner", 10).value(), "deep") << folder;
    EXPECT_EQ(ReadFileBelow(directory.File(folder), "absolute", 10).value(), "own") << folder;
  }
  EXPECT_TRUE(absl::IsNotFound(ReadFileBelow(directory.File("folder"), "none", 10).status()));
  EXPECT_TRUE(absl::IsNotFound(ReadFileBelow(directory.File("none"), "own", 10).status()));
  EXPECT_EQ(ReadFileBelow(directory.File("folder"), "own", 2).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(FileTest, WhatLeadsOutOfAFolderOrIsNoRegularFileIsRefused) {
  TemporaryDirectory directory;
  ASSERT_TRUE(MakeDirectories(directory.File("folder/sub")).ok());
  ASSERT_TRUE(MakeDirectories(directory.File("folder_of_another")).ok());
  ASSERT_TRUE(WriteFileAtomically(directory.File("secret"), "secret").ok());
  ASSERT_TRUE(WriteFileAtomically(directory.File("folder_of_another/secret"), "secret").ok());
  ASSERT_EQ(symlink("../secret", directory.File("folder/link").c_str()), 0);
  ASSERT_EQ(symlink(directory.File("secret").c_str(), directory.File("folder/absolute").c_str()), 0);
  ASSERT_EQ(symlink("link", directory.File("folder/second").c_str()), 0);
  ASSERT_EQ(symlink("../folder_of_another", directory.File("folder/beside").c_str()), 0);
  ASSERT_EQ(mkfifo(directory.File("folder/fifo").c_str(), 0600), 0);
  ASSERT_EQ(symlink("/dev/zero", directory.File("folder/device").c_str()), 0);
  const size_t open_before = CountOpenFiles();
  for (const char* path : {"link", "absolute", "second", "beside/secret", "../secret", "sub/../../secret", "device"}) {
    const absl::Status refused = ReadFileBelow(directory.File("folder"), path, 100).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << path << ": " << refused;
    EXPECT_THAT(std::string(refused.message()), testing::HasSubstr(path));
    EXPECT_THAT(std::string(refused.message()), testing::HasSubstr("outside of its folder"));
  }
  for (const std::string& path : {directory.File("secret"), std::string(), std::string("sub"), std::string("fifo")}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ReadFileBelow(directory.File("folder"), path, 100).status())) << path;
  }
  EXPECT_EQ(CountOpenFiles(), open_before);
}

TEST(FileTest, MakeDirectories) {
  TemporaryDirectory directory;
  const std::string deep = directory.File("a//b/c/");
  ASSERT_TRUE(MakeDirectories(deep, 0700).ok());
  EXPECT_EQ(ModeOf(directory.File("a")), 0700u);
  EXPECT_EQ(ModeOf(directory.File("a/b/c")), 0700u);
  EXPECT_TRUE(MakeDirectories(deep, 0755).ok());
  EXPECT_EQ(ModeOf(directory.File("a/b/c")), 0700u);
  EXPECT_TRUE(MakeDirectories("/").ok());
  ASSERT_TRUE(WriteFileAtomically(directory.File("file"), "").ok());
  const absl::Status is_file = MakeDirectories(directory.File("file"));
  EXPECT_EQ(is_file.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(MessageOf(is_file), directory.File("file") + " exists, and is no directory");
  EXPECT_FALSE(MakeDirectories(directory.File("file/below")).ok());
  EXPECT_FALSE(MakeDirectories("").ok());
}

TEST(FileTest, MakePrivateTakesTheRightsOfOthers) {
  TemporaryDirectory directory;
  const std::string file = directory.File("file");
  ASSERT_TRUE(WriteFileAtomically(file, "x").ok());
  for (const auto& [before, after] : {std::pair{0644, 0600}, std::pair{0666, 0600}, std::pair{0640, 0600},
                                      std::pair{0751, 0700}, std::pair{0400, 0400}}) {
    ASSERT_EQ(chmod(file.c_str(), static_cast<mode_t>(before)), 0);
    EXPECT_TRUE(MakePrivate(file).ok());
    EXPECT_EQ(ModeOf(file), static_cast<mode_t>(after));
  }
  const std::string folder = directory.File("folder");
  ASSERT_TRUE(MakeDirectories(folder).ok());
  for (const auto& [before, after] : {std::pair{0755, 0700}, std::pair{0777, 0700}, std::pair{0711, 0711}}) {
    ASSERT_EQ(chmod(folder.c_str(), static_cast<mode_t>(before)), 0);
    EXPECT_TRUE(MakePrivate(folder).ok());
    EXPECT_EQ(ModeOf(folder), static_cast<mode_t>(after));
  }
  EXPECT_TRUE(MakePrivate(directory.File("none")).ok());
  const mode_t device = ModeOf("/dev/null");
  EXPECT_TRUE(MakePrivate("/dev/null").ok());
  EXPECT_EQ(ModeOf("/dev/null"), device);
}

TEST(FileTest, MakeOwnDirectoryTakesNoneThatOthersMayWriteTo) {
  TemporaryDirectory directory;
  const std::string folder = directory.File("a/b");
  ASSERT_TRUE(MakeOwnDirectory(folder).ok());
  EXPECT_EQ(ModeOf(folder), 0700u);
  ASSERT_EQ(chmod(folder.c_str(), 0755), 0);
  EXPECT_TRUE(MakeOwnDirectory(folder).ok());
  EXPECT_EQ(ModeOf(folder), 0700u);
  for (const mode_t mode : {mode_t{0720}, mode_t{0702}}) {
    ASSERT_EQ(chmod(folder.c_str(), mode), 0);
    EXPECT_EQ(MakeOwnDirectory(folder).code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(ModeOf(folder), mode);
  }
  ASSERT_TRUE(WriteFileAtomically(directory.File("file"), "x").ok());
  EXPECT_FALSE(MakeOwnDirectory(directory.File("file")).ok());
}

TEST(FileTest, ASecretThatOthersMayReadIsRefused) {
  TemporaryDirectory directory;
  const std::string file = directory.File("key");
  ASSERT_TRUE(WriteFileAtomically(file, "x", 0600).ok());
  for (const int mode : {0600, 0400, 0700}) {
    ASSERT_EQ(chmod(file.c_str(), static_cast<mode_t>(mode)), 0);
    EXPECT_TRUE(CheckSecretFile("the private key", file).ok()) << mode;
  }
  for (const int mode : {0644, 0604, 0602, 0620, 0610, 0666}) {
    ASSERT_EQ(chmod(file.c_str(), static_cast<mode_t>(mode)), 0);
    const absl::Status refused = CheckSecretFile("the private key", file);
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << mode;
    EXPECT_THAT(std::string(MessageOf(refused)), HasSubstr("the private key " + file + " (mode 0"));
    EXPECT_THAT(std::string(MessageOf(refused)), HasSubstr("run: chmod 600 " + file));
  }
  // Root's may be shared with a group, by reading only.
  ASSERT_EQ(chmod(file.c_str(), 0640), 0);
  EXPECT_EQ(CheckSecretFile("the private key", file).ok(), geteuid() == 0);
  EXPECT_TRUE(CheckSecretFile("the private key", directory.File("none")).ok());
  EXPECT_TRUE(CheckSecretFile("the private key", "/dev/null").ok());
}

TEST(RemoveTreeTest, RemovesEverythingAndFollowsNoLink) {
  TemporaryDirectory directory;
  const size_t open_before = CountOpenFiles();
  ASSERT_TRUE(MakeDirectories(directory.File("outside")).ok());
  ASSERT_TRUE(WriteFileAtomically(directory.File("outside/kept"), "x").ok());
  ASSERT_TRUE(MakeDirectories(directory.File("tree/a/b")).ok());
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(UniqueFd(open(directory.File(fmt::format("tree/a/{}", i)).c_str(), O_CREAT | O_WRONLY, 0600)).valid());
  }
  ASSERT_EQ(symlink("../../outside", directory.File("tree/a/link").c_str()), 0);
  ASSERT_EQ(symlink("nowhere", directory.File("tree/dangling").c_str()), 0);
  EXPECT_TRUE(RemoveTree(directory.File("tree/")).ok());
  EXPECT_FALSE(Exists(directory.File("tree")));
  EXPECT_TRUE(Exists(directory.File("outside/kept")));

  ASSERT_EQ(symlink("outside", directory.File("link").c_str()), 0);
  EXPECT_TRUE(RemoveTree(directory.File("link/")).ok());
  EXPECT_FALSE(Exists(directory.File("link")));
  EXPECT_TRUE(Exists(directory.File("outside/kept")));
  EXPECT_TRUE(RemoveTree(directory.File("outside/kept")).ok());
  EXPECT_FALSE(Exists(directory.File("outside/kept")));
  EXPECT_TRUE(RemoveTree(directory.File("none")).ok());
  EXPECT_EQ(CountOpenFiles(), open_before);
}

TEST(RemoveTreeTest, RefusesDangerousPaths) {
  for (const char* path : {"", "/", "//", ".", "..", "a/..", "/tmp/."}) {
    EXPECT_EQ(RemoveTree(path).code(), absl::StatusCode::kInvalidArgument) << path;
  }
}

// Made by relative steps: the path is longer than any call takes.
void MakeDeepTree(const std::string& path, int depth) {
  ASSERT_TRUE(MakeDirectories(path).ok());
  UniqueFd at(open(path.c_str(), O_RDONLY | O_DIRECTORY));
  for (int i = 0; i < depth; ++i) {
    ASSERT_EQ(mkdirat(at.get(), "d", 0700), 0) << i;
    ASSERT_TRUE(UniqueFd(openat(at.get(), "file", O_CREAT | O_WRONLY, 0600)).valid());
    at = UniqueFd(openat(at.get(), "d", O_RDONLY | O_DIRECTORY));
    ASSERT_TRUE(at.valid()) << i;
  }
}

TEST(RemoveTreeTest, RemovesAnyDepth) {
  TemporaryDirectory directory;
  const size_t open_before = CountOpenFiles();
  MakeDeepTree(directory.File("deep/a"), 3000);
  MakeDeepTree(directory.File("deep/b"), 250);
  // The name that moved directories get is taken.
  ASSERT_TRUE(WriteFileAtomically(directory.File("deep/.removed-1"), "x").ok());
  EXPECT_TRUE(RemoveTree(directory.File("deep")).ok());
  EXPECT_FALSE(Exists(directory.File("deep")));
  EXPECT_EQ(CountOpenFiles(), open_before);
}

TEST(RemoveTreeTest, RemovesWhatModesForbid) {
  TemporaryDirectory directory;
  ASSERT_TRUE(MakeDirectories(directory.File("tree/a/b/c")).ok());
  ASSERT_TRUE(WriteFileAtomically(directory.File("tree/a/b/c/file"), "x", 0).ok());
  for (const char* name : {"tree/a/b/c", "tree/a/b", "tree/a", "tree"}) {
    ASSERT_EQ(chmod(directory.File(name).c_str(), 0), 0) << name;
  }
  EXPECT_TRUE(RemoveTree(directory.File("tree")).ok());
  EXPECT_FALSE(Exists(directory.File("tree")));
}

TEST(EmptyDirectoryTest, LeavesAnEmptyDirectoryThatItsOwnerMayUse) {
  TemporaryDirectory directory;
  MakeDeepTree(directory.File("scratch/deep"), 400);
  ASSERT_TRUE(WriteFileAtomically(directory.File("scratch/file"), "x").ok());
  ASSERT_EQ(chmod(directory.File("scratch/deep").c_str(), 0500), 0);
  ASSERT_EQ(chmod(directory.File("scratch").c_str(), 0), 0);
  EXPECT_TRUE(EmptyDirectory(directory.File("scratch")).ok());
  EXPECT_EQ(ModeOf(directory.File("scratch")), 0700u);
  EXPECT_TRUE(WriteFileAtomically(directory.File("scratch/new"), "x").ok());
  EXPECT_TRUE(EmptyDirectory(directory.File("scratch")).ok());
  EXPECT_TRUE(EmptyDirectory(directory.File("scratch")).ok());
  EXPECT_TRUE(absl::IsNotFound(EmptyDirectory(directory.File("none"))));
  ASSERT_EQ(symlink("scratch", directory.File("link").c_str()), 0);
  EXPECT_FALSE(EmptyDirectory(directory.File("link")).ok());
}

TEST(FileSystemTest, FreeBytesAndKind) {
  TemporaryDirectory directory;
  EXPECT_GT(*FreeBytes(directory.path()), 0u);
  EXPECT_EQ(FreeBytes(directory.File("none")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(*IsNetworkFileSystem("/proc"));
  EXPECT_EQ(IsNetworkFileSystem(directory.File("none")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(internal::IsNetworkFileSystemType(0x6969));
  EXPECT_TRUE(internal::IsNetworkFileSystemType(0x65735546));
  EXPECT_FALSE(internal::IsNetworkFileSystemType(0xef53));
}

TEST(FileLockTest, OneHolderAtATime) {
  TemporaryDirectory directory;
  const std::string path = directory.File("lock");
  ASSERT_TRUE(WriteFileAtomically(path, std::string(100, '9')).ok());  // Left over from an older holder.
  absl::StatusOr<FileLock> first = FileLock::TryLock(path);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(first->held());
  EXPECT_EQ(*ReadFile(path, 100), fmt::format("{}\n", getpid()));

  const absl::Status refused = FileLock::TryLock(path).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(refused), "LOCK_HELD");
  EXPECT_EQ(MessageOf(refused), fmt::format("{} is locked by process {}; stop it first", path, getpid()));

  FileLock moved = *std::move(first);
  EXPECT_FALSE(FileLock::TryLock(path).ok());
  moved.Unlock();
  EXPECT_FALSE(moved.held());
  EXPECT_TRUE(FileLock::TryLock(path).ok());
}

TEST(FileLockTest, IsTheUsersOwnUnlessOthersAreToLockIt) {
  TemporaryDirectory directory;
  const mode_t before = umask(022);
  EXPECT_TRUE(FileLock::TryLock(directory.File("own")).ok());
  EXPECT_TRUE(FileLock::TryLock(directory.File("shared"), 0644).ok());
  umask(before);
  struct stat info = {};
  ASSERT_EQ(stat(directory.File("own").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  ASSERT_EQ(stat(directory.File("shared").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0644u);
}

TEST(FileLockTest, EndsWithItsProcess) {
  TemporaryDirectory directory;
  const std::string path = directory.File("lock");
  int ready[2];
  ASSERT_EQ(pipe2(ready, O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    const absl::StatusOr<FileLock> lock = FileLock::TryLock(path);
    if (!lock.ok() || write(ready[1], "x", 1) != 1) _exit(1);
    while (true) pause();
  }
  close(ready[1]);
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  close(ready[0]);
  EXPECT_THAT(std::string(MessageOf(FileLock::TryLock(path).status())), HasSubstr(fmt::format("process {};", child)));
  ASSERT_EQ(kill(child, SIGKILL), 0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(FileLock::TryLock(path).ok());
}

TEST(FileLockTest, RefusesLinksAndMissingDirectories) {
  TemporaryDirectory directory;
  ASSERT_EQ(symlink("target", directory.File("link").c_str()), 0);
  EXPECT_EQ(FileLock::TryLock(directory.File("link")).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FileLock::TryLock(directory.File("none/lock")).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace tunefarm
