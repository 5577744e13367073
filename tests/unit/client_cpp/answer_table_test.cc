#include "client/cpp/answer_table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>

#include "server/base/mutex.h"
#include "server/base/random.h"
#include "server/base/thread.h"

namespace tunefarm::client {
namespace {

std::shared_ptr<const StoredAnswer> Stored(int64_t number) {
  auto stored = std::make_shared<StoredAnswer>();
  stored->received_ns = number;
  return stored;
}

TEST(AnswerTableTest, BehavesLikeAMap) {
  PhiloxStream random(1, 1);
  std::map<std::vector<int64_t>, int64_t> expected;
  auto table = std::make_unique<AnswerTable>(2, 0);
  for (int i = 0; i < 20'000; ++i) {
    const std::vector<int64_t> key = {static_cast<int64_t>(random.UniformInt(50)) - 25,
                                      static_cast<int64_t>(random.UniformInt(50)) << 40};
    if (random.UniformInt(3) == 0) {
      EXPECT_EQ(table->Remove(key.data()), expected.erase(key) == 1);
    } else {
      if (table->IsWorn()) table = table->Rebuilt(16);
      table->Put(key.data(), Stored(i));
      expected[key] = i;
    }
    ASSERT_EQ(table->size(), expected.size());
    const std::vector<int64_t> asked = {static_cast<int64_t>(random.UniformInt(50)) - 25,
                                        static_cast<int64_t>(random.UniformInt(50)) << 40};
    const StoredAnswer* const found = table->Find(asked.data());
    const auto wanted = expected.find(asked);
    ASSERT_EQ(found != nullptr, wanted != expected.end());
    if (found != nullptr) {
      ASSERT_EQ(found->received_ns, wanted->second);
    }
  }
}

TEST(AnswerTableTest, AQuestionWithoutVaryingDimsHasOneAnswer) {
  AnswerTable table(0, 0);
  EXPECT_EQ(table.Find(nullptr), nullptr);
  table.Put(nullptr, Stored(1));
  EXPECT_EQ(table.Find(nullptr)->received_ns, 1);
  EXPECT_TRUE(table.Remove(nullptr));
  EXPECT_EQ(table.Find(nullptr), nullptr);
}

TEST(AnswerTableTest, WhatWasReplacedLivesAsLongAsTheTable) {
  AnswerTable table(1, 0);
  const int64_t key = 3;
  table.Put(&key, Stored(1));
  const StoredAnswer* const old = table.Find(&key);
  table.Put(&key, Stored(2));
  table.Remove(&key);
  EXPECT_EQ(old->received_ns, 1);
}

// Readers see each key's answers in the order in which they were put, whole. (The sanitizers watch.)
TEST(AnswerTableTest, ReadersBesideAWriter) {
  constexpr int64_t kKeys = 64;
  AnswerTable table(1, 2 * kKeys);
  std::atomic<bool> is_over{false};
  std::atomic<int> wrong{0};
  std::vector<Thread> readers;
  for (int r = 0; r < 3; ++r) {
    readers.emplace_back("reader", [&] {
      std::vector<int64_t> last(kKeys, -1);
      while (!is_over) {
        for (int64_t key = 0; key < kKeys; ++key) {
          const StoredAnswer* const found = table.Find(&key);
          if (found == nullptr) continue;
          if (found->received_ns % kKeys != key || found->received_ns < last[static_cast<size_t>(key)]) ++wrong;
          last[static_cast<size_t>(key)] = found->received_ns;
        }
      }
    });
  }
  for (int64_t round = 0; round < 300; ++round) {
    for (int64_t key = 0; key < kKeys; ++key) {
      if ((round + key) % 7 == 0) table.Remove(&key);
      table.Put(&key, Stored(round * kKeys + key));
    }
  }
  is_over = true;
  readers.clear();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace tunefarm::client
