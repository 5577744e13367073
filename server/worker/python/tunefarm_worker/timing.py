"""Measures a function sample by sample: with CUDA events if torch or CuPy run it on a GPU, otherwise with the
host's steady clock. The stopping rules are those of server/measure: the confidence interval of the median is narrow
enough, the budget is spent, or the config cannot win any more."""

from __future__ import annotations

import array
import ctypes
import math
import sys
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from . import arrays, messages

_SAMPLES_MAX = 4096
_SAMPLES_FEWEST = 3
_COVERAGE = 0.95
# Shortest sample by the host's clock; a warm sample of a shorter function has several calls.
_SAMPLE_NS_MIN = 50_000.0
_LAUNCHES_PER_SAMPLE_MAX = 1000
_FLUSH_BYTES_MIN, _FLUSH_BYTES_MAX = 8 << 20, 512 << 20
# Keeps the GPU busy while the launches are queued: the interpreter takes tens of microseconds for each.
_HEAD_START_CYCLES = 500_000


class Interval(NamedTuple):
    low: float
    high: float
    coverage: float


def median(ordered: List[float]) -> float:
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def median_interval(ordered: List[float]) -> Interval:
    """Returns the narrowest symmetric order statistics that cover the median with 95 %, or the extremes if none do."""
    count = len(ordered)
    tail, best = 0.0, 0
    coverage = 1 - 2 * 0.5 ** count
    term = 0.5 ** count
    for rank in range(1, count // 2 + 1):
        # term: the chance that exactly rank - 1 samples lie below.
        tail += term
        if 1 - 2 * tail < _COVERAGE:
            break
        best, coverage = rank, 1 - 2 * tail
        term *= (count - rank + 1) / rank
    low = max(best, 1) - 1
    return Interval(ordered[low], ordered[count - 1 - low], coverage)


class Timer:
    """Measures with the host's clock. sample() returns the nanoseconds of all `launches` calls together."""

    method = messages.METHOD_STEADY_CLOCK

    def __init__(self, cache_bytes: int) -> None:
        size = min(max(2 * cache_bytes, _FLUSH_BYTES_MIN), _FLUSH_BYTES_MAX)
        self._buffer = ctypes.create_string_buffer(size)
        self._byte = 0

    def flush(self) -> None:
        self._byte = (self._byte + 1) % 256
        ctypes.memset(self._buffer, self._byte, len(self._buffer))

    def sample(self, run: Callable[[], Any], launches: int, cold: bool) -> float:
        if cold:
            self.flush()
        begin = time.perf_counter_ns()
        for _ in range(launches):
            run()
        return float(time.perf_counter_ns() - begin)


class TorchTimer(Timer):
    method = messages.METHOD_CUDA_EVENTS

    def __init__(self, cache_bytes: int) -> None:
        self._torch = sys.modules["torch"]
        size = min(max(4 * cache_bytes, 256 << 20), _FLUSH_BYTES_MAX)
        self._flushed = self._torch.empty(size, dtype=self._torch.uint8, device="cuda")

    def flush(self) -> None:
        self._flushed.zero_()

    def sample(self, run: Callable[[], Any], launches: int, cold: bool) -> float:
        cuda = self._torch.cuda
        begin, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        if hasattr(cuda, "_sleep"):
            cuda._sleep(_HEAD_START_CYCLES)
        if cold:
            self.flush()
        begin.record()
        for _ in range(launches):
            run()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) * 1e6


class CupyTimer(Timer):
    method = messages.METHOD_CUDA_EVENTS

    def __init__(self, cache_bytes: int) -> None:
        self._cupy = sys.modules["cupy"]
        size = min(max(4 * cache_bytes, 256 << 20), _FLUSH_BYTES_MAX)
        self._flushed = self._cupy.empty(size, dtype=self._cupy.uint8)

    def flush(self) -> None:
        self._flushed.fill(0)

    def sample(self, run: Callable[[], Any], launches: int, cold: bool) -> float:
        cuda = self._cupy.cuda
        begin, end = cuda.Event(), cuda.Event()
        if cold:
            self.flush()
        begin.record()
        for _ in range(launches):
            run()
        end.record()
        end.synchronize()
        return float(cuda.get_elapsed_time(begin, end)) * 1e6


def synchronize(value: Any) -> None:
    """Waits for the GPU that holds the array, and raises the errors of its queued work."""
    if arrays.package_of(value) == "cupy":
        sys.modules["cupy"].cuda.Device().synchronize()
    else:
        sys.modules["torch"].cuda.synchronize()


def timer_for(outputs: List[Any], cache_bytes: int) -> Timer:
    """Returns the timer for the device that holds the outputs."""
    for value in outputs:
        if arrays.is_on_gpu(value):
            return CupyTimer(cache_bytes) if arrays.package_of(value) == "cupy" else TorchTimer(cache_bytes)
    return Timer(cache_bytes)


