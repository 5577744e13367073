"""One config of a kernel in this process: compiled by the daemon, exported, and launched on arrays. Private."""

from __future__ import annotations

import ctypes
import hashlib
import sys
import tempfile
import threading
import weakref
from pathlib import Path
from typing import Any, Callable, ContextManager, Dict, List, Mapping, Optional, Sequence, Tuple

from tunefarm import _arrays, _cuda, launch
from tunefarm._display import count_text
from tunefarm.errors import FailedPreconditionError, InvalidArgumentError, LaunchError
from tunefarm.inline import _definition
from tunefarm.inline._arguments import Argument
from tunefarm.inline._source import CUDA

_EXPORT_SECONDS = 600
# What a trial of one config is measured by: nobody reads its time.
_MEASURE = {"min_samples": 1, "max_samples": 1, "final_rounds": 1, "warmup_launches": 1, "warm_cache": True,
            "no_second_inputs": True, "noisy_relative_half_width": -1.0}

# Constants lie in a binary, which all kernels of the process with the same code share, whatever constants they were made
# for. (CUDA context, symbol) -> {generation of a plan: digest of what its binary holds}.
_held: Dict[Tuple[int, str], Dict[int, str]] = {}
_constants_lock = threading.Lock()  # from the look at _held until the launch is enqueued


class Program:
    """A kernel whose definition is whole, its arguments, and how to reach the daemon."""

    def __init__(self, kernel: Any, language: str, arguments: Sequence[Argument], constants: Sequence[Argument],
                 connect: Callable[[], ContextManager[Any]], device: str, ordinal: Optional[int]) -> None:
        self.kernel = kernel
        self.language = language
        self.arguments, self.constants = list(arguments), list(constants)
        self.connect = connect
        self.device = device
        self._ordinal = ordinal  # of the CUDA device in this process
        self._loaded: Dict[Tuple[Any, ...], launch.Kernel] = {}
        self._on_device: Dict[str, "DeviceArray"] = {}
        self._digests = {constant.name: hashlib.sha256(constant.array).hexdigest() for constant in constants}
        self._lock = threading.Lock()

    def loaded(self, config: Mapping[str, Any]) -> launch.Kernel:
        """Ready to be launched. The first time, the daemon runs the config once, isolated."""
        key = tuple(config[name] for name in sorted(config))
        with self._lock:
            if key not in self._loaded:
                self._loaded[key] = self._load(config)
            return self._loaded[key]

    def _load(self, config: Mapping[str, Any]) -> launch.Kernel:
        with tempfile.TemporaryDirectory(prefix="tunefarm-") as name:
            file = _definition.write(_definition.of_one_config(self.kernel, config), Path(name))
            with self.connect() as client:
                job = self.tune(client, file, device=self.device, policy="fast", max_trials=1, promote_given=True,
                                retry_poisoned=True, measure=_MEASURE, progress=False, label="tunefarm.run_kernel")
                if job.best is None:
                    why = next((trial.message for trial in client.results(job) if trial.message), "it has no result")
                    raise LaunchError(f"the config {dict(config)} cannot be run: {why}", code="INCOMPATIBLE")
                opened = _export(client, file)
            return opened.kernel(opened.kernels[0], device=self._ordinal if self.language == CUDA else None)

    def tune(self, client: Any, definition: Path, **options: Any) -> Any:
        """Client.tune; what the daemon has dropped of the arrays since they were uploaded is uploaded once more."""
        try:
            return client.tune(definition, **options)
        except FailedPreconditionError as error:
            if error.reason != "DATA_FILE_NOT_FOUND":
                raise
        for argument in (*self.arguments, *self.constants):
            for array in _definition.uploaded(argument):
                client.upload_array(array, argument.data_type, progress=options["progress"])
        return client.tune(definition, **options)

    def launch(self, config: Mapping[str, Any], given: Sequence[Any], stream: Any = None) -> None:
        """Enqueues the kernel on the caller's arguments: as many as were tuned, scalars with the same values."""
        if len(given) != len(self.arguments):
            raise InvalidArgumentError(f"the kernel takes {count_text(len(self.arguments), 'argument')}, not {len(given)}")
        values = {}
        for index, (argument, value) in enumerate(zip(self.arguments, given)):
            if argument.array is None:
                if value is not None and value != argument.given:
                    raise InvalidArgumentError(f"argument {index} ('{argument.name}') is {value}, and the kernel was "
                                               f"tuned for {argument.given}; tune it for the other value")
                continue
            values[argument.name] = _real(value)
        kernel = self.loaded(config)
        if self.constants:
            self._launch_with_constants(kernel, values, stream)
        else:
            kernel(stream=stream, **values)

    def _launch_with_constants(self, kernel: launch.Kernel, values: Dict[str, Any], stream: Any) -> None:
        """Copies the constants into the binary, unless they are there: the first time, and after a launch with others."""
        with _constants_lock:
            known = {argument.name for argument in kernel.arguments}
            constants = [constant for constant in self.constants if constant.name in known]
            for constant in constants:
                if constant.name not in self._on_device:
                    self._on_device[constant.name] = DeviceArray(constant.array, kernel.device)
                values[constant.name] = self._on_device[constant.name]
            plan = kernel.plan()
            if plan.needs_prepare:
                context = _cuda.context_of(kernel.device)
                wanted = {(context, constant.given): self._digests[constant.name] for constant in constants}
                if any(_held.get(place, {}).get(plan.generation) != digest for place, digest in wanted.items()):
                    # What runs may read what is there, and other streams than this one may be next.
                    _finish_all(kernel.device)
                    for place, digest in wanted.items():
                        _held[place] = {other: held for other, held in _held.get(place, {}).items()
                                        if held == digest and other != plan.generation}
                    kernel.prepare(stream=stream, **values)
                    _finish_all(kernel.device)
                    for place, digest in wanted.items():
                        _held[place][plan.generation] = digest
            kernel(stream=stream, generation=plan.generation, **values)

    def outputs(self, config: Mapping[str, Any]) -> List[Any]:
        """Runs the config on copies of the arguments: all of them afterwards, scalars as they were given."""
        if self.language != CUDA:
            copies = [argument.given if argument.array is None else argument.array.copy() for argument in self.arguments]
            self.launch(config, copies)
            return [self._as_given(argument, copy) for argument, copy in zip(self.arguments, copies)]
        device = self.loaded(config).device
        on_device = [argument.given if argument.array is None else DeviceArray(argument.array, device)
                     for argument in self.arguments]
        self.launch(config, on_device)
        return [self._as_given(argument, copy if argument.array is None else copy.fetched())
                for argument, copy in zip(self.arguments, on_device)]

    @staticmethod
    def _as_given(argument: Argument, values: Any) -> Any:
        """In the shape and the library of the argument; PyTorch's on the CPU."""
        given, torch = argument.given, sys.modules.get("torch")
        if argument.array is None:
            return values
        if torch is not None and isinstance(given, torch.Tensor):
            # Raw bits, as which NumPy has bfloat16; PyTorch may lack unsigned ones.
            tensor = torch.from_numpy(values.view("i2") if argument.data_type == "bf16" else values)
            return tensor.view(given.dtype).reshape(given.shape)
        shaped = values.view(given.dtype.newbyteorder("=")).reshape(given.shape)
        if hasattr(given, "__cuda_array_interface__"):
            return sys.modules["cupy"].asarray(shaped)
        return shaped


