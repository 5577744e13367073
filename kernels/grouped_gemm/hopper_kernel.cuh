// What a block does: one warp-specialised kernel for all three products.
//
// A block has one warpgroup that loads (hopper_producer.cuh) and one to three that multiply with wgmma and store
// (hopper_consumer.cuh, hopper_epilogue.cuh). They meet in a ring of stages in shared memory, each with a barrier that
// says full and one that says empty.
#pragma once

#include "hopper_consumer.cuh"
#include "hopper_producer.cuh"

namespace hopper {

HOPPER_FN void SetUp(const Arguments& arguments, const Table& table, const Barriers& barriers, int thread) {
  if (thread == 32) {
    for (int stage = 0; stage < kStages; ++stage) {
      BarrierInit(barriers.Full(stage), kFullArrivals);
      BarrierInit(barriers.Empty(stage), kEmptyArrivals);
    }
    if (kPingPong) {
      BarrierInit(barriers.Turn(0), kTurnArrivals);
      BarrierInit(barriers.Turn(1), kTurnArrivals);
    }
    FenceBarrierInit();
  }
  if (thread == 64) {
    if (!kCopyRows) PrefetchMap(arguments.row_map);
    if (!kCopyCols) PrefetchMap(arguments.col_map);
    if (kStoreBoxes) PrefetchMap(arguments.out_map);
  }
  WaitForGridBefore();
  if (thread < 32) BuildTable(arguments, table, thread);
  BlockSync();
  if (kClusterSize > 1) ClusterSync();
  AllowGridAfter();
}

HOPPER_FN void Run(const Arguments& arguments) {
  unsigned char* const memory = DynamicShared();
  const u32 shared = SharedAddress(memory);
  if (shared % 1024 != 0) Trap();
  const Barriers barriers{shared + kBarriersBase};
  int* const numbers = reinterpret_cast<int*>(memory + kTableBase);
  const Table table{numbers, numbers + arguments.experts + 1};
  const int thread = ThreadIndex();
  SetUp(arguments, table, barriers, thread);

  const int warpgroup = Uniform(thread / 128);
  if (warpgroup == 0) {
    if constexpr (kMoveRegisters) LowerRegisters<kProducerRegisters>();
    if (kCopies || thread < 32) Produce(arguments, table, shared, barriers, thread);
  } else {
    if constexpr (kMoveRegisters) RaiseRegisters<kConsumerRegisters>();
    Consume(arguments, table, shared, barriers, warpgroup - 1, thread % 128);
  }
  // A block must not end while the other one may still arrive at its barriers.
  if (kClusterSize > 1) ClusterSync();
}

}  // namespace hopper
