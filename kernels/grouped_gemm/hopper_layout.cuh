// Where things lie in shared memory and in the accumulators of wgmma: swizzles, matrix descriptors, fragments.
//
// Pure arithmetic without instructions of the GPU, so that a host compiler can check it. "PTX" means the PTX ISA 8.0
// and newer, chapter "Asynchronous Warpgroup Level Matrix Instructions" (9.7.15 in PTX 8.7): sections "Shared Memory
// Matrix Layout", "Matrix Descriptor Format" and "Register Fragments".
#pragma once

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define HOPPER_FN __device__ __forceinline__
#else
#define HOPPER_FN inline
#endif

namespace hopper {

using u32 = unsigned;
using u64 = unsigned long long;

#if defined(dtype_fp8)
constexpr int kElementBytes = 1;  // Of the operands: e4m3.
#else
constexpr int kElementBytes = 2;  // bf16 and fp16
#endif
#if defined(quantize_y)
constexpr int kOutBytes = 1;  // Of the output: e4m3.
#else
constexpr int kOutBytes = 2;  // bf16 and fp16
#endif
constexpr int kPieceBytes = 16;  // The unit that swizzles move and that one thread copies.
constexpr int kPieceElements = kPieceBytes / kElementBytes;
constexpr int kOutPieceElements = kPieceBytes / kOutBytes;
constexpr int kWgmmaM = 64;
constexpr int kWgmmaK = 32 / kElementBytes;  // The terms of one wgmma: 32 bytes of each row.

constexpr int CeilDiv(int a, int b) { return (a + b - 1) / b; }

// Swizzles of 128, 64 and 32 bytes exchange 16-byte pieces: bits 4 and up of the address are XORed with bits 7 and up,
// three, two or one of them (PTX, "Swizzling Modes" of tensor copies). The same holds for wgmma. `offset` counts from
// an address that is a multiple of 1024.
constexpr u32 SwizzledOffset(u32 offset, int swizzle_bytes) {
  const u32 pieces = static_cast<u32>(swizzle_bytes / kPieceBytes);
  return offset ^ (((offset >> 7) & (pieces - 1)) << 4);
}

// PTX, "Matrix Descriptor Format": bits 13-0 start address, 29-16 leading dimension byte offset, 45-32 stride dimension
// byte offset, each divided by 16; 51-49 base offset, zero because rows of swizzle patterns begin at multiples of 1024
// bytes; 63-62 swizzle mode: 0 none, 1 128 bytes, 2 64 bytes, 3 32 bytes.
constexpr u64 MatrixDescriptor(u32 address, u32 leading_bytes, u32 stride_bytes, int swizzle_bytes) {
  const u64 mode = swizzle_bytes == 128 ? 1 : swizzle_bytes == 64 ? 2 : swizzle_bytes == 32 ? 3 : 0;
  return static_cast<u64>((address & 0x3FFFF) >> 4) | static_cast<u64>((leading_bytes & 0x3FFFF) >> 4) << 16 |
         static_cast<u64>((stride_bytes & 0x3FFFF) >> 4) << 32 | mode << 62;
}

// The descriptor of what lies `bytes` further. Shared memory ends below 2^18, so that nothing is carried out of the
// field; said in words of 32 bits, the upper one stays in its uniform register.
constexpr u64 Advanced(u64 descriptor, u32 bytes) {
  return (descriptor & 0xFFFFFFFF00000000) | (static_cast<u32>(descriptor) + (bytes >> 4));
}

// One operand's tile of a stage: `kExtent` rows or columns of the output times `kDepth` terms of the contraction.
//
// A tile is made of chunks as wide as the swizzle, [kSlow][kChunk], one behind the other; each is what one or two boxes
// of a tensor copy write. `kDepthIsContiguous` says what is contiguous in global memory: the contraction ("K-major") or
// the output's rows or columns ("MN-major").
template <bool kDepthIsContiguous, int kExtent, int kDepth>
struct OperandTile {
  static constexpr int kFast = kDepthIsContiguous ? kDepth : kExtent;
  static constexpr int kSlow = kDepthIsContiguous ? kExtent : kDepth;
  static constexpr int kFastBytes = kFast * kElementBytes;
  static constexpr int kChunk = (kFastBytes % 128 == 0 ? 128 : kFastBytes % 64 == 0 ? 64 : 32) / kElementBytes;
  static constexpr int kChunks = kFast / kChunk;
  static constexpr int kSwizzleBytes = kChunk * kElementBytes;
  static constexpr int kChunkBytes = kSlow * kSwizzleBytes;
  static constexpr int kBytes = kExtent * kDepth * kElementBytes;
  static constexpr bool kTransposed = !kDepthIsContiguous;
  // Extents at which a wgmma may begin: a whole number of swizzle patterns, or of chunks.
  static constexpr int kExtentStep = kDepthIsContiguous ? 8 : kChunk;
  // PTX, "Strides": for K-major operands the stride is that of groups of 8 rows and the leading one is not used with a
  // swizzle; for MN-major ones the stride is that of groups of 8 terms and the leading one that of chunks.
  static constexpr u32 kLeadingBytes = kDepthIsContiguous ? kPieceBytes : kChunkBytes;
  static constexpr u32 kStrideBytes = 8 * kSwizzleBytes;

