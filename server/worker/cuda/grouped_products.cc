#include "server/worker/cuda/grouped_products.h"

#include <fmt/core.h>

#include <limits>

namespace tunefarm::cuda {
namespace {

constexpr int64_t kExtentMax = std::numeric_limits<int>::max();

Failure Refuse(std::string message) { return {v1::OUTCOME_LOAD_ERROR, std::move(message)}; }

bool Fits(int64_t value) { return value >= 1 && value <= kExtentMax; }

}  // namespace

Failure PlanGroupedProducts(const StepPlan& step, const std::vector<int64_t>& sizes, const GroupedExtents& extents,
                            GroupedProducts* grouped) {
  const bool divides_rows = step.library_op.m().empty();
  const int64_t fixed = divides_rows ? step.k : step.m;
  if (!Fits(step.n) || !Fits(fixed)) {
    return Refuse(fmt::format("cuBLAS takes sizes from 1 to 2^31-1, but the products' are {} and {}.", step.n, fixed));
  }
  double total = 0;  // double: sums of hostile sizes must not wrap
  for (size_t group = 0; group < sizes.size(); ++group) {
    if (sizes[group] < 0 || sizes[group] > kExtentMax) {
      return Refuse(fmt::format("Group {} has the size {}.", group, sizes[group]));
    }
    total += static_cast<double>(sizes[group]);
  }
  const double count = static_cast<double>(sizes.size());
  const double n = static_cast<double>(step.n), other = static_cast<double>(fixed);
  const bool holds = total * other <= static_cast<double>(extents.a) &&
                     (divides_rows ? count * other : total) * n <= static_cast<double>(extents.b) &&
                     (divides_rows ? total : count * other) * n <= static_cast<double>(extents.c);
  if (!holds) return Refuse("A buffer of the library operation is smaller than its groups' matrices.");

  const auto columns = static_cast<uint64_t>(step.n), extent = static_cast<uint64_t>(fixed);
  *grouped = {};
  uint64_t before = 0;
  for (size_t group = 0; group < sizes.size(); ++group) {
    const auto size = static_cast<uint64_t>(sizes[group]);
    GroupProduct product;
    product.n = static_cast<int>(step.n);
    product.a = before * extent;
    if (divides_rows) {
      product.m = static_cast<int>(size);
      product.k = static_cast<int>(fixed);
      product.b = group * extent * columns;
      product.c = before * columns;
    } else {
      product.m = static_cast<int>(fixed);
      product.k = static_cast<int>(size);
      product.b = before * columns;
      product.c = group * extent * columns;
    }
    before += size;
    if (size > 0) {
      grouped->products.push_back(product);
    } else if (!divides_rows) {
      grouped->zeros.push_back({product.c, extent * columns});
    }
  }
  return {};
}

}  // namespace tunefarm::cuda
