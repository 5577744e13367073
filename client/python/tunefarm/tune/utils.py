"""Tuning one function in this process, config after config.

The names, signatures and defaults are those that users of such scripts know; the code is tunefarm's own. NumPy, CuPy and
torch are used as far as they are installed and as the outputs demand. A config that corrupts the process or the GPU's
context takes the script with it: the daemon (`tunefarm.Client.tune`) is what isolates.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
import warnings
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from tunefarm import _files
from tunefarm._display import a_type, count_text
from tunefarm._visible import visible
from tunefarm.errors import TunefarmError
from tunefarm.grouped_gemm.tuning_context import is_out_of_resources

Config = Dict[str, Any]

_WARM_UPS = 5
_US_PER_MS = 1e3
_US_PER_NS = 1e-3


class HostClockWarning(RuntimeWarning):
    """A time was read from the host's clock, since the outputs are of no GPU whose events could be read: launches that
    only queue work would look too fast."""


class NoValidConfigError(TunefarmError, AssertionError):
    """Every config failed."""


def tune_kernel(search_space: Iterable[Config], make_run_and_gt_fn: Callable[[Config], Tuple[Callable[[], Any], Any]],
                config_callback: Optional[Callable[[Config], Any]] = None, num_iters: int = 10, atol: float = 1e-2,
                rtol: float = 1e-2) -> Config:
    """The config of the lowest mean latency; the first of equal ones.

    `config_callback(config)` may change a config in place before it is used. `make_run_and_gt_fn(config)` gives a function
    to time and the output that it must have. A config that needs more than the device has is skipped; one that fails
    otherwise, in either function too, is skipped and printed. NoValidConfigError when none is left.
    """
    best: Optional[Config] = None
    best_us = float("inf")
    tried = 0
    last_error: Optional[Exception] = None
    for config in search_space:
        tried += 1
        try:
            if config_callback is not None:
                config_callback(config)
            run, ground_truth = make_run_and_gt_fn(config)
            latency_us = benchmark_config(run, ground_truth, num_iters, atol=atol, rtol=rtol)
        except Exception as error:
            last_error = error
            if not is_out_of_resources(error):
                print(visible(f"Skipped {config}: {type(error).__name__}: {error}"))
            continue
        if latency_us < best_us:
            best, best_us = config, latency_us
    if best is None:
        why = f"; the last error: {last_error}" if last_error is not None else ""
        raise NoValidConfigError(f"none of {count_text(tried, 'config')} was valid{why}", reason="NO_VALID_CONFIG") from last_error
    return best


def benchmark_config(run: Callable[[], Any], ground_truth: Any, num_iters: int = 10, atol: float = 1e-1,
                     rtol: float = 1e-1) -> float:
    """The mean latency of `run()` in microseconds, over `num_iters` calls that are timed one by one after five untimed
    ones. After each timed call its output (an array, a number, or a tuple, list or dict of such) is compared with
    `ground_truth`: AssertionError where it differs by more than atol + rtol * |expected| or in shape. The time is that of
    events of torch or CuPy where the output is theirs and on a GPU, else the host clock's, with a HostClockWarning.
    """
    if num_iters < 1:
        raise ValueError(f"num_iters: {num_iters} is below 1")
    output = None
    for _ in range(_WARM_UPS):
        output = run()
    timed = _timer_for(output)
    total_us = 0.0
    for _ in range(num_iters):
        latency_us, output = timed(run)
        total_us += latency_us
        _assert_close(output, ground_truth, atol, rtol, "the output")
    return total_us / num_iters


def get_search_space(small: bool = False) -> List[Config]:
    """22,500 configs of a tiled matrix product, or 8 to try a script with. Keys: BLOCK_SIZE_M, BLOCK_SIZE_N,
    BLOCK_SIZE_K, GROUP_SIZE_M, num_warps, num_stages, waves_per_eu, matrix_instr_nonkdim."""
    if small:
        stages, block_m, block_k, block_n, warps, group, waves = [2, 3], [16, 32], [64], [32, 64], [4], [1], [2]
    else:
        stages, block_m, block_k = [1, 2, 3, 4, 5], [16, 32, 64, 128, 256], [32, 64, 128]
        block_n, warps, group, waves = [32, 64, 128, 256], [2, 4, 8], [1, 8, 16, 32, 64], [1, 2, 4, 6, 8]
    return [
        {"BLOCK_SIZE_M": m, "BLOCK_SIZE_N": n, "BLOCK_SIZE_K": k, "GROUP_SIZE_M": g, "num_warps": w, "num_stages": s,
         "waves_per_eu": v, "matrix_instr_nonkdim": 16}
        for s, m, k, n, w, g, v in itertools.product(stages, block_m, block_k, block_n, warps, group, waves)
    ]


def save_configs_to_json(json_file_name: str, save_path: str, configs: Mapping[str, Any]) -> None:
    """Writes `configs` to a file in the folder `save_path`, which is made: indented by 4, a newline at the end. The file
    is replaced as a whole, so that a reader never finds half of it."""
    os.makedirs(save_path, exist_ok=True)
    text = json.dumps(configs, indent=4, default=_plain_number) + "\n"
    _files.write(os.path.join(save_path, json_file_name), text)


def _plain_number(value: Any) -> Any:
    """NumPy's and torch's scalars as JSON's."""
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{a_type(value)} has no form in JSON")


