// The loading warpgroup: fills stages with tiles of both operands, ahead of those that multiply and across tiles.
//
// Boxes are copied by the copy engine at the word of one thread. Rows that are gathered are copied by all 128 threads,
// 16 bytes each, into the same swizzled places; what lies outside of a group is filled with zeros there. Block scales
// that go through stages are copied by threads, too: those of a tile's rows begin anywhere and may be far apart.
#pragma once

#include "hopper_ptx.cuh"
#include "hopper_work.cuh"

namespace hopper {

// Begins to load an operand's tile. `kSharers` blocks may share it; then each loads its part for all of them.
template <typename Tile, int kSharers, bool kPerExpert>
HOPPER_FN void LoadTile(u32 target, const TensorMap* map, int fast, int slow, int expert, u32 barrier, bool shared,
                        int rank) {
  constexpr int kBoxSlow = Tile::kSlow / kSharers;
#pragma unroll
  for (int chunk = 0; chunk < Tile::kChunks; ++chunk) {
    const int x = fast + chunk * Tile::kChunk;
    const u32 place = target + chunk * Tile::kChunkBytes;
    if (kSharers > 1 && shared) {
      const int y = slow + rank * kBoxSlow;
      const u32 half = place + rank * (kBoxSlow * Tile::kSwizzleBytes);
      constexpr unsigned short kAll = (1 << kSharers) - 1;
      if constexpr (kPerExpert) {
        LoadBoxMulticast(half, map, x, y, expert, barrier, kAll);
      } else {
        LoadBoxMulticast(half, map, x, y, barrier, kAll);
      }
    } else {
#pragma unroll
      for (int part = 0; part < kSharers; ++part) {
        const int y = slow + part * kBoxSlow;
        if constexpr (kPerExpert) {
          LoadBox(place + part * (kBoxSlow * Tile::kSwizzleBytes), map, x, y, expert, barrier);
        } else {
          LoadBox(place + part * (kBoxSlow * Tile::kSwizzleBytes), map, x, y, barrier);
        }
      }
    }
  }
}

// The tile of gate and up: a box for each half of a warpgroup's columns. Blocks that share it load every other box.
HOPPER_FN void LoadGateUp(const Arguments& arguments, const Work& work, u32 target, int term, u32 barrier, int rank) {
#pragma unroll
  for (int box = 0; box < ColTile::kSlow / kColBoxSlow; ++box) {
    const int row = GateUpRow(work.col + box / 2 * kHalf, box % 2, arguments.n);
#pragma unroll
    for (int chunk = 0; chunk < ColTile::kChunks; ++chunk) {
      const int x = term + chunk * ColTile::kChunk;
      const u32 place = target + chunk * ColTile::kChunkBytes + box * (kHalf * ColTile::kSwizzleBytes);
      if (kClusterRows == 1 || !work.shared) {
        LoadBox(place, arguments.col_map, x, row, work.expert, barrier);
      } else if (box % kClusterRows == rank) {
        LoadBoxMulticast(place, arguments.col_map, x, row, work.expert, barrier, (1 << kClusterRows) - 1);
      }
    }
  }
}

// How 128 threads share in copying a tile: each row in pieces of 16 bytes, next threads next pieces.
template <typename Tile>
struct CopyShares {
  static constexpr int kPiecesPerRow = Tile::kFast / kPieceElements;
  static constexpr int kRowStep = 128 / kPiecesPerRow;  // rows that are copied at once
  static constexpr int kRowsPerThread = Tile::kSlow / kRowStep;
  static_assert(128 % kPiecesPerRow == 0 && Tile::kSlow % kRowStep == 0, "the threads share a copied tile evenly");
};

// Where the rows of a K-major tile lie, which are those of the output's tile and stay the same for all steps.
template <typename Tile, bool kGather, bool kDivide>
class TileRows {
 public:
  HOPPER_FN explicit TileRows(int thread) : row_(thread / Shares::kPiecesPerRow) {}

  HOPPER_FN void Begin(const Arguments& arguments, const Work& work, int first) {
#pragma unroll
    for (int i = 0; i < Shares::kRowsPerThread; ++i) {
      const int row = first + row_ + i * Shares::kRowStep;
      places_[i] = Divide < kGather && kDivide > (arguments, ReadPlace<kGather>(arguments, work, row));
    }
  }
  HOPPER_FN void Step(const Arguments&, const Work&, int) {}
  HOPPER_FN int Place(const Work&, int, int i) const { return places_[i]; }

 private:
  using Shares = CopyShares<Tile>;

  int row_;
  int places_[Shares::kRowsPerThread];
};

// Where the rows of an MN-major tile lie (dW), of which each step has others, in their order in the matrix.
template <typename Tile>
class OrderedStepRows {
 public:
  HOPPER_FN explicit OrderedStepRows(int thread) : row_(thread / Shares::kPiecesPerRow) {}

  HOPPER_FN void Begin(const Arguments&, const Work&, int) {}
  HOPPER_FN void Step(const Arguments&, const Work&, int) {}
  HOPPER_FN int Place(const Work& work, int step, int i) const {
    const int row = step * Tile::kSlow + row_ + i * Shares::kRowStep;
    return row < work.rows ? work.first + row : -1;
  }

