// Matrix product for the tuner: C (M x N) = A (M x K) * B (K x N), all row-major, in f32 or bf16.
//
// The tuner defines, before this text, one macro per compiled-in parameter (BLOCK_M, BLOCK_N, BLOCK_K, WARPS_M, WARPS_N,
// STAGES, MIN_BLOCKS) and dtype_f32 or dtype_bf16. kernel.pbtxt says what each means and which values go together.
// No header of the toolkit is included: that keeps one compilation at a few hundred milliseconds.

#if defined(dtype_bf16)
using Element = unsigned short;  // The bits of a bfloat16: the upper half of a float.
__device__ __forceinline__ float ToFloat(Element value) {
  return __uint_as_float(static_cast<unsigned>(value) << 16);
}
__device__ __forceinline__ Element FromFloat(float value) {
  Element bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}
#include "tile.cuh"
#include "matmul_bf16.cuh"
#elif defined(dtype_f32)
using Element = float;
__device__ __forceinline__ float ToFloat(Element value) { return value; }
__device__ __forceinline__ Element FromFloat(float value) { return value; }
#include "tile.cuh"
#include "matmul_f32.cuh"
#else
#error "define dtype_f32 or dtype_bf16"
#endif

#include "reference.cuh"