def _leaves(output: Any) -> List[Any]:
    if isinstance(output, Mapping):
        return [leaf for value in output.values() for leaf in _leaves(value)]
    if isinstance(output, (tuple, list)):
        return [leaf for value in output for leaf in _leaves(value)]
    return [output]


def _library_of(value: Any) -> str:
    """The package that a value's type comes from ("numpy", "torch", "cupy", "builtins")."""
    return type(value).__module__.split(".")[0]


Timer = Callable[[Callable[[], Any]], Tuple[float, Any]]


def _timer_for(output: Any) -> Timer:
    for leaf in _leaves(output):
        if _library_of(leaf) == "torch" and getattr(leaf, "is_cuda", False):
            return _time_by_torch
        if _library_of(leaf) == "cupy":
            return _time_by_cupy
    warnings.warn("timed by the host's clock: the output is of no GPU whose events could be read", HostClockWarning,
                  stacklevel=3)
    return _time_by_host


def _time_by_host(run: Callable[[], Any]) -> Tuple[float, Any]:
    begin = time.perf_counter_ns()
    output = run()
    return (time.perf_counter_ns() - begin) * _US_PER_NS, output


def _time_by_torch(run: Callable[[], Any]) -> Tuple[float, Any]:
    torch = sys.modules["torch"]
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    output = run()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * _US_PER_MS, output


def _time_by_cupy(run: Callable[[], Any]) -> Tuple[float, Any]:
    cuda = sys.modules["cupy"].cuda
    begin, end = cuda.Event(), cuda.Event()
    begin.record()
    output = run()
    end.record()
    end.synchronize()
    return cuda.get_elapsed_time(begin, end) * _US_PER_MS, output


def _assert_close(output: Any, expected: Any, atol: float, rtol: float, what: str) -> None:
    if isinstance(expected, Mapping):
        if not isinstance(output, Mapping) or set(output) != set(expected):
            raise AssertionError(f"{what} has other keys than expected")
        for key in expected:
            _assert_close(output[key], expected[key], atol, rtol, f"{what}[{key!r}]")
    elif isinstance(expected, (tuple, list)):
        _assert_each(output, expected, atol, rtol, what)
    elif _library_of(expected) == "torch":
        sys.modules["torch"].testing.assert_close(output, expected, atol=atol, rtol=rtol)
    elif hasattr(expected, "shape") and hasattr(expected, "dtype"):
        _assert_arrays(output, expected, atol, rtol, what)
    elif isinstance(expected, (int, float, complex)):
        if not abs(output - expected) <= atol + rtol * abs(expected):
            raise AssertionError(f"{what} is {output}, expected {expected}")
    elif output != expected:
        raise AssertionError(f"{what} is {output!r}, expected {expected!r}")


def _assert_each(output: Any, expected: Sequence[Any], atol: float, rtol: float, what: str) -> None:
    if not isinstance(output, (tuple, list)) or len(output) != len(expected):
        raise AssertionError(f"{what} has another length than expected")
    for at, (own, other) in enumerate(zip(output, expected)):
        _assert_close(own, other, atol, rtol, f"{what}[{at}]")


def _assert_arrays(output: Any, expected: Any, atol: float, rtol: float, what: str) -> None:
    import numpy

    # A number is as good as an array without axes.
    shape = () if isinstance(output, (int, float, complex)) else getattr(output, "shape", None)
    if shape != expected.shape:
        raise AssertionError(f"{what} has the shape {shape}, expected {expected.shape}")
    # CuPy's arrays are compared where NumPy can see them.
    own = output.get() if hasattr(output, "get") else output
    other = expected.get() if hasattr(expected, "get") else expected
    numpy.testing.assert_allclose(own, other, rtol=rtol, atol=atol, equal_nan=False, err_msg=what)
