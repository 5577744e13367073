// One compiled configuration of a grouped product, as emulated_case.cc registers it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/unit/grouped_gemm/emulated_block.h"

namespace tunefarm::emulated {

enum class Op { kForward = 1, kDx = 2, kDw = 3 };

struct Call {
  // a and b are the operands in the order of the kernel's arguments, c the output.
  const uint16_t* a = nullptr;
  const uint16_t* b = nullptr;
  uint16_t* c = nullptr;
  const int* m_sizes = nullptr;
  const int* gather_indices = nullptr;
  const float* topk_weights = nullptr;
  int rows = 0, experts = 0, n = 0, k = 0, topk = 1, group_size_m = 8, group_ends = 0;
};

struct Case {
  std::string name;
  Op op;
  bool permutes_x, permutes_y, multiplies, is_bf16, is_persistent;
  int tile_m, tile_n, tile_k, threads;
  int operand_bytes, staged_bytes;  // of shared memory, the table of groups apart
  void (*run)(const Call& call, unsigned blocks, size_t shared_bytes, const Schedule& schedule);
  void (*run_reference)(const Call& call, Extent grid);
  // Fills experts_of_rows, m_sizes, row_counts and, if the case permutes, gather_indices of the call's sizes.
  void (*run_routing)(const Call& call, const unsigned (&random)[4], const int (&sizes)[8], int* experts_of_rows,
                      int* m_sizes, int* row_counts, int* gather_indices);
};

std::vector<Case>& Cases();

struct Registration {
  explicit Registration(Case registered) { Cases().push_back(std::move(registered)); }
};

}  // namespace tunefarm::emulated
