// What all kernels of the folder agree on: the element type, the flags and the roles of the tile's extents.
//
// The tuner defines, before this text, one macro per compiled-in parameter and dim; forward.cu, dx.cu and dw.cu define
// GROUPED_GEMM_OP. BLOCK_SIZE_M counts rows of tokens, BLOCK_SIZE_N columns of Y, BLOCK_SIZE_K columns of X in all
// three, so which of them is summed over differs.
#pragma once

#include "primitives.cuh"

#define OP_FORWARD 1
#define OP_DX 2
#define OP_DW 3

#if !defined(dtype_bf16) && !defined(dtype_f16) && !defined(dtype_fp8)
#error "define dtype_bf16, dtype_f16 or dtype_fp8"
#endif
#if !defined(fuse_mul_post)
#define fuse_mul_post 0
#endif

using WideElement = unsigned short;  // The bits of a bfloat16 or a half; beside operands in fp8 of a bfloat16.
#if defined(dtype_fp8)
using Element = unsigned char;  // The bits of an e4m3.
#else
using Element = WideElement;
#endif
#if defined(quantize_y)  // Y is in fp8, too.
using OutElement = Element;
#else
using OutElement = WideElement;
#endif

constexpr int kScaleBlock = 128;  // Terms, and columns of Y, that share a scale in fp8.

constexpr bool kPermuteX = permute_x;
constexpr bool kPermuteY = permute_y;
constexpr bool kFuseMultiply = fuse_mul_post;
static_assert(!(kPermuteX && kPermuteY), "permute_x and permute_y exclude each other");
static_assert(!kFuseMultiply || kPermuteY, "fuse_mul_post needs permute_y");

// The tile of the output that a block computes is kTileM x kTileN; kTileK terms are added in one step.
#if GROUPED_GEMM_OP == OP_FORWARD  // Y = X * W^T
constexpr int kTileM = BLOCK_SIZE_M;
constexpr int kTileN = BLOCK_SIZE_N;
constexpr int kTileK = BLOCK_SIZE_K;
#elif GROUPED_GEMM_OP == OP_DX  // dX = dY * W
constexpr int kTileM = BLOCK_SIZE_M;
constexpr int kTileN = BLOCK_SIZE_K;
constexpr int kTileK = BLOCK_SIZE_N;
#elif GROUPED_GEMM_OP == OP_DW  // dW = dY^T * X
constexpr int kTileM = BLOCK_SIZE_N;
constexpr int kTileN = BLOCK_SIZE_K;
constexpr int kTileK = BLOCK_SIZE_M;
#else
#error "define GROUPED_GEMM_OP"
#endif

constexpr int kChunkElements = 8;  // Of 16 bytes, which is what one thread copies at once.
constexpr int kChunkBytes = 16;

// A CUtensorMap, which the host has encoded.
struct alignas(64) TensorMap {
  unsigned long long words[16];
};

__device__ __forceinline__ int CeilDiv(int a, int b) { return (a + b - 1) / b; }

// As the fused multiplication does it: both factors are elements before they are multiplied.
__device__ __forceinline__ float MultiplyRounded(float value, float factor) {
  return ToFloat(ToElement(value)) * ToFloat(ToElement(factor));
}
