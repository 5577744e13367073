// The entries of other programs' caches on a real disk.
#include "server/data_files/remote_cache.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "server/base/file.h"
#include "server/base/status.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/temporary_directory.h"

namespace tunefarm {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kBlock = 4096;

class RemoteCacheTest : public testing::Test {
 protected:
  RemoteCacheTest() {
    options_.path = directory_.File("remote_cache");
    options_.clock = &clock_;
  }

  std::unique_ptr<RemoteCache> Open() {
    auto cache = RemoteCache::Open(options_);
    EXPECT_TRUE(cache.ok()) << cache.status();
    return cache.ok() ? *std::move(cache) : nullptr;
  }

  static RemoteCache::Id IdOf(const std::string& key) { return {"alice", "triton", key}; }

  // A second later than the one before.
  absl::Status Put(RemoteCache* cache, const std::string& key, const std::string& data) {
    clock_.Advance(std::chrono::seconds(1));
    return cache->Put(IdOf(key), data);
  }

  static std::string DataOf(RemoteCache* cache, const RemoteCache::Id& id) {
    const std::optional<RemoteCache::Entry> entry = cache->Find({id.owner}, id.cache, id.key);
    return entry.has_value() ? entry->data : "(none)";
  }
  static std::string DataOf(RemoteCache* cache, const std::string& key) { return DataOf(cache, IdOf(key)); }

  std::vector<std::string> Files() const {
    std::vector<std::string> files;
    for (const auto& entry : fs::directory_iterator(options_.path)) files.push_back(entry.path());
    return files;
  }

  static std::vector<std::string> KeysOf(const RemoteCache::Page& page) {
    std::vector<std::string> keys;
    for (const RemoteCache::Entry& entry : page.entries) keys.push_back(entry.key);
    return keys;
  }

