// The bits of descriptors, swizzles and fragments, against what the tables of the PTX ISA say, written out here by
// hand.
#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "kernels/grouped_gemm/hopper_layout.cuh"

namespace hopper {
namespace {

// PTX ISA, "Matrix Descriptor Format": address 13-0, leading 29-16, stride 45-32, base offset 51-49, swizzle 63-62.
TEST(MatrixDescriptor, HasItsFieldsWhereTheTableSays) {
  const u64 descriptor = MatrixDescriptor(0x2C400, 0x4000, 0x400, 128);
  EXPECT_EQ(descriptor & 0x3FFF, 0x2C400u >> 4);
  EXPECT_EQ(descriptor >> 14 & 0x3, 0u);
  EXPECT_EQ(descriptor >> 16 & 0x3FFF, 0x4000u >> 4);
  EXPECT_EQ(descriptor >> 30 & 0x3, 0u);
  EXPECT_EQ(descriptor >> 32 & 0x3FFF, 0x400u >> 4);
  EXPECT_EQ(descriptor >> 46 & 0x3FFF, 0u);
  EXPECT_EQ(descriptor >> 62, 1u);
  EXPECT_EQ(MatrixDescriptor(0, 0, 0, 64) >> 62, 2u);
  EXPECT_EQ(MatrixDescriptor(0, 0, 0, 32) >> 62, 3u);
  EXPECT_EQ(MatrixDescriptor(0, 0, 0, 0) >> 62, 0u);
}

TEST(MatrixDescriptor, AdvancingChangesTheAddressAlone) {
  const u64 descriptor = MatrixDescriptor(0x400, 0x2000, 0x400, 128);
  EXPECT_EQ(Advanced(descriptor, 0x37000), MatrixDescriptor(0x37400, 0x2000, 0x400, 128));
  EXPECT_EQ(Advanced(descriptor, 32), MatrixDescriptor(0x420, 0x2000, 0x400, 128));
}

// PTX ISA, "Swizzling Modes": the pieces of eight rows of 128 bytes, as the table for 128 bytes shows them.
TEST(Swizzle, ExchangesPiecesAsTheTablesShow) {
  for (u32 row = 0; row < 8; ++row) {
    for (u32 piece = 0; piece < 8; ++piece) {
      EXPECT_EQ(SwizzledOffset(row * 128 + piece * 16, 128), row * 128 + (piece ^ row) * 16);
      EXPECT_EQ(SwizzledOffset(row * 128 + piece * 16, 64), row * 128 + (piece ^ (row & 3)) * 16);
      EXPECT_EQ(SwizzledOffset(row * 128 + piece * 16, 32), row * 128 + (piece ^ (row & 1)) * 16);
    }
  }
  EXPECT_EQ(SwizzledOffset(1024 + 3 * 128 + 5 * 16 + 6, 128), 1024u + 3 * 128 + (5 ^ 3) * 16 + 6);
}

// PTX ISA, "Register Fragments" for D of .m64nNk16: row = 16 * warp + lane / 4 + 8 * (i / 2 % 2), column = 8 * (i / 4)
// + 2 * (lane % 4) + i % 2, written there as a picture; each element belongs to one register of one thread.
TEST(Accumulators, CoverTheTileOnce) {
  for (const int n : {8, 64, 256}) {
    std::set<std::pair<int, int>> places;
    for (int thread = 0; thread < 128; ++thread) {
      for (int i = 0; i < n / 2; ++i) places.emplace(AccumulatorRow(thread, i), AccumulatorColumn(thread, i));
    }
    EXPECT_EQ(places.size(), static_cast<size_t>(64 * n));
    EXPECT_EQ(places.begin()->first, 0);
    EXPECT_EQ(*places.rbegin(), std::make_pair(63, n - 1));
  }
  EXPECT_EQ(AccumulatorRow(0, 0), 0);      // d0 of T0
  EXPECT_EQ(AccumulatorColumn(1, 1), 3);   // d1 of T1
  EXPECT_EQ(AccumulatorRow(4, 2), 9);      // d2 of T4
  EXPECT_EQ(AccumulatorColumn(3, 4), 14);  // d4 of T3
  EXPECT_EQ(AccumulatorRow(127, 3), 63);
}

template <typename Tile>
void ExpectPiecesApart() {
  std::set<u32> places;
  for (int slow = 0; slow < Tile::kSlow; ++slow) {
    for (int piece = 0; piece < Tile::kFast / 8; ++piece) places.insert(Tile::PieceOffset(slow, piece));
  }
  EXPECT_EQ(places.size(), static_cast<size_t>(Tile::kSlow * Tile::kFast / 8));
  EXPECT_EQ(*places.begin(), 0u);
  EXPECT_EQ(*places.rbegin(), static_cast<u32>(Tile::kBytes) - 16);
}

TEST(OperandTile, PiecesFillTheTile) {
  ExpectPiecesApart<OperandTile<true, 128, 64>>();
  ExpectPiecesApart<OperandTile<true, 256, 128>>();
  ExpectPiecesApart<OperandTile<true, 64, 32>>();
  ExpectPiecesApart<OperandTile<false, 128, 64>>();
  ExpectPiecesApart<OperandTile<false, 96, 64>>();
  ExpectPiecesApart<OperandTile<false, 208, 64>>();
}

TEST(OperandTile, OffsetsAddUp) {
  using KMajor = OperandTile<true, 256, 128>;
  using MnMajor = OperandTile<false, 192, 64>;
  for (int term = 0; term < 128; term += 16) {
    EXPECT_EQ(KMajor::Origin(72, term), KMajor::Origin(72, 0) + KMajor::Origin(0, term));
  }
  for (int term = 0; term < 64; term += 16) {
    EXPECT_EQ(MnMajor::Origin(128, term), MnMajor::Origin(128, 0) + MnMajor::Origin(0, term));
    EXPECT_EQ(MnMajor::Origin(0, term), static_cast<u32>(term / 16) * MnMajor::Origin(0, 16));
  }
  // Known values for a swizzle of 128 bytes: 32 bytes for 16 terms of a K-major operand, 2048 of an MN-major one.
  EXPECT_EQ((OperandTile<true, 128, 64>::Origin(0, 16)), 32u);
  EXPECT_EQ((OperandTile<true, 128, 64>::Origin(64, 0)), 8192u);
  EXPECT_EQ((OperandTile<false, 128, 64>::Origin(0, 16)), 2048u);
  EXPECT_EQ((OperandTile<false, 128, 64>::kLeadingBytes), 8192u);
  EXPECT_EQ((OperandTile<false, 128, 64>::kStrideBytes), 1024u);
  EXPECT_EQ((OperandTile<true, 128, 32>::kStrideBytes), 512u);
}

// PTX ISA, "stmatrix": lane l addresses row l % 8 of matrix l / 8.
TEST(StoreMatrix, LanesAddressTheBlocksOfAFragment) {
  for (int lane = 0; lane < 32; ++lane) {
    const int matrix = lane / 8;
    EXPECT_EQ(StoreMatrixRow(lane), matrix % 2 * 8 + lane % 8);
    EXPECT_EQ(StoreMatrixPiece(lane), matrix / 2);
    EXPECT_EQ(StoreTransposedRow(lane), matrix / 2 * 8 + lane % 8);
    EXPECT_EQ(StoreTransposedPiece(lane), matrix % 2);
  }
}

}  // namespace
}  // namespace hopper
