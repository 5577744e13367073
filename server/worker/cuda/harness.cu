// Kernels of the run worker itself: fill, poison, guards, checksums and comparison on the device. Compiled by NVRTC
// when a worker starts, after philox.h, e4m3.h, half.h, fill_element.h and harness_types.h, without contraction of
// a*b+c and without any header of the toolkit. Every kernel accepts any grid.

typedef unsigned long long U64;

__device__ inline U64 ThreadIndex() { return (U64)blockIdx.x * blockDim.x + threadIdx.x; }
__device__ inline U64 ThreadCount() { return (U64)gridDim.x * blockDim.x; }

__device__ inline int SizeOfType(int type) {
  return type <= kTunefarmU8 || type == kTunefarmF8E4M3                          ? 1
         : type <= kTunefarmU16 || type == kTunefarmF16 || type == kTunefarmBf16 ? 2
         : type <= kTunefarmU32 || type == kTunefarmF32                          ? 4
                                                                                 : 8;
}

__device__ inline void Store(unsigned char* output, U64 index, int size, U64 bits) {
  if (size == 8)
    ((U64*)output)[index] = bits;
  else if (size == 4)
    ((unsigned int*)output)[index] = (unsigned int)bits;
  else if (size == 2)
    ((unsigned short*)output)[index] = (unsigned short)bits;
  else
    output[index] = (unsigned char)bits;
}

__device__ inline U64 Load(const unsigned char* input, U64 index, int size) {
  if (size == 8) return ((const U64*)input)[index];
  if (size == 4) return ((const unsigned int*)input)[index];
  if (size == 2) return ((const unsigned short*)input)[index];
  return input[index];
}

extern "C" __global__ void tunefarm_fill(TunefarmFill fill, unsigned char* output, U64 elements) {
  const int size = SizeOfType(fill.type);
  for (U64 pair = ThreadIndex(); pair < (elements + 1) / 2; pair += ThreadCount()) {
    U64 bits[2];
    tunefarm_fill_pair(&fill, pair, bits);
    Store(output, 2 * pair, size, bits[0]);
    if (2 * pair + 1 < elements) Store(output, 2 * pair + 1, size, bits[1]);
  }
}

extern "C" __global__ void tunefarm_poison(unsigned char* output, U64 bits, int size, U64 elements) {
  for (U64 i = ThreadIndex(); i < elements; i += ThreadCount()) Store(output, i, size, bits);
}

// Guard zones may begin at any byte.
__device__ inline unsigned char GuardByte(unsigned int word, U64 offset) {
  return (unsigned char)(word >> (8 * (offset % 4)));
}

extern "C" __global__ void tunefarm_fill_guard(unsigned char* zone, U64 bytes, unsigned int word) {
  for (U64 i = ThreadIndex(); i < bytes; i += ThreadCount()) zone[i] = GuardByte(word, i);
}

// The smallest and the largest damaged offset; the host sets *first to ~0 and *last to 0 before.
extern "C" __global__ void tunefarm_check_guard(const unsigned char* zone, U64 bytes, unsigned int word, U64* first,
                                                U64* last) {
  for (U64 i = ThreadIndex(); i < bytes; i += ThreadCount()) {
    if (zone[i] == GuardByte(word, i)) continue;
    atomicMin(first, i);
    atomicMax(last, i);
  }
}

__device__ inline U64 Mix(U64 value) {
  value ^= value >> 33;
  value *= 0xff51afd7ed558ccdull;
  value ^= value >> 33;
  value *= 0xc4ceb9fe1a85ec53ull;
  return value ^ (value >> 33);
}

// Adds the buffer's checksum to *sum: a sum, so that it does not depend on the order of the threads.
extern "C" __global__ void tunefarm_checksum(const unsigned char* input, U64 bytes, U64* sum) {
  __shared__ U64 block_sum;
  if (threadIdx.x == 0) block_sum = 0;
  __syncthreads();
  U64 mine = 0;
  const U64 words = bytes / 8;
  for (U64 i = ThreadIndex(); i < words; i += ThreadCount()) {
    mine += Mix(((const U64*)input)[i] ^ Mix(i + 1));
  }
  if (ThreadIndex() == 0) {
    for (U64 i = words * 8; i < bytes; ++i) mine += Mix(input[i] ^ Mix(~i));
  }
  atomicAdd(&block_sum, mine);
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(sum, block_sum);
}

enum Kind { kEqual, kUntouched, kSoft, kHard };

