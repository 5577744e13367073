// The cache of compiled binaries on a real disk.
#include "server/exec/binary_directory.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/base/file.h"
#include "server/base/thread.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/log_capture.h"
#include "tests/fakes/permitted.h"
#include "tests/fakes/temporary_directory.h"

namespace tunefarm {
namespace {

namespace fs = std::filesystem;

CompileResult Binary(const std::string& bytes) {
  CompileResult result;
  result.outcome = tunefarm::v1::OUTCOME_OK;
  result.message = "compiled";
  result.log = "ptxas info";
  result.compile_ms = 12.5;
  result.resources.set_registers(40);
  result.artifact = std::make_shared<Artifact>(Artifact{bytes, {{"scale<4>", "_Z5scaleILi4EEvPf"}}, {"-O3", "-DX=1"}});
  return result;
}

class BinaryDirectoryTest : public testing::Test {
 protected:
  BinaryDirectoryTest() {
    options_.path = directory_.File("cache");
    options_.bytes_max = 1 << 20;
    options_.clock = &clock_;
    options_.stats = &stats_;
  }

  std::unique_ptr<BinaryDirectory> Open() {
    auto opened = std::make_unique<BinaryDirectory>(options_);
    EXPECT_TRUE(opened->Open().ok());
    return opened;
  }

  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(options_.path)) names.push_back(entry.path().filename());
    return names;
  }

  // What stands in the file of `key`, changed by `change`; the binary must then be gone and compiled again.
  void ExpectFoundDamaged(const std::function<void(const std::string& path)>& change) {
    const Digest key = Sha256("damaged");
    auto cache = Open();
    cache->Insert(key, Binary("code"));
    ASSERT_TRUE(cache->Find(key).has_value());
    const int64_t before = stats_.cache_corrupt;
    change(cache->PathOf(key));
    EXPECT_FALSE(cache->Find(key).has_value());
    EXPECT_EQ(stats_.cache_corrupt.load(), before + 1);
    EXPECT_FALSE(fs::exists(fs::symlink_status(cache->PathOf(key))));
    EXPECT_EQ(cache->bytes(), 0u);
    cache->Insert(key, Binary("code"));
    EXPECT_EQ(cache->Find(key)->artifact->bytes, "code");
    ASSERT_TRUE(RemoveTree(options_.path).ok());
  }

  FakeClock clock_;
  EvaluatorStats stats_;
  TemporaryDirectory directory_;
  BinaryDirectoryOptions options_;
};

void Overwrite(const std::string& path, const std::string& content) {
  ASSERT_TRUE(WriteFileAtomically(path, content, 0600).ok());
}

TEST_F(BinaryDirectoryTest, GivesBackEverythingAlsoAfterARestart) {
  const Digest key = Sha256("key");
  Open()->Insert(key, Binary(std::string("\0code", 5)));
  const auto again = Open();
  EXPECT_EQ(again->files(), 1u);
  EXPECT_EQ(again->bytes(), 4096u);
  const std::optional<CompileResult> found = again->Find(key);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->outcome, tunefarm::v1::OUTCOME_OK);
  EXPECT_TRUE(found->from_cache);
  EXPECT_EQ(found->artifact->bytes, std::string("\0code", 5));
  EXPECT_EQ(found->artifact->lowered_names.at("scale<4>"), "_Z5scaleILi4EEvPf");
  EXPECT_EQ(found->artifact->compile_options, (std::vector<std::string>{"-O3", "-DX=1"}));
  EXPECT_EQ(found->message, "compiled");
  EXPECT_EQ(found->log, "ptxas info");
  EXPECT_EQ(found->compile_ms, 12.5);
  EXPECT_EQ(found->resources.registers(), 40);
  EXPECT_FALSE(again->Find(Sha256("another")).has_value());
  EXPECT_EQ(stats_.cache_corrupt.load(), 0);
}

TEST_F(BinaryDirectoryTest, KeepsWhatABinaryWasMadeOfAndForgetsItWhenAsked) {
  const Digest key = Sha256("key");
  CompileResult result = Binary("code");
  result.inputs = std::make_shared<const FileSet>(FileSet{"0 /usr/include/math.h\n", 7, 8});
  Open()->Insert(key, result);
  const auto again = Open();
  const std::optional<CompileResult> found = again->Find(key);
  ASSERT_TRUE(found.has_value());
  ASSERT_NE(found->inputs, nullptr);
  EXPECT_EQ(*found->inputs, *result.inputs);
  again->Remove(key);
  EXPECT_FALSE(again->Find(key).has_value());
  EXPECT_EQ(again->files(), 0u);
  EXPECT_THAT(Names(), testing::IsEmpty());
  again->Remove(key);
  again->Insert(key, Binary("code"));
  EXPECT_EQ(again->Find(key)->inputs, nullptr);
}

