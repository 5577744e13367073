// From a warp's sums to rows of the output: straight from the registers, or through shared memory so that whole rows
// are written 16 bytes at a time. Part of portable.cuh.
#pragma once

// Where the rows of a tile go.
struct Destination {
  Element* data;
  int width;
  int first_row;  // Of the sorted order, or of the group's matrix.
  int rows;       // Of the tile.
  int column;
};

constexpr bool kScatter = GROUPED_GEMM_OP == OP_FORWARD ? kPermuteY : GROUPED_GEMM_OP == OP_DX ? kPermuteX : false;

__device__ __forceinline__ Destination DestinationOf(const Problem& problem, const Tile& tile) {
#if GROUPED_GEMM_OP == OP_FORWARD
  return {problem.c, problem.n, tile.group_first_row + tile.row, tile.group_rows - tile.row, tile.column};
#elif GROUPED_GEMM_OP == OP_DX
  return {problem.c, problem.k, tile.group_first_row + tile.row, tile.group_rows - tile.row, tile.column};
#else
  return {problem.c + static_cast<long long>(tile.group) * problem.n * problem.k, problem.k, tile.row,
          problem.n - tile.row, tile.column};
#endif
}

// The row of the output that a row of the tile is; it must be one of `to.rows`.
__device__ __forceinline__ int OutputRow(const Problem& problem, const Destination& to, int row) {
  return kScatter ? problem.gather_indices[to.first_row + row] : to.first_row + row;
}

// Two neighbouring sums as elements, multiplied with the row's weight if that is part of the kernel.
__device__ __forceinline__ unsigned PackSums(float low, float high, float weight) {
  if (kFuseMultiply) {
    low = MultiplyRounded(low, weight);
    high = MultiplyRounded(high, weight);
  }
  return PackElements(low, high);
}

__device__ __forceinline__ float WeightOf(const Problem& problem, const Destination& to, int row) {
  return kFuseMultiply ? problem.topk_weights[problem.gather_indices[to.first_row + row]] : 1.0f;
}

// `row` and `column` are the warp's origin within the tile. A lane holds, of every piece, two neighbouring columns of
// rows lane / 4 and lane / 4 + 8.
__device__ __forceinline__ void StoreDirect(const Problem& problem, const Destination& to, int row, int column,
                                            const Sums& sums) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int i = 0; i < kPiecesM; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int tile_row = row + i * 16 + half * 8 + lane / 4;
      if (tile_row >= to.rows) continue;
      const float weight = WeightOf(problem, to, tile_row);
      Element* const target = to.data + static_cast<long long>(OutputRow(problem, to, tile_row)) * to.width;
#pragma unroll
      for (int j = 0; j < kPiecesN; ++j) {
        const int output_column = to.column + column + j * 8 + lane % 4 * 2;
        if (output_column < to.width) {
          *reinterpret_cast<unsigned*>(target + output_column) =
              PackSums(sums[i][j][half * 2], sums[i][j][half * 2 + 1], weight);
        }
      }
    }
  }
}

__device__ __forceinline__ void StoreStaged(const Problem& problem, const Destination& to, int row, int column,
                                            const Sums& sums) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  Element* const staged = reinterpret_cast<Element*>(SharedMemory());
  WaitForStage<0>();
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kPiecesM; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int tile_row = row + i * 16 + half * 8 + lane / 4;
      const float weight = tile_row < to.rows ? WeightOf(problem, to, tile_row) : 0.0f;
      Element* const target = staged + tile_row * kStagedPitch + column + lane % 4 * 2;
#pragma unroll
      for (int j = 0; j < kPiecesN; ++j) {
        *reinterpret_cast<unsigned*>(target + j * 8) = PackSums(sums[i][j][half * 2], sums[i][j][half * 2 + 1], weight);
      }
    }
  }
  __syncthreads();
  constexpr int kChunksPerRow = kTileN / kChunkElements;
  for (int i = static_cast<int>(threadIdx.x); i < kTileM * kChunksPerRow; i += kThreads) {
    const int tile_row = i / kChunksPerRow;
    const int tile_column = i % kChunksPerRow * kChunkElements;
    if (tile_row >= to.rows || to.column + tile_column >= to.width) continue;
    const long long target =
        static_cast<long long>(OutputRow(problem, to, tile_row)) * to.width + to.column + tile_column;
    *reinterpret_cast<uint4*>(to.data + target) =
        *reinterpret_cast<const uint4*>(staged + tile_row * kStagedPitch + tile_column);
  }
  __syncthreads();
}

__device__ __forceinline__ void StoreTile(const Problem& problem, const Tile& tile, int row, int column,
                                          const Sums& sums) {
  const Destination to = DestinationOf(problem, tile);
  if (kStaged) {
    StoreStaged(problem, to, row, column, sums);
  } else {
    StoreDirect(problem, to, row, column, sums);
  }
}
