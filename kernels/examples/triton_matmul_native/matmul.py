"""C = A * B in Triton."""

import triton
import triton.language as tl


@triton.jit
def multiply(a, b, c, m, n, k, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr):
    # Tiles are walked in bands of GROUP_M rows, column by column: tiles at work together share rows and columns.
    tile = tl.program_id(0)
    tiles_down = tl.cdiv(m, BLOCK_M)
    tiles_across = tl.cdiv(n, BLOCK_N)
    band = tile // (GROUP_M * tiles_across)
    rows_of_band = tl.minimum(tiles_down - band * GROUP_M, GROUP_M)
    place = tile % (GROUP_M * tiles_across)
    tile_row = band * GROUP_M + place % rows_of_band
    tile_column = place // rows_of_band

    rows = tile_row * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile_column * BLOCK_N + tl.arange(0, BLOCK_N)
    terms = tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for begin in range(0, k, BLOCK_K):
        left = tl.load(a + rows[:, None] * k + (begin + terms)[None, :],
                       mask=(rows < m)[:, None] & (begin + terms < k)[None, :], other=0.0)
        right = tl.load(b + (begin + terms)[:, None] * n + columns[None, :],
                        mask=(begin + terms < k)[:, None] & (columns < n)[None, :], other=0.0)
        total += tl.dot(left, right)
    tl.store(c + rows[:, None] * n + columns[None, :], total.to(c.dtype.element_ty),
             mask=(rows < m)[:, None] & (columns < n)[None, :])
