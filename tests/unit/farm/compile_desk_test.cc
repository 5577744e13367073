#include "server/farm/compile_desk.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/fakes/fake_clock.h"

namespace tunefarm {
namespace {

CompileDesk::Unit UnitOf(int64_t unit_id, int configs, int priority = 0) {
  CompileDesk::Unit unit;
  unit.unit_id = unit_id;
  unit.priority = priority;
  for (int i = 0; i < configs; ++i) unit.task.add_configs(std::to_string(unit_id * 1000 + i));
  return unit;
}

std::vector<int64_t> Taken(CompileDesk* desk, int configs) {
  std::vector<int64_t> taken;
  for (const CompileDesk::Unit& unit : desk->Take(configs)) {
    for (const auto& config : unit.task.configs()) taken.push_back(std::stoll(config));
  }
  return taken;
}

class CompileDeskTest : public testing::Test {
 protected:
  using Numbers = std::vector<int64_t>;
  FakeClock clock_;
  CompileDesk desk_{&clock_};
};

TEST_F(CompileDeskTest, ConfigsAreTakenOnceInTheOrderInWhichTheyAreNeeded) {
  desk_.Add(UnitOf(1, 3));
  desk_.Add(UnitOf(2, 2));
  desk_.Add(UnitOf(3, 1, /*priority=*/5));
  EXPECT_EQ(Taken(&desk_, 2), (Numbers{3000, 1000}));
  EXPECT_EQ(Taken(&desk_, 3), (Numbers{1001, 1002, 2000}));
  EXPECT_EQ(Taken(&desk_, 9), (Numbers{2001}));
  EXPECT_EQ(Taken(&desk_, 9), Numbers());
}

TEST_F(CompileDeskTest, WhatADeviceHasIsNotHandedOut) {
  desk_.Add(UnitOf(1, 3));
  desk_.Add(UnitOf(2, 1));
  EXPECT_EQ(Taken(&desk_, 1), (Numbers{1000}));
  desk_.Remove(1);
  desk_.Remove(7);
  EXPECT_EQ(Taken(&desk_, 9), (Numbers{2000}));
}

TEST_F(CompileDeskTest, ItIsUsedWhileSomebodyAsks) {
  EXPECT_FALSE(desk_.is_used());
  desk_.Take(1);
  EXPECT_TRUE(desk_.is_used());
  clock_.Advance(CompileDesk::kUseLasts - std::chrono::milliseconds(1));
  EXPECT_TRUE(desk_.is_used());
  clock_.Advance(std::chrono::milliseconds(1));
  EXPECT_FALSE(desk_.is_used());
}

TEST_F(CompileDeskTest, ConfigsThatWaitAreBounded) {
  for (size_t i = 0; i <= CompileDesk::kConfigsMax / 64; ++i) desk_.Add(UnitOf(static_cast<int64_t>(i) + 1, 64));
  size_t taken = 0;
  while (const size_t some = Taken(&desk_, 4096).size()) taken += some;
  EXPECT_EQ(taken, CompileDesk::kConfigsMax);
  desk_.Add(UnitOf(1'000'000, 1));
  EXPECT_EQ(Taken(&desk_, 2).size(), 1u);
}

TEST_F(CompileDeskTest, BinariesAreKeptUntilTheyAreTooMany) {
  const Digest first = Sha256("first"), second = Sha256("second");
  EXPECT_EQ(desk_.Find(first), "");
  ASSERT_TRUE(desk_.Offer(first, "of first").ok());
  ASSERT_TRUE(desk_.Offer(first, "again").ok());
  ASSERT_TRUE(desk_.Offer(second, "of second").ok());
  EXPECT_EQ(desk_.Find(first), "of first");
  EXPECT_EQ(desk_.Offer(Sha256("large"), std::string(CompileDesk::kBinaryBytesMax + 1, 'x')).code(),
            absl::StatusCode::kResourceExhausted);
  const size_t all = CompileDesk::kBinariesBytesMax / CompileDesk::kBinaryBytesMax;
  for (size_t i = 0; i < all; ++i) {
    ASSERT_TRUE(desk_.Offer(Sha256(std::to_string(i)), std::string(CompileDesk::kBinaryBytesMax, 'x')).ok());
    EXPECT_EQ(desk_.Find(first), "of first") << i;
  }
  // Those that nobody has asked for the longest.
  EXPECT_EQ(desk_.Find(second), "");
  EXPECT_EQ(desk_.Find(Sha256("0")), "");
  EXPECT_NE(desk_.Find(Sha256("1")), "");
}

}  // namespace
}  // namespace tunefarm