def measure(run: Callable[[], Any], timer: Timer, policy: Dict[str, Any], race_limit_ns: float,
            keep_samples: bool) -> Dict[str, Any]:
    """Returns a Measurement. Raises what `run` raises."""
    budget_ns = policy.get("time_budget_ms", 500) * 1e6
    cold = not policy.get("warm_cache", False)
    began = time.perf_counter_ns()
    first = timer.sample(run, 1, cold)
    warm_ups = 1
    while warm_ups < policy.get("warmup_launches", 1) and time.perf_counter_ns() - began < budget_ns:
        first = min(first, timer.sample(run, 1, cold))
        warm_ups += 1
    launches = 1
    if not cold and 0 < first < _SAMPLE_NS_MIN:
        launches = min(int(math.ceil(_SAMPLE_NS_MIN / first)), _LAUNCHES_PER_SAMPLE_MAX)
    sampling = _Sampling(policy, 0.0 if policy.get("no_early_stop") else race_limit_ns)
    sampling_began = time.perf_counter_ns()
    while sampling.stop_reason is None:
        nanoseconds = timer.sample(run, launches, cold) / launches
        sampling.add(max(nanoseconds, 1.0), time.perf_counter_ns() - sampling_began > budget_ns)
    measurement = sampling.measurement()
    measurement.update(launches_per_sample=launches, method=timer.method, cold_cache=cold, input_copies=1,
                       device_busy_ms=(time.perf_counter_ns() - began) / 1e6)
    if keep_samples:
        measurement["sample_ns"] = single_precision(sampling.samples)
    return measurement


def single_precision(samples: List[float]) -> List[float]:
    """Rounds to 32-bit floats, as the field sample_ns holds them, in the nine digits that identify each: all digits of
    doubles would make the JSON twice as long."""
    return [float(f"{sample:.9g}") for sample in array.array("f", samples)]


def is_noisy(measurement: Dict[str, Any], policy: Dict[str, Any]) -> bool:
    limit = policy.get("noisy_relative_half_width", 0.5)
    middle = measurement["median_ns"]
    reach = max(measurement["ci_high_ns"] - middle, middle - measurement["ci_low_ns"])
    return limit > 0 and reach > limit * middle and measurement["stop_reason"] != messages.STOP_LOSING


class _Sampling:
    def __init__(self, policy: Dict[str, Any], race_limit_ns: float) -> None:
        self.samples: List[float] = []
        self.stop_reason: Optional[int] = None
        self._most = min(max(policy.get("max_samples", 100), 1), _SAMPLES_MAX)
        self._fewest = min(max(policy.get("min_samples", 10), _SAMPLES_FEWEST), max(self._most, _SAMPLES_FEWEST))
        self._target = policy.get("target_relative_half_width", 0.01)
        self._race_limit_ns = race_limit_ns
        self._next_look = self._fewest
        if race_limit_ns > 0:
            self._next_look = max(min(self._fewest, policy.get("first_look_samples", 6)), _SAMPLES_FEWEST)

    def add(self, nanoseconds: float, is_time_spent: bool) -> None:
        self.samples.append(nanoseconds)
        count = len(self.samples)
        if count < _SAMPLES_FEWEST:
            return
        is_count_spent = count >= self._most
        if count >= self._next_look or is_time_spent or is_count_spent:
            self._look()
        if self.stop_reason is None and is_count_spent:
            self.stop_reason = messages.STOP_SAMPLE_BUDGET
        elif self.stop_reason is None and is_time_spent:
            self.stop_reason = messages.STOP_TIME_BUDGET

    def _look(self) -> None:
        ordered = sorted(self.samples)
        count, middle, interval = len(ordered), median(ordered), median_interval(ordered)
        self._next_look = count + max(count // 4, 1)
        if count < self._fewest:
            self._next_look = min(self._next_look, self._fewest)
        # The whole interval is beyond the limit: the config cannot win.
        if self._race_limit_ns > 0 and count >= 5 and interval.low > self._race_limit_ns * 1.02:
            self.stop_reason = messages.STOP_LOSING
        elif count >= self._fewest and interval.coverage >= _COVERAGE:
            if (interval.high - interval.low) / 2 <= self._target * middle:
                self.stop_reason = messages.STOP_CONVERGED

    def measurement(self) -> Dict[str, Any]:
        ordered = sorted(self.samples)
        count, interval = len(ordered), median_interval(ordered)
        mean = sum(ordered) / count
        deviation = math.sqrt(sum((value - mean) ** 2 for value in ordered) / max(count - 1, 1))
        return {
            "median_ns": median(ordered), "ci_low_ns": interval.low, "ci_high_ns": interval.high, "min_ns": ordered[0],
            "max_ns": ordered[-1], "mean_ns": mean, "stdev_ns": deviation, "samples": count,
            "converged": self.stop_reason == messages.STOP_CONVERGED, "stop_reason": self.stop_reason or 0,
        }
