// What kernels/grouped_gemm/hopper_ptx.cuh and hopper_wgmma.cuh have, for a host: calls of the machine. Included inside
// of a namespace of the config, after tests/unit/hopper/machine.h.

#pragma once

namespace hopper {

namespace machine = ::tunefarm::hopper_machine;

inline int ThreadIndex() { return machine::ThreadIndex(); }
inline int BlockIndex() { return machine::BlockIndex(); }
inline int BlockCount() { return machine::BlockCount(); }
inline unsigned char* DynamicShared() { return machine::DynamicShared(); }
inline u32 SharedAddress(const void* pointer) { return machine::SharedAddress(pointer); }
inline void Trap() { machine::Trap(); }
inline int Uniform(int value) { return static_cast<int>(machine::Exchange(static_cast<u32>(value), 0)); }
inline bool ElectOne() { return machine::Exchange(0, 0) == 0 && machine::ThreadIndex() % 32 == 0; }
inline void WarpSync() { machine::WarpSync(); }
inline void BlockSync() { machine::BlockSync(); }
inline void NamedBarrier(int id, int threads) { machine::NamedBarrier(id, threads); }
template <int kRegisters>
void RaiseRegisters() {
  machine::WarpSync();
}
template <int kRegisters>
void LowerRegisters() {
  machine::WarpSync();
}
inline void WaitForGridBefore() { machine::WaitForGridBefore(); }
inline void AllowGridAfter() {}

inline int ClusterRank() { return machine::ClusterRank(); }
inline void ClusterSync() { machine::ClusterSync(); }

inline void BarrierInit(u32 barrier, u32 arrivals) { machine::BarrierInit(barrier, arrivals); }
inline void FenceBarrierInit() {}
inline void BarrierArrive(u32 barrier) { machine::BarrierArrive(barrier, -1, 0); }
inline void BarrierArriveAt(u32 barrier, int rank) { machine::BarrierArrive(barrier, rank, 0); }
inline void BarrierArriveExpect(u32 barrier, u32 bytes) { machine::BarrierArrive(barrier, -1, bytes); }
inline void BarrierWait(u32 barrier, u32 parity) { machine::BarrierWait(barrier, parity); }
inline void FenceProxyAsync() { machine::FenceProxyAsync(); }

inline const machine::BoxMap& MapOf(const TensorMap* map) { return *reinterpret_cast<const machine::BoxMap*>(map); }
inline void PrefetchMap(const TensorMap*) {}
inline void LoadBox(u32 target, const TensorMap* map, int x, int y, u32 barrier) {
  machine::LoadBox(target, MapOf(map), {x, y}, barrier, 0);
}
inline void LoadBox(u32 target, const TensorMap* map, int x, int y, int z, u32 barrier) {
  machine::LoadBox(target, MapOf(map), {x, y, z}, barrier, 0);
}
inline void LoadBoxMulticast(u32 target, const TensorMap* map, int x, int y, u32 barrier, unsigned short blocks) {
  machine::LoadBox(target, MapOf(map), {x, y}, barrier, blocks);
}
inline void LoadBoxMulticast(u32 target, const TensorMap* map, int x, int y, int z, u32 barrier,
                             unsigned short blocks) {
  machine::LoadBox(target, MapOf(map), {x, y, z}, barrier, blocks);
}
inline void StoreBox(const TensorMap* map, int x, int y, u32 source) { machine::StoreBox(MapOf(map), {x, y}, source); }
inline void StoreBox(const TensorMap* map, int x, int y, int z, u32 source) {
  machine::StoreBox(MapOf(map), {x, y, z}, source);
}
inline void StoreBulk(void* target, u32 source, u32 bytes) { machine::StoreBulk(target, source, bytes); }
inline void StoreCommit() { machine::StoreCommit(); }
template <int kPending>
void StoreWaitRead() {
  machine::StoreWait(kPending, false);
}
inline void StoreWait() { machine::StoreWait(0, true); }

inline void CopyPiece(u32 target, const Element* source, bool inside) { machine::CopyPiece(target, source, inside); }
inline void CopyFloat(u32 target, const float* source, bool inside) { machine::CopyPiece(target, source, inside, 4); }
inline void CopyArrive(u32 barrier) { machine::CopyArrive(barrier); }

struct Piece {
  u32 words[4];
};
inline Piece LoadPiece(u32 address) {
  Piece piece;
  machine::ReadShared(address, &piece, 16);
  return piece;
}
inline float LoadSharedFloat(u32 address) {
  float value;
  machine::ReadShared(address, &value, 4);
  return value;
}
inline void LoadSharedFloats(u32 address, float& first, float& second) {
  if (address % 8 != 0) machine::Trap();
  first = LoadSharedFloat(address);
  second = LoadSharedFloat(address + 4);
}
inline void StoreZeroPiece(u32 address) {
  const Piece zero{};
  machine::WriteShared(address, &zero, 16);
}
inline void StoreSharedFloat(u32 address, float value) { machine::WriteShared(address, &value, 4); }
inline void StoreSharedByte(u32 address, u32 value) { machine::WriteShared(address, &value, 1); }
inline float LoadGlobalFloat(const float* source) {
  machine::CheckGlobal(source, 4);
  return *source;
}
inline void StoreGlobalPiece(OutElement* target, const Piece& piece) {
  machine::CheckGlobal(target, 16);
  if (reinterpret_cast<u64>(target) % 16 != 0) machine::Trap();
  __builtin_memcpy(target, &piece, 16);
}
inline void StoreGlobalPair(OutElement* target, u32 pair) {
  machine::CheckGlobal(target, 4);
  if (reinterpret_cast<u64>(target) % 4 != 0) machine::Trap();
  __builtin_memcpy(target, &pair, 4);
}
inline void StoreGlobalFloat(float* target, float value) {
  machine::CheckGlobal(target, 4);
  *target = value;
}

// PTX, "stmatrix": lane l gives the address of row l % 8 of matrix l / 8 and has, of each matrix, elements 2 (l % 4)
// and the next of row l / 4; with .trans of column l / 4.
template <bool kTranspose>
void StoreMatrices(u32 address, u32 a, u32 b, u32 c, u32 d) {
  const u32 values[4] = {a, b, c, d};
  for (int matrix = 0; matrix < 4; ++matrix) {
    for (int lane = 0; lane < 32; ++lane) {
      const u64 pair = machine::Exchange(values[matrix], lane);
      for (int part = 0; part < 2; ++part) {
        const int along = lane % 4 * 2 + part;
        const int row = kTranspose ? along : lane / 4;
        const int column = kTranspose ? lane / 4 : along;
        // The lane whose address this row is writes it.
        if (machine::ThreadIndex() % 32 != matrix * 8 + row) continue;
        const unsigned short element = static_cast<unsigned short>(pair >> (16 * part));
        machine::WriteShared(address + static_cast<u32>(column) * 2, &element, 2);
      }
    }
  }
}

inline float BitsToFloat(u32 bits) { return __builtin_bit_cast(float, bits); }
#if !defined(dtype_f16)
inline float ElementToFloat(unsigned short bits) { return BitsToFloat(static_cast<u32>(bits) << 16); }
inline u32 RoundedBits(float value) {
  const u32 bits = __builtin_bit_cast(u32, value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return 0x7FFF;
  return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
}
#else
inline float ElementToFloat(unsigned short bits) { return static_cast<float>(__builtin_bit_cast(_Float16, bits)); }
inline u32 RoundedBits(float value) { return __builtin_bit_cast(unsigned short, static_cast<_Float16>(value)); }
#endif
#if defined(dtype_fp8)
// OCP 8-bit floating point, e4m3: 4 bits of exponent with bias 7, 3 of mantissa, no infinities, NaN where both are
// ones.
inline float OperandToFloat(unsigned short bits) {
  const int exponent = bits >> 3 & 15, mantissa = bits & 7;
  const float value = exponent == 15 && mantissa == 7 ? __builtin_nanf("")
                      : exponent == 0                 ? __builtin_ldexpf(static_cast<float>(mantissa), -9)
                                      : __builtin_ldexpf(static_cast<float>(8 + mantissa), exponent - 10);
  return (bits & 0x80) != 0 ? -value : value;
}
// The nearest value that e4m3 has, of two the one with an even mantissa; what is past 448, its largest, becomes 448.
inline u32 RoundedFp8Bits(float value) {
  const u32 sign = __builtin_signbit(value) ? 0x80 : 0;
  const float magnitude = __builtin_fabsf(value);
  if (magnitude != magnitude) return 0x7F;
  if (magnitude >= 448.0f) return sign | 0x7E;
  u32 below = 0;  // the largest that is not above
  while (OperandToFloat(static_cast<unsigned short>(below + 1)) <= magnitude) ++below;
  const float down = magnitude - OperandToFloat(static_cast<unsigned short>(below));
  const float up = OperandToFloat(static_cast<unsigned short>(below + 1)) - magnitude;
  return sign | (below + (up < down || (up == down && below % 2 == 1) ? 1 : 0));
}
inline u32 PackFp8Pair(float low, float high) { return RoundedFp8Bits(low) | RoundedFp8Bits(high) << 8; }
// Of values that e4m3 has, and NaN of those past its largest, 448.
inline unsigned short OperandBits(float value) {
  for (unsigned bits = 0; bits < 256; ++bits) {
    if (OperandToFloat(static_cast<unsigned short>(bits)) == value) return static_cast<unsigned short>(bits);
  }
  return 0x7F;
}
#else
inline float OperandToFloat(unsigned short bits) { return ElementToFloat(bits); }
inline unsigned short OperandBits(float value) { return static_cast<unsigned short>(RoundedBits(value)); }
#endif
inline u32 PackPair(float low, float high) { return RoundedBits(low) | RoundedBits(high) << 16; }
inline float RoundToElement(float value) { return ElementToFloat(static_cast<unsigned short>(RoundedBits(value))); }
inline u32 ScalePair(u32 pair, float factor) {
  return PackPair(ElementToFloat(static_cast<unsigned short>(pair)) * factor,
                  ElementToFloat(static_cast<unsigned short>(pair >> 16)) * factor);
}

inline float SiluMultiply(float gate, float up) { return gate / (1.0f + __builtin_expf(-gate)) * up; }

inline float Magnitude(float value) { return __builtin_fabsf(value); }
inline float Larger(float a, float b) { return __builtin_fmaxf(a, b); }
inline float Quotient(float value, float scale, float) { return value / scale; }

inline u32 ShuffleXor(u32 value, int mask) {
  return static_cast<u32>(machine::Exchange(value, (machine::ThreadIndex() % 32) ^ mask));
}
inline float ShuffleXor(float value, int mask) { return BitsToFloat(ShuffleXor(__builtin_bit_cast(u32, value), mask)); }
inline int Shuffle(int value, int lane) { return static_cast<int>(machine::Exchange(static_cast<u32>(value), lane)); }
inline float Shuffle(float value, int lane) {
  return BitsToFloat(static_cast<u32>(machine::Exchange(__builtin_bit_cast(u32, value), lane)));
}
inline int CountLanes(bool yes) { return machine::CountLanes(yes); }
inline int ShuffleUp(int value, int lanes) {
  const int lane = machine::ThreadIndex() % 32;
  return Shuffle(value, lane >= lanes ? lane - lanes : lane);
}

inline void WgmmaFence() {}
inline void WgmmaCommit() { machine::WgmmaCommit(); }
template <int kPending>
void WgmmaWait() {
  machine::WgmmaWait(kPending);
}
template <int kCount>
void PinAccumulators(float (&d)[kCount]) {
  // Seen by the compiler to be read and written, as the operations that the machine ran did.
  asm volatile("" ::"r"(&d[0]) : "memory");
}
template <int kN, bool kTransposeA, bool kTransposeB, int kCount>
void Wgmma(float (&d)[kCount], u64 a, u64 b, int accumulate) {
  static_assert(kN <= 2 * kCount, "accumulators");
  machine::Wgmma({kN, kTransposeA, kTransposeB, a, b, accumulate != 0, kElementBytes, OperandToFloat}, d);
}

}  // namespace hopper
