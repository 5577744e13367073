"""grouped_gate_up: the first product of a gated layer with its activation as an operator, tunefarm::grouped_gate_up.
Private.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tunefarm._grouped_products import ALIGNMENT, GATE_UP, transposed
from tunefarm.errors import InvalidArgumentError
from tunefarm.torch import _grouped_mm as ops

_BLOCK = 128  # rows of gate or of up that take turns in the layout "blocks"


def grouped_gate_up(x: Tensor, w_gate_up: Tensor, offs: Tensor, layout: str = "split") -> Tensor:
    """silu(gate) * up for the rows offs[e - 1] to offs[e] of `x` [R, K], where gate and up are their products with the
    two halves of the weights w_gate_up[e], as [R, I].

    w_gate_up [E, 2 I, K]: with layout "split" I rows of gate and then I of up, with "blocks" alternating blocks of 128
    rows of gate and of up (2 I is a multiple of 256 then). offs [E]: int32, where the groups end, ascending and at most
    R, which is not checked, since that would wait for the device. Rows after offs[-1] are neither read nor written.

    A tuned kernel of bfloat16 or float16 on a CUDA device applies the activation to single-precision sums and writes
    neither gate nor up. Where no loaded package has one, and where a gradient is needed, this is grouped_mm, whose
    result is rounded, and the activation by torch; the logger "tunefarm.torch" says the former once for each reason.
    InvalidArgumentError: another layout, or shapes that do not fit together; besides it the errors of grouped_mm."""
    _check(x, w_gate_up, layout)
    mat2 = w_gate_up.transpose(-2, -1)
    if (ops.needs_gradient(x, w_gate_up) or w_gate_up.dtype != x.dtype or
            ops.not_covered(x, mat2, offs, None, None) is not None):
        return activated(ops.grouped_mm(x, mat2, offs), layout)
    if ops.is_direct(x, w_gate_up, offs):
        return gate_up_now(x, w_gate_up, offs, layout)
    return _grouped_gate_up(x, w_gate_up, offs, layout)


def activated(rows: Tensor, layout: str) -> Tensor:
    """silu(gate) * up of rows [R, 2 I] in which they lie as in the weights."""
    columns = rows.shape[1]
    if layout == "split":
        return torch.nn.functional.silu(rows[:, :columns // 2]) * rows[:, columns // 2:]
    pairs = rows.unflatten(1, (columns // (2 * _BLOCK), 2, _BLOCK))
    return (torch.nn.functional.silu(pairs[:, :, 0]) * pairs[:, :, 1]).flatten(1)


def gate_up_now(x: Tensor, w: Tensor, offs: Tensor, layout: str) -> Tensor:
    rows, columns = x.shape[0], w.shape[1]
    if not rows:
        return x.new_empty((0, columns // 2))
    launcher = launcher_of(x, w, offs, rows, layout)
    if not launcher:
        return activated(ops.multiply_now(x, w.transpose(-2, -1), offs), layout)
    x, offs, device = ops.fitting(x), offs.contiguous(), x.get_device()
    if w.data_ptr() % ALIGNMENT:
        w = w.clone()
    out, ends = ops.new_rows(x, rows, columns // 2, x.dtype, device), offs.data_ptr()
    # What a packed product does not use is handed over all the same.
    launcher((x.data_ptr(), w.data_ptr(), out.data_ptr(), ends, ends, ends), ops.stream_of(device))
    return out


def launcher_of(x: Tensor, w: Tensor, offs: Tensor, rows: int, layout: str) -> Any:
    """What enqueues the tuned kernel for so many rows like those of x, or False: no package has it."""
    (experts, columns, inner), device = w.shape, x.get_device()
    if (transposed(w.shape, w.stride()) is not False or x.dtype not in ops.NAMES or w.dtype is not x.dtype or
            w.get_device() != device or x.shape[1] != inner or not ops.are_ends(offs, experts, device)):
        return False
    product = ops.find((GATE_UP[layout], experts, columns, inner, x.dtype, 1, device), rows)
    return product is not None and product.launcher(rows)


def _check(x: Tensor, w: Tensor, layout: str) -> None:
    if layout not in ("split", "blocks"):
        raise InvalidArgumentError(f"grouped_gate_up: layout is {layout!r}; it is 'split' where all rows of gate come "
                                   f"first, or 'blocks' where {_BLOCK} of gate and {_BLOCK} of up take turns")
    if x.dim() != 2 or w.dim() != 3 or x.shape[1] != w.shape[2]:
        raise InvalidArgumentError(f"grouped_gate_up: x {tuple(x.shape)} and w_gate_up {tuple(w.shape)} do not fit "
                                   "together: [R, K], [E, 2 I, K]")
    multiple = 2 if layout == "split" else 2 * _BLOCK
    if w.shape[1] % multiple:
        raise InvalidArgumentError(f"grouped_gate_up: w_gate_up has {w.shape[1]} rows for each expert, with layout "
                                   f"{layout!r} a multiple of {multiple}")


def _fake_grouped_gate_up(x: Tensor, w: Tensor, offs: Tensor, layout: str) -> Tensor:
    _check(x, w, layout)
    return x.new_empty((x.shape[0], w.shape[1] // 2))


_grouped_gate_up = ops.define("grouped_gate_up", "(Tensor x, Tensor w_gate_up, Tensor offs, str layout) -> Tensor",
                              gate_up_now, _fake_grouped_gate_up)
