// The instructions of sm_90a that the kernels use, one function each. "PTX" names the section of the PTX ISA.
//
// Addresses in shared memory are 32-bit ones of the block's own window. tests/unit/hopper/instructions.h has the same
// functions for a host compiler (it is what HOPPER_INSTRUCTIONS then names); whatever is added here is added there.
#pragma once

#include "hopper_layout.cuh"

#if defined(HOPPER_INSTRUCTIONS)
#include HOPPER_INSTRUCTIONS
#else

namespace hopper {

// --- Threads ---

HOPPER_FN int ThreadIndex() { return static_cast<int>(threadIdx.x); }
HOPPER_FN int BlockIndex() { return static_cast<int>(blockIdx.x); }
HOPPER_FN int BlockCount() { return static_cast<int>(gridDim.x); }

extern __shared__ __align__(1024) unsigned char dynamic_shared[];

// The block's dynamic shared memory.
HOPPER_FN unsigned char* DynamicShared() { return dynamic_shared; }

HOPPER_FN u32 SharedAddress(const void* pointer) { return static_cast<u32>(__cvta_generic_to_shared(pointer)); }

HOPPER_FN void Trap() { asm volatile("trap;"); }

// The same value in every lane, and known to be so by the compiler.
HOPPER_FN int Uniform(int value) { return __shfl_sync(0xFFFFFFFF, value, 0); }

// True in one thread of the warp, whose threads must be together (PTX, "elect.sync"). Where it guards an instruction of
// the copy engine, the compiler knows that one thread is left; guarded by a comparison it makes a loop over threads.
HOPPER_FN bool ElectOne() {
  u32 elected;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xFFFFFFFF;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(elected));
  return elected != 0;
}

HOPPER_FN void WarpSync() { __syncwarp(); }
HOPPER_FN void BlockSync() { __syncthreads(); }

// PTX, "bar.sync": `threads` threads meet. Barrier 0 is BlockSync's.
HOPPER_FN void NamedBarrier(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// PTX, "setmaxnreg": all warps of the warpgroup must execute it.
template <int kRegisters>
HOPPER_FN void RaiseRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
HOPPER_FN void LowerRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// --- Programmatic dependent launch ---

// PTX, "griddepcontrol": until the grids before have ended and what they wrote is seen. Returns at once where the
// launch is not a dependent one.
HOPPER_FN void WaitForGridBefore() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
// The grid after may begin once all blocks have said so: it waits for this one's end before it reads.
HOPPER_FN void AllowGridAfter() { asm volatile("griddepcontrol.launch_dependents;"); }

// --- Clusters ---

HOPPER_FN int ClusterRank() {
  u32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int>(rank);
}

// PTX, "barrier.cluster": all threads of the cluster meet; what they wrote before is seen after.
HOPPER_FN void ClusterSync() {
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

// --- Barriers in shared memory (PTX, "mbarrier") ---

HOPPER_FN void BarrierInit(u32 barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Makes initialised barriers visible to the other blocks of the cluster and to the copy engine.
HOPPER_FN void FenceBarrierInit() {
  asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::: "memory");
}

HOPPER_FN void BarrierArrive(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Arrives at the barrier that lies at the same place in block `rank` of the cluster (PTX, "mapa"). Nothing that threads
// wrote passes from block to block by barriers, only places in shared memory whose reads are over, so the default scope
// is enough: with .cluster every arrival would be a MEMBAR of the whole device, and every wait a CCTL that empties L1.
HOPPER_FN void BarrierArriveAt(u32 barrier, int rank) {
  asm volatile(
      "{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n}" ::"r"(barrier),
      "r"(rank)
      : "memory");
}

// Arrives and lets the phase wait for `bytes` more from the copy engine.
HOPPER_FN void BarrierArriveExpect(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// Waits until the phase of this parity has ended; what this block's threads wrote before they arrived, and what the
// copy engine wrote, is seen after. With HOPPER_WAITS_MAX defined (bring-up) a barrier that never comes ends the launch
// with an error.
HOPPER_FN void BarrierWait(u32 barrier, u32 parity) {
#if defined(HOPPER_WAITS_MAX)
  for (u32 tries = 0;; ++tries) {
    u32 done;
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, "
        "p;\n}"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
    if (done != 0) return;
    if (tries > HOPPER_WAITS_MAX) Trap();
  }
#else
  asm volatile(
      "{\n.reg .pred p;\nWAIT:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra "
      "DONE;\nbra WAIT;\n"
      "DONE:\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
#endif
}

// PTX, "fence.proxy.async": what this thread wrote to shared memory, or saw written before it, is seen by wgmma and by
// the copy engine.
HOPPER_FN void FenceProxyAsync() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// --- The copy engine (PTX, "cp.async.bulk.tensor", "cp.async.bulk") ---

HOPPER_FN void PrefetchMap(const TensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(reinterpret_cast<u64>(map)) : "memory");
}

// Copies the box at these coordinates to shared memory; its bytes count towards the barrier's phase. What lies outside
// of the tensor is filled with zeros and counts as well.
HOPPER_FN void LoadBox(u32 target, const TensorMap* map, int x, int y, u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::
          "r"(target),
      "l"(reinterpret_cast<u64>(map)), "r"(barrier), "r"(x), "r"(y)
      : "memory");
}
HOPPER_FN void LoadBox(u32 target, const TensorMap* map, int x, int y, int z, u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], "
      "[%2];" ::"r"(target),
      "l"(reinterpret_cast<u64>(map)), "r"(barrier), "r"(x), "r"(y), "r"(z)
      : "memory");
}

// The same to the same place in every block of the cluster whose bit is set in `blocks`, and towards the barrier there.
HOPPER_FN void LoadBoxMulticast(u32 target, const TensorMap* map, int x, int y, u32 barrier, unsigned short blocks) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
      "[%1, {%4, %5}], [%2], %3;" ::"r"(target),
      "l"(reinterpret_cast<u64>(map)), "r"(barrier), "h"(blocks), "r"(x), "r"(y)
      : "memory");
}
HOPPER_FN void LoadBoxMulticast(u32 target, const TensorMap* map, int x, int y, int z, u32 barrier,
                                unsigned short blocks) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
      "[%1, {%4, %5, %6}], [%2], %3;" ::"r"(target),
      "l"(reinterpret_cast<u64>(map)), "r"(barrier), "h"(blocks), "r"(x), "r"(y), "r"(z)
      : "memory");
}

