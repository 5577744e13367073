// y = A x for a sparse matrix in CSR form, on one core of the CPU. The tuner defines the macros SUMS, AHEAD and
// LONG_ROW before this text.
#include "spmv.h"

// Sums in several parts, which do not wait for each other.
static float SplitRow(const int* columns, const float* values, const float* x, int count) {
  float sums[SUMS] = {};
  int i = 0;
  for (; i + SUMS <= count; i += SUMS) {
    for (int j = 0; j < SUMS; ++j) sums[j] += values[i + j] * x[columns[i + j]];
  }
  for (; i < count; ++i) sums[0] += values[i] * x[columns[i]];
  float sum = 0;
  for (int j = 0; j < SUMS; ++j) sum += sums[j];
  return sum;
}

extern "C" void spmv(const int* row_starts, const int* columns, const float* values, const float* x, float* y,
                     int rows) {
  for (int row = 0; row < rows; ++row) {
    const int first = row_starts[row], count = row_starts[row + 1] - first;
#if AHEAD > 0
    // What the row after AHEAD others begins with.
    if (row + AHEAD < rows) {
      __builtin_prefetch(values + row_starts[row + AHEAD]);
      __builtin_prefetch(columns + row_starts[row + AHEAD]);
    }
#endif
    if (count >= LONG_ROW) {
      y[row] = SplitRow(columns + first, values + first, x, count);
      continue;
    }
    float sum = 0;
    for (int i = first; i < first + count; ++i) sum += values[i] * x[columns[i]];
    y[row] = sum;
  }
}

// What every configuration's result is compared with.
extern "C" void spmv_reference(const int* row_starts, const int* columns, const float* values, const float* x, float* y,
                               int rows) {
  for (int row = 0; row < rows; ++row) y[row] = ReferenceRow(row_starts, columns, values, x, row);
}
