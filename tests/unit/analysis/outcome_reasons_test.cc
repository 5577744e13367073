#include "server/analysis/outcome_reasons.h"

#include <gtest/gtest.h>

namespace tunefarm {
namespace {

TEST(OutcomeReasons, NumbersAndLaterLinesDoNotTellReasonsApart) {
  EXPECT_EQ(ReasonPattern("y[7] is 3.5, expected 2e-05"), "y[#] is #, expected #");
  EXPECT_EQ(ReasonPattern("SIGSEGV, read of address 0x7ffe12\nbacktrace"), "SIGSEGV, read of address #");
  EXPECT_EQ(ReasonPattern("float32 and sm_90a stay, 1.e and -5 too"), "float32 and sm_90a stay, #.e and -# too");
  EXPECT_EQ(ReasonPattern(""), "");
  const std::string cut = ReasonPattern("ab" + std::string(159, 'x') + "µµµ");
  EXPECT_LE(cut.size(), 163u);
  EXPECT_EQ(cut.substr(cut.size() - 3), "...");
}

TEST(OutcomeReasons, CountsMostFrequentFirstWithTheFirstExample) {
  OutcomeReasons reasons;
  reasons.Add(1, "", 5);
  reasons.Add(12, "y[7] is 3", 4);
  reasons.Add(12, "y[9] is 1", 2);
  reasons.Add(12, "z is wrong", 3);
  reasons.Add(10, "y[9] is 1", 9);
  reasons.Add(12, "y[1] is 2", 8);
  const auto rows = reasons.Rows();
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0].outcome, 12);
  EXPECT_EQ(rows[0].reason, "y[#] is #");
  EXPECT_EQ(rows[0].count, 3);
  EXPECT_EQ(rows[0].example_ordinal, 2);
  EXPECT_EQ(rows[1].example_ordinal, 3);
  EXPECT_EQ(rows[2].outcome, 1);
  EXPECT_EQ(rows[3].outcome, 10);
}

TEST(OutcomeReasons, ManyDifferentReasonsAreBounded) {
  OutcomeReasons reasons;
  for (int i = 0; i < 5000; ++i) {
    std::string word;
    for (int n = i + 1; n > 0; n /= 26) word += static_cast<char>('a' + n % 26);
    reasons.Add(12, "unlike " + word, i);
  }
  const auto rows = reasons.Rows();
  EXPECT_LE(rows.size(), OutcomeReasons::kReasonsMax + 1);
  EXPECT_EQ(rows[0].reason, "others");
  int64_t all = 0;
  for (const auto& row : rows) all += row.count;
  EXPECT_EQ(all, 5000);
}

}  // namespace
}  // namespace tunefarm
