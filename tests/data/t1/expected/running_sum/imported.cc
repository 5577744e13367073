// Made by tunefarm import around running_sum.cc: what fills inputs and computes expected outputs.
#include <math.h>

#include "running_sum.cc"

extern "C" void tunefarm_fill_x(float* tunefarm_data, long long tunefarm_n) {
  for (long long tunefarm_k = 0; tunefarm_k < tunefarm_n; ++tunefarm_k) {
    const double tunefarm_i = static_cast<double>(tunefarm_k);
    (void)tunefarm_i;
    tunefarm_data[tunefarm_k] = static_cast<float>((((tunefarm_i - 16.0 * floor(tunefarm_i / 16.0)) < 8.0) ? ((tunefarm_i - 8.0 * floor(tunefarm_i / 8.0))) : (-(tunefarm_i - 8.0 * floor(tunefarm_i / 8.0)))));
  }
}

extern "C" void tunefarm_expect_y(float* tunefarm_data, long long tunefarm_n) {
  for (long long tunefarm_k = 0; tunefarm_k < tunefarm_n; ++tunefarm_k) {
    const double tunefarm_i = static_cast<double>(tunefarm_k);
    (void)tunefarm_i;
    tunefarm_data[tunefarm_k] = static_cast<float>(0.5 * (((tunefarm_i - 16.0 * floor(tunefarm_i / 16.0)) < 8.0) ? (floor((tunefarm_i - 16.0 * floor(tunefarm_i / 16.0)) * ((tunefarm_i - 16.0 * floor(tunefarm_i / 16.0)) + 1.0) / 2.0)) : (28.0 - floor((tunefarm_i - 8.0 * floor(tunefarm_i / 8.0)) * ((tunefarm_i - 8.0 * floor(tunefarm_i / 8.0)) + 1.0) / 2.0))));
  }
}
