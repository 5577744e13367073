// From the accumulators to the output.
//
// Each warp has 16 rows of the output (of each 64) for itself. It rounds them, and either stores pairs of elements at
// once, or lays slabs of 16 rows into shared memory and stores those: as boxes where all 16 rows belong to the group,
// by rows otherwise, so that no row of a neighbour is touched. With swapped operands a warp has 16 columns instead and
// a warpgroup makes slabs together, and so it does for boxes of dW. Scattered rows and the product with the weights of
// the tokens belong to storing by rows.
#pragma once

#include "hopper_ptx.cuh"
#include "hopper_wgmma.cuh"
#include "hopper_work.cuh"

namespace hopper {

// Where row `row` of the expert's output lies in the whole output.
HOPPER_FN int OutRow(const Arguments& arguments, const Work& work, int row) {
  if (kDw) return work.expert * arguments.n + row;
  return kScatterRows ? arguments.gather_indices[work.first + row] : work.first + row;
}

HOPPER_FN float Factor(const Arguments& arguments, int out_row) {
  return fuse_mul_post ? RoundToElement(arguments.topk_weights[out_row]) : 1.0f;
}

HOPPER_FN OutElement* OutPlace(const Arguments& arguments, int out_row, int col) {
  return arguments.out + static_cast<long long>(out_row) * arguments.OutCols() + col;
}

// Two neighbouring results, rounded. An expert without rows has no sums, and its dW is zero.
HOPPER_FN u32 RoundPair(const Work& work, float low, float high) {
  if (kDw && work.steps == 0) return 0;
  return PackPair(low, high);
}

HOPPER_FN void StoreDirect(const Arguments& arguments, const Work& work, int share_row, int share_col, int thread,
                           const float (&sums)[kOutTilesP][kOutSums]) {
#pragma unroll
  for (int tile = 0; tile < kTilesP; ++tile) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = work.row + share_row + tile * kWgmmaM + AccumulatorRow(thread, 2 * half);
      if (row >= work.row_end) continue;
      const int out_row = OutRow(arguments, work, row);
      const float factor = Factor(arguments, out_row);
      const int first_col = work.col + share_col + AccumulatorColumn(thread, 0);
      OutElement* const target = OutPlace(arguments, out_row, first_col);
#pragma unroll
      for (int i = 0; i < kOutShareQ / 8; ++i) {
        u32 pair = RoundPair(work, sums[tile][4 * i + 2 * half], sums[tile][4 * i + 2 * half + 1]);
        if (fuse_mul_post) pair = ScalePair(pair, factor);
        if (first_col + 8 * i < arguments.OutCols()) StoreGlobalPair(target + 8 * i, pair);
      }
    }
  }
}

// The rows of a slab: lane l knows row l % 16.
struct SlabRows {
  int valid;  // How many rows from the first on belong to the output.
  int place;
  float factor;
};
HOPPER_FN SlabRows FindSlabRows(const Arguments& arguments, const Work& work, int first_row, int lane) {
  SlabRows rows;
  rows.valid = work.row_end - first_row;
  const bool inside = lane % kSlabRows < rows.valid;
  rows.place = inside ? OutRow(arguments, work, first_row + lane % kSlabRows) : 0;
  rows.factor = inside ? Factor(arguments, rows.place) : 0.0f;
  return rows;
}

