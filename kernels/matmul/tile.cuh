// What both data types share: which tile a block computes, and how tiles of A and B reach shared memory.
//
// Shared memory holds STAGES pairs of tiles, A as [BLOCK_M][BLOCK_K] and B as [BLOCK_K][BLOCK_N], both in the order of
// global memory. Everything moves in chunks of 16 bytes with cp.async, which fills with zeros what lies outside of the
// matrix, so that the main loop needs no special case for the last tiles.
#pragma once

#include "element.cuh"

constexpr int kThreads = WARPS_M * WARPS_N * 32;
constexpr int kWarpM = BLOCK_M / WARPS_M;  // Rows of C of one warp.
constexpr int kWarpN = BLOCK_N / WARPS_N;  // Columns of C of one warp.
constexpr int kChunkBytes = 16;
constexpr int kChunkElements = kChunkBytes / static_cast<int>(sizeof(Element));
constexpr int kATileBytes = BLOCK_M * BLOCK_K * static_cast<int>(sizeof(Element));
constexpr int kBTileBytes = BLOCK_K * BLOCK_N * static_cast<int>(sizeof(Element));
constexpr int kStageBytes = kATileBytes + kBTileBytes;

// The origin in C of this block's tile. Blocks run in the order of their index, so `group_m` tile rows are walked
// column by column before the next ones: what is in flight together then shares rows of A and columns of B in the L2
// cache.
struct TileOrigin {
  int row;
  int column;
};

__device__ __forceinline__ TileOrigin FindTile(int m, int n, int group_m) {
  const int tiles_m = (m + BLOCK_M - 1) / BLOCK_M;
  const int tiles_n = (n + BLOCK_N - 1) / BLOCK_N;
  const int tiles_per_group = group_m * tiles_n;
  const int block = static_cast<int>(blockIdx.x);
  const int first_m = block / tiles_per_group * group_m;
  const int rows = min(tiles_m - first_m, group_m);
  const int in_group = block % tiles_per_group;
  return {(first_m + in_group % rows) * BLOCK_M, in_group / rows * BLOCK_N};
}

// Chunks are permuted within each row such that eight consecutive rows of one chunk column lie in different banks. The
// pattern repeats after 128 bytes, the width of all banks: rows shorter than that share one line.
template <int kChunksPerRow>
__device__ __forceinline__ int SwizzledChunk(int row, int chunk) {
  constexpr int kPhases = kChunksPerRow < 8 ? kChunksPerRow : 8;
  return chunk ^ (row / (8 / kPhases) % kPhases);
}

// Copies 16 bytes from global to shared memory, or writes 16 zero bytes where `inside` is false.
__device__ __forceinline__ void CopyChunk(unsigned shared_address, const Element* global, bool inside) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;"
               :
               : "r"(shared_address), "l"(global), "r"(inside ? kChunkBytes : 0)
               : "memory");
}

__device__ __forceinline__ void CommitStage() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most `kPending` of this thread's committed stages are still on their way.
template <int kPending>
__device__ __forceinline__ void WaitForStage() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// One thread's share in copying the [kRows][kColumns] tiles of a row-major matrix.
template <int kRows, int kColumns, bool kSwizzle>
class TileLoader {
 public:
  // `first_row` and `first_column` are the origin of the first tile.
  __device__ __forceinline__ TileLoader(const Element* matrix, int rows, int columns, int first_row, int first_column)
      : columns_(columns) {
    const int tile_row = static_cast<int>(threadIdx.x) / kChunksPerRow;
    const int chunk = static_cast<int>(threadIdx.x) % kChunksPerRow;
    column_ = first_column + chunk * kChunkElements;
    rows_left_ = rows - first_row - tile_row;
    source_ = matrix + static_cast<long long>(first_row + tile_row) * columns + column_;
  }

  // Begins copying the current tile to `shared_tile`, a shared memory address.
  __device__ __forceinline__ void Load(unsigned shared_tile) const {
    const int tile_row = static_cast<int>(threadIdx.x) / kChunksPerRow;
    const int chunk = static_cast<int>(threadIdx.x) % kChunksPerRow;
    const Element* source = source_;
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      const int row = tile_row + i * kRowStep;
      const int target = row * kChunksPerRow + (kSwizzle ? SwizzledChunk<kChunksPerRow>(row, chunk) : chunk);
      CopyChunk(shared_tile + target * kChunkBytes, source, i * kRowStep < rows_left_ && column_ < columns_);
      source += static_cast<long long>(kRowStep) * columns_;
    }
  }

  // The next tile is `kColumns` columns further.
  __device__ __forceinline__ void AdvanceColumns() {
    column_ += kColumns;
    source_ += kColumns;
  }

  // The next tile is `kRows` rows further.
  __device__ __forceinline__ void AdvanceRows() {
    rows_left_ -= kRows;
    source_ += static_cast<long long>(kRows) * columns_;
  }

 private:
  static constexpr int kChunksPerRow = kColumns / kChunkElements;
  static constexpr int kRowStep = kThreads / kChunksPerRow;
  static constexpr int kCopies = kRows / kRowStep;
  static_assert(kThreads % kChunksPerRow == 0 && kRows % kRowStep == 0, "the threads must share a tile evenly");

  const Element* source_;
  int columns_;
  int column_;
  int rows_left_;
};
