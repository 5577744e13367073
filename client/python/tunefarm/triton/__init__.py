"""Triton kernels that stand in Python, tuned by the daemon.

    from tunefarm.triton import tune

    results = tune(add, [x, y, out, n], space={"BLOCK": [256, 512, 1024], "num_warps": [2, 4, 8]},
                   grid=lambda META: (triton.cdiv(n, META["BLOCK"]),), outputs=["out"])
    add[(triton.cdiv(n, results.best["BLOCK"]),)](x, y, out, n, **results.best)

The daemon compiles each config without a GPU, runs, checks and times it in a process of its own. Neither this package nor
the definition that it makes needs Triton to be imported by anything but the caller.
"""

from tunefarm.triton._tune import Results, tune

__all__ = ["Results", "tune"]
