// The entries of the sm_90a path. roles.cuh has Element and TensorMap, of which the other files know.
//
// hopper_kernel.cuh has the design; hopper_layout.cuh, _tiles.cuh and _config.cuh what can be said without instructions
// of the GPU; hopper_ptx.cuh and _wgmma.cuh the instructions.
#pragma once

#include "roles.cuh"

#include "hopper_kernel.cuh"

#if defined(quantize_y)
extern "C" __global__ void __launch_bounds__(hopper::kThreads, 1)
    grouped_gemm_gate_up_fp8(const __grid_constant__ TensorMap x_map, const __grid_constant__ TensorMap w_map,
                             const Element* x, const Element* w, OutElement* y, const float* x_scales,
                             const float* w_scales, float* y_scales, const int* m_sizes, const int* gather_indices,
                             int rows, int experts, int n, int k, int topk, int group_size_m, int group_ends,
                             int scale_row_stride, int scale_block_stride, int y_scale_row_stride,
                             int y_scale_block_stride) {
  const GroupSizes sizes = {m_sizes, group_ends};
  hopper::Run({&x_map, &w_map, nullptr, x, w, y, sizes, gather_indices, nullptr, experts, n, k, topk, group_size_m,
               {x_scales, w_scales, scale_row_stride, scale_block_stride},
               {y_scales, y_scale_row_stride, y_scale_block_stride}});
}
#elif GROUPED_GEMM_OP == OP_FORWARD && defined(dtype_fp8)
extern "C" __global__ void __launch_bounds__(hopper::kThreads, 1)
    grouped_gemm_forward_fp8(const __grid_constant__ TensorMap x_map, const __grid_constant__ TensorMap w_map,
                             const __grid_constant__ TensorMap y_map, const Element* x, const Element* w, OutElement* y,
                             const float* x_scales, const float* w_scales, const int* m_sizes,
                             const int* gather_indices, const float* topk_weights, int rows, int experts, int n, int k,
                             int topk, int group_size_m, int group_ends, int scale_row_stride, int scale_block_stride) {
  const GroupSizes sizes = {m_sizes, group_ends};
  hopper::Run({&x_map, &w_map, &y_map, x, w, y, sizes, gather_indices, topk_weights, experts, n, k, topk, group_size_m,
               {x_scales, w_scales, scale_row_stride, scale_block_stride}});
}
#elif GROUPED_GEMM_OP == OP_FORWARD
extern "C" __global__ void __launch_bounds__(hopper::kThreads, 1)
    grouped_gemm_forward(const __grid_constant__ TensorMap x_map, const __grid_constant__ TensorMap w_map,
                         const __grid_constant__ TensorMap y_map, const Element* x, const Element* w, Element* y,
                         const int* m_sizes, const int* gather_indices, const float* topk_weights, int rows,
                         int experts, int n, int k, int topk, int group_size_m, int group_ends) {
  const GroupSizes sizes = {m_sizes, group_ends};
  hopper::Run(
      {&x_map, &w_map, &y_map, x, w, y, sizes, gather_indices, topk_weights, experts, n, k, topk, group_size_m});
}
#elif GROUPED_GEMM_OP == OP_DX
extern "C" __global__ void __launch_bounds__(hopper::kThreads, 1)
    grouped_gemm_dx(const __grid_constant__ TensorMap dy_map, const __grid_constant__ TensorMap w_map,
                    const __grid_constant__ TensorMap dx_map, const Element* dy, const Element* w, Element* dx,
                    const int* m_sizes, const int* gather_indices, int rows, int experts, int n, int k, int topk,
                    int group_size_m, int group_ends) {
  const GroupSizes sizes = {m_sizes, group_ends};
  hopper::Run({&dy_map, &w_map, &dx_map, dy, w, dx, sizes, gather_indices, nullptr, experts, n, k, topk, group_size_m});
}
#else
extern "C" __global__ void __launch_bounds__(hopper::kThreads, 1)
    grouped_gemm_dw(const __grid_constant__ TensorMap dy_map, const __grid_constant__ TensorMap x_map,
                    const __grid_constant__ TensorMap dw_map, const Element* dy, const Element* x, Element* dw,
                    const int* m_sizes, const int* gather_indices, int rows, int experts, int n, int k, int topk,
                    int group_size_m, int group_ends) {
  const GroupSizes sizes = {m_sizes, group_ends};
  hopper::Run({&dy_map, &x_map, &dw_map, dy, x, dw, sizes, gather_indices, nullptr, experts, n, k, topk, group_size_m});
}
#endif
