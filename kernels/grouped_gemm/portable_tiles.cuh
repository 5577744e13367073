// How tiles of the operands reach shared memory: in chunks of 16 bytes with cp.async, each thread copying some. What
// lies outside of the matrix, or behind the last row of the group, is filled with zeros, so that the main loop has no
// special case and a neighbouring group's infinities never meet a zero.
#pragma once

#include "roles.cuh"

constexpr int kThreads = num_warps * 32;

// Chunks are permuted within each row such that eight consecutive rows of one chunk column lie in different banks. The
// pattern repeats after 128 bytes, the width of all banks: rows shorter than that share one line.
template <unsigned kChunksPerRow>
__device__ __forceinline__ unsigned SwizzledChunk(unsigned row, unsigned chunk) {
  constexpr unsigned kPhases = kChunksPerRow < 8 ? kChunksPerRow : 8;
  return chunk ^ (row / (8 / kPhases) % kPhases);
}

// The byte at which a chunk of a [rows][kColumns] tile lies.
template <int kColumns>
__device__ __forceinline__ unsigned ChunkOffset(unsigned row, unsigned chunk) {
  constexpr unsigned kChunksPerRow = kColumns / kChunkElements;
  return (row * kChunksPerRow + SwizzledChunk<kChunksPerRow>(row, chunk)) * kChunkBytes;
}

// Which row of a matrix holds the r-th row of the sorted order.
enum class RowSource {
  kPlain,         // r
  kGather,        // index[r]
  kGatherDivide,  // index[r] / divisor: the token of a routed row
};

// A row-major matrix as an operand. Its rows are `width` elements apart and as long.
struct Operand {
  const Element* data;
  int width;
  const int* index;
  int divisor;
};

template <RowSource kSource>
__device__ __forceinline__ int MatrixRow(const Operand& operand, int row) {
  if (kSource == RowSource::kPlain) return row;
  const int index = operand.index[row];
  return kSource == RowSource::kGather
             ? index
             : static_cast<int>(static_cast<unsigned>(index) / static_cast<unsigned>(operand.divisor));
}

// How the threads share the chunks of a [kRows][kColumns] tile: a thread copies one chunk of every kRowStep-th row.
template <int kRows, int kColumns>
struct Spread {
  static constexpr int kChunksPerRow = kColumns / kChunkElements;
  static_assert(kThreads % kChunksPerRow == 0, "the threads must share a row evenly");
  static constexpr int kRowStep = kThreads / kChunksPerRow;
  static constexpr int kCopies = (kRows + kRowStep - 1) / kRowStep;

  __device__ __forceinline__ static int FirstRow() { return static_cast<int>(threadIdx.x) / kChunksPerRow; }
  __device__ __forceinline__ static int Chunk() { return static_cast<int>(threadIdx.x) % kChunksPerRow; }
  __device__ __forceinline__ static unsigned Target(int copy) {
    return ChunkOffset<kColumns>(threadIdx.x / kChunksPerRow + static_cast<unsigned>(copy * kRowStep),
                                 threadIdx.x % kChunksPerRow);
  }
  // Whether the tile has the row of this copy: a small tile may have fewer rows than the threads could copy at once.
  __device__ __forceinline__ static bool InTile(int copy) {
    return kRows % kRowStep == 0 || FirstRow() + copy * kRowStep < kRows;
  }
};

// Successive tiles of the same rows: the sum runs along the rows. Gathered rows are looked up once, not in every step.
template <int kRows, int kColumns, RowSource kSource>
class FixedRows {
 public:
  // Of `rows` rows from `first_row` of the sorted order on.
  __device__ __forceinline__ void Start(const Operand& operand, int first_row, int rows) {
    data_ = operand.data;
    width_ = operand.width;
    column_ = Share::Chunk() * kChunkElements;
    first_row_ = first_row + Share::FirstRow();
    rows_left_ = rows - Share::FirstRow();
    if constexpr (kSource != RowSource::kPlain) {
#pragma unroll
      for (int i = 0; i < Share::kCopies; ++i) {
        matrix_row_[i] = Exists(i) ? MatrixRow<kSource>(operand, first_row_ + i * Share::kRowStep) : 0;
      }
    }
  }

  __device__ __forceinline__ void LoadNext(unsigned target) {
    const bool in_row = column_ < width_;
#pragma unroll
    for (int i = 0; i < Share::kCopies; ++i) {
      const bool inside = in_row && Exists(i);
      const long long row = kSource == RowSource::kPlain ? first_row_ + i * Share::kRowStep : matrix_row_[i];
      const long long offset = inside ? row * width_ + column_ : 0;
      if (Share::InTile(i)) CopyChunk(target + Share::Target(i), data_ + offset, inside);
    }
    column_ += kColumns;
  }

 private:
  using Share = Spread<kRows, kColumns>;

  __device__ __forceinline__ bool Exists(int copy) const {
    return Share::InTile(copy) && copy * Share::kRowStep < rows_left_;
  }

  const Element* data_;
  int width_;
  int column_;
  int first_row_;
  int rows_left_;
  int matrix_row_[Share::kCopies];
};

// Successive tiles of the same columns: the sum runs down the rows. Their numbers are looked up one step ahead.
template <int kRows, int kColumns, RowSource kSource>
class MovingRows {
 public:
  // Of `rows` rows from `first_row` of the sorted order on, each from `first_column` on.
  __device__ __forceinline__ void Start(const Operand& operand, int first_row, int rows, int first_column) {
    operand_ = operand;
    row_ = first_row + Share::FirstRow();
    end_ = first_row + rows;
    column_ = first_column + Share::Chunk() * kChunkElements;
    LookUp();
  }

  __device__ __forceinline__ void LoadNext(unsigned target) {
    const bool in_row = column_ < operand_.width;
#pragma unroll
    for (int i = 0; i < Share::kCopies; ++i) {
      const bool inside = in_row && row_ + i * Share::kRowStep < end_;
      const long long row = kSource == RowSource::kPlain ? row_ + i * Share::kRowStep : matrix_row_[i];
      const long long offset = inside ? row * operand_.width + column_ : 0;
      if (Share::InTile(i)) CopyChunk(target + Share::Target(i), operand_.data + offset, inside);
    }
    row_ += kRows;
    LookUp();
  }

 private:
  using Share = Spread<kRows, kColumns>;

  __device__ __forceinline__ void LookUp() {
    if constexpr (kSource != RowSource::kPlain) {
#pragma unroll
      for (int i = 0; i < Share::kCopies; ++i) {
        const int row = row_ + i * Share::kRowStep;
        matrix_row_[i] = row < end_ ? MatrixRow<kSource>(operand_, row) : 0;
      }
    }
  }

  Operand operand_;
  int row_;
  int end_;
  int column_;
  int matrix_row_[Share::kCopies];
};
