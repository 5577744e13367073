// What must hold for every strategy, whatever its idea: valid configs only, none twice, the whole space in the end, the
// same proposals after a restart, and no dependence on results that come in another order, late or never.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "server/search/search_space.h"
#include "server/search/strategy.h"
#include "tests/unit/search/sample_spaces.h"

namespace tunefarm {
namespace {

struct Event {
  bool is_tell = false;
  Config config;  // proposed, or told about
  Told told;
};

// Runs a strategy as a daemon with several devices does: asks in batches of changing size, tells in any order, loses
// some results. What it does next depends only on the script's seed and on how much has happened.
class Driver {
 public:
  explicit Driver(uint64_t script) : script_(script) {}

  // One step: an Ask or a Tell. False when there is nothing left to do.
  bool Step(Strategy* strategy) {
    PhiloxStream random(script_, log_.size());
    const bool ask = open_.size() < 12 && (open_.empty() || random.UniformInt(3) == 0);
    if (ask && !strategy->Exhausted()) {
      const auto configs = strategy->Ask(1 + static_cast<int>(random.UniformInt(5)));
      EXPECT_TRUE(configs.ok()) << configs.status();
      for (const Config& config : *configs) {
        log_.push_back({false, config, {}});
        open_.emplace_back(proposals_.size(), config);
        proposals_.push_back(config.ToText());
      }
      if (!configs->empty()) return true;
    }
    if (open_.empty()) return false;
    const auto which = static_cast<ptrdiff_t>(random.UniformInt(open_.size()));
    const auto [ordinal, config] = open_[static_cast<size_t>(which)];
    open_.erase(open_.begin() + which);
    const Told told = Result(ordinal, config);
    log_.push_back({true, config, told});
    // Every tenth result never comes.
    if (ordinal % 10 != 9) strategy->Tell(told);
    return true;
  }

  // Tells a new strategy what happened so far.
  void Replay(Strategy* strategy) const {
    for (const Event& event : log_) {
      if (!event.is_tell) {
        const absl::Status status = strategy->MarkProposed(event.config);
        EXPECT_TRUE(status.ok()) << status;
      } else if (event.told.ordinal % 10 != 9) {
        strategy->Tell(event.told);
      }
    }
  }

  const std::vector<std::string>& proposals() const { return proposals_; }

 private:
  Told Result(size_t ordinal, const Config& config) const {
    Told told{ordinal, config, ToldOutcome::kOk, SampleObjective(config)};
    if (config.Hash() % 7 == 0) told.outcome = ToldOutcome::kFailed;
    if (ordinal % 13 == 5) told.outcome = ToldOutcome::kLost;
    return told;
  }

