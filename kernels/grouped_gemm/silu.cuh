// The activation of gate and up apart from their product: the baseline's second kernel.
#pragma once

#include "reference.cuh"

// Row r of `products` has gate and up, as many columns as W has rows; row r of `y`, or with permute_y row
// gather_indices[r], has half as many. Launched with a block for each row.
extern "C" __global__ void __launch_bounds__(256)
    grouped_gemm_silu_multiply(const Element* products, Element* y, const int* gather_indices, int n) {
  const long long row = blockIdx.x;
  const long long to = kPermuteY ? gather_indices[row] : row;
  const int columns = n / 2;
  for (int pair = static_cast<int>(threadIdx.x); pair < columns / 2; pair += static_cast<int>(blockDim.x)) {
    const int column = pair * 2;
    const unsigned gate = *reinterpret_cast<const unsigned*>(products + row * n + GateRow(column));
    const unsigned up = *reinterpret_cast<const unsigned*>(products + row * n + UpRow(column, n));
    const float low = SiluMultiplyExactly(ToFloat(static_cast<Element>(gate)), ToFloat(static_cast<Element>(up)));
    const float high =
        SiluMultiplyExactly(ToFloat(static_cast<Element>(gate >> 16)), ToFloat(static_cast<Element>(up >> 16)));
    *reinterpret_cast<unsigned*>(y + to * columns + column) = PackElements(low, high);
  }
}
