"""Compares outputs with the ground truth by the rules of server/worker/verify, for arrays of NumPy, torch and CuPy, on
the device that holds them."""

from __future__ import annotations

import contextlib
import sys
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from . import arrays

FIRST_MISMATCHES_MAX = 8
# Elements compared at a time: 64 MiB as doubles, for each of several temporaries.
_CHUNK_ELEMENTS = 1 << 23
# Of a ground truth that is looked at for a constant, as in server/worker/verify/compare.cc.
_CONSTANT_ELEMENTS_MIN, _CONSTANT_ELEMENTS_MAX = 16, 1 << 20


class Tolerance(NamedTuple):
    atol: float = 0.0
    rtol: float = 0.0
    max_mismatch_fraction: float = 0.0
    catastrophic_bound: float = 0.0
    row_norm_bound: float = 0.0
    row_length: int = 0


class Check:
    """The findings in all outputs of one run."""

    def __init__(self) -> None:
        self.elements = 0
        self.mismatches = 0
        self.max_absolute_error = 0.0
        self.max_relative_error = 0.0
        self.first: List[Dict[str, Any]] = []
        self.wrong: Optional[str] = None  # the first reason for a failure, in one sentence

    def verification(self) -> Dict[str, Any]:
        return {
            "elements": self.elements,
            "mismatches": self.mismatches,
            "max_absolute_error": self.max_absolute_error,
            "max_relative_error": self.max_relative_error,
            "first_mismatches": self.first[:FIRST_MISMATCHES_MAX],
        }

    def fail(self, reason: str) -> None:
        if self.wrong is None:
            self.wrong = reason


def compare(outputs: List[Tuple[str, Any]], expected: List[Tuple[str, Any]], tolerance: Tolerance) -> Check:
    numpy = sys.modules.get("numpy")
    # NumPy's warnings about NaN would go to standard error, which is the log of the config.
    with numpy.errstate(all="ignore") if numpy is not None else contextlib.nullcontext():
        return _compare(outputs, expected, tolerance)


def _compare(outputs: List[Tuple[str, Any]], expected: List[Tuple[str, Any]], tolerance: Tolerance) -> Check:
    check = Check()
    if len(outputs) != len(expected):
        check.fail(f"run() has {len(outputs)} outputs, the ground truth has {len(expected)}")
        return check
    for (name, own), (_, other) in zip(outputs, expected):
        if tuple(own.shape) != tuple(other.shape):
            check.fail(f"{name} has the shape {tuple(own.shape)}, the ground truth has {tuple(other.shape)}")
        elif (arrays.is_floating(own), arrays.is_complex(own)) != (arrays.is_floating(other), arrays.is_complex(other)):
            check.fail(f"{name} is of type {own.dtype}, the ground truth of {other.dtype}")
        elif arrays.is_complex(own):
            truth = _beside(other, own)
            _compare_one(f"{name}.real", own.real, truth.real, tolerance, check)
            _compare_one(f"{name}.imag", own.imag, truth.imag, tolerance, check)
        else:
            _compare_one(name, own, _beside(other, own), tolerance, check)
    return check


def constant_note(expected: List[Tuple[str, Any]], tolerance: Tolerance) -> str:
    """Returns a sentence about the first ground truth that a constant would pass for; empty where there is none."""
    for name, truth in expected:
        constant = passing_constant(truth, tolerance)
        if constant is not None:
            return (f"The comparison says little: {constant:.6g} in every element would pass for {name}, which varies by no "
                    "more than the tolerance.")
    return ""


def passing_constant(truth: Any, tolerance: Tolerance) -> Optional[float]:
    """Returns a value that passes for every element of the ground truth, so that the comparison says nothing, or None:
    also for fewer than 16 elements, and where rows are compared by their norm. NaN stands for what is not written."""
    if tolerance.row_norm_bound > 0 or arrays.is_complex(truth):
        return None
    library = arrays.library_of(truth)
    written = _doubles(library, truth.reshape(-1)[:_CONSTANT_ELEMENTS_MAX])
    written = written[~library.isnan(written)]
    if int(written.shape[0]) < _CONSTANT_ELEMENTS_MIN or not bool(library.isfinite(written).all()):
        return None
    if arrays.is_floating(truth):
        allowed = tolerance.atol + tolerance.rtol * library.abs(written)
    else:
        allowed = tolerance.atol if tolerance.atol >= 1 else 0.0
    low, high = float((written - allowed).max()), float((written + allowed).min())
    return low / 2 + high / 2 if low <= high else None


def _beside(value: Any, own: Any) -> Any:
    """Returns `value` as an array of the package and on the device of `own`."""
    library, other = arrays.library_of(own), arrays.library_of(value)
    if library is other:
        return value.to(own.device) if hasattr(value, "to") and hasattr(own, "device") else value
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = (value if arrays.is_complex(value) else value.double()).numpy()
    elif hasattr(value, "get"):
        value = value.get()
    if hasattr(own, "detach"):
        return library.as_tensor(value, device=own.device)
    return library.asarray(value)


def _doubles(library: Any, chunk: Any) -> Any:
    return chunk.to(library.float64) if hasattr(chunk, "detach") else chunk.astype(library.float64)


