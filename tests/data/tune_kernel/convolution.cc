#include "convolution.h"

extern "C" void convolution(float* output, const float* input, const float* filter) {
  for (int y = 0; y < image_height; y++) {
    for (int x = 0; x < image_width; x += unroll) {
      float sum[unroll] = {};
      for (int i = 0; i < filter_height; i++)
        for (int j = 0; j < filter_width; j++)
          for (int u = 0; u < unroll; u++) sum[u] += INPUT(y + i, x + u + j) * filter[i * filter_width + j];
      for (int u = 0; u < unroll; u++) output[y * image_width + x + u] = sum[u];
    }
  }
}