// Stores a slab that is complete in shared memory, at column `col` of the output. Executed by one warp.
HOPPER_FN void StoreSlab(const Arguments& arguments, const SlabRows& rows, int col, u32 slab, int lane) {
  const int cols = arguments.OutCols();
  if (kStoreBoxes && rows.valid >= kSlabRows) {
    if (ElectOne()) {
#pragma unroll
      for (int chunk = 0; chunk < kSlabCols / kStoreChunk; ++chunk) {
        const int x = col + chunk * kStoreChunk;
        if (x < cols) StoreBox(arguments.out_map, x, rows.place, slab + chunk * (kSlabRows * kStoreSwizzleBytes));
      }
    }
    return;
  }
  if constexpr (kBulk) {
    const int count = cols - col < kSlabCols ? cols - col : kSlabCols;
    if (lane < kSlabRows && lane < rows.valid && count > 0) {
      StoreBulk(OutPlace(arguments, rows.place, col), slab + lane * kSlabPitch, count * kOutBytes);
    }
  } else {
    // With many sums a loop: unrolled, the places of all rows would be kept in registers that are not there.
#pragma unroll(kManySums ? 1 : kSlabRows* kPiecesPerRow / 32)
    for (int i = 0; i < kSlabRows * kPiecesPerRow / 32; ++i) {
      const int index = i * 32 + lane;
      const int row = index / kPiecesPerRow;
      const int piece = index % kPiecesPerRow;
      const int place = Shuffle(rows.place, row);
      const float factor = fuse_mul_post ? Shuffle(rows.factor, row) : 1.0f;
      if (row < rows.valid && col + piece * kOutPieceElements < cols) {
        Piece values = LoadPiece(slab + SlabOffset(row, piece));
        if (fuse_mul_post) {
#pragma unroll
          for (int word = 0; word < 4; ++word) values.words[word] = ScalePair(values.words[word], factor);
        }
        StoreGlobalPiece(OutPlace(arguments, place, col + piece * kOutPieceElements), values);
      }
    }
  }
}

// A 16 x 16 block of accumulators, 8 for each thread, goes to `address`, which each lane gives for its row.
template <bool kTranspose>
HOPPER_FN void StoreBlock(const Work& work, const float* sums, u32 address) {
  StoreMatrices<kTranspose>(address, RoundPair(work, sums[0], sums[1]), RoundPair(work, sums[2], sums[3]),
                            RoundPair(work, sums[4], sums[5]), RoundPair(work, sums[6], sums[7]));
}

// Each warp makes and stores its own slabs. Where a tile may take an odd number of passes, `buffer` remembers whose
// turn it is among them.
HOPPER_FN void StoreStaged(const Arguments& arguments, const Work& work, u32 slabs, int share_row, int share_col,
                           int thread, int& buffer, const float (&sums)[kOutTilesP][kOutSums]) {
  constexpr bool kLater = kStoreBoxes || kBulk;
  const int warp = Uniform(thread / 32);  // The compiler keeps the whole walk in uniform registers then.
  const int lane = thread % 32;
  constexpr int kPassesPerTile = kOutShareQ / kSlabCols;
  constexpr bool kOddPasses = kPassesPerTile % kSlabBuffers != 0;
#pragma unroll
  for (int tile = 0; tile < kTilesP; ++tile) {
    const int row = work.row + share_row + tile * kWgmmaM + warp * kSlabRows;
    const SlabRows rows = FindSlabRows(arguments, work, row, lane);
    if (rows.valid <= 0) break;
#pragma unroll
    for (int pass = 0; pass < kPassesPerTile; ++pass) {
      const int turn = kOddPasses ? buffer : pass % kSlabBuffers;
      const u32 slab = slabs + (warp * kSlabBuffers + turn) * kSlabBytes;
      if (kLater) StoreWaitRead<kSlabBuffers - 1>();
      WarpSync();
#pragma unroll
      for (int block = 0; block < kSlabCols / 16; ++block) {
        StoreBlock<false>(work, &sums[tile][(pass * (kSlabCols / 16) + block) * 8],
                          slab + SlabOffset(StoreMatrixRow(lane), block * 2 + StoreMatrixPiece(lane)));
      }
      if (kLater) FenceProxyAsync();
      WarpSync();
      StoreSlab(arguments, rows, work.col + share_col + pass * kSlabCols, slab, lane);
      if (kLater) StoreCommit();
      if (kOddPasses) buffer ^= 1;
    }
  }
}