struct Element {
  Kind kind;
  bool counts;  // in the norm of its row and in the largest errors
  double error;
  double reference;
};

__device__ inline U64 MaskOfSize(int size) { return size == 8 ? ~0ull : (1ull << (8 * size)) - 1ull; }

__device__ inline double IntegerDistance(U64 a, U64 b, int type, int size) {
  if (type == kTunefarmI8 || type == kTunefarmI16 || type == kTunefarmI32 || type == kTunefarmI64) {
    const U64 top = 1ull << (8 * size - 1);
    a = (a ^ top) & MaskOfSize(size);
    b = (b ^ top) & MaskOfSize(size);
  }
  return (double)(a > b ? a - b : b - a);
}

// The rule of compare.cc, one element at a time.
__device__ inline Element Judge(const TunefarmComparison& pair, U64 index) {
  const int size = SizeOfType(pair.type);
  const bool integer = pair.type < kTunefarmF16;
  const U64 actual = Load(pair.actual, index, size), expected = Load(pair.expected, index, size);
  Element element = {kEqual, false, 0.0, 0.0};
  if (pair.expected_has_poison && expected == pair.expected_poison) {
    element.kind = actual == pair.actual_poison ? kUntouched : kHard;
    return element;
  }
  if (pair.has_poison && actual == pair.actual_poison && !integer) {
    element.kind = kHard;
    return element;
  }
  const double out = tunefarm_double_of_element(actual, pair.type);
  const double reference = tunefarm_double_of_element(expected, pair.type);
  element.reference = reference;
  if (out != out || reference != reference) {
    element.kind = kHard;
    return element;
  }
  const double infinity = 1.0 / 0.0;
  const bool unbounded = fabs(out) == infinity || fabs(reference) == infinity;
  if (actual != expected && out != reference && unbounded) {
    element.kind = kHard;
    return element;
  }
  element.counts = fabs(reference) != infinity;
  element.error =
      integer ? IntegerDistance(actual, expected, pair.type, size) : (out == reference ? 0.0 : fabs(out - reference));
  if (element.error == 0.0) return element;
  const double allowed = pair.atol + (integer ? 0.0 : pair.rtol * fabs(reference));
  const bool catastrophic = pair.has_catastrophic && element.error > pair.catastrophic_error;
  if (element.error <= allowed && !catastrophic) return element;
  element.kind = catastrophic || (pair.has_poison && actual == pair.actual_poison) ? kHard : kSoft;
  return element;
}

__device__ inline U64 BitsOf(double value) { return tunefarm_bits_of_double(value); }

// Counts mismatches per chunk and altogether.
extern "C" __global__ void tunefarm_compare(TunefarmComparison pair, TunefarmComparisonResult* result,
                                            unsigned int* chunk_mismatches) {
  __shared__ U64 hard, largest_absolute, largest_relative;
  __shared__ unsigned int mismatches;
  const U64 chunks = (pair.elements + TUNEFARM_CHUNK_ELEMENTS - 1) / TUNEFARM_CHUNK_ELEMENTS;
  for (U64 chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x) {
    if (threadIdx.x == 0) hard = largest_absolute = largest_relative = mismatches = 0;
    __syncthreads();
    U64 end = (chunk + 1) * TUNEFARM_CHUNK_ELEMENTS;
    if (end > pair.elements) end = pair.elements;
    double absolute = 0.0, relative = 0.0;
    unsigned int my_mismatches = 0, my_hard = 0;
    for (U64 i = chunk * TUNEFARM_CHUNK_ELEMENTS + threadIdx.x; i < end; i += blockDim.x) {
      const Element element = Judge(pair, i);
      if (element.error > absolute) absolute = element.error;
      if (element.error > 0.0 && element.reference != 0.0) {
        const double ratio = element.error / fabs(element.reference);
        if (ratio > relative) relative = ratio;
      }
      my_mismatches += element.kind >= kSoft;
      my_hard += element.kind == kHard;
    }
    if (my_mismatches != 0) atomicAdd(&mismatches, my_mismatches);
    if (my_hard != 0) atomicAdd(&hard, (U64)my_hard);
    if (absolute > 0.0) atomicMax(&largest_absolute, BitsOf(absolute));
    if (relative > 0.0) atomicMax(&largest_relative, BitsOf(relative));
    __syncthreads();
    if (threadIdx.x == 0) {
      chunk_mismatches[chunk] = mismatches;
      atomicAdd(&result->mismatches, (U64)mismatches);
      atomicAdd(&result->hard_mismatches, hard);
      atomicMax(&result->max_absolute_error_bits, largest_absolute);
      atomicMax(&result->max_relative_error_bits, largest_relative);
    }
    __syncthreads();
  }
}

