#include "server/search/pack_search.h"

#include <algorithm>

#include "server/search/near_points.h"

namespace tunefarm {
namespace {

constexpr int kFollowersMax = 60;
constexpr int kRepairTries = 20;
constexpr uint64_t kLeaders = 3;

}  // namespace

std::optional<Point> PackSearch::Propose(const History& history, PhiloxStream& random) {
  if (pack_.size() < static_cast<size_t>(options_.pack) / 2 || pack_.size() < kLeaders) return std::nullopt;
  const SearchSpace& space = history.space();
  // From 1 when something better was just found to 0.2 when the pack is about to be driven apart.
  const double apart = 1 - 0.8 * std::min(1.0, static_cast<double>(since_better_) / options_.patience);
  for (int i = 0; i < kFollowersMax; ++i) {
    const auto member = history.PointOf(pack_[random.UniformInt(pack_.size())]);
    Point follower(member.begin(), member.end());
    for (const int parameter : space.varying()) {
      const auto at = static_cast<size_t>(parameter);
      if (random.NextDouble() < options_.follow) {
        follower[at] = history.PointOf(pack_[random.UniformInt(kLeaders)])[at];
      }
      // Many refusals: everything near is taboo, go further.
      const double wander = options_.wander * apart * (1 + i * 4.0 / kFollowersMax);
      if (random.NextDouble() < wander) follower[at] = OtherValue(space, parameter, follower[at], 0.5, random);
    }
    if (space.Contains(follower)) {
      if (!history.IsProposed(follower)) return follower;
      continue;
    }
    std::optional<Point> repaired = Mutated(space, follower, 1, 0.5, kRepairTries, random);
    if (repaired.has_value() && !history.IsProposed(*repaired)) return repaired;
  }
  return std::nullopt;
}

void PackSearch::Observed(const History& history, size_t observation, PhiloxStream& /*random*/) {
  if (++since_better_ > options_.patience) {
    since_better_ = 0;
    // The best stays and leads the new pack.
    if (pack_.size() > 1) pack_.resize(1);
  }
  if (!history.IsOk(observation)) return;
  const double value = history.ValueOf(observation);
  const auto place = std::upper_bound(pack_.begin(), pack_.end(), value,
                                      [&](double v, uint32_t other) { return v < history.ValueOf(other); });
  if (place == pack_.begin()) since_better_ = 0;
  pack_.insert(place, static_cast<uint32_t>(observation));
  if (pack_.size() > static_cast<size_t>(options_.pack)) pack_.pop_back();
}

}  // namespace tunefarm
