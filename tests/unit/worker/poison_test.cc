#include "server/worker/verify/poison.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "server/worker/verify/compare.h"

namespace tunefarm {
namespace {

using v1::DataType;

TEST(PoisonTest, FloatsAreNanAndPatternsDiffer) {
  for (int number = v1::DATA_TYPE_I8; number <= v1::DataType_MAX; ++number) {
    const DataType type = static_cast<DataType>(number);
    if (!v1::DataType_IsValid(number)) continue;
    std::vector<std::byte> first(4 * SizeOf(type)), second(4 * SizeOf(type));
    Poison(type, PoisonPattern::kFirst, first);
    Poison(type, PoisonPattern::kSecond, second);
    for (size_t i = 0; i < first.size(); i += SizeOf(type)) {
      EXPECT_NE(std::memcmp(&first[i], &second[i], SizeOf(type)), 0) << number;
      if (type < v1::DATA_TYPE_F16) continue;
      EXPECT_TRUE(std::isnan(ElementToDouble(type, &first[i]))) << number;
      EXPECT_TRUE(std::isnan(ElementToDouble(type, &second[i]))) << number;
    }
  }
}

TEST(PoisonTest, IntegersAreBytes) {
  std::vector<std::byte> bytes(8);
  Poison(v1::DATA_TYPE_I16, PoisonPattern::kFirst, bytes);
  EXPECT_EQ(bytes, std::vector<std::byte>(8, std::byte{0xA5}));
}

TEST(PoisonTest, F8E4M3HasOneNanOfEachSign) {
  EXPECT_EQ(PoisonBits(v1::DATA_TYPE_F8E4M3, PoisonPattern::kFirst), 0x7Fu);
  EXPECT_EQ(PoisonBits(v1::DATA_TYPE_F8E4M3, PoisonPattern::kSecond), 0xFFu);
  std::vector<std::byte> bytes(5);
  Poison(v1::DATA_TYPE_F8E4M3, PoisonPattern::kFirst, bytes);
  EXPECT_EQ(bytes, std::vector<std::byte>(5, std::byte{0x7F}));
}

TEST(PoisonTest, IntegersAndF8E4M3MayBeWritten) {
  for (const DataType type : {v1::DATA_TYPE_I8, v1::DATA_TYPE_U64, v1::DATA_TYPE_F8E4M3})
    EXPECT_TRUE(MayEqualPoison(type));
  for (const DataType type : {v1::DATA_TYPE_F16, v1::DATA_TYPE_BF16, v1::DATA_TYPE_F32, v1::DATA_TYPE_F64}) {
    EXPECT_FALSE(MayEqualPoison(type));
  }
}

TEST(PoisonTest, BothPatternsAreDrawn) {
  PhiloxStream random(1);
  int seconds = 0;
  for (int i = 0; i < 1000; ++i) seconds += DrawPattern(&random) == PoisonPattern::kSecond ? 1 : 0;
  EXPECT_GT(seconds, 400);
  EXPECT_LT(seconds, 600);
}

TEST(GuardTest, EveryDamagedByteIsFound) {
  // No multiple of the word that is compared at once.
  std::vector<std::byte> zone(61);
  FillGuard(zone);
  EXPECT_EQ(FindGuardDamage(zone), std::nullopt);
  for (size_t i = 0; i < zone.size(); ++i) {
    zone[i] ^= std::byte{1};
    EXPECT_EQ(FindGuardDamage(zone), i);
    zone[i] ^= std::byte{1};
  }
}

TEST(GuardTest, CommonValuesAreDamage) {
  for (const int value : {0x00, 0xFF, 0xA5, 0x5A, 0x01}) {
    std::vector<std::byte> zone(16);
    FillGuard(zone);
    std::memset(zone.data() + 4, value, 4);
    EXPECT_TRUE(FindGuardDamage(zone).has_value()) << value;
  }
}

}  // namespace
}  // namespace tunefarm
