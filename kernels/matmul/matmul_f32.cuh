// C = A * B in single precision: one fused multiply-add per term, no tensor cores, no TF32.
//
// A warp computes kWarpM x kWarpN of C with its lanes in a 4 x 8 grid. A lane owns every fourth row and, of every 32
// columns, four adjacent ones: reads of B are then 128 contiguous bytes, reads of A four addresses broadcast to eight
// lanes each, and stores of C whole lines. Lanes go through the grid in 2 x 8 zigzags, so that the eight lanes which
// shared memory serves together need few different addresses of both A and B.
#pragma once

#include "tile.cuh"

constexpr int kLanesM = 4;
constexpr int kLanesN = 8;
constexpr int kThreadM = kWarpM / kLanesM;          // Rows of C of one thread.
constexpr int kThreadQuads = kWarpN / kLanesN / 4;  // Groups of four columns of C of one thread.
constexpr int kAChunksPerRow = BLOCK_K / 4;

static_assert(kWarpM % kLanesM == 0 && kWarpN % (kLanesN * 4) == 0, "a warp tile must be a multiple of 4 x 32");

__device__ __forceinline__ void LoadShared(unsigned address, float (&values)[4]) {
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(values[0]), "=f"(values[1]), "=f"(values[2]), "=f"(values[3])
               : "r"(address)
               : "memory");
}

// Adds the product of one pair of tiles. `row` and `column` are this thread's first ones within the block's tile.
__device__ __forceinline__ void MultiplyTiles(unsigned a_tile, unsigned b_tile, int row, int column,
                                              float (&sums)[kThreadM][kThreadQuads][4]) {
#pragma unroll
  for (int chunk = 0; chunk < kAChunksPerRow; ++chunk) {
    float a[kThreadM][4];
#pragma unroll
    for (int i = 0; i < kThreadM; ++i) {
      const int a_row = row + i * kLanesM;
      const int swizzled = SwizzledChunk<kAChunksPerRow>(a_row, chunk);
      LoadShared(a_tile + (a_row * kAChunksPerRow + swizzled) * kChunkBytes, a[i]);
    }
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      float b[kThreadQuads][4];
#pragma unroll
      for (int j = 0; j < kThreadQuads; ++j) {
        LoadShared(b_tile + ((chunk * 4 + k) * BLOCK_N + column + j * kLanesN * 4) * sizeof(float), b[j]);
      }
#pragma unroll
      for (int i = 0; i < kThreadM; ++i) {
#pragma unroll
        for (int j = 0; j < kThreadQuads; ++j) {
#pragma unroll
          for (int x = 0; x < 4; ++x) sums[i][j][x] += a[i][k] * b[j][x];
        }
      }
    }
  }
}

// A is m x k, B is k x n, C is m x n, all row-major and 16-byte aligned; n and k are multiples of 4.
extern "C" __global__ void __launch_bounds__(kThreads, MIN_BLOCKS)
    matmul(const Element* __restrict__ a, const Element* __restrict__ b, Element* __restrict__ c, int m, int n, int k,
           int group_m) {
  extern __shared__ __align__(128) unsigned char shared_memory[];
  const unsigned shared = static_cast<unsigned>(__cvta_generic_to_shared(shared_memory));
  const TileOrigin tile = FindTile(m, n, group_m);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int lane_m = lane / 16 * 2 + lane % 2;
  const int lane_n = lane / 2 % kLanesN;
  const int row = warp / WARPS_N * kWarpM + lane_m;
  const int column = warp % WARPS_N * kWarpN + lane_n * 4;

  TileLoader<BLOCK_M, BLOCK_K, true> a_loader(a, m, k, tile.row, 0);
  TileLoader<BLOCK_K, BLOCK_N, false> b_loader(b, k, n, 0, tile.column);
  const auto load_next = [&](int stage) {
    a_loader.Load(shared + stage * kStageBytes);
    b_loader.Load(shared + stage * kStageBytes + kATileBytes);
    a_loader.AdvanceColumns();
    b_loader.AdvanceRows();
  };

  float sums[kThreadM][kThreadQuads][4] = {};
#pragma unroll
  for (int stage = 0; stage < STAGES - 1; ++stage) {
    load_next(stage);
    CommitStage();
  }
  const int steps = (k + BLOCK_K - 1) / BLOCK_K;
  int read_stage = 0;
  int write_stage = STAGES - 1;
  for (int step = 0; step < steps; ++step) {
    WaitForStage<STAGES - 2>();
    // After the barrier everybody's copies into read_stage have arrived, and nobody reads write_stage any more.
    __syncthreads();
    // Tiles past the end are all zeros and copied without reading memory: cheaper than a branch around them.
    load_next(write_stage);
    CommitStage();
    const unsigned a_tile = shared + read_stage * kStageBytes;
    MultiplyTiles(a_tile, a_tile + kATileBytes, row, column, sums);
    read_stage = read_stage + 1 == STAGES ? 0 : read_stage + 1;
    write_stage = write_stage + 1 == STAGES ? 0 : write_stage + 1;
  }

#pragma unroll
  for (int i = 0; i < kThreadM; ++i) {
    const int c_row = tile.row + row + i * kLanesM;
#pragma unroll
    for (int j = 0; j < kThreadQuads; ++j) {
      const int c_column = tile.column + column + j * kLanesN * 4;
      if (c_row < m && c_column < n) {
        *reinterpret_cast<float4*>(c + static_cast<long long>(c_row) * n + c_column) =
            make_float4(sums[i][j][0], sums[i][j][1], sums[i][j][2], sums[i][j][3]);
      }
    }
  }
}
