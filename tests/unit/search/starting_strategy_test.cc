#include "server/search/starting_strategy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "server/base/status.h"

namespace tunefarm {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

// 20 configs, 16 of them valid; the default is A=2,B=3.
Space SmallSpace() {
  SpaceDefinition definition;
  definition.parameters = {{"A", {1, 2, 3, 4}, Value(2)}, {"B", {1, 2, 3, 4, 5}, Value(3)}};
  definition.constraints = {{"A * B <= 12", ""}};
  return *Space::Build(definition);
}

Config Point(int64_t a, int64_t b) { return {{"A", Value(a)}, {"B", Value(b)}}; }

std::unique_ptr<Strategy> Make(std::string_view name, const Space& space, std::vector<Config> first) {
  auto rest = MakeStrategy(name, {}, space, 1);
  EXPECT_TRUE(rest.ok()) << rest.status();
  return MakeStartingStrategy(std::move(first), *std::move(rest));
}

std::vector<std::string> Texts(const std::vector<Config>& configs) {
  std::vector<std::string> texts;
  for (const Config& config : configs) texts.push_back(config.ToText());
  return texts;
}

class StartingStrategyTest : public testing::TestWithParam<std::string> {};

TEST_P(StartingStrategyTest, FirstTheGivenOnesThenAllOthersOnce) {
  const Space space = SmallSpace();
  const auto strategy = Make(GetParam(), space, {Point(4, 3), Point(1, 5), Point(4, 3)});
  std::vector<std::string> all = Texts(*strategy->Ask(1));
  EXPECT_THAT(all, ElementsAre("A=4,B=3"));
  for (const std::string& text : Texts(*strategy->Ask(2))) all.push_back(text);
  EXPECT_EQ(all[1], "A=1,B=5");
  EXPECT_EQ(all[2], "A=2,B=3") << "then the default config";
  uint64_t ordinal = 0;
  while (!strategy->Exhausted() && ordinal < 100) {
    strategy->Tell({ordinal++, Point(4, 3), ToldOutcome::kOk, 100});
    for (const std::string& text : Texts(*strategy->Ask(4))) all.push_back(text);
  }
  EXPECT_THAT(all, SizeIs(*space.CountValid()));
  EXPECT_THAT(std::set<std::string>(all.begin(), all.end()), SizeIs(all.size()));
}

TEST_P(StartingStrategyTest, AReplayGoesOnWhereItStopped) {
  const Space space = SmallSpace();
  const std::vector<Config> first = {Point(4, 3), Point(1, 5), Point(1, 1)};
  const auto live = Make(GetParam(), space, first);
  const std::vector<Config> begun = *live->Ask(2);
  const auto again = Make(GetParam(), space, first);
  for (const Config& config : begun) ASSERT_TRUE(again->MarkProposed(config).ok());
  EXPECT_EQ(Texts(*again->Ask(5)), Texts(*live->Ask(5)));
}

TEST_P(StartingStrategyTest, WhatIsNotOfTheSpaceIsLeftOut) {
  const Space space = SmallSpace();
  const auto strategy = Make(GetParam(), space, {Point(4, 5), Point(1, 5)});
  EXPECT_THAT(Texts(*strategy->Ask(1)), ElementsAre("A=1,B=5"));
}

INSTANTIATE_TEST_SUITE_P(All, StartingStrategyTest, testing::Values("exhaustive", "random", "default", "genetic"));

TEST(StartingStrategyNameTest, IsCalledLikeTheOther) {
  const Space space = SmallSpace();
  const auto rest = MakeStrategy("genetic", {}, space, 1);
  const auto strategy = Make("genetic", space, {Point(1, 1)});
  EXPECT_EQ(strategy->name(), (*rest)->name());
  EXPECT_EQ(strategy->version(), (*rest)->version());
  EXPECT_EQ(strategy->Total(), (*rest)->Total());
}

}  // namespace
}  // namespace tunefarm
