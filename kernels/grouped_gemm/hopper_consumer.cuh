// The multiplying warpgroups.
//
// One group of wgmmas stays in flight: a stage is handed back when the next one's wgmmas have begun. With the
// cooperative schedule the warpgroups share each tile; with ping-pong they take turns, so that one multiplies while the
// other stores. A turn begins when the other's last stage was full: a wait for the parity of a pass is only right when
// the pass before has ended, and passes of the other warpgroup's tile are nothing that this one has seen.
#pragma once

#include "hopper_epilogue.cuh"
#if defined(quantize_y)
#include "hopper_quantize.cuh"
#endif

namespace hopper {

// Hands a stage back, to the loading threads of all blocks that write into it. Each warp speaks for itself: another
// warp's wgmmas may still be reading.
HOPPER_FN void Release(const Barriers& barriers, int stage, int lane) {
  if constexpr (kClusterSize == 1) {
    if (lane == 0) BarrierArrive(barriers.Empty(stage));
  } else {
    if (lane < kClusterSize) BarrierArriveAt(barriers.Empty(stage), lane);
  }
}

// The wgmmas of the 16 terms of one slice, for the first `kTiles` of this warpgroup's tiles of 64 along P and the first
// kN rows or columns of its share of Q. `p` and `q` describe its share of the slice's operands.
template <int kTiles, int kN>
HOPPER_FN void MultiplySlice(float (&sums)[kTilesP][kSums], u64 p, u64 q, int accumulate) {
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    Wgmma<kN, TileP::kTransposed, TileQ::kTransposed>(sums[tile], Advanced(p, TileP::Origin(tile * kWgmmaM, 0)), q,
                                                      accumulate);
  }
}

// Those of a whole step.
template <int kTiles, int kN>
HOPPER_FN void MultiplyStep(float (&sums)[kTilesP][kSums], u64 p, u64 q, int accumulate) {
  WgmmaFence();
#pragma unroll
  for (int slice = 0; slice < kSlices; ++slice) {
    MultiplySlice<kTiles, kN>(sums, Advanced(p, TileP::Origin(0, slice * kWgmmaK)),
                              Advanced(q, TileQ::Origin(0, slice * kWgmmaK)), slice > 0 ? 1 : accumulate);
  }
  WgmmaCommit();
}

// Those of the first `slices` slices, at least one, each a group of its own: with one commit after the loop ptxas
// cannot see that accumulators are in use there. Only for MN-major operands, whose slices follow each other evenly.
template <int kTiles>
HOPPER_FN void MultiplyPart(float (&sums)[kTilesP][kSums], u64 p, u64 q, int slices, int accumulate) {
  int slice = 0;
  do {
    WgmmaFence();
    MultiplySlice<kTiles, kShareQ>(sums, Advanced(p, slice * TileP::Origin(0, kWgmmaK)),
                                   Advanced(q, slice * TileQ::Origin(0, kWgmmaK)), accumulate);
    WgmmaCommit();
    accumulate = 1;
  } while (++slice < slices);
}

// Overwrites rows [first, last) of an MN-major tile with zeros. `thread` of `threads` do it together.
template <typename Tile>
HOPPER_FN void ZeroRows(u32 tile, int first, int last, int thread, int threads) {
  constexpr int kPieces = Tile::kFast / kPieceElements;
  for (int i = thread; i < (last - first) * kPieces; i += threads) {
    StoreZeroPiece(tile + Tile::PieceOffset(first + i / kPieces, i % kPieces));
  }
}

// In the last step of an expert's dW, rows of the next expert follow in the stage. Their products would not be zero
// (or, with infinities, not even numbers), so those that the last wgmma reads are cleared in both operands.
HOPPER_FN void ClearForeignRows(u32 stage, int valid, int group, int thread) {
  const int end = CeilDiv(valid, kWgmmaK) * kWgmmaK;
  if (end == valid) return;
  const int sharer = kPingPong ? thread : group * 128 + thread;
  if (!kCopyRows) ZeroRows<RowTile>(stage + kRowsOffset, valid, end, sharer, kSharers * 128);
  if (!kCopyCols) ZeroRows<ColTile>(stage + kColsOffset, valid, end, sharer, kSharers * 128);
  FenceProxyAsync();
  NamedBarrier(kPingPong ? 1 + group : 1, kSharers * 128);
}

