"""Arrays of any library as arguments of a kernel: where they lie, how many elements of which type they have, and whether
the kernel takes them. Private.

Nothing here imports numpy, torch or CuPy: who hands over such an array has imported its library.
"""

from __future__ import annotations

import contextlib
import ctypes
import operator
import re
import sys
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple, Type

from tunefarm import _cuda
from tunefarm._display import a_type
from tunefarm.errors import InvalidArgumentError

ON_CPU = -1
WORKSPACE_ALIGNMENT = 256  # bytes

# Address, number of elements, type of an element (see type_name), CUDA device (ON_CPU; None: the CPU and all devices may
# use the address), whether it is contiguous in row-major order, whether it may be written.
View = Tuple[int, int, Any, Optional[int], bool, bool]


class Unfit(ValueError):
    """Why a value cannot be an argument: the predicate of a sentence about it, such as "is a list, ..."."""


def place_name(device: int) -> str:
    return "the CPU" if device == ON_CPU else f"CUDA device {device}"


# ---- Types of elements ----

ITEM_BYTES = {"i8": 1, "u8": 1, "i16": 2, "u16": 2, "i32": 4, "u32": 4, "i64": 8, "u64": 8, "f16": 2, "bf16": 2,
              "f32": 4, "f64": 8, "f8e4m3": 1}

# What may stand for a type of a kernel. Raw bits stand for what NumPy has no type of; signed integers stand for
# unsigned ones because PyTorch before 2.3 has only those.
_FITTING = {
    "i8": {"int8"}, "i16": {"int16"}, "i32": {"int32"}, "i64": {"int64"},
    "u8": {"uint8", "bool", "void8"}, "u16": {"uint16", "int16"}, "u32": {"uint32", "int32"},
    "u64": {"uint64", "int64"},
    "f16": {"float16"}, "bf16": {"bfloat16", "uint16", "void16"}, "f32": {"float32"}, "f64": {"float64"},
    "f8e4m3": {"float8_e4m3fn", "uint8", "void8"},
}

_TYPESTRS = {"b1": "bool", "V1": "void8", "V2": "void16"}
for _bytes in (1, 2, 4, 8):
    _TYPESTRS[f"i{_bytes}"], _TYPESTRS[f"u{_bytes}"] = f"int{8 * _bytes}", f"uint{8 * _bytes}"
    _TYPESTRS[f"f{_bytes}"], _TYPESTRS[f"c{_bytes}"] = f"float{8 * _bytes}", f"complex{8 * _bytes}"


def type_name(key: Any) -> str:
    """"float32" of torch.float32, of NumPy's float32 and of "<f4". What is not in this machine's byte order keeps its
    own name, which fits nothing."""
    text = str(key).rpartition(".")[2]
    return _TYPESTRS.get(text.lstrip("<|="), text)


def fits(data_type: str, key: Any) -> bool:
    """Whether elements of type `key` are what a kernel's `data_type` ("bf16") means."""
    name = type_name(key)
    # Of 8-bit floating point a definition names one type; any may be read as bytes.
    return name in _FITTING.get(data_type, ()) or (data_type == "u8" and name.startswith("float8"))


def item_bytes(key: Any) -> int:
    """Of one element."""
    name = type_name(key)
    bits = re.match(r"[a-z]+(\d+)", name)
    if name != "bool" and bits is None:
        raise Unfit(f"has elements of type {name}, whose size is not known")
    return int(bits[1]) // 8 if bits else 1


# ---- Reading ----

def _is_contiguous(shape: Sequence[int], strides: Optional[Sequence[int]], item: int) -> bool:
    """Row-major without gaps. `strides` and `item` in the same unit; None: the interface says that it is so."""
    if strides is None or 0 in shape:
        return True
    for extent, stride in zip(reversed(shape), reversed(strides)):
        if extent != 1 and stride != item:
            return False
        item *= extent
    return True


def _product(shape: Sequence[int]) -> int:
    elements = 1
    for extent in shape:
        if extent < 0:
            raise Unfit(f"has an extent of {extent}")
        elements *= extent
    return elements


def _read_interface(interface: Dict[str, Any], is_cuda: bool) -> View:
    """The dict of __cuda_array_interface__ or __array_interface__."""
    data = interface.get("data")
    if not isinstance(data, tuple):
        raise Unfit("has no address in its array interface")
    if interface.get("mask") is not None:
        raise Unfit("has a mask, which a kernel does not read")
    # Some libraries give the integers of NumPy, which ctypes does not take.
    pointer, is_read_only = operator.index(data[0] or 0), data[1]
    typestr, shape = interface["typestr"], [operator.index(extent) for extent in interface["shape"]]
    device: Optional[int] = ON_CPU
    if is_cuda:
        device = _cuda.device_of(pointer) if pointer else None
    return (pointer, _product(shape), typestr, device,
            _is_contiguous(shape, interface.get("strides"), int(typestr[2:])), not is_read_only)


