// The path for compute capability 8.0 and newer: mma.sync on fragments that ldmatrix takes from swizzled tiles, which
// cp.async keeps num_stages - 1 ahead.
//
// warps_m x (num_warps / warps_m) warps share the tile. With `persistent` a block walks tiles gridDim.x apart, and
// begins to load the next one before it stores the last one's sums; without, every block computes one tile.
#pragma once

#include "groups.cuh"
#include "portable_tiles.cuh"

constexpr int kWarpsM = warps_m;
constexpr int kWarpsN = num_warps / warps_m;
constexpr int kWarpM = kTileM / kWarpsM;
constexpr int kWarpN = kTileN / kWarpsN;
constexpr int kPiecesM = kWarpM / 16;  // Of 16 rows.
constexpr int kPiecesN = kWarpN / 8;   // Of 8 columns.
constexpr int kSlices = kTileK / 16;   // Of 16 terms.
constexpr int kATileBytes = kTileM * kTileK * 2;
constexpr int kStageBytes = (kTileM + kTileN) * kTileK * 2;
constexpr int kStagedPitch = kTileN + kChunkElements;  // Elements: eight more, so that rows begin in other banks.
#if defined(epilogue_staged)
constexpr bool kStaged = true;
#else
constexpr bool kStaged = false;
#endif
constexpr int kOperandBytes = num_stages * kStageBytes;
constexpr int kStagedBytes = kStaged ? kTileM * kStagedPitch * 2 : 0;
constexpr int kTableOffset = kOperandBytes > kStagedBytes ? kOperandBytes : kStagedBytes;

static_assert(num_warps % warps_m == 0 && kTileM % kWarpsM == 0 && kTileN % kWarpsN == 0, "warps must share the tile");
static_assert(kWarpM % 16 == 0 && kWarpN % 16 == 0, "a warp's tile must be a multiple of 16 x 16");
static_assert(kSlices >= 2 && kSlices % 2 == 0, "slices alternate between two sets of registers");
static_assert(num_stages >= 2, "one stage is loaded while another is used");

// The operands as they lie in memory: forward's rows and W's rows hold the terms of a sum, dX's W and both of dW's
// hold one term of many sums in each row.
#if GROUPED_GEMM_OP == OP_FORWARD
constexpr bool kATransposed = false;
constexpr bool kBTransposed = false;
using ALoader = FixedRows<kTileM, kTileK, kPermuteX ? RowSource::kGatherDivide : RowSource::kPlain>;
using BLoader = FixedRows<kTileN, kTileK, RowSource::kPlain>;
#elif GROUPED_GEMM_OP == OP_DX
constexpr bool kATransposed = false;
constexpr bool kBTransposed = true;
using ALoader = FixedRows<kTileM, kTileK, kPermuteY ? RowSource::kGather : RowSource::kPlain>;
using BLoader = MovingRows<kTileK, kTileN, RowSource::kPlain>;
#else
constexpr bool kATransposed = true;
constexpr bool kBTransposed = true;
using ALoader = MovingRows<kTileK, kTileM, kPermuteY ? RowSource::kGather : RowSource::kPlain>;
using BLoader = MovingRows<kTileK, kTileN, kPermuteX ? RowSource::kGatherDivide : RowSource::kPlain>;
#endif

// What a launch was given. a and b are the operands (X and W, dY and W, dY and X), c is the output.
struct Problem {
  const Element* a;
  const Element* b;
  Element* c;
  const int* gather_indices;
  const float* topk_weights;
  int n;
  int k;
  int topk;
};

