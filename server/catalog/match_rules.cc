#include "server/catalog/match_rules.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace tunefarm {

using tunefarm::v1::BestConfig;

namespace {

size_t BucketOf(const tunefarm::v1::Dim& dim, int64_t value) {
  return static_cast<size_t>(std::lower_bound(dim.bucket_bounds().begin(), dim.bucket_bounds().end(), value) -
                             dim.bucket_bounds().begin());
}

constexpr double kDistanceMax = 4;

}  // namespace

bool IsStale(const CatalogQuery& query, const BestConfig& best) {
  const auto differs = [](std::string_view asked, std::string_view measured) {
    return !asked.empty() && !measured.empty() && asked != measured;
  };
  return differs(query.driver_version, best.driver_version()) || differs(query.toolkit_version, best.toolkit_version());
}

std::optional<double> DimDistance(const tunefarm::v1::Dim& dim, int64_t asked, int64_t tuned) {
  if (asked == tuned) return 0;
  const double octaves =
      asked > 0 && tuned > 0 ? std::abs(std::log2(static_cast<double>(asked) / static_cast<double>(tuned))) : -1;
  switch (dim.lookup()) {
    case tunefarm::v1::LOOKUP_RULE_LOG:
      return octaves >= 0 ? std::make_optional(octaves) : std::nullopt;
    case tunefarm::v1::LOOKUP_RULE_BUCKET:
      return BucketOf(dim, asked) == BucketOf(dim, tuned) ? std::make_optional(0.0) : std::nullopt;
    case tunefarm::v1::LOOKUP_RULE_NEXT_POWER_OF_TWO: {
      if (octaves < 0 || tuned < asked) return std::nullopt;
      const bool is_within = static_cast<uint64_t>(tuned) <= std::bit_ceil(static_cast<uint64_t>(asked));
      return is_within ? std::make_optional(octaves) : std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

double FarthestShape(const tunefarm::v1::Kernel& kernel) {
  return kernel.has_lookup_distance_max() ? kernel.lookup_distance_max() : kDistanceMax;
}

std::optional<double> ShapeDistance(const KernelPlan& plan, const Config& asked, const Config& tuned) {
  if (asked.size() != tuned.size()) return std::nullopt;
  double distance = 0;
  for (const auto& [name, a] : asked) {
    const Value* b = tuned.Find(name);
    if (b == nullptr) return std::nullopt;
    if (a == *b) continue;
    const tunefarm::v1::Dim* dim = nullptr;
    for (const auto& candidate : plan.kernel().dims()) {
      if (candidate.name() == name) dim = &candidate;
    }
    if (dim == nullptr || !a.is_int() || !b->is_int()) return std::nullopt;
    const std::optional<double> own = DimDistance(*dim, a.int_value(), b->int_value());
    if (!own) return std::nullopt;
    distance += *own;
  }
  return distance <= FarthestShape(plan.kernel()) ? std::make_optional(distance) : std::nullopt;
}

bool Acceptance::Accepts(const BestConfig& best) {
  const auto config = query_.plan->ParseConfig(best.config());
  return config.ok() && Accepts(*config);
}

bool Acceptance::Accepts(const Config& config) {
  for (const auto& [name, value] : query_.problem->pinned) {
    const Value* own = config.Find(name);
    if (own == nullptr || !(*own == value)) return false;
  }
  if (!tried_) {
    tried_ = true;
    auto space = query_.plan->BuildSpace(*query_.problem, *query_.device_class);
    if (space.ok()) space_ = *std::move(space);
  }
  return space_.has_value() && space_->Contains(config);
}

}  // namespace tunefarm
