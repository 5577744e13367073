// The loading warpgroup: fills stages with tiles of both operands, ahead of those that multiply and across tiles.
//
// Boxes are copied by the copy engine at the word of one thread. Rows that are gathered are copied by all 128 threads,
// 16 bytes each, into the same swizzled places; what lies outside of a group is filled with zeros there.
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

// One thread's share in copying the tiles of an operand whose rows are rows of tokens.
//
// K-major tiles: the rows are those of the output's tile and stay the same for all steps. MN-major ones (dW): each step
// has its own rows, whose numbers are read one step ahead.
template <typename Tile, bool kGather, bool kDivide>
class RowCopier {
 public:
  // `matrix` has rows of `length` elements. `column` is the tile's first column of it (MN-major).
  HOPPER_FN RowCopier(const Arguments& arguments, const Element* matrix, int length, int thread)
      : arguments_(arguments),
        matrix_(matrix),
        length_(length),
        row_(thread / kPiecesPerRow),
        piece_(thread % kPiecesPerRow) {}

  // The next tile: rows [row, row + tile) of the expert (K-major), or columns from `column` of all its rows (MN-major).
  HOPPER_FN void Begin(const Work& work, int row, int column) {
    column_ = column;
    ReadRows(work, row);
  }

  // Begins to copy the tile of `step`.
  HOPPER_FN void Copy(const Work& work, int step, u32 target) {
    const int column = (kAllSteps ? step * Tile::kFast : column_) + piece_ * kPieceElements;
    const bool inside = column < length_;
#pragma unroll
    for (int i = 0; i < kRowsPerThread; ++i) {
      const bool copied = inside && rows_[i] >= 0;
      const Element* source = copied ? matrix_ + static_cast<long long>(rows_[i]) * length_ + column : matrix_;
      CopyPiece(target + Tile::PieceOffset(row_ + i * kRowStep, piece_), source, copied);
    }
    if (!kAllSteps) ReadRows(work, (step + 1) * Tile::kSlow);
  }

 private:
  static constexpr bool kAllSteps = !Tile::kTransposed;  // The rows serve all steps.
  static constexpr int kPiecesPerRow = Tile::kFast / kPieceElements;
  static constexpr int kRowStep = 128 / kPiecesPerRow;
  static constexpr int kRowsPerThread = Tile::kSlow / kRowStep;
  static_assert(128 % kPiecesPerRow == 0 && Tile::kSlow % kRowStep == 0, "the threads share a copied tile evenly");

  // Where this thread's rows lie in the matrix, -1 for those past the end of the expert's.
  HOPPER_FN void ReadRows(const Work& work, int first) {
#pragma unroll
    for (int i = 0; i < kRowsPerThread; ++i) {
      const int row = first + row_ + i * kRowStep;
      int place = -1;
      if (row < work.rows) {
        place = work.first + row;
        if (kGather) place = arguments_.gather_indices[place];
        if (kGather && kDivide) place /= arguments_.topk;
      }
      rows_[i] = place;
    }
  }

  const Arguments& arguments_;
  const Element* matrix_;
  int length_;
  int row_;
  int piece_;
  int column_ = 0;
  int rows_[kRowsPerThread];
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

// One thread of the warpgroup asks the copy engine for a stage's boxes.
HOPPER_FN void LoadBoxes(const Arguments& arguments, const Work& work, int step, u32 stage, u32 barrier, int rank) {
  BarrierArriveExpect(barrier, kBoxBytes);
  const int term = step * kDepth;
  if (!kCopyCols) {
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
  Walk walk(arguments, table);
  Work work;
  while (walk.Next(work)) {
    rows.Begin(work, kDw ? 0 : work.row, work.row);
    cols.Begin(work, 0, work.col);
    for (int step = 0; step < work.steps; ++step) {
      const u32 stage = stages + ring.stage * kStageBytes;
      const u32 full = barriers.Full(ring.stage);
      BarrierWait(barriers.Empty(ring.stage), ring.parity ^ 1);
      if (warp == 0 && ElectOne()) LoadBoxes(arguments, work, step, stage, full, walk.rank());
      rows.Copy(work, step, stage + kRowsOffset);
      cols.Copy(work, step, stage + kColsOffset);
      if (kCopies) CopyArrive(full);
      WarpSync();
      ring.Advance();
    }
  }
}

}  // namespace hopper
