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

TEST(OutcomeReasons, EachReasonOfEachOutcomeHasItsNumber) {
  OutcomeReasons reasons;
  EXPECT_EQ(reasons.NumberOf(12, "y[7] is 3"), 0);
  EXPECT_EQ(reasons.NumberOf(12, "z is wrong"), 1);
  EXPECT_EQ(reasons.NumberOf(10, "y[9] is 1"), 2);
  EXPECT_EQ(reasons.NumberOf(12, "y[9] is 1"), 0);
  ASSERT_EQ(reasons.reasons().size(), 3u);
  EXPECT_EQ(reasons.reasons()[2].outcome, 10);
  EXPECT_EQ(reasons.reasons()[2].text, "y[#] is #");
}

TEST(OutcomeReasons, ManyDifferentReasonsAreBounded) {
  OutcomeReasons reasons;
  int others = 0;
  for (int i = 0; i < 5000; ++i) {
    std::string word;
    for (int n = i + 1; n > 0; n /= 26) word += static_cast<char>('a' + n % 26);
    if (reasons.reasons()[reasons.NumberOf(12, "unlike " + word)].text == "others") ++others;
  }
  EXPECT_EQ(reasons.reasons().size(), OutcomeReasons::kReasonsMax + 1);
  EXPECT_EQ(others, 5000 - static_cast<int>(OutcomeReasons::kReasonsMax));
  EXPECT_EQ(reasons.reasons()[reasons.NumberOf(10, "one more")].text, "others");
  EXPECT_EQ(reasons.reasons().back().outcome, 10);
}

}  // namespace
}  // namespace tunefarm
