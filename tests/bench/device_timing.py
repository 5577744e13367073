"""Times of single calls on a GPU as its events see them, and comparisons with a reference, for the scripts beside this one.

Before each sample 256 MB are written, which displaces the L2 cache. The queue is kept filled: a kernel that only spins goes
ahead, so that the device begins with a call when the host has enqueued all of it. Where it began earlier, the sample could
hold time of the host: it is taken again behind a longer spin.
"""

import math
import random
import statistics

ROW_NORM_BOUND = 5e-3  # ||out - reference|| / ||reference|| of each row, as kernels/grouped_gemm/*.pbtxt have it for bf16
ATOL, RTOL = 0.01, 0.008
_TRIES_MAX = 12


class DeviceTimer:
    """One stream's samples. One thread."""

    def __init__(self, torch):
        self.torch = torch
        self.retaken = 0
        self._flushed = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
        self._spin_us = 100.0
        torch.cuda._sleep(1_000_000)
        self._cycles_per_us = 1_000_000 / min(self._elapsed_us(lambda: torch.cuda._sleep(1_000_000)) for _ in range(3))

    def _events(self):
        return tuple(self.torch.cuda.Event(enable_timing=True) for _ in range(2))

    def _elapsed_us(self, call):
        begin, end = self._events()
        begin.record()
        call()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e3

    def spin(self, microseconds):
        self.torch.cuda._sleep(int(microseconds * self._cycles_per_us))

    def begin_set(self):
        """Of calls that are compared with each other: all wait behind the same spin, which is as long as one of them needs."""
        self._spin_us = 100.0

    def sample_us(self, call):
        for _ in range(_TRIES_MAX):
            begin, end = self._events()
            self.spin(self._spin_us)
            self._flushed.zero_()
            begin.record()
            call()
            end.record()
            is_late = begin.query()
            end.synchronize()
            if not is_late:
                return begin.elapsed_time(end) * 1e3
            self.retaken += 1
            self._spin_us *= 1.5
        raise RuntimeError(f"the host needs more than {self._spin_us / 1e3:.0f} ms to enqueue one call")

    def batch_us(self, call, samples):
        """Samples that are enqueued at once, as the worker takes them; the time of an empty pair of events is subtracted."""
        pairs = [self._events() for _ in range(samples)]
        empty = [self._events() for _ in range(5)]
        self.spin(self._spin_us)
        for begin, end in empty:
            self._flushed.zero_()
            begin.record()
            end.record()
        for begin, end in pairs:
            self._flushed.zero_()
            begin.record()
            call()
            end.record()
        self.torch.cuda.synchronize()
        overhead = statistics.median(begin.elapsed_time(end) for begin, end in empty)
        return [(begin.elapsed_time(end) - overhead) * 1e3 for begin, end in pairs]

    def median_us(self, call, samples=5, warm=2):
        for _ in range(warm):
            call()
        return statistics.median(self.sample_us(call) for _ in range(samples))

    def bandwidth(self):
        """Bytes/s of a copy of 1 GiB, both ways counted."""
        source = self.torch.randn(1 << 28, device="cuda")
        target = self.torch.empty_like(source)
        return 2 * source.numel() * 4 / self.median_us(lambda: target.copy_(source), samples=15) * 1e6

    def limits(self):
        """FLOP/s of a dense bf16 product of 8192^3 with normal operands, and bytes/s of a copy."""
        torch = self.torch
        a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        peak = 2 * 8192**3 / self.median_us(lambda: torch.mm(a, b), samples=15) * 1e6
        return peak, self.bandwidth()

    def fp8_limits(self):
        """FLOP/s of a dense e4m3 product of 8192^3 with normal operands, each scaled as a whole, and bytes/s of a copy."""
        torch = self.torch

        def quantised():
            values = torch.randn(8192, 8192, device="cuda")
            scale = values.abs().max() / 448
            return (values / scale).to(torch.float8_e4m3fn), scale

        (a, a_scale), (b, b_scale) = quantised(), quantised()
        us = self.median_us(lambda: torch._scaled_mm(a, b.t(), scale_a=a_scale, scale_b=b_scale, out_dtype=torch.bfloat16,
                                                     use_fast_accum=True), samples=15)
        return 2 * 8192**3 / us * 1e6, self.bandwidth()


def alternate(timer, calls, rounds, seed):
    """name -> microseconds of each round. In each round every call has one sample, in a random order."""
    drawn = random.Random(seed)
    samples = {name: [] for name in calls}
    for call in calls.values():
        for _ in range(2):
            call()
    for _ in range(rounds):
        order = list(calls)
        drawn.shuffle(order)
        for name in order:
            samples[name].append(timer.sample_us(calls[name]))
    return samples


def spread(samples):
    """Half the distance of the quartiles, as a part of the median."""
    if len(samples) < 4:
        return 0.0
    low, middle, high = statistics.quantiles(samples, n=4)
    return (high - low) / 2 / middle


def paired_ratio(above, below):
    """Of two calls' samples of the same rounds: the median of their ratios, from which drifts of the clocks cancel."""
    return statistics.median(a / b for a, b in zip(above, below))


def worst_row(torch, out, reference, slice_rows=8192, bound=ROW_NORM_BOUND, atol=ATOL, rtol=RTOL):
    """(the largest ||out - reference|| / ||reference|| of a row, whether all rows and elements are within the bounds).

    `reference` is float32; both are compared as matrices whose rows are those of the last dimension."""
    if out.shape != reference.shape:
        return math.inf, False
    out, reference = out.reshape(-1, out.shape[-1]), reference.reshape(-1, reference.shape[-1])
    worst, fits = 0.0, True
    for first in range(0, out.shape[0], slice_rows):
        expected = reference[first:first + slice_rows]
        difference = out[first:first + slice_rows].float().sub_(expected)
        norms, expected_norms = difference.norm(dim=-1), expected.norm(dim=-1)
        rows_fit = (norms <= bound * expected_norms).all()
        elements_fit = (difference.abs_() <= expected.abs().mul_(rtol).add_(atol)).all()
        fits = fits and bool(rows_fit) and bool(elements_fit)  # NaN fits nothing
        worst = max(worst, float((norms / expected_norms.clamp_min(1e-30)).max()))
    return worst, fits
