#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <string>

#include "server/base/file.h"
#include "server/base/file_set.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/temporary_directory.h"

namespace tunefarm {
namespace {

class FileSetBookTest : public testing::Test {
 protected:
  FileSetBookTest() {
    Write("a.h", "one");
    Open();
  }

  void Open() { book_ = std::make_unique<FileSetBook>(directory_.File("headers.list"), &clock_); }
  void Write(const std::string& name, const std::string& content) {
    ASSERT_TRUE(WriteFileAtomically(directory_.File(name), content).ok());
  }
  // Files that were changed at any time count.
  FileSet Read(const std::string& name) const {
    return ReadFileSet({directory_.File(name)}, std::numeric_limits<int64_t>::max());
  }
  // As a new look finds it.
  bool HaveChanged(const FileSet& files) {
    clock_.Advance(FileSetBook::kLookIntervalMax);
    return book_->HaveChanged(ChecksumOf(files));
  }

  TemporaryDirectory directory_;
  FakeClock clock_;
  std::unique_ptr<FileSetBook> book_;
};

TEST_F(FileSetBookTest, SaysWhatHasChangedAndWhatIsAgainAsItWas) {
  const FileSet files = Read("a.h");
  EXPECT_FALSE(HaveChanged(files)) << "nothing is known of it";
  book_->Note(files);
  EXPECT_FALSE(HaveChanged(files));
  Write("a.h", "two");
  EXPECT_TRUE(HaveChanged(files));
  const FileSet edited = Read("a.h");
  book_->Note(edited);
  EXPECT_FALSE(HaveChanged(edited));
  EXPECT_TRUE(HaveChanged(files));
  Write("a.h", "one");
  EXPECT_FALSE(HaveChanged(files));
  EXPECT_TRUE(HaveChanged(edited));
  ASSERT_TRUE(RemoveTree(directory_.File("a.h")).ok());
  EXPECT_TRUE(HaveChanged(files));
}

TEST_F(FileSetBookTest, LooksOnceInAnInterval) {
  const FileSet files = Read("a.h");
  book_->Note(files);
  EXPECT_FALSE(HaveChanged(files));
  Write("a.h", "two");
  EXPECT_FALSE(book_->HaveChanged(ChecksumOf(files)));
  clock_.Advance(FileSetBook::kLookInterval);
  EXPECT_TRUE(book_->HaveChanged(ChecksumOf(files)));
}

TEST_F(FileSetBookTest, KnowsAfterARestartWhatWasNoted) {
  const FileSet files = Read("a.h");
  Write("b.h", "other");
  const FileSet other = Read("b.h");
  book_->Note(files);
  book_->Note(other);
  book_->Note(files);
  Write("a.h", "two");
  Open();
  EXPECT_TRUE(HaveChanged(files));
  EXPECT_FALSE(HaveChanged(other));
  // Noted again with the same content at another time of change, it is still known.
  Write("a.h", "one");
  book_->Note(Read("a.h"));
  Open();
  EXPECT_FALSE(HaveChanged(files));
  Write("a.h", "two");
  EXPECT_TRUE(HaveChanged(files));
}

TEST_F(FileSetBookTest, ADamagedFileIsReplaced) {
  const FileSet files = Read("a.h");
  book_->Note(files);
  const absl::StatusOr<std::string> good = ReadFile(directory_.File("headers.list"), 1 << 20);
  ASSERT_TRUE(good.ok());
  Write("a.h", "two");
  std::string flipped = *good;
  flipped.back() ^= 1;
  for (const std::string& bad : {std::string(), good->substr(0, good->size() - 1), *good + "x", flipped}) {
    Write("headers.list", bad);
    Open();
    EXPECT_FALSE(HaveChanged(files));
  }
  book_->Note(files);
  Open();
  EXPECT_TRUE(HaveChanged(files));
}

TEST_F(FileSetBookTest, ForgetsTheLeastRecentlyUsedBeyondItsBounds) {
  const FileSet files = Read("a.h");
  Write("b.h", "other");
  const FileSet other = Read("b.h");
  book_->Note(files);
  book_->Note(other);
  Write("a.h", "two");
  Write("b.h", "another");
  // As many as there is room for beside one of the two: the one that was asked about last stays.
  EXPECT_TRUE(HaveChanged(files));
  for (size_t i = 1; i < FileSetBook::kSetsMax; ++i) book_->Note({"0 /" + std::to_string(i) + "\n", 1, 1});
  EXPECT_TRUE(HaveChanged(files));
  EXPECT_FALSE(HaveChanged(other));
  // By their bytes, too.
  const std::string packed(kFileSetPathBytesMax, 'x');
  for (uint64_t i = 1; i <= FileSetBook::kBytesMax / kFileSetPathBytesMax; ++i) book_->Note({packed, i, i});
  EXPECT_FALSE(HaveChanged(files));
}

TEST_F(FileSetBookTest, WhatNamesNoContentIsNotNoted) {
  FileSet unknown = Read("a.h");
  unknown.state = unknown.content = 0;
  book_->Note(unknown);
  book_->Note(ReadFileSet({}, 0));
  EXPECT_FALSE(HaveChanged(unknown));
  EXPECT_TRUE(absl::IsNotFound(ReadFile(directory_.File("headers.list"), 1 << 20).status()));
}

}  // namespace
}  // namespace tunefarm