// Copies a box from shared memory to the tensor; what lies outside of the tensor is not written. Belongs to the
// thread's current group of stores.
HOPPER_FN void StoreBox(const TensorMap* map, int x, int y, u32 source) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(
                   reinterpret_cast<u64>(map)),
               "r"(source), "r"(x), "r"(y)
               : "memory");
}

HOPPER_FN void StoreBox(const TensorMap* map, int x, int y, int z, u32 source) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(
                   reinterpret_cast<u64>(map)),
               "r"(source), "r"(x), "r"(y), "r"(z)
               : "memory");
}

// Copies `bytes` (a multiple of 16) from shared to global memory, both 16-byte aligned.
HOPPER_FN void StoreBulk(void* target, u32 source, u32 bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(reinterpret_cast<u64>(target)),
               "r"(source), "r"(bytes)
               : "memory");
}

HOPPER_FN void StoreCommit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// Waits until all but the last `kPending` groups of this thread have read their shared memory.
template <int kPending>
HOPPER_FN void StoreWaitRead() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}
// Waits until all of this thread's stores have been made.
HOPPER_FN void StoreWait() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

// --- Copies by threads (PTX, "cp.async") ---

// Copies 16 bytes, or writes 16 zero bytes where `inside` is false (the source is then not read).
HOPPER_FN void CopyPiece(u32 target, const Element* source, bool inside) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(target), "l"(source),
               "r"(inside ? kPieceBytes : 0)
               : "memory");
}

// Copies one float, or writes zero where `inside` is false (the source is then not read). Through L1, since what stands
// beside it is asked for by the next steps.
HOPPER_FN void CopyFloat(u32 target, const float* source, bool inside) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(target), "l"(source), "r"(inside ? 4 : 0)
               : "memory");
}

// Arrives at the barrier once all copies that this thread has begun are done; counts as one of its arrivals.
HOPPER_FN void CopyArrive(u32 barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

// --- Registers to memory ---

struct Piece {
  u32 words[4];
};

HOPPER_FN Piece LoadPiece(u32 address) {
  Piece piece;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(piece.words[0]), "=r"(piece.words[1]), "=r"(piece.words[2]), "=r"(piece.words[3])
               : "r"(address)
               : "memory");
  return piece;
}
HOPPER_FN float LoadSharedFloat(u32 address) {
  float value;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(address) : "memory");
  return value;
}
HOPPER_FN void LoadSharedFloats(u32 address, float& first, float& second) {
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(first), "=f"(second) : "r"(address) : "memory");
}
HOPPER_FN void StoreZeroPiece(u32 address) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(address), "r"(0) : "memory");
}