TEST_F(BinaryDirectoryTest, KeepsOnlyBinaries) {
  const auto cache = Open();
  CompileResult error;
  error.outcome = tunefarm::v1::OUTCOME_COMPILE_ERROR;
  cache->Insert(Sha256("error"), error);
  cache->Insert(Sha256("larger than all"), Binary(std::string(2 << 20, 'x')));
  EXPECT_THAT(Names(), testing::IsEmpty());
}

TEST_F(BinaryDirectoryTest, FindsDamageAndRemovesIt) {
  LogCapture log;
  ExpectFoundDamaged([](const std::string& path) { ASSERT_EQ(truncate(path.c_str(), 70), 0); });
  ExpectFoundDamaged([](const std::string& path) { ASSERT_EQ(truncate(path.c_str(), 10), 0); });
  ExpectFoundDamaged([](const std::string& path) { ASSERT_EQ(truncate(path.c_str(), 0), 0); });
  // The binary of another key under this name.
  ExpectFoundDamaged(
      [](const std::string& path) { Overwrite(path, EncodeBinaryFile(Sha256("other"), Binary("code"))); });
  ExpectFoundDamaged(
      [](const std::string& path) { Overwrite(path, EncodeBinaryFile(Sha256("damaged"), Binary("code")) + "more"); });
  ExpectFoundDamaged([](const std::string& path) { ASSERT_EQ(chmod(path.c_str(), 0666), 0); });
  ExpectFoundDamaged([](const std::string& path) {
    fs::remove(path);
    fs::create_symlink("/dev/zero", path);
  });
  ExpectFoundDamaged([](const std::string& path) {
    fs::remove(path);
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  });
  if (geteuid() == 0) {
    ExpectFoundDamaged([](const std::string& path) { ASSERT_EQ(chown(path.c_str(), 65'534, 65'534), 0); });
  }
}

TEST_F(BinaryDirectoryTest, EveryFlippedBitIsFound) {
  const Digest key = Sha256("key");
  const std::string good = EncodeBinaryFile(key, Binary("code"));
  ASSERT_TRUE(DecodeBinaryFile(key, good).ok());
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_EQ(DecodeBinaryFile(key, bad).status().code(), absl::StatusCode::kDataLoss) << bit;
  }
  for (size_t length = 0; length < good.size(); ++length) {
    EXPECT_FALSE(DecodeBinaryFile(key, std::string_view(good).substr(0, length)).ok()) << length;
  }
}

TEST_F(BinaryDirectoryTest, WhatACrashLeftIsRemovedAndWhatIsNotOursStays) {
  const Digest key = Sha256("key");
  Open()->Insert(key, Binary("code"));
  Overwrite(options_.path + "/" + key.Hex() + ".bin.tmp-0b0f8e3c", "half of it");
  Overwrite(options_.path + "/README", "by a person");
  ASSERT_TRUE(MakeDirectories(options_.path + "/" + Sha256("directory").Hex() + ".bin").ok());
  const auto cache = Open();
  EXPECT_THAT(Names(), testing::UnorderedElementsAre(key.Hex() + ".bin", "README", Sha256("directory").Hex() + ".bin"));
  EXPECT_EQ(cache->files(), 1u);
}

TEST_F(BinaryDirectoryTest, WhatWasNotUsedForTheLongestTimeGoesFirstAlsoAfterARestart) {
  options_.bytes_max = 3 * 4096;
  const Digest a = Sha256("a"), b = Sha256("b"), c = Sha256("c"), d = Sha256("d"), e = Sha256("e");
  {
    const auto cache = Open();
    for (const Digest& key : {a, b, c}) {
      // Files carry the machine's time, so the fake clock goes from there.
      cache->Insert(key, Binary("code"));
      clock_.Advance(std::chrono::hours(24 * 365 * 10));
      EXPECT_TRUE(cache->Find(key).has_value());
    }
    clock_.Advance(std::chrono::hours(1));
    EXPECT_TRUE(cache->Find(a).has_value());
    cache->Insert(d, Binary("code"));
    EXPECT_FALSE(cache->Find(b).has_value());
    EXPECT_EQ(stats_.cache_evictions.load(), 1);
    clock_.Advance(std::chrono::hours(1));
    EXPECT_TRUE(cache->Find(d).has_value());
  }
  const auto cache = Open();
  cache->Insert(e, Binary("code"));
  EXPECT_FALSE(cache->Find(c).has_value());
  for (const Digest& key : {a, d, e}) EXPECT_TRUE(cache->Find(key).has_value());
  EXPECT_EQ(cache->bytes(), 3 * 4096u);
  EXPECT_EQ(stats_.cache_bytes.load(), 3 * 4096);
}