// The largest finite magnitude in `expected`, as bits.
extern "C" __global__ void tunefarm_largest(TunefarmComparison pair, U64* largest_bits) {
  const int size = SizeOfType(pair.type);
  double largest = 0.0;
  for (U64 i = ThreadIndex(); i < pair.elements; i += ThreadCount()) {
    const U64 bits = Load(pair.expected, i, size);
    if (pair.expected_has_poison && bits == pair.expected_poison) continue;
    const double value = fabs(tunefarm_double_of_element(bits, pair.type));
    if (value < 1.0 / 0.0 && value > largest) largest = value;
  }
  if (largest > 0.0) atomicMax(largest_bits, BitsOf(largest));
}

// Sums of squares of error and reference over [begin, end); the whole block returns the same. A fixed order, so that
// the same buffers give the same bits.
__device__ inline void SumSquares(const TunefarmComparison& pair, U64 begin, U64 end, U64 first, U64 step,
                                  double* error, double* reference) {
  __shared__ double errors[256], references[256];
  double my_error = 0.0, my_reference = 0.0;
  for (U64 i = begin + first; i < end; i += step) {
    const Element element = Judge(pair, i);
    if (!element.counts) continue;
    my_error += element.error * element.error;
    my_reference += element.reference * element.reference;
  }
  errors[threadIdx.x] = my_error;
  references[threadIdx.x] = my_reference;
  __syncthreads();
  for (unsigned int half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      errors[threadIdx.x] += errors[threadIdx.x + half];
      references[threadIdx.x] += references[threadIdx.x + half];
    }
    __syncthreads();
  }
  *error = errors[0];
  *reference = references[0];
  __syncthreads();
}

// The first row whose error exceeds bound * norm. One block a row; 256 threads a block.
extern "C" __global__ void tunefarm_rows(TunefarmComparison pair, U64 row_length, double bound,
                                         TunefarmComparisonResult* result) {
  const U64 rows = (pair.elements + row_length - 1) / row_length;
  for (U64 row = blockIdx.x; row < rows; row += gridDim.x) {
    U64 end = (row + 1) * row_length;
    if (end > pair.elements) end = pair.elements;
    double error, reference;
    SumSquares(pair, row * row_length, end, threadIdx.x, blockDim.x, &error, &reference);
    if (threadIdx.x == 0 && error > 0.0 && !(sqrt(error) <= bound * sqrt(reference))) {
      atomicMin(&result->first_bad_row, row);
    }
  }
}

// Of one long row: a pair of sums per block. 256 threads a block.
extern "C" __global__ void tunefarm_row_sums(TunefarmComparison pair, U64 begin, U64 end, double* sums) {
  double error, reference;
  SumSquares(pair, begin, end, ThreadIndex(), ThreadCount(), &error, &reference);
  if (threadIdx.x == 0) {
    sums[2 * blockIdx.x] = error;
    sums[2 * blockIdx.x + 1] = reference;
  }
}

// Whether any element has these bits: then *found is not 0.
extern "C" __global__ void tunefarm_find_bits(const unsigned char* input, U64 bits, int size, U64 elements,
                                              U64* found) {
  bool mine = false;
  for (U64 i = ThreadIndex(); i < elements; i += ThreadCount()) mine = mine || Load(input, i, size) == bits;
  if (mine) *found = 1;
}

// The health check: arithmetic that no compiler foresees, its results through memory, and their sum.
extern "C" __global__ void tunefarm_health_write(U64* words, U64 count, U64 seed, U64 factor, U64 addend, int steps) {
  for (U64 i = ThreadIndex(); i < count; i += ThreadCount()) {
    U64 value = seed + i;
    for (int step = 0; step < steps; ++step) value = value * factor + addend;
    words[i] = value;
  }
}

// Adds to *sum what other threads have written. 256 threads a block.
extern "C" __global__ void tunefarm_health_sum(const U64* words, U64 count, U64* sum) {
  __shared__ U64 sums[256];
  U64 mine = 0;
  for (U64 i = ThreadIndex(); i < count; i += ThreadCount()) mine += words[count - 1 - i];
  sums[threadIdx.x] = mine;
  __syncthreads();
  for (unsigned int half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) atomicAdd(sum, sums[0]);
}
