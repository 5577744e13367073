"""Operations on arrays of NumPy, torch and CuPy: finding them in return values, copying and poisoning. torch and CuPy
are never imported here: the package of an array is loaded already."""

from __future__ import annotations

import sys
from typing import Any, List, Mapping, Tuple

# One for each of the two checks of a trial.
POISON_BYTES = (0xA5, 0x5A)


class NotAnArray(TypeError):
    """An output or ground truth is not an array or a number, or cannot be written."""


def package_of(value: Any) -> str:
    """The package that defines the type of a value ("numpy", "torch", "cupy", "builtins")."""
    return type(value).__module__.split(".")[0]


def leaves(value: Any, name: str = "output") -> List[Tuple[str, Any]]:
    """Returns the arrays and numbers in nested tuples, lists and dicts, each with a name for messages. Raises
    NotAnArray for anything else."""
    if isinstance(value, Mapping):
        return [leaf for key, item in value.items() for leaf in leaves(item, f"{name}[{key!r}]")]
    if isinstance(value, (tuple, list)):
        return [leaf for at, item in enumerate(value) for leaf in leaves(item, f"{name}[{at}]")]
    if is_array(value):
        return [(name, value)]
    if isinstance(value, (bool, int, float)):
        import numpy

        return [(name, numpy.asarray(value))]
    raise NotAnArray(f"{name} is of type {type(value).__name__}, not an array of NumPy, torch or CuPy, nor a number")


def is_array(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype") and library_of(value) is not None


def library_of(value: Any) -> Any:
    """Returns the numpy, torch or cupy module that the array belongs to, or None."""
    package = package_of(value)
    if package in ("torch", "cupy"):
        return sys.modules[package]
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, getattr(torch, "Tensor", ())):
        return torch
    numpy = sys.modules.get("numpy")
    return numpy if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)) else None


def is_on_gpu(value: Any) -> bool:
    return package_of(value) == "cupy" or bool(getattr(value, "is_cuda", False))


def copy(value: Any) -> Any:
    """Returns a copy with its own memory on the same device."""
    if hasattr(value, "detach"):
        return value.detach().clone()
    return value.copy()


def is_floating(value: Any) -> bool:
    dtype = value.dtype
    if hasattr(dtype, "is_floating_point"):
        return bool(dtype.is_floating_point or dtype.is_complex)
    return dtype.kind in "fc" or (dtype.kind == "V" and "float" in str(dtype))


def is_complex(value: Any) -> bool:
    return "complex" in str(value.dtype)


def is_truth(value: Any) -> bool:
    return str(value.dtype).split(".")[-1] in ("bool", "bool_")


def poison(value: Any, pattern: int) -> bool:
    """Overwrites every element: floats with NaN, integers with the byte of the pattern, bools with its lowest bit.
    Returns False if the array cannot be written."""
    flags = getattr(value, "flags", None)
    if not hasattr(value, "detach") and flags is not None and not getattr(flags, "writeable", True):
        return False
    if package_of(value) == "numpy" and not hasattr(value, "fill"):
        return False
    target = value.detach() if hasattr(value, "detach") else value
    filler = target.fill_ if hasattr(target, "fill_") else target.fill
    byte = POISON_BYTES[pattern % 2]
    if is_floating(value):
        try:
            filler(complex(float("nan"), float("nan")) if is_complex(value) else float("nan"))
        except (RuntimeError, TypeError, ValueError):
            return _poison_bytes(target, 0xFF)  # 8-bit floats in some releases; all bits set is NaN.
    elif is_truth(value):
        filler(bool(byte & 1))
    else:
        return _poison_bytes(target, byte)
    return True


def _poison_bytes(target: Any, byte: int) -> bool:
    library = library_of(target)
    try:
        seen = target.view(library.uint8)
        (seen.fill_ if hasattr(seen, "fill_") else seen.fill)(byte)
    except (RuntimeError, TypeError, ValueError):
        # There is no view as bytes, as for a slice with strides.
        filler = target.fill_ if hasattr(target, "fill_") else target.fill
        filler(int.from_bytes(bytes([byte & 0x7F]) * int(target.dtype.itemsize), "little"))
    return True
