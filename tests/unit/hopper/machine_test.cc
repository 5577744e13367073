// The machine itself: what the kernels' tests rely on it to notice.
#include "tests/unit/hopper/machine.h"

#include <gtest/gtest.h>
#include <string.h>

namespace tunefarm::hopper_machine {
namespace {

constexpr uint32_t kBase = 1024;
constexpr uint32_t kBarrier = kBase + 8192;

std::string ErrorOf(int threads, const std::function<void()>& body, const std::vector<Span>& global = {},
                    bool is_dependent = false) {
  try {
    Run({1, 1, threads, 16384, 1, is_dependent}, global, body);
  } catch (const MachineError& error) {
    return error.what();
  }
  return "";
}

TEST(Machine, ThreadsMeet) {
  int arrived = 0;
  bool all_seen = true;
  EXPECT_EQ(ErrorOf(256,
                    [&] {
                      ++arrived;
                      BlockSync();
                      all_seen = all_seen && arrived == 256;
                    }),
            "");
  EXPECT_TRUE(all_seen);
}

TEST(Machine, ALaneGetsAnothersValue) {
  bool right = true;
  EXPECT_EQ(ErrorOf(64,
                    [&] {
                      const auto value = static_cast<uint64_t>(ThreadIndex() * 10);
                      right = right && Exchange(value, 5) == static_cast<uint64_t>((ThreadIndex() / 32 * 32 + 5) * 10);
                    }),
            "");
  EXPECT_TRUE(right);
}

TEST(Machine, NoticesADeadlock) {
  const std::string error = ErrorOf(32, [] {
    if (ThreadIndex() == 0) BarrierInit(kBarrier, 2);
    BlockSync();
    if (ThreadIndex() == 0) BarrierArrive(kBarrier, -1, 0);
    BarrierWait(kBarrier, 0);
  });
  EXPECT_NE(error.find("deadlock"), std::string::npos) << error;
  EXPECT_NE(error.find("pending 1"), std::string::npos) << error;
}

TEST(Machine, NoticesTooManyArrivals) {
  const std::string error = ErrorOf(32, [] {
    if (ThreadIndex() != 0) return;
    BarrierInit(kBarrier, 1);
    BarrierArrive(kBarrier, -1, 16);
    BarrierArrive(kBarrier, -1, 0);
  });
  EXPECT_NE(error.find("too many arrivals"), std::string::npos) << error;
}

TEST(Machine, WaitsForTheParityOfAFreshBarrierReturnAtOnce) {
  EXPECT_EQ(ErrorOf(32,
                    [] {
                      if (ThreadIndex() == 0) BarrierInit(kBarrier, 1);
                      BlockSync();
                      BarrierWait(kBarrier, 1);
                    }),
            "");
}

TEST(Machine, NoticesAMissingProxyFence) {
  alignas(16) static uint8_t memory[64];
  const auto body = [](bool fenced) {
    return [fenced] {
      if (ThreadIndex() != 0) return;
      const uint8_t values[16] = {1};
      WriteShared(kBase, values, 16);
      if (fenced) FenceProxyAsync();
      StoreBulk(memory, kBase, 16);
      StoreCommit();
      StoreWait(0, true);
    };
  };
  EXPECT_NE(ErrorOf(32, body(false), {{memory, 64}}).find("without a proxy fence"), std::string::npos);
  EXPECT_EQ(ErrorOf(32, body(true), {{memory, 64}}), "");
  EXPECT_EQ(memory[0], 1);
}

TEST(Machine, NoticesStoresThatNobodyWaitedForAndWildAddresses) {
  alignas(16) static uint8_t memory[64];
  const std::string forgotten = ErrorOf(32,
                                        [] {
                                          if (ThreadIndex() != 0) return;
                                          StoreBulk(memory, kBase, 16);
                                          StoreCommit();
                                          StoreWait(0, false);  // Has been read, which is not enough.
                                        },
                                        {{memory, 64}});
  EXPECT_NE(forgotten.find("nobody waited for"), std::string::npos) << forgotten;
  const std::string wild = ErrorOf(32, [] { StoreBulk(memory, kBase, 16); }, {{memory + 16, 16}});
  EXPECT_NE(wild.find("wild address"), std::string::npos) << wild;
}

TEST(Machine, NoticesWhoDoesNotWaitForTheGridBefore) {
  alignas(16) static int memory[4];
  int seen = 0;
  const auto error_of = [&](const std::function<void()>& body) {
    memory[0] = 7;
    return ErrorOf(32, body, {{memory, 16}}, true);
  };
  EXPECT_NE(error_of([&] { seen = memory[0]; }).find("a grid that nobody waited for"), std::string::npos);
  EXPECT_EQ(seen, -1);
  EXPECT_NE(error_of([] {
              if (ThreadIndex() == 0) WaitForGridBefore();
              WarpSync();
              if (ThreadIndex() == 1) CheckGlobal(memory, 4);
            }).find("without a wait"),
            std::string::npos);
  EXPECT_EQ(error_of([&] {
              WaitForGridBefore();
              CheckGlobal(memory, 4);
              seen = memory[0];
            }),
            "");
  EXPECT_EQ(seen, 7);
}

TEST(Machine, BoxesAreSwizzledAndFilledWithZeros) {
  alignas(16) static uint16_t matrix[5][64];
  for (int row = 0; row < 5; ++row) {
    for (int column = 0; column < 64; ++column) matrix[row][column] = static_cast<uint16_t>(row * 64 + column + 1);
  }
  const BoxMap map = MakeBoxMap(matrix, {64, 5}, {128}, {64, 8}, 128);
  uint16_t found[8][64];
  EXPECT_EQ(ErrorOf(32,
                    [&] {
                      if (ThreadIndex() == 0) {
                        BarrierInit(kBarrier, 1);
                        BarrierArrive(kBarrier, -1, 1024);
                        LoadBox(kBase, map, {0, 2}, kBarrier, 0);
                      }
                      BlockSync();
                      BarrierWait(kBarrier, 0);
                      if (ThreadIndex() == 0) ReadShared(kBase, found, 1024);
                    }),
            "");
  for (int row = 0; row < 8; ++row) {
    for (int column = 0; column < 64; ++column) {
      const int place = (column / 8 ^ row) * 8 + column % 8;  // The piece's place in a row of the pattern.
      ASSERT_EQ(found[row][place], row < 3 ? matrix[row + 2][column] : 0) << row << " " << column;
    }
  }
}

TEST(Machine, MapsAreRefusedAsTheDriverWould) {
  alignas(16) static uint16_t matrix[64];
  EXPECT_THROW(MakeBoxMap(matrix, {64, 1}, {120}, {64, 1}, 128), MachineError);
  EXPECT_THROW(MakeBoxMap(matrix, {64, 1}, {128}, {64, 257}, 128), MachineError);
  EXPECT_THROW(MakeBoxMap(matrix, {64, 1}, {128}, {64, 1}, 64), MachineError);
  EXPECT_THROW(MakeBoxMap(matrix + 1, {64, 1}, {128}, {64, 1}, 128), MachineError);
}

}  // namespace
}  // namespace tunefarm::hopper_machine
