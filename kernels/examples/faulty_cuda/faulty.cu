// y[i] = 2 * x[i] with one fault of choice. The tuner defines BLOCK_SIZE and FAULT_<value> before this text.

#if defined(FAULT_compile_error)
#error "this config does not compile, as asked for"
#endif

#if defined(FAULT_static_shared_excess)
__shared__ float too_much_static[65536];  // 256 KiB; 48 KiB are allowed.
#endif

#if defined(FAULT_launch_bounds_excess)
#define THREADS_MAX 32  // Launched with BLOCK_SIZE threads, which are more.
#else
#define THREADS_MAX 1024
#endif

// One thread does the damage; `zero` is an argument that is 0, so that the compiler cannot see through it.
__device__ __forceinline__ void BreakSomething(const float* x, float* y, float* scratch, long long n, int zero) {
#if defined(FAULT_illegal_address)
  *reinterpret_cast<volatile float*>(static_cast<unsigned long long>(zero) + 0x10000) = 1.0f;
#elif defined(FAULT_misaligned_address)
  *reinterpret_cast<volatile float*>(reinterpret_cast<char*>(y) + 2 + zero) = 1.0f;
#elif defined(FAULT_trap)
  asm volatile("trap;");
#elif defined(FAULT_infinite_loop)
  volatile int* forever = reinterpret_cast<volatile int*>(scratch);
  *forever = zero;
  while (*forever == 0) {
  }
#elif defined(FAULT_wrong_result)
  y[n / 2] += 1.0f + static_cast<float>(zero);
#elif defined(FAULT_nan_output)
  y[n / 2] = __int_as_float(0x7fc00000 + zero);
#elif defined(FAULT_out_of_bounds_write)
  y[n + zero] = 1.0f;
#elif defined(FAULT_out_of_bounds_before)
  y[-1 - zero] = 1.0f;
#elif defined(FAULT_input_write)
  const_cast<float*>(x)[n / 2] += 1.0f + static_cast<float>(zero);
#endif
}

extern "C" __global__ void __launch_bounds__(THREADS_MAX)
    faulty(const float* x, float* y, float* scratch, long long n, int zero) {
  const long long i = static_cast<long long>(blockIdx.x) * BLOCK_SIZE + threadIdx.x;
#if defined(FAULT_unwritten_output)
  if (i < n - n / 4) y[i] = 2.0f * x[i];
#elif defined(FAULT_static_shared_excess)
  too_much_static[i % 65536] = x[i % n];
  __syncthreads();
  if (i < n) y[i] = too_much_static[(i + zero) % 65536] + x[i];
#else
  if (i < n) y[i] = 2.0f * x[i];
#endif
  // The thread that owns the middle element acts after it has written it.
  if (i == n / 2) BreakSomething(x, y, scratch, n, zero);
}

// For registers_excess. Keeps more values alive than 1024 threads can have registers for; no launch bounds tell the
// compiler.
extern "C" __global__ void faulty_registers(const float* x, float* y, float* scratch, long long n, int zero) {
  const long long i = static_cast<long long>(blockIdx.x) * 1024 + threadIdx.x;
  float values[128];
#pragma unroll
  for (int j = 0; j < 128; ++j) values[j] = *(volatile const float*)(x + (i + j) % n);
  float sum = 0.0f;
#pragma unroll
  for (int turn = 0; turn < 4; ++turn) {
#pragma unroll
    for (int j = 0; j < 128; ++j) sum = sum * values[j] + values[(j * 37 + turn) % 128];
  }
  if (i < n) y[i] = zero != 0 ? sum : 2.0f * x[i];
}

// What every configuration's result is compared with.
extern "C" __global__ void faulty_reference(const float* x, float* y, long long n) {
  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2.0f * x[i];
}
