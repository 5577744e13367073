"""What a tuning of fused_moe needs around its products: inputs, routing, expected outputs."""

import triton
import triton.language as tl


@triton.jit
def as_numbers(pointer):
    """Bytes are read as fp8 (e4m3)."""
    if pointer.dtype.element_ty == tl.uint8:
        return pointer.to(tl.pointer_type(tl.float8e4nv), bitcast=True)
    else:
        return pointer


@triton.jit
def reference(a_ptr, b_ptr, c_ptr, a_scale_ptr, b_scale_ptr, topk_weights_ptr, topk_ids_ptr, N, K, own_experts,
              tokens_share, is_weighted, COLUMNS: tl.constexpr = 64, TERMS: tl.constexpr = 128):
    """Row by row in single precision, without tiles and without the sorted order. `tokens_share`: how many rows of C one
    row of A has. Rows of the experts from `own_experts` on, which other ranks have, are zeros."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    token = row // tokens_share
    expert = tl.load(topk_ids_ptr + row).to(tl.int64)
    is_scaled: tl.constexpr = a_ptr.dtype.element_ty == tl.uint8
    a = as_numbers(a_ptr) + token * K
    b = as_numbers(b_ptr) + (expert * N + columns[:, None]) * K
    groups = tl.cdiv(K, 128)
    total = tl.zeros((COLUMNS,), dtype=tl.float32)
    for begin in range(0, tl.where(expert < own_experts, K, 0), TERMS):
        terms = begin + tl.arange(0, TERMS)
        x = tl.load(a + terms, mask=terms < K, other=0.0).to(tl.float32)
        w = tl.load(b + terms[None, :], mask=(columns < N)[:, None] & (terms < K)[None, :], other=0.0).to(tl.float32)
        part = tl.sum(w * x[None, :], 1)
        if is_scaled:
            group = begin // 128
            part *= tl.load(a_scale_ptr + token * groups + group)
            part *= tl.load(b_scale_ptr + (expert * tl.cdiv(N, 128) + columns // 128) * groups + group,
                            mask=columns < N, other=0.0)
        total += part
    total *= tl.where(is_weighted != 0, tl.load(topk_weights_ptr + row), 1.0)
    tl.store(c_ptr + row * N + columns, total.to(c_ptr.dtype.element_ty), mask=columns < N)


@triton.jit
def draw(out_ptr, random_ptr, length, stream, COUNT: tl.constexpr = 4096):
    """Normally distributed numbers, others for each `stream`."""
    out = as_numbers(out_ptr)
    place = tl.program_id(0).to(tl.int64) * COUNT + tl.arange(0, COUNT)
    value = tl.randn(tl.load(random_ptr) + stream, place)
    tl.store(out + place, value.to(out.dtype.element_ty), mask=place < length)


@triton.jit
def route(random_ptr, expert_weights_ptr, topk_ids_ptr, experts, topk_count, is_balanced, EXPERTS: tl.constexpr = 1024):
    """Each token's experts: drawn without repetition, each with a likelihood by its weight, or in turn."""
    token = tl.program_id(0)
    all_experts = tl.arange(0, EXPERTS)
    weights = tl.load(expert_weights_ptr + all_experts, mask=all_experts < experts, other=0.0)
    # The largest of uniform^(1 / weight) are such a sample (Efraimidis and Spirakis); here in logarithms.
    uniform = tl.rand(tl.load(random_ptr) + 4, token * EXPERTS + all_experts)
    keys = tl.where(weights > 0, tl.log(tl.maximum(uniform, 1e-9)) / weights, -float("inf"))
    for slot in range(0, topk_count):
        place = token * topk_count + slot
        drawn = tl.argmax(keys, 0)
        keys = tl.where(all_experts == drawn, -float("inf"), keys)
        tl.store(topk_ids_ptr + place, tl.where(is_balanced != 0, place % experts, drawn))


@triton.jit
def count(topk_ids_ptr, counts_ptr, rows, COUNT: tl.constexpr = 1024):
    """How many rows each expert has. One program for each."""
    expert = tl.program_id(0)
    total = tl.zeros((COUNT,), dtype=tl.int32)
    for first in range(0, rows, COUNT):
        row = first + tl.arange(0, COUNT)
        total += (tl.load(topk_ids_ptr + row, mask=row < rows, other=-1) == expert).to(tl.int32)
    tl.store(counts_ptr + expert, tl.sum(total, 0))


@triton.jit
def align(topk_ids_ptr, counts_ptr, sorted_token_ids_ptr, expert_ids_ptr, num_tokens_post_padded_ptr, rows, experts,
          own_experts, block, capacity, EXPERTS: tl.constexpr = 1024, COUNT: tl.constexpr = 1024):
    """The rows of one expert after those of the one before, each expert padded to whole tiles of `block` rows. One program
    for each expert, and one for what lies behind. Tiles of the experts from `own_experts` on have expert -1."""
    expert = tl.program_id(0)
    all_experts = tl.arange(0, EXPERTS)
    padded = tl.cdiv(tl.load(counts_ptr + all_experts, mask=all_experts < experts, other=0), block) * block
    begin = tl.sum(tl.where(all_experts < expert, padded, 0), 0)
    end = tl.where(expert == experts, capacity, begin + tl.sum(tl.where(all_experts == expert, padded, 0), 0))
    place = begin
    for first in range(0, rows, COUNT):
        row = first + tl.arange(0, COUNT)
        mine = (tl.load(topk_ids_ptr + row, mask=row < rows, other=-1) == expert).to(tl.int32)
        target = place + tl.cumsum(mine, 0) - 1
        tl.store(sorted_token_ids_ptr + target, row, mask=mine != 0)
        place += tl.sum(mine, 0)
    for first in range(place, end, COUNT):
        free = first + tl.arange(0, COUNT)
        tl.store(sorted_token_ids_ptr + free, tl.zeros((COUNT,), dtype=tl.int32) + rows, mask=free < end)
    for first in range(begin // block, end // block, COUNT):
        tile = first + tl.arange(0, COUNT)
        tl.store(expert_ids_ptr + tile, tl.zeros((COUNT,), dtype=tl.int32) + tl.where(expert < own_experts, expert, -1),
                 mask=tile < end // block)
    tl.store(num_tokens_post_padded_ptr, begin, mask=expert == experts)