  static_assert(kFastBytes % 32 == 0 && kSlow % 8 == 0, "tiles are made of whole swizzle patterns");
  static_assert(kChunkBytes % 1024 == 0 || kChunks == 1, "each chunk begins with a whole swizzle pattern");

  // Where the operand of a wgmma that begins at this extent and this term starts.
  static constexpr u32 Origin(int extent, int term) {
    return kDepthIsContiguous ? term / kChunk * kChunkBytes + extent * kSwizzleBytes + term % kChunk * kElementBytes
                              : extent / kChunk * kChunkBytes + term * kSwizzleBytes;
  }

  // Where the 16-byte piece of slow index `slow` that begins at fast index kPieceElements * `piece` lies.
  static constexpr u32 PieceOffset(int slow, int piece) {
    constexpr int kPiecesPerChunk = kChunk / kPieceElements;
    return piece / kPiecesPerChunk * kChunkBytes +
           SwizzledOffset(slow * kSwizzleBytes + piece % kPiecesPerChunk * kPieceBytes, kSwizzleBytes);
  }

  static constexpr u64 Descriptor(u32 tile_address) {
    return MatrixDescriptor(tile_address, kLeadingBytes, kStrideBytes, kSwizzleBytes);
  }
};

// PTX, "Register Fragments" of wgmma .m64nNk16, matrix D: which row and column accumulator `index` of thread `thread`
// of the warpgroup (0 to 127) is.
constexpr int AccumulatorRow(int thread, int index) { return thread / 32 * 16 + thread % 32 / 4 + index / 2 % 2 * 8; }
constexpr int AccumulatorColumn(int thread, int index) { return index / 4 * 8 + thread % 4 * 2 + index % 2; }

// PTX, stmatrix .x4: lane l gives the address of row l % 8 of matrix l / 8. Accumulators 8 j to 8 j + 7 of a warp are a
// 16 x 16 block; packed in pairs they are its matrices (rows 0-7, columns 0-7), (8-15, 0-7), (0-7, 8-15), (8-15, 8-15).
constexpr int StoreMatrixRow(int lane) { return lane % 16; }
constexpr int StoreMatrixPiece(int lane) { return lane / 16; }
// With .trans each matrix is written transposed, so that what were columns (tokens) become rows: lane l addresses token
// l % 8 of matrix l / 8; matrices 0 and 1 are beside each other, 2 and 3 eight tokens further.
constexpr int StoreTransposedRow(int lane) { return lane % 8 + lane / 16 * 8; }
constexpr int StoreTransposedPiece(int lane) { return lane / 8 % 2; }

}  // namespace hopper
