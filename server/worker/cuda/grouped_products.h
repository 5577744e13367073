// What one grouped library operation is made of: a product for each group that has one, and what must be set to zero
// for the others. Pure arithmetic on sizes.
#pragma once

#include <cstdint>
#include <vector>

#include "server/definition/kernel_plan.h"
#include "server/worker/verify/failure.h"

namespace tunefarm::cuda {

// C (m x n) = A (m x k) * B (k x n). a, b and c are offsets in elements.
struct GroupProduct {
  int m = 0, n = 0, k = 0;
  uint64_t a = 0, b = 0, c = 0;
};

struct ElementRange {
  uint64_t offset = 0, elements = 0;
};

struct GroupedProducts {
  std::vector<GroupProduct> products;
  std::vector<ElementRange> zeros;  // of C
};

// How many elements each buffer has.
struct GroupedExtents {
  uint64_t a = 0, b = 0, c = 0;
};

// `step` is a GEMM_LOOP or GEMM_GROUPED whose m or k is left out (0): the groups divide that one. LOAD_ERROR with one
// sentence for a size that is negative, or when a buffer is smaller than the groups' matrices.
Failure PlanGroupedProducts(const StepPlan& step, const std::vector<int64_t>& sizes, const GroupedExtents& extents,
                            GroupedProducts* grouped);

}  // namespace tunefarm::cuda
