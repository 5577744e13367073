#include "server/search/annealing.h"

#include <algorithm>
#include <cmath>

#include "server/search/near_points.h"

namespace tunefarm {
namespace {

constexpr int kMovesMax = 40;
constexpr int kMoveTries = 20;
// A new walk begins from one of so many of the best.
constexpr size_t kRestartPool = 8;

}  // namespace

std::optional<Point> Annealing::Propose(const History& history, PhiloxStream& random) {
  if (!current_.has_value()) return std::nullopt;
  const auto from = history.PointOf(*current_);
  for (int i = 0; i < kMovesMax; ++i) {
    // Wider when everything near is done.
    const int changes = 1 + i / (kMovesMax / 4);
    std::optional<Point> moved = Mutated(history.space(), from, changes, options_.near, kMoveTries, random);
    if (moved.has_value() && !history.IsProposed(*moved)) return moved;
  }
  return std::nullopt;
}

void Annealing::Observed(const History& history, size_t observation, PhiloxStream& random) {
  temperature_ *= options_.cooling;
  if (temperature_ < options_.cold) {
    temperature_ = options_.hot;
    const size_t pool = std::min(history.elite().size(), kRestartPool);
    if (pool > 0) current_ = history.elite()[random.UniformInt(pool)];
  }
  if (!history.IsOk(observation)) return;
  if (!current_.has_value()) {
    current_ = observation;
    return;
  }
  const double worse = history.ValueOf(observation) - history.ValueOf(*current_);
  if (worse <= 0 || random.NextDouble() < std::exp(-worse / temperature_)) current_ = observation;
}

}  // namespace tunefarm