// Of this warpgroup's tiles of 64 along P, how many reach into the output. Multiplying the others would take time from
// the other warpgroup, and the last tile of a group is seldom full.
HOPPER_FN int ActiveTiles(const Arguments& arguments, const Work& work, int group) {
  const int rows = work.row_end - work.row;
  const int cols = arguments.OutCols() - work.col;
  const int share_p = kPingPong || !kSplitP ? 0 : group * kOutShareP;
  const int share_q = kSplitP ? 0 : group * kOutShareQ;
  if ((kSwap ? rows : cols) <= share_q) return 0;
  const int left = (kSwap ? cols : rows) - share_p;
  if (kGateUp && kSwap) return left <= 0 ? 0 : kTilesP;
  return left <= 0 ? 0 : left >= kShareP ? kTilesP : CeilDiv(left, kWgmmaM);
}

// One warpgroup's walk through the stages of one tile, with wgmmas for `kTiles` of its tiles of 64, or none, each for
// the first kN of its share of Q.
template <int kTiles, int kN>
HOPPER_FN void MultiplyPlainTiles(const Work& work, u32 stages, const Barriers& barriers, RingPosition<kStages>& ring,
                                  int group, int thread, float (&sums)[kTilesP][kSums]) {
  const int lane = thread % 32;
  const u32 share_p = kPingPong || !kSplitP ? 0 : TileP::Origin(group * kShareP, 0);
  const u32 share_q = kSplitP ? 0 : TileQ::Origin(group * kShareQ, 0);
  const u64 p = TileP::Descriptor(stages + kOffsetP + share_p);
  const u64 q = TileQ::Descriptor(stages + kOffsetQ + share_q);
  const int whole = kDw ? work.rows / kDepth : work.steps;
  int previous = 0;
  // After the wgmmas of a step have begun, those of the one before are waited for and their stage is handed back.
  const auto finish_step = [&](bool is_first) {
    if constexpr (kTiles == 0) {
      Release(barriers, ring.stage, lane);
    } else if (!is_first) {
      WgmmaWait<1>();
      Release(barriers, previous, lane);
    }
    previous = ring.stage;
    ring.Advance();
  };
#pragma unroll 1
  for (int step = 0; step < whole; ++step) {
    BarrierWait(barriers.Full(ring.stage), ring.parity);
    const u32 offset = ring.stage * kStageBytes;
    if constexpr (kTiles > 0) {
      if (kCopies) FenceProxyAsync();
      MultiplyStep<kTiles, kN>(sums, Advanced(p, offset), Advanced(q, offset), step > 0);
    }
    finish_step(step == 0);
  }
  if (kDw && whole < work.steps) {
    const int valid = work.rows - whole * kDepth;
    BarrierWait(barriers.Full(ring.stage), ring.parity);
    if (kCopies) FenceProxyAsync();
    const u32 offset = ring.stage * kStageBytes;
    ClearForeignRows(stages + offset, valid, group, thread);
    if constexpr (kTiles > 0) {
      MultiplyPart<kTiles>(sums, Advanced(p, offset), Advanced(q, offset), CeilDiv(valid, kWgmmaK), whole > 0);
    }
    finish_step(whole == 0);
  }
  if (kPingPong && lane == 0) BarrierArrive(barriers.Turn(1 - group));
  if constexpr (kTiles > 0) {
    WgmmaWait<0>();
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) PinAccumulators(sums[tile]);
    if (work.steps > 0) Release(barriers, previous, lane);
  }
}

