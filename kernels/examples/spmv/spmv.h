// The product of a row of a sparse matrix in CSR form with a vector, in double precision: what results are compared
// with.
#pragma once

#ifdef __CUDACC__
#define SPMV_FUNCTION __device__ inline
#else
#define SPMV_FUNCTION inline
#endif

SPMV_FUNCTION float ReferenceRow(const int* row_starts, const int* columns, const float* values, const float* x,
                                 int row) {
  double sum = 0;
  for (int i = row_starts[row]; i < row_starts[row + 1]; ++i) sum += double{values[i]} * x[columns[i]];
  return static_cast<float>(sum);
}
