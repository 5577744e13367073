// Y = X * W^T for each expert's rows. See README.md.
#define GROUPED_GEMM_OP OP_FORWARD
#include "roles.cuh"

#if defined(path_hopper)
#include "hopper.cuh"
#else
#include "portable.cuh"

extern "C" __global__ void __launch_bounds__(kThreads, min_blocks)
    grouped_gemm_forward(const Element* __restrict__ x, const Element* __restrict__ w, Element* __restrict__ y,
                         const int* __restrict__ m_sizes, const int* __restrict__ gather_indices,
                         const float* __restrict__ topk_weights, int /*rows*/, int experts, int n, int k, int topk,
                         int group_size_m, int group_ends) {
  MultiplyGroups({x, w, y, gather_indices, topk_weights, n, k, topk}, {m_sizes, group_ends}, experts, group_size_m);
}
#endif

#include "baseline.cuh"
#include "reference.cuh"
#include "routing.cuh"
