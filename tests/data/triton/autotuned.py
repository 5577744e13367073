"""Kernels as they are written for @triton.autotune, and calls of them. Needs PyTorch and a GPU."""

import torch
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k}, num_warps=warps, num_stages=stages)
                          for m, n, k, warps, stages in ((64, 64, 32, 4, 3), (128, 64, 32, 4, 4), (128, 128, 32, 8, 3),
                                                         (128, 128, 64, 8, 3), (64, 128, 64, 4, 3), (32, 64, 64, 4, 2))],
                 key=["M", "N", "K"])
@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, bias_ptr, M, N, K, stride_am, stride_bk, stride_cm, BLOCK_M: tl.constexpr,
                  BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    tiles_n = tl.cdiv(N, BLOCK_N)
    for tile in range(tl.program_id(0), tl.cdiv(M, BLOCK_M) * tiles_n, tl.num_programs(0)):
        rows = tile // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)
        columns = tile % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)
        total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for begin in range(0, K, BLOCK_K):
            terms = begin + tl.arange(0, BLOCK_K)
            a = tl.load(a_ptr + rows[:, None] * stride_am + terms[None, :], mask=(rows[:, None] < M) & (terms[None, :] < K), other=0.0)
            b = tl.load(b_ptr + terms[:, None] * stride_bk + columns[None, :],
                        mask=(terms[:, None] < K) & (columns[None, :] < N), other=0.0)
            total += tl.dot(a, b)
        if bias_ptr is not None:
            total += tl.load(bias_ptr + columns, mask=columns < N, other=0.0)[None, :]
        tl.store(c_ptr + rows[:, None] * stride_cm + columns[None, :], total.to(c_ptr.dtype.element_ty),
                 mask=(rows[:, None] < M) & (columns[None, :] < N))


def matmul(a, b):
    c = torch.empty((a.shape[0], b.shape[1]), device=a.device, dtype=a.dtype)
    processors = torch.cuda.get_device_properties(a.device).multi_processor_count

    def grid(META):
        return (min(processors, triton.cdiv(c.shape[0], META["BLOCK_M"]) * triton.cdiv(c.shape[1], META["BLOCK_N"])),)

    matmul_kernel[grid](a, b, c, None, *c.shape, a.shape[1], a.stride(0), b.stride(0), c.stride(0))
    return c


@triton.autotune(configs=[triton.Config({"BLOCK_M": m, "BLOCK_N": n}, num_warps=warps, num_stages=stages)
                          for m, n, warps, stages in ((64, 32, 4, 2), (64, 64, 4, 3), (128, 64, 8, 3), (128, 32, 4, 3))],
                 key=["N_CTX", "HEAD_DIM"])
@triton.heuristics({"EVEN": lambda args: args["N_CTX"] % args["BLOCK_M"] == 0 and args["N_CTX"] % args["BLOCK_N"] == 0})
@triton.jit
def attention_kernel(q_ptr, k_ptr, v_ptr, out_ptr, scale, N_CTX, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr,
                     BLOCK_N: tl.constexpr, EVEN: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    head = tl.program_id(1).to(tl.int64) * N_CTX * HEAD_DIM
    depth = tl.arange(0, HEAD_DIM)
    own = head + rows[:, None] * HEAD_DIM + depth[None, :]
    q = tl.load(q_ptr + own, mask=rows[:, None] < N_CTX, other=0.0)
    most = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    out = tl.zeros((BLOCK_M, HEAD_DIM), dtype=tl.float32)
    for begin in range(0, N_CTX, BLOCK_N):
        columns = begin + tl.arange(0, BLOCK_N)
        places = head + columns[:, None] * HEAD_DIM + depth[None, :]
        if EVEN:
            k = tl.load(k_ptr + places)
            v = tl.load(v_ptr + places)
        else:
            k = tl.load(k_ptr + places, mask=columns[:, None] < N_CTX, other=0.0)
            v = tl.load(v_ptr + places, mask=columns[:, None] < N_CTX, other=0.0)
        scores = tl.dot(q, tl.trans(k)) * scale
        if not EVEN:
            scores = tl.where(columns[None, :] < N_CTX, scores, float("-inf"))
        higher = tl.maximum(most, tl.max(scores, 1))
        parts = tl.exp(scores - higher[:, None])
        factor = tl.exp(most - higher)
        total = total * factor + tl.sum(parts, 1)
        out = out * factor[:, None] + tl.dot(parts.to(v.dtype), v)
        most = higher
    tl.store(out_ptr + own, (out / total[:, None]).to(out_ptr.dtype.element_ty), mask=rows[:, None] < N_CTX)


def attention(q, k, v):
    out = torch.empty_like(q)
    heads, length, depth = q.shape
    attention_kernel[lambda META: (triton.cdiv(length, META["BLOCK_M"]), heads)](q, k, v, out, depth**-0.5, length, HEAD_DIM=depth)
    return out


def zero_c(args):
    args["c_ptr"].zero_()


@triton.autotune(configs=[triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": 32, "SPLIT_K": split}, num_warps=4, pre_hook=zero_c)
                          for m, n, split in ((64, 64, 1), (64, 128, 1), (64, 64, 2), (32, 64, 4))],
                 key=["N", "K"], reset_to_zero=["c_ptr"])
@triton.jit
def grouped_kernel(a_ptr, b_ptr, c_ptr, begins_ptr, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
                   SPLIT_K: tl.constexpr):
    tiles_n = tl.cdiv(N, BLOCK_N)
    group = tl.program_id(1)
    end = tl.load(begins_ptr + group + 1)
    first = tl.load(begins_ptr + group) + tl.program_id(0) // tiles_n * BLOCK_M
    if first < end:
        rows = first + tl.arange(0, BLOCK_M)
        columns = tl.program_id(0) % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)
        total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for begin in range(tl.program_id(2) * BLOCK_K, K, BLOCK_K * SPLIT_K):
            terms = begin + tl.arange(0, BLOCK_K)
            a = tl.load(a_ptr + rows[:, None] * K + terms[None, :], mask=(rows[:, None] < end) & (terms[None, :] < K), other=0.0)
            b = tl.load(b_ptr + group.to(tl.int64) * N * K + terms[:, None] * N + columns[None, :],
                        mask=(terms[:, None] < K) & (columns[None, :] < N), other=0.0)
            total += tl.dot(a, b)
        tl.atomic_add(c_ptr + rows[:, None] * N + columns[None, :], total, mask=(rows[:, None] < end) & (columns[None, :] < N))


def grouped(a, b, begins):
    """Rows begins[g] to begins[g + 1] of a times b[g]."""
    groups, depth, width = b.shape
    c = torch.empty((a.shape[0], width), device=a.device)

    def grid(META):
        return (triton.cdiv(a.shape[0], META["BLOCK_M"]) * triton.cdiv(width, META["BLOCK_N"]), groups, META["SPLIT_K"])

    grouped_kernel[grid](a, b, c, begins, width, depth)
    return c
