"""Launches tuned kernels from a package (`tunefarm export package`) on the caller's arrays.

    import tunefarm.launch

    package = tunefarm.launch.open("matmul.tfpack")
    kernel = package.kernel("matmul", dtype="bf16")         # loads everything
    kernel(a=a, b=b, c=c, M=4096, N=4096, K=4096)           # enqueues, and returns

Arguments and dims are given by name. An argument is anything with `data_ptr()` (PyTorch), `__cuda_array_interface__`
(CuPy, JAX, Numba), `__array_interface__` (NumPy, for kernels of the CPU) or `__dlpack__`. Its type, its layout
(row-major without gaps), its length and its device are checked before each launch. A launch waits for what another
library has enqueued on an array only where the array is read by `__dlpack__` alone; else give the stream on which it
was enqueued.

Needs libtunefarm-launch.so.1 and nothing else: neither grpcio nor the library of any array. It is found by
TUNEFARM_LAUNCH_LIBRARY, in this package or its build tree, or where the loader looks. A package is code: it runs with
the rights of this process.

Packages and kernels may be used from any thread. Every error is a TunefarmError: InvalidArgumentError where a name, a
value or an array is wrong, NotFoundError, ResourceExhaustedError, else LaunchError.
"""

from __future__ import annotations

import ctypes
import functools
import operator
import os
import struct
import threading
import weakref
from typing import Any, Callable, Dict, NamedTuple, Optional, Sequence, Tuple, Type, Union

from tunefarm import _arrays, _cuda, _launch_abi
from tunefarm._display import a_type, angle
from tunefarm._launch_abi import check
from tunefarm.errors import InvalidArgumentError, LaunchError, ResourceExhaustedError

__all__ = ["Argument", "Kernel", "LaunchError", "Package", "Plan", "open", "open_bytes"]

_RESERVED = ("stream", "workspace", "generation")
_PROBLEMS_MAX = 1024  # whose plans a kernel remembers
_PACKED_OFFSET = _launch_abi.Launch.workspace.offset  # see _Frame
_UNCHECKED = (1 << 64) - 1  # bytes of an array that is known to be long enough
_PER_THREAD_STREAM = 2  # CU_STREAM_PER_THREAD: another stream in each thread


class Argument(NamedTuple):
    """One of the arrays that a kernel takes."""

    name: str
    data_type: str  # "f32", "bf16", "i64", ...
    access: str  # IN, OUT or INOUT


class Plan(NamedTuple):
    """What a launch for given dims does and needs."""

    generation: int  # names the config that was chosen
    workspace_bytes: int
    needs_prepare: bool  # whether Kernel.prepare must run once on the arguments
    match: str  # EXACT, NEAREST, SAME_ARCH or DEFAULT: how well the config fits the dims and the device
    distance: float  # of a NEAREST match
    median_ns: Optional[float]  # what was measured for the tuned problem
    config: str  # "tile_m=128,stages=4"


def open(path: "Union[str, os.PathLike[str]]") -> "Package":
    """Maps and checks a package, which must not change while it is used."""
    library, error, handle = _launch_abi.library(), _launch_abi.sized(_launch_abi.Error), ctypes.c_void_p(None)
    try:
        place = os.fsencode(path)
    except (TypeError, UnicodeEncodeError) as reason:
        raise InvalidArgumentError(f"the path of a package cannot be used: {reason}") from None
    if b"\0" in place:
        raise InvalidArgumentError("the path of a package has no zero byte")
    check(library.tunefarm_package_open(place, ctypes.byref(handle), ctypes.byref(error)), error)
    return Package(handle)


def open_bytes(content: "Union[bytes, bytearray, memoryview]") -> "Package":
    """The same of a package in memory, which is copied."""
    library, error, handle = _launch_abi.library(), _launch_abi.sized(_launch_abi.Error), ctypes.c_void_p(None)
    try:
        held = content if isinstance(content, bytes) else memoryview(content).tobytes()
    except TypeError:
        raise InvalidArgumentError(f"the bytes of a package are no {type(content).__name__}") from None
    check(library.tunefarm_package_open_bytes(held, len(held), ctypes.byref(handle), ctypes.byref(error)), error)
    return Package(handle)


