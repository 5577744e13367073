// The multiplying warpgroups.
//
// One group of wgmmas stays in flight: a stage is handed back when the next one's wgmmas have begun. With the
// cooperative schedule the warpgroups share each tile; with ping-pong they take turns, so that one multiplies while the
// other stores. A turn begins when the other's last stage was full: a wait for the parity of a pass is only right when
// the pass before has ended, and passes of the other warpgroup's tile are nothing that this one has seen.
#pragma once

#include "hopper_epilogue.cuh"

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

// The wgmmas of the 16 terms of one slice. `p` and `q` describe this warpgroup's share of the slice's operands.
HOPPER_FN void MultiplySlice(float (&sums)[kTilesP][kSums], u64 p, u64 q, int accumulate) {
#pragma unroll
  for (int tile = 0; tile < kTilesP; ++tile) {
    Wgmma<TileP::kTransposed, TileQ::kTransposed>(sums[tile], Advanced(p, TileP::Origin(tile * kWgmmaM, 0)), q,
                                                  accumulate);
  }
}

// Those of a whole step.
HOPPER_FN void MultiplyStep(float (&sums)[kTilesP][kSums], u64 p, u64 q, int accumulate) {
  WgmmaFence();
#pragma unroll
  for (int slice = 0; slice < kSlices; ++slice) {
    MultiplySlice(sums, Advanced(p, TileP::Origin(0, slice * kWgmmaK)), Advanced(q, TileQ::Origin(0, slice * kWgmmaK)),
                  slice > 0 ? 1 : accumulate);
  }
  WgmmaCommit();
}

// Those of the first `slices` slices, at least one, each a group of its own: with one commit after the loop ptxas
// cannot see that accumulators are in use there. Only for MN-major operands, whose slices follow each other evenly.
HOPPER_FN void MultiplyPart(float (&sums)[kTilesP][kSums], u64 p, u64 q, int slices, int accumulate) {
  int slice = 0;
  do {
    WgmmaFence();
    MultiplySlice(sums, Advanced(p, slice * TileP::Origin(0, kWgmmaK)), Advanced(q, slice * TileQ::Origin(0, kWgmmaK)),
                  accumulate);
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

// Adds up one tile, and leaves the ring where the next one begins.
HOPPER_FN void Multiply(const Work& work, u32 stages, const Barriers& barriers, RingPosition<kStages>& ring, int group,
                        int thread, float (&sums)[kTilesP][kSums]) {
  const int lane = thread % 32;
  const u32 share_p = kPingPong || !kSplitP ? 0 : TileP::Origin(group * kShareP, 0);
  const u32 share_q = kSplitP ? 0 : TileQ::Origin(group * kShareQ, 0);
  const u64 p = TileP::Descriptor(stages + kOffsetP + share_p);
  const u64 q = TileQ::Descriptor(stages + kOffsetQ + share_q);
  const int whole = kDw ? work.rows / kDepth : work.steps;
  int previous = 0;
#pragma unroll 1
  for (int step = 0; step < whole; ++step) {
    BarrierWait(barriers.Full(ring.stage), ring.parity);
    if (kCopies) FenceProxyAsync();
    const u32 offset = ring.stage * kStageBytes;
    MultiplyStep(sums, Advanced(p, offset), Advanced(q, offset), step > 0);
    if (step > 0) {
      WgmmaWait<1>();
      Release(barriers, previous, lane);
    }
    previous = ring.stage;
    ring.Advance();
  }
  if (kDw && whole < work.steps) {
    const int valid = work.rows - whole * kDepth;
    BarrierWait(barriers.Full(ring.stage), ring.parity);
    if (kCopies) FenceProxyAsync();
    const u32 offset = ring.stage * kStageBytes;
    ClearForeignRows(stages + offset, valid, group, thread);
    MultiplyPart(sums, Advanced(p, offset), Advanced(q, offset), CeilDiv(valid, kWgmmaK), whole > 0);
    if (whole > 0) {
      WgmmaWait<1>();
      Release(barriers, previous, lane);
    }
    previous = ring.stage;
    ring.Advance();
  }
  if (kPingPong && lane == 0) BarrierArrive(barriers.Turn(1 - group));
  WgmmaWait<0>();
#pragma unroll
  for (int tile = 0; tile < kTilesP; ++tile) PinAccumulators(sums[tile]);
  if (work.steps > 0) Release(barriers, previous, lane);
}

HOPPER_FN void Consume(const Arguments& arguments, const Table& table, u32 shared, const Barriers& barriers, int group,
                       int thread) {
  float sums[kTilesP][kSums];
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
    Multiply(work, shared, barriers, ring, group, thread, sums);
    StoreTile(arguments, work, shared + kSlabsBase, group, thread, sums);
  }
  if (kStoreBoxes || kBulk) StoreWait();
}

}  // namespace hopper
