#include <fmt/core.h>

#include <numeric>

#include "server/base/edit_distance.h"
#include "server/base/format.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/search/listed_strategy.h"
#include "server/search/strategy.h"

namespace tunefarm {
namespace {

constexpr std::string_view kExhaustive = "exhaustive";
constexpr std::string_view kRandom = "random";
constexpr int kExhaustiveVersion = 1;
constexpr int kRandomVersion = 1;

// Above, sampling with a memory of what was seen is cheaper than a list of all.
constexpr uint64_t kRandomListMax = 1'000'000;

absl::Status EmptySpace(const Space& space) {
  return WithReason(FailedPrecondition("{}", space.ExplainEmpty()), "EMPTY_SPACE");
}

// Fisher and Yates' shuffle.
std::vector<uint32_t> Shuffled(uint64_t count, uint64_t seed) {
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), uint32_t{0});
  PhiloxStream random(seed);
  for (uint64_t i = count; i > 1; --i) std::swap(order[i - 1], order[random.UniformInt(i)]);
  return order;
}

absl::StatusOr<std::unique_ptr<Strategy>> MakeExhaustive(const Space& space) {
  auto table = space.Enumerate(kSpaceListMax);
  if (absl::IsResourceExhausted(table.status()) && ReasonOf(table.status()) != "SEARCH_BUDGET") {
    return WithReason(
        InvalidArgument("the space has {} points, exhaustive lists at most {}: use the strategy random or "
                        "narrow the parameters' values",
                        space.CartesianText(), FormatCount(static_cast<int64_t>(kSpaceListMax))),
        "SPACE_TOO_LARGE");
  }
  RETURN_IF_ERROR(table.status());
  if (table->empty()) return EmptySpace(space);
  return std::make_unique<ListedStrategy>(std::string(kExhaustive), kExhaustiveVersion, space, *std::move(table),
                                          std::vector<uint32_t>());
}

absl::StatusOr<std::unique_ptr<Strategy>> MakeRandom(const Space& space, uint64_t seed) {
  auto table = space.Enumerate(kRandomListMax);
  if (absl::IsResourceExhausted(table.status())) {
    return std::make_unique<SampledStrategy>(std::string(kRandom), kRandomVersion, space, seed);
  }
  RETURN_IF_ERROR(table.status());
  if (table->empty()) return EmptySpace(space);
  std::vector<uint32_t> order = Shuffled(table->size(), seed);
  return std::make_unique<ListedStrategy>(std::string(kRandom), kRandomVersion, space, *std::move(table),
                                          std::move(order));
}

}  // namespace

std::vector<std::string> StrategyNames() { return {std::string(kExhaustive), std::string(kRandom)}; }

absl::StatusOr<std::unique_ptr<Strategy>> MakeStrategy(std::string_view name, const StrategyOptions& options,
                                                       const Space& space, uint64_t seed) {
  if (name != kExhaustive && name != kRandom) {
    const auto close = ClosestMatch(name, StrategyNames());
    return InvalidArgument("unknown strategy '{}'{}; known are exhaustive and random", name.substr(0, 64),
                           close ? fmt::format(" (did you mean '{}'?)", *close) : std::string());
  }
  if (!options.empty()) {
    return InvalidArgument("the strategy {} has no option '{}'; it has none", name, options.begin()->first);
  }
  return name == kExhaustive ? MakeExhaustive(space) : MakeRandom(space, seed);
}

}  // namespace tunefarm
