// wgmma (PTX, "wgmma.mma_async"): D (64 x N, f32, in registers) = A (64 x kWgmmaK) * B (kWgmmaK x N) + D, A and B in
// shared memory.
//
// Each N is an instruction of its own, spelled out by a specialization of WgmmaOf; a config uses one, or where tiles
// are fitted to groups a few. The operand lists are made of blocks of four accumulators, of which there are N / 8.
#pragma once

#include "hopper_config.cuh"

#if !defined(HOPPER_INSTRUCTIONS)

// With operands of 8 bits wgmma knows K-major ones alone, and has no flags that say whether they are transposed.
#if defined(dtype_fp8)
#define HOPPER_WGMMA_TYPES "k32.f32.e4m3.e4m3"
#define HOPPER_WGMMA_FLAGS(transpose_a, transpose_b) ""
#elif defined(dtype_bf16)
#define HOPPER_WGMMA_TYPES "k16.f32.bf16.bf16"
#define HOPPER_WGMMA_FLAGS(transpose_a, transpose_b) ", %" #transpose_a ", %" #transpose_b
#else
#define HOPPER_WGMMA_TYPES "k16.f32.f16.f16"
#define HOPPER_WGMMA_FLAGS(transpose_a, transpose_b) ", %" #transpose_a ", %" #transpose_b
#endif

#define HOPPER_D(i) "+f"(d[4 * i]), "+f"(d[4 * i + 1]), "+f"(d[4 * i + 2]), "+f"(d[4 * i + 3])