class Package:
    """Some kernels; made by `open`, `open_bytes` or `Client.package`. It is closed when nothing refers to it; its kernels
    stay usable."""

    def __init__(self, handle: ctypes.c_void_p) -> None:
        self._library = _launch_abi.library()
        self._handle = handle
        weakref.finalize(self, self._library.tunefarm_package_close, handle).atexit = False
        self.left_out: Tuple[str, ...] = ()
        """What `Client.package` left out and why, a sentence each, at most 1000."""

    @property
    def kernels(self) -> Tuple[str, ...]:
        """The names of the kernels in the package."""
        library, handle = self._library, self._handle
        return tuple(_text(library.tunefarm_package_kernel_name(handle, index))
                     for index in range(library.tunefarm_package_kernel_count(handle)))

    def __repr__(self) -> str:
        return angle("tunefarm.launch.Package", "of", ", ".join(self.kernels))

    def kernel(self, name: str, /, *, device: Any = None, **dims: Any) -> "Kernel":
        """Loads all that launches of the kernel may need. `dims` (bool, int, float or str) are those that are compiled
        into binaries, where they have no default, and any others that stay the same; a launch gives the rest.

        `device`: a CUDA device as a number or torch.device; None: the current one. Kernels of the CPU ignore it."""
        if not isinstance(name, str):
            raise InvalidArgumentError(f"the kernel's name is a str, not {a_type(name)}")
        values = (_launch_abi.Dim * len(dims))(*(_dim(*dim) for dim in dims.items()))
        number = _device_number(device)
        handle = ctypes.c_void_p(None)
        error = _launch_abi.sized(_launch_abi.Error)
        options = _launch_abi.LoadOptions(size=ctypes.sizeof(_launch_abi.LoadOptions), device=-1)

        def load() -> int:
            status: int = self._library.tunefarm_kernel_load(self._handle, _bytes(name), values, len(values),
                                                             ctypes.byref(options), ctypes.byref(handle),
                                                             ctypes.byref(error))
            return status

        if number is None:
            status = load()
            # No context is current in a thread that has not used CUDA yet.
            if status == _launch_abi.NO_DEVICE and _cuda.driver() is not None and _cuda.current_device() is None:
                number = _arrays.current_device()
        if number is not None:
            options.device = number
            if _cuda.driver() is None or _cuda.current_device() == number:
                status = load()
            else:
                status = _on_device(number, load)
        check(status, error)
        return Kernel(handle, name)


