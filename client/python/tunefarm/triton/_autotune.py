"""install and autotune: Triton's own autotuner, with a cache that the daemon fills. Private.

What Triton looks up in its cache of configs (Autotuner.cache) for a new key is decided here: by what an earlier start
has kept, by what the daemon knows or finds now, by what the processes of a distributed run agree on, or by Triton
itself. Hooks, heuristics and launches stay Triton's."""

from __future__ import annotations

import functools
import importlib
import os
import sys
import threading
import warnings
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple, Union

from tunefarm.errors import DeadlineExceededError, InvalidArgumentError, TunefarmError, UnavailableError
from tunefarm.triton import _gpu, _log, _source
from tunefarm.triton._log import Decision

_WAIT, _DEFAULT, _INPROCESS = _POLICIES = ("wait", "default", "inprocess")
_MODULES = ("triton.runtime.autotuner", "triton.runtime", "triton")  # where Triton has autotune
_ORIGINAL = "_tunefarm_original"  # attribute of what install() puts there

_RUN_IDS = ("TUNEFARM_TRITON_RUN_ID", "TORCHELASTIC_RUN_ID")
_NO_RUN = ("", "none")  # "none" is what torchrun calls each run that is given no --rdzv-id

_calls = threading.local()  # .current: the _Call that runs, or None
_deciding = threading.RLock()  # one kernel is tuned at a time
_has_warned = False
_run_id: Optional[str] = None  # of install()
_snapshot: Optional[str] = None


def _after_fork() -> None:
    global _deciding
    _deciding = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)


def install(policy: Optional[str] = None, *, run_id: Optional[str] = None,
            snapshot: "Optional[Union[str, os.PathLike[str]]]" = None) -> None:
    """Makes triton.autotune what tunefarm.triton.autotune is, for decorators that run afterwards. Calling it again changes
    the policy, the run and the snapshot, of which the latter two are those of the process. Imports triton and
    gRPC, so that no launch waits for that; it does not connect. InvalidArgumentError for an unknown policy.

    `run_id` names the distributed run of which this process is one, in place of TUNEFARM_TRITON_RUN_ID and
    TORCHELASTIC_RUN_ID; `snapshot`, in place of TUNEFARM_TRITON_SNAPSHOT, is a file of `tunefarm export snapshot` from just
    before the run began, for processes that lose the daemon."""
    global _run_id, _snapshot
    _checked(policy)
    _run_id, _snapshot = run_id, None if snapshot is None else os.fspath(snapshot)
    modules = [importlib.import_module(name) for name in _MODULES]
    original = _original(modules[0])

    @functools.wraps(original)
    def replacement(*arguments: Any, **named: Any) -> Callable[[Any], Any]:
        return _decorator(original, arguments, named, policy)

    setattr(replacement, _ORIGINAL, original)
    for module in modules:
        module.autotune = replacement  # type: ignore[attr-defined]
    # The modules that the first launch would wait for (200 ms). It connects: what forks before that has no gRPC running.
    try:
        importlib.import_module("tunefarm.triton._agreeing")
    except Exception:  # the first launch meets it again, and says it
        pass


