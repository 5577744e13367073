// One configuration of a grouped product for the CPU. Compiled once for each, with the macros that the tuner would
// define, CASE_SOURCE for the kernel's file, CASE_ROUTING for how its rows are drawn, and CASE_NAME and CASE_SYMBOL for
// what tests and the linker call it.
#include "tests/unit/grouped_gemm/emulated_case.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "tests/unit/grouped_gemm/emulated_primitives.h"

// Functions with C linkage are the same in every namespace: each configuration needs names of its own.
#define CASE_JOIN_EXPANDED(name, number) name##_##number
#define CASE_JOIN(name, number) CASE_JOIN_EXPANDED(name, number)
#define grouped_gemm_forward CASE_JOIN(forward, CASE_SYMBOL)
#define grouped_gemm_dx CASE_JOIN(dx, CASE_SYMBOL)
#define grouped_gemm_dw CASE_JOIN(dw, CASE_SYMBOL)
#define grouped_gemm_forward_reference CASE_JOIN(forward_reference, CASE_SYMBOL)
#define grouped_gemm_dx_reference CASE_JOIN(dx_reference, CASE_SYMBOL)
#define grouped_gemm_dw_reference CASE_JOIN(dw_reference, CASE_SYMBOL)
#define grouped_gemm_route CASE_JOIN(route, CASE_SYMBOL)
#define grouped_gemm_sort CASE_JOIN(sort, CASE_SYMBOL)
#define grouped_gemm_gather_rows CASE_JOIN(gather_rows, CASE_SYMBOL)
#define grouped_gemm_scatter_rows CASE_JOIN(scatter_rows, CASE_SYMBOL)

namespace {
#include CASE_SOURCE

namespace emulated = tunefarm::emulated;

void Run(const emulated::Call& call, unsigned blocks, size_t shared_bytes, const emulated::Schedule& schedule) {
  emulated::RunGrid({blocks}, {kThreads}, shared_bytes, schedule, [&call] {
#if GROUPED_GEMM_OP == OP_FORWARD
    grouped_gemm_forward(call.a, call.b, call.c, call.m_sizes, call.gather_indices, call.topk_weights, call.rows,
                         call.experts, call.n, call.k, call.topk, call.group_size_m, call.group_ends);
#elif GROUPED_GEMM_OP == OP_DX
    grouped_gemm_dx(call.a, call.b, call.c, call.m_sizes, call.gather_indices, call.rows, call.experts, call.n, call.k,
                    call.topk, call.group_size_m, call.group_ends);
#else
    grouped_gemm_dw(call.a, call.b, call.c, call.m_sizes, call.gather_indices, call.rows, call.experts, call.n, call.k,
                    call.topk, call.group_size_m, call.group_ends);
#endif
  });
}

void RunReference(const emulated::Call& call, emulated::Extent grid) {
  emulated::RunGrid(grid, {16, 16}, 16, {}, [&call] {
#if GROUPED_GEMM_OP == OP_FORWARD
    grouped_gemm_forward_reference(call.a, call.b, call.c, call.m_sizes, call.gather_indices, call.topk_weights,
                                   call.experts, call.n, call.k, call.topk, call.group_ends);
#elif GROUPED_GEMM_OP == OP_DX
    grouped_gemm_dx_reference(call.a, call.b, call.c, call.m_sizes, call.gather_indices, call.experts, call.n, call.k,
                              call.group_ends);
#else
    grouped_gemm_dw_reference(call.a, call.b, call.c, call.m_sizes, call.gather_indices, call.n, call.k, call.topk,
                              call.group_ends);
#endif
  });
}

// The number that the definition gives the routing.
int RoutingNumber(std::string_view name) {
  constexpr std::string_view kNames[] = {"balanced", "zipf", "one_empty", "half_on_one", "explicit"};
  return static_cast<int>(std::find(std::begin(kNames), std::end(kNames), name) - std::begin(kNames));
}

void RunRouting(const emulated::Call& call, const unsigned (&random)[4], const int (&sizes)[8], int* experts_of_rows,
                int* m_sizes, int* row_counts, int* gather_indices) {
  emulated::RunGrid({static_cast<unsigned>(CeilDiv(call.rows, 256))}, {256}, 16, {}, [&] {
    grouped_gemm_route(random, experts_of_rows, call.rows, call.experts, RoutingNumber(CASE_ROUTING), sizes[0],
                       sizes[1], sizes[2], sizes[3], sizes[4], sizes[5], sizes[6], sizes[7]);
  });
  emulated::RunGrid({static_cast<unsigned>(call.experts)}, {256}, 16, {}, [&] {
    grouped_gemm_sort(experts_of_rows, m_sizes, row_counts, gather_indices, call.rows, call.group_ends);
  });
}

#if defined(dtype_bf16)
constexpr bool kIsBf16 = true;
#else
constexpr bool kIsBf16 = false;
#endif

const emulated::Registration kRegistration({CASE_NAME, static_cast<emulated::Op>(GROUPED_GEMM_OP), kPermuteX, kPermuteY,
                                            kFuseMultiply, kIsBf16, persistent != 0, kTileM, kTileN, kTileK, kThreads,
                                            kOperandBytes, kStagedBytes, Run, RunReference, RunRouting});

}  // namespace
