// Binaries that were made of headers outside of their definitions.
#include "server/exec/binary_cache.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "server/base/file.h"
#include "server/base/file_set.h"
#include "server/base/thread.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/temporary_directory.h"

namespace tunefarm {
namespace {

class BinaryCacheTest : public testing::TestWithParam<bool> {
 protected:
  BinaryCacheTest() { WriteHeader("one"); }

  void Open() {
    BinaryCacheOptions options;
    options.headers = book_.get();
    if (GetParam()) {
      options.disk.path = directory_.File("cache");
      options.disk.bytes_max = 1 << 20;
    }
    OnLoop([&] { cache_ = std::make_unique<BinaryCache>(&loop_, options, &stats_); });
    // Looked up behind the opening of the directory, before which nothing is kept there.
    (void)Find();
  }
  void Close() {
    OnLoop([&] { cache_ = nullptr; });
  }

  void WriteHeader(const std::string& content) {
    ASSERT_TRUE(WriteFileAtomically(directory_.File("header.h"), content).ok());
  }

  FileSet Headers() const { return ReadFileSet({directory_.File("header.h")}, std::numeric_limits<int64_t>::max()); }

  void Insert(const std::string& bytes) {
    CompileResult result;
    result.outcome = v1::OUTCOME_OK;
    result.artifact = std::make_shared<Artifact>(Artifact{bytes, {}});
    result.inputs = std::make_shared<const FileSet>(Headers());
    OnLoop([&] { cache_->Insert(key_, result); });
  }

  // The bytes found; empty: none.
  std::string Find() {
    std::string bytes;
    Notification done;
    OnLoop([&] {
      cache_->Find(key_, [&](const std::optional<CompileResult>& found) {
        if (found.has_value()) bytes = found->artifact->bytes;
        done.Notify();
      });
    });
    done.WaitForNotification();
    return bytes;
  }

  template <typename Task>
  void OnLoop(Task task) {
    Notification done;
    loop_.Post([&] {
      task();
      done.Notify();
    });
    done.WaitForNotification();
  }

  const Digest key_ = Sha256("key");
  TemporaryDirectory directory_;
  EvaluatorStats stats_;
  FakeClock clock_;
  std::unique_ptr<FileSetBook> book_ = std::make_unique<FileSetBook>(directory_.File("first.list"), &clock_);
  ThreadExecutor loop_{"loop", Clock::Real()};
  std::unique_ptr<BinaryCache> cache_;
};

TEST_P(BinaryCacheTest, IsFoundWhileItsHeadersAreUnchanged) {
  Open();
  Insert("first");
  EXPECT_EQ(Find(), "first");
  WriteHeader("two");
  EXPECT_EQ(Find(), "");
  Insert("second");
  EXPECT_EQ(Find(), "second");
  Close();
}

TEST_P(BinaryCacheTest, TheDiskKnowsTheHeadersToo) {
  if (!GetParam()) GTEST_SKIP() << "no disk";
  Open();
  Insert("first");
  Close();
  Open();
  EXPECT_EQ(Find(), "first");
  Close();
  WriteHeader("two");
  Open();
  EXPECT_EQ(Find(), "");
  Insert("second");
  Close();
  Open();
  EXPECT_EQ(Find(), "second");
  Close();
}

TEST_P(BinaryCacheTest, TheHeadersOfWhatIsInsertedAndFoundAreNoted) {
  const uint64_t headers = ChecksumOf(Headers());
  Open();
  Insert("first");
  Close();
  WriteHeader("two");
  EXPECT_TRUE(book_->HaveChanged(headers));
  if (!GetParam()) return;
  WriteHeader("one");
  book_ = std::make_unique<FileSetBook>(directory_.File("second.list"), &clock_);
  Open();
  EXPECT_EQ(Find(), "first");
  Close();
  WriteHeader("two");
  EXPECT_TRUE(book_->HaveChanged(headers));
}

INSTANTIATE_TEST_SUITE_P(Places, BinaryCacheTest, testing::Bool(),
                         [](const auto& place) { return place.param ? "disk" : "memory"; });

}  // namespace
}  // namespace tunefarm
