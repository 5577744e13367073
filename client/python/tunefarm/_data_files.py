"""The users' own data: hashed here, and uploaded by content where the daemon lacks it. Private."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import time
from pathlib import Path
from typing import Any, BinaryIO, Callable, Iterator, NamedTuple, Optional, Sequence, Tuple, Union

from tunefarm import _files, _npy, _progress
from tunefarm._display import a_type
from tunefarm.errors import AbortedError, InvalidArgumentError, ResourceExhaustedError
from tunefarm.v1 import data_file_service_pb2, kernel_pb2

PathLike = Union[str, "os.PathLike[str]"]

BYTES_MAX = 2 << 30
_PART_BYTES = 1 << 20
# How often an upload may be set back: by a part that others began with other bytes, or by a daemon that needed the space.
_SETBACKS_MAX = 5
_RATE_WAIT_SECONDS_MAX = 10.0
_SHOWN_BYTES_MIN = 8 << 20  # smaller ones are sent before anybody wonders
WIDTHS = {"i8": 1, "u8": 1, "i16": 2, "u16": 2, "i32": 4, "u32": 4, "i64": 8, "u64": 8, "f16": 2, "bf16": 2, "f32": 4,
           "f64": 8, "f8e4m3": 1}
# Of types that NumPy lacks: as what its arrays hold their bits.
BITS = {"bf16": "u2", "f8e4m3": "u1"}


def type_number(data_type: str) -> Any:
    """The enumerator of "bf16"."""
    if data_type not in WIDTHS:
        raise InvalidArgumentError(f"data_type: '{data_type}'; write one of {', '.join(WIDTHS)}")
    return kernel_pb2.DataType.Value("DATA_TYPE_" + data_type.upper())


class Content:
    """Bytes that are read twice: for their digest, and to upload what the daemon lacks of them."""

    def __init__(self, name: str, size: int) -> None:
        if size == 0:
            raise InvalidArgumentError(f"{name} holds no elements")
        if size > BYTES_MAX:
            raise InvalidArgumentError(f"{name} holds {size} bytes; a data file has at most {BYTES_MAX} (2 GiB)")
        self.name = name
        self.size = size

    def part(self, offset: int) -> bytes:
        """What one call carries."""
        raise NotImplementedError

    def digest(self) -> str:
        """SHA-256, as hexadecimal digits."""
        made = hashlib.sha256()
        for offset in range(0, self.size, _PART_BYTES):
            made.update(self.part(offset))
        return made.hexdigest()

    def changed(self) -> InvalidArgumentError:
        return InvalidArgumentError(f"{self.name} changed while it was read; repeat the call when nothing writes it")


class FileContent(Content):
    """From `offset` of an open file on, `size` bytes."""

    def __init__(self, file: BinaryIO, name: str, offset: int, size: int) -> None:
        super().__init__(name, size)
        self._file = file
        self._offset = offset
        self._state = self._current_state()

    def _current_state(self) -> Tuple[int, int]:
        status = os.fstat(self._file.fileno())
        return status.st_size, status.st_mtime_ns

    def part(self, offset: int) -> bytes:
        length = min(_PART_BYTES, self.size - offset)
        part = os.pread(self._file.fileno(), length, self._offset + offset)
        if len(part) != length or self._current_state() != self._state:
            raise self.changed()
        return part


class MemoryContent(Content):
    """The elements of an array."""

    def __init__(self, elements: memoryview, name: str) -> None:
        super().__init__(name, elements.nbytes)
        self._elements = elements

    def part(self, offset: int) -> bytes:
        return bytes(self._elements[offset:offset + _PART_BYTES])


class Link:
    """The way to the daemon: call("GetDataFile", request) is one answer of DataFileService."""

    def __init__(self, call: Callable[[str, Any], Any], shows_progress: bool) -> None:
        self.call = call
        self._shows_progress = shows_progress

    @contextlib.contextmanager
    def progress(self, content: Content) -> Iterator[Callable[[int], None]]:
        """A function that is told how many bytes the daemon has."""
        if not self._shows_progress or content.size < _SHOWN_BYTES_MIN:
            yield lambda done: None
            return
        display = _progress.UploadDisplay(content.name, content.size)
        try:
            yield display
        finally:
            display.close()


def is_last_part(request: Any) -> bool:
    """Whether a request is the one that makes a file whole."""
    return (isinstance(request, data_file_service_pb2.UploadDataFileRequest) and
            request.offset + len(request.part) == request.total_bytes)


def upload(content: Content, digest: str, link: Link) -> None:
    """Sends what the daemon lacks. An upload that was begun, by this process or another one, is continued."""
    known = link.call("GetDataFile", data_file_service_pb2.GetDataFileRequest(digest=digest))
    if not known.is_whole:
        with link.progress(content) as told:
            _send(content, digest, known.received_bytes, link, told)


def _send(content: Content, digest: str, offset: int, link: Link, told: Callable[[int], None]) -> None:
    setbacks = 0
    is_whole = False
    while not is_whole:
        if not 0 <= offset < content.size:
            offset = (content.size - 1) // _PART_BYTES * _PART_BYTES  # the last part is what makes a file whole
        sent_from = offset
        told(offset)
        try:
            answer = link.call("UploadDataFile", data_file_service_pb2.UploadDataFileRequest(
                digest=digest, total_bytes=content.size, offset=offset, part=content.part(offset)))
            is_whole, offset = answer.is_whole, answer.received_bytes
        except ResourceExhaustedError as error:
            if error.reason != "RATE_LIMIT":
                raise ResourceExhaustedError(f"{content.name}: {error.message}", code=error.code, reason=error.reason,
                                             metadata=error.metadata) from None
            wait_ms = error.metadata.get("retry_after_ms", "")
            time.sleep(min(int(wait_ms) / 1000 if wait_ms.isdigit() else 1.0, _RATE_WAIT_SECONDS_MAX))
            continue
        except InvalidArgumentError as error:
            if error.reason != "DATA_FILE_INVALID":
                raise
            # The daemon has dropped what it had. Unless the content has changed, others had sent other bytes.
            if content.digest() != digest:
                raise content.changed() from error
            offset = 0
        if not is_whole and offset <= sent_from:
            setbacks += 1
            if setbacks > _SETBACKS_MAX:
                raise AbortedError(f"{content.name}: the daemon dropped what was uploaded of it {setbacks} times; "
                                   "it may be short of space (tunefarm status)")
    told(content.size)


class Elements(NamedTuple):
    """What a buffer is to hold."""

    content: Content
    data_type: str      # "f32"; "" where the source does not say
    element_bytes: int  # 0 where the source does not say
    path: str           # for people
    dtype: str          # NumPy's name, "f4", or that of a type which NumPy lacks; "" where the source does not say


def describe(elements: Elements, data_type: str, link: Optional[Link]) -> Any:
    """The kernel_pb2.DataFile of elements of that type ("": not said), which the daemon then has; without `link` nothing
    is uploaded."""
    digest = elements.content.digest()
    if link is not None:
        upload(elements.content, digest, link)
    message = kernel_pb2.DataFile(digest=digest, bytes=elements.content.size)
    # For people; what may not stand in a definition is left out.
    if elements.path.isprintable() and "\\" not in elements.path:
        message.path = elements.path
    if data_type:
        message.data_type = type_number(data_type)
    return message


@contextlib.contextmanager
def opened(path: PathLike, below: Optional[Path] = None) -> Iterator[Elements]:
    """Of a .npy file or, under any other name, one of raw elements. See _files.open_regular for `below`."""
    name = os.fspath(path)
    with _files.open_regular(path, below) as file:
        size = os.fstat(file.fileno()).st_size
        shown = os.path.basename(name)
        if name.lower().endswith(".npy"):
            header = _npy.read_header(file, size, name)
            content = FileContent(file, name, header.data_offset, header.data_bytes)
            yield Elements(content, header.data_type, header.element_bytes, shown, header.dtype)
            return
        if name.lower().endswith(".npz"):
            raise InvalidArgumentError(f"{name} is an archive of arrays; write one of them to a .npy file by numpy.save")
        if file.read(len(_npy.MAGIC)) == _npy.MAGIC:
            raise InvalidArgumentError(f"{name} is a .npy file by its content; give it a name that ends in .npy")
        yield Elements(FileContent(file, name, 0, size), "", 0, shown, "")


def of_array(array: Any, what: str = "the array") -> Elements:
    """In row-major order. Errors call it `what`."""
    import numpy

    host, own = on_host(array, what)
    dtype = str(getattr(array, "dtype", "")).rpartition(".")[2]
    if not own:
        if host.dtype.fields is not None:
            raise InvalidArgumentError(f"{what} has a structured dtype; give each field as an array of its own")
        if host.dtype.byteorder == ">":
            host = host.astype(host.dtype.newbyteorder("<"))
        own, dtype = _of_float8(host.dtype.name), host.dtype.name
        if host.dtype.name == "bfloat16":
            own = "bf16"
        elif not own:
            own, dtype, _ = _npy.element_type(host.dtype.str, what)
    elements = memoryview(numpy.ascontiguousarray(host).reshape(-1).view(numpy.uint8))
    return Elements(MemoryContent(elements, what), own, host.dtype.itemsize, "", dtype)


def _of_float8(dtype: str) -> str:
    """The type of a buffer of elements of 8-bit floating point: bytes for all but float8_e4m3fn; "" for other elements."""
    return "f8e4m3" if dtype == "float8_e4m3fn" else "u8" if dtype.startswith("float8") else ""


def chosen_type(elements: Elements, asked: Optional[str]) -> str:
    """The type that a caller of upload_file calls `asked`."""
    own, width, name = elements.data_type, elements.element_bytes, elements.content.name
    if asked is None:
        return own
    type_number(asked)
    if width == 0 and elements.content.size % WIDTHS[asked]:
        raise InvalidArgumentError(f"{name} has {elements.content.size} bytes, which is no multiple of the "
                                   f"{WIDTHS[asked]} bytes of an element of type {asked}")
    is_raw = own in ("", f"u{8 * width}", f"i{8 * width}") and width in (0, WIDTHS[asked])
    if asked == "f8e4m3":
        is_raw = width == 0 or _are_bits_of(asked, elements)
    if asked == own or is_raw or (own, asked) == ("f8e4m3", "u8"):
        return asked
    raise InvalidArgumentError(f"{name} has elements of type {_shown_type(elements)}, not {asked}; convert them by "
                               "array.astype, or leave out data_type")


def type_for(elements: Elements, types: Sequence[str], argument: str) -> str:
    """The type to name in a definition whose `argument` may have `types`; "" where the bits are the argument's."""
    own, width = elements.data_type, elements.element_bytes
    if width == 0 or not types or own in types:
        return own
    if any(_are_bits_of(one, elements) for one in types):
        return ""
    if len(types) != 1:
        advice = "convert it"
    elif types[0] in BITS:
        advice = f"save the bits of its {types[0]} elements as numpy.uint{8 * WIDTHS[types[0]]}"
    else:
        kind = {"f": "float", "u": "uint", "i": "int"}[types[0][0]]
        advice = f"save array.astype(numpy.{kind}{types[0][1:]}) instead"
    raise InvalidArgumentError(f"{elements.content.name} holds {_shown_type(elements)}, and '{argument}' is "
                               f"{' or '.join(types)}; {advice}")


