#!/usr/bin/env python3
"""A tuning script in six steps: tunes a tiled matrix product for several batch sizes and writes the table that a runtime
picks its config from.

The kernel here is NumPy on the CPU, so that the script runs anywhere; put your own kernel in its place. Needs NumPy.
Writes DEVICE-GEMM-TILED.json into the directory that is named (default: configs).
"""

import argparse
import itertools
import platform
import time
import warnings

import numpy as np

from tunefarm.tune.utils import (HostClockWarning, get_search_space, save_configs_to_json, tune_kernel)

try:
    from tqdm import tqdm
except ImportError:
    def tqdm(items, **_):
        return items


# Step 1: inputs and the output, for given dimensions and config.
def generate_inputs(M, N, K, config, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((M, K), dtype=np.float32), rng.standard_normal((K, N), dtype=np.float32),
            np.full((M, N), np.nan, dtype=np.float32))


# Step 2: the reference.
def reference(x, w):
    return x @ w


# The kernel that is tuned.
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


# Step 3: a factory of what tune_kernel asks for each config: a function to time, and what it must give.
def make_run_and_gt_factory(M, N, K):
    def make_run_and_gt(config):
        x, w, out = generate_inputs(M, N, K, config)
        return (lambda: tiled_matmul(x, w, out, config)), reference(x, w)

    return make_run_and_gt


# Step 4: one problem.
def tune_gemm(M, N, K, search_space):
    # Copies: a callback may change a config in place.
    return tune_kernel([dict(config) for config in search_space], make_run_and_gt_factory(M, N, K), num_iters=3)


# Step 5: many batch sizes; of each bucket the last one's config stays.
def bucket_of(M):
    return "small" if M <= 256 else "medium" if M <= 2048 else "large"


def tune_batches(batch_sizes, N, K, search_space, save_path):
    begin = time.time()
    configs = {bucket_of(M): tune_gemm(M, N, K, search_space) for M in tqdm(batch_sizes)}
    device = platform.machine()
    save_configs_to_json(f"{device}-GEMM-TILED.json", save_path, configs)
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
    arguments = parser.parse_args()
    # The host's clock is the right one for NumPy.
    warnings.simplefilter("ignore", HostClockWarning)
    search_space = custom_search_space() if arguments.custom else get_search_space(small=True)
    print(f"{len(search_space)} configs")
    for bucket, config in tune_batches([64, 256, 512, 2304], 64, 128, search_space, arguments.save_path).items():
        print(bucket, config)


if __name__ == "__main__":
    main()