  uint64_t script_;
  std::vector<Event> log_;
  std::vector<std::pair<size_t, Config>> open_;
  std::vector<std::string> proposals_;
};

class EveryStrategy : public testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Strategy> Make(const Space& space, uint64_t seed = 3, const Priors& priors = {}) {
    auto made = MakeStrategy(GetParam(), {}, space, seed, priors);
    EXPECT_TRUE(made.ok()) << made.status();
    return *std::move(made);
  }
};

TEST_P(EveryStrategy, ProposesTheWholeSpaceOnceAndNothingElse) {
  const Space space = SampleSpace();
  const auto strategy = Make(space);
  Driver driver(1);
  while (driver.Step(strategy.get())) {
  }
  EXPECT_TRUE(strategy->Exhausted());
  EXPECT_TRUE(strategy->Ask(3)->empty());
  const auto table = *space.Enumerate();
  std::set<std::string> all;
  for (uint64_t row = 0; row < table.size(); ++row) all.insert(space.ConfigAt(table, row).ToText());
  EXPECT_EQ(driver.proposals().size(), all.size());
  EXPECT_EQ(std::set<std::string>(driver.proposals().begin(), driver.proposals().end()), all);
  EXPECT_EQ(driver.proposals().front(), space.DefaultConfig()->ToText());
}

// After the default config, in their order; those that are not of the space are left out.
TEST_P(EveryStrategy, TriesTheStartingConfigsNext) {
  SpaceDefinition definition;
  for (const char* name : {"A", "B"}) definition.parameters.push_back({name, {1, 2, 3, 4, 5, 6, 7, 8}, Value(4)});
  definition.constraints = {{"A + B <= 12", "small"}};
  const auto config = [](int a, int b) {
    Config made;
    made.Set("A", Value(a));
    made.Set("B", Value(b));
    return made;
  };
  definition.starting_configs = {config(7, 2), config(8, 8), config(4, 4), config(1, 6)};
  const Space space = *Space::Build(std::move(definition));
  const auto strategy = Make(space);
  const std::vector<Config> first = *strategy->Ask(3);
  ASSERT_EQ(first.size(), 3U);
  EXPECT_EQ(first[0].ToText(), config(4, 4).ToText());
  const bool uses_them = GetParam() != "exhaustive" && GetParam() != "random";
  EXPECT_EQ(first[1].ToText() == config(7, 2).ToText() && first[2].ToText() == config(1, 6).ToText(), uses_them);
}

TEST_P(EveryStrategy, GoesOnAfterAReplayAsIfNothingHadHappened) {
  const Space space = SampleSpace();
  const Priors priors = {SamplePrior(space, 0.1)};
  for (const Priors& known : {Priors(), priors}) {
    const auto strategy = Make(space, 4, known);
    Driver driver(2);
    std::vector<Driver> snapshots;
    for (int step = 0; step < 160; ++step) {
      if (step % 20 == 7) snapshots.push_back(driver);
      ASSERT_TRUE(driver.Step(strategy.get()));
    }
    for (Driver& snapshot : snapshots) {
      const auto rebuilt = Make(space, 4, known);
      snapshot.Replay(rebuilt.get());
      const size_t begun = snapshot.proposals().size();
      while (snapshot.proposals().size() < driver.proposals().size()) ASSERT_TRUE(snapshot.Step(rebuilt.get()));
      for (size_t i = begun; i < driver.proposals().size(); ++i) {
        ASSERT_EQ(snapshot.proposals()[i], driver.proposals()[i])
            << "proposal " << i << " after a restart at " << begun;
      }
    }
  }
}

TEST_P(EveryStrategy, SeedsDifferAndRepeat) {
  const Space space = SampleSpace();
  std::vector<std::vector<std::string>> runs;
  for (const uint64_t seed : {1, 1, 2}) {
    const auto strategy = Make(space, seed);
    Driver driver(5);
    for (int step = 0; step < 60; ++step) driver.Step(strategy.get());
    runs.push_back(driver.proposals());
  }
  EXPECT_EQ(runs[0], runs[1]);
  if (GetParam() != "exhaustive") {
    EXPECT_NE(runs[0], runs[2]);
  }
}

TEST_P(EveryStrategy, NeverWaitsForResults) {
  const Space space = SampleSpace();
  const auto strategy = Make(space);
  const uint64_t total = *space.CountValid();
  const auto configs = strategy->Ask(static_cast<int>(total) + 10);
  ASSERT_TRUE(configs.ok());
  EXPECT_EQ(configs->size(), total);
  EXPECT_TRUE(strategy->Exhausted());
}

TEST_P(EveryStrategy, AllResultsMayBeFailures) {
  const Space space = SampleSpace();
  const auto strategy = Make(space);
  uint64_t proposed = 0;
  while (!strategy->Exhausted()) {
    const auto configs = strategy->Ask(7);
    ASSERT_TRUE(configs.ok());
    ASSERT_FALSE(configs->empty());
    for (const Config& config : *configs) strategy->Tell({proposed++, config, ToldOutcome::kFailed, 0});
  }
  EXPECT_EQ(proposed, *space.CountValid());
}

TEST_P(EveryStrategy, IgnoresWhatItDidNotAskFor) {
  const Space space = SampleSpace();
  const auto strategy = Make(space), other = Make(space);
  const auto table = *space.Enumerate();
  strategy->Tell({0, space.ConfigAt(table, 5), ToldOutcome::kOk, 1});
  strategy->Tell({1, Config{{"no", 1}}, ToldOutcome::kOk, 1});
  const auto first = *strategy->Ask(20), same = *other->Ask(20);
  EXPECT_EQ(first, same);
  // A result that is told twice counts once; an objective that is no time is a failure.
  for (int i = 0; i < 20; ++i) {
    const Told told{static_cast<uint64_t>(i), first[static_cast<size_t>(i)], ToldOutcome::kOk, i < 10 ? 5.0 + i : -1};
    strategy->Tell(told);
    other->Tell(told);
    strategy->Tell(told);
  }
  EXPECT_EQ(*strategy->Ask(20), *other->Ask(20));
}

TEST_P(EveryStrategy, PriorsOfAnotherSpaceDoNoHarm) {
  const Space space = SampleSpace();
  PriorSource strange;
  strange.results = {{{{"X", 1}}, ToldOutcome::kOk, 1.0}, {{{"A", 99}, {"B", 1}}, ToldOutcome::kFailed, 0}};
  const auto strategy = Make(space, 3, {strange, {}});
  EXPECT_EQ(*strategy->Ask(30), *Make(space)->Ask(30));
}

TEST_P(EveryStrategy, OneConfigAndOneParameterAreSpacesToo) {
  SpaceDefinition one;
  one.parameters = {{"A", {7}, {}}};
  EXPECT_EQ(Make(*Space::Build(one))->Ask(5)->size(), 1u);
  SpaceDefinition none;
  EXPECT_EQ(Make(*Space::Build(none))->Ask(5)->size(), 1u);
  SpaceDefinition line;
  line.parameters = {{"A", {}, {}}};
  for (int i = 0; i < 300; ++i) line.parameters[0].values.push_back(i);
  const Space space = *Space::Build(line);
  const auto strategy = Make(space);
  Driver driver(8);
  while (driver.Step(strategy.get())) {
  }
  EXPECT_EQ(std::set<std::string>(driver.proposals().begin(), driver.proposals().end()).size(), 300u);
}

TEST_P(EveryStrategy, SpacesTooLargeToListAreSearchedAndReplayed) {
  if (GetParam() == "exhaustive") GTEST_SKIP() << "exhaustive lists";
  const Space space = LargeSampleSpace();
  const auto strategy = Make(space);
  EXPECT_FALSE(strategy->Total().has_value());
  Driver driver(6);
  std::optional<Driver> snapshot;
  while (driver.proposals().size() < 150) {
    if (!snapshot.has_value() && driver.proposals().size() > 90) snapshot = driver;
    ASSERT_TRUE(driver.Step(strategy.get()));
  }
  const std::set<std::string> distinct(driver.proposals().begin(), driver.proposals().end());
  EXPECT_EQ(distinct.size(), driver.proposals().size());
  for (const std::string& text : distinct) EXPECT_TRUE(space.Contains(*Config::FromText(text))) << text;
  const auto rebuilt = Make(space);
  snapshot->Replay(rebuilt.get());
  while (snapshot->proposals().size() < driver.proposals().size()) ASSERT_TRUE(snapshot->Step(rebuilt.get()));
  for (size_t i = 0; i < driver.proposals().size(); ++i) {
    ASSERT_EQ(snapshot->proposals()[i], driver.proposals()[i]) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(All, EveryStrategy, testing::ValuesIn(StrategyNames()),
                         [](const auto& named) { return named.param; });

}  // namespace
}  // namespace tunefarm
