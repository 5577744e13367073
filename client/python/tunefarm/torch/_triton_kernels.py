"""Kernels in Triton for what a layer of experts needs around its products: its rows in the order of their experts, rows
in fp8, and the sums of each token's rows. Private. Needs Triton, which torch's builds for CUDA bring; callers compute the
same by torch without it.

From compute capability 9.0 on each is launched before the kernel before it has ended, and waits for that end itself
(programmatic dependent launch), as the products do: with few tokens the launches take as long as the work.
"""

import functools
from typing import Any, Dict

import torch
import triton
import triton.language as tl
from torch import Tensor

_SCALED = tl.constexpr(128)  # elements of a row that have one scale
_MAX = tl.constexpr(448.0)  # the largest e4m3
_SMALLEST = tl.constexpr(2.0**-117)  # a block without a larger magnitude has the scale 1
SORTED_MAX = 1 << 23  # rows times experts: each expert's program reads all rows, and more are sorted faster by torch
_BLOCKS = 8  # of a row that one program quantises
_COLUMNS = 1024  # of a token that one program adds up


@triton.jit
def _begin(DEPENDENT: tl.constexpr):  # type: ignore[no-untyped-def]
    """Before the first access to memory."""
    if DEPENDENT:
        tl.extra.cuda.gdc_wait()
        tl.extra.cuda.gdc_launch_dependents()


@triton.jit(do_not_specialize=["rows", "experts"])
def _sort_rows(ids, ends, indices, rows, experts, COUNT: tl.constexpr, DEPENDENT: tl.constexpr):  # type: ignore[no-untyped-def]
    """One program for each expert, and a last one for the rows that no expert has. Each counts the rows that come
    before its own, and then gives its own their places in ascending order."""
    _begin(DEPENDENT)
    expert = tl.program_id(0)
    earlier = tl.zeros((COUNT,), dtype=tl.int32)
    for first in range(0, rows, COUNT):
        row = first + tl.arange(0, COUNT)
        chosen = tl.load(ids + row, mask=row < rows, other=0).to(tl.int64)
        earlier += ((row < rows) & (chosen >= 0) & (chosen < expert)).to(tl.int32)
    place = tl.sum(earlier, 0)
    for first in range(0, rows, COUNT):
        row = first + tl.arange(0, COUNT)
        chosen = tl.load(ids + row, mask=row < rows, other=0).to(tl.int64)
        is_own = tl.where(expert < experts, chosen == expert, (chosen < 0) | (chosen >= experts)) & (row < rows)
        count = tl.cumsum(is_own.to(tl.int32), 0)
        tl.store(indices + place + count - 1, row, mask=is_own)
        place += tl.sum(is_own.to(tl.int32), 0)
    tl.store(ends + expert, place, mask=expert < experts)


@triton.jit(do_not_specialize=["columns", "blocks"])
def _quantize_rows(x, values, scales, columns, blocks, BLOCKS: tl.constexpr,  # type: ignore[no-untyped-def]
                   DEPENDENT: tl.constexpr):
    """One program: BLOCKS blocks of a row."""
    _begin(DEPENDENT)
    row = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1) * BLOCKS + tl.arange(0, BLOCKS)
    column = block[:, None] * _SCALED + tl.arange(0, _SCALED)[None, :]
    value = tl.load(x + row * columns + column, mask=column < columns, other=0.0).to(tl.float32)
    largest = tl.max(tl.abs(value), 1)
    scale = tl.where(largest < _SMALLEST, 1.0, tl.div_rn(largest, tl.full((BLOCKS,), _MAX, tl.float32)))
    quantized = tl.div_rn(value, tl.broadcast_to(scale[:, None], (BLOCKS, _SCALED))).to(tl.float8e4nv)
    tl.store(values + row * columns + column, quantized, mask=column < columns)
    tl.store(scales + row * blocks + block, scale, mask=block < blocks)


@triton.jit(do_not_specialize=["columns"])
def _add_up(rows, out, columns, topk: tl.constexpr, COLUMNS: tl.constexpr,  # type: ignore[no-untyped-def]
            DEPENDENT: tl.constexpr):
    """One program: COLUMNS columns of a token."""
    _begin(DEPENDENT)
    token = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((COLUMNS,), dtype=tl.float32)
    for slot in tl.static_range(topk):
        total += tl.load(rows + (token * topk + slot) * columns + column, mask=column < columns, other=0.0).to(tl.float32)
    tl.store(out + token * columns + column, total.to(out.dtype.element_ty), mask=column < columns)


@functools.lru_cache(maxsize=None)
def _launch_options(device: int) -> Dict[str, Any]:
    is_dependent = torch.version.cuda is not None and torch.cuda.get_device_capability(device) >= (9, 0)
    return {"DEPENDENT": True, "launch_pdl": True} if is_dependent else {"DEPENDENT": False}


def sort_rows(ids: Tensor, ends: Tensor, indices: Tensor) -> None:
    """Of the experts `ids` [R] of rows: where each expert's rows end in their order, `ends` [E], and the rows in it,
    `indices` [R], which are those of no expert last. All without gaps and on one device, which is the current one;
    `ends` and `indices` int32."""
    rows, experts = ids.shape[0], ends.shape[0]
    is_long = rows > 4096
    _sort_rows[(experts + 1,)](ids, ends, indices, rows, experts, COUNT=4096 if is_long else 512,
                               num_warps=16 if is_long else 4, **_launch_options(ids.get_device()))


def quantize_rows(x: Tensor, values: Tensor, scales: Tensor) -> None:
    """values [R, C] in e4m3 and float32 scales [R, ceil(C / 128)] of x [R, C]; see _moe_fp8.quantized. All without
    gaps and on one device, which is the current one."""
    rows, blocks = scales.shape
    if rows and blocks:
        _quantize_rows[(rows, triton.cdiv(blocks, _BLOCKS))](x, values, scales, x.shape[1], blocks, BLOCKS=_BLOCKS,
                                                             **_launch_options(x.get_device()))


def add_up(rows: Tensor, out: Tensor) -> None:
    """out [T, C]: the sums of each token's rows [T * topk, C], in single precision and rounded once. Both without gaps
    and on one device, which is the current one."""
    tokens, columns = out.shape
    if out.numel():
        _add_up[(tokens, triton.cdiv(columns, _COLUMNS))](rows, out, columns, rows.shape[0] // tokens, COLUMNS=_COLUMNS,
                                                         **_launch_options(rows.get_device()))


def is_current(tensor: Tensor) -> bool:
    """Whether kernels run on the tensor's device."""
    return tensor.is_cuda and tensor.get_device() == torch.cuda.current_device()
