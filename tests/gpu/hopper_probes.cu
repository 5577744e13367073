// The primitives of the sm_90a kernels one by one, for hopper_bringup.py, which says what each must give.
//
// Compiled with the macros of a config, so that tiles, boxes and the wgmma are those of that config. Each probe is one
// block (or one cluster) and writes what it finds to `out`.
// clang-format off: the second needs the first.
#include "roles.cuh"
#include "hopper_kernel.cuh"
// clang-format on

using namespace hopper;

// Fills an operand's tile from a [kSlow][kFast] matrix with ordinary stores.
template <typename Tile>
__device__ void FillTile(u32 tile, const Element* matrix) {
  for (int i = static_cast<int>(threadIdx.x); i < Tile::kSlow * Tile::kFast / 8; i += static_cast<int>(blockDim.x)) {
    const int slow = i / (Tile::kFast / 8);
    const int piece = i % (Tile::kFast / 8);
    const uint4 values = *reinterpret_cast<const uint4*>(matrix + slow * Tile::kFast + piece * 8);
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(tile + Tile::PieceOffset(slow, piece)), "r"(values.x),
                 "r"(values.y), "r"(values.z), "r"(values.w)
                 : "memory");
  }
}

// Copies a tile from shared memory to a [kSlow][kFast] matrix.
template <typename Tile>
__device__ void ReadTile(u32 tile, Element* matrix) {
  for (int i = static_cast<int>(threadIdx.x); i < Tile::kSlow * Tile::kFast / 8; i += static_cast<int>(blockDim.x)) {
    const int slow = i / (Tile::kFast / 8);
    const int piece = i % (Tile::kFast / 8);
    StoreGlobalPiece(matrix + slow * Tile::kFast + piece * 8, LoadPiece(tile + Tile::PieceOffset(slow, piece)));
  }
}

// Descriptors, both majors, fragments: out [kShareP][kShareQ] = P * Q of one stage that was written by ordinary stores.
// 128 threads.
extern "C" __global__ void __launch_bounds__(128, 1) probe_multiply(const Element* p, const Element* q, float* out) {
  const u32 shared = hopper::SharedAddress(DynamicShared());
  FillTile<TileP>(shared + kOffsetP, p);
  FillTile<TileQ>(shared + kOffsetQ, q);
  FenceProxyAsync();
  __syncthreads();
  float sums[kTilesP][kSums];
  MultiplyStep<kTilesP, kShareQ>(sums, TileP::Descriptor(shared + kOffsetP), TileQ::Descriptor(shared + kOffsetQ), 0);
  WgmmaWait<0>();
  for (int tile = 0; tile < kTilesP; ++tile) {
    PinAccumulators(sums[tile]);
    for (int i = 0; i < kSums; ++i) {
      const int thread = static_cast<int>(threadIdx.x);
      out[(tile * 64 + AccumulatorRow(thread, i)) * kShareQ + AccumulatorColumn(thread, i)] = sums[tile][i];
    }
  }
}

// Barriers and boxes: block `rank` of the cluster reads back both tiles of a stage, the shared one by multicast where
// `shared`. out: for each block the row tile, then the column tile, as [kSlow][kFast].
extern "C" __global__ void __launch_bounds__(128, 1)
    probe_load(const __grid_constant__ TensorMap row_map, const __grid_constant__ TensorMap col_map, Element* out,
               int row_fast, int row_slow, int col_fast, int col_slow, int expert, int shared_operand) {
  const u32 shared = hopper::SharedAddress(DynamicShared());
  const u32 barrier = shared + kBarriersBase;
  const int rank = kClusterSize > 1 ? ClusterRank() : 0;
  if (threadIdx.x == 0) {
    BarrierInit(barrier, 1);
    FenceBarrierInit();
  }
  __syncthreads();
  if (kClusterSize > 1) ClusterSync();
  if (threadIdx.x == 0) {
    BarrierArriveExpect(barrier, kStageBytes);
    LoadTile<ColTile, kClusterRows, !kDw>(shared + kColsOffset, &col_map, col_fast, col_slow, expert, barrier,
                                          shared_operand != 0, rank);
    LoadTile<RowTile, kClusterCols, false>(shared + kRowsOffset, &row_map, row_fast, row_slow, 0, barrier,
                                           shared_operand != 0, rank);
  }
  BarrierWait(barrier, 0);
  Element* const own = out + rank * (kStageBytes / 2);
  ReadTile<RowTile>(shared + kRowsOffset, own);
  ReadTile<ColTile>(shared + kColsOffset, own + RowTile::kBytes / 2);
  if (kClusterSize > 1) ClusterSync();
}

// cp.async with arrivals: as probe_load's row tile, from rows of a matrix of kFast columns. 128 threads.
extern "C" __global__ void __launch_bounds__(128, 1) probe_copy(const Element* matrix, Element* out, int rows) {
  const u32 shared = hopper::SharedAddress(DynamicShared());
  const u32 barrier = shared + kBarriersBase;
  if (threadIdx.x == 0) {
    BarrierInit(barrier, 128);
    FenceBarrierInit();
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < RowTile::kSlow * RowTile::kFast / 8; i += 128) {
    const int slow = i / (RowTile::kFast / 8);
    const int piece = i % (RowTile::kFast / 8);
    CopyPiece(shared + RowTile::PieceOffset(slow, piece), matrix + slow * RowTile::kFast + piece * 8, slow < rows);
  }
  CopyArrive(barrier);
  BarrierWait(barrier, 0);
  ReadTile<RowTile>(shared, out);
}

// stmatrix, slabs, boxes or bulk copies out: warp 0 makes one slab of fragments whose element (r, c) is r * kSlabCols +
// c (or with swapped operands, transposed) and stores `rows` rows of it.
extern "C" __global__ void __launch_bounds__(128, 1)
    probe_store(const __grid_constant__ TensorMap out_map, Element* out, int rows, int cols) {
  const u32 slab = hopper::SharedAddress(DynamicShared());
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (threadIdx.x >= 32) return;
  Arguments arguments{};
  arguments.out_map = &out_map;
  arguments.out = out;
  arguments.n = cols;
  arguments.k = cols;
  Work work{};
  work.steps = 1;
  for (int block = 0; block < kSlabCols / 16; ++block) {
    float sums[8];
    for (int i = 0; i < 8; ++i) {
      const int a = AccumulatorRow(lane, i % 4);
      const int b = AccumulatorColumn(lane, i);
      sums[i] = static_cast<float>(kSwap ? b * kSlabCols + block * 16 + a : a * kSlabCols + block * 16 + b);
    }
    if constexpr (kSwap) {
      StoreBlock<true>(work, sums, slab + SlabOffset(StoreTransposedRow(lane), block * 2 + StoreTransposedPiece(lane)));
    } else {
      StoreBlock<false>(work, sums, slab + SlabOffset(StoreMatrixRow(lane), block * 2 + StoreMatrixPiece(lane)));
    }
  }
  FenceProxyAsync();
  __syncwarp();
  StoreSlab(arguments, {rows, lane % 16, 1.0f}, 0, slab, lane);
  StoreCommit();
  StoreWait();
}
