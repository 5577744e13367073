// Compiled once for each config of CMakeLists.txt, with the macros that the tuner would define.
#include "tests/unit/hopper/kernel_case.h"

#include "tests/unit/hopper/machine.h"

namespace tunefarm::TUNEFARM_CASE {

#define OP_FORWARD 1
#define OP_DX 2
#define OP_DW 3
#if !defined(fuse_mul_post)
#define fuse_mul_post 0
#endif

#if defined(dtype_fp8)
using Element = unsigned char;
#else
using Element = unsigned short;
#endif
#if defined(quantize_y)
using OutElement = Element;
#else
using OutElement = unsigned short;
#endif
struct alignas(64) TensorMap {
  unsigned long long words[16];
};

#define HOPPER_INSTRUCTIONS "tests/unit/hopper/instructions.h"
#include "kernels/grouped_gemm/hopper_kernel.cuh"

namespace {

// What the definition reserves for as many experts as a drawn config's problem has.
#if defined(TUNEFARM_SHARED_BYTES)
static_assert(hopper::SharedBytes(TUNEFARM_EXPERTS) == TUNEFARM_SHARED_BYTES,
              "the definition counts other shared memory");
#endif

void RunThread(const KernelProblem& problem) {
  const GroupSizes sizes = {problem.m_sizes, problem.group_ends};
  hopper::Run({static_cast<const TensorMap*>(problem.row_map),
               static_cast<const TensorMap*>(problem.col_map),
               static_cast<const TensorMap*>(problem.out_map),
               static_cast<const Element*>(problem.rows),
               static_cast<const Element*>(problem.cols),
               static_cast<OutElement*>(problem.out),
               sizes,
               problem.gather_indices,
               problem.topk_weights,
               problem.experts,
               problem.n,
               problem.k,
               problem.topk,
               problem.band,
               {problem.row_scales, problem.col_scales, problem.scale_row_stride, problem.scale_block_stride},
               {problem.out_scales, problem.out_scale_row_stride, problem.out_scale_block_stride}});
}

#if defined(quantize_y)
float OutToFloat(uint16_t bits) { return hopper::OperandToFloat(bits); }
uint16_t ToOut(float value) { return static_cast<uint16_t>(hopper::RoundedFp8Bits(value)); }
#else
float OutToFloat(uint16_t bits) { return hopper::ElementToFloat(bits); }
uint16_t ToOut(float value) { return static_cast<uint16_t>(hopper::RoundedBits(value)); }
#endif

#define TUNEFARM_TEXT_OF(x) #x
#define TUNEFARM_TEXT(x) TUNEFARM_TEXT_OF(x)

const RegisterKernelCase registered({
    TUNEFARM_TEXT(TUNEFARM_CASE),
    hopper::kForward ? Product::kForward
    : hopper::kDx    ? Product::kDx
                     : Product::kDw,
    hopper::kElementBytes,
    hopper::kOutBytes,
    permute_x,
    permute_y,
    fuse_mul_post,
    hopper::kGateUpBlocks ? 2
    : hopper::kGateUp     ? 1
                          : 0,
    hopper::kRows,
    hopper::kCols,
    hopper::kThreads,
    hopper::kClusterSize,
    {hopper::RowTile::kChunk, hopper::kRowBoxSlow, hopper::RowTile::kSwizzleBytes},
    {hopper::ColTile::kChunk, hopper::kColBoxSlow, hopper::ColTile::kSwizzleBytes},
    {hopper::kStoreChunk, hopper::kOutBoxRows, hopper::kStoreSwizzleBytes},
    [](int experts) { return hopper::SharedBytes(experts); },
    RunThread,
    [](uint16_t bits) { return hopper::OperandToFloat(bits); },
    [](float value) { return static_cast<uint16_t>(hopper::OperandBits(value)); },
    OutToFloat,
    ToOut,
    [](float gate, float up) { return hopper::SiluMultiply(gate, up); },
});

}  // namespace
}  // namespace tunefarm::TUNEFARM_CASE
