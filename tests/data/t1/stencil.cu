// A weighted sum of 2 * radius + 1 neighbours in x, written for Kernel Tuner: it takes the macros of every parameter, of
// the block and of the grid, and its name is mangled.
#include "stencil_bias.h"

#ifndef kernel_tuner
#error "the macro kernel_tuner is missing"
#endif

__constant__ float weights[2 * radius + 1];

template <typename Element>
__global__ void __launch_bounds__(block_size_x* block_size_y* block_size_z)
    stencil(Element* out, const Element* in, const Element* unused, const float2* bias, const Element* ramp, float scale) {
  constexpr int kPitch = image_width + 2 * radius;
  const int y = blockIdx.y * block_size_y + threadIdx.y;
  if (y >= image_height || grid_size_x * grid_size_y * grid_size_z < 1 || unused == nullptr) return;
  for (int tile = 0; tile < tile_size_x; ++tile) {
    const int x = (blockIdx.x * tile_size_x + tile) * block_size_x + threadIdx.x;
    if (x >= image_width) return;
    Element sum = BiasOf(bias[x % 4]) * ramp[x];
#if loop_unroll_factor_r > 0
#pragma unroll loop_unroll_factor_r
#endif
    for (int r = 0; r <= 2 * radius; ++r) sum += weights[r] * in[y * kPitch + x + r];
    out[y * image_width + x] = sum * scale;
  }
}

// To compare with.
__global__ void stencil_reference(float* out, const float* in, const float* unused, const float2* bias, const float* ramp, float scale) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= image_width * image_height || unused == nullptr) return;
  float sum = BiasOf(bias[i % image_width % 4]) * ramp[i % image_width];
  for (int r = 0; r <= 2 * radius; ++r) sum += weights[r] * in[i / image_width * (image_width + 2 * radius) + i % image_width + r];
  out[i] = sum * scale;
}
