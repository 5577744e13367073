"""What @tunefarm.triton.autotune asks the daemon for. Private.

The best config of a kernel and a key is that of a definition whose display name has the digest of both, so that one call
by name answers. The definition itself is of the first call with the key: its shapes, types, scalars and integers."""

from __future__ import annotations

import functools
import hashlib
import sys
import tempfile
from pathlib import Path
from types import FunctionType
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from tunefarm import _data_files, model
from tunefarm._display import a_type
from tunefarm.errors import InvalidArgumentError, UnavailableError
from tunefarm.inline import _arguments, _definition
from tunefarm.inline._arguments import Argument
from tunefarm.inline._space import Space
from tunefarm.triton import _descriptors, _gpu, _log, _session, _source, _tune
from tunefarm.triton._gpu import Gpu
from tunefarm.triton._log import Decision
from tunefarm.triton._session import Session
from tunefarm.v1 import kernel_pb2

_TUNE_SECONDS = 1800.0  # of a job; Triton tunes what takes longer, such as one whose turn does not come
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
    """An Autotuner as the daemon sees it, at the moment when this is made. One launch at a time uses it."""

    def __init__(self, tuner: Any) -> None:
        """InvalidArgumentError names what of it the daemon cannot respect. Takes 0.1 ms, where the source is prepared."""
        if getattr(tuner, "user_defined_pre_hook", False) or getattr(tuner, "user_defined_post_hook", False):
            raise InvalidArgumentError("@triton.autotune has a pre_hook or post_hook, which the daemon cannot call")
        if getattr(tuner, "_do_bench", None) is not None:
            raise InvalidArgumentError("@triton.autotune has do_bench, warmup, rep or use_cuda_graph; the daemon measures in "
                                       "its own way")
        self._tuner = tuner
        heuristics, inner = _layers(tuner)
        if not isinstance(getattr(inner, "fn", None), FunctionType) or not hasattr(inner, "params"):
            raise InvalidArgumentError(f"@triton.autotune is around {a_type(inner)}; the daemon takes functions of "
                                       "@triton.jit, and @triton.heuristics around them")
        self._function, self._heuristics = inner, heuristics
        self._source = _source.Text(inner)
        self._made_of = _traits(tuner)
        parts = [_triton_version(), self._source.text, _key_text(tuple(getattr(tuner, "keys", ()))),
                 *(str(config) for config in tuner.configs),
                 *(f"{name} {_source.text_of(function)}" for values in heuristics for name, function in values.items()),
                 *_pruning_of(tuner)]
        self._digest = hashlib.sha256("\0".join(parts).encode())
        self._short_name = _definition.display_name(inner.fn.__name__)[:40]

    def is_current(self) -> bool:
        """Whether a Kernel that is made of the Autotuner now would be the same."""
        try:
            return self._source.is_current() and bool(_traits(self._tuner) == self._made_of)
        except Exception:  # in comparing what the program has put there
            return False

    def name(self, key: Any) -> str:
        """The display name of its definitions for the key."""
        digest = self._digest.copy()
        digest.update(f"\0{_key_text(key)}".encode())
        return f"{self._short_name}_{digest.hexdigest()[:20]}"

    def known(self, key: Any, pruned: Callable[[], Sequence[Any]]) -> Optional[Decision]:
        """One of the decorator's configs, or of those that pruning makes: the one that is kept from an earlier start on
        the same kind of GPU, for which the daemon is asked again later, or else the one that the daemon has found; None
        if there is neither. UnavailableError where the daemon is away and nothing is kept."""
        name, gpu, session = self.name(key), _gpu.current(), _session.current()
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
        name, gpu, session = self.name(key), _gpu.current(), _session.current()
        running = session.job_of(name)
        if running is not None:  # of another process
            session.client().wait(running, timeout=_TUNE_SECONDS)
            found = self.known(key, lambda: configs)
            if found is not None:
                return found
        _gpu.synchronize()  # what the caller has enqueued would disturb measurements
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
        name, gpu, session = self.name(key), _gpu.current(), _session.current()
        job = session.job_of(name) or self._submitted("submit", name, gpu, session, key, configs, args, kwargs)
        return f"{job.name} tunes it"

    def _submitted(self, method: str, name: str, gpu: Gpu, session: Session, key: Any, configs: Sequence[Any],
                   args: Any, kwargs: Any, **options: Any) -> model.Job:
        client = session.client()
        made = self._definition(name, key, configs, args, kwargs, functools.partial(client.upload_array, progress=False))
        with tempfile.TemporaryDirectory(prefix="tunefarm-") as folder:
            return getattr(client, method)(_definition.write(made, Path(folder)), progress=False,
                                           device=session.selector(gpu), strategy="exhaustive", promote_given=True,
                                           label=f"{_session.LABEL} {name}", **options)

    @staticmethod
    def _config(configs: Sequence[Any], answer: Mapping[str, Any]) -> Optional[Any]:
        """The one that the answer's values mean."""
        for config in configs if answer else ():
            # First the values in which most configs differ.
            for name, value in config.kwargs.items():
                if name in answer and answer[name] != (value if type(value) in _PLAIN else _unwrapped(value)):
                    break
            else:
                if all(answer.get(name, value) == value for name, value in {**_tune.OPTIONS, **_values_of(config)}.items()):
                    return config
        return None

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
        _gpu.check_memory(_COPIES * sum(tensor.bytes for tensor in tensors.values()))
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


