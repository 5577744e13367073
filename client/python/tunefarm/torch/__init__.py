"""Tuned kernels of packages as operators of PyTorch.

    import tunefarm.torch

    tunefarm.torch.load("moe.tfpack")           # or TUNEFARM_PACKAGES=moe.tfpack:more.tfpack in the environment
    y = tunefarm.torch.grouped_mm(x, w.transpose(-2, -1), offs)                   # in place of torch._grouped_mm
    out = tunefarm.torch.moe_mlp(x, w_up, w_down, topk_ids, topk_weights)         # a whole layer of experts
    a = tunefarm.torch.grouped_gate_up(x, w_up, offs)                             # its first product and activation
    y = tunefarm.torch.scaled_grouped_mm(x_fp8, w_fp8.transpose(-2, -1), x_scales, w_scales.transpose(-2, -1), offs)

All work in torch.compile, with rows as a dynamic size, and in CUDA graphs, and are differentiable but for products in
fp8. What no loaded package has a tuned kernel for is computed by torch, which the logger "tunefarm.torch" says once for
each reason. Products in fp8 with block scales torch does not compute: they need a package with their kernel.

Needs torch 2.8 or newer and libtunefarm-launch.so.1; neither grpcio nor a daemon. May be used from any thread.
"""

from __future__ import annotations

from tunefarm.torch._gate_up import grouped_gate_up
from tunefarm.torch._grouped_mm import grouped_mm, load
from tunefarm.torch._moe import moe_mlp
from tunefarm.torch._scaled_grouped_mm import scaled_grouped_mm

__all__ = ["grouped_gate_up", "grouped_mm", "load", "moe_mlp", "scaled_grouped_mm"]
