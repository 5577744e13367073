"""Kernels that reduce rows: softmax, and the gradients of layer normalisation."""

import triton
import triton.language as tl


@triton.jit
def softmax(y_ptr, x_ptr, columns, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    """Of ROWS rows, BLOCK columns at a time: once for the maximum and the sum, once for the quotients."""
    place = tl.arange(0, BLOCK)
    for index in range(0, ROWS):
        begin = (tl.program_id(0) * ROWS + index).to(tl.int64) * columns
        most = tl.full((BLOCK,), float("-inf"), dtype=tl.float32)
        total = tl.zeros((BLOCK,), dtype=tl.float32)
        for first in range(0, columns, BLOCK):
            x = tl.load(x_ptr + begin + first + place, mask=first + place < columns, other=float("-inf"))
            higher = tl.maximum(most, x)
            # Until its first element a lane has the maximum -inf and the sum 0.
            total = total * tl.exp(tl.where(most == higher, 0.0, most - higher)) + tl.where(
                first + place < columns, tl.exp(x - higher), 0.0)
            most = higher
        row_most = tl.max(most, 0)
        row_total = tl.sum(tl.where(total > 0, total * tl.exp(most - row_most), 0.0), 0)
        for first in range(0, columns, BLOCK):
            inside = first + place < columns
            x = tl.load(x_ptr + begin + first + place, mask=inside, other=float("-inf"))
            y = tl.exp(x - row_most) / row_total
            tl.store(y_ptr + begin + first + place, y.to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit
def layer_norm_backward(dx_ptr, dw_ptr, db_ptr, dy_ptr, x_ptr, w_ptr, mean_ptr, rstd_ptr, rows, columns,
                        ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """The gradients of y = (x - mean) * rstd * w + b. Each program adds its part to dw and db, in no order: they must
    begin as zeros."""
    place = tl.arange(0, BLOCK)
    inside = place < columns
    w = tl.load(w_ptr + place, mask=inside, other=0.0).to(tl.float32)
    dw = tl.zeros((BLOCK,), dtype=tl.float32)
    db = tl.zeros((BLOCK,), dtype=tl.float32)
    for index in range(0, ROWS):
        row = tl.program_id(0) * ROWS + index
        if row < rows:
            at = row.to(tl.int64) * columns + place
            x = tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32)
            dy = tl.load(dy_ptr + at, mask=inside, other=0.0).to(tl.float32)
            rstd = tl.load(rstd_ptr + row)
            normal = tl.where(inside, (x - tl.load(mean_ptr + row)) * rstd, 0.0)
            scaled = w * dy
            along = tl.sum(normal * scaled, 0) / columns
            shift = tl.sum(scaled, 0) / columns
            dx = (scaled - normal * along - shift) * rstd
            tl.store(dx_ptr + at, dx.to(dx_ptr.dtype.element_ty), mask=inside)
            dw += dy * normal
            db += dy
    tl.atomic_add(dw_ptr + place, dw, mask=inside)
    tl.atomic_add(db_ptr + place, db, mask=inside)