// The warpgroup's warps fill slabs of 64 rows together; one thread stores them.
HOPPER_FN void StoreJoined(const Arguments& arguments, const Work& work, u32 slabs, int share_row, int share_col,
                           int group, int thread, int& buffer, const float (&sums)[kOutTilesP][kOutSums]) {
  const int warp = Uniform(thread / 32);
  const int lane = thread % 32;
  constexpr int kPassesPerTile = kShareQ / kSlabCols;
  constexpr bool kOddPasses = kPassesPerTile % kSlabBuffers != 0;
#pragma unroll
  for (int tile = 0; tile < kTilesP; ++tile) {
    const int row = work.row + share_row + tile * kWgmmaM;
    if (row >= work.row_end) break;
#pragma unroll
    for (int pass = 0; pass < kPassesPerTile; ++pass) {
      const int turn = kOddPasses ? buffer : pass % kSlabBuffers;
      const u32 slab = slabs + turn * (4 * kSlabBytes);
      if (warp == 0) StoreWaitRead<kSlabBuffers - 1>();
      NamedBarrier(4 + group, 128);
#pragma unroll
      for (int block = 0; block < kSlabCols / 16; ++block) {
        StoreBlock<false>(
            work, &sums[tile][(pass * (kSlabCols / 16) + block) * 8],
            slab + SlabOffset(warp * kSlabRows + StoreMatrixRow(lane), block * 2 + StoreMatrixPiece(lane)));
      }
      FenceProxyAsync();
      NamedBarrier(4 + group, 128);
      if (warp == 0) {
        if (ElectOne()) {
#pragma unroll
          for (int chunk = 0; chunk < kSlabCols / kStoreChunk; ++chunk) {
            const int x = work.col + share_col + pass * kSlabCols + chunk * kStoreChunk;
            if (x < arguments.k) {
              StoreBox(arguments.out_map, x, row, work.expert, slab + chunk * (kOutBoxRows * kStoreSwizzleBytes));
            }
          }
        }
        StoreCommit();
      }
      if (kOddPasses) buffer ^= 1;
    }
  }
}

// P are columns and Q rows: the warpgroup fills slabs of 64 columns, 16 by each warp, and each warp stores every
// fourth.
HOPPER_FN void StoreSwapped(const Arguments& arguments, const Work& work, u32 slabs, int share_row, int share_col,
                            int group, int thread, const float (&sums)[kOutTilesP][kOutSums]) {
  constexpr bool kLater = kStoreBoxes || kBulk;
  const int warp = Uniform(thread / 32);  // The compiler keeps the whole walk in uniform registers then.
  const int lane = thread % 32;
#pragma unroll
  for (int tile = 0; tile < kOutTilesP; ++tile) {
    if (kLater) StoreWaitRead<0>();
    NamedBarrier(4 + group, 128);
#pragma unroll
    for (int block = 0; block < kShareQ / 16; ++block) {
      if (work.row + share_row + block * kSlabRows >= work.row_end) break;
      StoreBlock<true>(
          work, &sums[tile][block * 8],
          slabs + block * kSlabBytes + SlabOffset(StoreTransposedRow(lane), warp * 2 + StoreTransposedPiece(lane)));
    }
    if (kLater) FenceProxyAsync();
    NamedBarrier(4 + group, 128);
    for (int slab = warp; slab < kShareQ / kSlabRows; slab += 4) {
      const SlabRows rows = FindSlabRows(arguments, work, work.row + share_row + slab * kSlabRows, lane);
      if (rows.valid <= 0) break;
      StoreSlab(arguments, rows, work.col + share_col + tile * kWgmmaM, slabs + slab * kSlabBytes, lane);
    }
    if (kLater) StoreCommit();
  }
}

// Stores this warpgroup's share of a tile. `slabs` is the address of all warpgroups' slabs.
HOPPER_FN void StoreTile(const Arguments& arguments, const Work& work, u32 slabs, int group, int thread, int& buffer,
                         const float (&sums)[kOutTilesP][kOutSums]) {
  const int share_p = kPingPong || !kSplitP ? 0 : group * kOutShareP;
  const int share_q = kSplitP ? 0 : group * kOutShareQ;
  const u32 own = slabs + group * (kSlabsPerGroup * kSlabBytes);
  if constexpr (kDirect) {
    StoreDirect(arguments, work, share_p, share_q, thread, sums);
  } else if constexpr (kSwap) {
    StoreSwapped(arguments, work, own, share_q, share_p, group, thread, sums);
  } else if constexpr (kJoinSlabs) {
    StoreJoined(arguments, work, own, share_p, share_q, group, thread, buffer, sums);
  } else {
    StoreStaged(arguments, work, own, share_p, share_q, thread, buffer, sums);
  }
}

}  // namespace hopper
