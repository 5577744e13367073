// Every tile of every expert is computed once, in clusters that agree; rings keep count of their passes.
#include <gtest/gtest.h>

#include <vector>

#include "kernels/grouped_gemm/hopper_tiles.cuh"

namespace hopper {
namespace {

struct Numbers {
  u64 state = 20261121;
  int Next(int bound) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<int>((state >> 33) % static_cast<u64>(bound));
  }
};

template <int kClusterRows, int kClusterCols>
void ExpectEachTileOnce(int rows, int cols, int band) {
  const int size = kClusterRows * kClusterCols;
  std::vector<int> seen(static_cast<size_t>(rows * cols));
  int outside = 0;
  const int places = PlacesOf<kClusterRows, kClusterCols>(rows, cols);
  for (int place = 0; place < places; ++place) {
    TilePlace tiles[2];
    for (int rank = 0; rank < size; ++rank) {
      tiles[rank] = PlaceTile<kClusterRows, kClusterCols>(place, rows, cols, band, rank);
      if (tiles[rank].row < rows && tiles[rank].col < cols) {
        ++seen[static_cast<size_t>(tiles[rank].row * cols + tiles[rank].col)];
      } else {
        ++outside;
      }
    }
    if (size < 2) continue;
    ASSERT_EQ(tiles[0].shared, tiles[1].shared);
    if (!tiles[0].shared) continue;
    ASSERT_TRUE(kClusterRows == 1 || tiles[0].col == tiles[1].col);
    ASSERT_TRUE(kClusterCols == 1 || tiles[0].row == tiles[1].row);
  }
  for (const int count : seen) ASSERT_EQ(count, 1) << rows << " x " << cols << ", band " << band;
  EXPECT_LE(outside, 1);
}

TEST(Tiles, EachIsComputedOnce) {
  for (int rows = 0; rows <= 9; ++rows) {
    for (int cols = 1; cols <= 9; ++cols) {
      for (const int band : {1, 2, 3, 4, 8, 16, 64}) {
        ExpectEachTileOnce<1, 1>(rows, cols, band);
        ExpectEachTileOnce<2, 1>(rows, cols, band);
        ExpectEachTileOnce<1, 2>(rows, cols, band);
      }
    }
  }
}

TEST(Tiles, BandsAreWalkedColumnByColumn) {
  // 3 x 2 in bands of two rows: down the first column, then the second, then what is left.
  const int expected[6][2] = {{0, 0}, {1, 0}, {0, 1}, {1, 1}, {2, 0}, {2, 1}};
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(WalkInBands(i, 3, 2, 2).row, expected[i][0]);
    EXPECT_EQ(WalkInBands(i, 3, 2, 2).col, expected[i][1]);
  }
}

TEST(Tiles, TheExpertOfAPlaceHasIt) {
  Numbers numbers;
  for (int round = 0; round < 200; ++round) {
    const int experts = 1 + numbers.Next(round < 100 ? 5 : 300);
    std::vector<int> starts(1, 0);
    for (int e = 0; e < experts; ++e) starts.push_back(starts.back() + (numbers.Next(3) == 0 ? 0 : numbers.Next(4)));
    for (int place = 0; place < starts.back(); ++place) {
      const auto expert = static_cast<size_t>(ExpertOf(starts.data(), experts, place));
      ASSERT_LE(starts[expert], place);
      ASSERT_GT(starts[expert + 1], place);
    }
  }
}

TEST(Ring, SkippingIsAdvancing) {
  RingPosition<5> one;
  RingPosition<5> other;
  Numbers numbers;
  for (int round = 0; round < 100; ++round) {
    const int steps = numbers.Next(23);
    for (int i = 0; i < steps; ++i) one.Advance();
    other.Skip(steps);
    ASSERT_EQ(one.stage, other.stage);
    ASSERT_EQ(one.parity, other.parity);
  }
}

TEST(Ring, ParityIsThatOfThePass) {
  RingPosition<3> ring;
  for (int step = 0; step < 30; ++step) {
    EXPECT_EQ(ring.stage, step % 3);
    EXPECT_EQ(ring.parity, static_cast<u32>(step / 3 % 2));
    ring.Advance();
  }
}

}  // namespace
}  // namespace hopper
