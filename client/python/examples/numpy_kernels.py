"""The two products of the tuning examples in NumPy, so that they run anywhere; triton_kernels.py has the same names."""

import platform
import time

import numpy as np

DEVICE = platform.machine()

# A small layer: experts, tokens, experts for each token, and the sizes of the product.
EXPERTS, TOKENS, TOPK, N, K = 4, 96, 2, 160, 128
# Columns and terms of the matrix product that tuning_script.py tunes for several batch sizes.
MATMUL_N, MATMUL_K = 64, 128


def make_layer(seed=0):
    """Activations of the tokens, weights, sizes of the groups, and the rows in the order of their experts."""
    rng = np.random.default_rng(seed)
    chosen = np.argsort(rng.random((TOKENS, EXPERTS)), axis=1)[:, :TOPK].reshape(-1)
    gather = np.argsort(chosen, kind="stable")
    return (rng.standard_normal((TOKENS, K), dtype=np.float32), rng.standard_normal((EXPERTS, N, K), dtype=np.float32),
            np.bincount(chosen, minlength=EXPERTS), gather)


def grouped_gemm_baseline(x, w, sizes, gather):
    """One product for each group."""
    y = np.empty((len(gather), N), dtype=x.dtype)
    first = 0
    for expert, size in enumerate(sizes):
        rows = gather[first:first + size] // TOPK
        y[first:first + size] = x[rows] @ w[expert].T
        first += size
    return y


def grouped_gemm(x, w, sizes, gather, config):
    """The same, tile by tile. Without permute_x the rows of a group are brought together first."""
    sorted_x = None if config.permute_x else x[gather // TOPK]
    if config.BLOCK_SIZE_K > K:
        raise ValueError(f"BLOCK_SIZE_K {config.BLOCK_SIZE_K} is larger than K {K}")
    y = np.empty((len(gather), N), dtype=x.dtype)
    first = 0
    for expert, size in enumerate(sizes):
        for m in range(first, first + size, config.BLOCK_SIZE_M):
            last_m = min(m + config.BLOCK_SIZE_M, first + size)
            rows = x[gather[m:last_m] // TOPK] if config.permute_x else sorted_x[m:last_m]
            for n in range(0, N, config.BLOCK_SIZE_N):
                tile = w[expert, n:n + config.BLOCK_SIZE_N]
                sums = np.zeros((last_m - m, len(tile)), dtype=np.float32)
                for k in range(0, K, config.BLOCK_SIZE_K):
                    sums += rows[:, k:k + config.BLOCK_SIZE_K] @ tile[:, k:k + config.BLOCK_SIZE_K].T
                y[m:last_m, n:n + config.BLOCK_SIZE_N] = sums
        first += size
    return y


def assert_close(actual, expected):
    np.testing.assert_allclose(actual, expected, atol=1e-3, rtol=1e-3)


def milliseconds(run, repeats=5):
    """The fastest of several runs."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return 1e3 * min(times)


def matmul_inputs(M, N, K, seed=0):
    """Both operands, and an output that is not a number yet."""
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((M, K), dtype=np.float32), rng.standard_normal((K, N), dtype=np.float32),
            np.full((M, N), np.nan, dtype=np.float32))


def matmul_reference(x, w):
    return x @ w


def tiled_matmul(x, w, out, config):
    (M, K), N = x.shape, w.shape[1]
    for m in range(0, M, config["BLOCK_SIZE_M"]):
        for n in range(0, N, config["BLOCK_SIZE_N"]):
            sums = np.float32(0)
            for k in range(0, K, config["BLOCK_SIZE_K"]):
                sums = sums + (x[m:m + config["BLOCK_SIZE_M"], k:k + config["BLOCK_SIZE_K"]]
                               @ w[k:k + config["BLOCK_SIZE_K"], n:n + config["BLOCK_SIZE_N"]])
            out[m:m + config["BLOCK_SIZE_M"], n:n + config["BLOCK_SIZE_N"]] = sums
    return out