 private:
  using Shares = CopyShares<Tile>;

  int row_;
};

// The same where rows are gathered. A warp reads the places of as many steps as it has lanes for, one in each lane, and
// so many steps ahead: a place takes longer to come than a short step multiplies, and a division longer than copying.
template <typename Tile, bool kDivide>
class GatheredStepRows {
 public:
  HOPPER_FN explicit GatheredStepRows(int thread)
      : lane_(thread % 32), warp_row_(thread / 32 * kRowsAtOnce), row_in_warp_(lane_ / Shares::kPiecesPerRow) {}

  HOPPER_FN void Begin(const Arguments& arguments, const Work& work, int) { next_ = Read(arguments, work, 0); }
  HOPPER_FN void Step(const Arguments& arguments, const Work& work, int step) {
    if (step % kSteps != 0) return;
    places_ = Divide<kDivide>(arguments, next_);
    next_ = Read(arguments, work, step + kSteps);
  }
  // By all lanes of a warp.
  HOPPER_FN int Place(const Work&, int step, int i) const {
    return Shuffle(places_, step % kSteps * kRowsPerWarp + i * kRowsAtOnce + row_in_warp_);
  }

 private:
  using Shares = CopyShares<Tile>;
  static constexpr int kRowsAtOnce = Shares::kRowStep / 4;  // of one warp
  static constexpr int kRowsPerWarp = Shares::kRowsPerThread * kRowsAtOnce;
  static constexpr int kSteps = 32 / kRowsPerWarp;
  static_assert(kRowsAtOnce > 0 && 32 % kRowsPerWarp == 0, "the lanes of a warp share the rows of whole steps");

  // This lane's row of the steps from `step` on.
  HOPPER_FN int Read(const Arguments& arguments, const Work& work, int step) const {
    const int slot = lane_ % kRowsPerWarp;
    const int row = warp_row_ + slot / kRowsAtOnce * Shares::kRowStep + slot % kRowsAtOnce;
    return ReadPlace<true>(arguments, work, (step + lane_ / kRowsPerWarp) * Tile::kSlow + row);
  }

  int lane_;
  int warp_row_;
  int row_in_warp_;
  int places_ = -1;
  int next_ = -1;
};

template <typename Tile, bool kGather, bool kDivide>
struct RowsOf {
  using Type = TileRows<Tile, kGather, kDivide>;
};
template <typename Tile, bool kDivide>
requires(Tile::kTransposed) struct RowsOf<Tile, true, kDivide> {
  using Type = GatheredStepRows<Tile, kDivide>;
};
template <typename Tile, bool kDivide>
requires(Tile::kTransposed) struct RowsOf<Tile, false, kDivide> {
  using Type = OrderedStepRows<Tile>;
};

// One thread's share in copying the tiles of an operand whose rows are rows of tokens.
template <typename Tile, bool kGather, bool kDivide>
class RowCopier {
 public:
  // `matrix` has rows of `length` elements.
  HOPPER_FN RowCopier(const Arguments& arguments, const Element* matrix, int length, int thread)
      : arguments_(arguments),
        matrix_(matrix),
        length_(length),
        row_(thread / Shares::kPiecesPerRow),
        piece_(thread % Shares::kPiecesPerRow),
        rows_(thread) {}

  // The next tile: rows [row, row + tile) of the expert (K-major), or columns from `column` of all its rows (MN-major).
  HOPPER_FN void Begin(const Work& work, int row, int column) {
    column_ = column;
    rows_.Begin(arguments_, work, row);
  }

  // Begins to copy the tile of `step`.
  HOPPER_FN void Copy(const Work& work, int step, u32 target) {
    rows_.Step(arguments_, work, step);
    const int column = (Tile::kTransposed ? column_ : step * Tile::kFast) + piece_ * kPieceElements;
    const bool inside = column < length_;
#pragma unroll
    for (int i = 0; i < Shares::kRowsPerThread; ++i) {
      const int place = rows_.Place(work, step, i);
      const bool copied = inside && place >= 0;
      const Element* source = copied ? matrix_ + static_cast<long long>(place) * length_ + column : matrix_;
      CopyPiece(target + Tile::PieceOffset(row_ + i * Shares::kRowStep, piece_), source, copied);
    }
  }

 private:
  using Shares = CopyShares<Tile>;

  const Arguments& arguments_;
  const Element* matrix_;
  int length_;
  int row_;
  int piece_;
  int column_ = 0;
  typename RowsOf<Tile, kGather, kDivide>::Type rows_;
};

// Stands in where an operand comes in boxes.
struct NoCopier {
  HOPPER_FN NoCopier(const Arguments&, const Element*, int, int) {}
  HOPPER_FN void Begin(const Work&, int, int) {}
  HOPPER_FN void Copy(const Work&, int, u32) {}
};

template <bool kWanted, typename Copier>
struct CopierIf {
  using Type = Copier;
};
template <typename Copier>
struct CopierIf<false, Copier> {
  using Type = NoCopier;
};

using RowsCopier = CopierIf<kCopyRows, RowCopier<RowTile, kForward ? kGatherX : kGatherDy, kForward>>::Type;
using ColsCopier = CopierIf<kCopyCols, RowCopier<ColTile, kGatherX, true>>::Type;

// Copies the block scales of each step: a tile's rows' and its columns'. Rows outside of the group have zeros.
class ScaleCopier {
 public:
  HOPPER_FN ScaleCopier(const Arguments& arguments, int thread) : arguments_(arguments), thread_(thread) {}