HOPPER_FN void StoreSharedFloat(u32 address, float value) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(value) : "memory");
}
// The lowest byte of `value`.
HOPPER_FN void StoreSharedByte(u32 address, u32 value) {
  asm volatile("st.shared.b8 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}

// Of memory that nothing writes during the kernel.
HOPPER_FN float LoadGlobalFloat(const float* source) {
  float value;
  asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(value) : "l"(source) : "memory");
  return value;
}

HOPPER_FN void StoreGlobalPiece(OutElement* target, const Piece& piece) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(target), "r"(piece.words[0]), "r"(piece.words[1]),
               "r"(piece.words[2]), "r"(piece.words[3])
               : "memory");
}
HOPPER_FN void StoreGlobalPair(OutElement* target, u32 pair) {
  asm volatile("st.global.b32 [%0], %1;" ::"l"(target), "r"(pair) : "memory");
}

HOPPER_FN void StoreGlobalFloat(float* target, float value) {
  asm volatile("st.global.f32 [%0], %1;" ::"l"(target), "f"(value) : "memory");
}

// PTX, "stmatrix": four 8 x 8 matrices, lane l giving the address of row l % 8 of matrix l / 8.
template <bool kTranspose>
HOPPER_FN void StoreMatrices(u32 address, u32 a, u32 b, u32 c, u32 d) {
  if constexpr (kTranspose) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a),
                 "r"(b), "r"(c), "r"(d)
                 : "memory");
  } else {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a), "r"(b),
                 "r"(c), "r"(d)
                 : "memory");
  }
}

// --- Numbers ---

// Rounds two values to the element type of the output, `low` at the lower address.
HOPPER_FN u32 PackPair(float low, float high) {
  u32 pair;
#if !defined(dtype_f16)
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
#else
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
#endif
  return pair;
}

// Multiplies both by `factor`, which is a value of the element type, and rounds again.
HOPPER_FN u32 ScalePair(u32 pair, float factor) {
#if !defined(dtype_f16)
  return PackPair(__uint_as_float(pair << 16) * factor, __uint_as_float(pair & 0xFFFF0000u) * factor);
#else
  float low, high;
  asm("{\n.reg .b16 l, h;\nmov.b32 {l, h}, %2;\ncvt.f32.f16 %0, l;\ncvt.f32.f16 %1, h;\n}"
      : "=f"(low), "=f"(high)
      : "r"(pair));
  return PackPair(low * factor, high * factor);
#endif
}

// The nearest value of the element type.
HOPPER_FN float RoundToElement(float value) {
#if !defined(dtype_f16)
  return __uint_as_float(PackPair(value, 0.0f) << 16);
#else
  float rounded;
  asm("{\n.reg .b16 h;\ncvt.rn.f16.f32 h, %1;\ncvt.f32.f16 %0, h;\n}" : "=f"(rounded) : "f"(value));
  return rounded;
#endif
}

// SiLU(gate) * up, with SiLU(x) = x / (1 + e^-x).
HOPPER_FN float SiluMultiply(float gate, float up) { return __fdividef(gate, 1.0f + __expf(-gate)) * up; }

HOPPER_FN float Magnitude(float value) { return fabsf(value); }
// The larger of two, and of a number and NaN the number.
HOPPER_FN float Larger(float a, float b) { return fmaxf(a, b); }

// value / scale as the division rounds it, given reciprocal = 1 / scale and a normal scale: one step of Newton's method
// from value * reciprocal.
HOPPER_FN float Quotient(float value, float scale, float reciprocal) {
  const float product = value * reciprocal;
  return fmaf(fmaf(-product, scale, value), reciprocal, product);
}

#if defined(quantize_y)
// Two values rounded to the nearest e4m3, ties to even, past 448 to 448; `low` in the lowest byte.
HOPPER_FN u32 PackFp8Pair(float low, float high) {
  unsigned short pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  return pair;
}
#endif

// How many lanes of the warp say yes.
HOPPER_FN int CountLanes(bool yes) { return __popc(__ballot_sync(0xFFFFFFFF, yes)); }

HOPPER_FN int ShuffleUp(int value, int lanes) { return __shfl_up_sync(0xFFFFFFFF, value, lanes); }
// The value of the lane whose number differs in the bits of `mask`.
HOPPER_FN u32 ShuffleXor(u32 value, int mask) { return __shfl_xor_sync(0xFFFFFFFF, value, mask); }
HOPPER_FN float ShuffleXor(float value, int mask) { return __shfl_xor_sync(0xFFFFFFFF, value, mask); }
HOPPER_FN int Shuffle(int value, int lane) { return __shfl_sync(0xFFFFFFFF, value, lane); }
HOPPER_FN float Shuffle(float value, int lane) { return __shfl_sync(0xFFFFFFFF, value, lane); }

}  // namespace hopper

#endif  // HOPPER_INSTRUCTIONS
