"""What @tunefarm.triton.autotune asks the daemon for. Private.

The best config of a kernel and a key is that of a definition whose display name has the digest of both, so that one call
by name answers. The definition itself is of the first call with the key: its shapes, types, scalars and integers.
Answers are kept for later starts, which use them without asking; a thread then asks again, for the next start."""

from __future__ import annotations

import _thread
import atexit
import collections
import functools
import hashlib
import os
import sys
import tempfile
import threading
from pathlib import Path
from types import FunctionType
from typing import Any, Callable, Deque, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from tunefarm import _connection, _data_files, model
from tunefarm._run import Run
from tunefarm.client import Client
from tunefarm.errors import (DeadlineExceededError, FailedPreconditionError, InvalidArgumentError, NotFoundError,
                             ResourceExhaustedError, TunefarmError, UnavailableError)
from tunefarm.inline import _arguments, _definition
from tunefarm.inline._arguments import Argument
from tunefarm.inline._space import Space
from tunefarm.triton import _descriptors, _kept, _log, _source, _tune
from tunefarm.triton._log import Decision
from tunefarm.v1 import kernel_pb2

_LABEL = "tunefarm.triton.autotune"
_WORST_MATCH = "STALE_SOURCE"  # the same kernel and key, where other shapes were submitted later
_LOOKUP_SECONDS = 10.0
_TUNE_SECONDS = 1800.0  # of a job; Triton tunes what takes longer, such as one whose turn does not come
# Before the daemon is asked again for a kept answer: the launch continues without sharing the interpreter lock.
_REFRESH_PAUSE_SECONDS = 0.1
_LAUNCH_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg", "launch_cooperative_grid", "launch_pdl")
_INTEGER_BYTES_MAX = 16 << 20  # of a tensor that is taken by value
_ADDRESS_MIN, _ADDRESS_END = 1 << 32, 1 << 57  # of the tensors to which a tensor of integers may point
_COPIES = 3  # of a tensor, in the daemon's worker: what the kernel writes, what it begins with, and what it must write
_ALIGNMENT = 16  # of tensors, which kernels are compiled for
# Others are compared with the first config: where that does not run, the next ones take its place, so many in all.
_REFERENCES_MAX = 3
_DOES_NOT_FIT = (model.Outcome.COMPILE_ERROR, model.Outcome.INFEASIBLE_LAUNCH, model.Outcome.LOAD_ERROR)
_PLAIN = (bool, int, float, str)

Upload = Callable[[Any, str], Any]


