// c[i] = a[i] + b[i] on the CPU. The tuner defines the macros VECTOR_BYTES and UNROLL before this text.

constexpr int kWidth = VECTOR_BYTES / 4;
constexpr int kUnroll = UNROLL;  // `#pragma GCC unroll` expands no macros.

// kWidth adjacent floats, aligned no better than one; the compiler splits what the machine has no registers for.
typedef float Vector __attribute__((vector_size(VECTOR_BYTES), aligned(4), may_alias));

extern "C" void vector_add(const float* a, const float* b, float* c, long n) {
  long i = 0;
#pragma GCC unroll kUnroll
  for (; i + kWidth <= n; i += kWidth) *(Vector*)(c + i) = *(const Vector*)(a + i) + *(const Vector*)(b + i);
  for (; i < n; ++i) c[i] = a[i] + b[i];
}

// What every configuration's result is compared with.
extern "C" void vector_add_reference(const float* a, const float* b, float* c, long n) {
  for (long i = 0; i < n; ++i) c[i] = a[i] + b[i];
}
