"""The two products of a mixture-of-experts layer in Triton, with the interface of vLLM's and SGLang's kernel."""

import triton
import triton.language as tl
from fused_moe_data import align, as_numbers, count, draw, reference, route  # noqa: F401


@triton.jit
def fused_moe_kernel(a_ptr, b_ptr, c_ptr, a_scale_ptr, b_scale_ptr, topk_weights_ptr, sorted_token_ids_ptr, expert_ids_ptr,
                     num_tokens_post_padded_ptr, N, K, EM, num_valid_tokens, stride_am, stride_ak, stride_be, stride_bk,
                     stride_bn, stride_cm, stride_cn, stride_asm, stride_ask, stride_bse, stride_bsk, stride_bsn,
                     group_n: tl.constexpr, group_k: tl.constexpr, BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr,
                     BLOCK_SIZE_K: tl.constexpr, GROUP_SIZE_M: tl.constexpr, MUL_ROUTED_WEIGHT: tl.constexpr,
                     top_k: tl.constexpr, compute_type: tl.constexpr, use_fp8_w8a8: tl.constexpr,
                     filter_expert: tl.constexpr):
    """C[r] = A[r / top_k] * B[e]^T for the rows r of expert e, times topk_weights[r] with MUL_ROUTED_WEIGHT. A tile has
    rows of one expert: expert_ids[tile], and sorted_token_ids[BLOCK_SIZE_M * tile ...], where num_valid_tokens and more
    stand for no row. With filter_expert rows of expert -1, which another rank has, are zeros."""
    # Tiles are walked in bands of GROUP_SIZE_M rows of tiles, column by column: tiles at work together share weights.
    tile = tl.program_id(0)
    tiles_down = tl.cdiv(EM, BLOCK_SIZE_M)
    tiles_of_band = GROUP_SIZE_M * tl.cdiv(N, BLOCK_SIZE_N)
    first = tile // tiles_of_band * GROUP_SIZE_M
    height = tl.minimum(tiles_down - first, GROUP_SIZE_M)
    tile_row = first + tile % tiles_of_band % height
    tile_column = tile % tiles_of_band // height
    a = as_numbers(a_ptr)
    b = as_numbers(b_ptr)
    if tile_row * BLOCK_SIZE_M < tl.load(num_tokens_post_padded_ptr):
        rows = tl.load(sorted_token_ids_ptr + tile_row * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)).to(tl.int64)
        is_row = rows < num_valid_tokens
        tokens = rows // top_k
        expert = tl.load(expert_ids_ptr + tile_row).to(tl.int64)
        columns = tile_column * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
        # Past the last column the first ones are read, and nothing is stored.
        weights = columns % N
        terms = tl.arange(0, BLOCK_SIZE_K)
        left = a + tokens[:, None] * stride_am + terms[None, :] * stride_ak
        right = b + expert * stride_be + weights[None, :] * stride_bn + terms[:, None] * stride_bk
        left_scales = a_scale_ptr + tokens * stride_asm
        right_scales = b_scale_ptr + expert * stride_bse + weights // group_n * stride_bsn
        total = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
        for begin in range(0, tl.where(expert == -1, 0, K) if filter_expert else K, BLOCK_SIZE_K):
            is_term = terms < K - begin
            x = tl.load(left, mask=is_row[:, None] & is_term[None, :], other=0.0)
            w = tl.load(right, mask=is_term[:, None], other=0.0)
            if use_fp8_w8a8:
                group = begin // group_k
                x_scale = tl.load(left_scales + group * stride_ask, mask=is_row, other=0.0)
                w_scale = tl.load(right_scales + group * stride_bsk)
                total += tl.dot(x, w) * x_scale[:, None] * w_scale[None, :]
            else:
                total = tl.dot(x, w, acc=total)
            left += BLOCK_SIZE_K * stride_ak
            right += BLOCK_SIZE_K * stride_bk
        if MUL_ROUTED_WEIGHT:
            total *= tl.load(topk_weights_ptr + rows, mask=is_row, other=0.0)[:, None]
        tl.store(c_ptr + rows[:, None] * stride_cm + columns[None, :] * stride_cn, total.to(compute_type),
                 mask=is_row[:, None] & (columns < N)[None, :])


# Both products of a layer may be launched with one config, whose constants have one value each: hence two functions.
@triton.jit
def up(a_ptr, b_ptr, c_ptr, a_scale_ptr, b_scale_ptr, topk_weights_ptr, sorted_token_ids_ptr, expert_ids_ptr,
       num_tokens_post_padded_ptr, N, K, EM, num_valid_tokens, stride_am, stride_ak, stride_be, stride_bk, stride_bn,
       stride_cm, stride_cn, stride_asm, stride_ask, stride_bse, stride_bsk, stride_bsn, BLOCK_SIZE_M: tl.constexpr,
       BLOCK_SIZE_N: tl.constexpr, BLOCK_SIZE_K: tl.constexpr, GROUP_SIZE_M: tl.constexpr, topk: tl.constexpr,
       has_other_ranks: tl.constexpr):
    fused_moe_kernel(a_ptr, b_ptr, c_ptr, a_scale_ptr, b_scale_ptr, topk_weights_ptr, sorted_token_ids_ptr, expert_ids_ptr,
                     num_tokens_post_padded_ptr, N, K, EM, num_valid_tokens, stride_am, stride_ak, stride_be, stride_bk,
                     stride_bn, stride_cm, stride_cn, stride_asm, stride_ask, stride_bse, stride_bsk, stride_bsn, 128, 128,
                     BLOCK_SIZE_M, BLOCK_SIZE_N, BLOCK_SIZE_K, GROUP_SIZE_M, False, topk, c_ptr.dtype.element_ty,
                     a_ptr.dtype.element_ty == tl.uint8, has_other_ranks)


@triton.jit
def down(a_ptr, b_ptr, c_ptr, a_scale_ptr, b_scale_ptr, topk_weights_ptr, sorted_token_ids_ptr, expert_ids_ptr,
         num_tokens_post_padded_ptr, N, K, EM, num_valid_tokens, stride_am, stride_ak, stride_be, stride_bk, stride_bn,
         stride_cm, stride_cn, stride_asm, stride_ask, stride_bse, stride_bsk, stride_bsn, BLOCK_SIZE_M: tl.constexpr,
         BLOCK_SIZE_N: tl.constexpr, BLOCK_SIZE_K: tl.constexpr, GROUP_SIZE_M: tl.constexpr,
         has_other_ranks: tl.constexpr):
    fused_moe_kernel(a_ptr, b_ptr, c_ptr, a_scale_ptr, b_scale_ptr, topk_weights_ptr, sorted_token_ids_ptr, expert_ids_ptr,
                     num_tokens_post_padded_ptr, N, K, EM, num_valid_tokens, stride_am, stride_ak, stride_be, stride_bk,
                     stride_bn, stride_cm, stride_cn, stride_asm, stride_ask, stride_bse, stride_bsk, stride_bsn, 128, 128,
                     BLOCK_SIZE_M, BLOCK_SIZE_N, BLOCK_SIZE_K, GROUP_SIZE_M, True, 1, c_ptr.dtype.element_ty,
                     a_ptr.dtype.element_ty == tl.uint8, has_other_ranks)