class Kernel:
    """An Autotuner as the daemon sees it. InvalidArgumentError names what of it the daemon cannot respect."""

    def __init__(self, tuner: Any) -> None:
        if getattr(tuner, "user_defined_pre_hook", False) or getattr(tuner, "user_defined_post_hook", False):
            raise InvalidArgumentError("@triton.autotune has a pre_hook or post_hook, which the daemon cannot call")
        if getattr(tuner, "_do_bench", None) is not None:
            raise InvalidArgumentError("@triton.autotune has do_bench, warmup, rep or use_cuda_graph; the daemon measures in "
                                       "its own way")
        self._tuner = tuner
        self._heuristics: List[Mapping[str, Callable[..., Any]]] = []
        inner = tuner.fn
        while _source.is_heuristics(inner):
            self._heuristics.append(inner.values)
            inner = inner.fn
        if not isinstance(getattr(inner, "fn", None), FunctionType) or not hasattr(inner, "params"):
            raise InvalidArgumentError(f"@triton.autotune is around a {type(inner).__name__}; the daemon takes functions of "
                                       "@triton.jit, and @triton.heuristics around them")
        self._function = inner
        parts = [str(getattr(sys.modules.get("triton"), "__version__", "")), *_source.alone(inner).values(),
                 _key_text(tuple(getattr(tuner, "keys", ()))), *(str(config) for config in tuner.configs),
                 *(f"{name} {_source.text_of(function)}" for values in self._heuristics for name, function in values.items()),
                 *_pruning_of(tuner)]
        self._digest = hashlib.sha256("\0".join(parts).encode())

    def name(self, key: Any) -> str:
        """The display name of its definitions for the key."""
        digest = self._digest.copy()
        digest.update(f"\0{_key_text(key)}".encode())
        return f"{_definition.display_name(self._function.fn.__name__)[:40]}_{digest.hexdigest()[:20]}"

    def known(self, key: Any, pruned: Callable[[], Sequence[Any]]) -> Optional[Decision]:
        """One of the decorator's configs, or of those that pruning makes: the one that is kept from an earlier start on
        the same kind of GPU, for which the daemon is asked again later, or else the one that the daemon has found; None
        if there is neither. UnavailableError where the daemon is away and nothing is kept."""
        name, gpu, session = self.name(key), current_gpu(), current_session()
        kept = self.listed(session.kept(name, gpu), pruned)
        if kept is not None and gpu.kind:
            session.refresh(name, gpu)
            return Decision(kept, _log.KEPT, "kept from an earlier start")
        try:
            answer = session.best(name, gpu)
        except UnavailableError as error:
            if kept is None:
                raise
            return Decision(kept, _log.KEPT, f"kept from an earlier start: {error}")
        config = self.listed(answer.config, pruned) if answer is not None else None
        if answer is None or config is None:
            return None
        return Decision(config, _log.KNOWN, f"known: {answer.kernel}, {answer.match.name}")

    def listed(self, config: Mapping[str, Any], pruned: Callable[[], Sequence[Any]]) -> Optional[Any]:
        """The one of the decorator's configs, or of those that pruning makes, that the values mean."""
        found = self._config(self._tuner.configs, config)
        return self._config(pruned(), config) if config and found is None else found

    def tune(self, key: Any, configs: Sequence[Any], args: Any, kwargs: Any) -> Decision:
        """Waits until the daemon has tried all configs. Where none ran and was right, the decision is Triton's own
        tuning."""
        name, gpu, session = self.name(key), current_gpu(), current_session()
        running = session.job_of(name)
        if running is not None:  # of another process
            session.client().wait(running, timeout=_TUNE_SECONDS)
            found = self.known(key, lambda: configs)
            if found is not None:
                return found
        _synchronize()  # what the caller has enqueued would disturb measurements
        for first in range(min(len(configs), _REFERENCES_MAX)):
            job = self._submitted("tune", name, gpu, session, key, configs[first:], args, kwargs, timeout=_TUNE_SECONDS)
            if job.best is not None:
                session.keep(name, gpu, job.best.config)
                return Decision(self._config(configs, job.best.config), _log.TUNED,
                                f"tuned by {job.name}, {job.best.time_ns / 1e6:.6g} ms")
            failed = next((trial for trial in session.client().results(job) if trial.message), None)
            if failed is None or failed.outcome not in _DOES_NOT_FIT:
                break
        why = f"; the first: {failed.outcome.name}: {failed.message}" if failed else ""
        return Decision(None, _log.TRITON, f"{job.name} found no config that runs and is right{why}")

    def submit(self, key: Any, configs: Sequence[Any], args: Any, kwargs: Any) -> str:
        """Has the daemon tune it. Returns which job does, for people."""
        name, gpu, session = self.name(key), current_gpu(), current_session()
        job = session.job_of(name) or self._submitted("submit", name, gpu, session, key, configs, args, kwargs)
        return f"{job.name} tunes it"

    def _submitted(self, method: str, name: str, gpu: "Gpu", session: "_Session", key: Any, configs: Sequence[Any],
                   args: Any, kwargs: Any, **options: Any) -> model.Job:
        client = session.client()
        made = self._definition(name, key, configs, args, kwargs, functools.partial(client.upload_array, progress=False))
        with tempfile.TemporaryDirectory(prefix="tunefarm-") as folder:
            return getattr(client, method)(_definition.write(made, Path(folder)), progress=False,
                                           device=session.selector(gpu), strategy="exhaustive", promote_given=True,
                                           label=f"{_LABEL} {name}", **options)

    @staticmethod
    def _config(configs: Sequence[Any], answer: Mapping[str, Any]) -> Optional[Any]:
        """The one that the answer's values mean."""
        def has(values: Iterable[Tuple[str, Any]]) -> bool:
            return all(answer.get(name, value) == value for name, value in values)

        def is_meant(config: Any) -> bool:
            # First the values in which most configs differ.
            return (has((name, _unwrapped(value)) for name, value in config.kwargs.items()) and
                    has({**_tune.OPTIONS, **_values_of(config)}.items()))

        return next((config for config in configs if is_meant(config)), None) if answer else None

    def _definition(self, name: str, key: Any, configs: Sequence[Any], args: Any, kwargs: Any, upload: Upload) -> Any:
        """The kernel of one call. InvalidArgumentError names what a definition cannot have."""
        parameters = _tune.Parameters.of(self._function)
        given = {**parameters.defaults, **dict(zip(self._tuner.arg_names, args)), **kwargs}
        grid = given.pop("grid", None)
        given.pop("warmup", None)
        options = {option: given.pop(option) for option in list(given)
                   if option not in parameters.run_time and option not in parameters.constexprs}
        for option in options:
            if option not in _LAUNCH_OPTIONS:
                raise InvalidArgumentError(f"the launch has the option '{option}', which a definition does not have")
        rows, constants = self._rows(configs, args, kwargs, parameters)
        for parameter in parameters.constexprs:
            if parameter not in rows[0] and parameter in given:
                constants.setdefault(parameter, _unwrapped(given[parameter]))
        arguments = {parameter: given[parameter] for parameter in parameters.run_time if parameter in given}
        if len(arguments) < len(parameters.run_time):
            raise InvalidArgumentError("the launch has no value for each parameter of the kernel")
        for parameter in list(arguments):
            if arguments[parameter] is None or isinstance(arguments[parameter], bool):
                constants[parameter] = arguments.pop(parameter)

        listed = _tune.completed(rows)
        space = Space.of_configs(listed)
        made = _definition.begin(self._function.fn.__name__, "TRITON", _source.alone(self._function, constants), [], space,
                                 space.first(), upload)
        made.display_name = name
        made.description = f"{self._function.fn.__name__} for the key {_key_text(key)[:1000]} of @triton.autotune."
        for option, value in options.items():
            if value is not None:
                made.derived.add(name=option, expression=repr(value), bind=kernel_pb2.BIND_COMPILE)
        step = made.launches[0].kernel
        step.grid.extend(_definition.grid_of(_tune.grid_over(grid, {**given, **constants}), space))
        outputs = self._add_arguments(made, arguments, configs, parameters.types, kwargs, upload)
        descriptors = self._add_descriptors(made, arguments, configs, kwargs, constants, space)
        step.arguments.extend(descriptors.get(name, name) for name in _arguments.names_of(list(arguments)))
        _definition.add_reference(made, outputs, upload, None, None)
        return made

    def _rows(self, configs: Sequence[Any], args: Any, kwargs: Any,
              parameters: _tune.Parameters) -> "Tuple[List[Dict[str, Any]], Dict[str, Any]]":
        """The configs with the values of the heuristics, without what is the same in all and no value of a parameter: that
        is a constant."""
        rows = []
        for config in configs:
            row = _values_of(config)
            if getattr(config, "ir_override", None) is not None:
                raise InvalidArgumentError("a Config has an ir_override, which the daemon does not have")
            for values in self._heuristics:
                for name, function in values.items():
                    row[name] = _unwrapped(function({**dict(zip(self._tuner.arg_names, args)), **kwargs, **row}))
            for name in row:
                if name not in parameters.constexprs and name not in _tune.OPTIONS:
                    raise InvalidArgumentError(f"'{name}' of a Config or of @triton.heuristics is no tl.constexpr parameter")
            rows.append(row)
        constants = {name: value for name, value in rows[0].items()
                     if not isinstance(value, _PLAIN) and all(name in row and row[name] == value for row in rows)}
        return [{name: value for name, value in row.items() if name not in constants} for row in rows], constants

    def _add_arguments(self, made: Any, arguments: Mapping[str, Any], configs: Sequence[Any], types: Mapping[str, str],
                       kwargs: Any, upload: Upload) -> List[Argument]:
        """Returns the tensors, all of which may be outputs: nothing says which of them the kernel writes."""
        zeroed = {*self._tuner.reset_to_zero, *_zeroed_by_hooks(configs, arguments, kwargs)}
        restored = set(self._tuner.restore_value)
        tensors = {}
        for name, value in arguments.items():
            if _descriptors.is_descriptor(value):
                _descriptors.check(value, f"the argument '{name}'")
            if not isinstance(value, (int, float)) and not _tune.is_scalar(value):
                tensors[name] = _Tensor.of(_descriptors.base_of(value), f"the argument '{name}'")
        for name in (*zeroed, *restored):
            if name in arguments and name not in tensors:
                raise InvalidArgumentError(f"'{name}', which is to be reset or restored, is no tensor")
        _check_memory(_COPIES * sum(tensor.bytes for tensor in tensors.values()))
        outputs = []
        for own, (name, value) in zip(_arguments.names_of(list(arguments)), arguments.items()):
            if name not in tensors:
                scalar = _tune.scalar(own, value, types.get(name), f"the argument '{name}'")
                item = made.arguments.add(name=own).scalar
                item.data_type, item.value = _data_files.type_number(scalar.data_type), scalar.value
                continue
            tensor = tensors[name]
            outputs.append(Argument(own, tensor.data_type, value, None, _arguments.INOUT))
            buffer = made.arguments.add(name=own).buffer
            buffer.data_type, buffer.length = _data_files.type_number(tensor.data_type), str(tensor.length)
            if name in zeroed or name in restored:
                buffer.restore = kernel_pb2.RESTORE_PER_SAMPLE
            if name in zeroed:
                buffer.access, buffer.init = kernel_pb2.ACCESS_OUT, kernel_pb2.INIT_ZERO
                continue
            buffer.access = kernel_pb2.ACCESS_INOUT
            tensor.fill(buffer.fill, upload)
        if not outputs:
            raise InvalidArgumentError("the kernel has no tensor, so that nothing can be compared")
        return outputs

    def _add_descriptors(self, made: Any, arguments: Mapping[str, Any], configs: Sequence[Any], kwargs: Any,
                         constants: Mapping[str, Any], space: Space) -> Dict[str, str]:
        """Returns the descriptors' names by those of their arrays."""
        added: Dict[str, str] = {}
        if not any(map(_descriptors.is_descriptor, arguments.values())):
            return added
        seen = {name: value if value is None or isinstance(value, _PLAIN) else _StandIn(name, [])
                for name, value in {**constants, **arguments, **kwargs}.items()}
        blocks = _descriptors.Blocks(arguments, space, _descriptors.hook_of(configs), seen)
        names = _arguments.names_of(list(arguments))
        for own, (name, value) in zip(names, arguments.items()):
            if _descriptors.is_descriptor(value):
                added[own] = _descriptors.name_of(own, names)
                _definition.add_descriptor(made, own, blocks.descriptor(name, added[own]))
        return added


