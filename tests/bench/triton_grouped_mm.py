#!/usr/bin/env python3
"""Grouped matrix products in Triton: a peer for torch_grouped_mm.py, which tunes and times it.

Two kernels serve all three products and both layouts of the weights. Tiles are found from the ends of the groups on the
device; their rows run fastest, so that neighbouring blocks share a tile of the weights. Operands come by TMA descriptors or
by pointers; one block takes one tile, or as many blocks as fit take all tiles in turns.

Needs extents of matrices that are multiples of 256. As a program it compiles a share of all configs into Triton's cache,
for `compile_ahead`: triton_grouped_mm.py INDEX COUNT.
"""

import collections
import os
import subprocess
import sys

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

MULTIPLE = 256  # of the extents
_EXPERTS_MIN = 128  # that a kernel is compiled for, so that most layers share it

# Tiles of `tall` x `wide` outputs, `deep` terms a step. programs: "tile": a block for each; "fit": as many as fit at once.
Config = collections.namedtuple("Config", "tall wide deep warps stages tma programs flatten")


def _configs(sizes, flattened=()):
    return [Config(*size, tma, programs, False) for size, tma in sizes for programs in ("tile", "fit")] + [
        Config(*size, True, "fit", True) for size in flattened]


ROWS_CONFIGS = _configs(
    [((128, 256, 64, 8, 3), True), ((128, 256, 64, 8, 4), True), ((256, 128, 64, 8, 3), True), ((256, 128, 64, 8, 4), True),
     ((128, 128, 64, 4, 4), True), ((128, 128, 64, 8, 4), True), ((128, 128, 128, 8, 3), True), ((64, 256, 64, 8, 4), True),
     ((64, 256, 64, 4, 4), True), ((64, 128, 64, 4, 5), True), ((64, 128, 128, 4, 4), True), ((128, 256, 64, 8, 3), False),
     ((128, 128, 64, 8, 4), False), ((64, 128, 64, 4, 4), False)],
    flattened=[(128, 256, 64, 8, 3), (128, 128, 64, 8, 4), (64, 256, 64, 8, 4)])
WEIGHTS_CONFIGS = _configs(
    [((128, 128, 64, 4, 3), True), ((128, 128, 64, 8, 4), True), ((128, 256, 64, 8, 3), True), ((256, 128, 64, 8, 3), True),
     ((128, 256, 32, 8, 4), True), ((128, 128, 32, 4, 5), True), ((128, 128, 64, 8, 3), False), ((128, 128, 32, 4, 4), False),
     ((128, 128, 32, 8, 5), False), ((128, 256, 32, 8, 4), False), ((256, 128, 32, 8, 4), False)])