def _are_bits_of(data_type: str, elements: Elements) -> bool:
    """Whether the elements, which are of another type, may be the bits of that one. Truth values and other types of 8-bit
    floating point are no f8e4m3."""
    own = elements.data_type
    if data_type == "f8e4m3":
        return elements.dtype in ("u1", "V1")
    if data_type == "u8" and own == "f8e4m3":
        return True
    if data_type == "bf16" and own:
        return own in ("i16", "u16")
    return not own and WIDTHS[data_type] == elements.element_bytes


def _shown_type(elements: Elements) -> str:
    if elements.dtype == "f1":
        return "float8_e5m2 (dtype f1)"
    if elements.dtype == "b1":
        return "truth values"
    if elements.dtype.startswith("float8"):
        return elements.dtype
    return elements.data_type or f"raw elements of {8 * elements.element_bytes} bits"


def on_host(array: Any, what: str) -> "tuple[Any, str]":
    """NumPy's array of it, and its type where NumPy has no such type. Errors call it `what`."""
    import numpy

    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        tensor = array.detach().cpu()
        kind = str(tensor.dtype)
        if kind == "torch.bfloat16":
            return tensor.contiguous().view(torch.int16).numpy(), "bf16"
        if kind.startswith("torch.float8"):
            return tensor.contiguous().view(torch.uint8).numpy(), _of_float8(kind[len("torch."):])
        return tensor.numpy(), ""
    if hasattr(array, "__cuda_array_interface__") and hasattr(array, "get"):
        array = array.get()  # CuPy's arrays do not become NumPy's by themselves
    if not hasattr(array, "__array__"):
        raise InvalidArgumentError(f"{what} is {a_type(array)}; give an array, of NumPy or of what numpy.asarray "
                                   "takes")
    if isinstance(array, numpy.ma.MaskedArray):
        raise InvalidArgumentError(f"{what} has a mask, which a buffer has not; give array.filled(value)")
    return numpy.asarray(array), ""