class Kernel:
    """A loaded kernel; made by `Package.kernel`. Call it to launch it.

    Keep it as long as a CUDA graph that captured its launches is used: the workspace in the graph belongs to it."""

    def __init__(self, handle: ctypes.c_void_p, name: str) -> None:
        library = self._library = _launch_abi.library()
        self._handle = handle
        weakref.finalize(self, library.tunefarm_kernel_close, handle).atexit = False
        self.name = name
        self.device = library.tunefarm_kernel_device(handle)
        """The CUDA device; -1: the CPU."""
        self.dims = tuple(_text(library.tunefarm_kernel_dim_name(handle, index))
                          for index in range(library.tunefarm_kernel_dim_count(handle)))
        """The names of the dims that a launch gives."""
        self.arguments = tuple(self._argument(index) for index in range(library.tunefarm_kernel_argument_count(handle)))
        """The arrays that a launch gives."""
        names = tuple(argument.name for argument in self.arguments)
        for word in (*_RESERVED, *names):
            if word in self.dims or (word in _RESERVED and word in names):
                raise InvalidArgumentError(f"kernel '{name}' has two values named '{word}' to be given at a launch, "
                                           "which Python cannot tell apart; launch it by tunefarm/launch.h")
        self._names = names
        self._given_of = _getter(names + self.dims)
        self._count = len(names)
        self._arguments = _arrays.Arguments(name, self.arguments, self.device)
        self._problems: Dict[Tuple[int, ...], _Problem] = {}
        # Without the types of their parameters, whose check takes as long as the call: they get objects of ctypes.
        self._launch, self._prepare = library["tunefarm_kernel_launch"], library["tunefarm_kernel_prepare"]
        self._pack = struct.Struct(f"3Q{len(self.dims)}q{2 * len(names)}Q").pack_into
        self._frames = _Frames(len(self.dims), len(names), self.device >= 0)
        self._workspaces: Dict[Tuple[int, int], _Workspace] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        call = f"{self.name}({', '.join(self._names + self.dims)})"
        return angle("tunefarm.launch.Kernel", call, "on", _arrays.place_name(self.device))

    def __call__(self, /, *, stream: Any = None, workspace: Any = None, generation: int = 0, **values: Any) -> None:
        """Enqueues the kernel for arguments and dims by name; on the CPU, runs it.

        `stream`: an address or a stream of PyTorch, CuPy or any library with `__cuda_stream__`. None: PyTorch's current
        stream of the kernel's device if a tensor is among the arguments, CuPy's if one of its arrays is, else the
        default stream. `workspace`: an array of at least `plan(...).workspace_bytes`, aligned to 256 bytes. None: one
        of this kernel and stream is used, allocated when it is first needed; call once before a capture so that it lies
        outside of the graph's memory. Give one to graphs that may run at the same time. `generation`: that of the plan
        that `prepare` returned; required where the plan `needs_prepare`."""
        while True:
            try:
                self._run(self._launch, stream, workspace, generation, values)
                return
            except LaunchError as error:
                if error.code != "STALE" or not self._plans_anew(values):
                    raise

    def prepare(self, /, *, stream: Any = None, workspace: Any = None, **values: Any) -> Plan:
        """Changes the arguments once for the config of these dims, such as to another layout of weights; enqueued like
        a launch, whose arguments it takes. Returns the plan whose `generation` the launches on them then give."""
        plan = self.plan(**{name: value for name, value in values.items() if name in self.dims})
        self._run(self._prepare, stream, workspace, plan.generation, values)
        return plan

    def plan(self, /, **dims: int) -> Plan:
        """Chooses the config for these dims, as a launch does."""
        if dims.keys() != set(self.dims):
            raise self._names_error(dims, ())
        return self._look_up([dims[name] for name in self.dims]).plan

    def update(self, package: Package, /) -> None:
        """Takes over what another package, such as a newer export, has for this kernel, its dims and its device.

        Plans are made from it from now on. Launches follow with the next one that no CUDA graph captures, with a larger
        workspace of the kernel's own where they need one; a launch with a `generation` follows where the arguments are
        prepared alike, and raises LaunchError with the code STALE otherwise. Any thread may call it while others
        launch. What was loaded stays until the kernel goes. After an error all is as before."""
        if not isinstance(package, Package):
            raise InvalidArgumentError(f"`package` is what tunefarm.launch.open returns, not {a_type(package)}")
        error = _launch_abi.sized(_launch_abi.Error)
        check(self._library.tunefarm_kernel_update(self._handle, package._handle, ctypes.byref(error)), error)

    def _plans_anew(self, named: Dict[str, Any]) -> bool:
        """Whether an update has brought another plan for these dims than the remembered one. It takes its place."""
        dims = self._given_of(named)[self._count:]
        known = self._problems.get(tuple(map(operator.index, dims)))
        return self._look_up(dims).plan.generation != (known and known.plan.generation)

    def _run(self, call: Callable[..., int], stream: Any, workspace: Any, generation: int,
             named: Dict[str, Any]) -> None:
        try:
            given = self._given_of(named)
        except KeyError:
            raise self._names_error(named, self._names) from None
        if len(named) != len(given):
            raise self._names_error(named, self._names)
        dims = given[self._count:]
        try:
            # A float would be found where it equals an integer, and is refused everywhere else.
            problem = self._problems.get(tuple(map(operator.index, dims))) or self._look_up(dims)
        except TypeError:  # a dim is no integer, which _look_up says by its name
            problem = self._look_up(dims)
        handle = None if stream is None else self._arguments.read_stream(stream)
        words, used = self._arguments.read(given[:self._count], handle, call is self._prepare)
        if handle is None:
            handle = used.current_stream(self.device) if self.device >= 0 else 0
        plan = problem.plan
        if generation == 0:
            if plan.needs_prepare:
                raise InvalidArgumentError(f"kernel '{self.name}' needs its arguments prepared for these dims: call "
                                           "prepare(...) once and give the `generation` of the plan that it returns")
            # After an update the library says by it whether the plan still holds, in a capture above all.
            generation = plan.generation
        else:
            generation = _generation(generation)
        room = room_bytes = 0
        if workspace is not None:
            room, room_bytes = self._arguments.read_workspace(workspace, handle)
        elif plan.workspace_bytes:
            own = self._own_workspace(plan.workspace_bytes, used, handle)
            room, room_bytes = own.pointer, own.size
        self._enqueue(call, handle, room, room_bytes, generation, problem.dims, words)

    def _launch_checked(self, problem: "_Problem", pointers: Sequence[int], stream: int) -> None:
        """A launch for code of this package that has checked its arrays: their addresses in the order of `arguments`.
        The plan needs neither a workspace nor prepared arguments."""
        self._enqueue(self._launch, stream, 0, 0, 0, problem.dims, (*pointers, *(_UNCHECKED,) * self._count))

    def _enqueue(self, call: Callable[..., int], stream: int, room: int, room_bytes: int, generation: int,
                 dims: Sequence[int], words: Sequence[int]) -> None:
        """Calls the library, in a context of the kernel's device. `words`: addresses and bytes of the arguments."""
        # No code of others runs here, which might launch the kernel in this thread and so fill the frame.
        frame = self._frames.frame
        frame.launch.stream = stream
        self._pack(frame.memory, _PACKED_OFFSET, room, room_bytes, generation, *dims, *words)
        status = call(self._handle, frame.launch_reference, frame.error_reference)
        device = self.device
        # Nearly always a context of the device is current; where none is, the library says so and has done nothing.
        if status and device >= 0 and not frame.is_current(device):
            again = functools.partial(call, self._handle, frame.launch_reference, frame.error_reference)
            status = _on_device(device, again)
        if status:
            raise _launch_abi.failure(status, frame.error)

    def _look_up(self, given: Sequence[Any]) -> "_Problem":
        """Asks the library for the plan of these dims."""
        dims = tuple(_integer(name, value) for name, value in zip(self.dims, given))
        array = (ctypes.c_int64 * len(dims))(*dims)
        plan, error = _launch_abi.sized(_launch_abi.Plan), _launch_abi.sized(_launch_abi.Error)
        check(self._library.tunefarm_kernel_plan(self._handle, array, len(dims), ctypes.byref(plan),
                                                 ctypes.byref(error)), error)
        match = _launch_abi.MATCHES[plan.match] if 0 <= plan.match < len(_launch_abi.MATCHES) else str(plan.match)
        problem = _Problem(dims, Plan(plan.generation, plan.workspace_bytes, bool(plan.needs_prepare), match,
                                      plan.distance, plan.median_ns or None, _text(plan.config or b"")))
        if len(self._problems) >= _PROBLEMS_MAX:
            self._problems.clear()
        self._problems[dims] = problem
        return problem

    def _argument(self, index: int) -> Argument:
        argument, error = _launch_abi.sized(_launch_abi.Argument), _launch_abi.sized(_launch_abi.Error)
        check(self._library.tunefarm_kernel_argument(self._handle, index, ctypes.byref(argument), ctypes.byref(error)),
              error)
        access = _launch_abi.ACCESSES.get(argument.access, "INOUT")
        return Argument(_text(argument.name), _text(argument.data_type), access)

    def _names_error(self, given: Dict[str, Any], arguments: Tuple[str, ...]) -> InvalidArgumentError:
        wanted = (*arguments, *self.dims)
        for name in wanted:
            if name not in given:
                what = "argument" if name in arguments else "dim"
                return InvalidArgumentError(f"kernel '{self.name}' needs the {what} '{name}'")
        unknown = ", ".join(f"'{name}'" for name in given if name not in wanted)
        known = ", ".join(wanted) or "nothing"
        return InvalidArgumentError(f"kernel '{self.name}' does not take {unknown} here; it takes {known}")

    def _own_workspace(self, size: int, library: Type[_arrays.Other], stream: int) -> "_Workspace":
        """That of this stream; on the CPU, of this thread. What is outgrown is kept, since a graph may hold it."""
        if self.device < 0:
            frame = self._frames.frame
            found = frame.workspace
            if found is None or found.size < size:
                try:
                    memory = (ctypes.c_char * (size + _arrays.WORKSPACE_ALIGNMENT))()
                except (MemoryError, OverflowError):
                    raise ResourceExhaustedError(f"kernel '{self.name}' needs {size} bytes of work space for these "
                                                 "dims, and there is not so much memory") from None
                found = frame.workspace = _Workspace(memory, ctypes.addressof(memory), size, None)
            return found
        key = (stream, threading.get_ident() if stream == _PER_THREAD_STREAM else 0)
        found = self._workspaces.get(key)
        if found is None or found.size < size:
            with self._lock:
                found = self._workspaces.get(key)
                if found is None or found.size < size:
                    room = 1 << (size - 1).bit_length()  # all that are kept add up to less than twice the largest
                    try:
                        memory, pointer = library.allocate(room + _arrays.WORKSPACE_ALIGNMENT, self.device, stream)
                    except Exception as error:
                        raise self._arguments.refusal("workspace", error) from error
                    found = self._workspaces[key] = _Workspace(memory, pointer, room, found)
        return found