@triton.jit(do_not_specialize=["experts"])
def rows_kernel(a, a_descriptor, w, w_descriptor, out, group_ends, experts, inner, columns, expert_stride, inner_stride,
                column_stride, EXPERTS: tl.constexpr, IS_TRANSPOSED: tl.constexpr, TMA: tl.constexpr, TALL: tl.constexpr,
                WIDE: tl.constexpr, DEEP: tl.constexpr, FLATTEN: tl.constexpr):
    """out[r] = a[r] * w[e] for the rows r of expert e; w[e] has `inner` rows, and lies transposed if IS_TRANSPOSED."""
    numbers = tl.arange(0, EXPERTS)
    is_expert = numbers < experts
    ends = tl.load(group_ends + numbers, mask=is_expert, other=0)
    before = tl.load(group_ends + numbers - 1, mask=is_expert & (numbers > 0), other=0)
    heights = tl.where(is_expert, (ends - before + TALL - 1) // TALL, 0)
    height_ends = tl.cumsum(heights, 0)
    width = columns // WIDE
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
        sums = tl.zeros((TALL, WIDE), dtype=tl.float32)
        if TMA:
            for step in range(0, inner, DEEP):
                left = a_descriptor.load([row, step])
                if IS_TRANSPOSED:
                    sums = tl.dot(left, w_descriptor.load([expert * columns + column, step]).T, sums)
                else:
                    sums = tl.dot(left, w_descriptor.load([expert * inner + step, column]), sums)
        else:
            # Rows past the group repeat its last one: they are not stored.
            near_rows = tl.minimum(row + tl.arange(0, TALL), end - 1).to(tl.int64)
            terms = tl.arange(0, DEEP)
            near_columns = column + tl.arange(0, WIDE)
            left_at = a + near_rows[:, None] * inner + terms[None, :]
            right_at = (w + expert.to(tl.int64) * expert_stride + terms[:, None] * inner_stride +
                        near_columns[None, :] * column_stride)
            for step in range(0, inner, DEEP):
                sums = tl.dot(tl.load(left_at), tl.load(right_at), sums)
                left_at += DEEP
                right_at += DEEP * inner_stride
        rows = row + tl.arange(0, TALL)
        out_columns = column + tl.arange(0, WIDE)
        out_at = out + rows[:, None].to(tl.int64) * columns + out_columns[None, :]
        tl.store(out_at, sums.to(out.dtype.element_ty), mask=rows[:, None] < end)


@triton.jit(do_not_specialize=["experts"])
def weights_kernel(a, a_descriptor, b, b_descriptor, out, group_ends, experts, rows_out, columns_out, TMA: tl.constexpr,
                   TALL: tl.constexpr, WIDE: tl.constexpr, DEEP: tl.constexpr):
    """out[e] = the sum of a[r]^T * b[r] over the rows r of expert e; out[e] is rows_out x columns_out."""
    width = columns_out // WIDE
    tiles_of_expert = rows_out // TALL * width
    for tile in tl.range(tl.program_id(0), experts * tiles_of_expert, tl.num_programs(0)):
        expert = tile // tiles_of_expert
        place = tile % tiles_of_expert
        top = place // width * TALL
        column = place % width * WIDE
        begin = tl.load(group_ends + expert - 1, mask=expert > 0, other=0)
        end = tl.load(group_ends + expert)
        sums = tl.zeros((TALL, WIDE), dtype=tl.float32)
        if TMA:
            whole_end = begin + (end - begin) // DEEP * DEEP
            for row in range(begin, whole_end, DEEP):
                sums = tl.dot(a_descriptor.load([row, top]).T, b_descriptor.load([row, column]), sums)
            if whole_end < end:
                is_inside = (whole_end + tl.arange(0, DEEP) < end)[:, None]
                left = tl.where(is_inside, a_descriptor.load([whole_end, top]), 0.0).to(a.dtype.element_ty)
                right = tl.where(is_inside, b_descriptor.load([whole_end, column]), 0.0).to(b.dtype.element_ty)
                sums = tl.dot(left.T, right, sums)
        else:
            tops = top + tl.arange(0, TALL)
            columns = column + tl.arange(0, WIDE)
            for row in range(begin, end, DEEP):
                rows = row + tl.arange(0, DEEP)
                is_inside = rows[:, None] < end
                left_at = a + rows[:, None].to(tl.int64) * rows_out + tops[None, :]
                right_at = b + rows[:, None].to(tl.int64) * columns_out + columns[None, :]
                left = tl.load(left_at, mask=is_inside, other=0.0)
                right = tl.load(right_at, mask=is_inside, other=0.0)
                sums = tl.dot(left.T, right, sums)
        out_rows = expert.to(tl.int64) * rows_out + top + tl.arange(0, TALL)
        out_columns = column + tl.arange(0, WIDE)
        tl.store(out + out_rows[:, None] * columns_out + out_columns[None, :], sums.to(out.dtype.element_ty))


def described(matrix, block):
    flat = matrix.view(-1, matrix.shape[-1])
    return TensorDescriptor(flat, list(flat.shape), list(flat.stride()), list(block))


def _programs(config, tiles_max):
    if config.programs == "tile":
        return max(tiles_max, 1)
    blocks_per_sm = 2 if config.warps == 4 else 1
    return max(min(tiles_max, torch.cuda.get_device_properties(0).multi_processor_count * blocks_per_sm), 1)


def _check_extents(*extents):
    if any(extent % MULTIPLE for extent in extents):
        raise ValueError(f"extents must be multiples of {MULTIPLE}: {extents}")


def _rows_arguments(a, w, is_transposed, ends, out, config):
    experts, inner = w.shape[0], a.shape[1]
    columns = w.shape[1] if is_transposed else w.shape[2]
    _check_extents(inner, columns)
    w_block = (config.wide, config.deep) if is_transposed else (config.deep, config.wide)
    positional = (a, described(a, (config.tall, config.deep)) if config.tma else None, w,
                  described(w, w_block) if config.tma else None, out, ends, experts, inner, columns, inner * columns,
                  1 if is_transposed else columns, inner if is_transposed else 1)
    named = dict(EXPERTS=max(_EXPERTS_MIN, triton.next_power_of_2(experts)), IS_TRANSPOSED=is_transposed, TMA=config.tma,
                 TALL=config.tall, WIDE=config.wide, DEEP=config.deep, FLATTEN=config.flatten, num_warps=config.warps,
                 num_stages=config.stages)
    return positional, named


def rows_product(a, w, is_transposed, ends, config):
    """A function that computes [R, columns] from a [R, inner] and w [E, inner, columns], or [E, columns, inner]."""
    columns = w.shape[1] if is_transposed else w.shape[2]
    out = torch.empty(a.shape[0], columns, device=a.device, dtype=a.dtype)
    positional, named = _rows_arguments(a, w, is_transposed, ends, out, config)
    heights_max = (a.shape[0] + min(w.shape[0], a.shape[0]) * (config.tall - 1)) // config.tall
    grid = (_programs(config, heights_max * (columns // config.wide)),)

    def call():
        rows_kernel[grid](*positional, **named)
        return out

    return call


def _weights_arguments(a, b, ends, out, config):
    _check_extents(a.shape[1], b.shape[1])
    positional = (a, described(a, (config.deep, config.tall)) if config.tma else None, b,
                  described(b, (config.deep, config.wide)) if config.tma else None, out, ends, out.shape[0], a.shape[1],
                  b.shape[1])
    named = dict(TMA=config.tma, TALL=config.tall, WIDE=config.wide, DEEP=config.deep, num_warps=config.warps,
                 num_stages=config.stages)
    return positional, named


def weights_product(a, b, experts, ends, config):
    """A function that computes [E, N, K] from a [R, N] and b [R, K]."""
    out = torch.empty(experts, a.shape[1], b.shape[1], device=a.device, dtype=a.dtype)
    positional, named = _weights_arguments(a, b, ends, out, config)
    grid = (_programs(config, experts * (a.shape[1] // config.tall) * (b.shape[1] // config.wide)),)

    def call():
        weights_kernel[grid](*positional, **named)
        return out

    return call


def reason_of(error):
    """The last line of a message: those of Triton's compiler begin with the source."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:200] if lines else type(error).__name__


def tune(timer, configs, make, is_right):
    """The fastest config whose result `is_right`, and its microseconds; (None, reasons) if there is none. The five that come
    first by a few samples are timed again by more."""
    times, reasons = {}, []
    for config in configs:
        try:
            times[config] = timer.median_us(make(config), samples=3)
        except Exception as error:  # Some tiles do not fit a device or do not compile: the others are tried.
            reasons.append(f"{tuple(config)}: {reason_of(error)}")
    finalists = {}
    for config in sorted(times, key=times.get):
        call = make(config)
        if is_right(call()):
            finalists[config] = timer.median_us(call, samples=15)
            if len(finalists) == 5:
                break
        else:
            reasons.append(f"{tuple(config)}: wrong result")
    if not finalists:
        return None, reasons
    best = min(finalists, key=finalists.get)
    return best, finalists[best]


def _jobs():
    """(product, is_transposed, config) of every binary."""
    binaries = dict.fromkeys(("rows", is_transposed, config._replace(programs="tile"))
                             for is_transposed in (True, False) for config in ROWS_CONFIGS)
    binaries.update(dict.fromkeys(("weights", False, config._replace(programs="tile")) for config in WEIGHTS_CONFIGS))
    return list(binaries)


def compile_ahead(processes, program=__file__, arguments=()):
    """Runs the program in as many processes, each of which compiles a share into a cache on the disk (this one: of all configs
    into Triton's). The last arguments are the number of a process and how many there are. Returns what they print: the
    messages of what does not compile."""
    children = [subprocess.Popen([sys.executable, os.path.abspath(program), *arguments, str(index), str(processes)],
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for index in range(processes)]
    return [line for child in children for line in child.communicate()[0].splitlines()]


def _compile_share(index, count):
    a = torch.zeros(MULTIPLE, 2 * MULTIPLE, device="cuda", dtype=torch.bfloat16)
    b = torch.zeros(MULTIPLE, 2 * MULTIPLE, device="cuda", dtype=torch.bfloat16)
    w = torch.zeros(2, 2 * MULTIPLE, 2 * MULTIPLE, device="cuda", dtype=torch.bfloat16)
    ends = torch.zeros(2, device="cuda", dtype=torch.int32)
    for product, is_transposed, config in _jobs()[index::count]:
        try:
            if product == "rows":
                positional, named = _rows_arguments(a, w, is_transposed, ends, a, config)
                rows_kernel.warmup(*positional, grid=(1,), **named)
            else:
                positional, named = _weights_arguments(a, b, ends, w, config)
                weights_kernel.warmup(*positional, grid=(1,), **named)
        except Exception as error:
            print(f"{product} {tuple(config)}: {reason_of(error)}")


if __name__ == "__main__":
    # Under the name that the kernels have where they are used.
    import triton_grouped_mm
    triton_grouped_mm._compile_share(int(sys.argv[1]), int(sys.argv[2]))
