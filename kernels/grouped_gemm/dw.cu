// dW = dY^T * X for each expert's rows. See README.md.
#define GROUPED_GEMM_OP OP_DW
#include "roles.cuh"

#if defined(path_hopper)
#include "hopper.cuh"
#else
#include "portable.cuh"

extern "C" __global__ void __launch_bounds__(kThreads, min_blocks)
    grouped_gemm_dw(const Element* __restrict__ dy, const Element* __restrict__ x, Element* __restrict__ dw,
                    const int* __restrict__ m_sizes, const int* __restrict__ gather_indices, int /*rows*/, int experts,
                    int n, int k, int topk, int group_size_m, int group_ends) {
  MultiplyGroups({dy, x, dw, gather_indices, nullptr, n, k, topk}, {m_sizes, group_ends}, experts, group_size_m);
}
#endif

#include "baseline.cuh"
#include "reference.cuh"
#include "routing.cuh"