class _Problem(NamedTuple):
    """What the library said of given dims."""

    dims: Tuple[int, ...]
    plan: Plan


class _Workspace:
    __slots__ = ("memory", "pointer", "size", "outgrown")

    def __init__(self, memory: Any, pointer: int, size: int, outgrown: "Optional[_Workspace]") -> None:
        self.memory, self.size, self.outgrown = memory, size, outgrown
        self.pointer = -(-pointer // _arrays.WORKSPACE_ALIGNMENT) * _arrays.WORKSPACE_ALIGNMENT


class _Frame:
    """The structures of one kernel's launches in one thread. Those that change lie in `memory` one after another: the
    last three fields of `launch`, the dims, the addresses of the arguments, and their bytes."""

    def __init__(self, dims: int, arguments: int, is_cuda: bool) -> None:
        kinds: Sequence[Any] = (ctypes.c_int64 * dims, ctypes.c_void_p * arguments, ctypes.c_uint64 * arguments)
        sizes = [ctypes.sizeof(kind) for kind in kinds]
        begin = ctypes.sizeof(_launch_abi.Launch)
        self.memory = bytearray(begin + sum(sizes))
        self.launch = launch = _launch_abi.Launch.from_buffer(self.memory)
        launch.size, launch.dim_count, launch.argument_count = begin, dims, arguments
        launch.dims, launch.arguments, launch.argument_bytes = (
            kind.from_buffer(self.memory, begin + sum(sizes[:index])) for index, kind in enumerate(kinds))
        self.launch_reference = ctypes.byref(launch)
        self.error = _launch_abi.sized(_launch_abi.Error)
        self.error_reference = ctypes.byref(self.error)
        self.workspace: Optional[_Workspace] = None  # on the CPU
        self._device = ctypes.c_int(-1)
        self._device_reference = ctypes.byref(self._device)
        self._get_device = getattr(_cuda.driver(), "cuCtxGetDevice", None) if is_cuda else None

    def is_current(self, device: int) -> bool:
        """Whether this thread's current context is one of the device."""
        return (self._get_device is not None and self._get_device(self._device_reference) == 0 and
                self._device.value == device)


class _Frames(threading.local):
    """A frame for each thread, made when the thread first uses it."""

    def __init__(self, dims: int, arguments: int, is_cuda: bool) -> None:
        self.frame = _Frame(dims, arguments, is_cuda)


def _getter(names: Tuple[str, ...]) -> Callable[[Dict[str, Any]], Tuple[Any, ...]]:
    """A function that takes the values of these names, in order, from a dict."""
    if len(names) > 1:
        return operator.itemgetter(*names)
    return lambda named: tuple([named[name] for name in names])


def _generation(given: Any) -> int:
    try:
        generation = operator.index(given)
    except TypeError:
        raise InvalidArgumentError("`generation` is that of a plan, an integer, not a "
                                   f"{type(given).__name__}") from None
    if not 0 <= generation < 1 << 64:
        raise InvalidArgumentError(f"`generation` is that of a plan, and {generation} is none")
    return generation


def _text(text: bytes) -> str:
    return text.decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    if "\0" in text:
        raise InvalidArgumentError("a name or value that is given to a kernel has no zero byte")
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise InvalidArgumentError(f"{text!r} has a character that UTF-8 does not have") from None


def _integer(name: str, value: Any) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidArgumentError(f"the dim '{name}' is an integer, not {a_type(value)}") from None
    if not -1 << 63 <= number < 1 << 63:
        raise InvalidArgumentError(f"the dim '{name}' is {number}, which has more than 64 bits")
    return number


def _dim(name: str, value: Any) -> _launch_abi.Dim:
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        value = value.item()  # a scalar of NumPy or of another library
    if isinstance(value, bool):
        return _launch_abi.Dim(_bytes(name), _launch_abi.BOOL, _launch_abi.Value(number=value))
    if isinstance(value, float):
        return _launch_abi.Dim(_bytes(name), _launch_abi.FLOAT, _launch_abi.Value(real=value))
    if isinstance(value, str):
        return _launch_abi.Dim(_bytes(name), _launch_abi.STRING, _launch_abi.Value(text=_bytes(value)))
    if hasattr(value, "__index__"):
        return _launch_abi.Dim(_bytes(name), _launch_abi.INT, _launch_abi.Value(number=_integer(name, value)))
    raise InvalidArgumentError(f"the dim '{name}' is a bool, int, float or str, not {a_type(value)}")


def _device_number(device: Any) -> Optional[int]:
    if device is None:
        return None
    try:
        number = None if isinstance(device, bool) else operator.index(device)
    except TypeError:
        number = getattr(device, "index", None)
    if number is None and getattr(device, "type", None) == "cuda":
        return None  # torch.device("cuda") is the current one
    if not isinstance(number, int) or not 0 <= number < 1 << 31:
        raise InvalidArgumentError(f"`device` is the number of a CUDA device or a torch.device of one, not {device!r}")
    return number


def _on_device(number: int, call: Callable[[], int]) -> int:
    """Calls with the device's primary context current."""
    try:
        with _cuda.on_device(number):
            return call()
    except LookupError as error:
        raise LaunchError(str(error), code="NO_DEVICE") from None
