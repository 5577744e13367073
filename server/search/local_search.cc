#include "server/search/local_search.h"

#include <algorithm>

#include "server/search/near_points.h"

namespace tunefarm {
namespace {

constexpr int kNeighbourValuesMax = 16;
constexpr int kPerturbTries = 50;

}  // namespace

std::vector<Point> LocalSearch::Open(const History& history) const {
  // The same neighbours each time it is asked of the same point, also of parameters with very many values.
  PhiloxStream same(*current_);
  std::vector<Point> near =
      NearPoints(history.space(), history.PointOf(*current_), Moves::kAnyValue, kNeighbourValuesMax, same);
  std::erase_if(near, [&](const Point& point) { return history.IsProposed(point); });
  return near;
}

std::optional<Point> LocalSearch::Propose(const History& history, PhiloxStream& random) {
  if (current_.has_value()) {
    std::vector<Point> open = Open(history);
    if (!open.empty()) return std::move(open[random.UniformInt(open.size())]);
  }
  if (!history.elite().empty() && random.NextDouble() < options_.perturbation) {
    std::optional<Point> start =
        Mutated(history.space(), history.PointOf(history.elite()[0]), options_.perturbed, 0.5, kPerturbTries, random);
    if (start.has_value() && !history.IsProposed(*start)) return start;
  }
  return std::nullopt;
}

void LocalSearch::Proposed(const History& history, std::span<const uint16_t> /*point*/) {
  // What is proposed when no neighbour is left is a new start.
  if (current_.has_value() && Open(history).empty()) current_.reset();
}

void LocalSearch::Observed(const History& history, size_t observation, PhiloxStream& /*random*/) {
  if (!history.IsOk(observation)) return;
  if (current_.has_value()) {
    if (history.ValueOf(observation) < history.ValueOf(*current_)) current_ = observation;
    return;
  }
  current_ = observation;
}

}  // namespace tunefarm
