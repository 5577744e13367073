"""The header of a .npy file (versions 1.0 to 3.0 of numpy.lib.format), read without NumPy. Private."""

from __future__ import annotations

import ast
import math
from typing import Any, BinaryIO, NamedTuple

from tunefarm._visible import visible
from tunefarm.errors import InvalidArgumentError

MAGIC = b"\x93NUMPY"
_HEADER_BYTES_MAX = 64 << 10
_DIMENSIONS_MAX = 64
# "" is a raw type: its width is known, and what its bits mean is said elsewhere. ml_dtypes writes float8_e5m2 as "f1", and
# all its other types of 8 bits as "V1".
_TYPES = {"i1": "i8", "i2": "i16", "i4": "i32", "i8": "i64", "u1": "u8", "u2": "u16", "u4": "u32", "u8": "u64",
          "b1": "u8", "f2": "f16", "f4": "f32", "f8": "f64", "V1": "", "V2": "", "f1": ""}


class Header(NamedTuple):
    """What lies before the elements."""

    data_type: str      # "f32"; "" for raw types
    dtype: str          # NumPy's name of it, "f4"
    element_bytes: int  # of one element
    data_offset: int    # where the elements begin
    data_bytes: int     # of all elements, at least 1


def element_type(text: str, name: str) -> "tuple[str, str, int]":
    """The type, NumPy's name ("f4") and the width of "<f4". InvalidArgumentError begins with `name`."""
    order, kind = (text[0], text[1:]) if text[:1] in ("<", ">", "=", "|") else ("|", text)
    if kind.startswith("O"):
        raise InvalidArgumentError(f"{name} holds pickled Python objects (dtype object); convert it to numbers, for "
                                   "example by array.astype(numpy.float32), and save it again")
    if kind not in _TYPES:
        raise InvalidArgumentError(
            f"{name} has elements of dtype '{visible(text[:64])}', which no buffer has; convert it to integers of 8 to "
            "64 bits or floats of 16 to 64 bits by array.astype, or to a raw type of 1 or 2 bytes by array.view")
    if order == ">" and kind[1] != "1":
        raise InvalidArgumentError(f"{name} is big-endian (dtype '{text}'); save "
                                   "array.astype(array.dtype.newbyteorder('<')) instead")
    return _TYPES[kind], kind, int(kind[1])


def read_header(file: BinaryIO, file_bytes: int, name: str) -> Header:
    """Reads from the start of a file of `file_bytes` that errors call `name`. InvalidArgumentError for what is no .npy
    file that a buffer can be filled from, with what to do."""
    file.seek(0)
    start = file.read(12)
    if start[:6] != MAGIC:
        raise InvalidArgumentError(f"{name} is no .npy file: it does not begin with \\x93NUMPY; write it by numpy.save, "
                                   "or give a file of raw elements a name that does not end in .npy")
    version = tuple(start[6:8])
    if len(version) == 2 and version not in ((1, 0), (2, 0), (3, 0)):
        raise InvalidArgumentError(f"{name} has version {version[0]}.{version[1]} of the .npy format; 1.0 to 3.0 are "
                                   "read: save it again by numpy.save")
    length_bytes = 2 if version == (1, 0) else 4
    if len(start) < 8 + length_bytes:
        raise InvalidArgumentError(_truncated(name, "its header is incomplete"))
    length = int.from_bytes(start[8:8 + length_bytes], "little")
    if length > _HEADER_BYTES_MAX:
        raise InvalidArgumentError(f"{name} has a .npy header of {length} bytes; at most {_HEADER_BYTES_MAX} are read: "
                                   "save a plain array by numpy.save")
    file.seek(8 + length_bytes)
    raw = file.read(length)
    if len(raw) < length:
        raise InvalidArgumentError(_truncated(name, "its header is incomplete"))
    fields = _fields(raw, version, name)
    descr, shape = fields["descr"], fields["shape"]
    if not isinstance(descr, str):
        raise InvalidArgumentError(f"{name} has a structured dtype; save each field as a file of its own, for example "
                                   "numpy.ascontiguousarray(array['x'])")
    data_type, dtype, width = element_type(descr, name)
    if fields["fortran_order"] and sum(extent != 1 for extent in shape) > 1:
        raise InvalidArgumentError(f"{name} is in Fortran order; save numpy.ascontiguousarray(array) instead")
    data_bytes = math.prod(shape) * width
    if data_bytes == 0:
        raise InvalidArgumentError(f"{name} holds no elements: its shape is {shape}")
    offset = 8 + length_bytes + length
    if offset + data_bytes > file_bytes:
        raise InvalidArgumentError(_truncated(
            name, f"its header promises {data_bytes} bytes of elements, and {file_bytes - offset} follow"))
    if offset + data_bytes < file_bytes:
        raise InvalidArgumentError(f"{name} has {file_bytes - offset - data_bytes} bytes behind its elements; write one "
                                   "array to a file by numpy.save")
    return Header(data_type, dtype, width, offset, data_bytes)


def _truncated(name: str, why: str) -> str:
    return f"{name} is truncated: {why}; write or copy it again"


def _fields(raw: bytes, version: "tuple[int, ...]", name: str) -> "dict[str, Any]":
    try:
        fields = ast.literal_eval(raw.decode("utf-8" if version == (3, 0) else "latin-1").strip())
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        fields = None
    is_whole = isinstance(fields, dict) and fields.keys() == {"descr", "fortran_order", "shape"}
    if not is_whole or not isinstance(fields["fortran_order"], bool) or not _is_shape(fields["shape"]):
        raise InvalidArgumentError(f"{name} has a damaged .npy header: it is no dictionary of descr, fortran_order and "
                                   "shape; save it again by numpy.save")
    return fields


def _is_shape(shape: Any) -> bool:
    return (isinstance(shape, tuple) and len(shape) <= _DIMENSIONS_MAX and
            all(type(extent) is int and 0 <= extent < 1 << 63 for extent in shape))
