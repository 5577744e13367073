// wgmma (PTX, "wgmma.mma_async"): D (64 x N, f32, in registers) = A (64 x 16) * B (16 x N) + D, A and B in shared
// memory.
//
// One translation unit uses one N, HOPPER_WGMMA_N, so only that instruction is spelled out. The operand lists are made
// of blocks of four accumulators, of which there are N / 8.
#pragma once

#include "hopper_config.cuh"

#if !defined(HOPPER_INSTRUCTIONS)

#if defined(dtype_bf16)
#define HOPPER_WGMMA_TYPES "f32.bf16.bf16"
#else
#define HOPPER_WGMMA_TYPES "f32.f16.f16"
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

#if HOPPER_WGMMA_N == 8
#define HOPPER_SIZE "m64n8k16"
#define HOPPER_R HOPPER_R1
#define HOPPER_DS HOPPER_D1
#define HOPPER_A "%4"
#define HOPPER_B "%5"
#define HOPPER_SCALE "%6"
#define HOPPER_TNSP "%7, %8"
#elif HOPPER_WGMMA_N == 16
#define HOPPER_SIZE "m64n16k16"
#define HOPPER_R HOPPER_R2
#define HOPPER_DS HOPPER_D2
#define HOPPER_A "%8"
#define HOPPER_B "%9"
#define HOPPER_SCALE "%10"
#define HOPPER_TNSP "%11, %12"
#elif HOPPER_WGMMA_N == 24
#define HOPPER_SIZE "m64n24k16"
#define HOPPER_R HOPPER_R3
#define HOPPER_DS HOPPER_D3
#define HOPPER_A "%12"
#define HOPPER_B "%13"
#define HOPPER_SCALE "%14"
#define HOPPER_TNSP "%15, %16"
#elif HOPPER_WGMMA_N == 32
#define HOPPER_SIZE "m64n32k16"
#define HOPPER_R HOPPER_R4
#define HOPPER_DS HOPPER_D4
#define HOPPER_A "%16"
#define HOPPER_B "%17"
#define HOPPER_SCALE "%18"
#define HOPPER_TNSP "%19, %20"
#elif HOPPER_WGMMA_N == 40
#define HOPPER_SIZE "m64n40k16"
#define HOPPER_R HOPPER_R5
#define HOPPER_DS HOPPER_D5
#define HOPPER_A "%20"
#define HOPPER_B "%21"
#define HOPPER_SCALE "%22"
#define HOPPER_TNSP "%23, %24"
#elif HOPPER_WGMMA_N == 48
#define HOPPER_SIZE "m64n48k16"
#define HOPPER_R HOPPER_R6
#define HOPPER_DS HOPPER_D6
#define HOPPER_A "%24"
#define HOPPER_B "%25"
#define HOPPER_SCALE "%26"
#define HOPPER_TNSP "%27, %28"
#elif HOPPER_WGMMA_N == 56
#define HOPPER_SIZE "m64n56k16"
#define HOPPER_R HOPPER_R7
#define HOPPER_DS HOPPER_D7
#define HOPPER_A "%28"
#define HOPPER_B "%29"
#define HOPPER_SCALE "%30"
#define HOPPER_TNSP "%31, %32"
#elif HOPPER_WGMMA_N == 64
#define HOPPER_SIZE "m64n64k16"
#define HOPPER_R HOPPER_R8
#define HOPPER_DS HOPPER_D8
#define HOPPER_A "%32"
#define HOPPER_B "%33"
#define HOPPER_SCALE "%34"
#define HOPPER_TNSP "%35, %36"
#elif HOPPER_WGMMA_N == 72
#define HOPPER_SIZE "m64n72k16"
#define HOPPER_R HOPPER_R9
#define HOPPER_DS HOPPER_D9
#define HOPPER_A "%36"
#define HOPPER_B "%37"
#define HOPPER_SCALE "%38"
#define HOPPER_TNSP "%39, %40"
#elif HOPPER_WGMMA_N == 80
#define HOPPER_SIZE "m64n80k16"
#define HOPPER_R HOPPER_R10
#define HOPPER_DS HOPPER_D10
#define HOPPER_A "%40"
#define HOPPER_B "%41"
#define HOPPER_SCALE "%42"
#define HOPPER_TNSP "%43, %44"
#elif HOPPER_WGMMA_N == 88
#define HOPPER_SIZE "m64n88k16"
#define HOPPER_R HOPPER_R11
#define HOPPER_DS HOPPER_D11
#define HOPPER_A "%44"
#define HOPPER_B "%45"
#define HOPPER_SCALE "%46"
#define HOPPER_TNSP "%47, %48"
#elif HOPPER_WGMMA_N == 96
#define HOPPER_SIZE "m64n96k16"
#define HOPPER_R HOPPER_R12
#define HOPPER_DS HOPPER_D12
#define HOPPER_A "%48"
#define HOPPER_B "%49"
#define HOPPER_SCALE "%50"
#define HOPPER_TNSP "%51, %52"
#elif HOPPER_WGMMA_N == 104
#define HOPPER_SIZE "m64n104k16"
#define HOPPER_R HOPPER_R13
#define HOPPER_DS HOPPER_D13
#define HOPPER_A "%52"
#define HOPPER_B "%53"
#define HOPPER_SCALE "%54"
#define HOPPER_TNSP "%55, %56"
#elif HOPPER_WGMMA_N == 112
#define HOPPER_SIZE "m64n112k16"
#define HOPPER_R HOPPER_R14
#define HOPPER_DS HOPPER_D14
#define HOPPER_A "%56"
#define HOPPER_B "%57"
#define HOPPER_SCALE "%58"
#define HOPPER_TNSP "%59, %60"
#elif HOPPER_WGMMA_N == 120
#define HOPPER_SIZE "m64n120k16"
#define HOPPER_R HOPPER_R15
#define HOPPER_DS HOPPER_D15
#define HOPPER_A "%60"
#define HOPPER_B "%61"
#define HOPPER_SCALE "%62"
#define HOPPER_TNSP "%63, %64"
#elif HOPPER_WGMMA_N == 128
#define HOPPER_SIZE "m64n128k16"
#define HOPPER_R HOPPER_R16
#define HOPPER_DS HOPPER_D16
#define HOPPER_A "%64"
#define HOPPER_B "%65"
#define HOPPER_SCALE "%66"
#define HOPPER_TNSP "%67, %68"
#elif HOPPER_WGMMA_N == 136
#define HOPPER_SIZE "m64n136k16"
#define HOPPER_R HOPPER_R17
#define HOPPER_DS HOPPER_D17
#define HOPPER_A "%68"
#define HOPPER_B "%69"
#define HOPPER_SCALE "%70"
#define HOPPER_TNSP "%71, %72"
#elif HOPPER_WGMMA_N == 144
#define HOPPER_SIZE "m64n144k16"
#define HOPPER_R HOPPER_R18
#define HOPPER_DS HOPPER_D18
#define HOPPER_A "%72"
#define HOPPER_B "%73"
#define HOPPER_SCALE "%74"
#define HOPPER_TNSP "%75, %76"
#elif HOPPER_WGMMA_N == 152
#define HOPPER_SIZE "m64n152k16"
#define HOPPER_R HOPPER_R19
#define HOPPER_DS HOPPER_D19
#define HOPPER_A "%76"
#define HOPPER_B "%77"
#define HOPPER_SCALE "%78"
#define HOPPER_TNSP "%79, %80"
#elif HOPPER_WGMMA_N == 160
#define HOPPER_SIZE "m64n160k16"
#define HOPPER_R HOPPER_R20
#define HOPPER_DS HOPPER_D20
#define HOPPER_A "%80"
#define HOPPER_B "%81"
#define HOPPER_SCALE "%82"
#define HOPPER_TNSP "%83, %84"
#elif HOPPER_WGMMA_N == 168
#define HOPPER_SIZE "m64n168k16"
#define HOPPER_R HOPPER_R21
#define HOPPER_DS HOPPER_D21
#define HOPPER_A "%84"
#define HOPPER_B "%85"
#define HOPPER_SCALE "%86"
#define HOPPER_TNSP "%87, %88"
#elif HOPPER_WGMMA_N == 176
#define HOPPER_SIZE "m64n176k16"
#define HOPPER_R HOPPER_R22
#define HOPPER_DS HOPPER_D22
#define HOPPER_A "%88"
#define HOPPER_B "%89"
#define HOPPER_SCALE "%90"
#define HOPPER_TNSP "%91, %92"
#elif HOPPER_WGMMA_N == 184
#define HOPPER_SIZE "m64n184k16"
#define HOPPER_R HOPPER_R23
#define HOPPER_DS HOPPER_D23
#define HOPPER_A "%92"
#define HOPPER_B "%93"
#define HOPPER_SCALE "%94"
#define HOPPER_TNSP "%95, %96"
#elif HOPPER_WGMMA_N == 192
#define HOPPER_SIZE "m64n192k16"
#define HOPPER_R HOPPER_R24
#define HOPPER_DS HOPPER_D24
#define HOPPER_A "%96"
#define HOPPER_B "%97"
#define HOPPER_SCALE "%98"
#define HOPPER_TNSP "%99, %100"
#elif HOPPER_WGMMA_N == 200
#define HOPPER_SIZE "m64n200k16"
#define HOPPER_R HOPPER_R25
#define HOPPER_DS HOPPER_D25
#define HOPPER_A "%100"
#define HOPPER_B "%101"
#define HOPPER_SCALE "%102"
#define HOPPER_TNSP "%103, %104"
#elif HOPPER_WGMMA_N == 208
#define HOPPER_SIZE "m64n208k16"
#define HOPPER_R HOPPER_R26
#define HOPPER_DS HOPPER_D26
#define HOPPER_A "%104"
#define HOPPER_B "%105"
#define HOPPER_SCALE "%106"
#define HOPPER_TNSP "%107, %108"
#elif HOPPER_WGMMA_N == 216
#define HOPPER_SIZE "m64n216k16"
#define HOPPER_R HOPPER_R27
#define HOPPER_DS HOPPER_D27
#define HOPPER_A "%108"
#define HOPPER_B "%109"
#define HOPPER_SCALE "%110"
#define HOPPER_TNSP "%111, %112"
#elif HOPPER_WGMMA_N == 224
#define HOPPER_SIZE "m64n224k16"
#define HOPPER_R HOPPER_R28
#define HOPPER_DS HOPPER_D28
#define HOPPER_A "%112"
#define HOPPER_B "%113"
#define HOPPER_SCALE "%114"
#define HOPPER_TNSP "%115, %116"
#elif HOPPER_WGMMA_N == 232
#define HOPPER_SIZE "m64n232k16"
#define HOPPER_R HOPPER_R29
#define HOPPER_DS HOPPER_D29
#define HOPPER_A "%116"
#define HOPPER_B "%117"
#define HOPPER_SCALE "%118"
#define HOPPER_TNSP "%119, %120"
#elif HOPPER_WGMMA_N == 240
#define HOPPER_SIZE "m64n240k16"
#define HOPPER_R HOPPER_R30
#define HOPPER_DS HOPPER_D30
#define HOPPER_A "%120"
#define HOPPER_B "%121"
#define HOPPER_SCALE "%122"
#define HOPPER_TNSP "%123, %124"
#elif HOPPER_WGMMA_N == 248
#define HOPPER_SIZE "m64n248k16"
#define HOPPER_R HOPPER_R31
#define HOPPER_DS HOPPER_D31
#define HOPPER_A "%124"
#define HOPPER_B "%125"
#define HOPPER_SCALE "%126"
#define HOPPER_TNSP "%127, %128"
#elif HOPPER_WGMMA_N == 256
#define HOPPER_SIZE "m64n256k16"
#define HOPPER_R HOPPER_R32
#define HOPPER_DS HOPPER_D32
#define HOPPER_A "%128"
#define HOPPER_B "%129"
#define HOPPER_SCALE "%130"
#define HOPPER_TNSP "%131, %132"
#else
#error "HOPPER_WGMMA_N must be a multiple of 8 from 8 to 256"
#endif

namespace hopper {

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

// Begins D = A * B + D, or D = A * B if `accumulate` is 0. All 128 threads of the warpgroup take part.
template <bool kTransposeA, bool kTransposeB>
HOPPER_FN void Wgmma(float (&d)[(HOPPER_WGMMA_N) / 2], u64 a, u64 b, int accumulate) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " HOPPER_SCALE ", 0;\nwgmma.mma_async.sync.aligned." HOPPER_SIZE
               "." HOPPER_WGMMA_TYPES " {" HOPPER_R "}, " HOPPER_A ", " HOPPER_B ", p, 1, 1, " HOPPER_TNSP ";\n}"
               : HOPPER_DS
               : "l"(a), "l"(b), "r"(accumulate), "n"(kTransposeA ? 1 : 0), "n"(kTransposeB ? 1 : 0));
}

}  // namespace hopper

#endif  // HOPPER_INSTRUCTIONS
