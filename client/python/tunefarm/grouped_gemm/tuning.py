"""Configs, their pruning, results and a context for scripts that tune grouped matrix products themselves.

The names, signatures, defaults and formats are those that users of such scripts know; the code is tunefarm's own. Needs
neither torch nor Triton, and pandas only for KernelResult.to_dataframe. To tune with crash isolation, verification and
a database, use the kernels grouped_gemm_* by `tunefarm.Client.tune` instead.
"""

from tunefarm.grouped_gemm.device_properties import DeviceProperties, get_device_properties
from tunefarm.grouped_gemm.kernel_configs import (BOOLS, DEFAULT_K_BLOCK_SIZES, DEFAULT_M_BLOCK_SIZES,
                                                  DEFAULT_N_BLOCK_SIZES, DEFAULT_NUM_STAGES, DEFAULT_NUM_WARPS,
                                                  KernelConfig, KernelConfigBackward_dW, KernelConfigBackward_dX,
                                                  KernelConfigForward, get_kernel_configs,
                                                  prune_kernel_configs_backward_dW, prune_kernel_configs_backward_dX,
                                                  prune_kernel_configs_fwd)
from tunefarm.grouped_gemm.kernel_result import KernelResult
from tunefarm.grouped_gemm.tuning_context import TritonTuningContext

__all__ = [
    "BOOLS", "DEFAULT_K_BLOCK_SIZES", "DEFAULT_M_BLOCK_SIZES", "DEFAULT_NUM_STAGES", "DEFAULT_NUM_WARPS",
    "DEFAULT_N_BLOCK_SIZES", "DeviceProperties", "KernelConfig", "KernelConfigBackward_dW", "KernelConfigBackward_dX",
    "KernelConfigForward", "KernelResult", "TritonTuningContext", "get_device_properties", "get_kernel_configs",
    "prune_kernel_configs_backward_dW", "prune_kernel_configs_backward_dX", "prune_kernel_configs_fwd",
]
