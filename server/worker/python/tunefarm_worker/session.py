"""The main loop of a worker: reads requests from the daemon, carries them out and sends the results."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import signal
import sys
from typing import Any, Dict, List, Optional

from . import messages
from .channel import Channel, ProtocolError
from .checking import Tolerance
from .kernel_module import Config, KernelModule, plain_values, use_cache
from .process_state import ProcessState
from .remove_tree import remove_tree
from .trial import Trial
from .triton_compile import TritonCompiler

_PR_SET_CHILD_SUBREAPER = 36
# Killing a process makes its children children of the worker, one generation in each round.
_ROUNDS_MAX = 64
# The scratch directory holds 1 GiB.
_CACHE_BYTES_MAX = 512 << 20
_CUT = "\n[... cut ...]\n"


def fit(text: str, bytes_max: int) -> str:
    """Returns at most `bytes_max` bytes of printable text; the middle of longer text is cut out."""
    clean = "".join(c if c.isprintable() or c in "\n\t" else "?" for c in text)
    data = clean.encode("utf-8", "replace")
    if len(data) <= bytes_max:
        return clean
    half = (bytes_max - len(_CUT)) // 2 - 8
    return data[:half].decode("utf-8", "ignore") + _CUT + data[-half:].decode("utf-8", "ignore")


class Session:
    """`role` is "compile" or "run"; `scratch` is the worker's own directory."""

    def __init__(self, channel: Channel, role: str, scratch: str) -> None:
        self._channel = channel
        self._role = role
        self._scratch = os.path.abspath(scratch)
        self._kernel_bytes = b""
        self._kernels = 0
        self._module: Optional[KernelModule] = None
        self._triton: Optional[TritonCompiler] = None  # of a kernel in Triton
        self._dims: Dict[str, Any] = {}
        self._device: Dict[str, Any] = {}
        self._tolerance = Tolerance()
        self._state = ProcessState()

    def serve(self) -> None:
        """Returns after a shutdown frame. Raises Closed or ProtocolError."""
        while True:
            frame, files = self._channel.receive()
            if "shutdown" in frame:
                return
            if "prepare" in frame:
                self._on_prepare(frame["prepare"], files)
            elif "evaluate" in frame:
                self._on_evaluate(frame["evaluate"], files)
            elif "warm_start" not in frame:
                raise ProtocolError(f"unexpected frame: {', '.join(sorted(frame))}")

    def _on_prepare(self, prepare: Dict[str, Any], files: List[bytes]) -> None:
        if not files:
            raise ProtocolError("a prepare frame has no kernel attached")
        prepared: Dict[str, Any] = {"ok": True}
        try:
            if files[0] != self._kernel_bytes:
                self._take_kernel(files[0])
        except (ValueError, OSError) as error:
            self._kernel_bytes = b""
            prepared = {"outcome": messages.LOST, "worker_is_damaged": isinstance(error, OSError),
                        "message": fit(f"the worker cannot load the kernel: {error}", messages.MESSAGE_BYTES_MAX)}
        self._dims = plain_values(prepare.get("problem", {}).get("dims", {}))
        self._device = prepare.get("device_class", {})
        tolerance = dict(prepare.get("tolerance", {}))
        tolerance["row_length"] = int(tolerance.get("row_length") or 0)
        self._tolerance = Tolerance(**tolerance)
        if prepared.get("ok") and self._module is not None and (self._role == "run" or self._triton is not None):
            self._module.import_packages()
            _wake_gpu()
        self._channel.send({"prepared": prepared})

    def _take_kernel(self, content: bytes) -> None:
        if self._module is not None:
            self._module.forget()
            self._module = None
        self._kernels += 1
        kernel = messages.decode(content)
        self._module = KernelModule(kernel, f"{self._scratch}/kernel-{self._kernels}")
        self._triton = TritonCompiler(kernel, self._module) if kernel.get("language") == messages.LANGUAGE_TRITON else None
        self._kernel_bytes = content

    def _config(self, evaluate: Dict[str, Any], seed: int, cache: str) -> Config:
        return Config(plain_values(evaluate.get("config", {}).get("values", {})), self._dims,
                      plain_values(evaluate.get("derived", {})), self._device, seed, cache)

    def _on_evaluate(self, evaluate: Dict[str, Any], files: List[bytes]) -> None:
        if self._module is None:
            raise ProtocolError("an evaluate frame came before any prepare frame")
        number = evaluate.get("evaluation_id", 0)
        trial = Trial(self._module, lambda phase: self._channel.send(
            {"phase_began": {"evaluation_id": number, "phase": phase}}))
        artifact: Optional[bytes] = None
        cache = f"{self._scratch}/cache"
        if self._role == "compile":
            # Emptied for each config. The run worker unpacks it at the same path: compilers record absolute paths.
            try:
                remove_tree(cache)
            except OSError as error:
                self._send_result(number, {"outcome": messages.LOST, "worker_is_damaged": True,
                                           "message": f"the cache of an earlier config cannot be emptied: {error}"}, None)
                return
            own = self._config(evaluate, 1, cache)
            if self._triton is not None:
                result, compiled = trial.compile_triton(self._triton.compile, own, evaluate.get("triton_signatures", []))
            else:
                result, compiled = trial.compile(own)
            artifact = compiled if result["outcome"] == messages.OK else None
            result["has_artifact"] = artifact is not None
        else:
            seed, second = evaluate.get("input_seed", 1), evaluate.get("second_input_seed", 0)
            result = trial.run(self._config(evaluate, seed, cache),
                               self._config(evaluate, second, cache) if second else None,
                               files[0] if files else b"", self._tolerance, evaluate)
        if not self._state.restore():
            result["worker_is_damaged"] = True
        self._send_result(number, result, artifact)
        end_children()
        if self._role == "run":
            _clean_up(cache)

    def _send_result(self, number: int, result: Dict[str, Any], artifact: Optional[bytes]) -> None:
        result["evaluation_id"] = number
        result["message"] = fit(result.get("message", ""), messages.MESSAGE_BYTES_MAX)
        result["log"] = fit(result.get("log", ""), messages.LOG_BYTES_MAX)
        sys.stdout.flush()
        sys.stderr.flush()
        self._channel.send({"result": result}, artifact)


