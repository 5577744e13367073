"""Limits, cores and priorities of this process, which a config may have changed: the next begins as the first did."""

from __future__ import annotations

import contextlib
import os
import resource
from typing import Any, Dict

_LIMITS = {name: getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")}


class ProcessState:
    """As it is when this is made."""

    def __init__(self) -> None:
        self._state = _read()

    def restore(self) -> bool:
        """Sets back what may be set. False: something stays changed, and this process must run no other config."""
        if _read() == self._state:
            return True
        for name, limit in _LIMITS.items():
            with contextlib.suppress(OSError, ValueError):
                resource.setrlimit(limit, self._state[name])
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, self._state["cores"])
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, self._state["policy"], os.sched_param(self._state["priority"]))
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, self._state["nice"])
        return _read() == self._state


def _read() -> Dict[str, Any]:
    return {**{name: resource.getrlimit(limit) for name, limit in _LIMITS.items()},
            "cores": os.sched_getaffinity(0), "policy": os.sched_getscheduler(0),
            "priority": os.sched_getparam(0).sched_priority, "nice": os.getpriority(os.PRIO_PROCESS, 0)}
