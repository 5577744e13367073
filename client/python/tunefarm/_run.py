"""Look-ups of a distributed run, whose processes all get the same answers. Private; Client.join_run makes a Run."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional, Tuple, Union

from tunefarm import _requests, _wire, model
from tunefarm._display import angle
from tunefarm._snapshot import Snapshot
from tunefarm.errors import DeadlineExceededError, FailedPreconditionError, InvalidArgumentError, TunefarmError, UnavailableError
from tunefarm.v1 import lookup_service_pb2

if TYPE_CHECKING:
    from tunefarm.client import Client, KernelLike

_ENVIRONMENT = "TORCHELASTIC_RUN_ID"
# Of answers that are kept here.
_ANSWERS_MAX = 10_000


def chosen_id(run_id: Optional[str], environment: Mapping[str, str]) -> str:
    """The given one, else torchrun's. InvalidArgumentError where there is none that tells runs apart."""
    if run_id is not None:
        return run_id
    found = environment.get(_ENVIRONMENT, "")
    if found in ("", "none"):  # "none" is what torchrun calls each run that is given no --rdzv-id
        raise InvalidArgumentError(f"{_ENVIRONMENT} is '{found}', which does not name this run: start torchrun with "
                                   "--rdzv-id (or --standalone), or give an id that all processes of the run share")
    return found


class Run:
    """A distributed run: `best` gives all its processes, on all machines and after restarts, the answer that the first of
    them got. Threads may share it; after a fork the child needs a Client, and with it a Run, of its own."""

    def __init__(self, client: "Client", run_id: str, snapshot: Optional[Union[str, "os.PathLike[str]"]],
                 timeout: Optional[float]) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._answers: Dict[bytes, model.Answer] = {}
        self._asked: Dict[str, Tuple[str, str]] = {}
        self.id = run_id
        self._snapshot = Snapshot(snapshot) if snapshot is not None else None
        begun = client._read(client._lookup.AgreeConfig, lookup_service_pb2.AgreeConfigRequest(run_id=run_id), timeout)
        # The catalog's revision when the run began, and when that was, in milliseconds since 1970 UTC.
        self.revision: int = begun.run_revision
        self.begun_at_ms: int = begun.run_begun_at_ms
        self._classes: Dict[str, str] = {}
        if self._snapshot is not None:
            for device in client.devices(timeout=timeout):
                self._classes[device.uuid] = self._classes[device.device_class.id] = device.device_class.id

    def __repr__(self) -> str:
        return angle("Run", self.id, f"revision {self.revision}")

    def best(self, kernel: "KernelLike", device: Optional[str] = None, worst_match: Union[str, model.Match] = "DEFAULT", *,
             problem: Optional[Mapping[str, Any]] = None, timeout: Optional[float] = None, **dims: Any) -> model.Answer:
        """As Client.best, but all processes of the run get what the first of them got, also where that is NOT_FOUND, and
        whatever was tuned since, for the same kernel, problem, worst_match and device as they are written; UUIDs and
        "agent:NAME" of one device class are the same as its id. A definition that a path names is read once.
        `agreed_at_ms` of the answer says since when it is fixed.

        Where the daemon cannot be reached, UnavailableError or DeadlineExceededError: another answer could be another one
        than the others'. The Run's own earlier answers stay; and an exact best of the Run's snapshot answers if the
        snapshot's revision is the run's, for a kernel by "kernels/{id}" or, with all dims, a path that was asked for
        before, a device by its UUID or class id, and a worst_match other than EXACT (which the driver's version decides
        on). Its `agreed_at_ms` is 0. FailedPreconditionError (RUN_FORGOTTEN) where the daemon has forgotten the run that
        this process joined."""
        question = lookup_service_pb2.LookupConfigRequest(device_selector=device or "",
                                                          worst_match=_requests.match(worst_match))
        _wire.fill_values(question.problem.dims, {**(problem or {}), **dims}, "dim")
        try:
            question.kernel, question.program_digest = self._named(kernel, timeout)
            return self._agreed(question, timeout)
        except (UnavailableError, DeadlineExceededError) as error:
            return self._of_snapshot(question, error)

    def _named(self, kernel: "KernelLike", timeout: Optional[float]) -> Tuple[str, str]:
        key = os.fspath(kernel)
        with self._lock:
            known = self._asked.get(key)
        if known is None:
            known = self._client._asked(kernel, timeout)
            with self._lock:
                known = self._asked.setdefault(key, known)
        return known

    def _agreed(self, question: Any, timeout: Optional[float]) -> model.Answer:
        key = question.SerializeToString(deterministic=True)
        with self._lock:
            known = self._answers.get(key)
        if known is not None:
            return known
        request = lookup_service_pb2.AgreeConfigRequest(run_id=self.id, question=question)
        response = self._client._read(self._client._lookup.AgreeConfig, request, timeout)
        if (response.run_begun_at_ms, response.run_revision) != (self.begun_at_ms, self.revision):
            raise FailedPreconditionError(
                f"the daemon has forgotten what run {self.id} agreed on, and has begun another run of this name: start all "
                "processes again", reason="RUN_FORGOTTEN")
        answer = _wire.answer(response.answer, self.id, response.agreed_at_ms)
        with self._lock:
            if len(self._answers) < _ANSWERS_MAX:
                self._answers[key] = answer
        return answer

    def _of_snapshot(self, question: Any, error: TunefarmError) -> model.Answer:
        """Raises the error, with why no snapshot answers, where none does."""
        found, why = None, "there is no snapshot"
        if self._snapshot is not None:
            found, why = self._exact(self._snapshot, question)
        if found is not None:
            return model.Answer(model.Match.EXACT, _wire.best_config(found), 0.0, self.revision, 0,
                                f"kernels/{found.kernel_id}", found.program_digest, run=self.id)
        error.message = (f"what the other processes of run {self.id} got cannot be known here: {error.message}; and "
                         f"{why}")
        error.args = (error.message,)
        raise error

    def _exact(self, snapshot: Snapshot, question: Any) -> Tuple[Optional[Any], str]:
        """The best, or why there is none."""
        if snapshot.revision != self.revision:
            return None, f"the snapshot {snapshot.path} has revision {snapshot.revision}, the run agreed on {self.revision}"
        if question.worst_match == model.Match.EXACT.value:
            return None, "a snapshot cannot tell EXACT from STALE"
        if not question.program_digest and not question.kernel.startswith("kernels/"):
            return None, "a snapshot answers for kernels by \"kernels/ID\", and for paths that were asked for before"
        class_id = self._classes.get(question.device_selector)
        if class_id is None:
            return None, "a snapshot answers for a device by its UUID or class id"
        found = snapshot.find(question.kernel.removeprefix("kernels/"), question.program_digest, class_id,
                              _wire.values_from(question.problem.dims))
        return found, f"the snapshot {snapshot.path} has no exact answer"