class _DLTensor(ctypes.Structure):
    """dlpack.h."""

    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


_CAPSULE_POINTER = ctypes.pythonapi.PyCapsule_GetPointer
_CAPSULE_POINTER.argtypes, _CAPSULE_POINTER.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p
_DL_CPU, _DL_CUDA, _DL_CUDA_HOST, _DL_CUDA_MANAGED = 1, 2, 3, 13
_DL_CODES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex"}
_DL_BOOL = 6
_DL_FLOAT8, _DL_FLOAT8_E4M3FN = range(7, 15), 10
_LEGACY_STREAM = 1  # how DLPack names CUDA's default stream


def _read_dlpack(value: Any, stream: Optional[int]) -> View:
    """The producer makes `stream` wait for what it enqueued. The capsule is not consumed: `value` owns the memory."""
    device_type = int(value.__dlpack_device__()[0])
    if device_type == _DL_CUDA:
        capsule = value.__dlpack__(stream=stream or _LEGACY_STREAM)
    elif device_type in (_DL_CPU, _DL_CUDA_HOST, _DL_CUDA_MANAGED):
        capsule = value.__dlpack__()
    else:
        raise Unfit(f"lies on a device of DLPack's type {device_type}; kernels run on CUDA devices and CPUs")
    tensor = _DLTensor.from_address(_CAPSULE_POINTER(capsule, b"dltensor"))
    shape = tensor.shape[:tensor.ndim] if tensor.ndim else []
    strides = tensor.strides[:tensor.ndim] if tensor.strides and tensor.ndim else None
    if tensor.lanes != 1:
        key = f"vectors of {tensor.lanes} elements"
    elif tensor.code == _DL_BOOL:
        key = "bool"
    elif tensor.code in _DL_FLOAT8:
        key = "float8_e4m3fn" if tensor.code == _DL_FLOAT8_E4M3FN else "float8"
    else:
        key = f"{_DL_CODES.get(tensor.code, 'unknown')}{tensor.bits}"
    device = {_DL_CPU: ON_CPU, _DL_CUDA: tensor.device_id}.get(tensor.device_type)
    is_contiguous = _is_contiguous(shape, strides, 1)
    return (tensor.data or 0) + tensor.byte_offset, _product(shape), key, device, is_contiguous, True


def _read_any(value: Any, stream: Optional[int]) -> View:
    if hasattr(value, "data_ptr"):
        pointer, elements = operator.index(value.data_ptr()), operator.index(value.numel())
        return pointer, elements, value.dtype, _cuda.device_of(pointer), value.is_contiguous(), True
    # First, since it knows most types, the device, and the order of what is enqueued.
    if hasattr(value, "__dlpack__"):
        return _read_dlpack(value, stream)
    interface = getattr(value, "__cuda_array_interface__", None)
    if interface is not None:
        return _read_interface(interface, is_cuda=True)
    interface = getattr(value, "__array_interface__", None)
    if interface is not None:
        return _read_interface(interface, is_cuda=False)
    raise Unfit(f"is {a_type(value)}, which is no array: it has neither data_ptr() nor "
                "__dlpack__, __cuda_array_interface__ or __array_interface__")


# ---- Libraries ----

class Other:
    """Arrays of any library, by the interfaces that they have."""

    rank = 0  # the library of highest rank among a launch's arguments says which stream is current and allocates

    @staticmethod
    def read(value: Any, stream: Optional[int]) -> View:
        """`stream`: that of the launch; None: the caller gave none. Raises Unfit, and whatever the interfaces raise."""
        view = _read_any(value, stream)
        pointer, elements = view[:2]
        if not 0 <= pointer < 1 << 64 or not 0 <= elements < 1 << 56:
            raise Unfit(f"says that it has {elements} elements at the address {pointer}, which no memory has")
        return view

    @staticmethod
    def current_stream(device: int) -> int:
        return 0

    @staticmethod
    def allocate(size: int, device: int, stream: int) -> Tuple[Any, int]:
        """Memory of a CUDA device for use on `stream`, and its address."""
        raise Unfit(f"is needed: the kernel uses {size} bytes on CUDA device {device}, and only arrays of PyTorch and "
                    "CuPy say how to allocate them")


class _NumPy(Other):
    @staticmethod
    def read(value: Any, stream: Optional[int]) -> View:
        flags = value.flags
        return (value.__array_interface__["data"][0], value.size, value.dtype, ON_CPU, flags.c_contiguous,
                flags.writeable)


