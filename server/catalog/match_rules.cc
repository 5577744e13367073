#include "server/catalog/match_rules.h"

#include <fmt/core.h>

#include <string>
#include <utility>

#include "server/base/hash.h"
#include "server/definition/lookup_rules.h"

namespace tunefarm {

using tunefarm::v1::BestConfig;

namespace {

const tunefarm::v1::Dim* FindDim(const KernelPlan& plan, const std::string& name) {
  for (const auto& dim : plan.kernel().dims()) {
    if (dim.name() == name) return &dim;
  }
  return nullptr;
}

// Calls `differ` with the dim (null: the kernel has none of the name) and both values wherever problems differ in more
// than what describes inputs; a value is null where its problem lacks the dim. Ends with false where `differ` does.
template <typename Differ>
bool CompareDims(const KernelPlan& plan, const Config& asked, const Config& tuned, const Differ& differ) {
  for (const auto& [name, value] : asked) {
    const Value* const other = tuned.Find(name);
    if (other != nullptr && value == *other) continue;
    const tunefarm::v1::Dim* const dim = FindDim(plan, name);
    if (dim != nullptr && dim->inputs_only()) continue;
    if (!differ(dim, &value, other)) return false;
  }
  for (const auto& [name, value] : tuned) {
    if (asked.Find(name) != nullptr) continue;
    const tunefarm::v1::Dim* const dim = FindDim(plan, name);
    if (dim != nullptr && dim->inputs_only()) continue;
    if (!differ(dim, nullptr, &value)) return false;
  }
  return true;
}

// Of the PRODUCT dims, which are positive.
int64_t ProductOf(const KernelPlan& plan, const Config& dims) {
  int64_t product = 1;
  for (const auto& dim : plan.kernel().dims()) {
    if (dim.lookup() != tunefarm::v1::LOOKUP_RULE_PRODUCT) continue;
    const Value* const value = dims.Find(dim.name());
    if (value != nullptr && value->is_int() && value->int_value() > 0) {
      product = BoundedProduct(product, value->int_value());
    }
  }
  return product;
}

}  // namespace

uint64_t ConditionsOf(const BestConfig& best) {
  return Xxh3(fmt::format("{}\n{}\n{}", best.driver_version(), best.toolkit_version(), best.headers()));
}

bool IsStale(const CatalogQuery& query, const BestConfig& best) {
  const auto differs = [](std::string_view asked, std::string_view measured) {
    return !asked.empty() && !measured.empty() && asked != measured;
  };
  if (differs(query.driver_version, best.driver_version())) return true;
  if (differs(query.toolkit_version, best.toolkit_version())) return true;
  return best.headers() != 0 && query.headers != nullptr && query.headers->HaveChanged(best.headers());
}

std::optional<double> DimDistance(const tunefarm::v1::Dim& dim, int64_t asked, int64_t tuned) {
  const auto& bounds = dim.bucket_bounds();
  return DimDistance(dim.lookup(), {bounds.data(), static_cast<size_t>(bounds.size())}, asked, tuned);
}

std::optional<double> ShapeDistance(const KernelPlan& plan, const Config& asked, const Config& tuned) {
  double distance = 0;
  const tunefarm::v1::Dim* factor = nullptr;
  const bool answers =
      CompareDims(plan, asked, tuned, [&](const tunefarm::v1::Dim* dim, const Value* a, const Value* b) {
        if (dim == nullptr || a == nullptr || b == nullptr || !a->is_int() || !b->is_int()) return false;
        if (dim->lookup() == tunefarm::v1::LOOKUP_RULE_PRODUCT) {
          factor = dim;
          return a->int_value() > 0 && b->int_value() > 0;
        }
        const std::optional<double> own = DimDistance(*dim, a->int_value(), b->int_value());
        distance += own.value_or(0);
        return own.has_value();
      });
  if (!answers) return std::nullopt;
  if (factor != nullptr) distance += DimDistance(*factor, ProductOf(plan, asked), ProductOf(plan, tuned)).value_or(0);
  return distance <= LookupDistanceMax(plan.kernel()) ? std::make_optional(distance) : std::nullopt;
}

bool DifferInInputsOnly(const KernelPlan& plan, const Config& asked, const Config& tuned) {
  return CompareDims(plan, asked, tuned, [](const tunefarm::v1::Dim*, const Value*, const Value*) { return false; });
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
