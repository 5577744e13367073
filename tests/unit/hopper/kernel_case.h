// One config of the sm_90a kernels, compiled for the host, and what a test must know to run it on the machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tunefarm {

enum class Product { kForward, kDx, kDw };

// What the definitions have as a tensor map's box and swizzle.
struct BoxShape {
  uint32_t fast;
  uint32_t slow;
  int swizzle_bytes;
};

struct KernelProblem {
  const void* row_map;  // TensorMap
  const void* col_map;
  const void* out_map;
  const void* rows;
  const void* cols;
  void* out;
  const int* m_sizes;
  int group_ends;  // 1: m_sizes holds where groups end
  const int* gather_indices;
  const float* topk_weights;
  int experts;
  int n;
  int k;
  int topk;
  int band;
  // Of operands in fp8.
  const float* row_scales;
  const float* col_scales;
  int scale_row_stride;
  int scale_block_stride;
  // Of an output in fp8.
  float* out_scales;
  int out_scale_row_stride;
  int out_scale_block_stride;
};

struct KernelCase {
  std::string name;
  Product product;
  int element_bytes;  // of the operands: 2, or 1 in fp8, which have block scales
  int out_bytes;      // of an element of the output: 2, or 1 in fp8, which has block scales then
  bool gather_x;      // permute_x
  bool gather_y;      // permute_y
  bool multiply;
  int gate_up;  // 0: no; else W has gate and up: 1 all of gate first, 2 in blocks of 128 by turns
  int tile_rows;
  int tile_cols;
  int threads;
  int cluster;
  BoxShape row_box;
  BoxShape col_box;
  BoxShape out_box;
  int (*shared_bytes)(int experts);
  void (*run)(const KernelProblem& problem);  // As one thread of the machine.
  float (*operand_to_float)(uint16_t);
  uint16_t (*to_operand)(float);
  float (*to_float)(uint16_t);  // of the output
  uint16_t (*to_element)(float);
  float (*silu_multiply)(float gate, float up);
};

// All that were linked in.
std::vector<KernelCase>& KernelCases();

struct RegisterKernelCase {
  explicit RegisterKernelCase(const KernelCase& kernel) { KernelCases().push_back(kernel); }
};

}  // namespace tunefarm