def _pruning_of(tuner: Any) -> List[str]:
    """What says which configs may be chosen; empty where all may."""
    functions = [getattr(tuner, name, None) for name in _source.PRUNING]
    if functions == [None, None]:
        return []
    return [*map(_source.text_of, functions), str(getattr(tuner, "configs_top_k", ""))]


def _key_text(key: Any) -> str:
    """Equal in all processes where the keys are equal. Objects with another text in each process are refused."""
    if isinstance(key, tuple):
        return f"({', '.join(map(_key_text, key))})"
    key = _unwrapped(key)
    if key is None or isinstance(key, _PLAIN):
        return repr(key)
    if type(key).__name__ == "dtype":
        return str(key)
    raise InvalidArgumentError(f"the key has a {type(key).__name__}; the daemon takes numbers, strings, types and None")


def _values_of(config: Any) -> Dict[str, Any]:
    options = {name: getattr(config, name, None) for name in _tune.OPTIONS}
    return {**{name: _unwrapped(value) for name, value in config.kwargs.items()},
            **{name: value for name, value in options.items() if value is not None}}


def _unwrapped(value: Any) -> Any:
    if type(value).__name__ == "constexpr":
        return value.value
    return value.item() if _tune.is_scalar(value) else value


def _zeroed_by_hooks(configs: Sequence[Any], arguments: Mapping[str, Any], kwargs: Any) -> List[str]:
    """The tensors that pre_hooks of configs set to zero. They are called with stand-ins for the tensors, which can do
    nothing else, and for tensor descriptors, whose block shapes they may set; InvalidArgumentError for a hook that does
    more."""
    zeroed: List[str] = []
    for config in configs:
        if getattr(config, "pre_hook", None) is None:
            continue
        stand_ins = {name: _descriptors.stand_in(value) if _descriptors.is_descriptor(value) else
                     value if value is None or isinstance(value, _PLAIN) else _StandIn(name, zeroed)
                     for name, value in {**arguments, **kwargs, **_values_of(config)}.items()}
        try:
            config.pre_hook(stand_ins)
        except Exception as error:
            raise InvalidArgumentError(f"the pre_hook of a Config does more than to set tensors to zero and block shapes, "
                                       f"which the daemon cannot do: {type(error).__name__}: {error}") from None
    return zeroed


