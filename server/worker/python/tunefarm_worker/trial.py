"""One trial of a config: set up, run, check, measure, check again. The module only provides functions; the harness
poisons the outputs before a run, compares them after it and measures the time."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import time
import traceback
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from . import arrays, checking, messages, timing
from .kernel_module import Config, KernelModule, pack, unpack, use_cache

_TIME_KEYS = {messages.PHASE_COMPILE: "compile_ms", messages.PHASE_LOAD: "load_ms",
              messages.PHASE_FIRST_LAUNCH: "verify_ms", messages.PHASE_VERIFY: "verify_ms",
              messages.PHASE_MEASURE: "measure_ms"}
# Exceptions are told apart by name, so that every package and release is covered.
_OUT_OF_RESOURCES = ("OutOfResources",)
_OUT_OF_MEMORY = ("MemoryError", "OutOfMemoryError")
_NOT_COMPILED = ("CompilationError", "CompileTimeAssertionFailure", "UnsupportedLanguageConstruct", "PTXASError",
                 "CompileException", "NVRTCError", "SyntaxError")


class Ended(Exception):
    """The trial is over with this outcome."""

    def __init__(self, outcome: int, message: str, log: str = "",
                 verification: Optional[Dict[str, Any]] = None) -> None:
        super().__init__(message)
        self.outcome = outcome
        self.log = log
        self.verification = verification


def outcome_of(error: BaseException, otherwise: int) -> int:
    names = {kind.__name__ for kind in type(error).__mro__}
    for outcome, known in ((messages.INFEASIBLE_LAUNCH, _OUT_OF_RESOURCES), (messages.OUT_OF_MEMORY, _OUT_OF_MEMORY),
                           (messages.COMPILE_ERROR, _NOT_COMPILED)):
        if names.intersection(known):
            return outcome
    return otherwise


def sentence_of(error: BaseException) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, ModuleNotFoundError):
        # A private daemon takes the python3 of PATH, which need not be the one that has the user's packages.
        text += (f" in {sys.executable}; install it there, or name another interpreter: tunefarm stop, then tunefarm tune "
                 "--python FILE (tunefarmd --python-interpreter FILE)")
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def gpu_is_damaged() -> bool:
    """Whether the context of the GPU is unusable, as after an access to an illegal address."""
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    try:
        if torch is not None and torch.cuda.is_initialized():
            torch.cuda.synchronize()
        if cupy is not None:
            cupy.cuda.runtime.deviceSynchronize()
    except Exception:
        return True
    return False


class Trial:
    """A trial is used once. `begin(phase)` announces a phase to the daemon."""

    def __init__(self, module: KernelModule, begin: Callable[[int], None]) -> None:
        self._module = module
        self._begin = begin
        self._phase = 0
        self._phase_began = 0
        self._times: Dict[str, float] = {}

    def compile(self, config: Config) -> Tuple[Dict[str, Any], bytes]:
        """Returns a Result, and with outcome OK an archive of the cache directory that compile(config) has filled."""
        artifact = b""
        try:
            self._enter(messages.PHASE_COMPILE)
            os.makedirs(config.cache_directory, exist_ok=True)
            with self._raising(messages.COMPILE_ERROR, "compiling"):
                if self._module.defines("compile"):
                    use_cache(config.cache_directory)
                    self._module.load().compile(config)
            artifact = pack(config.cache_directory)
            if len(artifact) > messages.ARTIFACT_BYTES_MAX:  # The run worker compiles again.
                artifact = pack(os.devnull)
            return self._result(messages.OK), artifact
        except Ended as ended:
            return self._result(ended.outcome, ended), b""

    def compile_triton(self, compile_kernels: Callable[[Config, List[str]], bytes], config: Config,
                       signatures: List[str]) -> Tuple[Dict[str, Any], bytes]:
        """As compile, with what compile_kernels makes of the signatures."""
        try:
            self._enter(messages.PHASE_COMPILE)
            with self._raising(messages.COMPILE_ERROR, "compiling"):
                use_cache(config.cache_directory)
                artifact = compile_kernels(config, signatures)
            if len(artifact) > messages.ARTIFACT_BYTES_MAX:
                raise Ended(messages.COMPILE_ERROR, f"the binary has {len(artifact)} bytes, the limit is "
                                                    f"{messages.ARTIFACT_BYTES_MAX}")
            return self._result(messages.OK), artifact
        except Ended as ended:
            return self._result(ended.outcome, ended), b""

    def run(self, config: Config, second: Optional[Config], artifact: bytes, tolerance: checking.Tolerance,
            evaluate: Dict[str, Any]) -> Dict[str, Any]:
        """Returns a Result."""
        policy = evaluate.get("policy", {})
        try:
            self._enter(messages.PHASE_COMPILE)
            with self._raising(messages.COMPILE_ERROR, "importing the module"):
                use_cache(config.cache_directory)
                if artifact:
                    unpack(artifact, config.cache_directory)
                self._module.load()
            subject = self._make(config)
            verification = self._check(subject, tolerance, 0, messages.PHASE_FIRST_LAUNCH)
            with self._raising(messages.RUN_CRASH, "comparing the outputs"):
                note = checking.constant_note(subject.expected, tolerance)
            if evaluate.get("verify_only"):
                return self._result(messages.OK, verification=verification, note=note)
            measurement = self._measure(subject, config, evaluate)
            self._check(subject, tolerance, 1, messages.PHASE_VERIFY)
            del subject
            if second is not None:
                self._check(self._make(second), tolerance, 0, messages.PHASE_VERIFY)
        except Ended as ended:
            return self._result(ended.outcome, ended, ended.verification)
        result = self._result(messages.OK, verification=verification, note=note)
        if timing.is_noisy(measurement, policy):
            result.update(outcome=messages.NOISY,
                          message=f"the interval of {measurement['samples']} samples reaches from "
                                  f"{measurement['ci_low_ns']:.0f} to {measurement['ci_high_ns']:.0f} ns")
        result.update(measurement=measurement, device_busy_ms=measurement["device_busy_ms"])
        return result

    def _enter(self, phase: int) -> None:
        self._leave()
        self._begin(phase)
        self._phase, self._phase_began = phase, time.perf_counter_ns()

    def _leave(self) -> None:
        if self._phase:
            key = _TIME_KEYS[self._phase]
            self._times[key] = self._times.get(key, 0.0) + (time.perf_counter_ns() - self._phase_began) / 1e6
        self._phase_began = time.perf_counter_ns()

    @contextlib.contextmanager
    def _raising(self, otherwise: int, what: str) -> Iterator[None]:
        """Ends the trial with an outcome for any exception that the module raises."""
        try:
            yield
        except Ended:
            raise
        except BaseException as error:  # Including SystemExit: only the harness exits the worker.
            log = "".join(traceback.format_exception(type(error), error, error.__traceback__))
            raise Ended(outcome_of(error, otherwise), f"{what} raised {sentence_of(error)}", log) from None

    def _make(self, config: Config) -> "_Subject":
        self._enter(messages.PHASE_LOAD)
        make = getattr(self._module.load(), "make_run_and_gt", None)
        if not callable(make):
            raise Ended(messages.LOAD_ERROR, f"module {self._module.name} has no function make_run_and_gt(config)")
        with self._raising(messages.RUN_CRASH, "make_run_and_gt"):
            made = make(config)
            if not isinstance(made, (tuple, list)) or len(made) < 2 or not callable(made[0]):
                raise Ended(messages.LOAD_ERROR,
                            "make_run_and_gt must give a function and what each of its outputs must be")
            return _Subject(made[0], list(made[1:]))

    def _check(self, subject: "_Subject", tolerance: checking.Tolerance, pattern: int,
               phase: int) -> Dict[str, Any]:
        self._enter(phase)
        with self._raising(messages.RUN_CRASH, "run()"):
            outputs = subject.checked_run(pattern)
        if phase == messages.PHASE_FIRST_LAUNCH:
            self._enter(messages.PHASE_VERIFY)
        with self._raising(messages.RUN_CRASH, "comparing the outputs"):
            check = checking.compare(outputs, subject.expected, tolerance)
        if check.wrong is not None:
            when = " after it was timed" if pattern else ""
            raise Ended(messages.WRONG_RESULT, check.wrong + when, verification=check.verification())
        return check.verification()

    def _measure(self, subject: "_Subject", config: Config, evaluate: Dict[str, Any]) -> Dict[str, Any]:
        self._enter(messages.PHASE_MEASURE)
        with self._raising(messages.RUN_CRASH, "run()"):
            timer = timing.timer_for(subject.devices, int(config.device.get("l2_bytes", 0)))
            enabled = gc.isenabled()
            gc.collect()
            gc.disable()  # A garbage collection during a sample would count as time of the kernel.
            try:
                return timing.measure(subject.run, timer, evaluate.get("policy", {}),
                                      evaluate.get("race_limit_ns", 0.0), bool(evaluate.get("keep_samples")))
            finally:
                if enabled:
                    gc.enable()

    def _result(self, outcome: int, ended: Optional[Ended] = None,
                verification: Optional[Dict[str, Any]] = None, note: str = "") -> Dict[str, Any]:
        self._leave()
        result: Dict[str, Any] = {"outcome": outcome, "phase": self._phase, "message": note, **self._times}
        if ended is not None:
            result.update(message=str(ended), log=ended.log)
            if outcome != messages.WRONG_RESULT and gpu_is_damaged():
                result["worker_is_damaged"] = True
        if verification is not None:
            result["verification"] = verification
        return result


class _Subject:
    """A function, its ground truth and its outputs."""

    def __init__(self, run: Callable[[], Any], expected: List[Any]) -> None:
        self.run = run
        # Copies: run() may overwrite the arrays of the module.
        self.expected = [(name, arrays.copy(value)) for name, value in arrays.leaves(expected, "ground truth")]
        self.devices: List[Any] = []
        declared = getattr(run, "outputs", None)
        self._declared = None if declared is None else arrays.leaves(declared)

    def checked_run(self, pattern: int) -> List[Tuple[str, Any]]:
        """Poisons the outputs, runs the function and returns the outputs."""
        if self._declared is not None:
            outputs = self._declared
            for name, value in outputs:
                if not arrays.poison(value, pattern):
                    raise arrays.NotAnArray(f"{name} cannot be written")
            self.run()
        else:
            self._poison_returned(pattern)
            outputs = arrays.leaves(self.run())
        self.devices = [value for _, value in outputs]
        # Queued work may still fail.
        for value in self.devices:
            if arrays.is_on_gpu(value):
                timing.synchronize(value)
                break
        return outputs

    def _poison_returned(self, pattern: int) -> None:
        """Runs the function and poisons what it returns: the checked run then finds poison both in memory that it
        reuses and in memory that the allocator hands out again."""
        seen = arrays.leaves(self.run())
        for _, value in seen:
            arrays.poison(value, pattern)
