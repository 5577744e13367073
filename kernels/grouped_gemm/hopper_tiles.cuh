// Which tiles of the output a cluster computes, and in which order. Pure arithmetic, checked by a host compiler.
//
// The output of one expert is a grid of tiles. A cluster of one block takes one tile; a cluster of two takes two tiles
// that share an operand: two tile rows (kClusterRows = 2: they share the column operand) or two tile columns
// (kClusterCols = 2: they share the row operand). Where an odd number of tile rows (columns) leaves one over, a cluster
// takes two tiles along that row (column) instead, each block loading what it needs: at most one tile of an expert is
// computed in vain.
#pragma once

#include "hopper_layout.cuh"

namespace hopper {

// How many places an expert has, each for one cluster.
template <int kClusterRows, int kClusterCols>
constexpr int PlacesOf(int tile_rows, int tile_cols) {
  static_assert(kClusterRows * kClusterCols <= 2, "clusters of at most two blocks");
  if (kClusterRows == 2) return tile_rows / 2 * tile_cols + tile_rows % 2 * CeilDiv(tile_cols, 2);
  if (kClusterCols == 2) return tile_cols / 2 * tile_rows + tile_cols % 2 * CeilDiv(tile_rows, 2);
  return tile_rows * tile_cols;
}

// The tile of one block. It may lie outside of the grid; then the block takes part in the loads, and stores nothing.
struct TilePlace {
  int row;
  int col;
  bool shared;  // The blocks of the cluster share an operand.
};

// `band` rows of the grid are walked column by column before the next ones, for the sake of the L2 cache.
struct BandPlace {
  int row;
  int col;
};
constexpr BandPlace WalkInBands(int index, int rows, int cols, int band) {
  const int first = index / (band * cols) * band;
  const int height = rows - first < band ? rows - first : band;
  const int inside = index - first * cols;
  return {first + inside % height, inside / height};
}

// The tile of block `rank` of the cluster at place `index` of an expert.
template <int kClusterRows, int kClusterCols>
constexpr TilePlace PlaceTile(int index, int tile_rows, int tile_cols, int band, int rank) {
  if (kClusterRows == 2) {
    const int pairs = tile_rows / 2;
    if (index >= pairs * tile_cols) return {tile_rows - 1, 2 * (index - pairs * tile_cols) + rank, false};
    const BandPlace place = WalkInBands(index, pairs, tile_cols, band > 1 ? band / 2 : 1);
    return {2 * place.row + rank, place.col, true};
  }
  if (kClusterCols == 2) {
    const int pairs = tile_cols / 2;
    if (index >= pairs * tile_rows) return {2 * (index - pairs * tile_rows) + rank, tile_cols - 1, false};
    const BandPlace place = WalkInBands(index, tile_rows, pairs, band);
    return {place.row, 2 * place.col + rank, true};
  }
  const BandPlace place = WalkInBands(index, tile_rows, tile_cols, band);
  return {place.row, place.col, false};
}

// The last expert whose first place is at most `place`. `starts` has experts + 1 entries that never fall; experts
// without rows have no places.
constexpr int ExpertOf(const int* starts, int experts, int place) {
  int first = 0;
  int last = experts;  // starts[first] <= place < starts[last]
  while (last - first > 1) {
    const int middle = (first + last) / 2;
    if (starts[middle] <= place) {
      first = middle;
    } else {
      last = middle;
    }
  }
  return first;
}

// A place in the ring of stages and which pass through it this is. Full barriers are waited for with the parity of the
// pass, empty ones with the other: on a barrier that was just initialised that wait returns at once (PTX,
// mbarrier.test_wait.parity).
template <int kStages>
struct RingPosition {
  int stage = 0;
  u32 parity = 0;

  constexpr void Advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
  constexpr void Skip(int steps) {
    const int target = stage + steps;
    stage = target % kStages;
    parity ^= static_cast<u32>(target / kStages) & 1;
  }
};

}  // namespace hopper
