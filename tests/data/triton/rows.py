"""Beside the kernels that import it."""

import triton
import triton.language as tl


@triton.jit
def row_offset(row, stride):
    return row.to(tl.int64) * stride
