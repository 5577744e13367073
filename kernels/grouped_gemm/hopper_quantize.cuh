// From results in single precision to an output in fp8 with block scales, without a pass through global memory.
//
// A tile of the output is one block of kScaleBlock columns wide, and each of its rows is quantised by itself: the scale
// is the largest magnitude divided by 448, and results are divided by it and rounded to the nearest e4m3, ties to even.
// Where four lanes have all columns of a row they find the largest among themselves; otherwise warps leave theirs in
// shared memory and meet twice, before and after the scales are made. A block without magnitudes of at least
// kLeastOfBlock counts as one of zeros and has the scale 1, so that nothing is divided by zero. A result that is NaN
// stays NaN and does not count for its block; infinities make the scale infinite and all of the block NaN.
#pragma once

#include "hopper_epilogue.cuh"

namespace hopper {

constexpr float kFp8Largest = 448.0f;
// Scales are never smaller than normal floats.
constexpr float kLeastOfBlock = 0x1p-117f;

HOPPER_FN float ScaleOfBlock(float largest) { return largest >= kLeastOfBlock ? largest / kFp8Largest : 1.0f; }

// Stores the scale of row `row` of the expert, which must be one of the tile's.
HOPPER_FN void StoreScale(const Arguments& arguments, const Work& work, int row, float scale) {
  const OutScales& scales = arguments.out_scales;
  StoreGlobalFloat(scales.values + static_cast<long long>(OutRow(arguments, work, row)) * scales.row_stride +
                       static_cast<long long>(work.col / kScaleBlock) * scales.block_stride,
                   scale);
}

// The maxima of the warpgroups that share rows with warpgroup `group`: floats [kMaximaPerRow][kOutRows] of the rows'
// columns in parts, and then [kOutRows] scales.
struct Maxima {
  u32 address;
  int set;  // which of the sets of warpgroups that share rows
  int rank;

  HOPPER_FN Maxima(u32 slabs, int group)
      : address(slabs + (kMaximaBase - kSlabsBase) + group / kRowSharers * kMaximaGroupBytes),
        set(group / kRowSharers),
        rank(group % kRowSharers) {}
  HOPPER_FN u32 Of(int part, int row) const { return address + 4 * (part * kOutRows + row); }
  HOPPER_FN u32 Scale(int row) const { return Of(kMaximaPerRow, row); }
};

// Makes and stores the scales of the rows of a tile, once all warps that share them have left their maxima. Executed by
// all of these warps. What they leave for the next tile is not read before they meet again, nor are these scales
// overwritten before.
HOPPER_FN void ShareScales(const Arguments& arguments, const Work& work, const Maxima& maxima, int share_row,
                           int thread) {
  constexpr int kTogether = kRowSharers * 128;
  constexpr int kFirstBarrier = 8;  // Those below are taken by the epilogue.
  const int first = work.row + share_row;
  NamedBarrier(kFirstBarrier + maxima.set, kTogether);
  for (int row = maxima.rank * 128 + thread; row < kOutRows && first + row < work.row_end; row += kTogether) {
    float largest = 0.0f;
#pragma unroll
    for (int part = 0; part < kMaximaPerRow; ++part) largest = Larger(largest, LoadSharedFloat(maxima.Of(part, row)));
    const float scale = ScaleOfBlock(largest);
    StoreSharedFloat(maxima.Scale(row), scale);
    StoreScale(arguments, work, first + row, scale);
  }
  NamedBarrier(kFirstBarrier + maxima.set, kTogether);
}

// Four lanes have a row's results in pairs of neighbours: `pairs` holds pair i of this lane, columns 8 i + 2 (lane % 4)
// and the next, in half i % 2 of word i / 2. Each lane gives the others what lies outside of its quarter of the columns
// and gets that quarter whole, in two exchanges with one other lane each.
template <int kPieces>
HOPPER_FN void TransposeQuarters(const u32 (&pairs)[4 * kPieces], int lane, Piece (&pieces)[kPieces]) {
  const bool odd = lane % 2 != 0;
  const bool upper = lane % 4 >= 2;
  // [h][s]: words of quarter 2 h + lane % 2 from the lane with lane % 2 == s; then [t][s]: of this lane's quarter from
  // lane 2 t + s.
  u32 halves[2][2][kPieces];
  u32 quarter[2][2][kPieces];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
#pragma unroll
    for (int word = 0; word < kPieces; ++word) {
      const u32 even_quarter = pairs[2 * h * kPieces + word];
      const u32 odd_quarter = pairs[(2 * h + 1) * kPieces + word];
      const u32 other = ShuffleXor(odd ? even_quarter : odd_quarter, 1);
      halves[h][0][word] = odd ? other : even_quarter;
      halves[h][1][word] = odd ? odd_quarter : other;
    }
  }
#pragma unroll
  for (int s = 0; s < 2; ++s) {
#pragma unroll
    for (int word = 0; word < kPieces; ++word) {
      const u32 other = ShuffleXor(upper ? halves[0][s][word] : halves[1][s][word], 2);
      quarter[0][s][word] = upper ? other : halves[0][s][word];
      quarter[1][s][word] = upper ? halves[1][s][word] : other;
    }
  }
  // A word has the pairs of two groups of 8 columns, which are two words of a piece each.
#pragma unroll
  for (int piece = 0; piece < kPieces; ++piece) {
#pragma unroll
    for (int t = 0; t < 2; ++t) {
      const u32 first = quarter[t][0][piece];
      const u32 second = quarter[t][1][piece];
      pieces[piece].words[t] = (first & 0xFFFF) | second << 16;
      pieces[piece].words[2 + t] = first >> 16 | (second & 0xFFFF0000);
    }
  }
}

