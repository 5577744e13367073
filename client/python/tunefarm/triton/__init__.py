"""Triton kernels that stand in Python, tuned by the daemon.

    from tunefarm.triton import tune

    results = tune(add, [x, y, out, n], space={"BLOCK": [256, 512, 1024], "num_warps": [2, 4, 8]},
                   grid=lambda META: (triton.cdiv(n, META["BLOCK"]),), outputs=["out"])
    add[(triton.cdiv(n, results.best["BLOCK"]),)](x, y, out, n, **results.best)

The daemon compiles each config without a GPU, runs, checks and times it in a process of its own. Programs that use
@triton.autotune stay as they are:

    import tunefarm.triton

    tunefarm.triton.install()  # before the kernels are defined; or @tunefarm.triton.autotune in place of @triton.autotune

Neither gRPC nor NumPy is imported before install() or the first launch; PyTorch is not imported. RemoteCache is a backend of
Triton's RemoteCacheManager, which names it by TRITON_REMOTE_CACHE_BACKEND=tunefarm.triton:RemoteCache.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tunefarm.triton._autotune import autotune, install

if TYPE_CHECKING:
    from tunefarm.triton._remote_cache import RemoteCache
    from tunefarm.triton._tune import Results, tune

__all__ = ["RemoteCache", "Results", "autotune", "install", "tune"]

_MODULES = {"RemoteCache": "_remote_cache", "Results": "_tune", "tune": "_tune"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'tunefarm.triton' has no attribute '{name}'")
    return getattr(importlib.import_module(f"tunefarm.triton.{_MODULES[name]}"), name)
