#include "server/search/strategy.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "server/base/status.h"
#include "server/search/history.h"
#include "server/search/search_space.h"

namespace tunefarm {
namespace {

Space SmallSpace() {
  SpaceDefinition definition;
  definition.parameters = {
      {"A", {1, 2, 3, 4}, Value(2)}, {"B", {1, 2, 3, 4, 5}, Value(3)}, {"C", {"x", "y"}, Value("y")}};
  definition.constraints = {{"A * B <= 12", ""}};
  return *Space::Build(definition);
}

// 10^8 points, 81 % valid: nothing lists it.
Space LargeSpace() {
  SpaceDefinition definition;
  for (int i = 0; i < 8; ++i) {
    Parameter parameter{fmt::format("P{}", i), {}, Value(1)};
    for (int v = 0; v < 10; ++v) parameter.values.push_back(v);
    definition.parameters.push_back(parameter);
  }
  definition.constraints = {{"P0 != P1", "a"}, {"P2 != P3 or P0 == P1", "b"}};
  definition.parameters[1].default_value = Value(2);
  definition.parameters[3].default_value = Value(2);
  return *Space::Build(definition);
}

std::unique_ptr<Strategy> Make(std::string_view name, const Space& space, uint64_t seed = 1) {
  auto strategy = MakeStrategy(name, {}, space, seed);
  EXPECT_TRUE(strategy.ok()) << strategy.status();
  return *std::move(strategy);
}

// Asks in batches of `batch` until the strategy is exhausted or `limit` configs came.
std::vector<std::string> Drain(Strategy& strategy, int batch, size_t limit = SIZE_MAX) {
  std::vector<std::string> texts;
  while (!strategy.Exhausted() && texts.size() < limit) {
    const auto configs = strategy.Ask(batch);
    EXPECT_TRUE(configs.ok()) << configs.status();
    EXPECT_LE(configs->size(), static_cast<size_t>(batch));
    for (const Config& config : *configs) texts.push_back(config.ToText());
  }
  return texts;
}

TEST(Exhaustive, ProposesTheDefaultFirstAndThenTheSpaceInOrder) {
  const Space space = SmallSpace();
  const auto strategy = Make("exhaustive", space);
  const auto table = *space.Enumerate();
  EXPECT_EQ(strategy->Total(), table.size());
  std::vector<std::string> expected = {"A=2,B=3,C=y"};
  for (uint64_t row = 0; row < table.size(); ++row) {
    const std::string text = space.ConfigAt(table, row).ToText();
    if (text != expected[0]) expected.push_back(text);
  }
  EXPECT_EQ(Drain(*strategy, 7), expected);
  EXPECT_TRUE(strategy->Ask(5)->empty());
}

TEST(Exhaustive, BatchSizeDoesNotMatter) {
  const Space space = SmallSpace();
  EXPECT_EQ(Drain(*Make("exhaustive", space), 1), Drain(*Make("exhaustive", space), 64));
  EXPECT_EQ(Drain(*Make("random", space), 1), Drain(*Make("random", space), 64));
}

TEST(Exhaustive, RefusesWhatItCannotList) {
  SpaceDefinition definition;
  for (int i = 0; i < 12; ++i) {
    Parameter parameter{fmt::format("P{}", i), {}, {}};
    for (int v = 0; v < 10; ++v) parameter.values.push_back(v);
    definition.parameters.push_back(parameter);
  }
  const auto strategy = MakeStrategy("exhaustive", {}, *Space::Build(definition), 1);
  EXPECT_EQ(MessageOf(strategy.status()),
            "the space has 1,000,000,000,000 points, exhaustive lists at most 10,000,000: use the strategy random or "
            "narrow the "
            "parameters' values");
  EXPECT_TRUE(absl::IsInvalidArgument(strategy.status()));
}

TEST(Random, ProposesEveryConfigOnceInAnOrderOfTheSeed) {
  const Space space = SmallSpace();
  const std::vector<std::string> first = Drain(*Make("random", space, 1), 3);
  EXPECT_EQ(first, Drain(*Make("random", space, 1), 3));
  EXPECT_NE(first, Drain(*Make("random", space, 2), 3));
  EXPECT_EQ(first[0], "A=2,B=3,C=y");
  const std::vector<std::string> listed = Drain(*Make("exhaustive", space), 3);
  EXPECT_NE(first, listed);
  EXPECT_EQ(std::set<std::string>(first.begin(), first.end()), std::set<std::string>(listed.begin(), listed.end()));
  EXPECT_EQ(first.size(), listed.size());
}

TEST(Random, EveryConfigComesEarlyEquallyOften) {
  const Space space = SmallSpace();
  const size_t total = *Make("random", space)->Total();
  std::map<std::string, int> early;
  constexpr int kSeeds = 3400;
  for (int seed = 0; seed < kSeeds; ++seed) {
    const auto strategy = Make("random", space, static_cast<uint64_t>(seed));
    for (const std::string& text : Drain(*strategy, 2, 2)) ++early[text];
  }
  EXPECT_EQ(early["A=2,B=3,C=y"], kSeeds);
  EXPECT_EQ(early.size(), total);
  const double expected = static_cast<double>(kSeeds) / static_cast<double>(total - 1);
  for (const auto& [text, count] : early) {
    if (count == kSeeds) continue;
    EXPECT_NEAR(count, expected, 5 * std::sqrt(expected)) << text;
  }
}

TEST(Random, LargeSpacesAreSampledWithoutRepeats) {
  const Space space = LargeSpace();
  const auto strategy = Make("random", space, 9);
  EXPECT_FALSE(strategy->Total().has_value());
  const std::vector<std::string> texts = Drain(*strategy, 50, 2000);
  EXPECT_EQ(texts[0], "P0=1,P1=2,P2=1,P3=2,P4=1,P5=1,P6=1,P7=1");
  EXPECT_EQ(std::set<std::string>(texts.begin(), texts.end()).size(), texts.size());
  const std::vector<std::string> again = Drain(*Make("random", space, 9), 40, texts.size());
  EXPECT_EQ(texts, again);
}

// A handful of configs that cannot be listed: two groups of parameters, of which each alone is within the bound on the
// work and both together are not.
std::optional<Space> SmallSpaceThatCannotBeListed() {
  SpaceDefinition definition;
  for (const char* const name : {"A", "B", "C", "D"}) definition.parameters.push_back({name, {1, 2, 3}, Value(1)});
  definition.constraints = {{"A * B <= 4", ""}, {"C * D <= 4", ""}};
  for (uint64_t nodes_max = 1; nodes_max < 1000; ++nodes_max) {
    absl::StatusOr<Space> space = Space::Build(definition, {.nodes_max = nodes_max});
    PhiloxStream random(1);
    if (!space.ok() || !space->SampleUniform(random).ok()) continue;
    return absl::IsResourceExhausted(space->Enumerate(1000).status()) ? std::optional(*std::move(space)) : std::nullopt;
  }
  return std::nullopt;
}

// The end of such a space is found by drawing, which must neither take long nor fail.
TEST(Random, ASpaceThatIsUsedUpByDrawingIsExhausted) {
  const std::optional<Space> space = SmallSpaceThatCannotBeListed();
  ASSERT_TRUE(space.has_value());
  const auto strategy = Make("random", *space, 3);
  EXPECT_FALSE(strategy->Total().has_value());
  const std::vector<std::string> texts = Drain(*strategy, 1, 100);
  EXPECT_TRUE(strategy->Exhausted());
  EXPECT_EQ(std::set<std::string>(texts.begin(), texts.end()).size(), 36u) << "6 pairs for each group";
  EXPECT_EQ(texts.size(), 36u);

  const auto searched = SearchSpace::Make(*space);
  ASSERT_TRUE(searched.ok()) << searched.status();
  ASSERT_FALSE((*searched)->is_listed());
  History history(*searched);
  PhiloxStream random(1);
  absl::StatusOr<std::optional<Point>> point = history.DrawUnproposed(random);
  for (; point.ok() && point->has_value(); point = history.DrawUnproposed(random)) history.Propose(**point);
  EXPECT_TRUE(point.ok()) << point.status();
  EXPECT_TRUE(history.IsExhausted());
  EXPECT_EQ(history.proposed_count(), 36u);
}

// Stops after `proposed` proposals, rebuilds from the records and goes on: the sequence must be the uninterrupted one.
void ExpectReplays(std::string_view name, const Space& space, size_t total) {
  const std::vector<std::string> uninterrupted = Drain(*Make(name, space, 5), 1, total);
  for (const size_t proposed : {size_t{0}, size_t{1}, size_t{7}, total - 1}) {
    const auto first = Make(name, space, 5);
    std::vector<Config> records;
    while (records.size() < proposed) {
      const auto configs = first->Ask(1);
      ASSERT_TRUE(configs.ok());
      records.insert(records.end(), configs->begin(), configs->end());
    }
    const auto rebuilt = Make(name, space, 5);
    std::vector<std::string> texts;
    for (size_t i = 0; i < records.size(); ++i) {
      ASSERT_TRUE(rebuilt->MarkProposed(records[i]).ok());
      texts.push_back(records[i].ToText());
      if (i % 2 == 0) rebuilt->Tell({i, records[i], ToldOutcome::kOk, 100.0 + static_cast<double>(i)});
    }
    const std::vector<std::string> rest = Drain(*rebuilt, 1, total - proposed);
    texts.insert(texts.end(), rest.begin(), rest.end());
    EXPECT_EQ(texts, uninterrupted) << name << " after " << proposed;
  }
}

TEST(Replay, GoesOnAsIfNothingHadHappened) {
  ExpectReplays("exhaustive", SmallSpace(), *Make("exhaustive", SmallSpace())->Total());
  ExpectReplays("random", SmallSpace(), *Make("random", SmallSpace())->Total());
  ExpectReplays("random", LargeSpace(), 100);
}

TEST(Replay, RefusesConfigsOfAnotherSpace) {
  for (const Space& space : {SmallSpace(), LargeSpace()}) {
    const auto strategy = Make("random", space);
    EXPECT_TRUE(absl::IsInvalidArgument(strategy->MarkProposed({{"Z", 1}})));
  }
  const auto strategy = Make("exhaustive", SmallSpace());
  EXPECT_EQ(MessageOf(strategy->MarkProposed({{"A", 4}, {"B", 5}, {"C", "x"}})),
            "the recorded proposal A=4,B=5,C=x is not in the space");
}

TEST(MakeStrategy, RefusesUnknownNamesAndOptions) {
  const Space space = SmallSpace();
  const auto error = [&](std::string_view name, const StrategyOptions& options) -> std::string {
    const auto made = MakeStrategy(name, options, space, 1);
    EXPECT_TRUE(absl::IsInvalidArgument(made.status()));
    return std::string(MessageOf(made.status()));
  };
  EXPECT_EQ(error("exhaustve", {}),
            "unknown strategy 'exhaustve' (did you mean 'exhaustive'?); known are default, bayes, genetic, annealing, "
            "local, pack, exhaustive and random");
  EXPECT_EQ(error("random", {{"temperature", "1"}}), "the strategy random has no option 'temperature'; it has none");
  EXPECT_EQ(error("genetic", {{"populaton", "10"}}),
            "the strategy genetic has no option 'populaton' (did you mean 'population'?)");
  EXPECT_EQ(error("local", {{"zebra", "10"}}),
            "the strategy local has no option 'zebra'; it has start, perturbation, perturbed");
  EXPECT_EQ(error("genetic", {{"population", "many"}}),
            "the option population of the strategy genetic takes a whole number, not 'many'");
  EXPECT_EQ(error("genetic", {{"population", "10.5"}}),
            "the option population of the strategy genetic takes a whole number, not '10.5'");
  EXPECT_EQ(error("genetic", {{"population", "2"}}),
            "the option population of the strategy genetic is 2, it must be 4 to 10000");
  EXPECT_EQ(error("annealing", {{"cooling", "nan"}}),
            "the option cooling of the strategy annealing takes a number, not 'nan'");
}

TEST(MakeStrategy, OptionsChangeWhatItDoes) {
  const Space space = SmallSpace();
  const auto plain = MakeStrategy("genetic", {}, space, 1);
  const auto other = MakeStrategy("genetic", {{"start", "3"}}, space, 1);
  ASSERT_TRUE(plain.ok() && other.ok());
  EXPECT_NE(Drain(**plain, 1, 12), Drain(**other, 1, 12));
}

TEST(MakeStrategy, HelpNamesEveryStrategy) {
  const std::string help = StrategyHelp();
  for (const std::string& name : StrategyNames()) EXPECT_NE(help.find(name + ": "), std::string::npos) << name;
  EXPECT_NE(help.find("  population     configs that have children (20, 4 to 10000)\n"), std::string::npos) << help;
  EXPECT_EQ(StrategyNames().front(), kDefaultStrategy);
}

TEST(MakeStrategy, EmptySpaceSaysWhatRejectedIt) {
  SpaceDefinition definition;
  definition.parameters = {{"A", {1, 2}, {}}};
  definition.constraints = {{"A > 5", "too small"}};
  for (const std::string& name : StrategyNames()) {
    const auto strategy = MakeStrategy(name, {}, *Space::Build(definition), 1);
    EXPECT_TRUE(absl::IsFailedPrecondition(strategy.status()));
    EXPECT_EQ(ReasonOf(strategy.status()), "EMPTY_SPACE");
    EXPECT_EQ(MessageOf(strategy.status()),
              "the space is empty: the rules reject all 2 points\n  2 by constraint 'A > 5': too small");
  }
}

}  // namespace
}  // namespace tunefarm