// Rows are along P: the four lanes of a row store its columns in 16 bytes each time.
// A lane has kPieces of them in each row.
template <int kPieces>
HOPPER_FN void StoreQuantizedRows(const Arguments& arguments, const Work& work, const Maxima& maxima, int share_row,
                                  int share_col, int thread, const float (&sums)[kOutTilesP][kOutSums]) {
  const int lane = thread % 32;
  float scales[kOutTilesP][2];
#pragma unroll
  for (int tile = 0; tile < kOutTilesP; ++tile) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float largest = 0.0f;
#pragma unroll
      for (int i = 0; i < kOutShareQ / 8; ++i) {
        largest = Larger(largest,
                         Larger(Magnitude(sums[tile][4 * i + 2 * half]), Magnitude(sums[tile][4 * i + 2 * half + 1])));
      }
      largest = Larger(largest, ShuffleXor(largest, 1));
      largest = Larger(largest, ShuffleXor(largest, 2));
      const int row = tile * kWgmmaM + AccumulatorRow(thread, 2 * half);
      if constexpr (kShareMaxima) {
        if (lane % 4 == 0) StoreSharedFloat(maxima.Of(maxima.rank, row), largest);
      } else {
        scales[tile][half] = ScaleOfBlock(largest);
        const int of_expert = work.row + share_row + row;
        if (lane % 4 == 0 && of_expert < work.row_end) StoreScale(arguments, work, of_expert, scales[tile][half]);
      }
    }
  }
  if constexpr (kShareMaxima) ShareScales(arguments, work, maxima, share_row, thread);
#pragma unroll
  for (int tile = 0; tile < kOutTilesP; ++tile) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int in_share = tile * kWgmmaM + AccumulatorRow(thread, 2 * half);
      const float scale = kShareMaxima ? LoadSharedFloat(maxima.Scale(in_share)) : scales[tile][half];
      const float reciprocal = 1.0f / scale;
      u32 pairs[4 * kPieces];
#pragma unroll
      for (int i = 0; i < kOutShareQ / 8; ++i) {
        const u32 pair = PackFp8Pair(Quotient(sums[tile][4 * i + 2 * half], scale, reciprocal),
                                     Quotient(sums[tile][4 * i + 2 * half + 1], scale, reciprocal));
        pairs[i / 2] = i % 2 == 0 ? pair : pairs[i / 2] | pair << 16;
      }
      Piece pieces[kPieces];
      TransposeQuarters<kPieces>(pairs, lane, pieces);
      const int row = work.row + share_row + in_share;
      if (row >= work.row_end) continue;
      OutElement* const target =
          OutPlace(arguments, OutRow(arguments, work, row), work.col + share_col + lane % 4 * (kOutShareQ / 4));
