#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "server/base/edit_distance.h"
#include "server/base/format.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/base/work_limit.h"
#include "server/search/annealing.h"
#include "server/search/genetic.h"
#include "server/search/listed_strategy.h"
#include "server/search/local_search.h"
#include "server/search/model_search.h"
#include "server/search/near_points.h"
#include "server/search/pack_search.h"
#include "server/search/point_strategy.h"
#include "server/search/portfolio.h"
#include "server/search/prior_knowledge.h"
#include "server/search/random_streams.h"
#include "server/search/strategy.h"
#include "server/search/strategy_options.h"

namespace tunefarm {
namespace {

using Shared = std::shared_ptr<const SearchSpace>;

struct MakeContext {
  Shared space;
  uint64_t seed = 0;
  OptionValues options;
  std::shared_ptr<const PriorKnowledge> prior;
};

// A strategy that is a proposer and some first points.
struct ProposerEntry {
  std::string_view name;
  int version;
  std::string_view summary;
  std::vector<OptionSpec> options;
  std::unique_ptr<Proposer> (*make)(const MakeContext& context);
};

constexpr std::string_view kExhaustive = "exhaustive";
constexpr std::string_view kRandom = "random";
constexpr int kExhaustiveVersion = 1;
constexpr int kRandomVersion = 1;

// The points of a Latin hypercube that begin a search, and how many of the best of the most similar study, and of those
// that a model predicts, come before.
constexpr OptionSpec kStart = {"start", 12, 0, 1000, true, "points of a Latin hypercube that are tried first"};
constexpr size_t kPriorFirst = 5;
// With results of other studies the hypercube's points are mostly a waste; so many stay, in case those mislead.
constexpr int kStartBesidePrior = 4;

constexpr OptionSpec kTrees = {"trees", 20, 2, 200, true, "trees of the model"};
constexpr OptionSpec kProcessMax = {
    "process_max", 64, 0, 500, true, "up to so many valid results the model is a Gaussian process, then a forest"};
constexpr OptionSpec kExplore = {"explore", 1, 0, 10, false, "factor on the model's uncertainty"};
constexpr OptionSpec kCandidates = {"candidates", 100,  1,
                                    10'000,       true, "random points that each proposal is chosen from"};
constexpr OptionSpec kRandomShare = {"random_share", 0.05, 0, 1, false, "part of the proposals that is random"};

ModelSearchOptions ModelOptions(const OptionValues& values) {
  ModelSearchOptions options;
  options.surrogate.trees = values.Whole("trees");
  options.surrogate.process_max = values.Whole("process_max");
  options.explore = values.Real("explore");
  options.random_candidates = values.Whole("candidates");
  options.random_share = values.Real("random_share");
  return options;
}

std::unique_ptr<Proposer> MakePortfolio(const MakeContext& c) {
  return std::make_unique<Portfolio>(c.space, c.seed, ModelOptions(c.options), c.prior);
}

std::unique_ptr<Proposer> MakeModelSearch(const MakeContext& c) {
  return std::make_unique<ModelSearch>(c.space, c.seed, ModelOptions(c.options), c.prior);
}

std::unique_ptr<Proposer> MakeGenetic(const MakeContext& c) {
  GeneticOptions options;
  options.population = c.options.Whole("population");
  options.mutation = c.options.Real("mutation");
  options.near = c.options.Real("near");
  options.patience = c.options.Whole("patience");
  return std::make_unique<Genetic>(options);
}

std::unique_ptr<Proposer> MakeAnnealing(const MakeContext& c) {
  AnnealingOptions options;
  options.hot = c.options.Real("hot");
  options.cold = c.options.Real("cold");
  options.cooling = c.options.Real("cooling");
  options.near = c.options.Real("near");
  return std::make_unique<Annealing>(options);
}

std::unique_ptr<Proposer> MakeLocalSearch(const MakeContext& c) {
  LocalSearchOptions options;
  options.perturbation = c.options.Real("perturbation");
  options.perturbed = c.options.Whole("perturbed");
  return std::make_unique<LocalSearch>(options);
}

std::unique_ptr<Proposer> MakePackSearch(const MakeContext& c) {
  PackSearchOptions options;
  options.pack = c.options.Whole("pack");
  options.follow = c.options.Real("follow");
  options.wander = c.options.Real("wander");
  options.patience = c.options.Whole("patience");
  return std::make_unique<PackSearch>(options);
}

const std::vector<ProposerEntry>& Entries() {
  static const std::vector<ProposerEntry> entries = {
      {kDefaultStrategy,
       1,
       "a model of the space that learns as results come, beside a pack search that needs no model",
       {kStart, kTrees, kProcessMax, kExplore, kCandidates, kRandomShare},
       MakePortfolio},
      {"bayes",
       1,
       "the model alone: each proposal has the largest expected improvement among many candidates",
       {kStart, kTrees, kProcessMax, kExplore, kCandidates, kRandomShare},
       MakeModelSearch},
      {"genetic",
       1,
       "children of the best, with crossover and mutation; restarts when nothing improves",
       {kStart,
        {"population", 20, 4, 10'000, true, "configs that have children"},
        {"mutation", 1, 0, 100, false, "parameters changed in a child, on average"},
        {"near", 0.5, 0, 1, false, "part of the changes of numbers that goes to a near value"},
        {"patience", 100, 1, 1'000'000, true, "results without a better one until it restarts"}},
       MakeGenetic},
      {"annealing",
       1,
       "a walk that takes worse neighbours less and less often, and warms up again",
       {kStart,
        {"hot", 0.3, 1e-6, 100, false, "first temperature, as a ratio of times"},
        {"cold", 0.01, 1e-9, 100, false, "temperature at which it warms up again"},
        {"cooling", 0.97, 0.01, 0.99999, false, "factor on the temperature per result"},
        {"near", 0.5, 0, 1, false, "part of the changes of numbers that goes to a near value"}},
       MakeAnnealing},
      {"local",
       1,
       "from a config to a better neighbour until there is none, then from elsewhere",
       {kStart,
        {"perturbation", 0.5, 0, 1, false, "part of the restarts that begins near the best instead of anywhere"},
        {"perturbed", 3, 1, 100, true, "parameters changed then"}},
       MakeLocalSearch},
      {"pack",
       1,
       "a pack that follows its three best and is driven apart when it closes in (grey wolves with a taboo)",
       {kStart,
        {"pack", 8, 4, 10'000, true, "members"},
        {"follow", 0.8, 0, 1, false, "part of the parameters taken from a leader"},
        {"wander", 0.15, 0, 1, false, "part of the parameters changed at random"},
        {"patience", 60, 1, 1'000'000, true, "results without a better one until the pack is driven apart"}},
       MakePackSearch},
  };
  return entries;
}

// Fisher and Yates' shuffle.
std::vector<uint32_t> Shuffled(uint64_t count, uint64_t seed) {
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), uint32_t{0});
  PhiloxStream random(seed);
  for (uint64_t i = count; i > 1; --i) std::swap(order[i - 1], order[random.UniformInt(i)]);
  return order;
}

absl::Status EmptySpace(const Space& space) {
  return WithReason(FailedPrecondition("{}", space.ExplainEmpty()), "EMPTY_SPACE");
}

absl::Status TooLargeToList(std::string_view points, uint64_t most) {
  return WithReason(InvalidArgument("the space has {} points, exhaustive lists at most {}: use the strategy random or "
                                    "narrow the parameters' values",
                                    points, FormatCount(static_cast<int64_t>(most))),
                    "SPACE_TOO_LARGE");
}

absl::StatusOr<std::unique_ptr<Strategy>> MakeExhaustive(const Space& space) {
  auto table = space.Enumerate(kSpaceListMax);
  if (absl::IsResourceExhausted(table.status()) && ReasonOf(table.status()).empty()) {
    return TooLargeToList(space.CartesianText(), kSpaceListMax);
  }
  RETURN_IF_ERROR(table.status());
  if (table->empty()) return EmptySpace(space);
  return std::make_unique<ListedStrategy>(std::string(kExhaustive), kExhaustiveVersion, space, *std::move(table),
                                          std::vector<uint32_t>());
}

absl::StatusOr<std::unique_ptr<Strategy>> MakeRandom(const Space& space, uint64_t seed) {
  auto table = space.Enumerate(kSearchSpaceListMax, kListTime);
  if (absl::IsResourceExhausted(table.status()) && ReasonOf(table.status()) != kWorkLimitReason) {
    RETURN_IF_ERROR(space.PrepareSampling());
    return std::make_unique<SampledStrategy>(std::string(kRandom), kRandomVersion, space, seed);
  }
  RETURN_IF_ERROR(table.status());
  if (table->empty()) return EmptySpace(space);
  std::vector<uint32_t> order = Shuffled(table->size(), seed);
  return std::make_unique<ListedStrategy>(std::string(kRandom), kRandomVersion, space, *std::move(table),
                                          std::move(order));
}

// The same two over what is listed already.
std::unique_ptr<Strategy> MakeInOrder(std::string_view name, const SearchSpace& space, uint64_t seed) {
  const bool random = name == kRandom;
  return std::make_unique<ListedStrategy>(std::string(name), random ? kRandomVersion : kExhaustiveVersion,
                                          space.space(), space.table(),
                                          random ? Shuffled(space.size(), seed) : std::vector<uint32_t>());
}

absl::Status UnknownStrategy(std::string_view name) {
  const std::vector<std::string> names = StrategyNames();
  const auto close = ClosestMatch(name, names);
  std::string known;
  for (size_t i = 0; i < names.size(); ++i) known += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  return InvalidArgument("unknown strategy '{}'{}; known are {}", name.substr(0, 64),
                         close ? fmt::format(" (did you mean '{}'?)", *close) : std::string(), known);
}

const ProposerEntry* FindEntry(std::string_view name) {
  for (const ProposerEntry& entry : Entries()) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

// Refuses unknown names and options before anything is listed.
absl::StatusOr<OptionValues> CheckRequest(std::string_view name, const StrategyOptions& options) {
  const ProposerEntry* entry = FindEntry(name);
  if (entry == nullptr && name != kExhaustive && name != kRandom) return UnknownStrategy(name);
  return ReadOptions(name, entry == nullptr ? std::span<const OptionSpec>() : entry->options, options);
}

absl::StatusOr<std::unique_ptr<Strategy>> MakeProposing(const ProposerEntry& entry, OptionValues options, Shared space,
                                                        uint64_t seed, const Priors& priors) {
  MakeContext context;
  context.space = space;
  context.seed = seed;
  context.options = std::move(options);
  context.prior = PriorKnowledge::Make(space, priors, seed);
  std::vector<Point> first;
  if (context.prior != nullptr) first = context.prior->FirstPoints(kPriorFirst);
  int start_points = context.options.Whole("start");
  if (context.prior != nullptr) start_points = std::min(start_points, kStartBesidePrior);
  PhiloxStream random(seed, StreamOf(StreamUse::kFirstPoints, 0));
  ASSIGN_OR_RETURN(const std::vector<Point> start, LatinHypercube(*space, start_points, random));
  first.insert(first.end(), start.begin(), start.end());
  std::unique_ptr<Proposer> proposer = entry.make(context);
  return std::make_unique<PointStrategy>(std::string(entry.name), entry.version, std::move(space), seed,
                                         std::move(first), std::move(proposer));
}

}  // namespace

std::vector<std::string> StrategyNames() {
  std::vector<std::string> names;
  for (const ProposerEntry& entry : Entries()) names.emplace_back(entry.name);
  names.emplace_back(kExhaustive);
  names.emplace_back(kRandom);
  return names;
}

std::string StrategyHelp() {
  std::string text;
  for (const ProposerEntry& entry : Entries()) {
    text += fmt::format("{}: {}\n", entry.name, entry.summary);
    for (const OptionSpec& option : entry.options) {
      text += fmt::format("  {:<14} {} ({}, {} to {})\n", option.name, option.description, option.default_value,
                          option.minimum, option.maximum);
    }
  }
  text += "exhaustive: every config, in the order of the space\n";
  text += "random: every config, in a random order\n";
  return text;
}

absl::Status CheckStrategy(std::string_view name, const StrategyOptions& options, uint64_t valid,
                           std::string_view points) {
  RETURN_IF_ERROR(CheckRequest(name, options).status());
  if (name == kExhaustive && valid > kSpaceListMax) return TooLargeToList(points, kSpaceListMax);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Strategy>> MakeStrategy(std::string_view name, const StrategyOptions& options,
                                                       const Space& space, uint64_t seed, const Priors& priors) {
  ASSIGN_OR_RETURN(OptionValues values, CheckRequest(name, options));
  if (name == kExhaustive) return MakeExhaustive(space);
  if (name == kRandom) return MakeRandom(space, seed);
  ASSIGN_OR_RETURN(Shared shared, SearchSpace::Make(space));
  return MakeProposing(*FindEntry(name), std::move(values), std::move(shared), seed, priors);
}

absl::StatusOr<std::unique_ptr<Strategy>> MakeStrategy(std::string_view name, const StrategyOptions& options,
                                                       std::shared_ptr<const SearchSpace> space, uint64_t seed,
                                                       const Priors& priors) {
  ASSIGN_OR_RETURN(OptionValues values, CheckRequest(name, options));
  const ProposerEntry* entry = FindEntry(name);
  if (entry != nullptr) return MakeProposing(*entry, std::move(values), std::move(space), seed, priors);
  if (space->is_listed()) return MakeInOrder(name, *space, seed);
  return name == kExhaustive ? MakeExhaustive(space->space()) : MakeRandom(space->space(), seed);
}

}  // namespace tunefarm
