"""What arrays and launches need of the CUDA driver. Private."""

from __future__ import annotations

import ctypes
import threading
from typing import Any, Dict, Optional

_POINTER_MEMORY_TYPE, _POINTER_DEVICE_ORDINAL = 2, 9
_MEMORY_OF_HOST = 1

_lock = threading.Lock()
_library: Any = None
_is_loaded = False
_primary: Dict[int, ctypes.c_void_p] = {}


def driver() -> Any:
    """libcuda.so.1, initialised; None where there is no driver or no device."""
    global _library, _is_loaded
    if not _is_loaded:
        with _lock:
            if not _is_loaded:
                try:
                    library = ctypes.CDLL("libcuda.so.1")
                    library.cuPointerGetAttribute.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64]
                    _library = library if library.cuInit(0) == 0 else None
                except (OSError, AttributeError):  # AttributeError: another library of that name
                    _library = None
                _is_loaded = True
    return _library


def device_of(pointer: int) -> Optional[int]:
    """The CUDA device that an address belongs to; -1: the CPU; None: both may use it."""
    library = driver()
    if library is None:
        return -1
    kind, device = ctypes.c_uint(0), ctypes.c_int(0)
    if library.cuPointerGetAttribute(ctypes.byref(kind), _POINTER_MEMORY_TYPE, pointer) != 0:
        return -1  # an address that the driver does not know
    if kind.value == _MEMORY_OF_HOST:
        return None
    if library.cuPointerGetAttribute(ctypes.byref(device), _POINTER_DEVICE_ORDINAL, pointer) != 0:
        return None
    return device.value


def current_device() -> Optional[int]:
    """The device of this thread's current context; None if it has none."""
    library = driver()
    device = ctypes.c_int(0)
    return device.value if library is not None and library.cuCtxGetDevice(ctypes.byref(device)) == 0 else None


class on_device:
    """`with on_device(0):` makes the device's primary context, which PyTorch, CuPy and JAX use, current."""

    def __init__(self, device: int) -> None:
        self._library = driver()
        if device not in _primary:  # what frees memory, at any moment, finds it here and takes no lock
            with _lock:
                number, context = ctypes.c_int(0), ctypes.c_void_p(None)
                if (self._library is None or self._library.cuDeviceGet(ctypes.byref(number), device) != 0 or
                        self._library.cuDevicePrimaryCtxRetain(ctypes.byref(context), number) != 0):
                    raise LookupError(f"there is no CUDA device {device} that this process can use")
                _primary[device] = context
        self._context = _primary[device]

    @property
    def context(self) -> int:
        """Its address."""
        return self._context.value or 0

    def __enter__(self) -> None:
        if self._library.cuCtxPushCurrent_v2(self._context) != 0:
            raise LookupError("the CUDA driver takes no context any more")

    def __exit__(self, *_: object) -> None:
        self._library.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p(None)))


def context_of(device: int) -> int:
    """The address of the context in which launches on the device run: this thread's current one if it is the device's,
    else the primary one."""
    context = ctypes.c_void_p(None)
    library = driver()
    if current_device() == device and library.cuCtxGetCurrent(ctypes.byref(context)) == 0:
        return context.value or 0
    return on_device(device).context


def call(device: int, name: str, *arguments: Any) -> int:
    """A function of the driver in that context; its status. LookupError where there is no such device."""
    if current_device() == device:
        status: int = getattr(driver(), name)(*arguments)
        return status
    with on_device(device):
        status = getattr(driver(), name)(*arguments)
        return status
