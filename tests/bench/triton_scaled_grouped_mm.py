#!/usr/bin/env python3
"""Grouped matrix products of block-scaled e4m3 operands in Triton: a peer for fp8_grouped_mm.py, which tunes and times it.

A row of X has a scale for each 128 terms, W[e] one for each block of 128 x 128. A step of the main loop is one tl.dot of 128
terms into accumulators of its own; it is multiplied by both scales in single precision and added to the sums. The scales of
the next step are loaded before the product of this one. Scales of X lie as [K / 128, R], so that a tile's are neighbours.

Tiles are found from the ends of the groups on the device; their rows run fastest, so that neighbouring blocks share a tile of
the weights. Operands come by TMA descriptors or by pointers; one block takes one tile, or as many blocks as fit take all tiles
in turns. With `swap` the weights are the left operand, so that a group of few rows is on the narrow side of the tensor cores'
tile. Needs an N that is a multiple of 256 and a K that is one of 128.

As a program it compiles a share of all configs into Triton's cache: triton_scaled_grouped_mm.py INDEX COUNT.
"""

import collections
import sys

import torch
import triton
import triton.language as tl

from triton_grouped_mm import compile_ahead as compile_by
from triton_grouped_mm import described, reason_of

BLOCK = 128  # terms of a scale
COLUMNS_MULTIPLE = 256
_EXPERTS_MIN = 128  # that the kernel is compiled for, so that most layers share it
_SHARED_BYTES, _WARPS = 227 << 10, 16  # of a multiprocessor; more warps than that seldom have registers enough

# Tiles of `tall` rows x `wide` columns. programs: "tile": a block for each; "fit": as many as fit at once.
Config = collections.namedtuple("Config", "tall wide warps stages tma swap programs flatten")


def _configs():
    found = []

    def add(sizes, tma=True, swap=False, programs=("tile", "fit"), flatten=False):
        found.extend(Config(*size, tma, swap, each, flatten) for size in sizes for each in programs)

    add([(128, 128, 8, 3), (128, 128, 8, 4), (128, 128, 8, 6), (128, 64, 4, 4), (128, 64, 4, 6), (128, 256, 8, 3),
         (128, 256, 16, 4), (64, 128, 4, 3), (64, 128, 4, 4), (64, 128, 4, 8), (64, 256, 8, 4), (64, 256, 8, 5),
         (256, 64, 8, 5), (64, 64, 4, 4)])
    add([(16, 128, 4, 4), (16, 128, 4, 6), (16, 64, 4, 6), (16, 64, 4, 10), (32, 128, 4, 5)])
    add([(16, 128, 4, 4), (16, 128, 4, 6), (16, 64, 4, 8), (32, 128, 4, 5), (64, 128, 4, 4)], swap=True)
    add([(128, 128, 8, 4), (64, 128, 4, 4), (16, 128, 4, 5), (16, 64, 4, 6)], tma=False, programs=("tile",))
    add([(128, 128, 8, 4), (64, 128, 4, 4)], programs=("fit",), flatten=True)
    add([(16, 128, 4, 5)], swap=True, programs=("fit",), flatten=True)
    return found


CONFIGS = _configs()


