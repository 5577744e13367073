#include "server/base/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <vector>

#include "tests/fakes/fake_entropy.h"

extern "C" void PhiloxInC(const unsigned int counter[4], const unsigned int key[2], unsigned int output[4]);

namespace tunefarm {
namespace {

struct KnownAnswer {
  std::array<uint32_t, 4> counter;
  std::array<uint32_t, 2> key;
  std::array<uint32_t, 4> output;
};

// Published with Random123 (kat_vectors, "philox4x32 10").
constexpr KnownAnswer kKnownAnswers[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

TEST(PhiloxTest, KnownAnswers) {
  for (const KnownAnswer& known : kKnownAnswers) EXPECT_EQ(Philox4x32(known.counter, known.key), known.output);
}

TEST(PhiloxTest, KnownAnswersInCAndInPlace) {
  for (const KnownAnswer& known : kKnownAnswers) {
    std::array<uint32_t, 4> block = known.counter;
    PhiloxInC(block.data(), known.key.data(), block.data());
    EXPECT_EQ(block, known.output);
  }
}

TEST(PhiloxStreamTest, IsTheDocumentedSequence) {
  PhiloxStream stream(0x299f31d0a4093822, 0x0370734413198a2e);
  for (uint32_t block = 0; block < 3; ++block) {
    const auto words = Philox4x32({block, 0, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0});
    for (const uint32_t word : words) EXPECT_EQ(stream.NextU32(), word);
  }
}

TEST(PhiloxStreamTest, NextU64TakesTheLowWordFirst) {
  PhiloxStream words(7, 9);
  PhiloxStream pairs = words;
  for (int i = 0; i < 10; ++i) {
    const uint64_t low = words.NextU32();
    const uint64_t high = words.NextU32();
    EXPECT_EQ(pairs.NextU64(), high << 32 | low);
  }
}

TEST(PhiloxStreamTest, StreamsAndSeedsDiffer) {
  std::set<uint64_t> first_values;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    for (uint64_t stream = 0; stream < 10; ++stream) first_values.insert(PhiloxStream(seed, stream).NextU64());
  }
  EXPECT_EQ(first_values.size(), 100u);
}

TEST(PhiloxStreamTest, DoublesAreInRangeAndSpread) {
  PhiloxStream stream(1);
  double sum = 0;
  for (int i = 0; i < 10000; ++i) {
    const double value = stream.NextDouble();
    ASSERT_GE(value, 0.0);
    ASSERT_LT(value, 1.0);
    sum += value;
  }
  EXPECT_NEAR(sum / 10000, 0.5, 0.02);
}

TEST(PhiloxStreamTest, UniformIntIsInRangeAndEven) {
  PhiloxStream stream(2);
  std::array<int, 7> counts = {};
  for (int i = 0; i < 70000; ++i) {
    const uint64_t value = stream.UniformInt(7);
    ASSERT_LT(value, 7u);
    ++counts[value];
  }
  for (const int count : counts) EXPECT_NEAR(count, 10000, 500);
  EXPECT_EQ(stream.UniformInt(1), 0u);
}

TEST(PhiloxStreamTest, UniformIntDrawsAgainInTheBiasedRange) {
  // With this n nearly half of all draws must be refused: the accepted value is one of the stream's next values.
  const uint64_t n = (uint64_t{1} << 63) + 1;
  const uint64_t biased = (0 - n) % n;
  PhiloxStream stream(3);
  PhiloxStream raw = stream;
  int refused = 0;
  for (int i = 0; i < 100; ++i) {
    uint64_t expected = raw.NextU64();
    for (; expected < biased; ++refused) expected = raw.NextU64();
    EXPECT_EQ(stream.UniformInt(n), expected % n);
  }
  EXPECT_GT(refused, 10);
}

TEST(PhiloxStreamDeathTest, UniformIntOfNothing) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(PhiloxStream(1).UniformInt(0), "check failed: n > 0");
}

TEST(UuidTest, HasTheFormOfVersion4) {
  FakeEntropy entropy(1);
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) {
    const std::string uuid = NewUuid(&entropy);
    ASSERT_EQ(uuid.size(), 36u);
    for (size_t j = 0; j < uuid.size(); ++j) {
      const bool dash = j == 8 || j == 13 || j == 18 || j == 23;
      EXPECT_NE(std::strchr(dash ? "-" : "0123456789abcdef", uuid[j]), nullptr) << uuid;
    }
    EXPECT_EQ(uuid[14], '4') << uuid;
    EXPECT_NE(std::strchr("89ab", uuid[19]), nullptr) << uuid;
    seen.insert(uuid);
  }
  EXPECT_EQ(seen.size(), 100u);
}

TEST(EntropyTest, RealBytesDifferAndFillTheWholeBuffer) {
  std::vector<uint8_t> first(1000), second(1000);
  EntropySource::Real()->Fill(first.data(), first.size());
  EntropySource::Real()->Fill(second.data(), second.size());
  EXPECT_NE(first, second);
  EXPECT_FALSE(std::all_of(first.end() - 64, first.end(), [](uint8_t byte) { return byte == 0; }));
  EntropySource::Real()->Fill(nullptr, 0);
}

TEST(EntropyTest, FakeRepeats) {
  FakeEntropy first(5), second(5), other(6);
  const std::string uuid = NewUuid(&first);
  EXPECT_EQ(uuid, NewUuid(&second));
  EXPECT_NE(uuid, NewUuid(&other));
}

}  // namespace
}  // namespace tunefarm