def adopt_orphans() -> None:
    """Makes orphaned descendants children of this process, so that end_children finds them."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_children() -> None:
    """Kills the processes that a config has left running: they would disturb the next one."""
    for _ in range(_ROUNDS_MAX):
        children = _children()
        if not children:
            return
        for child in children:
            with contextlib.suppress(OSError):
                os.kill(child, signal.SIGKILL)
        for child in children:
            with contextlib.suppress(OSError):
                os.waitpid(child, 0)


def _children() -> List[int]:
    found: List[int] = []
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError):
            with open(f"/proc/self/task/{thread}/children", encoding="ascii") as file:
                found += [int(word) for word in file.read().split()]
    return found


def _wake_gpu() -> None:
    """Creates torch's CUDA context, which takes longer than the time limit of a config."""
    torch = sys.modules.get("torch")
    try:
        if torch is not None and os.environ.get("CUDA_VISIBLE_DEVICES") and torch.cuda.is_available():
            torch.zeros(1, device="cuda")
            torch.cuda.synchronize()
    except Exception as error:  # A config that needs the GPU reports the error itself.
        print(f"the GPU cannot be used yet: {error}", file=sys.stderr)


def _clean_up(cache: str) -> None:
    """Frees memory and files that would slow down the next config."""
    gc.collect()
    torch = sys.modules.get("torch")
    try:
        if torch is not None and torch.cuda.is_initialized():
            torch.cuda.empty_cache()
    except Exception:  # The context is damaged: the daemon replaces the worker.
        pass
    try:
        for directory in (os.path.dirname(cache), cache):
            if os.path.isdir(directory):
                os.chmod(directory, 0o700)
        if _bytes_below(cache) > _CACHE_BYTES_MAX:
            remove_tree(cache)
            use_cache(cache)
    except OSError as error:
        print(f"the files of a config cannot be removed: {error}", file=sys.stderr)


def _bytes_below(directory: str) -> int:
    return sum(os.lstat(os.path.join(folder, name)).st_size
               for folder, _, names in os.walk(directory) for name in names)
