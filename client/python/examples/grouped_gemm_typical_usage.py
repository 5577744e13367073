#!/usr/bin/env python3
"""Times hand-made and listed configs of a grouped matrix product against a baseline, and prints a table.

The kernel is a tiled product in NumPy, so that the script runs anywhere, or, with --triton, one for the GPU; put your own
in its place. Writes gemm_benchmark.csv into the current directory.
"""

import argparse
import importlib

from tunefarm.grouped_gemm.tuning import (KernelConfigBackward_dW, KernelConfigBackward_dX, KernelConfigForward,
                                          KernelResult, TritonTuningContext, get_kernel_configs)

# The configs of a layer's first product: rows are gathered on the way in.
FORWARD = KernelConfigForward(BLOCK_SIZE_M=128, BLOCK_SIZE_N=128, BLOCK_SIZE_K=64, num_warps=8, num_stages=4,
                              permute_x=True, use_tma_load_w=True)
BACKWARD_DX = KernelConfigBackward_dX(BLOCK_SIZE_M=128, BLOCK_SIZE_N=128, BLOCK_SIZE_K=64, num_warps=8, num_stages=4,
                                      permute_x=True, use_tma_load_w=True, use_tma_store=False)
BACKWARD_DW = KernelConfigBackward_dW(BLOCK_SIZE_M=128, BLOCK_SIZE_N=128, BLOCK_SIZE_K=64, num_warps=8, num_stages=4,
                                      permute_x=True, use_tma_load_dy=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--triton", action="store_true", help="the kernel in triton_kernels.py: needs a GPU, torch and Triton")
    arguments = parser.parse_args()
    kernels = importlib.import_module("triton_kernels" if arguments.triton else "numpy_kernels")

    layer = kernels.make_layer()
    expected = kernels.grouped_gemm_baseline(*layer)
    for config in (FORWARD, BACKWARD_DX, BACKWARD_DW):
        print(f"{type(config).__name__}: {config.to_string(include_tuning_params=True, include_tma=True)}")

    forward_configs, dw_configs, dx_configs = get_kernel_configs(num_warps=[8], num_stages=[4], use_tma_loads=[False])
    print(f"{len(forward_configs)} forward, {len(dw_configs)} dW and {len(dx_configs)} dX configs")

    results = []
    for config in [FORWARD, *forward_configs]:
        with TritonTuningContext(config) as context:
            kernels.assert_close(kernels.grouped_gemm(*layer, config), expected)
            triton_time = kernels.milliseconds(lambda: kernels.grouped_gemm(*layer, config))
            torch_time = kernels.milliseconds(lambda: kernels.grouped_gemm_baseline(*layer))
        if context.success:
            results.append(KernelResult(torch_time, triton_time, torch_time / triton_time, config))

    KernelResult.print_table(results)
    KernelResult.to_csv(results, filename="gemm_benchmark.csv")


if __name__ == "__main__":
    main()