class _StandIn:
    __slots__ = ("_name", "_zeroed")

    def __init__(self, name: str, zeroed: List[str]) -> None:
        self._name, self._zeroed = name, zeroed

    def zero_(self) -> "_StandIn":
        self._zeroed.append(self._name)
        return self

    def fill_(self, value: Any) -> "_StandIn":
        if value != 0:
            raise ValueError(f"'{self._name}' is filled with {value!r}")
        return self.zero_()


class _Tensor(NamedTuple):
    """What a kernel may reach of one: from its first element to the last, whatever lies between."""

    given: Any
    what: str
    data_type: str
    length: int

    @classmethod
    def of(cls, given: Any, what: str) -> "_Tensor":
        name = str(getattr(given, "dtype", "")).rpartition(".")[2]
        if _tune.NOT_IN_BUFFERS.search(name):
            raise InvalidArgumentError(f"{what} has elements of type {name}, which a definition's buffers do not have")
        if name not in _arguments.TYPES:
            raise InvalidArgumentError(f"{what} is a {type(given).__name__}{f' of {name}' if name else ''}; a definition has "
                                       "tensors of numbers, and numbers")
        data_type = _arguments.TYPES[name]
        if callable(getattr(given, "stride", None)):
            address, strides = given.data_ptr(), list(given.stride())
        else:
            interface = getattr(given, "__cuda_array_interface__", None) or getattr(given, "__array_interface__", None)
            if not interface:
                raise InvalidArgumentError(f"{what} is a {type(given).__name__}, whose memory is not known")
            address, strides = interface["data"][0], [given.strides[axis] // given.itemsize for axis in range(given.ndim)]
        if 0 in given.shape or any(stride < 0 for stride in strides):
            raise InvalidArgumentError(f"{what} has {'no elements' if 0 in given.shape else 'negative strides'}")
        if address % _ALIGNMENT:
            raise InvalidArgumentError(f"{what} does not begin at a multiple of {_ALIGNMENT} bytes, as the daemon's buffers do")
        length = 1 + sum((size - 1) * stride for size, stride in zip(given.shape, strides))
        return cls(given, what, data_type, int(length))

    @property
    def bytes(self) -> int:
        return self.length * _data_files.WIDTHS[self.data_type]

    def fill(self, fill: Any, upload: Upload) -> None:
        """Integers are often positions: they are taken as they are. Floating-point numbers are random by default."""
        if self.data_type[0] in "iu" and self.bytes <= _INTEGER_BYTES_MAX:
            # Of PyTorch by all that it spans; of others only as a whole.
            spread = self.given
            if hasattr(spread, "as_strided"):
                spread = spread.as_strided((self.length,), (1,))
            array, _ = _arguments.flat_array(spread, self.what)
            if len(array) != self.length:
                raise InvalidArgumentError(f"{self.what} is not contiguous")
            if self.data_type in ("i64", "u64") and _may_be_addresses(array):
                raise InvalidArgumentError(f"{self.what} has integers that may be addresses, which the daemon's process does "
                                           "not have")
            if array.view("u1").any():
                fill.file.CopyFrom(upload(array, self.data_type))
            else:
                fill.zeros.SetInParent()
        elif self.data_type in ("i8", "u8"):
            fill.uniform.low, fill.uniform.high = (-128, 127) if self.data_type == "i8" else (0, 255)
        elif self.data_type[0] in "iu":
            raise InvalidArgumentError(f"{self.what} has {self.bytes} bytes of integers, which may be positions; at most "
                                       f"{_INTEGER_BYTES_MAX} are taken")
        else:
            fill.normal.SetInParent()


def _may_be_addresses(array: Any) -> bool:
    """Whether all but zeros lie where tensors may lie in a GPU's address space."""
    given = array[array != 0]
    return bool(given.size) and bool((given >= _ADDRESS_MIN).all()) and bool((given < _ADDRESS_END).all())


def _torch_of_gpu() -> Any:
    """PyTorch where it is imported and has a GPU."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and torch.cuda.is_available() else None


def _check_memory(needed: int) -> None:
    torch = _torch_of_gpu()
    free = torch.cuda.mem_get_info()[0] if torch is not None else needed
    if needed > free:
        raise ResourceExhaustedError(f"the daemon needs {needed} bytes of the GPU's memory beside this process, and {free} are "
                                     "free")


def _synchronize() -> None:
    torch = _torch_of_gpu()
    if torch is not None:
        torch.cuda.synchronize()


# ---- The daemon ----


class Gpu(NamedTuple):
    """The current GPU of this process; all empty where PyTorch does not say which it is."""

    name: str = ""
    uuid: str = ""
    kind: str = ""  # the properties that all GPUs with the same answers have in common


def current_gpu() -> Gpu:
    torch = _torch_of_gpu()
    if torch is None:
        return Gpu()
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    traits = ("name", "major", "minor", "multi_processor_count", "total_memory")
    kind = " ".join(str(getattr(properties, trait, "")) for trait in traits)
    return Gpu(properties.name, str(getattr(properties, "uuid", "")), kind)


class _Session:
    """A process's connection to its daemon, and the kept answers of that daemon. A daemon that was away once is not
    asked again. Used by one launch at a time, and by the thread that asks again."""

    def __init__(self, is_of_fork: bool) -> None:
        self.process = os.getpid()
        self._is_of_fork = is_of_fork
        try:
            self._daemon = _connection.named_address(None, None) or _connection.chosen_data_directory(None, os.environ)
        except FailedPreconditionError:  # which client() meets again
            self._daemon = ""
        self._connecting = threading.Lock()
        self._client: Optional[Client] = None
        self._gone: Optional[UnavailableError] = None  # never raised itself: its traceback would keep callers' tensors
        self._selectors: Dict[Gpu, str] = {}
        self._run: Optional[Run] = None
        self._refreshing = threading.Lock()
        self._to_refresh: Deque[Tuple[str, Gpu]] = collections.deque()
        self._is_idle = threading.Event()
        self._is_idle.set()
        self._ends = threading.Event()
        atexit.register(self._finish)

    def client(self) -> Client:
        """UnavailableError where there is no daemon."""
        with self._connecting:
            if self._gone is not None:
                raise _absence(self._gone)
            if self._client is None:
                try:
                    self._client = Client(start=False)
                except TunefarmError as error:
                    self._gone = _absence(error)
                    raise _absence(error) from None
            return self._client

    def selector(self, gpu: Gpu) -> str:
        """Of the GPU among the daemon's devices; empty where it is not known which it is."""
        if not gpu.kind:
            return ""
        own = self._selectors.get(gpu)
        if own is None:
            client = self.client()
            gpus = [device for device in self._answered(lambda: client.devices(timeout=_LOOKUP_SECONDS))
                    if device.device_class.kind is model.DeviceKind.CUDA]
            same = ([device for device in gpus if gpu.uuid and device.uuid.lower().endswith(gpu.uuid.lower())] or
                    [device for device in gpus if device.device_class.display_name == gpu.name])
            if not same:
                raise FailedPreconditionError(f"the daemon has no {gpu.name}")
            own = self._selectors[gpu] = same[0].uuid
        return own

    def best(self, name: str, gpu: Gpu) -> Optional[model.Answer]:
        """The best config of the definitions of that name, which it keeps; None where none is known. UnavailableError
        where the daemon is away."""
        client, device = self.client(), self.selector(gpu)
        try:
            answer = self._answered(lambda: client.best(name, device, _WORST_MATCH, timeout=_LOOKUP_SECONDS))
        except NotFoundError:  # nobody has submitted such a definition
            return None
        if not answer:
            return None
        self.keep(name, gpu, answer.config)
        return answer

    def run(self, run_id: str) -> Run:
        """The run of the id, joined when it is first asked for."""
        if self._run is None or self._run.id != run_id:
            client = self.client()
            self._run = self._answered(lambda: client.join_run(run_id, timeout=_LOOKUP_SECONDS))
        elif self._gone is not None:
            raise _absence(self._gone)
        return self._run

    def agreed(self, run: Run, name: str, gpu: Gpu) -> model.Answer:
        device = self.selector(gpu)
        return self._answered(lambda: run.best(name, device, _WORST_MATCH, timeout=_LOOKUP_SECONDS))

    def _answered(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except (UnavailableError, DeadlineExceededError) as error:
            self._gone = _absence(error)
            raise _absence(error) from None

    def job_of(self, name: str) -> Optional[model.Job]:
        """One that tunes it, of whatever process."""
        unfinished = (model.JobState.QUEUED, model.JobState.RUNNING)
        return next((job for job in self.client().jobs(states=unfinished) if job.label == f"{_LABEL} {name}"), None)

    def kept(self, name: str, gpu: Gpu) -> Dict[str, Any]:
        """What is kept of the daemon's answers; empty where nothing is."""
        return _kept.read(name, self._scope(gpu))

    def keep(self, name: str, gpu: Gpu, config: Mapping[str, Any]) -> None:
        _kept.keep(name, self._scope(gpu), config)

    def _scope(self, gpu: Gpu) -> str:
        return f"{gpu.kind} at {self._daemon}"

    def refresh(self, name: str, gpu: Gpu) -> None:
        """Lets a thread ask the daemon again for a kept answer, for the next start, unless the process ends before.
        Does nothing in a child of a process that may have connected: gRPC does not survive a fork."""
        if self._is_of_fork or self._gone is not None:
            return
        with self._refreshing:
            self._to_refresh.append((name, gpu))
            if not self._is_idle.is_set():
                return
            self._is_idle.clear()
        try:
            # threading.Thread.start() would wait until the thread runs: milliseconds where all cores are busy.
            _thread.start_new_thread(self._refresh, ())
        except RuntimeError:  # the process ends, or may have no more threads
            self._is_idle.set()

    def _refresh(self) -> None:
        self._ends.wait(_REFRESH_PAUSE_SECONDS)
        while True:
            with self._refreshing:
                # Where the process ends, Python 3.12 and newer start no thread, which gRPC needs to connect.
                if not self._to_refresh or self._ends.is_set():
                    self._is_idle.set()
                    return
                name, gpu = self._to_refresh.popleft()
            try:
                outcome, what = self._asked_again(name, gpu)
            except Exception as error:
                outcome, what = _log.FAILED, str(error)
            _log.refreshed(name, outcome, what)

    def _finish(self) -> None:
        """At the end of the process: waits for the call in flight, since no thread may be stopped inside gRPC."""
        if self.process == os.getpid():
            self._ends.set()
            self._is_idle.wait()

    def _asked_again(self, name: str, gpu: Gpu) -> Tuple[str, str]:
        """The outcome (_log.UNCHANGED, ...), and the new answer where it differs."""
        before = self.kept(name, gpu)
        answer = self.best(name, gpu)
        if answer is None:
            _kept.forget(name, self._scope(gpu))
            return _log.UNKNOWN, ""
        return (_log.UNCHANGED, "") if dict(answer.config) == before else (_log.CHANGED, str(answer.config))


def _absence(error: TunefarmError) -> UnavailableError:
    return UnavailableError(error.message, code=error.code, reason=error.reason)


_sessions: List[_Session] = []


def current_session() -> _Session:
    """Of this process: a connection does not outlive a fork. The parent's stays untouched, since closing it would wait for
    threads that only the parent has."""
    if not _sessions or _sessions[-1].process != os.getpid():
        _sessions.append(_Session(is_of_fork=bool(_sessions)))
    return _sessions[-1]