// What a thread needs of a step's scales: of the accumulators' rows and columns of the output.
struct StepScales {
  // By tile of 64 along P: the scales of the accumulators with an even and with an odd index / 2, rows or, with
  // swap_operands, the one of the columns' block twice.
  float p[kTilesP][2];
  // Along Q: with swap_operands a row's for each column of accumulators that the thread has, else one for
  // each kColsPerScale columns.
  static constexpr int kCount = kSwap ? kShareQ / 4 : CeilDiv(kShareQ, kColsPerScale);
  float q[kCount];

  // The factor of accumulator `index` of tile `tile`.
  HOPPER_FN float Of(int tile, int index) const {
    const int column = kSwap ? index / 4 * 2 + index % 2 : index / 4 * 8 / kColsPerScale;
    return p[tile][index / 2 % 2] * q[column];
  }
};

// Reads the scales of each step of a tile from its stage, with swap_operands; kN as in MultiplyPlainTiles.
template <int kN>
class StagedScales {
 public:
  HOPPER_FN StagedScales(const Arguments&, const Work&, int group, int thread)
      : share_p_(kPingPong || !kSplitP ? 0 : group * kShareP),
        rows_(4 * ((kSplitP ? 0 : group * kShareQ) + AccumulatorColumn(thread, 0))) {}

  // When the stage with these scales is full.
  HOPPER_FN StepScales Of(u32 scales) const {
    StepScales result;
#pragma unroll
    for (int tile = 0; tile < kTilesP; ++tile) {
      const int index = (share_p_ + tile * kWgmmaM) / kColsPerScale;
      result.p[tile][0] = result.p[tile][1] = LoadSharedFloat(scales + 4 * (kRows + index));
    }
#pragma unroll
    for (int i = 0; i < kN / 8; ++i) {
      LoadSharedFloats(scales + rows_ + 4 * AccumulatorColumn(0, 4 * i), result.q[2 * i], result.q[2 * i + 1]);
    }
    return result;
  }
  HOPPER_FN void Read() {}

 private:
  int share_p_;
  int rows_;
};

// Reads them from memory, a step ahead. Rows and columns outside of the output, whose sums are not stored, have the
// scales of others.
template <int kTiles>
class ScalesAhead {
 public:
  HOPPER_FN ScalesAhead(const Arguments& arguments, const Work& work, int group, int thread)
      : scales_(arguments.scales), steps_(work.steps) {
    const int share_p = kPingPong || !kSplitP ? 0 : group * kShareP;
    const int share_q = kSplitP ? 0 : group * kShareQ;
    const int last = work.row_end - 1;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = work.row + share_p + tile * kWgmmaM + AccumulatorRow(thread, 2 * half);
        const int place = ReadPlace<kGatherX>(arguments, work, row < last ? row : last);
        rows_[tile][half] = Divide<kGatherX>(arguments, place) * scales_.row_stride;
      }
    }
#pragma unroll
    for (int i = 0; i < StepScales::kCount; ++i) {
      const int first = ColScales(arguments, work, share_q / kColsPerScale + i);
      cols_[i] = first >= 0 ? first : 0;
    }
    Read();
  }

  // Of the step that was read last.
  HOPPER_FN StepScales Of(u32) const { return next_; }
  // Those of the next step, if there is one.
  HOPPER_FN void Read() {
    const int step = step_++;
    if (step >= steps_) return;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        next_.p[tile][half] = LoadGlobalFloat(scales_.rows + rows_[tile][half] + step * scales_.block_stride);
      }
    }
#pragma unroll
    for (int i = 0; i < StepScales::kCount; ++i) next_.q[i] = LoadGlobalFloat(scales_.cols + cols_[i] + step);
  }

 private:
  const BlockScales& scales_;
  int steps_;
  int step_ = 0;
  int rows_[kTiles][2];
  int cols_[StepScales::kCount];
  StepScales next_;
};

template <int kTiles, int kN>
struct ScalesOf {
  using Type = ScalesAhead<kTiles>;
};
template <int kTiles, int kN>
requires(kCopyScales) struct ScalesOf<kTiles, kN> {
  using Type = StagedScales<kN>;
};