  HOPPER_FN void Begin(const Work& work) {
#pragma unroll
    for (int i = 0; i < kRowsPerThread; ++i) {
      const int row = thread_ + i * kScaleCopiers;
      const int place = row < kRows ? ReadPlace<kGatherX>(arguments_, work, work.row + row) : -1;
      rows_[i] = Divide<kGatherX>(arguments_, place);
    }
    col_ = thread_ < kColScales ? ColScales(arguments_, work, thread_) : -1;
  }

  HOPPER_FN void Copy(int step, u32 target) const {
    const BlockScales& scales = arguments_.scales;
#pragma unroll
    for (int i = 0; i < kRowsPerThread; ++i) {
      const int row = thread_ + i * kScaleCopiers;
      const bool inside = rows_[i] >= 0;
      const float* source = inside ? scales.rows + static_cast<long long>(rows_[i]) * scales.row_stride +
                                         static_cast<long long>(step) * scales.block_stride
                                   : scales.rows;
      if (kRows % kScaleCopiers == 0 || row < kRows) CopyFloat(target + 4 * row, source, inside);
    }
    if (thread_ < kColScales) {
      const bool inside = col_ >= 0;
      CopyFloat(target + 4 * (kRows + thread_), inside ? scales.cols + col_ + step : scales.cols, inside);
    }
  }

 private:
  static constexpr int kRowsPerThread = CeilDiv(kRows, kScaleCopiers);
  static_assert(kColScales <= 32, "a thread for each kColsPerScale columns");

  const Arguments& arguments_;
  int thread_;
  int rows_[kRowsPerThread];
  int col_ = -1;
};

// Stands in where operands have no scales.
struct NoScaleCopier {
  HOPPER_FN NoScaleCopier(const Arguments&, int) {}
  HOPPER_FN void Begin(const Work&) {}
  HOPPER_FN void Copy(int, u32) const {}
};

template <bool kWanted>
struct ScaleCopierIf {
  using Type = ScaleCopier;
};
template <>
struct ScaleCopierIf<false> {
  using Type = NoScaleCopier;
};

// One thread of the warpgroup asks the copy engine for a stage's boxes.
HOPPER_FN void LoadBoxes(const Arguments& arguments, const Work& work, int step, u32 stage, u32 barrier, int rank) {
  BarrierArriveExpect(barrier, kBoxBytes);
  const int term = step * kDepth;
  if constexpr (kGateUp) {
    LoadGateUp(arguments, work, stage + kColsOffset, term, barrier, rank);
  } else if (!kCopyCols) {
    const int fast = kForward ? term : work.col;
    const int slow = kForward ? work.col : kDw ? work.first + term : term;
    LoadTile<ColTile, kClusterRows, !kDw>(stage + kColsOffset, arguments.col_map, fast, slow, work.expert, barrier,
                                          work.shared, rank);
  }
  if (!kCopyRows) {
    const int fast = kDw ? work.row : term;
    const int slow = work.first + (kDw ? term : work.row);
    LoadTile<RowTile, kClusterCols, false>(stage + kRowsOffset, arguments.row_map, fast, slow, 0, barrier, work.shared,
                                           rank);
  }
}

// Runs in all four warps of the loading warpgroup if there is something to copy by threads, else in the first.
HOPPER_FN void Produce(const Arguments& arguments, const Table& table, u32 stages, const Barriers& barriers,
                       int thread) {
  const int warp = Uniform(thread / 32);
  RingPosition<kStages> ring;
  RowsCopier rows(arguments, arguments.rows, arguments.RowLength(), thread);
  ColsCopier cols(arguments, arguments.cols, arguments.ColLength(), thread);
  ScaleCopierIf<kCopyScales>::Type scales(arguments, thread);
  Walk walk(arguments, table);
  Work work;
  while (walk.Next(work)) {
    rows.Begin(work, kDw ? 0 : work.row, work.row);
    cols.Begin(work, 0, work.col);
    scales.Begin(work);
    for (int step = 0; step < work.steps; ++step) {
      const u32 stage = stages + ring.stage * kStageBytes;
      const u32 full = barriers.Full(ring.stage);
      BarrierWait(barriers.Empty(ring.stage), ring.parity ^ 1);
      if (warp == 0 && ElectOne()) LoadBoxes(arguments, work, step, stage, full, walk.rank());
      rows.Copy(work, step, stage + kRowsOffset);
      cols.Copy(work, step, stage + kColsOffset);
      scales.Copy(step, stages + kScalesBase + ring.stage * kScaleBytes);
      if (kCopies || kCopyScales) CopyArrive(full);
      WarpSync();
      ring.Advance();
    }
  }
}

}  // namespace hopper