def _compare_one(name: str, own: Any, other: Any, tolerance: Tolerance, check: Check) -> None:
    library = arrays.library_of(own)
    floating = arrays.is_floating(own)
    flat, truth = own.reshape(-1), other.reshape(-1)
    count = int(flat.shape[0])
    check.elements += count
    if count == 0:
        return
    if floating and _all_nan(library, truth):
        check.fail(f"the ground truth of {name} contains only NaN")
        return
    bound = float("inf")
    if tolerance.catastrophic_bound > 0:
        bound = tolerance.catastrophic_bound * _largest(library, truth)
    rows = tolerance.row_length if tolerance.row_norm_bound > 0 else 0
    if rows > 0 and count % rows != 0:
        check.fail(f"{name} has {count} elements, which is not a multiple of the row length {rows}")
        return
    step = _CHUNK_ELEMENTS if rows == 0 else max(rows, _CHUNK_ELEMENTS // rows * rows)
    missed = hard = 0
    for begin in range(0, count, step):
        parts = (flat[begin:begin + step], truth[begin:begin + step])
        a, b = _doubles(library, parts[0]), _doubles(library, parts[1])
        bad, beyond, error = _misses(library, parts, a, b, floating, tolerance, bound)
        missed += int(bad.sum())
        hard += int(beyond.sum())
        _note_errors(library, error, b, check)
        _note_first(library, name, begin, bad, a, b, check)
        if rows > 0:
            _check_rows(library, name, begin, error, b, tolerance, check)
    check.mismatches += missed
    allowed = int(tolerance.max_mismatch_fraction * count)
    if missed > allowed or hard > 0:
        at = check.first[0] if check.first else {"index": 0, "actual": 0.0, "expected": 0.0}
        check.fail(f"{missed} of {count} elements of {name} differ from the ground truth; the first at "
                   f"{at['index']} is {at['actual']:g} instead of {at['expected']:g}")


def _misses(library: Any, parts: Tuple[Any, Any], a: Any, b: Any, floating: bool, tolerance: Tolerance,
            bound: float) -> Tuple[Any, Any, Any]:
    """Returns which elements mismatch, which of these no tolerated share excuses, and the absolute errors."""
    if not floating:
        differs = parts[0] != parts[1]
        error = library.abs(a - b)
        bad = differs & (error > tolerance.atol) if tolerance.atol >= 1 else differs
        return bad, bad & (error > bound), error
    nan_a, nan_b = library.isnan(a), library.isnan(b)
    equal = (a == b) | (nan_a & nan_b)
    unclear = (nan_a != nan_b) | ((library.isinf(a) | library.isinf(b)) & (a != b) & ~(nan_a | nan_b))
    error = library.abs(a - b)
    error = library.where(equal | unclear, library.zeros_like(error), error)
    limit = tolerance.atol + tolerance.rtol * library.abs(b)
    beyond = unclear | (error > bound)
    return ~equal & (beyond | ~(error <= limit)), beyond, error


def _note_errors(library: Any, error: Any, b: Any, check: Check) -> None:
    check.max_absolute_error = max(check.max_absolute_error, float(error.max()))
    known = (b != 0) & ~library.isnan(b) & ~library.isinf(b)
    if bool(known.any()):
        check.max_relative_error = max(check.max_relative_error, float((error[known] / library.abs(b[known])).max()))


def _note_first(library: Any, name: str, begin: int, bad: Any, a: Any, b: Any, check: Check) -> None:
    if len(check.first) >= FIRST_MISMATCHES_MAX or not bool(bad.any()):
        return
    for index in library.where(bad)[0][:FIRST_MISMATCHES_MAX]:
        at = int(index)
        check.first.append({"buffer": name, "index": begin + at, "actual": float(a[at]), "expected": float(b[at])})


def _check_rows(library: Any, name: str, begin: int, error: Any, b: Any, tolerance: Tolerance, check: Check) -> None:
    length = tolerance.row_length
    finite = library.where(library.isnan(b) | library.isinf(b), library.zeros_like(b), b)
    off = (error.reshape(-1, length) ** 2).sum(1)
    size = (finite.reshape(-1, length) ** 2).sum(1)
    bad = off > tolerance.row_norm_bound ** 2 * size
    if bool(bad.any()):
        row = begin // length + int(library.where(bad)[0][0])
        check.fail(f"row {row} of {name} differs by more than {tolerance.row_norm_bound:g} of its norm")


def _all_nan(library: Any, flat: Any) -> bool:
    # As doubles: torch has few operations on 8-bit floats. The first element spares most arrays the pass over them.
    return all(bool(library.isnan(_doubles(library, part)).all()) for part in (flat[:1], flat))


def _largest(library: Any, flat: Any) -> float:
    largest = 0.0
    for begin in range(0, int(flat.shape[0]), _CHUNK_ELEMENTS):
        part = library.abs(_doubles(library, flat[begin:begin + _CHUNK_ELEMENTS]))
        part = library.where(library.isnan(part) | library.isinf(part), library.zeros_like(part), part)
        largest = max(largest, float(part.max()))
    return largest
