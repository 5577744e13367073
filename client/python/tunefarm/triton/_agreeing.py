"""What all processes of a distributed run launch for a kernel and a key. Private.

The first of them that asks fixes the daemon's answer, "unknown" included, for all of them and for later starts of the run.
Before it asks, the daemon has tuned the kernel or is about to. What the run agreed on is noted on this machine, for
processes that cannot reach the daemon."""

from __future__ import annotations

import hashlib
from typing import Any, Callable, Dict, NamedTuple, Optional

from tunefarm import _wire
from tunefarm._snapshot import Snapshot
from tunefarm.errors import DeadlineExceededError, InvalidArgumentError, NotFoundError, TunefarmError, UnavailableError
from tunefarm.triton import _asking, _gpu, _kept, _session
from tunefarm.triton._gpu import Gpu


class Agreed(NamedTuple):
    """The run's answer. An error without its traceback stands for none: that would keep the tensors of a launch alive."""

    config: Dict[str, Any]  # empty: the run agreed that none is known
    why: str


class _Begin(NamedTuple):
    """Of a run: two runs of one name differ in it."""

    at_ms: int
    revision: int  # of the catalog


def agreed(kernel: _asking.Kernel, key: Any, run_id: str, snapshot: Optional[str], find: Callable[[], str]) -> Agreed:
    """`find` has the daemon tune a kernel that it does not know, and says what came of it.

    TunefarmError where what the other processes launch cannot be known here: the daemon is away, and neither this machine's
    notes nor the snapshot answer; or nobody could describe the kernel to the daemon."""
    name, gpu, session = kernel.name(key), _gpu.current(), _session.current()
    try:
        run = session.run(run_id)
        begin = _Begin(run.begun_at_ms, run.revision)
        _note_begin(run_id, begin)
        noted = _noted(run_id, begin, name, gpu)
        if noted is not None:
            return Agreed(noted, f"run {run_id} agreed, as noted here")
        found = find() if session.best(name, gpu) is None else ""
        try:
            answer = session.agreed(run, name, gpu)
        except NotFoundError as error:
            raise NotFoundError(f"run {run_id} cannot agree on what nobody has described to the daemon: "
                                f"{found or error.message}") from None
        config = dict(answer.config)
        _note(run_id, begin, name, gpu, config)
        what = f"{answer.kernel}, {answer.match.name}" if answer else "nothing is known"
        return Agreed(config, f"run {run_id} agreed: {what}{f'; {found}' if found else ''}")
    except (UnavailableError, DeadlineExceededError) as error:
        return _without_daemon(run_id, name, gpu, snapshot, error)


def _without_daemon(run_id: str, name: str, gpu: Gpu, snapshot: Optional[str],
                    error: TunefarmError) -> Agreed:
    def unknown(why: str) -> UnavailableError:
        return UnavailableError(f"what the other processes of run {run_id} use cannot be known here: {error.message}; and "
                                f"{why}", code=error.code, reason=error.reason)

    begin = _noted_begin(run_id)
    if begin is None:
        raise unknown("no process of the run has reached the daemon from this machine") from None
    noted = _noted(run_id, begin, name, gpu)
    if noted is not None:
        return Agreed(noted, f"run {run_id} agreed, as noted here: {error.message}")
    if not snapshot:
        raise unknown("there is no snapshot") from None
    try:
        file = Snapshot(snapshot)
        if file.revision != begin.revision:
            raise unknown(f"the snapshot {snapshot} has revision {file.revision}, the run agreed on {begin.revision}") from None
        best = file.only_best(name, gpu.name)
    except (OSError, InvalidArgumentError) as damage:
        raise unknown(f"the snapshot cannot be read: {damage}") from None
    if best is None:
        raise unknown(f"the snapshot {snapshot} has no answer") from None
    return Agreed(_wire.values_from(best.config.values), f"of the snapshot that run {run_id} agreed on: {error.message}")


# ---- Notes, which are files of _kept. Their scope does not name the daemon, since they are used without it ----


def _file_of(run_id: str, name: str = "") -> str:
    digest = hashlib.sha256(run_id.encode()).hexdigest()[:20]
    return f"run_{digest}_{name}" if name else f"run_{digest}"


def _note_begin(run_id: str, begin: _Begin) -> None:
    _kept.keep(_file_of(run_id), "", begin._asdict())


def _noted_begin(run_id: str) -> Optional[_Begin]:
    noted = _kept.read(_file_of(run_id), "")
    try:
        return _Begin(int(noted["at_ms"]), int(noted["revision"]))
    except (KeyError, TypeError, ValueError):
        return None


def _note(run_id: str, begin: _Begin, name: str, gpu: Gpu, config: Dict[str, Any]) -> None:
    _kept.keep(_file_of(run_id, name), gpu.kind, {**begin._asdict(), "config": config})


def _noted(run_id: str, begin: _Begin, name: str, gpu: Gpu) -> Optional[Dict[str, Any]]:
    noted = _kept.read(_file_of(run_id, name), gpu.kind)
    config = noted.get("config")
    is_of_run = (noted.get("at_ms"), noted.get("revision")) == begin
    return config if is_of_run and isinstance(config, dict) else None
