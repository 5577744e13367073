"""tunefarm from Python.

    import tunefarm

    job = tunefarm.tune("matmul_host", dims={"M": 256, "N": 256, "K": 256})
    print(job.best.config, job.best.time_ns)
    with tunefarm.Client() as client:
        print(client.best("matmul_host", M=256, N=256, K=256).config)

`Client` makes the daemon's calls; `tune_kernel` and `run_kernel` take a kernel in a string, with Kernel Tuner's arguments
(`tunefarm.inline`), and `tunefarm.triton.tune` a function of Triton; `tunefarm.launch` launches tuned kernels,
`tunefarm.torch` has them as operators of PyTorch, and `tunefarm.grouped_gemm.tuning` and `tunefarm.tune.utils` are helpers
for tuning scripts: these need no daemon (and no gRPC). `tunefarm.tune` is that package and the blocking call in one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tunefarm.errors import (AbortedError, DeadlineExceededError, FailedPreconditionError, InternalError,
                             InvalidArgumentError, JobCancelledError, JobFailedError, LaunchError, NotFoundError,
                             PermissionDeniedError, ResourceExhaustedError, TunefarmError, UnavailableError)
from tunefarm.model import (Answer, BatchAnswer, BatchConfigs, BestConfig, Device, DeviceClass, DeviceKind, DeviceState,
                            Dim, Energy, Job, JobEvent, JobState, Kernel, Language, Match, Measurement, Outcome,
                            Parameter, Problem, Progress, ResourceUse, ServerInfo, Study, StudyState, Trial,
                            TrialPurpose)

if TYPE_CHECKING:
    from tunefarm._plot import plot
    from tunefarm._run import Run
    from tunefarm.client import Client, tune_job
    from tunefarm.client import tune_job as tune
    from tunefarm.inline import run_kernel, tune_kernel
    from tunefarm.results import Results

__version__ = "0.1.0"

__all__ = [
    "AbortedError", "Answer", "BatchAnswer", "BatchConfigs", "BestConfig", "Client", "DeadlineExceededError", "Device",
    "DeviceClass", "DeviceKind", "DeviceState", "Dim", "Energy", "FailedPreconditionError", "InternalError",
    "InvalidArgumentError", "Job", "JobCancelledError", "JobEvent", "JobFailedError", "JobState", "Kernel", "Language",
    "LaunchError", "Match", "Measurement", "NotFoundError", "Outcome", "Parameter", "PermissionDeniedError", "Problem",
    "Progress", "ResourceExhaustedError", "ResourceUse", "Results", "Run", "ServerInfo", "Study", "StudyState", "Trial",
    "TrialPurpose", "TunefarmError", "UnavailableError", "plot", "run_kernel", "tune", "tune_job", "tune_kernel",
]

# What needs gRPC is loaded when it is first named, so that the helpers for tuning scripts work without.
_LAZY = {"Client": "tunefarm.client", "tune_job": "tunefarm.client", "plot": "tunefarm._plot",
         "Results": "tunefarm.results", "Run": "tunefarm._run", "run_kernel": "tunefarm.inline",
         "tune_kernel": "tunefarm.inline"}


def __getattr__(name: str) -> Any:
    import importlib

    if name in ("tune", "launch", "torch", "triton"):
        return importlib.import_module(f"tunefarm.{name}")
    if name not in _LAZY:
        raise AttributeError(f"module 'tunefarm' has no attribute '{name}'")
    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value