def autotune(configs: Any, key: Any, *arguments: Any, policy: Optional[str] = None, **named: Any) -> Callable[[Any], Any]:
    """@triton.autotune with all its arguments, but that the daemon tunes.

    A config that the daemon knows for the kernel (its source, its configs, the version of Triton), the key and the GPU is
    taken, and nothing is launched for tuning. It is kept on this machine: later starts use it without asking, and a
    thread asks again for the next start. For others `policy` says what happens, or else TUNEFARM_TRITON_POLICY:
    "wait" (the default): the call waits for the daemon, at most 30 minutes for a job, which tunes the kernel for the shapes,
    types and scalars of the call, on random floating-point numbers and on the call's integers.
    "default": the first config; the daemon tunes meanwhile, for the next start.
    "inprocess": Triton tunes as it does without tunefarm.
    Without a daemon: what is kept; else the first config for "default", and Triton's own tuning otherwise. What cannot be
    tuned by the daemon is tuned by Triton. A call that is captured into a graph tunes nothing.
    In a distributed run, which TUNEFARM_TRITON_RUN_ID, TORCHELASTIC_RUN_ID (of torchrun) or install() names, all processes
    and later starts take what the first of them was told. Where that is that nothing is known, and also where a process
    cannot know it, they take the first config, the latter with a warning; Triton tunes nothing there, and "inprocess" is
    "default".
    TUNEFARM_TRITON_LOG=1 prints each decision on standard error, and their counts when the process ends.
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
        made.cache.prepare()
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
                if call.uses_kept:  # after the launch, which does not wait for the start of a thread
                    from tunefarm.triton import _session

                    _session.current().start_refreshing()

    return Autotuner


class _Call:
    """A launch."""

    __slots__ = ("tuner", "args", "kwargs", "passing_keys", "uses_kept")

    def __init__(self, tuner: Any, args: Any, kwargs: Any) -> None:
        self.tuner, self.args, self.kwargs = tuner, args, kwargs
        self.passing_keys: Tuple[Any, ...] = ()  # whose config holds for this launch alone
        self.uses_kept = False  # an answer of an earlier start, which the daemon is asked for again


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
        self._kernel: Any = None  # _asking.Kernel
        self._is_described = False  # self._kernel is that of the first decision

    def prepare(self) -> None:
        """Does what the first decision would wait for, where install() has imported what that needs and the names that the
        kernel uses are defined. What cannot be done here is left to the first decision, errors included."""
        asking = sys.modules.get("tunefarm.triton._asking")
        try:
            if asking is not None:
                self._kernel = asking.Kernel(self._tuner)
        except Exception:
            pass
        if self._kernel is None:
            _source.prepare_all(self._tuner)

    def _described(self) -> Any:
        """The _asking.Kernel, as it is at the first decision. InvalidArgumentError where the daemon cannot respect all of
        it."""
        from tunefarm.triton import _asking

        if not self._is_described:
            if self._kernel is None or not self._kernel.is_current():
                self._kernel = _asking.Kernel(self._tuner)
            self._is_described = True
        return self._kernel

    def __contains__(self, key: Any) -> bool:
        if super().__contains__(key):
            return True
        call: Optional[_Call] = getattr(_calls, "current", None)
        if call is None or call.tuner is not self._tuner:
            return False
        with _deciding:
            if not super().__contains__(key):
                decision = self._decide(key, call)
                call.uses_kept = decision.source == _log.KEPT
                _log.decided(self._tuner.base_fn.__name__, key, decision)
                if decision.config is None:
                    return False
                self[key] = decision.config
            return True

    def _decide(self, key: Any, call: _Call) -> Decision:
        is_captured = _gpu.is_capturing()
        run_id = _own_run()
        if run_id:
            return self._decide_in(run_id, key, call, is_captured)
        refusal: Optional[_Refusal] = None
        try:
            known = self._described().known(key, lambda: self._tuner.prune_configs(call.kwargs))
            if known is not None:
                return known
        except Exception as error:
            refusal = _Refusal.of(error)
        if self._policy == _INPROCESS and not is_captured:
            return Decision(None, _log.TRITON, f"the policy is {_INPROCESS}")
        if refusal is not None and not is_captured and not (self._policy == _DEFAULT and refusal.is_absence):
            return self._give_way(refusal)
        configs = list(self._tuner.prune_configs(call.kwargs))
        if len(configs) == 1:
            return Decision(configs[0], _log.FIRST, "the only config")
        if is_captured:
            call.passing_keys = (key,)
            return Decision(configs[0], _log.FIRST,
                            "the first config, for this call alone: it is captured into a graph")
        if refusal is not None:
            return Decision(configs[0], _log.FIRST, f"the first config: {refusal.why}")
        try:
            if self._policy == _WAIT:
                return self._kernel.tune(key, configs, call.args, call.kwargs)
            submitted = self._kernel.submit(key, configs, call.args, call.kwargs)
            return Decision(configs[0], _log.FIRST, f"the first config; {submitted}")
        except Exception as error:
            refusal = _Refusal.of(error)
        if self._policy == _DEFAULT and refusal.is_absence:
            return Decision(configs[0], _log.FIRST, f"the first config: {refusal.why}")
        return self._give_way(refusal)

    def _decide_in(self, run_id: str, key: Any, call: _Call, is_captured: bool) -> Decision:
        """What the run agrees on, or the first config, with a warning where the others may have another one."""
        doubt, why = "", ""
        configs: List[Any] = []
        try:
            configs = list(self._tuner.prune_configs(call.kwargs))
            from tunefarm.triton import _agreeing

            snapshot = _snapshot or os.environ.get("TUNEFARM_TRITON_SNAPSHOT")
            answer = _agreeing.agreed(self._described(), key, run_id, snapshot,
                                      lambda: self._find(key, call, configs, is_captured))
            why = answer.why
            config = self._kernel.listed(answer.config, lambda: configs)
            if config is not None:
                return Decision(config, _log.AGREED, why)
            if answer.config:
                doubt = f"{why}: {answer.config}, which is none of this process's configs"
        except Exception as error:
            doubt = _Refusal.of(error).why
            if is_captured:
                call.passing_keys = (key,)
        first = self._tuner.configs[0]
        if configs and first not in configs:  # pruning, which may go by more than the key, may leave others another one
            first = configs[0]
            doubt = doubt or f"{why}; the first config that pruning leaves to this launch may be another one elsewhere"
        if doubt:
            warnings.warn(f"tunefarm: {self._tuner.base_fn.__name__} {key} has the first config of this process; the others of "
                          f"run {run_id} may have another one: {doubt}", stacklevel=6)
            return Decision(first, _log.FIRST, f"the first config, NOT AGREED: {doubt}")
        return Decision(first, _log.FIRST, f"the first config; {why}")

    def _find(self, key: Any, call: _Call, configs: List[Any], is_captured: bool) -> str:
        """Has the daemon tune. Returns what came of it, errors included: another process may have more luck."""
        if is_captured:
            return "the launch is captured into a graph"
        try:
            if self._policy == _WAIT:
                return str(self._kernel.tune(key, configs, call.args, call.kwargs).why)
            return str(self._kernel.submit(key, configs, call.args, call.kwargs))
        except Exception as error:
            return _Refusal.of(error).why

    def _give_way(self, refusal: "_Refusal") -> Decision:
        global _has_warned
        if (refusal.is_absence or refusal.is_unexpected) and not _has_warned:
            _has_warned = True
            warnings.warn(f"tunefarm: kernels are tuned by Triton itself: {refusal.why}", stacklevel=7)
        return Decision(None, _log.TRITON, refusal.why)


def _own_run() -> str:
    """The id of the run of which this process is one, or "" where none tells runs apart."""
    found = _run_id or os.environ.get(_RUN_IDS[0]) or os.environ.get(_RUN_IDS[1]) or ""
    return "" if found in _NO_RUN else found
