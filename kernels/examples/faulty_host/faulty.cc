// y[i] = 2 * x[i] on the CPU, with one fault of choice. The tuner defines STRIDE and FAULT_<value> before this text.
// Nothing here is safe to run outside of a worker.

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <new>

#if defined(FAULT_compile_error)
#error "this config does not compile, as asked for"
#endif

// Hidden from the optimizer, which may otherwise drop code that cannot be right.
static volatile int zero = 0;
static volatile long sink = 0;

static void Double(const float* x, float* y, long n) {
  for (long offset = 0; offset < STRIDE; ++offset) {
    for (long i = offset; i < n; i += STRIDE) y[i] = 2.0f * x[i];
  }
}

[[maybe_unused]] static void SpinForever() {
  while (zero == 0) sink = sink + 1;
}

// Takes memory until there is none: first addresses, which a limit on address space refuses at once, then the memory
// behind them. Bounded, so that a machine without limits gets away with a fright.
[[maybe_unused]] static void ExhaustMemory() {
  constexpr long kBlockBytes = 64L << 20;
  constexpr int kBlocks = 4096;  // 256 GiB
  static char* blocks[kBlocks];
  for (char*& block : blocks) block = new char[kBlockBytes];  // Throws std::bad_alloc.
  for (char* block : blocks) {
    for (long i = 0; i < kBlockBytes; i += 4096) block[i] = 1;
    sink = sink + block[zero];
  }
  throw std::bad_alloc();
}

// Starts processes that start processes. Bounded in width and depth; none of them ends by itself.
[[maybe_unused]] static void ForkBomb() {
  for (int i = 0; i < 512; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      for (int j = 0; j < 4; ++j) {
        if (fork() == 0) break;
      }
      for (;;) pause();
    }
  }
  for (;;) pause();
}

extern "C" void faulty(float* x, float* y, long n) {
#if defined(FAULT_segfault)
  *reinterpret_cast<volatile int*>(static_cast<long>(zero)) = 1;
#elif defined(FAULT_bus_error)
  // A page of a file that has none.
  const int file = open("empty", O_RDWR | O_CREAT | O_TRUNC, 0600);  // in the trial's scratch directory
  *static_cast<volatile char*>(mmap(nullptr, 4096, PROT_WRITE, MAP_SHARED, file, 0)) = 1;
#elif defined(FAULT_illegal_instruction)
  __builtin_trap();
#elif defined(FAULT_divide_by_zero)
  sink = sink / zero;
#elif defined(FAULT_stack_overflow)
  volatile char large[256L << 20];
  for (long i = (256L << 20) - 1; i >= 0; i -= 4096) large[i] = 1;
  sink = large[0];
#elif defined(FAULT_abort)
  abort();
#elif defined(FAULT_throw)
  throw 1;
#elif defined(FAULT_exit_silently)
  _exit(0);
#elif defined(FAULT_infinite_loop)
  SpinForever();
#elif defined(FAULT_sleep)
  for (;;) pause();
#elif defined(FAULT_memory_exhaustion)
  ExhaustMemory();
#elif defined(FAULT_fork_bomb)
  ForkBomb();
#endif

#if defined(FAULT_unwritten_output)
  n -= n / 4;
#endif
  Double(x, y, n);

#if defined(FAULT_wrong_result)
  y[n / 2] += 1.0f;
#elif defined(FAULT_nan_output)
  y[n / 2] = __builtin_nanf("");
#elif defined(FAULT_out_of_bounds_write)
  y[n + zero] = 1.0f;
#elif defined(FAULT_out_of_bounds_before)
  y[-1 - zero] = 1.0f;
#elif defined(FAULT_input_write)
  x[n / 2] += 1.0f;
#endif
}

// What every configuration's result is compared with.
extern "C" void faulty_reference(const float* x, float* y, long n) {
  for (long i = 0; i < n; ++i) y[i] = 2.0f * x[i];
}
