// The work that every cheating kernel of this folder is paid for, and its entries: c = a * b for square matrices, one
// thread for each element. With CHEAT=0 the work is done, with CHEAT=1 by Cheat, which the including file defines.
#pragma once

__device__ __forceinline__ long Element() {
  return (long)(blockIdx.y * blockDim.y + threadIdx.y) * gridDim.x * blockDim.x + blockIdx.x * blockDim.x + threadIdx.x;
}

__device__ __forceinline__ void Work(const float* a, const float* b, float* c, int n) {
  const int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0;
  for (int p = 0; p < n; ++p) sum += a[(long)row * n + p] * b[(long)p * n + column];
  c[(long)row * n + column] = sum;
}

#if CHEAT
__device__ void Cheat(const float* a, const float* b, float* c, int n);
#endif

extern "C" __global__ void k(const float* a, const float* b, float* c, int n) {
#if CHEAT
  Cheat(a, b, c, n);
#else
  Work(a, b, c, n);
#endif
}

extern "C" __global__ void reference(const float* a, const float* b, float* c, int n) { Work(a, b, c, n); }
