"""Kernels that stand in Python as strings or files, tuned and run by one call, with the names, the order and the meaning
of Kernel Tuner's arguments.

    from tunefarm import tune_kernel

    results, env = tune_kernel("vector_add", code, size, [c, a, b, n], {"block_size_x": [32, 64, 128, 256]})
    results.best.launch(c, a, b, n)

Kernels are in CUDA C++ or C++. The daemon compiles, runs, checks and times each config; what is said of a kernel here
becomes a definition like any other (tunefarm.v1.Kernel), and arrays are uploaded by content.
"""

from tunefarm.inline._results import Best, Results, Tuning
from tunefarm.inline._tune import run_kernel, tune_kernel

__all__ = ["Best", "Results", "Tuning", "run_kernel", "tune_kernel"]
