#include "server/base/file_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "server/base/file.h"
#include "tests/fakes/temporary_directory.h"

namespace tunefarm {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Files that were changed at any time count.
constexpr int64_t kLater = std::numeric_limits<int64_t>::max();

class FileSetTest : public testing::Test {
 protected:
  FileSetTest() {
    Write("a.h", "one");
    Write("b.h", "two");
  }

  void Write(const std::string& name, const std::string& content) {
    ASSERT_TRUE(WriteFileAtomically(directory_.File(name), content).ok());
  }
  FileSet Read() const { return ReadFileSet({directory_.File("b.h"), directory_.File("a.h")}, kLater); }

  TemporaryDirectory directory_;
};

TEST_F(FileSetTest, AChangedFileChangesTheSet) {
  const FileSet files = Read();
  EXPECT_TRUE(IsUnchanged(files));
  Write("a.h", "One");
  EXPECT_FALSE(IsUnchanged(files));
  // Written again with its old content: another time of change, the same files.
  Write("a.h", "one");
  EXPECT_TRUE(IsUnchanged(files));
  EXPECT_NE(Read().state, files.state);
  EXPECT_EQ(Read().content, files.content);
  EXPECT_EQ(ChecksumOf(Read()), ChecksumOf(files));
  Write("a.h", "One");
  EXPECT_NE(ChecksumOf(Read()), ChecksumOf(files));
  EXPECT_EQ(ChecksumOf(ReadFileSet({}, kLater)), 0u);
  EXPECT_NE(ChecksumOf(FileSet()), 0u) << "which files is not known";
}

TEST_F(FileSetTest, AMissingFileIsAChange) {
  const FileSet files = Read();
  ASSERT_TRUE(RemoveTree(directory_.File("b.h")).ok());
  EXPECT_FALSE(IsUnchanged(files));
  ASSERT_EQ(mkfifo(directory_.File("b.h").c_str(), 0600), 0);
  EXPECT_FALSE(IsUnchanged(files));
}

TEST_F(FileSetTest, ContentOfTwoFilesIsNotExchanged) {
  const FileSet files = Read();
  Write("a.h", "two");
  Write("b.h", "one");
  EXPECT_FALSE(IsUnchanged(files));
}

TEST_F(FileSetTest, WhatChangedDuringTheUseIsNeverUnchanged) {
  struct stat info;
  ASSERT_EQ(stat(directory_.File("a.h").c_str(), &info), 0);
  const int64_t changed_ms = int64_t{info.st_mtim.tv_sec} * 1000 + info.st_mtim.tv_nsec / 1'000'000;
  EXPECT_FALSE(IsUnchanged(ReadFileSet({directory_.File("a.h")}, changed_ms)));
  EXPECT_TRUE(IsUnchanged(ReadFileSet({directory_.File("a.h")}, changed_ms + 1000)));
}

TEST_F(FileSetTest, WhatCannotBeReadIsNeverUnchanged) {
  EXPECT_FALSE(IsUnchanged(FileSet()));
  EXPECT_FALSE(IsUnchanged(ReadFileSet({directory_.File("none")}, kLater)));
  EXPECT_FALSE(IsUnchanged(ReadFileSet({directory_.path()}, kLater)));
  EXPECT_FALSE(IsUnchanged(ReadFileSet({"/dev/zero"}, kLater)));
  EXPECT_FALSE(IsUnchanged(ReadFileSet({""}, kLater)));
  EXPECT_FALSE(IsUnchanged(ReadFileSet(std::vector<std::string>(kFileSetFilesMax + 1, "relative"), kLater)));
  // Nothing at all does not change.
  EXPECT_TRUE(IsUnchanged(ReadFileSet({}, kLater)));
}

TEST(PackPathsTest, GivesPathsBackSorted) {
  const std::vector<std::string> paths = {"/usr/include/c++/12/vector", "/usr/include/c++/12/map", "/opt/a b.h"};
  const std::string packed = PackPaths(paths);
  EXPECT_EQ(packed, "0 /opt/a b.h\n1 usr/include/c++/12/map\n20 vector\n");
  EXPECT_THAT(*UnpackPaths(packed), ElementsAre(paths[2], paths[1], paths[0]));
  EXPECT_THAT(*UnpackPaths(PackPaths({})), IsEmpty());
}

TEST(PackPathsTest, RefusesWhatIsNoPath) {
  for (const char* path : {"", "relative", "/line\nbreak"}) EXPECT_EQ(PackPaths({path}), "") << path;
  std::vector<std::string> many;
  for (size_t i = 0; i <= kFileSetFilesMax; ++i) many.push_back("/" + std::to_string(i));
  EXPECT_EQ(PackPaths(many), "");
  for (const char* packed :
       {"0 /a", "0 a\n", "x /a\n", "1 /a\n", " /a\n", "-1 /a\n", "0 /a\n9 b\n", "/a\n", "99999999999999999999 /a\n"}) {
    EXPECT_FALSE(UnpackPaths(packed).ok()) << packed;
  }
  EXPECT_FALSE(UnpackPaths(std::string(kFileSetPathBytesMax + 1, 'x')).ok());
}

}  // namespace
}  // namespace tunefarm
