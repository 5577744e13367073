// What a block works on: the kernel's arguments, the table of groups in shared memory, the walk over tiles, and where a
// tile's rows and scales lie in memory.
#pragma once

#include "group_sizes.cuh"
#include "hopper_config.cuh"
#include "hopper_ptx.cuh"

namespace hopper {

// One float for each 128 terms of a row, and for each 128 x 128 block of an expert's weights, whose blocks of terms are
// next to each other. A row's scale of block b is rows[row * row_stride + b * block_stride].
struct BlockScales {
  const float* rows;
  const float* cols;
  int row_stride;
  int block_stride;
};

// Where the scales of a quantised output go, as BlockScales has those of the rows.
struct OutScales {
  float* values;
  int row_stride;
  int block_stride;
};

struct Arguments {
  const TensorMap* row_map;  // The operand with the output's rows,
  const TensorMap* col_map;  // the one with its columns,
  const TensorMap* out_map;  // and the output; used as far as the config uses the copy engine.
  const Element* rows;
  const Element* cols;
  OutElement* out;
  GroupSizes sizes;
  const int* gather_indices;
  const float* topk_weights;
  int experts;
  int n;
  int k;
  int topk;
  int band;
  BlockScales scales;    // of operands in fp8
  OutScales out_scales;  // of an output in fp8

  HOPPER_FN int OutCols() const { return kForward ? (kGateUp ? n / 2 : n) : k; }
  HOPPER_FN int TileCols() const { return CeilDiv(OutCols(), kOutCols); }
  // Terms of each sum; with dW each expert has as many as rows.
  HOPPER_FN int Terms() const { return kForward ? k : n; }
  // Elements in a row of the operands, in global memory.
  HOPPER_FN int RowLength() const { return kForward ? k : n; }
  HOPPER_FN int ColLength() const { return k; }
};

// Each expert's first row and first place (hopper_tiles.cuh), and after the last expert the totals.
struct Table {
  int* row_starts;
  int* place_starts;
};

// Executed by one warp: reads the sizes and adds up. Each lane takes a run of experts.
HOPPER_FN void BuildTable(const Arguments& arguments, const Table& table, int lane) {
  const int experts = arguments.experts;
  const int share = CeilDiv(experts, 32);
  const int first = lane * share < experts ? lane * share : experts;
  const int last = first + share < experts ? first + share : experts;
  const int tile_cols = arguments.TileCols();
  const int dw_places = PlacesOf<kClusterRows, kClusterCols>(CeilDiv(arguments.n, kRows), tile_cols);
  const auto places_of = [&](int rows) {
    return kDw ? dw_places : PlacesOf<kClusterRows, kClusterCols>(CeilDiv(rows, kRows), tile_cols);
  };
  int rows = 0;
  int places = 0;
  for (int i = first; i < last; ++i) {
    const int size = arguments.sizes[i];
    rows += size;
    places += places_of(size);
  }
  int rows_before = rows;
  int places_before = places;
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const int more_rows = ShuffleUp(rows_before, distance);
    const int more_places = ShuffleUp(places_before, distance);
    if (lane >= distance) {
      rows_before += more_rows;
      places_before += more_places;
    }
  }
  rows_before -= rows;
  places_before -= places;
  for (int i = first; i < last; ++i) {
    table.row_starts[i] = rows_before;
    table.place_starts[i] = places_before;
    const int size = arguments.sizes[i];
    rows_before += size;
    places_before += places_of(size);
  }
  if (lane == 31) {
    table.row_starts[experts] = rows_before;
    table.place_starts[experts] = places_before;
  }
}

// As ExpertOf, by a whole warp: two looks of all lanes instead of one after the other. At most 1024 experts.
HOPPER_FN int FindExpert(const int* starts, int experts, int place) {
  const int lane = ThreadIndex() % 32;
  const int share = CeilDiv(experts, 32);
  const int end = (lane + 1) * share;
  const int shares = CountLanes(starts[end < experts ? end : experts] <= place);
  const int next = shares * share + lane + 1;
  return shares * share + CountLanes(lane < share && starts[next < experts ? next : experts] <= place);
}