// Prepares the loaders for a tile. Returns the number of steps.
__device__ __forceinline__ int StartTile(const Problem& problem, const Tile& tile, ALoader& a, BLoader& b) {
  [[maybe_unused]] const long long matrix = static_cast<long long>(tile.group) * problem.n * problem.k;
#if GROUPED_GEMM_OP == OP_FORWARD
  a.Start({problem.a, problem.k, problem.gather_indices, problem.topk}, tile.group_first_row + tile.row,
          tile.group_rows - tile.row);
  b.Start({problem.b + matrix, problem.k, nullptr, 1}, tile.column, problem.n - tile.column);
  return CeilDiv(problem.k, kTileK);
#elif GROUPED_GEMM_OP == OP_DX
  a.Start({problem.a, problem.n, problem.gather_indices, problem.topk}, tile.group_first_row + tile.row,
          tile.group_rows - tile.row);
  b.Start({problem.b + matrix, problem.k, nullptr, 1}, 0, problem.n, tile.column);
  return CeilDiv(problem.n, kTileK);
#else
  a.Start({problem.a, problem.n, problem.gather_indices, problem.topk}, tile.group_first_row, tile.group_rows,
          tile.row);
  b.Start({problem.b, problem.k, problem.gather_indices, problem.topk}, tile.group_first_row, tile.group_rows,
          tile.column);
  return CeilDiv(tile.group_rows, kTileK);
#endif
}

// The operands of one slice of 16 terms.
struct Fragments {
  unsigned a[kPiecesM][4];
  unsigned b[kPiecesN][2];
};

// `row` and `column` are the warp's origin within the block's tile. Lane l addresses row l % 8 of matrix l / 8: of A's
// four, 0 and 1 are the upper and lower half, 2 and 3 those with the later terms; of B's, 0 and 1 are the earlier and
// later terms of eight columns, 2 and 3 those of the next eight.
__device__ __forceinline__ void LoadFragments(unsigned a_tile, unsigned b_tile, unsigned row, unsigned column,
                                              unsigned slice, Fragments& fragments) {
  const unsigned lane = threadIdx.x % 32;
#pragma unroll
  for (unsigned i = 0; i < kPiecesM; ++i) {
    if (kATransposed) {
      const unsigned term = slice * 16 + lane / 16 * 8 + lane % 8;
      const unsigned chunk = (row + i * 16) / kChunkElements + lane / 8 % 2;
      LoadMatricesTransposed(a_tile + ChunkOffset<kTileM>(term, chunk), fragments.a[i]);
    } else {
      LoadMatrices(a_tile + ChunkOffset<kTileK>(row + i * 16 + lane % 16, slice * 2 + lane / 16), fragments.a[i]);
    }
  }
#pragma unroll
  for (unsigned j = 0; j < kPiecesN; j += 2) {
    unsigned values[4];
    if (kBTransposed) {
      const unsigned chunk = column / kChunkElements + j + lane / 16;
      LoadMatricesTransposed(b_tile + ChunkOffset<kTileN>(slice * 16 + lane % 16, chunk), values);
    } else {
      const unsigned b_row = column + j * 8 + lane / 16 * 8 + lane % 8;
      LoadMatrices(b_tile + ChunkOffset<kTileK>(b_row, slice * 2 + lane / 8 % 2), values);
    }
    fragments.b[j][0] = values[0];
    fragments.b[j][1] = values[1];
    fragments.b[j + 1][0] = values[2];
    fragments.b[j + 1][1] = values[3];
  }
}

using Sums = float[kPiecesM][kPiecesN][4];

__device__ __forceinline__ void MultiplyFragments(const Fragments& fragments, Sums& sums) {
#pragma unroll
  for (int i = 0; i < kPiecesM; ++i) {
#pragma unroll
    for (int step = 0; step < kPiecesN; ++step) {
      // Back and forth, so that neighbouring instructions share an operand.
      const int j = i % 2 == 0 ? step : kPiecesN - 1 - step;
      MultiplyAdd(fragments.a[i], fragments.b[j], sums[i][j]);
    }
  }
}

// The ring of stages, which goes on from tile to tile.
struct Ring {
  unsigned shared;
  int read_stage = 0;
  int write_stage = 0;