  TemporaryDirectory directory_;
  FakeClock clock_;
  RemoteCacheOptions options_;
};

TEST_F(RemoteCacheTest, WhatIsPutIsFoundAlsoAfterARestart) {
  const std::string binary("\0\n\xff binary", 10);
  const int64_t written_ms = [&] {
    const auto cache = Open();
    EXPECT_EQ(DataOf(cache.get(), "a"), "(none)");
    EXPECT_TRUE(Put(cache.get(), "a", "first").ok());
    EXPECT_TRUE(Put(cache.get(), "a", binary).ok());
    EXPECT_TRUE(Put(cache.get(), "empty", "").ok());
    EXPECT_EQ(DataOf(cache.get(), "a"), binary);
    EXPECT_EQ(cache->counts().entries, 2);
    EXPECT_EQ(cache->counts().bytes, 2 * kBlock);
    EXPECT_EQ(cache->counts().hits, 1);
    EXPECT_EQ(cache->counts().misses, 1);
    return cache->Find({"alice"}, "triton", "a")->written_ms;
  }();
  EXPECT_EQ(written_ms, clock_.WallMs() - 1000);
  const auto again = Open();
  EXPECT_EQ(DataOf(again.get(), "a"), binary);
  EXPECT_EQ(DataOf(again.get(), "empty"), "");
  EXPECT_EQ(again->Find({"alice"}, "triton", "a")->written_ms, written_ms);
  for (const std::string& file : Files()) {
    struct stat info;
    ASSERT_EQ(stat(file.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777, 0600u);
  }
}

TEST_F(RemoteCacheTest, EachOwnerAndCacheHasItsOwnEntries) {
  const auto cache = Open();
  ASSERT_TRUE(cache->Put({"alice", "triton", "k"}, "1").ok());
  ASSERT_TRUE(cache->Put({"bob", "triton", "k"}, "2").ok());
  ASSERT_TRUE(cache->Put({"alice", "helion", "k"}, "3").ok());
  // Parts of an id that give the same text when they are joined.
  ASSERT_TRUE(cache->Put({"alicet", "riton", "k"}, "4").ok());
  ASSERT_TRUE(cache->Put({"alice", "trito", "nk"}, "5").ok());
  EXPECT_EQ(DataOf(cache.get(), {"alice", "triton", "k"}), "1");
  EXPECT_EQ(DataOf(cache.get(), {"bob", "triton", "k"}), "2");
  EXPECT_EQ(DataOf(cache.get(), {"alice", "helion", "k"}), "3");
  EXPECT_EQ(DataOf(cache.get(), {"alicet", "riton", "k"}), "4");
  EXPECT_EQ(DataOf(cache.get(), {"alice", "trito", "nk"}), "5");
  EXPECT_EQ(DataOf(cache.get(), {"bob", "helion", "k"}), "(none)");
  // The first owner who has one; a question counts once.
  const RemoteCache::Counts before = cache->counts();
  EXPECT_EQ(cache->Find({"carol", "bob", "alice"}, "triton", "k")->data, "2");
  EXPECT_FALSE(cache->Find({"carol", "bob"}, "helion", "k").has_value());
  EXPECT_EQ(cache->counts().hits, before.hits + 1);
  EXPECT_EQ(cache->counts().misses, before.misses + 1);
}

TEST_F(RemoteCacheTest, WhatWasUsedLongestAgoMakesRoom) {
  options_.bytes_max = 3 * kBlock;
  auto cache = Open();
  for (const char* key : {"a", "b", "c"}) ASSERT_TRUE(Put(cache.get(), key, "data").ok());
  EXPECT_EQ(DataOf(cache.get(), "a"), "data");
  ASSERT_TRUE(Put(cache.get(), "d", "data").ok());
  EXPECT_EQ(DataOf(cache.get(), "b"), "(none)");
  EXPECT_EQ(DataOf(cache.get(), "a"), "data");
  EXPECT_EQ(cache->counts().removed, 1);
  EXPECT_EQ(Files().size(), 3u);
  // One entry of two blocks.
  ASSERT_TRUE(Put(cache.get(), "e", std::string(kBlock, 'e')).ok());
  EXPECT_EQ(cache->counts().entries, 2);
  EXPECT_EQ(DataOf(cache.get(), "a"), "data");
  // The order of use survives a restart, where a minute lies between two uses.
  clock_.Advance(std::chrono::minutes(2));
  EXPECT_EQ(DataOf(cache.get(), "e").size(), static_cast<size_t>(kBlock));
  cache = Open();
  ASSERT_TRUE(Put(cache.get(), "f", "data").ok());
  EXPECT_EQ(DataOf(cache.get(), "a"), "(none)");
  EXPECT_NE(DataOf(cache.get(), "e"), "(none)");
  // Lower limits hold from the start on.
  options_.bytes_max = kBlock;
  cache = Open();
  EXPECT_EQ(DataOf(cache.get(), "f"), "data");
  EXPECT_EQ(Files().size(), 1u);
}

TEST_F(RemoteCacheTest, TheNumberOfEntriesIsBounded) {
  options_.entries_max = 2;
  const auto cache = Open();
  for (const char* key : {"a", "b", "c"}) ASSERT_TRUE(Put(cache.get(), key, "data").ok());
  EXPECT_EQ(DataOf(cache.get(), "a"), "(none)");
  EXPECT_EQ(DataOf(cache.get(), "b"), "data");
  EXPECT_EQ(cache->counts().entries, 2);
}

TEST_F(RemoteCacheTest, WhatIsTooLargeIsRefused) {
  options_.bytes_max = 2 * kBlock;
  const auto cache = Open();
  const absl::Status too_large = Put(cache.get(), "a", std::string(RemoteCache::kEntryBytesMax + 1, 'a'));
  EXPECT_EQ(too_large.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(MessageOf(too_large)), HasSubstr("8388609 bytes; one has at most 8388608"));
  const absl::Status too_long = Put(cache.get(), std::string(4096, 'k'), "data");
  EXPECT_EQ(too_long.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(MessageOf(too_long)),
              HasSubstr("owner, cache and key have 4107 bytes together; at most 4096 are allowed"));
  EXPECT_THAT(Files(), IsEmpty());
  // Nothing makes way for an entry that does not fit in any case.
  ASSERT_TRUE(Put(cache.get(), "kept", "data").ok());
  EXPECT_EQ(Put(cache.get(), "a", std::string(2 * kBlock, 'a')).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(DataOf(cache.get(), "kept"), "data");
}

TEST_F(RemoteCacheTest, TheLargestEntryIsRead) {
  const auto cache = Open();
  const std::string data(RemoteCache::kEntryBytesMax, 'a');
  ASSERT_TRUE(Put(cache.get(), std::string(512, 'k'), data).ok());
  EXPECT_TRUE(DataOf(cache.get(), std::string(512, 'k')) == data);
}

TEST_F(RemoteCacheTest, NothingIsWrittenThatLeavesTooLittleOnTheDisk) {
  // A disk of ten blocks, of which other programs use some.
  int64_t others = 0;
  options_.free_bytes_min = 4 * kBlock;
  options_.free_bytes = [&](const std::string& path) -> absl::StatusOr<uint64_t> {
    EXPECT_EQ(path, options_.path);
    return static_cast<uint64_t>((10 - others - static_cast<int64_t>(Files().size())) * kBlock);
  };
  const auto cache = Open();
  for (const char* key : {"a", "b", "c"}) ASSERT_TRUE(Put(cache.get(), key, "data").ok());
  EXPECT_EQ(cache->counts().removed, 0);
  // As many entries make way as are needed.
  others = 4;
  ASSERT_TRUE(Put(cache.get(), "d", "data").ok());
  EXPECT_EQ(cache->counts().removed, 2);
  EXPECT_EQ(DataOf(cache.get(), "b"), "(none)");
  EXPECT_EQ(DataOf(cache.get(), "c"), "data");
  EXPECT_EQ(DataOf(cache.get(), "d"), "data");
  // None does where all of them are too few.
  others = 6;
  const absl::Status refused = Put(cache.get(), "e", "data");
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(MessageOf(refused)), HasSubstr("16 KiB stay free on the disk"));
  EXPECT_EQ(cache->counts().removed, 2);
  EXPECT_EQ(DataOf(cache.get(), "c"), "data");
  EXPECT_EQ(DataOf(cache.get(), "d"), "data");
}

TEST_F(RemoteCacheTest, ADamagedEntryIsAMissAndIsRemoved) {
  const auto cache = Open();
  const std::string data(1000, 'a');
  const auto damage = [&](const auto& change) {
    ASSERT_TRUE(Put(cache.get(), "a", data).ok());
    ASSERT_EQ(Files().size(), 1u);
    change(Files()[0]);
    EXPECT_EQ(DataOf(cache.get(), "a"), "(none)");
    EXPECT_THAT(Files(), IsEmpty());
    EXPECT_EQ(cache->counts().entries, 0);
  };
  damage([](const std::string& file) { fs::resize_file(file, 500); });
  damage([](const std::string& file) { fs::resize_file(file, 0); });
  damage([](const std::string& file) { fs::remove(file); });
  damage([](const std::string& file) {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(700);
    stream.put('b');
  });
  damage([](const std::string& file) { fs::resize_file(file, 64 << 20); });
  EXPECT_EQ(cache->counts().damaged, 5);
  ASSERT_TRUE(Put(cache.get(), "a", data).ok());
  EXPECT_EQ(DataOf(cache.get(), "a"), data);
}

TEST_F(RemoteCacheTest, AnEntryStaysWhereTheProcessHasNoDescriptorLeft) {
  const auto cache = Open();
  ASSERT_TRUE(Put(cache.get(), "a", "data").ok());
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const std::string found = DataOf(cache.get(), "a");
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(found, "(none)");
  EXPECT_EQ(DataOf(cache.get(), "a"), "data");
  EXPECT_EQ(cache->counts().damaged, 0);
}

TEST_F(RemoteCacheTest, AnEntryUnderAnothersNameIsNotGivenOut) {
  const auto cache = Open();
  ASSERT_TRUE(Put(cache.get(), "a", "of a").ok());
  const std::string of_a = Files()[0];
  ASSERT_TRUE(Put(cache.get(), "b", "of b").ok());
  const auto files = Files();
  const std::string of_b = files[0] == of_a ? files[1] : files[0];
  fs::copy_file(of_a, of_b, fs::copy_options::overwrite_existing);
  EXPECT_EQ(DataOf(cache.get(), "b"), "(none)");
  EXPECT_EQ(DataOf(cache.get(), "a"), "of a");
}

TEST_F(RemoteCacheTest, AStartRemovesWhatWasNotWrittenToItsEnd) {
  ASSERT_TRUE(Put(Open().get(), "a", "data").ok());
  const std::string unfinished = options_.path + "/new-7";
  std::ofstream(unfinished) << "half";
  std::ofstream(options_.path + "/notes.txt") << "of somebody";
  const auto cache = Open();
  EXPECT_FALSE(fs::exists(unfinished));
  EXPECT_TRUE(fs::exists(options_.path + "/notes.txt"));
  EXPECT_EQ(cache->counts().entries, 1);
}

TEST_F(RemoteCacheTest, AFolderThatOthersMayWriteToIsRefused) {
  fs::create_directory(options_.path);
  fs::permissions(options_.path, fs::perms::all);
  EXPECT_EQ(RemoteCache::Open(options_).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(RemoteCacheTest, AListHasTheNewestFirst) {
  auto cache = Open();
  for (const char* key : {"a", "b", "c"}) ASSERT_TRUE(Put(cache.get(), key, key).ok());
  clock_.Advance(std::chrono::seconds(1));
  ASSERT_TRUE(cache->Put({"bob", "triton", "other owner"}, "x").ok());
  ASSERT_TRUE(cache->Put({"alice", "helion", "other cache"}, "x").ok());
  ASSERT_TRUE(cache->Put({"", "triton", "for all"}, "x").ok());
  ASSERT_TRUE(Put(cache.get(), "a", "again").ok());
  EXPECT_EQ(DataOf(cache.get(), "b"), "b");  // a use changes nothing
  for (int restarts = 0; restarts < 2; ++restarts) {
    const RemoteCache::Page page = cache->List({"alice", ""}, "triton", 10, 100, std::nullopt);
    EXPECT_THAT(KeysOf(page), ElementsAre("a", "for all", "c", "b"));
    EXPECT_EQ(page.entries[0].data, "again");
    EXPECT_FALSE(page.last.has_value());
    cache = Open();
  }
  EXPECT_THAT(KeysOf(cache->List({"carol"}, "triton", 10, 100, std::nullopt)), IsEmpty());
}

TEST_F(RemoteCacheTest, AListHasPages) {
  const auto cache = Open();
  std::vector<std::string> put;
  // Several in one millisecond.
  for (int i = 0; i < 7; ++i) {
    put.push_back(std::string(1, static_cast<char>('a' + i)));
    ASSERT_TRUE(cache->Put(IdOf(put.back()), "data").ok());
  }
  for (const auto& [entries_max, bytes_max] : {std::pair<size_t, size_t>{3, 100}, {100, 9}, {100, 1}}) {
    std::vector<std::string> listed;
    std::optional<RemoteCache::Position> after;
    do {
      const RemoteCache::Page page = cache->List({"alice"}, "triton", entries_max, bytes_max, after);
      ASSERT_LE(page.entries.size(), std::max<size_t>(1, std::min(entries_max, bytes_max / 4)));
      for (const std::string& key : KeysOf(page)) listed.push_back(key);
      after = page.last;
    } while (after.has_value());
    std::sort(listed.begin(), listed.end());
    EXPECT_EQ(listed, put);
  }
}

TEST_F(RemoteCacheTest, ManyPutFindAndListAtOnce) {
  constexpr int kThreads = 6, kRounds = 200, kKeys = 8;
  options_.bytes_max = 5 * kBlock;
  const auto cache = Open();
  const auto data_of = [](int key, int round) { return std::string(static_cast<size_t>(100 + round), 'a' + key); };
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < kRounds; ++round) {
        const int key = (t + round) % kKeys;
        EXPECT_TRUE(cache->Put(IdOf(std::to_string(key)), data_of(key, round)).ok());
        const int other = (key + 3) % kKeys;
        const auto found = cache->Find({"alice"}, "triton", std::to_string(other));
        if (found.has_value()) {
          EXPECT_EQ(found->data, data_of(other, static_cast<int>(found->data.size()) - 100));
        }
        if (round % 20 == 0) {
          EXPECT_LE(cache->List({"alice"}, "triton", 100, 1 << 20, std::nullopt).entries.size(), 5u);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const RemoteCache::Counts counts = cache->counts();
  EXPECT_EQ(counts.damaged, 0);
  EXPECT_EQ(counts.entries, static_cast<int64_t>(Files().size()));
  EXPECT_EQ(counts.bytes, counts.entries * kBlock);
}

}  // namespace
}  // namespace tunefarm
