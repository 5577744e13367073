// c[i] = a[i] + b[i], the smallest kernel worth tuning. The tuner defines the macros BLOCK_SIZE, VECTOR_WIDTH and
// VECTORS_PER_THREAD before this text.

// VECTOR_WIDTH adjacent floats that are read and written with one instruction.
struct alignas(VECTOR_WIDTH * 4) Vector {
  float values[VECTOR_WIDTH];
};

extern "C" __global__ void __launch_bounds__(BLOCK_SIZE)
    vector_add(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, long long n) {
  // A block works on one stretch; its threads take turns, so that each pass over it reads adjacent addresses.
  const long long first = static_cast<long long>(blockIdx.x) * BLOCK_SIZE * VECTORS_PER_THREAD;
#pragma unroll
  for (int pass = 0; pass < VECTORS_PER_THREAD; ++pass) {
    const long long i = (first + pass * BLOCK_SIZE + threadIdx.x) * VECTOR_WIDTH;
    if (i + VECTOR_WIDTH <= n) {
      const Vector x = *reinterpret_cast<const Vector*>(a + i);
      const Vector y = *reinterpret_cast<const Vector*>(b + i);
      Vector sum;
#pragma unroll
      for (int j = 0; j < VECTOR_WIDTH; ++j) sum.values[j] = x.values[j] + y.values[j];
      *reinterpret_cast<Vector*>(c + i) = sum;
    } else {
      for (long long j = i; j < n; ++j) c[j] = a[j] + b[j];
    }
  }
}

// What every configuration's result is compared with.
extern "C" __global__ void vector_add_reference(const float* a, const float* b, float* c, long long n) {
  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}
