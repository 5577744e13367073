#include "server/search/portfolio.h"

#include <utility>

namespace tunefarm {
namespace {

constexpr double kPackShare = 0.1;

}  // namespace

Portfolio::Portfolio(std::shared_ptr<const SearchSpace> space, uint64_t seed, const ModelSearchOptions& options,
                     std::shared_ptr<const PriorKnowledge> prior)
    : model_(std::move(space), seed, options, std::move(prior)), pack_(PackSearchOptions()) {}

std::optional<Point> Portfolio::Propose(const History& history, PhiloxStream& random) {
  const bool by_pack = random.NextDouble() < kPackShare;
  if (by_pack) {
    std::optional<Point> point = pack_.Propose(history, random);
    if (point.has_value()) return point;
  }
  return model_.Propose(history, random);
}

void Portfolio::Observed(const History& history, size_t observation, PhiloxStream& random) {
  pack_.Observed(history, observation, random);
}

}  // namespace tunefarm
