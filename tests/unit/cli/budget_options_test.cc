#include "client/cli/options/budget_options.h"

#include "client/cli/options/seed_option.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/status.h"

namespace tunefarm::cli {
namespace {

using testing::HasSubstr;

TEST(BudgetOptions, TimesAddUp) {
  for (const auto& [text, seconds] : {std::pair<const char*, double>{"90", 90},
                                      {"90s", 90},
                                      {"1.5h", 5400},
                                      {"10m", 600},
                                      {"1h30m", 5400},
                                      {"2d", 172'800},
                                      {"0.2s", 0.2},
                                      {"1m0.5s", 60.5}}) {
    const auto parsed = ParseSeconds(text);
    ASSERT_TRUE(parsed.ok()) << text << ": " << parsed.status();
    EXPECT_DOUBLE_EQ(*parsed, seconds) << text;
  }
  for (const char* text : {"", "s", "soon", "10x", "10 m", "-3s", "0", "0s", "1h30", "inf", "nan", "1e3", "10mm",
                           "10s-5s", "infs", "nans", "1000000001", "99999999999999999999d"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseSeconds(text).status())) << text;
  }
}

TEST(BudgetOptions, SharesArePercentOrNot) {
  EXPECT_DOUBLE_EQ(ParseShare("5%").value(), 0.05);
  EXPECT_DOUBLE_EQ(ParseShare("0.05").value(), 0.05);
  EXPECT_DOUBLE_EQ(ParseShare("150%").value(), 1.5);
  for (const char* text : {"", "%", "five", "-5%", "0", "5%%", "5 %", "nan", "inf", "nan%", "101", "10001%"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseShare(text).status())) << text;
  }
}

TEST(BudgetOptions, SeedsAreWholeNumbers) {
  for (const char* text : {"0", "1", "18446744073709551615"}) EXPECT_EQ(CheckSeed(text), "");
  for (const char* text : {"-1", "18446744073709551616", "1e3", "nan", "inf", "0x10", "", " 1", "1.0", "+1"}) {
    EXPECT_THAT(CheckSeed(text), HasSubstr("is not a whole number from 0 to 18446744073709551615")) << text;
  }
}

TEST(BudgetOptions, BecomeABudget) {
  BudgetOptions options;
  EXPECT_EQ(MakeBudget(options)->ByteSizeLong(), 0u);
  options.max_trials = 10;
  options.patience = 5;
  options.max_time = "1.2s";
  options.max_device_time = "1m";
  options.within_floor = "10%";
  const auto budget = MakeBudget(options);
  ASSERT_TRUE(budget.ok()) << budget.status();
  EXPECT_EQ(budget->max_trials(), 10);
  EXPECT_EQ(budget->max_trials_without_gain(), 5);
  EXPECT_EQ(budget->max_seconds(), 2) << "never less than asked for";
  EXPECT_EQ(budget->max_device_seconds(), 60);
  EXPECT_EQ(budget->stop_within_floor(), 0.1);
  options.max_device_time = "later";
  EXPECT_THAT(std::string(MessageOf(MakeBudget(options).status())), HasSubstr("--max-device-time: 'later'"));
}

}  // namespace
}  // namespace tunefarm::cli
