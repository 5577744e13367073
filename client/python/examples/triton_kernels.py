"""The two products of the tuning examples in Triton, in bfloat16 with sums in float32; numpy_kernels.py has the same names.
Needs torch and Triton 3.4 or later, and a GPU; `use_tma_load_w` needs one of Hopper's generation or later.
"""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

DEVICE = torch.cuda.get_device_name().replace(" ", "_")

# A layer: experts, tokens, experts for each token, and the sizes of the product.
EXPERTS, TOKENS, TOPK, N, K = 32, 4096, 4, 1536, 2048
# Columns and terms of the matrix product that tuning_script.py tunes for several batch sizes.
MATMUL_N, MATMUL_K = 1024, 2048


def normal(*shape, seed):
    numbers = torch.Generator(device="cuda").manual_seed(seed)
    return torch.randn(shape, generator=numbers, device="cuda").bfloat16()


def make_layer(seed=0):
    """Activations of the tokens, weights, sizes of the groups, and the rows in the order of their experts. Sums have the
    size of their terms, whatever K is."""
    scores = torch.rand((TOKENS, EXPERTS), generator=torch.Generator(device="cuda").manual_seed(seed), device="cuda")
    chosen = scores.topk(TOPK, dim=1).indices.reshape(-1)
    return (normal(TOKENS, K, seed=seed + 1), normal(EXPERTS, N, K, seed=seed + 2) * K ** -0.5,
            torch.bincount(chosen, minlength=EXPERTS).int(), chosen.argsort(stable=True).int())


def grouped_gemm_baseline(x, w, sizes, gather):
    """One product for each group."""
    groups = x[gather // TOPK].split(sizes.tolist())
    return torch.cat([rows @ weights.T for rows, weights in zip(groups, w)])


@triton.jit
def multiply_groups(x, w, w_tiles, y, sizes, gather, N, K, EXPERTS: tl.constexpr, TOPK: tl.constexpr,
                    BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr, BLOCK_SIZE_K: tl.constexpr,
                    PERMUTE_X: tl.constexpr, USE_TMA_LOAD_W: tl.constexpr):
    # Which group the tile is of: the sizes are known on the device only.
    tile = tl.program_id(1)
    expert = 0
    first = 0
    size = tl.load(sizes)
    while (tile >= tl.cdiv(size, BLOCK_SIZE_M)) & (expert < EXPERTS - 1):
        tile -= tl.cdiv(size, BLOCK_SIZE_M)
        first += size
        expert += 1
        size = tl.load(sizes + expert)
    if tile * BLOCK_SIZE_M < size:
        within = tile * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
        rows = first + within
        sources = rows
        if PERMUTE_X:
            sources = tl.load(gather + rows, mask=within < size, other=0) // TOPK
        first_column = tl.program_id(0) * BLOCK_SIZE_N
        columns = first_column + tl.arange(0, BLOCK_SIZE_N)
        terms = tl.arange(0, BLOCK_SIZE_K)
        total = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
        for begin in range(0, K, BLOCK_SIZE_K):
            left = tl.load(x + sources.to(tl.int64)[:, None] * K + (begin + terms)[None, :],
                           mask=(within < size)[:, None] & (begin + terms < K)[None, :], other=0.0)
            if USE_TMA_LOAD_W:
                # Columns past N are the next expert's: they are not stored.
                right = w_tiles.load([expert * N + first_column, begin])
            else:
                right = tl.load(w + (expert.to(tl.int64) * N + columns)[:, None] * K + (begin + terms)[None, :],
                                mask=(columns < N)[:, None] & (begin + terms < K)[None, :], other=0.0)
            total += tl.dot(left, right.T)
        tl.store(y + rows.to(tl.int64)[:, None] * N + columns[None, :], total.to(y.dtype.element_ty),
                 mask=(within < size)[:, None] & (columns < N)[None, :])


def grouped_gemm(x, w, sizes, gather, config):
    """The same in one launch. Without permute_x the rows of a group are brought together first."""
    y = torch.empty((len(gather), N), dtype=x.dtype, device=x.device)
    use_tma_load_w = getattr(config, "use_tma_load_w", False)
    tiles = TensorDescriptor.from_tensor(w.view(-1, K), [config.BLOCK_SIZE_N, config.BLOCK_SIZE_K]) if use_tma_load_w else None
    # Each group ends with at most one tile that is not full.
    grid = (triton.cdiv(N, config.BLOCK_SIZE_N), len(gather) // config.BLOCK_SIZE_M + EXPERTS)
    multiply_groups[grid](x if config.permute_x else x[gather // TOPK], w, tiles, y, sizes, gather, N, K, EXPERTS, TOPK,
                          config.BLOCK_SIZE_M, config.BLOCK_SIZE_N, config.BLOCK_SIZE_K, config.permute_x, use_tma_load_w,
                          num_warps=config.num_warps, num_stages=config.num_stages)
    return y


def assert_close(actual, expected):
    torch.testing.assert_close(actual, expected, atol=1e-2, rtol=1e-2)


def milliseconds(run):
    """The median of many runs, each with a cold L2."""
    return triton.testing.do_bench(run, return_mode="median")


def matmul_inputs(M, N, K, seed=0):
    """Both operands, and an output that is not a number yet."""
    return (normal(M, K, seed=seed), normal(K, N, seed=seed + 1) * K ** -0.5,
            torch.full((M, N), torch.nan, dtype=torch.bfloat16, device="cuda"))


def matmul_reference(x, w):
    return x @ w


@triton.jit
def multiply(x, w, out, M, N, K, BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr, BLOCK_SIZE_K: tl.constexpr,
             GROUP_SIZE_M: tl.constexpr):
    # Tiles that are at work together share rows and columns.
    tiles_across = tl.cdiv(N, BLOCK_SIZE_N)
    tile_row, tile_column = tl.swizzle2d(tl.program_id(0) // tiles_across, tl.program_id(0) % tiles_across,
                                         tl.cdiv(M, BLOCK_SIZE_M), tiles_across, GROUP_SIZE_M)
    rows = tile_row * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
    columns = tile_column * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    terms = tl.arange(0, BLOCK_SIZE_K)
    total = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
    for begin in range(0, K, BLOCK_SIZE_K):
        left = tl.load(x + rows[:, None] * K + (begin + terms)[None, :],
                       mask=(rows < M)[:, None] & (begin + terms < K)[None, :], other=0.0)
        right = tl.load(w + (begin + terms)[:, None] * N + columns[None, :],
                        mask=(begin + terms < K)[:, None] & (columns < N)[None, :], other=0.0)
        total += tl.dot(left, right)
    tl.store(out + rows[:, None] * N + columns[None, :], total.to(out.dtype.element_ty),
             mask=(rows < M)[:, None] & (columns < N)[None, :])


def tiled_matmul(x, w, out, config):
    (M, K), N = x.shape, w.shape[1]
    tiles = triton.cdiv(M, config["BLOCK_SIZE_M"]) * triton.cdiv(N, config["BLOCK_SIZE_N"])
    # The space's other keys are for AMD's GPUs.
    names = ("BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M", "num_warps", "num_stages")
    multiply[(tiles,)](x, w, out, M, N, K, **{name: config[name] for name in names})
    return out