// As MultiplyPlainTiles, for operands with block scales: a step's products have accumulators of their own, which are
// multiplied by the scales and added to the sums in single precision ("promoted"). They are made in parts, of which
// kPartsAhead + 1 are on their way. While one warpgroup promotes, the tensor cores work for the other ones, and for
// this one's next part.
template <int kTiles, int kN>
HOPPER_FN void MultiplyScaledTiles(const Arguments& arguments, const Work& work, u32 stages, const Barriers& barriers,
                                   RingPosition<kStages>& ring, int group, int thread, float (&sums)[kTilesP][kSums]) {
  constexpr int kPartN = kN > kPartQ ? kPartQ : kN;
  constexpr int kPartsOfTile = kN / kPartN;
  constexpr int kParts = kTiles * kPartsOfTile;
  static_assert(kN % kPartN == 0, "parts are equally wide");
  const int lane = thread % 32;
  const u32 share_p = kPingPong || !kSplitP ? 0 : TileP::Origin(group * kShareP, 0);
  const u32 share_q = kSplitP ? 0 : TileQ::Origin(group * kShareQ, 0);
  const u64 p = TileP::Descriptor(stages + kOffsetP + share_p);
  const u64 q = TileQ::Descriptor(stages + kOffsetQ + share_q);
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
    for (int i = 0; i < kN / 2; ++i) sums[tile][i] = 0.0f;
  }
  typename ScalesOf<kTiles, kN>::Type reader(arguments, work, group, thread);
#pragma unroll kScaledUnroll
  for (int step = 0; step < work.steps; ++step) {
    BarrierWait(barriers.Full(ring.stage), ring.parity);
    const u64 stage_p = Advanced(p, ring.stage * kStageBytes);
    const u64 stage_q = Advanced(q, ring.stage * kStageBytes);
    if (kCopies) FenceProxyAsync();
    const StepScales scales = reader.Of(stages + kScalesBase + ring.stage * kScaleBytes);
    float products[kPartsAhead + 1][kPartN / 2];
    // Begins part `part`, and promotes the one kPartsAhead before it.
#pragma unroll
    for (int part = 0; part < kParts + kPartsAhead; ++part) {
      if (part < kParts) {
        const int tile = part / kPartsOfTile;
        const int first_q = part % kPartsOfTile * kPartN;
        WgmmaFence();
#pragma unroll
        for (int slice = 0; slice < kSlices; ++slice) {
          Wgmma<kPartN, TileP::kTransposed, TileQ::kTransposed>(
              products[part % (kPartsAhead + 1)], Advanced(stage_p, TileP::Origin(tile * kWgmmaM, slice * kWgmmaK)),
              Advanced(stage_q, TileQ::Origin(first_q, slice * kWgmmaK)), slice > 0 ? 1 : 0);
        }
        WgmmaCommit();
        if (part == 0) reader.Read();
      }
      const int done = part - kPartsAhead;
      if (done < 0) continue;
      if (done < kParts - 1) {
        WgmmaWait<kPartsAhead>();
      } else {
        WgmmaWait<0>();
        Release(barriers, ring.stage, lane);
      }
      float(&promoted)[kPartN / 2] = products[done % (kPartsAhead + 1)];
      PinAccumulators(promoted);
      const int tile = done / kPartsOfTile;
      const int first = done % kPartsOfTile * (kPartN / 2);
#pragma unroll
      for (int i = 0; i < kPartN / 2; ++i) sums[tile][first + i] += scales.Of(tile, first + i) * promoted[i];
    }
    ring.Advance();
  }
  if (kPingPong && lane == 0) BarrierArrive(barriers.Turn(1 - group));
}

template <int kTiles, int kN = kShareQ>
HOPPER_FN void MultiplyTiles(const Arguments& arguments, const Work& work, u32 stages, const Barriers& barriers,
                             RingPosition<kStages>& ring, int group, int thread, float (&sums)[kTilesP][kSums]) {
  if constexpr (kScaled && kTiles > 0) {
    MultiplyScaledTiles<kTiles, kN>(arguments, work, stages, barriers, ring, group, thread, sums);
  } else {
    MultiplyPlainTiles<kTiles, kN>(work, stages, barriers, ring, group, thread, sums);
  }
}

