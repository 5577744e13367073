#include "server/search/portfolio.h"

#include <utility>

namespace tunefarm {
namespace {

constexpr double kGeneticShare = 0.15;

}  // namespace

Portfolio::Portfolio(std::shared_ptr<const SearchSpace> space, uint64_t seed, const ModelSearchOptions& options,
                     std::shared_ptr<const PriorKnowledge> prior)
    : model_(std::move(space), seed, options, std::move(prior)), genetic_(GeneticOptions()) {}

std::optional<Point> Portfolio::Propose(const History& history, PhiloxStream& random) {
  const bool genetic = random.NextDouble() < kGeneticShare;
  if (genetic) {
    std::optional<Point> point = genetic_.Propose(history, random);
    if (point.has_value()) return point;
  }
  return model_.Propose(history, random);
}

void Portfolio::Observed(const History& history, size_t observation, PhiloxStream& random) {
  genetic_.Observed(history, observation, random);
}

}  // namespace tunefarm
