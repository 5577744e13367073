#!/usr/bin/env python3
"""Times hand-made and listed configs of a grouped matrix product against a baseline, and prints a table.

The kernel here is a tiled product in NumPy, so that the script runs anywhere; put your own kernel in its place. Needs
NumPy. Writes gemm_benchmark.csv into the current directory.
"""

import time

import numpy as np

from tunefarm.grouped_gemm.tuning import (KernelConfigBackward_dW, KernelConfigBackward_dX, KernelConfigForward,
                                          KernelResult, TritonTuningContext, get_kernel_configs)

# The configs of a layer's first product: rows are gathered on the way in.
FORWARD = KernelConfigForward(BLOCK_SIZE_M=128, BLOCK_SIZE_N=128, BLOCK_SIZE_K=64, num_warps=8, num_stages=4,
                              permute_x=True, use_tma_load_w=True)
BACKWARD_DX = KernelConfigBackward_dX(BLOCK_SIZE_M=128, BLOCK_SIZE_N=128, BLOCK_SIZE_K=64, num_warps=8, num_stages=4,
                                      permute_x=True, use_tma_load_w=True, use_tma_store=False)
BACKWARD_DW = KernelConfigBackward_dW(BLOCK_SIZE_M=128, BLOCK_SIZE_N=128, BLOCK_SIZE_K=64, num_warps=8, num_stages=4,
                                      permute_x=True, use_tma_load_dy=True)

# A small layer: experts, tokens, experts for each token, and the sizes of the product.
EXPERTS, TOKENS, TOPK, N, K = 4, 96, 2, 160, 128


def make_layer(seed=0):
    """Activations of the tokens, weights, sizes of the groups, and the rows in the order of their experts."""
    rng = np.random.default_rng(seed)
    chosen = np.argsort(rng.random((TOKENS, EXPERTS)), axis=1)[:, :TOPK].reshape(-1)
    gather = np.argsort(chosen, kind="stable")
    return (rng.standard_normal((TOKENS, K), dtype=np.float32), rng.standard_normal((EXPERTS, N, K), dtype=np.float32),
            np.bincount(chosen, minlength=EXPERTS), gather)


def baseline(x, w, sizes, gather):
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


def milliseconds(run, repeats=5):
    """The fastest of several runs."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return 1e3 * min(times)


def main():
    layer = make_layer()
    expected = baseline(*layer)
    for config in (FORWARD, BACKWARD_DX, BACKWARD_DW):
        print(f"{type(config).__name__}: {config.to_string(include_tuning_params=True, include_tma=True)}")

    forward_configs, dw_configs, dx_configs = get_kernel_configs(num_warps=[8], num_stages=[4], use_tma_loads=[False])
    print(f"{len(forward_configs)} forward, {len(dw_configs)} dW and {len(dx_configs)} dX configs")

    results = []
    for config in [FORWARD, *forward_configs]:
        with TritonTuningContext(config) as context:
            np.testing.assert_allclose(grouped_gemm(*layer, config), expected, atol=1e-3, rtol=1e-3)
            triton_time = milliseconds(lambda: grouped_gemm(*layer, config))
            torch_time = milliseconds(lambda: baseline(*layer))
        if context.success:
            results.append(KernelResult(torch_time, triton_time, torch_time / triton_time, config))

    KernelResult.print_table(results)
    KernelResult.to_csv(results, filename="gemm_benchmark.csv")


if __name__ == "__main__":
    main()
