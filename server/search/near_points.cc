#include "server/search/near_points.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <set>

#include "server/base/status_macros.h"

namespace tunefarm {
namespace {

constexpr int kPoolPerPoint = 16;
constexpr int kPoolMin = 128;
constexpr int kPoolMax = 2048;
// How far a near move goes, in ranks.
constexpr int kNearStepMax = 2;

void AddAnyValue(const SearchSpace& space, int parameter, int values_max, PhiloxStream& random, Point* point,
                 std::vector<Point>* out) {
  const auto at = static_cast<size_t>(parameter);
  const uint16_t own = (*point)[at];
  const int count = space.ValueCount(parameter);
  const int tries = std::min(count, values_max);
  for (int i = 0; i < tries; ++i) {
    const auto value = static_cast<uint16_t>(count <= values_max ? static_cast<uint64_t>(i)
                                                                 : random.UniformInt(static_cast<uint64_t>(count)));
    if (value == own) continue;
    (*point)[at] = value;
    if (space.Contains(*point)) out->push_back(*point);
  }
  (*point)[at] = own;
}

void AddNextValue(const SearchSpace& space, int parameter, int values_max, Point* point, std::vector<Point>* out) {
  const auto at = static_cast<size_t>(parameter);
  const uint16_t own = (*point)[at];
  const int rank = space.Rank(parameter, own);
  for (const int step : {-1, 1}) {
    for (int i = 1; i <= values_max; ++i) {
      const int other = rank + i * step;
      if (other < 0 || other >= space.ValueCount(parameter)) break;
      (*point)[at] = space.ValueAtRank(parameter, static_cast<uint16_t>(other));
      if (!space.Contains(*point)) continue;
      out->push_back(*point);
      break;
    }
  }
  (*point)[at] = own;
}

}  // namespace

uint16_t OtherValue(const SearchSpace& space, int parameter, uint16_t own, double near, PhiloxStream& random) {
  const int count = space.ValueCount(parameter);
  if (count > 3 && space.IsOrdered(parameter) && random.NextDouble() < near) {
    const int step = 1 + static_cast<int>(random.UniformInt(kNearStepMax));
    const bool up = random.UniformInt(2) == 1;
    const int rank = space.Rank(parameter, own);
    const int other = std::clamp(up ? rank + step : rank - step, 0, count - 1);
    if (other != rank) return space.ValueAtRank(parameter, static_cast<uint16_t>(other));
  }
  const auto value = static_cast<uint16_t>(random.UniformInt(static_cast<uint64_t>(count) - 1));
  return value >= own ? static_cast<uint16_t>(value + 1) : value;
}

std::vector<Point> NearPoints(const SearchSpace& space, std::span<const uint16_t> point, Moves moves, int values_max,
                              PhiloxStream& random) {
  std::vector<Point> out;
  Point moved(point.begin(), point.end());
  for (const int parameter : space.varying()) {
    if (moves == Moves::kNextValue && space.IsOrdered(parameter)) {
      AddNextValue(space, parameter, values_max, &moved, &out);
    } else {
      AddAnyValue(space, parameter, values_max, random, &moved, &out);
    }
  }
  return out;
}

std::vector<Point> NearestWithOtherValues(const SearchSpace& space, std::span<const uint16_t> point,
                                          PhiloxStream& random) {
  if (!space.is_listed()) return {};
  struct Nearest {
    int distance = std::numeric_limits<int>::max();
    uint64_t ties = 0;
    uint64_t row = 0;
  };
  const std::vector<int>& varying = space.varying();
  std::vector<std::vector<Nearest>> nearest(point.size());
  for (const int parameter : varying) {
    nearest[static_cast<size_t>(parameter)].resize(static_cast<size_t>(space.ValueCount(parameter)));
  }
  std::vector<size_t> differing;
  for (uint64_t row = 0; row < space.size(); ++row) {
    const std::span<const uint16_t> other = space.Row(row);
    differing.clear();
    for (const int parameter : varying) {
      const auto at = static_cast<size_t>(parameter);
      if (other[at] != point[at]) differing.push_back(at);
    }
    const int distance = static_cast<int>(differing.size());
    for (const size_t at : differing) {
      Nearest& best = nearest[at][other[at]];
      if (distance > best.distance) continue;
      best.ties = distance < best.distance ? 1 : best.ties + 1;
      // Each of the ties with the same probability.
      if (best.ties == 1 || random.UniformInt(best.ties) == 0) best.row = row;
      best.distance = distance;
    }
  }
  std::set<uint64_t> rows;
  for (const std::vector<Nearest>& values : nearest) {
    for (const Nearest& best : values) {
      if (best.ties > 0 && best.distance > 1) rows.insert(best.row);
    }
  }
  std::vector<Point> out;
  for (const uint64_t row : rows) {
    const std::span<const uint16_t> found = space.Row(row);
    out.emplace_back(found.begin(), found.end());
  }
  return out;
}

std::optional<Point> Mutated(const SearchSpace& space, std::span<const uint16_t> point, int changes, double near,
                             int tries, PhiloxStream& random) {
  const std::vector<int>& varying = space.varying();
  if (varying.empty()) return std::nullopt;
  std::vector<int> order = varying;
  for (int i = 0; i < tries; ++i) {
    // Rules that tie parameters to each other leave no neighbour one step away: widen.
    const int wanted = changes + i * 2 / std::max(tries, 1);
    const auto count = static_cast<size_t>(std::min<int>(wanted, static_cast<int>(varying.size())));
    Point moved(point.begin(), point.end());
    for (size_t c = 0; c < count; ++c) {
      std::swap(order[c], order[c + random.UniformInt(order.size() - c)]);
      const int parameter = order[c];
      uint16_t& value = moved[static_cast<size_t>(parameter)];
      value = OtherValue(space, parameter, value, near, random);
    }
    if (space.Contains(moved)) return moved;
  }
  return std::nullopt;
}

absl::StatusOr<std::vector<Point>> LatinHypercube(const SearchSpace& space, int n, PhiloxStream& random) {
  const int pool_size = std::clamp(n * kPoolPerPoint, kPoolMin, kPoolMax);
  std::vector<Point> pool;
  for (int i = 0; i < pool_size; ++i) {
    ASSIGN_OR_RETURN(Point point, space.Sample(random));
    pool.push_back(std::move(point));
  }
  const std::vector<int>& varying = space.varying();
  // Of each parameter a permutation of n strata.
  std::vector<std::vector<int>> strata(varying.size(), std::vector<int>(static_cast<size_t>(n)));
  for (std::vector<int>& order : strata) {
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.UniformInt(i)]);
  }
  std::vector<Point> chosen;
  std::set<Point> seen;
  for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
    const Point* nearest = nullptr;
    double least = std::numeric_limits<double>::infinity();
    for (const Point& point : pool) {
      double distance = 0;
      for (size_t v = 0; v < varying.size(); ++v) {
        const int parameter = varying[v];
        const double wanted = (strata[v][i] + 0.5) / n;
        const double count = space.ValueCount(parameter);
        const double own = (space.Rank(parameter, point[static_cast<size_t>(parameter)]) + 0.5) / count;
        distance += std::abs(wanted - own);
      }
      if (distance < least && !seen.contains(point)) {
        least = distance;
        nearest = &point;
      }
    }
    if (nearest == nullptr) break;
    seen.insert(*nearest);
    chosen.push_back(*nearest);
  }
  return chosen;
}

}  // namespace tunefarm
