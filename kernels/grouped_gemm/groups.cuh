// From the sizes of the groups, which only the device knows, to output tiles, without asking the host.
//
// Every block scans the sizes once into a table in shared memory; after that, finding the tile of a number is a binary
// search there.
#pragma once

#include "group_sizes.cuh"
#include "roles.cuh"

// Where group e's rows and tiles begin, and with e = experts where they end. Both have experts + 1 entries.
struct GroupTable {
  int* row_start;
  int* tile_start;
};

// An output tile. The origin of forward's and dX's tiles is a row of the group and a column of the output; dW's is a
// row and a column of the group's matrix.
struct Tile {
  int group;
  int group_first_row;  // Among all rows.
  int group_rows;
  int row;
  int column;
};

__device__ __forceinline__ GroupTable PlaceGroupTable(unsigned char* shared, int experts) {
  int* const first = reinterpret_cast<int*>(shared);
  return {first, first + experts + 1};
}

// How many tiles a group has: dW computes a whole matrix for each, also for an empty one.
__device__ __forceinline__ int TilesOfGroup(int group_rows, int n, int k) {
#if GROUPED_GEMM_OP == OP_FORWARD
  return CeilDiv(group_rows, kTileM) * CeilDiv(n, kTileN);
#elif GROUPED_GEMM_OP == OP_DX
  return CeilDiv(group_rows, kTileM) * CeilDiv(k, kTileN);
#else
  return CeilDiv(n, kTileM) * CeilDiv(k, kTileN);
#endif
}

// Fills the table. All threads of the block take part, a multiple of 32; ends with a barrier.
__device__ __forceinline__ void BuildGroupTable(const GroupTable& table, const GroupSizes& sizes, int experts, int n,
                                                int k) {
  const int thread = static_cast<int>(threadIdx.x);
  // Read by all first: one after the other, the loads would wait for each other.
  for (int e = thread; e < experts; e += static_cast<int>(blockDim.x)) table.row_start[e] = sizes[e];
  __syncthreads();
  if (thread < 32) {
    int rows_before = 0;
    int tiles_before = 0;
    for (int first = 0; first < experts; first += 32) {
      const int e = first + thread;
      const int rows = e < experts ? table.row_start[e] : 0;
      const int tiles = e < experts ? TilesOfGroup(rows, n, k) : 0;
      int rows_through = rows;
      int tiles_through = tiles;
#pragma unroll
      for (int distance = 1; distance < 32; distance *= 2) {
        const int rows_below = ShuffleUp(rows_through, distance);
        const int tiles_below = ShuffleUp(tiles_through, distance);
        if (thread >= distance) {
          rows_through += rows_below;
          tiles_through += tiles_below;
        }
      }
      if (e < experts) {
        table.row_start[e] = rows_before + rows_through - rows;
        table.tile_start[e] = tiles_before + tiles_through - tiles;
      }
      rows_before += BroadcastLast(rows_through);
      tiles_before += BroadcastLast(tiles_through);
    }
    if (thread == 0) {
      table.row_start[experts] = rows_before;
      table.tile_start[experts] = tiles_before;
    }
  }
  __syncthreads();
}

// The tile of a number below table.tile_start[experts]. Within a group, group_size_m rows of tiles are walked column by
// column before the next ones: what is in flight together then shares rows of both operands in the L2 cache.
__device__ __forceinline__ Tile FindTile(const GroupTable& table, int experts, int n, int k, int group_size_m,
                                         int number) {
  int low = 0;
  int high = experts - 1;
  while (low < high) {  // The last group that begins at or before the number; empty ones before it begin there too.
    const int middle = (low + high + 1) / 2;
    if (table.tile_start[middle] <= number) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  Tile tile;
  tile.group = low;
  tile.group_first_row = table.row_start[low];
  tile.group_rows = table.row_start[low + 1] - tile.group_first_row;
#if GROUPED_GEMM_OP == OP_FORWARD
  const int tiles_m = CeilDiv(tile.group_rows, kTileM);
  const int tiles_n = CeilDiv(n, kTileN);
#elif GROUPED_GEMM_OP == OP_DX
  const int tiles_m = CeilDiv(tile.group_rows, kTileM);
  const int tiles_n = CeilDiv(k, kTileN);
#else
  const int tiles_m = CeilDiv(n, kTileM);
  const int tiles_n = CeilDiv(k, kTileN);
#endif
  const int in_group = number - table.tile_start[low];
  const int tiles_per_stripe = group_size_m * tiles_n;
  const int first_m = in_group / tiles_per_stripe * group_size_m;
  const int stripe_rows = min(tiles_m - first_m, group_size_m);
  const int in_stripe = in_group % tiles_per_stripe;
  tile.row = (first_m + in_stripe % stripe_rows) * kTileM;
  tile.column = in_stripe / stripe_rows * kTileN;
  return tile;
}