class _MaskedNumPy(Other):
    @staticmethod
    def read(value: Any, stream: Optional[int]) -> View:
        raise Unfit("has a mask, which a kernel does not read")


class _CuPy(Other):
    rank = 1

    @staticmethod
    def read(value: Any, stream: Optional[int]) -> View:
        data = value.data
        return data.ptr, value.size, value.dtype, data.device_id, value.flags.c_contiguous, True

    @staticmethod
    def current_stream(device: int) -> int:
        handle: int = sys.modules["cupy"].cuda.get_current_stream().ptr
        return handle

    @staticmethod
    def allocate(size: int, device: int, stream: int) -> Tuple[Any, int]:
        cupy = sys.modules["cupy"]
        with cupy.cuda.Device(device):
            if stream == cupy.cuda.get_current_stream().ptr:
                memory = cupy.empty(size, dtype="u1")
            else:
                with cupy.cuda.ExternalStream(stream) if stream else cupy.cuda.Stream.null:
                    memory = cupy.empty(size, dtype="u1")
        return memory, memory.data.ptr


_torch_stream: Optional[Callable[[int], int]] = None


class _Torch(Other):
    rank = 2

    @staticmethod
    def read(value: Any, stream: Optional[int]) -> View:
        if value.is_cuda:
            return value.data_ptr(), value.numel(), value.dtype, value.get_device(), value.is_contiguous(), True
        if not value.is_cpu:
            raise Unfit(f"is on {value.device}; kernels run on CUDA devices and CPUs")
        return value.data_ptr(), value.numel(), value.dtype, ON_CPU, value.is_contiguous(), True

    @staticmethod
    def current_stream(device: int) -> int:
        global _torch_stream
        if _torch_stream is None:
            torch = sys.modules["torch"]
            # What PyTorch's own generated code calls; the public function makes an object, which takes 4 µs more.
            _torch_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None) or (
                lambda device: torch.cuda.current_stream(device).cuda_stream)
        handle: int = _torch_stream(device)
        return handle

    @staticmethod
    def allocate(size: int, device: int, stream: int) -> Tuple[Any, int]:
        torch = sys.modules["torch"]
        if stream == _Torch.current_stream(device):
            memory = torch.empty(size, dtype=torch.uint8, device=f"cuda:{device}")
        else:
            own = torch.cuda.ExternalStream(stream, device=device) if stream else torch.cuda.default_stream(device)
            with torch.cuda.stream(own):
                memory = torch.empty(size, dtype=torch.uint8, device=f"cuda:{device}")
        return memory, memory.data_ptr()


# By the type of an array; filled by library_of.
LIBRARIES: Dict[type, Type[Other]] = {}
_tensors: Set[type] = set()  # the types of PyTorch among them


def library_of(kind: type) -> Type[Other]:
    """What reads arrays of that type."""
    known = (("torch", "Tensor", _Torch), ("cupy", "ndarray", _CuPy), ("numpy.ma", "MaskedArray", _MaskedNumPy),
             ("numpy", "ndarray", _NumPy))
    for module, array, library in known:
        base = getattr(sys.modules.get(module), array, None)
        if base is not None and issubclass(kind, base):
            if library is _Torch:
                _tensors.add(kind)
            LIBRARIES[kind] = library
            return library
    LIBRARIES[kind] = Other
    return Other


def stream_handle(stream: Any) -> int:
    """A CUstream of an integer or of a stream of PyTorch, CuPy, or any library with __cuda_stream__."""
    handle = stream if isinstance(stream, int) and not isinstance(stream, bool) else None
    if handle is None:
        handle = getattr(stream, "cuda_stream", None)
    if handle is None and hasattr(stream, "__cuda_stream__"):
        handle = stream.__cuda_stream__()[1]
    if handle is None:
        handle = getattr(stream, "ptr", None)
    if not isinstance(handle, int):
        raise Unfit(f"is {a_type(stream)}, which is no address and has neither cuda_stream, "
                    "__cuda_stream__ nor ptr")
    if not 0 <= handle < 1 << 64:
        raise Unfit(f"is {handle}, which is no address")
    return handle


def current_device() -> int:
    """The CUDA device that PyTorch or CuPy, if they are loaded, take where none is named; else the first."""
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    number = 0
    if torch is not None and torch.cuda.is_available():
        number = torch.cuda.current_device()
    elif cupy is not None and cupy.cuda.is_available():
        number = cupy.cuda.runtime.getDevice()
    return number


# ---- Arguments ----

