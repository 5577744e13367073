"""A kernel with the interface of SGLang's, in a module that cannot be imported where it is not installed."""

import torch
import triton
import triton.language as tl
from sglang.srt.utils import is_cuda

_is_cuda = is_cuda() and torch.cuda.is_available()
BLOCK = tl.constexpr(128)


@triton.jit
def store_zeros(c_ptrs, mask, ROWS, COLUMNS, compute_type):
    tl.store(c_ptrs, tl.zeros((ROWS, COLUMNS), dtype=compute_type), mask=mask)


@triton.jit
def fused_moe_kernel(a_ptr, a_desc, b_ptr, b_desc, bias_ptr, c_ptr, a_scale_ptr, b_scale_ptr, topk_weights_ptr,
                     sorted_token_ids_ptr, expert_ids_ptr, num_tokens_post_padded_ptr, N, K, EM, num_valid_tokens,
                     stride_am, stride_ak, stride_be, stride_bk, stride_bn, stride_bias_e, stride_bias_n, stride_cm,
                     stride_cn, stride_asm, stride_ask, stride_bse, stride_bsk, stride_bsn, group_n: tl.constexpr,
                     group_k: tl.constexpr, BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr,
                     BLOCK_SIZE_K: tl.constexpr, GROUP_SIZE_M: tl.constexpr, MUL_ROUTED_WEIGHT: tl.constexpr,
                     top_k: tl.constexpr, compute_type: tl.constexpr, use_fp8_w8a8: tl.constexpr,
                     use_int8_w8a8: tl.constexpr, use_int8_w8a16: tl.constexpr, per_channel_quant: tl.constexpr,
                     even_Ks: tl.constexpr, c_sorted: tl.constexpr, filter_expert: tl.constexpr,
                     swap_ab: tl.constexpr, FUSE_SUM_ALL_REDUCE: tl.constexpr, ROUTER_TOPK: tl.constexpr):
    tile = tl.program_id(0)
    tiles_of_band = GROUP_SIZE_M * tl.cdiv(N, BLOCK_SIZE_N)
    first = tile // tiles_of_band * GROUP_SIZE_M
    height = min(tl.cdiv(EM, BLOCK_SIZE_M) - first, GROUP_SIZE_M)
    tile_row = first + tile % tiles_of_band % height
    tile_column = tile % tiles_of_band // height
    if tile_row * BLOCK_SIZE_M >= tl.load(num_tokens_post_padded_ptr):
        return
    rows = tl.load(sorted_token_ids_ptr + tile_row * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)).to(tl.int64)
    is_row = rows < num_valid_tokens
    columns = tile_column * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    c_ptrs = c_ptr + rows[:, None] * stride_cm + columns[None, :] * stride_cn
    is_stored = is_row[:, None] & (columns < N)[None, :]
    expert = tl.load(expert_ids_ptr + tile_row).to(tl.int64)
    if filter_expert and expert == -1:
        store_zeros(c_ptrs, is_stored, BLOCK_SIZE_M, BLOCK_SIZE_N, compute_type)
        return
    terms = tl.arange(0, BLOCK_SIZE_K)
    left = a_ptr + (rows // top_k)[:, None] * stride_am + terms[None, :] * stride_ak
    right = b_ptr + expert * stride_be + (columns % N)[None, :] * stride_bn + terms[:, None] * stride_bk
    if use_fp8_w8a8:
        tl.static_assert(group_n == BLOCK and group_k == BLOCK)
        left_scales = a_scale_ptr + rows // top_k * stride_asm
        right_scales = b_scale_ptr + expert * stride_bse + columns % N // group_n * stride_bsn
    else:
        tl.static_assert(group_n == 0 and a_scale_ptr is None and b_scale_ptr is None)
    if bias_ptr is not None:
        tl.static_assert(False)
    tl.static_assert(a_desc is None and b_desc is None and not c_sorted and not FUSE_SUM_ALL_REDUCE)
    total = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
    for begin in range(0, K, BLOCK_SIZE_K):
        if even_Ks:
            x = tl.load(left, mask=is_row[:, None], other=0.0)
            w = tl.load(right)
        else:
            x = tl.load(left, mask=is_row[:, None] & (terms < K - begin)[None, :], other=0.0)
            w = tl.load(right, mask=(terms < K - begin)[:, None], other=0.0)
        if use_fp8_w8a8:
            x_scale = tl.load(left_scales + begin // group_k * stride_ask, mask=is_row, other=0.0)
            w_scale = tl.load(right_scales + begin // group_k * stride_bsk)
            if swap_ab:
                tl.static_assert(BLOCK_SIZE_M < 64 and BLOCK_SIZE_N >= 64)
                product = tl.trans(tl.dot(tl.trans(w), tl.trans(x)))
            else:
                product = tl.dot(x, w)
            total += product * x_scale[:, None] * w_scale[None, :]
        else:
            total += tl.dot(x, w)
        left += BLOCK_SIZE_K * stride_ak
        right += BLOCK_SIZE_K * stride_bk
    if MUL_ROUTED_WEIGHT:
        total *= tl.load(topk_weights_ptr + rows, mask=is_row, other=0.0)[:, None]
    tl.store(c_ptrs, total.to(compute_type), mask=is_stored)
