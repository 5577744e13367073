// How many rows each group has. Included by both paths; no other file is needed.
#pragma once

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define GROUP_SIZES_FN __device__ __forceinline__
#else
#define GROUP_SIZES_FN inline
#endif

struct GroupSizes {
  const int* values;  // One for each group: its rows, or
  int are_ends;       // if this is not 0, where it ends among all rows: ascending, at most the number of rows.

  GROUP_SIZES_FN int operator[](int group) const {
    return values[group] - (are_ends != 0 && group > 0 ? values[group - 1] : 0);
  }
};
