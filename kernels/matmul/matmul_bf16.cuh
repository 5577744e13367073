// C = A * B in bfloat16 with single precision sums, on the tensor cores through mma.sync (sm_80 and newer).
//
// A warp computes kWarpM x kWarpN of C as pieces of 16 x 8. Its operands come from shared memory by ldmatrix, B
// transposed on the way, one slice of 16 terms ahead of the multiplication that uses them.
#pragma once

#include "tile.cuh"

constexpr int kMmaM = 16;
constexpr int kMmaN = 8;
constexpr int kMmaK = 16;
constexpr int kPiecesM = kWarpM / kMmaM;
constexpr int kPiecesN = kWarpN / kMmaN;
constexpr int kSlices = BLOCK_K / kMmaK;
constexpr int kAChunksPerRow = BLOCK_K / kChunkElements;
constexpr int kBChunksPerRow = BLOCK_N / kChunkElements;

static_assert(kWarpM % kMmaM == 0 && kWarpN % (2 * kMmaN) == 0, "a warp tile must be a multiple of 16 x 16");
static_assert(kSlices % 2 == 0, "slices alternate between two sets of registers");

// The operands of one slice of 16 terms.
struct Fragments {
  unsigned a[kPiecesM][4];
  unsigned b[kPiecesN][2];
};

__device__ __forceinline__ void LoadMatrix(unsigned address, unsigned& x, unsigned& y, unsigned& z, unsigned& w) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x), "=r"(y), "=r"(z), "=r"(w)
               : "r"(address)
               : "memory");
}

__device__ __forceinline__ void LoadMatrixTransposed(unsigned address, unsigned& x, unsigned& y, unsigned& z,
                                                     unsigned& w) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x), "=r"(y), "=r"(z), "=r"(w)
               : "r"(address)
               : "memory");
}

// `row` and `column` are the warp's origin within the block's tile.
__device__ __forceinline__ void LoadFragments(unsigned a_tile, unsigned b_tile, int row, int column, int slice,
                                              Fragments& fragments) {
  // Lane l addresses row l % 8 of matrix l / 8. Matrices 0 and 1 are the upper and lower half, 2 and 3 those beside.
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int i = 0; i < kPiecesM; ++i) {
    const int a_row = row + i * kMmaM + lane % 16;
    const int chunk = SwizzledChunk<kAChunksPerRow>(a_row, slice * 2 + lane / 16);
    unsigned(&a)[4] = fragments.a[i];
    LoadMatrix(a_tile + (a_row * kAChunksPerRow + chunk) * kChunkBytes, a[0], a[1], a[2], a[3]);
  }
#pragma unroll
  for (int j = 0; j < kPiecesN; j += 2) {
    const int b_row = slice * kMmaK + lane % 16;
    const int chunk = SwizzledChunk<kBChunksPerRow>(b_row, column / kChunkElements + j + lane / 16);
    unsigned(&left)[2] = fragments.b[j];
    unsigned(&right)[2] = fragments.b[j + 1];
    LoadMatrixTransposed(b_tile + (b_row * kBChunksPerRow + chunk) * kChunkBytes, left[0], left[1], right[0], right[1]);
  }
}

__device__ __forceinline__ void MultiplyFragments(const Fragments& fragments, float (&sums)[kPiecesM][kPiecesN][4]) {
#pragma unroll
  for (int i = 0; i < kPiecesM; ++i) {
#pragma unroll
    for (int step = 0; step < kPiecesN; ++step) {
      // Back and forth, so that neighbouring instructions share an operand.
      const int j = i % 2 == 0 ? step : kPiecesN - 1 - step;
      float(&sum)[4] = sums[i][j];
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
          "{%0, %1, %2, %3};"
          : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
          : "r"(fragments.a[i][0]), "r"(fragments.a[i][1]), "r"(fragments.a[i][2]), "r"(fragments.a[i][3]),
            "r"(fragments.b[j][0]), "r"(fragments.b[j][1]));
    }
  }
}

// Rounds two values to bfloat16 and packs them, `low` at the lower address.
__device__ __forceinline__ unsigned PackBfloat16(float low, float high) {
  unsigned packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

__device__ __forceinline__ void StoreTile(const float (&sums)[kPiecesM][kPiecesN][4], int row, int column, int m, int n,
                                          Element* __restrict__ c) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int i = 0; i < kPiecesM; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int c_row = row + i * kMmaM + half * 8 + lane / 4;
#pragma unroll
      for (int j = 0; j < kPiecesN; ++j) {
        const int c_column = column + j * kMmaN + lane % 4 * 2;
        if (c_row < m && c_column < n) {
          *reinterpret_cast<unsigned*>(c + static_cast<long long>(c_row) * n + c_column) =
              PackBfloat16(sums[i][j][half * 2], sums[i][j][half * 2 + 1]);
        }
      }
    }
  }
}

// A is m x k, B is k x n, C is m x n, all row-major and 16-byte aligned; n and k are multiples of 8.
extern "C" __global__ void __launch_bounds__(kThreads, MIN_BLOCKS)
    matmul(const Element* __restrict__ a, const Element* __restrict__ b, Element* __restrict__ c, int m, int n, int k,
           int group_m) {
  extern __shared__ __align__(128) unsigned char shared_memory[];
  const unsigned shared = static_cast<unsigned>(__cvta_generic_to_shared(shared_memory));
  const TileOrigin tile = FindTile(m, n, group_m);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int row = warp / WARPS_N * kWarpM;
  const int column = warp % WARPS_N * kWarpN;

  TileLoader<BLOCK_M, BLOCK_K, true> a_loader(a, m, k, tile.row, 0);
  TileLoader<BLOCK_K, BLOCK_N, true> b_loader(b, k, n, 0, tile.column);
  const auto load_next = [&](int stage) {
    a_loader.Load(shared + stage * kStageBytes);
    b_loader.Load(shared + stage * kStageBytes + kATileBytes);
    a_loader.AdvanceColumns();
    b_loader.AdvanceRows();
  };

#pragma unroll
  for (int stage = 0; stage < STAGES - 1; ++stage) {
    load_next(stage);
    CommitStage();
  }
  WaitForStage<STAGES - 2>();
  __syncthreads();

  float sums[kPiecesM][kPiecesN][4] = {};
  Fragments fragments[2];
  LoadFragments(shared, shared + kATileBytes, row, column, 0, fragments[0]);
  const int steps = (k + BLOCK_K - 1) / BLOCK_K;
  int read_stage = 0;
  int write_stage = STAGES - 1;
  for (int step = 0; step < steps; ++step) {
#pragma unroll
    for (int slice = 0; slice < kSlices; ++slice) {
      if (slice == 0) {
        // Tiles past the end are all zeros and copied without reading memory: cheaper than a branch around them.
        load_next(write_stage);
        CommitStage();
        write_stage = write_stage + 1 == STAGES ? 0 : write_stage + 1;
      }
      if (slice == kSlices - 1) {
        // The last slice of this stage is in registers: after the barrier its memory may be written again, and
        // everybody's copies into the next stage have arrived.
        WaitForStage<STAGES - 2>();
        __syncthreads();
        read_stage = read_stage + 1 == STAGES ? 0 : read_stage + 1;
      }
      const unsigned a_tile = shared + read_stage * kStageBytes;
      LoadFragments(a_tile, a_tile + kATileBytes, row, column, (slice + 1) % kSlices, fragments[(slice + 1) % 2]);
      MultiplyFragments(fragments[slice % 2], sums);
    }
  }
  StoreTile(sums, tile.row + row, tile.column + column, m, n, c);
}
