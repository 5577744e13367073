// y[i] = factor * (x[0] + ... + x[i]), in chunks. CHUNK, UNROLL and FUSED come from the T1 file, one value per config.

constexpr int kUnroll = UNROLL;  // #pragma GCC unroll expands no macros.

extern "C" void running_sum(const float* x, float* y, int* log, int n, double factor) {
  float sum = 0;
  for (int start = 0; start < n; start += CHUNK) {
    const int end = start + CHUNK < n ? start + CHUNK : n;
#pragma GCC unroll kUnroll
    for (int i = start; i < end; ++i) {
      sum += x[i];
      y[i] = FUSED ? static_cast<float>(sum * factor) : sum;
    }
    if (!FUSED) {
      for (int i = start; i < end; ++i) y[i] = static_cast<float>(y[i] * factor);
    }
    log[0] += 1;
  }
}