// All tiles of this warpgroup, in the least height from kN down that has all rows.
template <int kN = kShareQ>
HOPPER_FN void MultiplyFitted(const Arguments& arguments, const Work& work, u32 stages, const Barriers& barriers,
                              RingPosition<kStages>& ring, int group, int thread, float (&sums)[kTilesP][kSums]) {
  if constexpr (kFit && kN - kFitStep >= kFitLeast) {
    if (work.row_end - work.row <= kN - kFitStep) {
      MultiplyFitted<kN - kFitStep>(arguments, work, stages, barriers, ring, group, thread, sums);
      return;
    }
  }
  MultiplyTiles<kTilesP, kN>(arguments, work, stages, barriers, ring, group, thread, sums);
}

// Adds up one tile, and leaves the ring where the next one begins. Sums outside of the output are left as they are.
HOPPER_FN void Multiply(const Arguments& arguments, const Work& work, int active, u32 stages, const Barriers& barriers,
                        RingPosition<kStages>& ring, int group, int thread, float (&sums)[kTilesP][kSums]) {
  if (active == 0) {
    MultiplyTiles<0>(arguments, work, stages, barriers, ring, group, thread, sums);
  } else if (kTilesP == 2 && !kFit && active == 1) {
    MultiplyTiles<1>(arguments, work, stages, barriers, ring, group, thread, sums);
  } else {
    MultiplyFitted(arguments, work, stages, barriers, ring, group, thread, sums);
  }
}

// SiLU(gate) * up. In registers of their own: ptxas runs wgmmas one by one where anything else writes their
// accumulators.
HOPPER_FN void FuseGateUp(const float (&sums)[kTilesP][kSums], float (&fused)[kOutTilesP][kOutSums]) {
#pragma unroll
  for (int tile = 0; tile < kOutTilesP; ++tile) {
#pragma unroll
    for (int i = 0; i < kOutSums; ++i) {
      fused[tile][i] = SiluMultiply(sums[tile][i], sums[tile + kTilesP - kOutTilesP][i + kSums - kOutSums]);
    }
  }
}

template <typename Sums>
HOPPER_FN void StoreResults(const Arguments& arguments, const Work& work, u32 slabs, int group, int thread, int& buffer,
                            const Sums& sums) {
  if constexpr (kGateUp) {
    float fused[kOutTilesP][kOutSums];
    FuseGateUp(sums, fused);
#if defined(quantize_y)
    StoreQuantized(arguments, work, slabs, group, thread, fused);
#else
    StoreTile(arguments, work, slabs, group, thread, buffer, fused);
#endif
  } else {
    StoreTile(arguments, work, slabs, group, thread, buffer, sums);
  }
}

HOPPER_FN void Consume(const Arguments& arguments, const Table& table, u32 shared, const Barriers& barriers, int group,
                       int thread) {
  float sums[kTilesP][kSums];
  int buffer = 0;
  RingPosition<kStages> ring;
  Walk walk(arguments, table);
  Work work;
  for (int turn = 0; walk.Next(work); ++turn) {
    if (kPingPong && turn % 2 != group) {
      ring.Skip(work.steps);
      continue;
    }
    // The first warpgroup's first turn comes without being told, as a producer's first wait does.
    if (kPingPong) BarrierWait(barriers.Turn(group), (turn / 2 + 1 + group) % 2);
    const int active = Uniform(ActiveTiles(arguments, work, group));
    Multiply(arguments, work, active, shared, barriers, ring, group, thread, sums);
    if (active > 0) StoreResults(arguments, work, shared + kSlabsBase, group, thread, buffer, sums);
  }
  if (kStoreBoxes || kBulk) StoreWait();
}

}  // namespace hopper
