#!/usr/bin/env python3
"""A tuning script in six steps: tunes a tiled matrix product for several batch sizes and writes the table that a runtime
picks its config from.

The kernel is NumPy on the CPU, so that the script runs anywhere, or, with --triton, one for the GPU; put your own in its
place. Writes DEVICE-GEMM-TILED.json into the directory that is named (default: configs).
"""

import argparse
import importlib
import itertools
import time
import warnings

from tunefarm.tune.utils import (HostClockWarning, get_search_space, save_configs_to_json, tune_kernel)

try:
    from tqdm import tqdm
except ImportError:
    def tqdm(items, **_):
        return items


# Step 1: inputs and the output, for given dimensions and config. Here they are the same for every config.
def generate_inputs(kernels, M, N, K, config):
    return kernels.matmul_inputs(M, N, K)


# Step 2: the reference.
def reference(kernels, x, w):
    return kernels.matmul_reference(x, w)


# Step 3: a factory of what tune_kernel asks for each config: a function to time, and what it must give.
def make_run_and_gt_factory(kernels, M, N, K):
    def make_run_and_gt(config):
        x, w, out = generate_inputs(kernels, M, N, K, config)
        return (lambda: kernels.tiled_matmul(x, w, out, config)), reference(kernels, x, w)

    return make_run_and_gt


# Step 4: one problem.
def tune_gemm(kernels, M, N, K, search_space):
    # Copies: a callback may change a config in place.
    return tune_kernel([dict(config) for config in search_space], make_run_and_gt_factory(kernels, M, N, K), num_iters=3)


# Step 5: many batch sizes; of each bucket the last one's config stays.
def bucket_of(M):
    return "small" if M <= 256 else "medium" if M <= 2048 else "large"


def tune_batches(kernels, batch_sizes, N, K, search_space, save_path):
    begin = time.time()
    configs = {bucket_of(M): tune_gemm(kernels, M, N, K, search_space) for M in tqdm(batch_sizes)}
    save_configs_to_json(f"{kernels.DEVICE}-GEMM-TILED.json", save_path, configs)
    print(f"Tuning took {time.time() - begin:.1f} seconds")
    return configs


# Step 6, if wanted: a search space of one's own.
def custom_search_space():
    space = []
    for stages, block_m, block_k, block_n, warps in itertools.product([1, 2, 3, 4], [32, 64, 128], [64, 128],
                                                                      [32, 64, 128], [2, 4, 8]):
        space.append({"BLOCK_SIZE_M": block_m, "BLOCK_SIZE_N": block_n, "BLOCK_SIZE_K": block_k, "GROUP_SIZE_M": 1,
                      "num_warps": warps, "num_stages": stages})
    return space


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("save_path", nargs="?", default="configs")
    parser.add_argument("--custom", action="store_true", help="search the custom space of 216 configs")
    parser.add_argument("--triton", action="store_true", help="the kernel in triton_kernels.py: needs a GPU, torch and Triton")
    arguments = parser.parse_args()
    kernels = importlib.import_module("triton_kernels" if arguments.triton else "numpy_kernels")
    if not arguments.triton:
        warnings.simplefilter("ignore", HostClockWarning)  # The host's clock is the right one for NumPy.
    search_space = custom_search_space() if arguments.custom else get_search_space(small=True)
    print(f"{len(search_space)} configs")
    best = tune_batches(kernels, [64, 256, 512, 2304], kernels.MATMUL_N, kernels.MATMUL_K, search_space, arguments.save_path)
    for bucket, config in best.items():
        print(bucket, config)


if __name__ == "__main__":
    main()
