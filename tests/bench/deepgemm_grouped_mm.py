#!/usr/bin/env python3
"""DeepGEMM's grouped products of block-scaled e4m3 operands: a peer for fp8_grouped_mm.py. Needs the Python package deep_gemm.

Its layouts, which pad each group's rows to a multiple of 64 or 128 (its tiles are as tall):
rows/N    the rows of all groups one after another, and for each row the number of its group
ends/N    the same rows, and where each group ends
masked    a matrix of equally many rows for each group, and how many of them count; for few rows

Operands are copied into them ahead, with the scales of x in columns as the kernels read them, so that a call launches one
kernel. DeepGEMM compiles a kernel when it is first called, and keeps it on the disk. As a program this compiles a share of
what the cases need: deepgemm_grouped_mm.py CASE,... SEED,... INDEX COUNT.
"""

import math
import sys
import types

LAYOUTS = ("rows/128", "rows/64", "ends/128", "ends/64", "masked")
_MASKED_MULTIPLE = 128
_BLOCK = 128  # terms of a scale


def layouts_of(is_decode):
    return [layout for layout in LAYOUTS if layout != "masked" or is_decode]


def padded_starts(sizes, multiple):
    """Where each group begins among rows whose groups are padded, and how many rows these are."""
    starts, total = [], 0
    for size in sizes:
        starts.append(total)
        total += -(-size // multiple) * multiple
    return starts, total


def _moved(torch, values, scales, places, rows):
    """x and its scales at `places` of `rows` rows, the others zero; the scales lie in columns."""
    bytes_moved = torch.zeros(rows, values.shape[1], device="cuda", dtype=torch.uint8)
    bytes_moved[places] = values.view(torch.uint8)
    scales_moved = torch.zeros(scales.shape[1], rows, device="cuda").t()
    scales_moved[places] = scales
    return bytes_moved.view(torch.float8_e4m3fn), scales_moved


def _places(torch, sizes, starts):
    """Of each row, in the order of the groups, its place where group e begins at starts[e]."""
    counts = torch.tensor(sizes, device="cuda")
    shifts = torch.tensor(starts, device="cuda") - (counts.cumsum(0) - counts)
    return torch.arange(sum(sizes), device="cuda") + shifts.repeat_interleave(counts)


def _contiguous(torch, deep_gemm, operands, sizes, form, multiple):
    starts, rows = padded_starts(sizes, multiple)
    places = _places(torch, sizes, starts)
    x = _moved(torch, operands.x, operands.x_scales, places, rows)
    if form == "ends":
        groups = torch.tensor([start + size for start, size in zip(starts, sizes)], device="cuda", dtype=torch.int32)
    else:
        groups = torch.full((rows,), -1, device="cuda", dtype=torch.int32)
        numbers = torch.arange(len(sizes), device="cuda", dtype=torch.int32)
        groups[places] = numbers.repeat_interleave(torch.tensor(sizes, device="cuda"))
    out = torch.empty(rows, operands.n, device="cuda", dtype=torch.bfloat16)

    def call():
        deep_gemm.set_mk_alignment_for_contiguous_layout(multiple)
        deep_gemm.m_grouped_fp8_gemm_nt_contiguous(x, (operands.w, operands.w_scales), out, groups,
                                                   use_psum_layout=form == "ends")
        return out

    return call, lambda result: result[places]


def _masked(torch, deep_gemm, operands, sizes):
    tall = max(-(-max(sizes) // _MASKED_MULTIPLE), 1) * _MASKED_MULTIPLE
    experts = len(sizes)
    places = _places(torch, sizes, [expert * tall for expert in range(experts)])
    values, scales = _moved(torch, operands.x, operands.x_scales, places, experts * tall)
    # The scales of each group by themselves: [experts, tall, blocks], of which a group's rows are neighbours.
    scales = scales.view(experts, tall, -1).transpose(1, 2).contiguous().transpose(1, 2)
    counts = torch.tensor(sizes, device="cuda", dtype=torch.int32)
    expected = max(math.ceil(sum(sizes) / experts), 1)
    out = torch.empty(experts, tall, operands.n, device="cuda", dtype=torch.bfloat16)

    def call():
        deep_gemm.m_grouped_fp8_gemm_nt_masked((values.view(experts, tall, -1), scales), (operands.w, operands.w_scales), out,
                                               counts, expected)
        return out

    return call, lambda result: result.view(experts * tall, -1)[places]


def product(torch, operands, sizes, layout):
    """(a call of the product in a layout, a function that takes the rows in the groups' order from its result)."""
    import deep_gemm
    if layout == "masked":
        return _masked(torch, deep_gemm, operands, sizes)
    form, multiple = layout.split("/")
    return _contiguous(torch, deep_gemm, operands, sizes, form, int(multiple))


def compile_ahead(cases, seeds, processes):
    """Compiles what these cases and routings need; the messages of what failed."""
    from triton_grouped_mm import compile_ahead as compile_by
    return compile_by(processes, __file__, (",".join(cases), ",".join(map(str, seeds))))


def _compile_share(cases, seeds, index, count):
    import torch
    from fp8_grouped_mm import CASES
    from torch_grouped_mm import multinomial_ends

    def blank(*shape):
        return torch.zeros(*shape, device="cuda", dtype=torch.uint8).view(torch.float8_e4m3fn)

    jobs = [(CASES[case], case, layout) for case in cases for layout in layouts_of(CASES[case].is_decode)]
    for case, name, layout in jobs[index::count]:
        try:
            operands = types.SimpleNamespace(
                n=case.n, x=blank(case.rows, case.k), x_scales=torch.zeros(case.rows, case.k // _BLOCK, device="cuda"),
                w=blank(case.experts, case.n, case.k),
                w_scales=torch.zeros(case.experts, case.n // _BLOCK, case.k // _BLOCK, device="cuda"))
            for seed in seeds:
                call, _ = product(torch, operands, multinomial_ends(torch, case.rows, case.experts, seed)[1], layout)
                call()
            torch.cuda.synchronize()
        except Exception as error:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            print(f"{name} {layout}: {lines[-1][:200]}")


if __name__ == "__main__":
    _compile_share(sys.argv[1].split(","), [int(seed) for seed in sys.argv[2].split(",")], int(sys.argv[3]), int(sys.argv[4]))
