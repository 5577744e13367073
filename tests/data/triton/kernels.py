"""Kernels at the module level of a file."""

import triton
import triton.language as tl

from rows import row_offset


@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_bk, stride_cm, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
           BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr, EVEN_K: tl.constexpr = False):
    tile = tl.program_id(0)
    tiles_n = tl.cdiv(N, BLOCK_N)
    group = tile // (GROUP_M * tiles_n)
    height = min(tl.cdiv(M, BLOCK_M) - group * GROUP_M, GROUP_M)
    rows = (group * GROUP_M + tile % (GROUP_M * tiles_n) % height) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile % (GROUP_M * tiles_n) // height * BLOCK_N + tl.arange(0, BLOCK_N)
    terms = tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for begin in range(0, K, BLOCK_K):
        left = begin + terms < K
        if EVEN_K:
            left = begin + terms >= 0
        a = tl.load(a_ptr + row_offset(rows, stride_am)[:, None] + (begin + terms)[None, :],
                    mask=(rows < M)[:, None] & left[None, :], other=0.0)
        b = tl.load(b_ptr + row_offset(begin + terms, stride_bk)[:, None] + columns[None, :],
                    mask=left[:, None] & (columns < N)[None, :], other=0.0)
        total += tl.dot(a, b)
    tl.store(c_ptr + row_offset(rows, stride_cm)[:, None] + columns[None, :], total.to(c_ptr.dtype.element_ty),
             mask=(rows < M)[:, None] & (columns < N)[None, :])


@triton.jit
def axpy(y, x, a, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(y + at, mask=at < n) + a * tl.load(x + at, mask=at < n), mask=at < n)


@triton.jit
def matmul_of_tiles(a_desc, b_desc, c_desc, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    tiles_n = tl.cdiv(N, BLOCK_N)
    row = tl.program_id(0) // tiles_n * BLOCK_M
    column = tl.program_id(0) % tiles_n * BLOCK_N
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for begin in range(0, K, BLOCK_K):
        total += tl.dot(a_desc.load([row, begin]), b_desc.load([begin, column]))
    c_desc.store([row, column], total.to(tl.float16))
