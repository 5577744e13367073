#include "server/search/genetic.h"

#include <algorithm>

#include "server/search/near_points.h"

namespace tunefarm {
namespace {

constexpr int kChildrenMax = 50;
constexpr int kMutationTries = 20;

}  // namespace

Point ChildOf(const SearchSpace& space, std::span<const uint16_t> a, std::span<const uint16_t> b, double mutation,
              double near, PhiloxStream& random) {
  Point child(a.begin(), a.end());
  for (size_t i = 0; i < child.size(); ++i) {
    if (random.UniformInt(2) == 1) child[i] = b[i];
  }
  const double rate = mutation / static_cast<double>(std::max<size_t>(1, space.varying().size()));
  for (const int parameter : space.varying()) {
    if (random.NextDouble() >= rate) continue;
    uint16_t& value = child[static_cast<size_t>(parameter)];
    value = OtherValue(space, parameter, value, near, random);
  }
  return child;
}

uint32_t Genetic::Select(PhiloxStream& random) const {
  // The better of two.
  const uint64_t a = random.UniformInt(population_.size()), b = random.UniformInt(population_.size());
  return population_[std::min(a, b)];
}

std::optional<Point> Genetic::Propose(const History& history, PhiloxStream& random) {
  // A new population begins with random points.
  if (population_.size() < static_cast<size_t>(options_.population) / 2 || population_.size() < 2) return std::nullopt;
  const SearchSpace& space = history.space();
  for (int i = 0; i < kChildrenMax; ++i) {
    const Point child = ChildOf(space, history.PointOf(Select(random)), history.PointOf(Select(random)),
                                options_.mutation, options_.near, random);
    if (space.Contains(child)) {
      if (!history.IsProposed(child)) return child;
      continue;
    }
    std::optional<Point> repaired = Mutated(space, child, 1, options_.near, kMutationTries, random);
    if (repaired.has_value() && !history.IsProposed(*repaired)) return repaired;
  }
  return std::nullopt;
}

void Genetic::Observed(const History& history, size_t observation, PhiloxStream& /*random*/) {
  ++since_better_;
  if (since_better_ > options_.patience) {
    population_.clear();
    since_better_ = 0;
  }
  if (!history.IsOk(observation)) return;
  const double value = history.ValueOf(observation);
  const auto place = std::upper_bound(population_.begin(), population_.end(), value,
                                      [&](double v, uint32_t other) { return v < history.ValueOf(other); });
  if (place == population_.begin()) since_better_ = 0;
  population_.insert(place, static_cast<uint32_t>(observation));
  if (population_.size() > static_cast<size_t>(options_.population)) population_.pop_back();
}

}  // namespace tunefarm
