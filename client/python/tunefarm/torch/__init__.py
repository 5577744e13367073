"""Tuned kernels of packages as operators of PyTorch.

    import tunefarm.torch

    tunefarm.torch.load("moe.tfpack")           # or TUNEFARM_PACKAGES=moe.tfpack:more.tfpack in the environment
    y = tunefarm.torch.grouped_mm(x, w.transpose(-2, -1), offs)                   # in place of torch._grouped_mm
    out = tunefarm.torch.moe_mlp(x, w_up, w_down, topk_ids, topk_weights)         # a whole layer of experts

Both are differentiable and work in torch.compile, with rows as a dynamic size, and in CUDA graphs. What no loaded
package has a tuned kernel for is computed by torch; the logger "tunefarm.torch" says so once for each reason.

Needs torch 2.8 or newer and libtunefarm-launch.so.1; neither grpcio nor a daemon. May be used from any thread.
"""

from __future__ import annotations

from tunefarm.torch._grouped_mm import grouped_mm, load
from tunefarm.torch._moe import moe_mlp

__all__ = ["grouped_mm", "load", "moe_mlp"]
