"""How a job goes, for people who wait: a bar of tqdm on a terminal or in a notebook, plain lines elsewhere. Private."""

from __future__ import annotations

import sys
from typing import Any, Dict, Optional, TextIO

from tunefarm._display import duration_text
from tunefarm._visible import visible
from tunefarm.model import JobEvent, Outcome, Progress, TrialPurpose


def _bar(stream: TextIO) -> Optional[Any]:
    """A tqdm bar; None where there is no tqdm or nobody to look at it."""
    in_notebook = "ipykernel" in sys.modules
    if not in_notebook and not stream.isatty():
        return None
    try:
        if in_notebook:
            from tqdm.auto import tqdm
            return tqdm(total=0, unit=" configs")
        from tqdm import tqdm
        return tqdm(total=0, unit=" configs", file=stream)
    except ImportError:
        return None


class ProgressDisplay:
    """Fed with the events of one job by one thread."""

    def __init__(self, stream: Optional[TextIO] = None) -> None:
        self._stream = stream or sys.stderr
        self._bar = _bar(self._stream)
        self._best_ns: Dict[str, float] = {}
        self._last_tenth = -1

    def __call__(self, event: JobEvent) -> None:
        if event.message:
            self.say(event.message)
        trial = event.trial
        if trial and trial.outcome == Outcome.OK and trial.measurement and trial.purpose != TrialPurpose.BASELINE:
            best = self._best_ns.get(event.study_name, float("inf"))
            self._best_ns[event.study_name] = min(best, trial.measurement.median_ns)
        # A whole snapshot carries its own counts.
        self._draw(event.job.progress if event.job else event.progress)

    def _best_text(self) -> str:
        if len(self._best_ns) == 1:
            return "best " + duration_text(next(iter(self._best_ns.values())))
        return f"{len(self._best_ns)} problems have a best" if self._best_ns else ""

    def _draw(self, progress: Progress) -> None:
        if self._bar is not None:
            self._bar.total = progress.total
            self._bar.n = progress.done
            self._bar.set_postfix_str(self._best_text(), refresh=False)
            self._bar.refresh()
            return
        tenth = progress.done * 10 // progress.total if progress.total else 0
        if tenth <= self._last_tenth:
            return
        self._last_tenth = tenth
        about = "~" if progress.total_is_estimate else ""
        share = f" {100 * progress.done // progress.total:3}%" if progress.total else ""
        print(f"[{progress.done}/{about}{progress.total}]{share}  {self._best_text()}".rstrip(), file=self._stream,
              flush=True)

    def say(self, text: str) -> None:
        """A line for people, not through the bar."""
        text = visible(text)
        if self._bar is not None:
            self._bar.write(text, file=self._stream)
        else:
            print(text, file=self._stream, flush=True)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None
