// Matrix product for the tuner: C (M x N) = A (M x K) * B (K x N), all row-major, in f32 or bf16.
//
// The tuner defines, before this text, one macro per compiled-in parameter (BLOCK_M, BLOCK_N, BLOCK_K, WARPS_M,
// WARPS_N, STAGES, MIN_BLOCKS) and dtype_f32 or dtype_bf16. kernel.pbtxt says what each means and which values go
// together. No header of the toolkit is included: that keeps one compilation at a few hundred milliseconds.
//
// Both forms have the entry `matmul`, and `matmul_reference` is what their results are compared with.

#if defined(dtype_bf16)
#include "matmul_bf16.cuh"
#else
#include "matmul_f32.cuh"
#endif

#include "reference.cuh"