def _export(client: Any, definition: Path) -> launch.Package:
    try:
        package: launch.Package = client.package(definition, timeout=_EXPORT_SECONDS)
        return package
    except FailedPreconditionError as error:
        raise FailedPreconditionError(f"the kernel cannot be exported: {error}", code=error.code,
                                      reason=error.reason) from None


def _real(value: Any) -> Any:
    """Complex numbers as the kernel takes them: two real ones each."""
    if "complex" not in str(getattr(value, "dtype", "")):
        return value
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return torch.view_as_real(value)
    return value.view(value.real.dtype)


def _finish_all(device: int) -> None:
    """Waits until the device has done what this process enqueued in the context of its launches."""
    try:
        status = _cuda.call(device, "cuCtxSynchronize")
    except LookupError as error:
        raise LaunchError(str(error), code="NO_DEVICE") from None
    if status != 0:
        raise LaunchError(f"the constants cannot be copied to CUDA device {device}: it fails with CUDA error {status}; "
                          "launch the kernel once before a capture into a graph", code="DEVICE_ERROR")


class DeviceArray:
    """A copy of NumPy's array on a CUDA device, for kernels in processes without PyTorch and CuPy."""

    def __init__(self, array: Any, device: int) -> None:
        self._array, self._device = array, device
        pointer = ctypes.c_uint64(0)
        self._call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(array.nbytes))
        self._pointer = pointer.value
        weakref.finalize(self, _free, device, self._pointer).atexit = False
        self._call("cuMemcpyHtoD_v2", ctypes.c_uint64(self._pointer), ctypes.c_void_p(array.ctypes.data),
                   ctypes.c_size_t(array.nbytes))
        self._call("cuStreamSynchronize", ctypes.c_void_p(None))  # it is there, for every stream

    @property
    def __cuda_array_interface__(self) -> Dict[str, Any]:
        return {"version": 3, "shape": self._array.shape, "typestr": self._array.dtype.str,
                "data": (self._pointer, False), "strides": None}

    def fetched(self) -> Any:
        """Its content on the host, after all launches so far."""
        host = self._array.copy()
        self._call("cuCtxSynchronize")
        self._call("cuMemcpyDtoH_v2", ctypes.c_void_p(host.ctypes.data), ctypes.c_uint64(self._pointer),
                   ctypes.c_size_t(host.nbytes))
        return host

    def _call(self, name: str, *arguments: Any) -> None:
        try:
            with _cuda.on_device(self._device):
                status = getattr(_cuda.driver(), name)(*arguments)
        except LookupError as error:
            raise LaunchError(str(error), code="NO_DEVICE") from None
        if status != 0:
            raise LaunchError(f"{name} of {self._array.nbytes} bytes on CUDA device {self._device} fails with CUDA error "
                              f"{status}", code="DEVICE_ERROR")


def _free(device: int, pointer: int) -> None:
    try:
        with _cuda.on_device(device):
            _cuda.driver().cuMemFree_v2(ctypes.c_uint64(pointer))
    except LookupError:
        pass
