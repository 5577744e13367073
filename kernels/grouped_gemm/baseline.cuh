// What a library needs around its products, because it can neither gather nor scatter: copies of rows. Only baselines
// use them.
#pragma once

#include "roles.cuh"

// target[r] = source[gather_indices[r] / divisor] for rows of `width` elements. One block of 128 threads for each row.
extern "C" __global__ void __launch_bounds__(128)
    grouped_gemm_gather_rows(const Element* source, Element* target, const int* gather_indices, int width,
                             int divisor) {
  const long long row = static_cast<long long>(blockIdx.x);
  const long long from = gather_indices[row] / divisor;
  const uint4* const chunks = reinterpret_cast<const uint4*>(source + from * width);
  for (int i = static_cast<int>(threadIdx.x); i < width / kChunkElements; i += 128) {
    reinterpret_cast<uint4*>(target + row * width)[i] = chunks[i];
  }
}

#if GROUPED_GEMM_OP == OP_FORWARD
// target[gather_indices[r]] = source[r], multiplied with the target row's weight if that is part of the kernel.
extern "C" __global__ void __launch_bounds__(128)
    grouped_gemm_scatter_rows(const Element* source, Element* target, const int* gather_indices, int width,
                              const float* topk_weights) {
  const long long row = static_cast<long long>(blockIdx.x);
  const long long to = gather_indices[row];
  for (int i = static_cast<int>(threadIdx.x); i < width; i += 128) {
    const Element value = source[row * width + i];
    target[to * width + i] = kFuseMultiply ? ToElement(MultiplyRounded(ToFloat(value), topk_weights[to])) : value;
  }
}
#elif GROUPED_GEMM_OP == OP_DX
// target[gather_indices[r]] = source[r].
extern "C" __global__ void __launch_bounds__(128)
    grouped_gemm_scatter_rows(const Element* source, Element* target, const int* gather_indices, int width) {
  const long long row = static_cast<long long>(blockIdx.x);
  const long long to = gather_indices[row];
  for (int i = static_cast<int>(threadIdx.x); i < width / kChunkElements; i += 128) {
    reinterpret_cast<uint4*>(target + to * width)[i] = reinterpret_cast<const uint4*>(source + row * width)[i];
  }
}
#endif
