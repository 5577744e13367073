// Prepare steps: operands in bfloat16 to e4m3 with block scales, as they are quantised for serving. A block's scale is
// its largest magnitude divided by 448, the largest e4m3, so that nothing overflows.
#pragma once

#include "roles.cuh"

constexpr float kFp8Max = 448.0f;
constexpr int kQuantizeThreads = 128;

// The largest value of the block's threads, in all of them. Values are at least zero.
__device__ __forceinline__ float LargestOfBlock(float value) {
  __shared__ int largest;
  if (threadIdx.x == 0) largest = 0;
  __syncthreads();
  // As integers floats of one sign are in the same order.
  atomicMax(&largest, __float_as_int(value));
  __syncthreads();
  return __int_as_float(largest);
}

// Below it a block counts as one of zeros, so that scales are never smaller than normal floats.
constexpr float kLeastOfBlock = 0x1p-117f;

// A block of zeros has the scale 1.
__device__ __forceinline__ float ScaleOf(float largest) { return largest >= kLeastOfBlock ? largest / kFp8Max : 1.0f; }

// Block blockIdx.x of all rows' blocks of 128 terms, by a thread for each term; value_of(i) is element i of all rows.
template <typename Value>
__device__ __forceinline__ void QuantizeBlock(Value value_of, Element* quantized, float* scales, int k, int row_stride,
                                              int block_stride) {
  const int blocks = CeilDiv(k, kScaleBlock);
  const long long row = static_cast<int>(blockIdx.x) / blocks;
  const int block = static_cast<int>(blockIdx.x) % blocks;
  const int term = block * kScaleBlock + static_cast<int>(threadIdx.x);
  const float value = term < k ? value_of(row * k + term) : 0.0f;
  const float scale = ScaleOf(LargestOfBlock(fabsf(value)));
  if (term < k) quantized[row * k + term] = ToFp8(value / scale);
  if (threadIdx.x == 0) scales[row * row_stride + static_cast<long long>(block) * block_stride] = scale;
}

// Each row in blocks of 128 terms. Launched with rows * ceil(k / 128) blocks.
extern "C" __global__ void __launch_bounds__(kQuantizeThreads)
    grouped_gemm_quantize_rows(const WideElement* values, Element* quantized, float* scales, int k, int row_stride,
                               int block_stride) {
  QuantizeBlock([&](long long i) { return ToFloat(values[i]); }, quantized, scales, k, row_stride, block_stride);
}

#if defined(quantize_y)
// The same of single precision: what the reference's results become.
extern "C" __global__ void __launch_bounds__(kQuantizeThreads)
    grouped_gemm_quantize_results(const float* values, Element* quantized, float* scales, int k, int row_stride,
                                  int block_stride) {
  QuantizeBlock([&](long long i) { return values[i]; }, quantized, scales, k, row_stride, block_stride);
}
#endif

// Each expert's weights in blocks of 128 x 128; a thread for each term of a row. Launched with ceil(k / 128) blocks in
// x, ceil(n / 128) in y and one for each expert in z.
extern "C" __global__ void __launch_bounds__(kQuantizeThreads)
    grouped_gemm_quantize_weights(const WideElement* values, Element* quantized, float* scales, int n, int k) {
  const int term = static_cast<int>(blockIdx.x) * kScaleBlock + static_cast<int>(threadIdx.x);
  const int first = static_cast<int>(blockIdx.y) * kScaleBlock;
  const int rows = min(n - first, kScaleBlock);
  const long long origin = (static_cast<long long>(blockIdx.z) * n + first) * k + term;
  float largest = 0.0f;
  for (int row = 0; row < rows && term < k; ++row) largest = fmaxf(largest, fabsf(ToFloat(values[origin + row * k])));
  const float scale = ScaleOf(LargestOfBlock(largest));
  for (int row = 0; row < rows && term < k; ++row) {
    quantized[origin + row * k] = ToFp8(ToFloat(values[origin + row * k]) / scale);
  }
  if (threadIdx.x == 0) {
    scales[(static_cast<long long>(blockIdx.z) * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x] = scale;
  }
}