class _Slot:
    """What one argument takes."""

    __slots__ = ("name", "data_type", "is_input", "item_bytes", "known", "key")

    def __init__(self, name: str, data_type: str, access: str) -> None:
        self.name, self.data_type, self.is_input = name, data_type, access == "IN"
        self.item_bytes = ITEM_BYTES.get(data_type, 0)
        self.known: Set[Any] = set()  # types of elements that fit
        self.key: Any = None  # the last of them, which is found by identity


class Arguments:
    """What a kernel takes: reads and checks what is given for it. May be used from any thread. Every error is an
    InvalidArgumentError that names the argument."""

    def __init__(self, kernel: str, arguments: Sequence[Tuple[str, str, str]], device: int) -> None:
        """`arguments`: names, types of elements ("bf16") and accesses ("IN"). `device`: where they have to lie."""
        self._kernel, self._device = kernel, device
        self._slots = tuple(_Slot(*argument) for argument in arguments)
        self._fitting: Optional[List[Any]] = None  # of tensors: what was found to fit last

    def read(self, values: Sequence[Any], stream: Optional[int], prepares: bool) -> Tuple[List[int], Type[Other]]:
        """The addresses of arrays in the order of the arguments, then their bytes, and the library that allocates and
        says which stream is current. Whether the bytes suffice is for libtunefarm-launch to say. `stream`: that of the
        launch; None: the caller gave none. `prepares`: inputs may be written, too."""
        if self._fitting is not None:
            # Tensors all at once, in half the time of one after another: what has the type and the device of a tensor that
            # fits, as PyTorch's own objects, is read like it.
            try:
                if [(each.dtype, each.device, each.is_contiguous()) for each in values] == self._fitting:
                    return [each.data_ptr() for each in values] + [each.nbytes for each in values], _Torch
            except Exception:  # said below of the one that cannot be read; PyTorch before 2.1 has no nbytes
                pass
        pointers: List[int] = []
        sizes: List[int] = []
        used: Type[Other] = Other
        for slot, value in zip(self._slots, values):
            kind = type(value)
            library = LIBRARIES.get(kind) or library_of(kind)
            if library.rank > used.rank:
                used = library
            try:
                pointer, elements, key, place, is_contiguous, is_writable = library.read(value, stream)
                if ((key is not slot.key and key not in slot.known) or place != self._device or not is_contiguous or
                        not is_writable):
                    self._check(slot, key, place, is_contiguous, is_writable or (slot.is_input and not prepares))
            except Exception as error:
                raise self.refusal(slot.name, error) from error
            pointers.append(pointer)
            sizes.append(elements * slot.item_bytes)
        if values and _tensors.issuperset(map(type, values)):
            with contextlib.suppress(Exception):  # of a subclass whose attributes cannot be read
                self._fitting = [(each.dtype, each.device, each.is_contiguous()) for each in values]
        return pointers + sizes, used

    def _check(self, slot: _Slot, key: Any, place: Optional[int], is_contiguous: bool, may_use: bool) -> None:
        if key not in slot.known:
            if not fits(slot.data_type, key):
                raise Unfit(f"has elements of type {type_name(key)}; the kernel takes {slot.data_type}")
            slot.known.add(key)
            slot.key = key
        self._check_place(place)
        if not is_contiguous:
            raise Unfit("is not contiguous in row-major order; pass a contiguous copy")
        if not may_use:
            raise Unfit("is read-only, and the kernel writes it")

    def _check_place(self, place: Optional[int]) -> None:
        if place is not None and place != self._device:
            raise Unfit(f"is on {place_name(place)}; the kernel was loaded for {place_name(self._device)}")

    def read_workspace(self, workspace: Any, stream: int) -> Tuple[int, int]:
        """Address and bytes of an array that the caller gave."""
        kind = type(workspace)
        try:
            library = LIBRARIES.get(kind) or library_of(kind)
            pointer, elements, key, place, is_contiguous, is_writable = library.read(workspace, stream)
            self._check_place(place)
            if not is_contiguous or not is_writable:
                raise Unfit("is read-only or not contiguous")
            if pointer % WORKSPACE_ALIGNMENT:
                raise Unfit(f"is not aligned to {WORKSPACE_ALIGNMENT} bytes")
            return pointer, elements * item_bytes(key)
        except Exception as error:
            raise self.refusal("workspace", error) from error

    def read_stream(self, stream: Any) -> int:
        try:
            return stream_handle(stream)
        except Exception as error:
            raise self.refusal("stream", error) from error

    def refusal(self, name: str, error: Exception) -> InvalidArgumentError:
        how = str(error) if isinstance(error, Unfit) else f"cannot be read: {error}"
        return InvalidArgumentError(f"argument '{name}' of kernel '{self._kernel}' {how}")