// One tile of one block. `row` and `col` are its origin in the expert's output and may lie past the end.
struct Work {
  int expert;
  int first;  // The expert's first row of tokens,
  int rows;   // and how many it has.
  int row;
  int col;      // With gate and up as columns of the output, like the rest.
  int row_end;  // Where the tile's rows end, at most where the output does.
  int steps;
  bool shared;  // The blocks of the cluster share an operand.
};

// The tiles of this block, in order; the same for all that walk. Blocks of a cluster walk in step.
class Walk {
 public:
  HOPPER_FN Walk(const Arguments& arguments, const Table& table)
      : arguments_(arguments),
        table_(table),
        place_(BlockIndex() / kClusterSize),
        rank_(BlockIndex() % kClusterSize),
        end_(table.place_starts[arguments.experts]) {}

  HOPPER_FN int rank() const { return rank_; }

  // False after the last tile.
  HOPPER_FN bool Next(Work& work) {
    if (place_ >= end_) return false;
    const int expert = FindExpert(table_.place_starts, arguments_.experts, place_);
    work.expert = expert;
    work.first = Uniform(table_.row_starts[expert]);
    work.rows = Uniform(table_.row_starts[expert + 1]) - work.first;
    const int tile_rows = CeilDiv(kDw ? arguments_.n : work.rows, kRows);
    const TilePlace tile = PlaceTile<kClusterRows, kClusterCols>(place_ - table_.place_starts[expert], tile_rows,
                                                                 arguments_.TileCols(), arguments_.band, rank_);
    const int height = kFit && tile_rows > 0 ? CeilDiv(CeilDiv(work.rows, tile_rows), kFitStep) * kFitStep : kRows;
    const int out_rows = kDw ? arguments_.n : work.rows;
    work.row = tile.row * height;
    work.row_end = work.row + height < out_rows ? work.row + height : out_rows;
    work.col = tile.col * kOutCols;
    work.shared = tile.shared;
    work.steps = CeilDiv(kDw ? work.rows : arguments_.Terms(), kDepth);
    place_ += BlockCount() / kClusterSize;
    return true;
  }

 private:
  const Arguments& arguments_;
  const Table& table_;
  int place_;
  int rank_;
  int end_;
};

// The barriers of the stages, and with ping-pong one for each warpgroup that says it is its turn.
struct Barriers {
  u32 base;
  HOPPER_FN u32 Full(int stage) const { return base + 8 * stage; }
  HOPPER_FN u32 Empty(int stage) const { return base + 8 * (kStages + stage); }
  HOPPER_FN u32 Turn(int group) const { return base + 8 * (2 * kStages + group); }
};

// Where row `row` of the expert lies in the matrix, before Divide; -1 past the end of the tile's or the expert's.
template <bool kGather>
HOPPER_FN int ReadPlace(const Arguments& arguments, const Work& work, int row) {
  if (row >= (kDw ? work.rows : work.row_end)) return -1;
  return kGather ? arguments.gather_indices[work.first + row] : work.first + row;
}

// Of a token's rows to the token.
template <bool kDivide>
HOPPER_FN int Divide(const Arguments& arguments, int place) {
  if (!kDivide || place < 0) return place;
  return static_cast<int>(static_cast<u32>(place) / static_cast<u32>(arguments.topk));
}

// Where the scales of the tile's columns from index * kColsPerScale on begin, one for each step, among those of all
// experts; -1 past the last column.
HOPPER_FN int ColScales(const Arguments& arguments, const Work& work, int index) {
  const int column =
      kGateUp ? GateUpRow(work.col + index / 2 * kHalf, index % 2, arguments.n) : work.col + index * kColsPerScale;
  const int block = column / kScaleBlock;
  const int blocks = CeilDiv(arguments.n, kScaleBlock);
  return block < blocks ? (work.expert * blocks + block) * CeilDiv(arguments.Terms(), kScaleBlock) : -1;
}

}  // namespace hopper