#pragma unroll
      for (int piece = 0; piece < kPieces; ++piece) StoreGlobalPiece(target + piece * kPieceBytes, pieces[piece]);
    }
  }
}

// P are columns and Q rows, as in StoreSwapped. Eight lanes have a warp's 16 columns of a row, and the four warps of
// each warpgroup 64.
HOPPER_FN void StoreQuantizedSwapped(const Arguments& arguments, const Work& work, u32 slabs, const Maxima& maxima,
                                     int share_row, int share_col, int group, int thread,
                                     const float (&sums)[kOutTilesP][kOutSums]) {
  const int warp = Uniform(thread / 32);
  const int lane = thread % 32;
  const int part = maxima.rank * 4 + warp;
#pragma unroll
  for (int i = 0; i < kOutShareQ / 8; ++i) {
    if (work.row + share_row + 8 * i >= work.row_end) break;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      float largest = 0.0f;
#pragma unroll
      for (int tile = 0; tile < kOutTilesP; ++tile) {
        largest = Larger(largest, Larger(Magnitude(sums[tile][4 * i + row]), Magnitude(sums[tile][4 * i + 2 + row])));
      }
#pragma unroll
      for (int mask = 4; mask < 32; mask *= 2) largest = Larger(largest, ShuffleXor(largest, mask));
      if (lane < 4) StoreSharedFloat(maxima.Of(part, AccumulatorColumn(thread, 4 * i + row)), largest);
    }
  }
  ShareScales(arguments, work, maxima, share_row, thread);
#pragma unroll
  for (int tile = 0; tile < kOutTilesP; ++tile) {
    // The slabs of the tile before have been read when its warps meet for the scales.
    if (tile > 0) NamedBarrier(4 + group, 128);
#pragma unroll
    for (int i = 0; i < kOutShareQ / 8; ++i) {
      if (work.row + share_row + 8 * i >= work.row_end) break;
      const int row = AccumulatorColumn(thread, 4 * i);
      float scale[2];
      LoadSharedFloats(maxima.Scale(row), scale[0], scale[1]);
      const float reciprocal[2] = {1.0f / scale[0], 1.0f / scale[1]};
      const u32 slab = slabs + row / kSlabRows * kSlabBytes;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const u32 pair = PackFp8Pair(Quotient(sums[tile][4 * i + 2 * half], scale[0], reciprocal[0]),
                                     Quotient(sums[tile][4 * i + 2 * half + 1], scale[1], reciprocal[1]));
        const int byte = lane / 4 + 8 * half;
        StoreSharedByte(slab + SlabOffset(row % kSlabRows, warp) + byte, pair);
        StoreSharedByte(slab + SlabOffset(row % kSlabRows + 1, warp) + byte, pair >> 8);
      }
    }
    NamedBarrier(4 + group, 128);
    for (int slab = warp; slab < kOutShareQ / kSlabRows; slab += 4) {
      const SlabRows rows = FindSlabRows(arguments, work, work.row + share_row + slab * kSlabRows, lane);
      if (rows.valid <= 0) break;
      StoreSlab(arguments, rows, work.col + share_col + tile * kWgmmaM, slabs + slab * kSlabBytes, lane);
    }
  }
}

// Stores this warpgroup's share of a tile. `slabs` is the address of all warpgroups' slabs.
template <typename Sums>
HOPPER_FN void StoreQuantized(const Arguments& arguments, const Work& work, u32 slabs, int group, int thread,
                              const Sums& sums) {
  const int share_p = kPingPong || !kSplitP ? 0 : group * kOutShareP;
  const int share_q = kSplitP ? 0 : group * kOutShareQ;
  const Maxima maxima(slabs, group);
  if constexpr (kSwap) {
    const u32 own = slabs + group * (kSlabsPerGroup * kSlabBytes);
    StoreQuantizedSwapped(arguments, work, own, maxima, share_q, share_p, group, thread, sums);
  } else {
    StoreQuantizedRows<kOutShareQ / 64>(arguments, work, maxima, share_p, share_q, thread, sums);
  }
}

}  // namespace hopper
