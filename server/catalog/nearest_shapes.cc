#include "server/catalog/nearest_shapes.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "server/catalog/match_rules.h"
#include "server/definition/lookup_rules.h"

namespace tunefarm {

NearestShapes::NearestShapes(const KernelPlan& plan, const ShapeIndex& index, PlacedShape asked)
    : asked_(std::move(asked)), shapes_(index.Group(asked_.group)), farthest_(LookupDistanceMax(plan.kernel())) {
  bool has_product = false;
  for (const ScalingDim& scaling : index.scaling_dims()) {
    const bool is_factor = scaling.kind == ScalingDim::Kind::kFactor;
    const bool is_placed = scaling.kind != ScalingDim::Kind::kIgnored && !(is_factor && has_product);
    has_product |= is_factor;
    for (const auto& dim : plan.kernel().dims()) {
      if (dim.name() == scaling.name) dims_.push_back(is_placed ? &dim : nullptr);
    }
  }
  if (!shapes_.empty()) Enter(0, 0, 0, shapes_.size());
}

std::vector<const CatalogEntry*> NearestShapes::Next() {
  std::vector<const CatalogEntry*> found;
  double distance = 0;
  while (!open_.empty() && (found.empty() || open_.top().distance == distance)) {
    const Open open = open_.top();
    open_.pop();
    distance = open.distance;
    if (open.dim == dims_.size()) {
      for (size_t shape = open.begin; shape < open.end; ++shape) found.push_back(shapes_[shape]->entry.get());
      continue;
    }
    const int64_t value = Value(open.downwards ? open.end - 1 : open.begin, open.dim);
    const size_t begin = FirstFrom(value, open.dim, open.begin, open.end);
    const size_t end = FirstAfter(value, open.dim, begin, open.end);
    Open next = open;
    (open.downwards ? next.end : next.begin) = open.downwards ? begin : end;
    Push(next);
    Enter(open.distance, open.dim + 1, begin, end);
  }
  return found;
}

void NearestShapes::Enter(double before, size_t dim, size_t begin, size_t end) {
  while (dim < dims_.size() && dims_[dim] == nullptr) ++dim;
  if (dim == dims_.size()) {
    open_.push({before, before, dim, begin, end, false});
    return;
  }
  const size_t middle = FirstFrom(asked_.values[dim], dim, begin, end);
  Push({0, before, dim, middle, end, false});
  Push({0, before, dim, begin, middle, true});
}

void NearestShapes::Push(Open open) {
  if (open.begin == open.end) return;
  open.distance = open.before + Distance(open.dim, Value(open.downwards ? open.end - 1 : open.begin, open.dim));
  if (open.distance <= farthest_) open_.push(open);
}

size_t NearestShapes::FirstFrom(int64_t value, size_t dim, size_t begin, size_t end) const {
  const auto first = shapes_.begin();
  const auto found = std::partition_point(first + static_cast<ptrdiff_t>(begin), first + static_cast<ptrdiff_t>(end),
                                          [&](const auto& shape) { return shape->values[dim] < value; });
  return static_cast<size_t>(found - first);
}

size_t NearestShapes::FirstAfter(int64_t value, size_t dim, size_t begin, size_t end) const {
  const auto first = shapes_.begin();
  const auto found = std::partition_point(first + static_cast<ptrdiff_t>(begin), first + static_cast<ptrdiff_t>(end),
                                          [&](const auto& shape) { return shape->values[dim] <= value; });
  return static_cast<size_t>(found - first);
}

double NearestShapes::Distance(size_t dim, int64_t value) const {
  return DimDistance(*dims_[dim], asked_.values[dim], value).value_or(std::numeric_limits<double>::infinity());
}

}  // namespace tunefarm
