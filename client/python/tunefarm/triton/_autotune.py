"""install and autotune: Triton's own autotuner, with a cache that the daemon fills. Private.

What Triton looks up in its cache of configs (Autotuner.cache) for a new key is decided here: by what the daemon knows, by
what it finds now, or by Triton itself. Hooks, heuristics and launches stay Triton's."""

from __future__ import annotations

import functools
import importlib
import os
import sys
import threading
import warnings
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple

from tunefarm.errors import DeadlineExceededError, InvalidArgumentError, TunefarmError, UnavailableError

_WAIT, _DEFAULT, _INPROCESS = _POLICIES = ("wait", "default", "inprocess")
_MODULES = ("triton.runtime.autotuner", "triton.runtime", "triton")  # where Triton has autotune
_ORIGINAL = "_tunefarm_original"  # attribute of what install() puts there

_calls = threading.local()  # .current: the _Call that runs, or None
_deciding = threading.RLock()  # one kernel is tuned at a time
_has_warned = False


def _after_fork() -> None:
    global _deciding
    _deciding = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)


def install(policy: Optional[str] = None) -> None:
    """Makes triton.autotune what tunefarm.triton.autotune is, for decorators that run afterwards. Calling it again changes
    the policy. Imports triton. InvalidArgumentError for an unknown policy."""
    _checked(policy)
    modules = [importlib.import_module(name) for name in _MODULES]
    original = _original(modules[0])

    @functools.wraps(original)
    def replacement(*arguments: Any, **named: Any) -> Callable[[Any], Any]:
        return _decorator(original, arguments, named, policy)

    setattr(replacement, _ORIGINAL, original)
    for module in modules:
        module.autotune = replacement  # type: ignore[attr-defined]


def autotune(configs: Any, key: Any, *arguments: Any, policy: Optional[str] = None, **named: Any) -> Callable[[Any], Any]:
    """@triton.autotune with all its arguments, but that the daemon tunes.

    A config that the daemon knows for the kernel (its source, its configs, the version of Triton), the key and the GPU is
    taken, and nothing is launched for tuning. For others `policy` says what happens, or else TUNEFARM_TRITON_POLICY:
    "wait" (the default): the call waits for the daemon, at most 30 minutes for a job, which tunes the kernel for the shapes,
    types and scalars of the call, on random floating-point numbers and on the call's integers.
    "default": the first config; the daemon tunes meanwhile, for the next start.
    "inprocess": Triton tunes as it does without tunefarm.
    Without a daemon: what it answered at an earlier start; else the first config for "default", and Triton's own tuning
    otherwise. What cannot be tuned by the daemon is tuned by Triton. A call that is captured into a graph tunes nothing.
    TUNEFARM_TRITON_LOG=1 makes each decision a line on standard error.
    """
    original = _original(importlib.import_module(_MODULES[0]))
    return _decorator(original, (configs, key, *arguments), named, policy)


def _original(module: Any) -> Callable[..., Any]:
    return getattr(module.autotune, _ORIGINAL, module.autotune)


def _decorator(original: Callable[..., Any], arguments: Tuple[Any, ...], named: Dict[str, Any],
               policy: Optional[str]) -> Callable[[Any], Any]:
    chosen = _checked(policy)
    decorate = original(*arguments, **named)

    def decorator(function: Any) -> Any:
        made = decorate(function)
        made.__class__ = _class_of(type(made))
        made.cache = _Cache(made, chosen)
        return made

    return decorator


def _checked(policy: Optional[str]) -> str:
    chosen = policy or os.environ.get("TUNEFARM_TRITON_POLICY") or _WAIT
    if chosen not in _POLICIES:
        raise InvalidArgumentError(f"{'policy' if policy else 'TUNEFARM_TRITON_POLICY'} is {chosen!r}; write one of "
                                   f"{', '.join(_POLICIES)}")
    return chosen


@functools.lru_cache(maxsize=None)
def _class_of(base: type) -> type:
    class Autotuner(base):  # type: ignore[valid-type,misc]
        def run(self, *args: Any, **kwargs: Any) -> Any:
            before = getattr(_calls, "current", None)
            call = _calls.current = _Call(self, args, kwargs)
            try:
                return super().run(*args, **kwargs)
            finally:
                _calls.current = before
                for key in call.passing_keys:
                    self.cache.pop(key, None)

    return Autotuner