  __device__ __forceinline__ unsigned ReadTile() const { return shared + read_stage * kStageBytes; }
  __device__ __forceinline__ void LoadNext(ALoader& a, BLoader& b) {
    a.LoadNext(shared + write_stage * kStageBytes);
    b.LoadNext(shared + write_stage * kStageBytes + kATileBytes);
  }
  // Every step commits, also one that loads nothing: waiting counts commits.
  __device__ __forceinline__ void Commit() {
    CommitStage();
    write_stage = write_stage + 1 == num_stages ? 0 : write_stage + 1;
  }
};

// Begins to load the first stages of a tile.
__device__ __forceinline__ void FillRing(int steps, ALoader& a, BLoader& b, Ring& ring) {
#pragma unroll
  for (int stage = 0; stage < num_stages - 1; ++stage) {
    if (stage < steps) ring.LoadNext(a, b);
    ring.Commit();
  }
}

// Adds up all terms of a tile whose first stages are on their way. Afterwards nobody reads the ring.
__device__ __forceinline__ void MultiplyTile(int steps, int row, int column, ALoader& a, BLoader& b, Ring& ring,
                                             Sums& sums) {
  WaitForStage<num_stages - 2>();
  __syncthreads();
  Fragments fragments[2];
  LoadFragments(ring.ReadTile(), ring.ReadTile() + kATileBytes, row, column, 0, fragments[0]);
  for (int step = 0; step < steps; ++step) {
#pragma unroll
    for (int slice = 0; slice < kSlices; ++slice) {
      if (slice == 0) {
        if (step + num_stages - 1 < steps) ring.LoadNext(a, b);
        ring.Commit();
      }
      if (slice == kSlices - 1) {
        // The last slice of this stage is in registers: after the barrier its memory may be written again, and
        // everybody's copies into the next stage have arrived. Behind the last step that stage holds nothing of use,
        // and nothing of it is used.
        WaitForStage<num_stages - 2>();
        __syncthreads();
        ring.read_stage = ring.read_stage + 1 == num_stages ? 0 : ring.read_stage + 1;
      }
      LoadFragments(ring.ReadTile(), ring.ReadTile() + kATileBytes, row, column, (slice + 1) % kSlices,
                    fragments[(slice + 1) % 2]);
      MultiplyFragments(fragments[slice % 2], sums);
    }
  }
  // The next tile's first stage follows the last that was committed, not the last that was used.
  ring.read_stage = ring.write_stage;
}

#include "portable_store.cuh"

// The whole kernel. Its dynamic shared memory holds the ring (or the staged tile) and behind it the table of groups.
__device__ __forceinline__ void MultiplyGroups(const Problem& problem, const GroupSizes& sizes, int experts,
                                               int group_size_m) {
  unsigned char* const shared = SharedMemory();
  const GroupTable table = PlaceGroupTable(shared + kTableOffset, experts);
  BuildGroupTable(table, sizes, experts, problem.n, problem.k);
  const int tiles = table.tile_start[experts];
  int number = static_cast<int>(blockIdx.x);
  if (number >= tiles) return;

  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int row = warp / kWarpsN * kWarpM;
  const int column = warp % kWarpsN * kWarpN;
  Ring ring;
  ring.shared = SharedAddress(shared);
  ALoader a;
  BLoader b;
  Tile tile;
  int steps = 0;
  const auto begin = [&] {
    tile = FindTile(table, experts, problem.n, problem.k, group_size_m, number);
    steps = StartTile(problem, tile, a, b);
    FillRing(steps, a, b, ring);
  };
  begin();
  while (true) {
    Sums sums = {};
    MultiplyTile(steps, row, column, a, b, ring, sums);
    const Tile done = tile;
    number += static_cast<int>(gridDim.x);
    const bool more = persistent != 0 && number < tiles;
    if (more && !kStaged) begin();  // Staged sums lie where the tiles would go.
    StoreTile(problem, done, row, column, sums);
    if (!more) return;
    if (kStaged) begin();
  }
}
