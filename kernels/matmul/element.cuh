// The element type of A, B and C, chosen by the macro dtype_f32 or dtype_bf16.
#pragma once

#if defined(dtype_bf16)
using Element = unsigned short;  // The bits of a bfloat16, which are the upper half of a float's.

__device__ __forceinline__ float ToFloat(Element value) { return __uint_as_float(static_cast<unsigned>(value) << 16); }

__device__ __forceinline__ Element FromFloat(float value) {
  Element bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}
#elif defined(dtype_f32)
using Element = float;

__device__ __forceinline__ float ToFloat(Element value) { return value; }

__device__ __forceinline__ Element FromFloat(float value) { return value; }
#else
#error "define dtype_f32 or dtype_bf16"
#endif
