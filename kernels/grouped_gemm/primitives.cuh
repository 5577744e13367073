// The instructions that the portable path is made of, one function each: everything else in this folder is plain C++,
// so that tests/unit/grouped_gemm can put functions of the host in their place and run the kernels there.
#ifndef GROUPED_GEMM_PRIMITIVES_CUH
#define GROUPED_GEMM_PRIMITIVES_CUH

// The block's dynamic shared memory.
extern __shared__ __align__(1024) unsigned char grouped_gemm_shared[];

__device__ __forceinline__ unsigned char* SharedMemory() { return grouped_gemm_shared; }

// As the instructions below address it.
__device__ __forceinline__ unsigned SharedAddress(const void* shared) {
  return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}

// Begins to copy 16 bytes from global to shared memory, or to write 16 zero bytes where `inside` is false: then nothing
// is read.
__device__ __forceinline__ void CopyChunk(unsigned shared_address, const void* global, bool inside) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;"
               :
               : "r"(shared_address), "l"(global), "r"(inside ? 16 : 0)
               : "memory");
}

__device__ __forceinline__ void CommitStage() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most `kPending` of this thread's committed stages are still on their way.
template <int kPending>
__device__ __forceinline__ void WaitForStage() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Four 8 x 8 matrices of 16-bit elements. Lane l gives the address of row l % 8 of matrix l / 8 and receives, of each
// matrix, elements 2 * (l % 4) and the next one of row l / 4.
__device__ __forceinline__ void LoadMatrices(unsigned address, unsigned (&values)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(values[0]), "=r"(values[1]), "=r"(values[2]), "=r"(values[3])
               : "r"(address)
               : "memory");
}

// As LoadMatrices, with each matrix transposed on the way.
__device__ __forceinline__ void LoadMatricesTransposed(unsigned address, unsigned (&values)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(values[0]), "=r"(values[1]), "=r"(values[2]), "=r"(values[3])
               : "r"(address)
               : "memory");
}

// sum (16 x 8) += a (16 x 16) * b (16 x 8), with the sums in single precision.
__device__ __forceinline__ void MultiplyAdd(const unsigned (&a)[4], const unsigned (&b)[2], float (&sum)[4]) {
#if defined(dtype_bf16)
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
#else
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
#endif
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// An element as a float, and a float rounded to the nearest element, ties to even. Of operands in fp8 the elements of
// 16 bits are those of the output, in bfloat16.
__device__ __forceinline__ float ToFloat(unsigned short element) {
#if !defined(dtype_f16)
  return __uint_as_float(static_cast<unsigned>(element) << 16);
#else
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(element));
  return value;
#endif
}

#if defined(dtype_fp8)
__device__ __forceinline__ float ToFloat(unsigned char element) {
  unsigned halves;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(static_cast<unsigned short>(element)));
  float value;
  asm("{\n.reg .b16 l, h;\nmov.b32 {l, h}, %1;\ncvt.f32.f16 %0, l;\n}" : "=f"(value) : "r"(halves));
  return value;
}

// The nearest e4m3, ties to even; what lies past 448 becomes 448.
__device__ __forceinline__ unsigned char ToFp8(float value) {
  unsigned short pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(value));
  return static_cast<unsigned char>(pair);
}
#endif

__device__ __forceinline__ unsigned short ToElement(float value) {
  unsigned short element;
#if !defined(dtype_f16)
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(element) : "f"(value));
#else
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(element) : "f"(value));
#endif
  return element;
}

// Two values rounded to elements, `low` at the lower address.
__device__ __forceinline__ unsigned PackElements(float low, float high) {
  unsigned packed;
#if !defined(dtype_f16)
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
#else
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
#endif
  return packed;
}

// The value of the lane `distance` below this one; a lane without such a neighbour gets its own back.
__device__ __forceinline__ int ShuffleUp(int value, int distance) {
  return __shfl_up_sync(0xffffffffu, value, static_cast<unsigned>(distance));
}

// The value of lane 31.
__device__ __forceinline__ int BroadcastLast(int value) { return __shfl_sync(0xffffffffu, value, 31); }

// One bit per lane of the warp.
__device__ __forceinline__ unsigned Ballot(bool vote) { return __ballot_sync(0xffffffffu, vote); }

__device__ __forceinline__ int CountBits(unsigned bits) { return __popc(bits); }

#endif  // GROUPED_GEMM_PRIMITIVES_CUH