class _Call:
    """A launch."""

    __slots__ = ("tuner", "args", "kwargs", "passing_keys")

    def __init__(self, tuner: Any, args: Any, kwargs: Any) -> None:
        self.tuner, self.args, self.kwargs = tuner, args, kwargs
        self.passing_keys: Tuple[Any, ...] = ()  # whose config holds for this launch alone


class _Refusal(NamedTuple):
    """An error without its traceback, which would keep the tensors of the launch alive."""

    why: str
    is_absence: bool  # it is the daemon that is not there, or gRPC
    is_unexpected: bool  # a fault, in which Triton still does its work

    @classmethod
    def of(cls, error: Exception) -> "_Refusal":
        is_unexpected = not isinstance(error, (TunefarmError, ImportError))
        return cls(f"{type(error).__name__}: {error}" if is_unexpected else str(error),
                   isinstance(error, (UnavailableError, DeadlineExceededError, ImportError)), is_unexpected)


class _Cache(Dict[Any, Any]):
    """Configs by key, in the place of Autotuner.cache."""

    def __init__(self, tuner: Any, policy: str) -> None:
        super().__init__()
        self._tuner = tuner
        self._policy = policy
        self._kernel: Any = None  # _asking.Kernel, once it is needed

    def __contains__(self, key: Any) -> bool:
        if super().__contains__(key):
            return True
        call: Optional[_Call] = getattr(_calls, "current", None)
        if call is None or call.tuner is not self._tuner:
            return False
        with _deciding:
            if not super().__contains__(key):
                config, why = self._decide(key, call)
                self._log(key, config, why)
                if config is None:
                    return False
                self[key] = config
            return True

    def _decide(self, key: Any, call: _Call) -> "Tuple[Optional[Any], str]":
        """A config, or None for Triton's own tuning; and why."""
        is_captured = _is_capturing()
        refusal: Optional[_Refusal] = None
        try:
            from tunefarm.triton import _asking

            if self._kernel is None:
                self._kernel = _asking.Kernel(self._tuner)
            config, why = self._kernel.known(key, lambda: self._tuner.prune_configs(call.kwargs))
            if config is not None:
                return config, why
        except Exception as error:
            refusal = _Refusal.of(error)
        if self._policy == _INPROCESS and not is_captured:
            return None, f"the policy is {_INPROCESS}"
        if refusal is not None and not is_captured and not (self._policy == _DEFAULT and refusal.is_absence):
            return None, self._gives_way(refusal)
        configs = list(self._tuner.prune_configs(call.kwargs))
        if len(configs) == 1:
            return configs[0], "the only config"
        if is_captured:
            call.passing_keys = (key,)
            return configs[0], "the first config, for this call alone: it is captured into a graph"
        if refusal is not None:
            return configs[0], f"the first config: {refusal.why}"
        try:
            if self._policy == _WAIT:
                return self._kernel.tune(key, configs, call.args, call.kwargs)
            return configs[0], f"the first config; {self._kernel.submit(key, configs, call.args, call.kwargs)}"
        except Exception as error:
            refusal = _Refusal.of(error)
        if self._policy == _DEFAULT and refusal.is_absence:
            return configs[0], f"the first config: {refusal.why}"
        return None, self._gives_way(refusal)

    def _gives_way(self, refusal: "_Refusal") -> str:
        global _has_warned
        if (refusal.is_absence or refusal.is_unexpected) and not _has_warned:
            _has_warned = True
            warnings.warn(f"tunefarm: kernels are tuned by Triton itself: {refusal.why}", stacklevel=7)
        return refusal.why

    def _log(self, key: Any, config: Any, why: str) -> None:
        if os.environ.get("TUNEFARM_TRITON_LOG", "0") not in ("", "0"):
            chosen = "Triton's own tuning" if config is None else str(config)
            print(f"tunefarm.triton: {self._tuner.base_fn.__name__} {key}: {chosen} ({' '.join(why.split())})",
                  file=sys.stderr, flush=True)


def _is_capturing() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()
