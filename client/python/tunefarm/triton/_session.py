"""A process's session with its daemon: the connection, what the daemon answers, and the answers that are kept for later
starts. Private.

Answers that are kept are used without asking the daemon. A thread, the Refresher, then asks the daemon for them again,
for the next start."""

from __future__ import annotations

import _thread
import atexit
import collections
import os
import threading
from typing import Any, Callable, Deque, Dict, List, Mapping, Optional, Tuple

from tunefarm import _connection, model
from tunefarm._run import Run
from tunefarm.client import Client
from tunefarm.errors import (DeadlineExceededError, FailedPreconditionError, NotFoundError, TunefarmError,
                             UnavailableError)
from tunefarm.triton import _kept, _log
from tunefarm.triton._gpu import Gpu

LABEL = "tunefarm.triton.autotune"  # of jobs, followed by the display name of their definition
_WORST_MATCH = "STALE_SOURCE"  # the same kernel and key, where other shapes were submitted later
_LOOKUP_SECONDS = 10.0
# Before the daemon is asked again for a kept answer: the program continues without sharing the interpreter lock.
_REFRESH_PAUSE_SECONDS = 0.1
_END_SECONDS = 1.0  # that the end of a process waits for the Refresher's call in flight, and for its cancellation


class Session:
    """The connection of one process, made by the first call that needs it and never closed before the process ends, and
    the kept answers of that daemon. A daemon that was away once is not asked again: calls then raise UnavailableError.
    A child of fork() has a session of its own (current()).

    One launch at a time uses it, and the Refresher's thread; client() and start_refreshing() may be called by any."""

    def __init__(self, is_of_fork: bool) -> None:
        """`is_of_fork`: this process was forked from one that had a session."""
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
        self._to_refresh: Deque[Tuple[str, Gpu]] = collections.deque()
        self._refresher: Optional[Refresher] = None
        self._starting = threading.Lock()  # of the Refresher

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
        """Of the GPU among the daemon's devices; empty where it is not known which it is. FailedPreconditionError where
        the daemon does not have it."""
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
        """The run of the id, joined when it is first asked for. UnavailableError where the daemon is away."""
        if self._run is None or self._run.id != run_id:
            client = self.client()
            self._run = self._answered(lambda: client.join_run(run_id, timeout=_LOOKUP_SECONDS))
        elif self._gone is not None:
            raise _absence(self._gone)
        return self._run

    def agreed(self, run: Run, name: str, gpu: Gpu) -> model.Answer:
        """What the run agrees on for the definitions of that name. NotFoundError where there is none; UnavailableError
        where the daemon is away."""
        device = self.selector(gpu)
        return self._answered(lambda: run.best(name, device, _WORST_MATCH, timeout=_LOOKUP_SECONDS))

    def _answered(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except (UnavailableError, DeadlineExceededError) as error:
            self._gone = _absence(error)
            raise _absence(error) from None

    def job_of(self, name: str) -> Optional[model.Job]:
        """One that tunes the definition of that name, of any process."""
        unfinished = (model.JobState.QUEUED, model.JobState.RUNNING)
        return next((job for job in self.client().jobs(states=unfinished) if job.label == f"{LABEL} {name}"), None)

    def kept(self, name: str, gpu: Gpu) -> Dict[str, Any]:
        """What is kept of the daemon's answers; empty where nothing is."""
        return _kept.read(name, self._scope(gpu))

    def keep(self, name: str, gpu: Gpu, config: Mapping[str, Any]) -> None:
        _kept.keep(name, self._scope(gpu), config)

    def forget(self, name: str, gpu: Gpu) -> None:
        _kept.forget(name, self._scope(gpu))

    def _scope(self, gpu: Gpu) -> str:
        return f"{gpu.kind} at {self._daemon}"

    def refresh(self, name: str, gpu: Gpu) -> None:
        """Lets the Refresher ask the daemon again for a kept answer once start_refreshing() is called. Does nothing in a
        child of a process that may have connected, as gRPC does not survive a fork, nor where the daemon is away."""
        if not self._is_of_fork and self._gone is None:
            self._to_refresh.append((name, gpu))

    def start_refreshing(self) -> None:
        if not self._to_refresh:
            return
        with self._starting:
            if self._refresher is None:
                self._refresher = Refresher(self, self._to_refresh)
        self._refresher.start()

    def close(self) -> bool:
        """Cancels the calls in flight, which raise AbortedError. False where there is no connection, though one may be in
        the making."""
        if self._client is None:
            return False
        self._client.close()
        return True


class Refresher:
    """Asks a session's daemon again for kept answers, in a thread that runs while there are any to ask for. What has not
    been asked for when the process ends is asked for by a later start.

    No thread may be stopped inside a call of gRPC, which aborts the process. The end of a process therefore waits for the
    call in flight, at most _END_SECONDS, and cancels it then. A thread that is connecting then waits outside of gRPC, and
    is left behind."""

    def __init__(self, session: Session, questions: Deque[Tuple[str, Gpu]]) -> None:
        """`questions`: names and GPUs, to which any thread may append."""
        self._session, self._questions = session, questions
        self._changing = threading.Lock()  # of is_idle
        self.is_idle = threading.Event()  # no thread runs
        self.is_idle.set()
        self._ends = threading.Event()
        self._is_left = False  # the process does not wait for the thread any more
        atexit.register(self._finish)

    def start(self) -> None:
        """Starts the thread if none runs. Does nothing where the process ends or may have no more threads."""
        with self._changing:
            if not self.is_idle.is_set():
                return
            self.is_idle.clear()
        try:
            # threading.Thread.start() would wait until the thread runs: milliseconds where all cores are busy.
            _thread.start_new_thread(self._work, ())
        except RuntimeError:
            self.is_idle.set()

    def _work(self) -> None:
        self._ends.wait(_REFRESH_PAUSE_SECONDS)
        while True:
            with self._changing:
                # Where the process ends, Python 3.12 and newer start no thread, which gRPC needs to connect.
                if not self._questions or self._ends.is_set():
                    self.is_idle.set()
                    return
                name, gpu = self._questions.popleft()
            try:
                self._session.client()
                if not self._is_left:
                    outcome, what = self._ask(name, gpu)
            except Exception as error:
                outcome, what = _log.FAILED, str(error)
            if not self._is_left:
                _log.refreshed(name, outcome, what)

    def _ask(self, name: str, gpu: Gpu) -> Tuple[str, str]:
        """The outcome (_log.UNCHANGED, ...), and the new answer where it differs."""
        before = self._session.kept(name, gpu)
        answer = self._session.best(name, gpu)
        if answer is None:
            self._session.forget(name, gpu)
            return _log.UNKNOWN, ""
        return (_log.UNCHANGED, "") if dict(answer.config) == before else (_log.CHANGED, str(answer.config))

    def _finish(self) -> None:
        """At the end of the process, or of a child that it forked, which has no such thread."""
        if self._session.process != os.getpid():
            return
        self._ends.set()
        if not self.is_idle.wait(_END_SECONDS):
            self._is_left = True
            if self._session.close():
                self.is_idle.wait(_END_SECONDS)


def _absence(error: TunefarmError) -> UnavailableError:
    return UnavailableError(error.message, code=error.code, reason=error.reason)


_sessions: List[Session] = []  # the last one is that of this process, if any is


def current() -> Session:
    """Of this process: a connection does not outlive a fork. The parent's stays untouched, since closing it would wait for
    threads that only the parent has."""
    if not _sessions or _sessions[-1].process != os.getpid():
        _sessions.append(Session(is_of_fork=bool(_sessions)))
    return _sessions[-1]
