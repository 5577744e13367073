/* What tests launch. */
#include <stdint.h>

void affine(const float* x, const float* y, float* z, const float* w, int64_t n, float factor) {
  for (int64_t i = 0; i < n; ++i) z[i] += factor * x[i] * w[i] + y[i];
}

void double_in_place(float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] *= 2;
}

/* Every type of scalar, more of both kinds than there are registers. Exact sums of small numbers. */
void many(double* out, int8_t a, uint8_t b, int16_t c, uint16_t d, int32_t e, uint32_t f, int64_t g, uint64_t h,
          float i, double j, float k, double l, float m, double n, float o, double p, float q, double r, int8_t s,
          int32_t t, const double* in) {
  const double all[] = {a, b, c, d, e, f, (double)g, (double)h, i, j, k, l, m, n, o, p, q, r, s, t, *in};
  for (int x = 0; x < 21; ++x) out[x] = all[x];
}
