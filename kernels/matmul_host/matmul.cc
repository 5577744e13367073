// Matrix product on the CPU for the tuner: C (m x n) = A (m x k) * B (k x n), single precision, row-major.
//
// The tuner defines MR, NR, VECTOR, UNROLL, PACK and ORDER_<value> before this text; the tile sizes are arguments, so
// that all of them share one binary. No header is included and no template used: one compilation must stay short,
// as there is one for each binary.
//
// C is computed in tiles of tile_m x tile_n, each by adding tile_k terms at a time. Within a tile, MR x NR of C are
// held in vector registers. MR divides tile_m and NR divides tile_n.

constexpr int kUnroll = UNROLL;        // `#pragma GCC unroll` expands no macros.
constexpr int kColumns = NR / VECTOR;  // Vectors in one row of a block.

// Longer than the machine's registers is fine: the compiler splits it.
typedef float Vector __attribute__((vector_size(VECTOR * sizeof(float)), aligned(4), may_alias));

static inline int Min(int x, int y) { return x < y ? x : y; }

// Adds `depth` terms to MR x NR of C; zero sums are assumed in place of C's content where `first` is set.
static inline void MultiplyBlock(const float* a, int a_stride, const float* b, int b_stride, float* c, int c_stride,
                                 int depth, bool first) {
  Vector sums[MR][kColumns];
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i) {
#pragma GCC unroll 16
    for (int j = 0; j < kColumns; ++j) {
      sums[i][j] = first ? Vector{} : *(const Vector*)(c + (long)i * c_stride + j * VECTOR);
    }
  }
#pragma GCC unroll kUnroll
  for (int p = 0; p < depth; ++p) {
    const float* row = b + (long)p * b_stride;
#pragma GCC unroll 16
    for (int i = 0; i < MR; ++i) {
      const float factor = a[(long)i * a_stride + p];
#pragma GCC unroll 16
      for (int j = 0; j < kColumns; ++j) sums[i][j] += factor * *(const Vector*)(row + j * VECTOR);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i) {
#pragma GCC unroll 16
    for (int j = 0; j < kColumns; ++j) *(Vector*)(c + (long)i * c_stride + j * VECTOR) = sums[i][j];
  }
}

// The same for `rows` x `columns` at the lower and right edge of C, where no whole block fits.
__attribute__((noinline, cold)) static void MultiplyEdge(const float* a, int a_stride, const float* b, int b_stride,
                                                         float* c, int c_stride, int rows, int columns, int depth,
                                                         bool first) {
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < columns; ++j) {
      float sum = first ? 0.0f : c[(long)i * c_stride + j];
      for (int p = 0; p < depth; ++p) sum += a[(long)i * a_stride + p] * b[(long)p * b_stride + j];
      c[(long)i * c_stride + j] = sum;
    }
  }
}

// One tile. `b` is where its part of B begins, or with PACK its copy, where NR columns lie after NR columns.
static void MultiplyTile(const float* a, int a_stride, const float* b, int b_stride, float* c, int c_stride, int rows,
                         int columns, int depth, bool first) {
  for (int j = 0; j < columns; j += NR) {
    const int width = Min(NR, columns - j);
    const float* panel = b + (PACK ? (long)j * depth : j);
    const int panel_stride = PACK ? NR : b_stride;
    for (int i = 0; i < rows; i += MR) {
      const int height = Min(MR, rows - i);
      const float* a_block = a + (long)i * a_stride;
      float* c_block = c + (long)i * c_stride + j;
      if (height == MR && width == NR) {
        MultiplyBlock(a_block, a_stride, panel, panel_stride, c_block, c_stride, depth, first);
      } else {
        MultiplyEdge(a_block, a_stride, panel, panel_stride, c_block, c_stride, height, width, depth, first);
      }
    }
  }
}

#if PACK
// Copies depth x columns of B to `packed`, NR columns after NR columns, so that the inner loop reads it in one stream.
static void PackTile(const float* b, int b_stride, float* packed, int depth, int columns) {
  for (int j = 0; j < columns; j += NR) {
    const int width = Min(NR, columns - j);
    for (int p = 0; p < depth; ++p) {
      float* target = packed + (long)j * depth + p * NR;
      for (int x = 0; x < width; ++x) target[x] = b[(long)p * b_stride + j + x];
    }
  }
}
#endif

// `packed` has room for tile_k x tile_n floats; it is used only if PACK is set.
extern "C" void matmul(const float* a, const float* b, float* c, float* packed, int m, int n, int k, int tile_m,
                       int tile_n, int tile_k) {
  (void)packed;
#if defined(ORDER_nkm)
  // A tile of B stays in cache while the rows of A pass by.
  for (int j = 0; j < n; j += tile_n) {
    const int columns = Min(tile_n, n - j);
    for (int p = 0; p < k; p += tile_k) {
      const int depth = Min(tile_k, k - p);
      const float* b_tile = b + (long)p * n + j;
#if PACK
      PackTile(b_tile, n, packed, depth, columns);
      b_tile = packed;
#endif
      for (int i = 0; i < m; i += tile_m) {
        MultiplyTile(a + (long)i * k + p, k, b_tile, n, c + (long)i * n + j, n, Min(tile_m, m - i), columns, depth,
                     p == 0);
      }
    }
  }
#else
  // A tile of A stays in cache while the columns of B pass by.
  for (int i = 0; i < m; i += tile_m) {
    const int rows = Min(tile_m, m - i);
    for (int p = 0; p < k; p += tile_k) {
      const int depth = Min(tile_k, k - p);
      for (int j = 0; j < n; j += tile_n) {
        const int columns = Min(tile_n, n - j);
        const float* b_tile = b + (long)p * n + j;
#if PACK
        PackTile(b_tile, n, packed, depth, columns);
        b_tile = packed;
#endif
        MultiplyTile(a + (long)i * k + p, k, b_tile, n, c + (long)i * n + j, n, rows, columns, depth, p == 0);
      }
    }
  }
#endif
}

// What every configuration's result is compared with: one element after the other, sums in double precision.
extern "C" void matmul_reference(const float* a, const float* b, float* c, int m, int n, int k) {
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      double sum = 0;
      for (int p = 0; p < k; ++p) sum += (double)a[(long)i * k + p] * b[(long)p * n + j];
      c[(long)i * n + j] = (float)sum;
    }
  }
}
