#include "server/analysis/value_effects.h"

#include <gtest/gtest.h>

#include "tests/unit/analysis/trials.h"

namespace tunefarm {
namespace {

// 20 x 2 x 3 configs; the time is 100 a, halved where b is true; c does nothing, c = 3 always fails.
StudyColumns Example() {
  StudyColumns columns;
  int64_t ordinal = 0;
  for (int64_t a = 1; a <= 20; ++a) {
    for (const bool b : {false, true}) {
      for (int64_t c = 1; c <= 3; ++c) {
        const double time = c == 3 ? 0 : 100.0 * static_cast<double>(a) / (b ? 2 : 1);
        EXPECT_TRUE(AddTrial(&columns, ordinal, Config({{"A", a}, {"B", b}, {"C", c}, {"D", "one"}}), time).ok());
        ++ordinal;
      }
    }
  }
  columns.Settle();
  return columns;
}

TEST(ValueEffects, FastestTenthOfEachValue) {
  const StudyColumns columns = Example();
  const std::vector<ParameterEffect> effects = EffectsOf(Selection(columns));
  ASSERT_EQ(effects.size(), 4u);
  EXPECT_EQ(effects[0].best_value, 0u);  // A = 1
  EXPECT_EQ(effects[0].values[0].measured, 4);
  EXPECT_EQ(effects[0].values[0].failed, 2);
  EXPECT_EQ(effects[0].values[19].best_ns, 1000);
  EXPECT_EQ(effects[0].values[19].good_ns, 1000);
  EXPECT_EQ(effects[1].best_value, 1u);  // B = true: 40 measured, the fastest four are 50, 50, 100, 100
  EXPECT_EQ(effects[1].values[1].measured, 40);
  EXPECT_EQ(effects[1].values[1].good_ns, 75);
  EXPECT_EQ(effects[1].values[0].good_ns, 150);
  EXPECT_EQ(effects[2].values[2].measured, 0);
  EXPECT_EQ(effects[2].values[2].failed, 40);
  EXPECT_EQ(effects[2].values[2].good_ns, 0);
  EXPECT_EQ(effects[2].best_value, 0u);
}

TEST(ValueEffects, WhatTheFastestShare) {
  const StudyColumns columns = Example();
  const TopShare share = TopShareOf(Selection(columns));
  EXPECT_EQ(share.count, 5u);  // 50 50 100 100 100 100: A differs, one of the slower two has no B
  EXPECT_FALSE(share.shared[0].has_value());
  EXPECT_FALSE(share.shared[2].has_value());
  EXPECT_FALSE(share.shared[3].has_value());  // never had another value
}

TEST(ValueEffects, WhatAHundredthShares) {
  StudyColumns columns;
  for (int64_t i = 0; i < 1000; ++i) {
    const double time = i % 10 == 4 ? 10.0 : 20.0 + static_cast<double>(i);
    ASSERT_TRUE(AddTrial(&columns, i, Config({{"A", i % 10}, {"B", i % 7}}), time).ok());
  }
  columns.Settle();
  const TopShare share = TopShareOf(Selection(columns));
  EXPECT_EQ(share.count, 10u);
  EXPECT_EQ(share.shared[0], 4);
  EXPECT_FALSE(share.shared[1].has_value());
}

TEST(ValueEffects, FewConfigsSayNothing) {
  StudyColumns columns;
  for (int64_t i = 0; i < 19; ++i) ASSERT_TRUE(AddTrial(&columns, i, Config({{"A", i % 2}}), 10.0).ok());
  columns.Settle();
  EXPECT_EQ(TopShareOf(Selection(columns)).count, 0u);
}

}  // namespace
}  // namespace tunefarm
