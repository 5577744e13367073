"""How a job or an upload goes, for people who wait: one line that is updated in a notebook and on a terminal, plain lines
elsewhere. Private."""

from __future__ import annotations

import html
import sys
import time
from typing import Any, Dict, Optional, TextIO

from tunefarm._display import bytes_text, count_text, duration_text, notebook, short
from tunefarm._visible import visible
from tunefarm.model import JobEvent, Outcome, Progress, TrialPurpose

_UPDATE_SECONDS = 0.1  # at least, between two updates of a line
_TENTHS_BYTES_MIN = 256 << 20  # of an upload whose tenths are lines


def _line(progress: Progress, best: str) -> str:
    """ "[12/40]  30%  best 41.2 µs"."""
    about = "~" if progress.total_is_estimate else ""
    share = f" {100 * progress.done // progress.total:3}%" if progress.total else ""
    return f"[{progress.done}/{about}{progress.total}]{share}  {best}".rstrip()


class _Place:
    """Where progress is shown, and lines that stay."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def show(self, line: str, done: int, total: int, note: str) -> None:
        """`line` says all; `note` is its end, behind the numbers."""
        raise NotImplementedError

    def say(self, text: str) -> None:
        print(text, file=self._stream, flush=True)

    def close(self) -> None:
        """Nothing follows."""


class _Lines(_Place):
    """A pipe or a file: a line for each tenth."""

    _last_tenth = -1

    def show(self, line: str, done: int, total: int, note: str) -> None:
        tenth = done * 10 // total if total else 0
        if tenth > self._last_tenth:
            self._last_tenth = tenth
            self.say(line)


class _Terminal(_Place):
    """A line that is written over."""

    _text = ""

    def show(self, line: str, done: int, total: int, note: str) -> None:
        self._write(line)

    def say(self, text: str) -> None:
        line = self._text
        self._write("")
        print(text, file=self._stream)
        self._write(line)

    def close(self) -> None:
        if self._text:
            print(file=self._stream, flush=True)

    def _write(self, text: str) -> None:
        print(f"\r{' ' * len(self._text)}\r{text}", end="", file=self._stream, flush=True)
        self._text = text


class _Bar(_Place):
    """A bar of tqdm on a terminal."""

    def __init__(self, stream: TextIO, tqdm: Any, **options: Any) -> None:
        super().__init__(stream)
        self._bar = tqdm(total=0, file=stream, **options)

    def show(self, line: str, done: int, total: int, note: str) -> None:
        self._bar.total = total
        self._bar.n = done
        self._bar.set_postfix_str(note, refresh=False)
        self._bar.refresh()

    def say(self, text: str) -> None:
        self._bar.write(text, file=self._stream)

    def close(self) -> None:
        self._bar.close()


class _Cell(_Place):
    """The output of a notebook's cell: a display that is updated."""

    def __init__(self, stream: TextIO, display: Any) -> None:
        super().__init__(stream)
        self._display = display
        self._handle: Any = None

    def show(self, line: str, done: int, total: int, note: str) -> None:
        bar = f'<progress value="{done}" max="{max(total, 1)}"></progress>'
        shown = {"text/plain": line, "text/html": f"{bar} {html.escape(line)}"}
        if self._handle is None:
            self._handle = self._display.display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)


def _place(stream: TextIO, **bar: Any) -> _Place:
    """`bar`: options of tqdm."""
    display = notebook()
    if display is not None:
        return _Cell(stream, display)
    if not stream.isatty():
        return _Lines(stream)
    try:
        from tqdm import tqdm
    except ImportError:
        return _Terminal(stream)
    return _Bar(stream, tqdm, **bar)


class ProgressDisplay:
    """Fed with the events of one job by one thread."""

    def __init__(self, stream: Optional[TextIO] = None) -> None:
        self._place = _place(stream or sys.stderr, unit=" configs")
        self._best_ns: Dict[str, float] = {}
        self._waiting: Optional[Progress] = None  # came too soon after what is shown
        self._shown_at = float("-inf")

    def __call__(self, event: JobEvent) -> None:
        if event.message:
            self.say(event.message)
        trial = event.trial
        if trial and trial.outcome == Outcome.OK and trial.measurement and trial.purpose != TrialPurpose.BASELINE:
            best = self._best_ns.get(event.study_name, float("inf"))
            self._best_ns[event.study_name] = min(best, trial.measurement.median_ns)
        # A whole snapshot carries its own counts.
        self._waiting = event.job.progress if event.job else event.progress
        if time.monotonic() - self._shown_at >= _UPDATE_SECONDS:
            self._show()

    def _best_text(self) -> str:
        if len(self._best_ns) == 1:
            return "best " + duration_text(next(iter(self._best_ns.values())))
        return f"{count_text(len(self._best_ns), 'problem has', 'problems have')} a best" if self._best_ns else ""

    def _show(self) -> None:
        if self._waiting is not None:
            progress, best = self._waiting, self._best_text()
            self._place.show(_line(progress, best), progress.done, progress.total, best)
            self._waiting = None
            self._shown_at = time.monotonic()

    def say(self, text: str) -> None:
        """A line for people, beside the progress."""
        self._place.say(visible(text))

    def close(self) -> None:
        """What came last is shown."""
        self._show()
        self._place.close()


class UploadDisplay:
    """Told by one thread how many bytes of one upload the daemon has."""

    def __init__(self, name: str, total: int, stream: Optional[TextIO] = None) -> None:
        self._name, self._total = short(name), total
        self._place = _place(stream or sys.stderr, unit="B", unit_scale=True, unit_divisor=1024, desc=self._name)
        self._is_plain = isinstance(self._place, _Lines)
        self._shown_at = float("-inf")

    def __call__(self, done: int) -> None:
        if self._is_plain and self._total < _TENTHS_BYTES_MIN and self._shown_at > 0:
            return
        if done < self._total and time.monotonic() - self._shown_at < _UPDATE_SECONDS:
            return
        line = f"uploading {self._name}: {bytes_text(done)} of {bytes_text(self._total)}"
        self._place.show(line, done, self._total, "")
        self._shown_at = time.monotonic()

    def close(self) -> None:
        self._place.close()
