"""Answers of the daemon from earlier starts, kept on this machine. Private.

Each answer is a JSON file of its own in $XDG_CACHE_HOME/tunefarm/triton (~/.cache where the variable is not set), which
contains the question: a file that is damaged, or of another question, is ignored. Files are replaced as a whole, so
that processes and threads may read and write at the same time."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any, Dict, Mapping

from tunefarm import _files
from tunefarm.errors import TunefarmError

_FILES_MAX = 10_000  # the least recently confirmed ones are dropped
_BYTES_MAX = 64 << 10  # of a file


def read(name: str, scope: str) -> Dict[str, Any]:
    """The answer for `name`, where `scope` names what else it depends on; empty where none is kept."""
    try:
        kept = json.loads(_files.read_at(_path(name, scope), _BYTES_MAX).decode())
    except (TunefarmError, OSError, ValueError, RecursionError):
        return {}
    if not isinstance(kept, dict) or (kept.get("name"), kept.get("scope")) != (name, scope):
        return {}
    answer = kept.get("answer")
    return answer if isinstance(answer, dict) else {}


def keep(name: str, scope: str, answer: Mapping[str, Any]) -> None:
    """Stores the answer, or marks an equal one as confirmed. Does nothing where the file cannot be written."""
    path = _path(name, scope)
    try:
        if dict(answer) == read(name, scope):
            os.utime(path)
            return
        folder = Path(path).parent
        folder.mkdir(parents=True, exist_ok=True)
        _replace(path, folder, json.dumps({"name": name, "scope": scope, "answer": dict(answer)}))
        _drop_oldest(folder)
    except OSError:
        pass


def forget(name: str, scope: str) -> None:
    try:
        os.unlink(_path(name, scope))
    except OSError:
        pass


def _path(name: str, scope: str) -> str:
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    digest = hashlib.sha256(scope.encode(errors="surrogateescape")).hexdigest()  # it names paths, of whatever bytes
    return f"{home}/tunefarm/triton/{name}.{digest[:20]}.json"


def _replace(path: str, folder: Path, text: str) -> None:
    with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as written:
        written.write(text)
    os.replace(written.name, path)


def _drop_oldest(folder: Path) -> None:
    """Removes the oldest files, which are answers or temporary files of processes that ended while they wrote."""
    files = list(folder.iterdir())
    if len(files) > _FILES_MAX:
        files.sort(key=lambda file: file.stat().st_mtime)
        for file in files[:-_FILES_MAX]:
            file.unlink(missing_ok=True)
