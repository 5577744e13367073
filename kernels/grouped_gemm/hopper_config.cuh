// What one config means for the sm_90a path: roles of the operands, shares of the warpgroups, shared memory.
//
// Everything follows from the macros that the definitions name and from Element and TensorMap; no instructions of the
// GPU. The output's tile is kRows x kCols, and a step adds kDepth terms. wgmma computes kExtentP x kExtentQ of it, P
// being its M side and Q its N side: rows and columns, or with swap_operands (few rows per expert) columns and rows.
#pragma once

#include "hopper_tiles.cuh"

#if !defined(swap_operands)  // dW has no small side.
#define swap_operands 0
#endif

namespace hopper {

constexpr bool kForward = GROUPED_GEMM_OP == OP_FORWARD;
constexpr bool kDx = GROUPED_GEMM_OP == OP_DX;
constexpr bool kDw = GROUPED_GEMM_OP == OP_DW;

#if GROUPED_GEMM_OP == OP_FORWARD
constexpr int kRows = BLOCK_SIZE_M;
constexpr int kCols = BLOCK_SIZE_N;
constexpr int kDepth = BLOCK_SIZE_K;
constexpr bool kCopyRows = !use_tma_load_x;  // By threads (cp.async) instead of the copy engine.
constexpr bool kCopyCols = false;
static_assert(use_tma_load_w, "weights come through the copy engine");
static_assert(!(permute_x && use_tma_load_x), "the copy engine cannot gather rows");
#elif GROUPED_GEMM_OP == OP_DX
constexpr int kRows = BLOCK_SIZE_M;
constexpr int kCols = BLOCK_SIZE_K;
constexpr int kDepth = BLOCK_SIZE_N;
constexpr bool kCopyRows = !use_tma_load_dy;
constexpr bool kCopyCols = false;
static_assert(use_tma_load_w, "weights come through the copy engine");
static_assert(!(permute_y && use_tma_load_dy), "the copy engine cannot gather rows");
#else
constexpr int kRows = BLOCK_SIZE_N;
constexpr int kCols = BLOCK_SIZE_K;
constexpr int kDepth = BLOCK_SIZE_M;
constexpr bool kCopyRows = !use_tma_load_dy;
constexpr bool kCopyCols = !use_tma_load_x;
static_assert(!(permute_y && use_tma_load_dy) && !(permute_x && use_tma_load_x), "the copy engine cannot gather rows");
#endif

// Rows of tokens that are read or written in the order of gather_indices.
constexpr bool kGatherX = permute_x && !kDx;
constexpr bool kGatherDy = permute_y && !kForward;
constexpr bool kScatterRows = (kForward && permute_y) || (kDx && permute_x);

// --- Threads ---
constexpr int kConsumers = num_warps / 4;  // Warpgroups that multiply; one more loads.
constexpr int kThreads = (kConsumers + 1) * 128;
#if defined(schedule_pingpong)
constexpr bool kPingPong = true;
#else
constexpr bool kPingPong = false;
#endif
constexpr int kStages = num_stages;
constexpr int kClusterRows = cluster_m;
constexpr int kClusterCols = cluster_n;
constexpr int kClusterSize = kClusterRows * kClusterCols;
constexpr bool kCopies = kCopyRows || kCopyCols;

// --- Gate and up ---
// W has as many rows of gate as of up, all of gate first or in blocks of kGateUpBlock by turns, and the output has
// SiLU(X * gate^T) * (X * up^T) in half as many columns.
#if defined(gate_up_split)
constexpr bool kGateUp = true;
constexpr bool kGateUpBlocks = false;
#elif defined(gate_up_blocks)
constexpr bool kGateUp = true;
constexpr bool kGateUpBlocks = true;
#else
constexpr bool kGateUp = false;
constexpr bool kGateUpBlocks = false;
#endif
constexpr int kGateUpBlock = 128;
constexpr int kOutCols = kGateUp ? kCols / 2 : kCols;  // Columns of the output in a tile.

static_assert(!kGateUp || (kForward && !fuse_mul_post), "gate and up are fused in the forward product alone");

// The row of W that gives column `column` of gate (half 0) or of up (half 1). `n` is the number of W's rows.
constexpr int GateUpRow(int column, int half, int n) {
  return kGateUpBlocks ? (column / kGateUpBlock * 2 + half) * kGateUpBlock + column % kGateUpBlock
                       : half * (n / 2) + column;
}

// --- Block scales ---
// Operands in fp8 have a float for each kScaleBlock terms: one for each row of the output, and one for each kScaleBlock
// columns. A step is one block of terms.
#if defined(dtype_fp8)
constexpr bool kScaled = true;
#else
constexpr bool kScaled = false;
#endif

// The output is in fp8, too.
#if defined(quantize_y)
constexpr bool kQuantize = true;
#else
constexpr bool kQuantize = false;
#endif

constexpr int kScaleBlock = 128;
// Rows of tokens on the N side of wgmma: each thread needs the scales of a quarter of the rows, which the loading
// warpgroup copies into the stages. Otherwise it needs those of two rows for each 64, and reads them from memory a step
// ahead.
constexpr bool kCopyScales = kScaled && swap_operands;
// Threads that copy them: all that copy rows, or the warp that asks for boxes.
constexpr int kScaleCopiers = kCopies ? 128 : 32;

static_assert(!kScaled || (kForward && kDepth == kScaleBlock), "a step has one scale for each row");
static_assert(!kScaled || kRows % 8 == 0, "pairs of rows have pairs of scales");

static_assert(kConsumers >= 1 && kConsumers <= 3 && num_warps % 4 == 0, "num_warps is 4, 8 or 12");
static_assert(!kPingPong || kConsumers == 2, "ping-pong takes two warpgroups");
static_assert(kStages >= 2, "at least two stages");
static_assert(!(kCopyRows && kClusterCols > 1) && !(kCopyCols && kClusterRows > 1),
              "only the copy engine can multicast");

// --- Operands ---
using RowTile = OperandTile<!kDw, kRows, kDepth>;
using ColTile = OperandTile<kForward, kCols, kDepth>;
constexpr int kRowsOffset = 0;
constexpr int kColsOffset = RowTile::kBytes;
constexpr int kStageBytes = RowTile::kBytes + ColTile::kBytes;
template <bool kSwap, typename Rows, typename Cols>
struct Sides {
  using P = Rows;
  using Q = Cols;
};
template <typename Rows, typename Cols>
struct Sides<true, Rows, Cols> {
  using P = Cols;
  using Q = Rows;
};
constexpr bool kSwap = swap_operands;
using TileP = Sides<kSwap, RowTile, ColTile>::P;
using TileQ = Sides<kSwap, RowTile, ColTile>::Q;
constexpr int kExtentP = kSwap ? kCols : kRows;
constexpr int kExtentQ = kSwap ? kRows : kCols;
constexpr int kOffsetP = kSwap ? kColsOffset : kRowsOffset;
constexpr int kOffsetQ = kSwap ? kRowsOffset : kColsOffset;

// --- Shares of the consumers: along P where that comes out even, else along Q; with ping-pong each has whole tiles.
// ---
constexpr int kSharers = kPingPong ? 1 : kConsumers;
constexpr bool kSplitP = kExtentP / kWgmmaM % kSharers == 0;
constexpr int kShareP = kSplitP ? kExtentP / kSharers : kExtentP;
constexpr int kShareQ = kSplitP ? kExtentQ : kExtentQ / kSharers;
constexpr int kTilesP = kShareP / kWgmmaM;  // wgmmas along P for each step of 16 terms.
constexpr int kSlices = kDepth / kWgmmaK;

// Columns of the tile that a warpgroup has. With gate and up they are kHalf of gate and then kHalf of up.
constexpr int kColShare = kSwap ? kShareP : kShareQ;
constexpr int kHalf = kColShare / 2;
// What a warpgroup has of the output.
constexpr int kOutTilesP = kGateUp && kSwap ? kTilesP / 2 : kTilesP;
constexpr int kOutShareP = kOutTilesP * kWgmmaM;
constexpr int kOutShareQ = kGateUp && !kSwap ? kShareQ / 2 : kShareQ;
constexpr int kOutSums = kOutShareQ / 2;  // results of a thread in each tile of 64 along P

static_assert(!kGateUp || kHalf % (kSwap ? kWgmmaM : 16) == 0, "halves are whole accumulators");
static_assert(!kGateUpBlocks || kGateUpBlock % kHalf == 0, "halves lie within blocks");

// Boxes: [slow][chunk]. Where blocks share an operand its slow extent is halved, each block loading one half for both;
// gate and up come in a box for each half.
constexpr int kRowBoxSlow = RowTile::kSlow / kClusterCols;
constexpr int kColBoxSlow = kGateUp ? kHalf : ColTile::kSlow / kClusterRows;
constexpr int kBoxBytes =
    (kCopyRows ? 0 : RowTile::kBytes) + (kCopyCols ? 0 : ColTile::kBytes);  // Each stage, by boxes.

static_assert(RowTile::kBytes % 1024 == 0 && ColTile::kBytes % 1024 == 0, "tiles begin with whole swizzle patterns");
static_assert(kRowBoxSlow <= 256 && kColBoxSlow <= 256, "the limit of a tensor map");
static_assert(kRowBoxSlow * RowTile::kSwizzleBytes % 1024 == 0 && kColBoxSlow * ColTile::kSwizzleBytes % 1024 == 0,
              "halves begin with whole swizzle patterns");

// The largest power of two that divides `extent`, kScaleBlock at most.
constexpr int AlignmentInScaleBlock(int extent) {
  int alignment = kScaleBlock;
  while (extent % alignment != 0) alignment /= 2;
  return alignment;
}

// Columns of the tile that surely share a scale, wherever it begins, and how many of those a tile has: one of 192
// columns may begin in the middle of a block, so that it has three.
constexpr int kColsPerScale = kGateUp ? kHalf : AlignmentInScaleBlock(kCols);
constexpr int kColScales = CeilDiv(kCols, kColsPerScale);
// Of a stage: a float for each row, then those of the columns, filled up to 16 bytes.
constexpr int kScaleBytes = kCopyScales ? 4 * kRows + CeilDiv(kColScales, 4) * 16 : 0;

static_assert(!kScaled || !kGateUp || kScaleBlock % kHalf == 0, "what shares a scale lies in one block");
static_assert(!kScaled ||
                  (kSwap ? kColsPerScale % kWgmmaM == 0 : kShareQ % kColsPerScale == 0 || kColsPerScale % kShareQ == 0),
              "a warpgroup's columns begin with a scale's, or lie within them");

constexpr int kSums = kShareQ / 2;  // Accumulators of one wgmma in each thread.
// With scales the products of a step have accumulators of their own, in parts of at most so many rows or columns along
// Q. A wgmma reads P's operand once more for each part.
constexpr int kPartQ = !kSwap && kShareQ > 192 ? kShareQ / 2 : kShareQ;
constexpr int kParts = kTilesP * (kShareQ / kPartQ);
constexpr int kPartsAhead = kParts > 1 && kTilesP* kSums + kPartQ <= 160 ? 1 : 0;  // on their way beside the last one
constexpr int kAccumulators = kTilesP * kSums + (kScaled ? (kPartsAhead + 1) * (kPartQ / 2) : 0);

// Steps of the loop with scales that are compiled one after another, so that one's sums are added while the barrier and
// the addresses of the next are looked at. Few rows wait for memory instead.
constexpr int kScaledUnroll = kSwap ? 1 : 4;

// Where rows of tokens are on the N side of wgmma, a group's tiles are equally high, as high as its rows ask for: two
// of 136 rows for 266 instead of 144 and 122. Products are made in the least of these heights that is enough.
constexpr bool kFit = kSwap && kSplitP;
constexpr int kFitStep = 8;
constexpr int kFitLeast = kShareQ > 4 * kFitStep ? kShareQ - 3 * kFitStep : kFitStep;

// The pool of registers is what the launch bound gives to kThreads threads (504 for each of three warpgroups together,
// 512 for four); what the loading warpgroup hands back goes to the others. One that copies keeps the numbers of its
// rows. With one consumer there is nothing to gain.
constexpr bool kMoveRegisters = kConsumers > 1;
constexpr bool kManyRows = (kCopyRows ? RowTile::kBytes : 0) + (kCopyCols ? ColTile::kBytes : 0) > 16384;
// The warp that copies scales and asks for boxes needs more in a cluster, and where Y is in fp8. With scales 232 or 224
// are enough for the 192 accumulators there are at most.
constexpr bool kManySums = kAccumulators > 160;
constexpr bool kFewAddresses = !kCopies && !kQuantize && !(kCopyScales && kClusterSize > 1);
constexpr int kProducerRegisters = kConsumers == 3         ? (kFewAddresses ? 32 : 56)
                                   : kManySums && !kScaled ? 24
                                   : kManyRows             ? 104
                                   : kFewAddresses         ? 40
                                                           : 56;
constexpr int kConsumerRegisters = kConsumers == 3         ? (kFewAddresses ? 160 : 152)
                                   : kManySums && !kScaled ? 240
                                   : kManyRows             ? 200
                                   : kFewAddresses         ? 232
                                                           : 224;

static_assert(kExtentP % kWgmmaM == 0, "the M side of wgmma is a multiple of 64");
static_assert(kSplitP || kExtentQ % kSharers == 0, "the consumers share a tile evenly");
static_assert(kShareQ % 16 == 0 && kShareQ <= 256 && kShareQ % TileQ::kExtentStep == 0, "the N side of a wgmma");
static_assert(kDepth % kWgmmaK == 0, "a step is made of whole wgmmas");

// --- Epilogue ---
// A slab is 16 rows by kSlabCols columns of the output, on its way through shared memory.
#if defined(epilogue_direct)
constexpr bool kDirect = true;
constexpr bool kBulk = false;
#elif defined(epilogue_bulk)
constexpr bool kDirect = false;
constexpr bool kBulk = true;
#else
constexpr bool kDirect = false;
constexpr bool kBulk = false;
#endif
constexpr bool kStoreBoxes = use_tma_store;
constexpr int kSlabRows = 16;
constexpr int kSlabCols = kSwap ? kWgmmaM : epilogue_columns;
constexpr int kPiecesPerRow = kSlabCols / kOutPieceElements;
constexpr int kStoreChunk = kSlabCols % 64 == 0 ? 64 : kSlabCols % 32 == 0 ? 32 : 16;  // Columns of a box.
constexpr int kStoreSwizzleBytes = kStoreChunk * kOutBytes;
// Without boxes rows lie one behind the other, one piece apart, so that eight rows of a column of pieces use all banks.
constexpr int kSlabPitch = kSlabCols * kOutBytes + kPieceBytes;
constexpr int kSlabBytes = kStoreBoxes ? kSlabRows * kSlabCols * kOutBytes : kSlabRows * kSlabPitch;
constexpr int kPasses = kSwap ? kOutTilesP : kTilesP * (kOutShareQ / kSlabCols);
// Stores by the engine read their slab later: two slabs take turns.
constexpr int kSlabBuffers = (kStoreBoxes || kBulk) && kPasses > 1 && !kSwap ? 2 : 1;
// Slabs of one warp; with swap_operands a warpgroup fills kShareQ / 16 slabs together.
constexpr int kSlabsPerGroup = kSwap ? kShareQ / kSlabRows : 4 * kSlabBuffers;
constexpr int kStagingBytes = kDirect ? 0 : kConsumers * kSlabsPerGroup * kSlabBytes;

static_assert(!(kDirect && kSwap), "swapped operands go through shared memory");
static_assert(!kStoreBoxes || (!kDirect && !kBulk && !kScatterRows), "boxes hold neighbouring rows, in shared memory");
static_assert(!(kBulk && fuse_mul_post), "bulk copies do not multiply");
static_assert(kDirect || kSlabCols % 16 == 0, "slabs are made of 16 x 16 blocks");
static_assert(kDirect || kSwap || kOutShareQ % kSlabCols == 0, "a consumer's columns are made of whole slabs");

// An expert's dW has as many rows as any other's, and where they end a tensor map can say: a warpgroup's four slabs are
// one then, which leaves in boxes of 64 rows.
constexpr bool kJoinSlabs = kDw && kStoreBoxes;
constexpr int kOutBoxRows = kJoinSlabs ? kWgmmaM : kSlabRows;

// --- Quantised output ---
// It has a float for each kScaleBlock columns of a row. A tile is one block wide, so that what holds
// a row of it knows its largest magnitude before anything is stored.
// Warpgroups that have different columns of the same rows: as many as share a row's block.
constexpr int kRowSharers = kSwap == kSplitP ? kSharers : 1;
constexpr int kOutRows = kSwap ? kOutShareQ : kOutShareP;  // Rows of the output that a warpgroup has.
// Where warps share a row's block they meet in shared memory: each leaves the largest magnitude of its columns, and one
// thread makes the scale of all. Four lanes have a row's columns otherwise.
constexpr bool kShareMaxima = kQuantize && (kSwap || kRowSharers > 1);
constexpr int kMaximaPerRow = kRowSharers * (kSwap ? 4 : 1);
constexpr int kMaximaGroupBytes = 4 * kOutRows * (kMaximaPerRow + 1);  // and the scales
constexpr int kMaximaBytes = kShareMaxima ? kConsumers / kRowSharers * kMaximaGroupBytes : 0;

static_assert(!kQuantize || (kScaled && kGateUp && kOutCols == kScaleBlock), "a tile of the output is one block wide");
static_assert(!kQuantize || (kDirect == !kSwap && !kStoreBoxes && !kBulk), "quantised results have one way to memory");

constexpr int SlabOffset(int row, int piece) {
  constexpr int kPiecesPerChunk = kStoreChunk / kOutPieceElements;
  return kStoreBoxes ? piece / kPiecesPerChunk * (kOutBoxRows * kStoreSwizzleBytes) +
                           static_cast<int>(SwizzledOffset(
                               row * kStoreSwizzleBytes + piece % kPiecesPerChunk * kPieceBytes, kStoreSwizzleBytes))
                     : row * kSlabPitch + piece * kPieceBytes;
}

// --- Shared memory: stages, slabs, scales of the stages, maxima of rows, barriers (full, empty, turns),
// row_start[E + 1], place_start[E + 1] ---
constexpr int kSlabsBase = kStages * kStageBytes;
constexpr int kScalesBase = (kSlabsBase + kStagingBytes + 127) / 128 * 128;
constexpr int kMaximaBase = kScalesBase + (kStages * kScaleBytes + 127) / 128 * 128;
constexpr int kBarriersBase = kMaximaBase + (kMaximaBytes + 127) / 128 * 128;
constexpr int kTableBase = kBarriersBase + kStages * 16 + 16;
constexpr int SharedBytes(int experts) { return kTableBase + 8 * (experts + 1); }

static_assert(!kStoreBoxes || (kSlabBytes % 1024 == 0 || kStoreSwizzleBytes < 128),
              "slabs begin with whole swizzle patterns");
static_assert(SharedBytes(1) <= 232448, "227 KiB for a block");

// --- Arrivals that a phase takes ---
constexpr int kFullArrivals = 1 + (kCopies || kCopyScales ? kScaleCopiers : 0);
constexpr int kEmptyArrivals = 4 * kSharers * kClusterSize;
constexpr int kTurnArrivals = 4;

}  // namespace hopper
