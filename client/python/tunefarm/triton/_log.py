"""What TUNEFARM_TRITON_LOG=1 prints on standard error: a line for each decision, and counts when the process ends.
Private."""

from __future__ import annotations

import atexit
import collections
import contextlib
import os
import sys
import threading
from typing import Any, NamedTuple, Optional

# Where decisions come from.
KEPT = "kept from an earlier start"
KNOWN = "known to the daemon"
TUNED = "tuned by the daemon"
AGREED = "agreed on by the run"
FIRST = "the first config"
TRITON = "Triton's own tuning"

# Outcomes of asking the daemon again for kept answers.
UNCHANGED = "unchanged"
CHANGED = "changed for the next start"
UNKNOWN = "unknown to the daemon"
FAILED = "without an answer"


class Decision(NamedTuple):
    """What a launch uses: a config, or None for Triton's own tuning; its source (a constant above); the reason, for
    people."""

    config: Optional[Any]
    source: str
    why: str


_lock = threading.Lock()
_decisions: "collections.Counter[str]" = collections.Counter()
_refreshes: "collections.Counter[str]" = collections.Counter()


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()
    _decisions.clear()
    _refreshes.clear()


os.register_at_fork(after_in_child=_after_fork)


def decided(kernel: str, key: Any, decision: Decision) -> None:
    if _is_on():
        why = " ".join(decision.why.split())
        _count(_decisions, decision.source, f"{kernel} {key}: {decision.config or TRITON} ({why})")


def refreshed(name: str, outcome: str, what: str) -> None:
    """Logs the outcome of asking the daemon again for a kept answer; `what`: the new answer, or the error."""
    if _is_on():
        _count(_refreshes, outcome, f"{name} asked again: {outcome}{' '.join(f': {what}'.split()) if what else ''}")


def _is_on() -> bool:
    return os.environ.get("TUNEFARM_TRITON_LOG", "0") not in ("", "0")


def _count(counts: "collections.Counter[str]", what: str, line: str) -> None:
    with _lock:
        counts[what] += 1
    _print(line)


def _print_counts() -> None:
    def text(counts: "collections.Counter[str]") -> str:
        return f"{sum(counts.values())}: {', '.join(f'{count} {what}' for what, count in counts.items())}"

    if _decisions:
        again = f"; asked again {text(_refreshes)}" if _refreshes else ""
        _print(f"decisions {text(_decisions)}{again}")


atexit.register(_print_counts)


def _print(line: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # it is closed
        print(f"tunefarm.triton: {line}", file=sys.stderr, flush=True)