#define HOPPER_R1 "%0, %1, %2, %3"
#define HOPPER_D1 HOPPER_D(0)
#define HOPPER_R2 HOPPER_R1 ", %4, %5, %6, %7"
#define HOPPER_D2 HOPPER_D1, HOPPER_D(1)
#define HOPPER_R3 HOPPER_R2 ", %8, %9, %10, %11"
#define HOPPER_D3 HOPPER_D2, HOPPER_D(2)
#define HOPPER_R4 HOPPER_R3 ", %12, %13, %14, %15"
#define HOPPER_D4 HOPPER_D3, HOPPER_D(3)
#define HOPPER_R5 HOPPER_R4 ", %16, %17, %18, %19"
#define HOPPER_D5 HOPPER_D4, HOPPER_D(4)
#define HOPPER_R6 HOPPER_R5 ", %20, %21, %22, %23"
#define HOPPER_D6 HOPPER_D5, HOPPER_D(5)
#define HOPPER_R7 HOPPER_R6 ", %24, %25, %26, %27"
#define HOPPER_D7 HOPPER_D6, HOPPER_D(6)
#define HOPPER_R8 HOPPER_R7 ", %28, %29, %30, %31"
#define HOPPER_D8 HOPPER_D7, HOPPER_D(7)
#define HOPPER_R9 HOPPER_R8 ", %32, %33, %34, %35"
#define HOPPER_D9 HOPPER_D8, HOPPER_D(8)
#define HOPPER_R10 HOPPER_R9 ", %36, %37, %38, %39"
#define HOPPER_D10 HOPPER_D9, HOPPER_D(9)
#define HOPPER_R11 HOPPER_R10 ", %40, %41, %42, %43"
#define HOPPER_D11 HOPPER_D10, HOPPER_D(10)
#define HOPPER_R12 HOPPER_R11 ", %44, %45, %46, %47"
#define HOPPER_D12 HOPPER_D11, HOPPER_D(11)
#define HOPPER_R13 HOPPER_R12 ", %48, %49, %50, %51"
#define HOPPER_D13 HOPPER_D12, HOPPER_D(12)
#define HOPPER_R14 HOPPER_R13 ", %52, %53, %54, %55"
#define HOPPER_D14 HOPPER_D13, HOPPER_D(13)
#define HOPPER_R15 HOPPER_R14 ", %56, %57, %58, %59"
#define HOPPER_D15 HOPPER_D14, HOPPER_D(14)
#define HOPPER_R16 HOPPER_R15 ", %60, %61, %62, %63"
#define HOPPER_D16 HOPPER_D15, HOPPER_D(15)
#define HOPPER_R17 HOPPER_R16 ", %64, %65, %66, %67"
#define HOPPER_D17 HOPPER_D16, HOPPER_D(16)
#define HOPPER_R18 HOPPER_R17 ", %68, %69, %70, %71"
#define HOPPER_D18 HOPPER_D17, HOPPER_D(17)
#define HOPPER_R19 HOPPER_R18 ", %72, %73, %74, %75"
#define HOPPER_D19 HOPPER_D18, HOPPER_D(18)
#define HOPPER_R20 HOPPER_R19 ", %76, %77, %78, %79"
#define HOPPER_D20 HOPPER_D19, HOPPER_D(19)
#define HOPPER_R21 HOPPER_R20 ", %80, %81, %82, %83"
#define HOPPER_D21 HOPPER_D20, HOPPER_D(20)
#define HOPPER_R22 HOPPER_R21 ", %84, %85, %86, %87"
#define HOPPER_D22 HOPPER_D21, HOPPER_D(21)
#define HOPPER_R23 HOPPER_R22 ", %88, %89, %90, %91"
#define HOPPER_D23 HOPPER_D22, HOPPER_D(22)
#define HOPPER_R24 HOPPER_R23 ", %92, %93, %94, %95"
#define HOPPER_D24 HOPPER_D23, HOPPER_D(23)
#define HOPPER_R25 HOPPER_R24 ", %96, %97, %98, %99"
#define HOPPER_D25 HOPPER_D24, HOPPER_D(24)
#define HOPPER_R26 HOPPER_R25 ", %100, %101, %102, %103"
#define HOPPER_D26 HOPPER_D25, HOPPER_D(25)
#define HOPPER_R27 HOPPER_R26 ", %104, %105, %106, %107"
#define HOPPER_D27 HOPPER_D26, HOPPER_D(26)
#define HOPPER_R28 HOPPER_R27 ", %108, %109, %110, %111"
#define HOPPER_D28 HOPPER_D27, HOPPER_D(27)
#define HOPPER_R29 HOPPER_R28 ", %112, %113, %114, %115"
#define HOPPER_D29 HOPPER_D28, HOPPER_D(28)
#define HOPPER_R30 HOPPER_R29 ", %116, %117, %118, %119"
#define HOPPER_D30 HOPPER_D29, HOPPER_D(29)
#define HOPPER_R31 HOPPER_R30 ", %120, %121, %122, %123"
#define HOPPER_D31 HOPPER_D30, HOPPER_D(30)
#define HOPPER_R32 HOPPER_R31 ", %124, %125, %126, %127"
#define HOPPER_D32 HOPPER_D31, HOPPER_D(31)

namespace hopper {

template <int kN>
struct WgmmaOf;

// Operands after the accumulators are numbered from N / 2 on: A, B, whether to accumulate, and whether A and B are
// transposed.
#define HOPPER_WGMMA(n, blocks, a, b, scale, transpose_a, transpose_b)                                                \
  template <>                                                                                                         \
  struct WgmmaOf<n> {                                                                                                 \
    template <bool kTransposeA, bool kTransposeB, int kCount>                                                         \
    static HOPPER_FN void Begin(float (&d)[kCount], u64 p, u64 q, int accumulate) {                                   \
      static_assert(kCount >= n / 2, "accumulators");                                                                 \
      static_assert(kElementBytes == 2 || (!kTransposeA && !kTransposeB), "K-major operands of 8 bits");              \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #scale ", 0;\nwgmma.mma_async.sync.aligned.m64n" #n            \
                   HOPPER_WGMMA_TYPES " {" HOPPER_R##blocks "}, %" #a ", %" #b ", p, 1, 1"                            \
                   HOPPER_WGMMA_FLAGS(transpose_a, transpose_b) ";\n}"                                                \
                   : HOPPER_D##blocks                                                                                 \
                   : "l"(p), "l"(q), "r"(accumulate), "n"(kTransposeA ? 1 : 0), "n"(kTransposeB ? 1 : 0));            \
    }                                                                                                                 \
  };