def _layers(tuner: Any) -> "Tuple[List[Mapping[str, Callable[..., Any]]], Any]":
    """The values of each @triton.heuristics below the Autotuner, from the outermost on, and the function below them."""
    heuristics: List[Mapping[str, Callable[..., Any]]] = []
    inner = tuner.fn
    while _source.is_heuristics(inner):
        heuristics.append(inner.values)
        inner = inner.fn
    return heuristics, inner


def _traits(tuner: Any) -> List[Any]:
    """All that a Kernel is made of beside its source, in copies: two are equal where the program has changed nothing
    between them."""
    heuristics, inner = _layers(tuner)
    return [_triton_version(), inner, inner.fn, list(map(dict, heuristics)), list(getattr(tuner, "keys", ())),
            getattr(tuner, "user_defined_pre_hook", False), getattr(tuner, "user_defined_post_hook", False),
            getattr(tuner, "_do_bench", None), *(getattr(tuner, name, None) for name in _source.PRUNING),
            getattr(tuner, "configs_top_k", None), [(dict(vars(config)), dict(config.kwargs)) for config in tuner.configs]]


def _triton_version() -> str:
    return str(getattr(sys.modules.get("triton"), "__version__", ""))


def _pruning_of(tuner: Any) -> List[str]:
    """What says which configs may be chosen; empty where all may."""
    functions = [getattr(tuner, name, None) for name in _source.PRUNING]
    if functions == [None, None]:
        return []
    return [*map(_source.text_of, functions), str(getattr(tuner, "configs_top_k", ""))]


def _key_text(key: Any) -> str:
    """Equal in all processes where the keys are equal. Objects with another text in each process are refused."""
    if type(key) in _PLAIN:
        return repr(key)
    if isinstance(key, tuple):
        return f"({', '.join(map(_key_text, key))})"
    key = _unwrapped(key)
    if key is None or isinstance(key, _PLAIN):
        return repr(key)
    if type(key).__name__ == "dtype":
        return str(key)
    raise InvalidArgumentError(f"the key has {a_type(key)}; the daemon takes numbers, strings, types and None")


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
            raise InvalidArgumentError(f"{what} is {a_type(given)}{f' of {name}' if name else ''}; a definition has "
                                       "tensors of numbers, and numbers")
        data_type = _arguments.TYPES[name]
        if callable(getattr(given, "stride", None)):
            address, strides = given.data_ptr(), list(given.stride())
        else:
            interface = getattr(given, "__cuda_array_interface__", None) or getattr(given, "__array_interface__", None)
            if not interface:
                raise InvalidArgumentError(f"{what} is {a_type(given)}, whose memory is not known")
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