@triton.jit(do_not_specialize=["experts", "row_count"])
def scaled_rows_kernel(x, x_descriptor, w, w_descriptor, x_scales, w_scales, out, group_ends, experts, row_count, inner,
                       columns, EXPERTS: tl.constexpr, TMA: tl.constexpr, SWAP: tl.constexpr, TALL: tl.constexpr,
                       WIDE: tl.constexpr, FLATTEN: tl.constexpr):
    """out[r] = x[r] * w[e]^T for the rows r of expert e, of the dequantised operands."""
    numbers = tl.arange(0, EXPERTS)
    is_expert = numbers < experts
    ends = tl.load(group_ends + numbers, mask=is_expert, other=0)
    before = tl.load(group_ends + numbers - 1, mask=is_expert & (numbers > 0), other=0)
    heights = tl.where(is_expert, (ends - before + TALL - 1) // TALL, 0)
    height_ends = tl.cumsum(heights, 0)
    width = columns // WIDE
    blocks = inner // 128
    tiles = tl.sum(heights, 0) * width
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=FLATTEN):
        is_passed = height_ends * width <= tile
        expert = tl.sum(is_passed.to(tl.int32), 0)
        height_begin = tl.sum(tl.where(is_passed, heights, 0), 0)
        begin = tl.load(group_ends + expert - 1, mask=expert > 0, other=0)
        end = tl.load(group_ends + expert)
        height = (end - begin + TALL - 1) // TALL
        place = tile - height_begin * width
        row = begin + place % height * TALL
        column = place // height * WIDE
        # Rows past the group repeat its last one, or are the next group's: they are not stored.
        rows = row + tl.arange(0, TALL)
        near_rows = tl.minimum(rows, end - 1)
        out_columns = column + tl.arange(0, WIDE)
        row_scales_at = x_scales + near_rows
        if WIDE > 128:
            column_scales_at = w_scales + (expert * (columns // 128) + out_columns // 128) * blocks
        else:
            column_scales_at = w_scales + (expert * (columns // 128) + column // 128) * blocks
        row_scales = tl.load(row_scales_at)
        column_scales = tl.load(column_scales_at)
        if SWAP:
            sums = tl.zeros((WIDE, TALL), dtype=tl.float32)
        else:
            sums = tl.zeros((TALL, WIDE), dtype=tl.float32)
        terms = tl.arange(0, 128)
        for block in range(0, blocks):
            following = tl.minimum(block + 1, blocks - 1)
            next_row_scales = tl.load(row_scales_at + following * row_count)
            next_column_scales = tl.load(column_scales_at + following)
            if TMA:
                left = x_descriptor.load([row, block * 128])
                right = w_descriptor.load([expert * columns + column, block * 128])
            else:
                left = tl.load(x + near_rows.to(tl.int64)[:, None] * inner + (block * 128 + terms)[None, :])
                right = tl.load(w + (expert.to(tl.int64) * columns + out_columns)[:, None] * inner +
                                (block * 128 + terms)[None, :])
            if SWAP:
                sums += tl.dot(right, left.T) * (row_scales * column_scales)[None, :]
            elif WIDE > 128:
                sums += tl.dot(left, right.T) * row_scales[:, None] * column_scales[None, :]
            else:
                sums += tl.dot(left, right.T) * (row_scales * column_scales)[:, None]
            row_scales = next_row_scales
            column_scales = next_column_scales
        if SWAP:
            out_at = out + rows[None, :].to(tl.int64) * columns + out_columns[:, None]
            tl.store(out_at, sums.to(out.dtype.element_ty), mask=rows[None, :] < end)
        else:
            out_at = out + rows[:, None].to(tl.int64) * columns + out_columns[None, :]
            tl.store(out_at, sums.to(out.dtype.element_ty), mask=rows[:, None] < end)


def _arguments(x, w, x_scales, w_scales, ends, out, config):
    experts, columns, inner = w.shape
    if columns % COLUMNS_MULTIPLE or inner % BLOCK:
        raise ValueError(f"N must be a multiple of {COLUMNS_MULTIPLE} and K of {BLOCK}: {columns}, {inner}")
    if config.swap and config.wide > BLOCK:
        raise ValueError("a swapped tile has columns of one block of scales")
    positional = (x, described(x, (config.tall, BLOCK)) if config.tma else None, w,
                  described(w, (config.wide, BLOCK)) if config.tma else None, x_scales, w_scales, out, ends, experts,
                  x.shape[0], inner, columns)
    named = dict(EXPERTS=max(_EXPERTS_MIN, triton.next_power_of_2(experts)), TMA=config.tma, SWAP=config.swap,
                 TALL=config.tall, WIDE=config.wide, FLATTEN=config.flatten, num_warps=config.warps,
                 num_stages=config.stages)
    return positional, named


def _program_count(config, tiles_max):
    if config.programs == "tile":
        return max(tiles_max, 1)
    block_bytes = config.stages * (config.tall + config.wide) * BLOCK + 1024
    blocks_per_sm = max(min(_SHARED_BYTES // block_bytes, _WARPS // config.warps), 1)
    return max(min(tiles_max, torch.cuda.get_device_properties(0).multi_processor_count * blocks_per_sm), 1)


def scaled_rows_product(x, w, x_scales, w_scales, ends, config):
    """A function that computes [R, N] in bfloat16 from x [R, K], w [E, N, K], x_scales [K / 128, R] and w_scales
    [E, N / 128, K / 128]."""
    out = torch.empty(x.shape[0], w.shape[1], device=x.device, dtype=torch.bfloat16)
    positional, named = _arguments(x, w, x_scales, w_scales, ends, out, config)
    heights_max = (x.shape[0] + min(w.shape[0], x.shape[0]) * (config.tall - 1)) // config.tall
    grid = (_program_count(config, heights_max * (w.shape[1] // config.wide)),)

    def call():
        scaled_rows_kernel[grid](*positional, **named)
        return out

    return call


def compile_ahead(processes):
    """Compiles all configs into Triton's cache; the messages of what does not compile."""
    return compile_by(processes, __file__)


def _compile_share(index, count):
    def quantised(*shape):
        return torch.zeros(*shape, device="cuda").to(torch.float8_e4m3fn)

    columns, inner = COLUMNS_MULTIPLE, 2 * BLOCK
    x, w = quantised(256, inner), quantised(2, columns, inner)
    x_scales = torch.zeros(inner // BLOCK, 256, device="cuda")
    w_scales = torch.zeros(2, columns // BLOCK, inner // BLOCK, device="cuda")
    ends = torch.zeros(2, device="cuda", dtype=torch.int32)
    out = torch.empty(256, columns, device="cuda", dtype=torch.bfloat16)
    for config in list(dict.fromkeys(each._replace(programs="tile") for each in CONFIGS))[index::count]:
        try:
            positional, named = _arguments(x, w, x_scales, w_scales, ends, out, config)
            scaled_rows_kernel.warmup(*positional, grid=(1,), **named)
        except Exception as error:
            print(f"{tuple(config)}: {reason_of(error)}")


if __name__ == "__main__":
    # Under the name that the kernel has where it is used.
    import triton_scaled_grouped_mm
    triton_scaled_grouped_mm._compile_share(int(sys.argv[1]), int(sys.argv[2]))