HOPPER_WGMMA(8, 1, 4, 5, 6, 7, 8)
HOPPER_WGMMA(16, 2, 8, 9, 10, 11, 12)
HOPPER_WGMMA(24, 3, 12, 13, 14, 15, 16)
HOPPER_WGMMA(32, 4, 16, 17, 18, 19, 20)
HOPPER_WGMMA(40, 5, 20, 21, 22, 23, 24)
HOPPER_WGMMA(48, 6, 24, 25, 26, 27, 28)
HOPPER_WGMMA(56, 7, 28, 29, 30, 31, 32)
HOPPER_WGMMA(64, 8, 32, 33, 34, 35, 36)
HOPPER_WGMMA(72, 9, 36, 37, 38, 39, 40)
HOPPER_WGMMA(80, 10, 40, 41, 42, 43, 44)
HOPPER_WGMMA(88, 11, 44, 45, 46, 47, 48)
HOPPER_WGMMA(96, 12, 48, 49, 50, 51, 52)
HOPPER_WGMMA(104, 13, 52, 53, 54, 55, 56)
HOPPER_WGMMA(112, 14, 56, 57, 58, 59, 60)
HOPPER_WGMMA(120, 15, 60, 61, 62, 63, 64)
HOPPER_WGMMA(128, 16, 64, 65, 66, 67, 68)
HOPPER_WGMMA(136, 17, 68, 69, 70, 71, 72)
HOPPER_WGMMA(144, 18, 72, 73, 74, 75, 76)
HOPPER_WGMMA(152, 19, 76, 77, 78, 79, 80)
HOPPER_WGMMA(160, 20, 80, 81, 82, 83, 84)
HOPPER_WGMMA(168, 21, 84, 85, 86, 87, 88)
HOPPER_WGMMA(176, 22, 88, 89, 90, 91, 92)
HOPPER_WGMMA(184, 23, 92, 93, 94, 95, 96)
HOPPER_WGMMA(192, 24, 96, 97, 98, 99, 100)
HOPPER_WGMMA(200, 25, 100, 101, 102, 103, 104)
HOPPER_WGMMA(208, 26, 104, 105, 106, 107, 108)
HOPPER_WGMMA(216, 27, 108, 109, 110, 111, 112)
HOPPER_WGMMA(224, 28, 112, 113, 114, 115, 116)
HOPPER_WGMMA(232, 29, 116, 117, 118, 119, 120)
HOPPER_WGMMA(240, 30, 120, 121, 122, 123, 124)
HOPPER_WGMMA(248, 31, 124, 125, 126, 127, 128)
HOPPER_WGMMA(256, 32, 128, 129, 130, 131, 132)
#undef HOPPER_WGMMA

// PTX, "wgmma.fence": orders earlier accesses to the accumulators before the next wgmma.
HOPPER_FN void WgmmaFence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
HOPPER_FN void WgmmaCommit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Waits until all but the last `kPending` groups are done: their accumulators written, their shared memory read.
template <int kPending>
HOPPER_FN void WgmmaWait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Keeps the compiler from moving accesses to these accumulators across.
template <int kCount>
HOPPER_FN void PinAccumulators(float (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// Begins D = A * B + D with the first kN columns of B, or D = A * B if `accumulate` is 0. All 128 threads of the
// warpgroup take part.
template <int kN, bool kTransposeA, bool kTransposeB, int kCount>
HOPPER_FN void Wgmma(float (&d)[kCount], u64 a, u64 b, int accumulate) {
  WgmmaOf<kN>::template Begin<kTransposeA, kTransposeB>(d, a, b, accumulate);
}

}  // namespace hopper

#endif  // HOPPER_INSTRUCTIONS
