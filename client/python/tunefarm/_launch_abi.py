"""tunefarm/launch.h for ctypes: its structures, its functions, its errors. Private."""

from __future__ import annotations

import ctypes
import os
import threading
from pathlib import Path
from typing import Any, Optional

from tunefarm.errors import InvalidArgumentError, LaunchError, NotFoundError, ResourceExhaustedError, TunefarmError

SONAME = "libtunefarm-launch.so.1"

OK = 0
STATUSES = ("OK", "INVALID_ARGUMENT", "NOT_FOUND", "BAD_PACKAGE", "INCOMPATIBLE", "NO_DEVICE", "STALE", "DEVICE_ERROR",
            "OUT_OF_MEMORY")
NO_DEVICE = STATUSES.index("NO_DEVICE")
MATCHES = ("EXACT", "NEAREST", "SAME_ARCH", "DEFAULT")
ACCESSES = {1: "IN", 2: "OUT", 3: "INOUT"}
BOOL, INT, FLOAT, STRING = range(4)


class Error(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("message", ctypes.c_char * 1016)]


class Value(ctypes.Union):
    _fields_ = [("number", ctypes.c_int64), ("real", ctypes.c_double), ("text", ctypes.c_char_p)]


class Dim(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("type", ctypes.c_int), ("value", Value)]


class LoadOptions(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("device", ctypes.c_int32)]


class Argument(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("data_type", ctypes.c_char_p),
                ("access", ctypes.c_int)]


class Plan(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("generation", ctypes.c_uint64), ("workspace_bytes", ctypes.c_uint64),
                ("needs_prepare", ctypes.c_int32), ("match", ctypes.c_int), ("distance", ctypes.c_double),
                ("median_ns", ctypes.c_double), ("config", ctypes.c_char_p)]


class Launch(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("stream", ctypes.c_void_p), ("dims", ctypes.POINTER(ctypes.c_int64)),
                ("dim_count", ctypes.c_size_t), ("arguments", ctypes.POINTER(ctypes.c_void_p)),
                ("argument_count", ctypes.c_size_t), ("argument_bytes", ctypes.POINTER(ctypes.c_uint64)),
                ("workspace", ctypes.c_void_p), ("workspace_bytes", ctypes.c_uint64), ("generation", ctypes.c_uint64)]


# Structures that begin with their size, by their names in the header.
SIZED = {"tunefarm_error": Error, "tunefarm_load_options": LoadOptions, "tunefarm_argument": Argument,
         "tunefarm_plan": Plan, "tunefarm_launch": Launch}


def sized(structure: Any) -> Any:
    """An empty one that knows its size."""
    return structure(size=ctypes.sizeof(structure))


_HANDLE, _HANDLES = ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)
_ERROR = ctypes.POINTER(Error)
_DIMS = ctypes.POINTER(ctypes.c_int64)
# Name: result, parameters.
FUNCTIONS = {
    "tunefarm_package_open": (ctypes.c_int, [ctypes.c_char_p, _HANDLES, _ERROR]),
    "tunefarm_package_open_bytes": (ctypes.c_int, [ctypes.c_char_p, ctypes.c_size_t, _HANDLES, _ERROR]),
    "tunefarm_package_close": (None, [_HANDLE]),
    "tunefarm_package_kernel_count": (ctypes.c_size_t, [_HANDLE]),
    "tunefarm_package_kernel_name": (ctypes.c_char_p, [_HANDLE, ctypes.c_size_t]),
    "tunefarm_kernel_load": (ctypes.c_int, [_HANDLE, ctypes.c_char_p, ctypes.POINTER(Dim), ctypes.c_size_t,
                                            ctypes.POINTER(LoadOptions), _HANDLES, _ERROR]),
    "tunefarm_kernel_update": (ctypes.c_int, [_HANDLE, _HANDLE, _ERROR]),
    "tunefarm_kernel_close": (None, [_HANDLE]),
    "tunefarm_kernel_device": (ctypes.c_int32, [_HANDLE]),
    "tunefarm_kernel_dim_count": (ctypes.c_size_t, [_HANDLE]),
    "tunefarm_kernel_dim_name": (ctypes.c_char_p, [_HANDLE, ctypes.c_size_t]),
    "tunefarm_kernel_argument_count": (ctypes.c_size_t, [_HANDLE]),
    "tunefarm_kernel_argument": (ctypes.c_int, [_HANDLE, ctypes.c_size_t, ctypes.POINTER(Argument), _ERROR]),
    "tunefarm_kernel_plan": (ctypes.c_int, [_HANDLE, _DIMS, ctypes.c_size_t, ctypes.POINTER(Plan), _ERROR]),
    "tunefarm_kernel_prepare": (ctypes.c_int, [_HANDLE, ctypes.POINTER(Launch), _ERROR]),
    "tunefarm_kernel_launch": (ctypes.c_int, [_HANDLE, ctypes.POINTER(Launch), _ERROR]),
}

_lock = threading.Lock()
_library: Optional[ctypes.CDLL] = None


def library() -> ctypes.CDLL:
    """libtunefarm-launch, found once: by TUNEFARM_LAUNCH_LIBRARY, in this folder, in the build tree of this folder, or
    where the loader looks."""
    global _library
    if _library is None:
        with _lock:
            if _library is None:
                _library = _load()
    return _library


def _load() -> ctypes.CDLL:
    given = os.environ.get("TUNEFARM_LAUNCH_LIBRARY")
    package = Path(__file__).resolve().parent
    # A build tree has this package in build/PRESET/python/tunefarm.
    near = [package / SONAME, package.parents[1] / "client" / "launch" / SONAME]
    place = given or next((str(path) for path in near if path.exists()), SONAME)
    try:
        found = ctypes.CDLL(place)
    except OSError as error:
        if given:
            message = f"TUNEFARM_LAUNCH_LIBRARY names a library that cannot be loaded: {error}"
        else:
            message = (f"launching needs {SONAME}, which cannot be loaded ({error}); install it in {package} or "
                       "where the loader looks, or set TUNEFARM_LAUNCH_LIBRARY to its path")
        raise LaunchError(message, code="NO_LIBRARY") from None
    for name, (result, parameters) in FUNCTIONS.items():
        function = getattr(found, name, None)
        if function is None:
            raise LaunchError(f"{place} has no {name}: it is older than this package, or another library",
                              code="NO_LIBRARY")
        function.restype, function.argtypes = result, parameters
    return found


_ERRORS = {"INVALID_ARGUMENT": InvalidArgumentError, "BAD_PACKAGE": InvalidArgumentError, "NOT_FOUND": NotFoundError,
           "OUT_OF_MEMORY": ResourceExhaustedError}


def failure(status: int, error: Error) -> TunefarmError:
    """The exception of a status other than OK."""
    code = STATUSES[status] if 0 <= status < len(STATUSES) else f"STATUS_{status}"
    message = error.message.decode("utf-8", "surrogateescape") or f"libtunefarm-launch answered {code}"
    return _ERRORS.get(code, LaunchError)(message, code=code)


def check(status: int, error: Error) -> None:
    if status != OK:
        raise failure(status, error)