TEST_F(BinaryDirectoryTest, TheNumberOfFilesIsBoundedToo) {
  options_.files_max = 2;
  const auto cache = Open();
  for (const char* key : {"a", "b", "c", "d"}) cache->Insert(Sha256(key), Binary("code"));
  EXPECT_THAT(Names(), testing::UnorderedElementsAre(Sha256("c").Hex() + ".bin", Sha256("d").Hex() + ".bin"));
  options_.files_max = 1;
  EXPECT_EQ(Open()->files(), 1u);
}

TEST_F(BinaryDirectoryTest, ADirectoryThatOthersMayWriteToIsRefused) {
  ASSERT_TRUE(MakeDirectories(options_.path, 0700).ok());
  ASSERT_EQ(chmod(options_.path.c_str(), 0777), 0);
  BinaryDirectory cache(options_);
  EXPECT_EQ(cache.Open().code(), absl::StatusCode::kFailedPrecondition);
  cache.Insert(Sha256("key"), Binary("code"));
  EXPECT_THAT(Names(), testing::IsEmpty());
}

TEST_F(BinaryDirectoryTest, ReadersWritersAndEvictionAgree) {
  options_.bytes_max = 8 * 4096;
  const auto cache = Open();
  const auto content = [](int i) { return "code " + std::to_string(i); };
  const auto key = [](int i) { return Sha256("key " + std::to_string(i)); };
  std::atomic<int> found{0}, wrong{0};
  {
    std::vector<Thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back("cache-test", [&, t] {
        for (int i = 0; i < 200; ++i) {
          const int which = (i * 7 + t) % 16;
          if (t % 2 == 0) cache->Insert(key(which), Binary(content(which)));
          const std::optional<CompileResult> result = cache->Find(key(which));
          if (!result.has_value()) continue;
          ++found;
          wrong += result->artifact->bytes != content(which);
        }
      });
    }
  }
  EXPECT_GT(found.load(), 0);
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(stats_.cache_corrupt.load(), 0);
  EXPECT_LE(Names().size(), 8u);
  EXPECT_LE(cache->bytes(), options_.bytes_max);
}

TEST_F(BinaryDirectoryTest, AFullDiskStopsWritingForAWhileAndNothingElse) {
  ASSERT_TRUE(MakeDirectories(options_.path, 0700).ok());
  if (mount("tmpfs", options_.path.c_str(), "tmpfs", 0, "size=64k,mode=0700") != 0) {
    SKIP_NOT_PERMITTED("mounts are not permitted here");
  }
  LogCapture log;
  {
    const auto cache = Open();
    const Digest small = Sha256("small"), large = Sha256("large"), next = Sha256("next");
    cache->Insert(small, Binary("code"));
    cache->Insert(large, Binary(std::string(100'000, 'x')));
    EXPECT_FALSE(cache->writes());
    EXPECT_FALSE(cache->Find(large).has_value());
    EXPECT_TRUE(cache->Find(small).has_value());
    EXPECT_THAT(Names(), testing::ElementsAre(small.Hex() + ".bin"));
    cache->Insert(next, Binary("code"));
    EXPECT_FALSE(cache->Find(next).has_value());
    clock_.Advance(options_.rest_after_failure);
    cache->Insert(large, Binary(std::string(100'000, 'x')));
    clock_.Advance(options_.rest_after_failure);
    EXPECT_TRUE(cache->writes());
    cache->Insert(next, Binary("code"));
    EXPECT_TRUE(cache->Find(next).has_value());
  }
  EXPECT_EQ(umount(options_.path.c_str()), 0);
  // One warning for both failures.
  int warnings = 0;
  for (const LogCapture::Line& line : log.lines())
    warnings += line.message.find("are not kept in") != std::string::npos;
  EXPECT_EQ(warnings, 1);
}

TEST_F(BinaryDirectoryTest, LeavesTheSpaceFreeThatOthersNeed) {
  options_.free_bytes_min = uint64_t{1} << 60;
  LogCapture log;
  const auto cache = Open();
  cache->Insert(Sha256("key"), Binary("code"));
  EXPECT_THAT(Names(), testing::IsEmpty());
  EXPECT_FALSE(cache->writes());
}

}  // namespace
}  // namespace tunefarm
