"""The trials of a job, fetched page by page, and lists of what the daemon knows."""

from __future__ import annotations

import csv
import io
import os
import warnings
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple, TypeVar, Union

from tunefarm import _files, _optional
from tunefarm._display import angle, count_text, list_html, list_text, sentence_html
from tunefarm.errors import TunefarmError
from tunefarm.model import Trial

if TYPE_CHECKING:
    import pandas

# Before and after the parameters, which stand in the order of the definition.
_LEADING = ("study", "problem", "ordinal", "purpose", "outcome")
_TRAILING = ("median_ns", "ci_low_ns", "ci_high_ns", "mean_ns", "stdev_ns", "samples", "compile_ms", "run_ms",
             "registers", "spill_bytes", "device_uuid", "reused", "stopped_early", "message")
_MEASURED = ("median_ns", "ci_low_ns", "ci_high_ns", "mean_ns", "stdev_ns", "samples")
_USED = ("registers", "spill_bytes")
# What a trial may lack. Their columns have the same type in every frame: times are floats, counts are nullable integers.
_TYPES = {**dict.fromkeys(_MEASURED, "float64"), **dict.fromkeys(("samples", *_USED), "Int64")}

# The trials of a page, the token of the next one, and how many damaged trials the daemon left out of it.
Page = Tuple[List[Trial], str, int]
T = TypeVar("T")


class Listing(List[T]):
    """A list whose representation shows its first values, and which is a table in a notebook."""

    def __repr__(self) -> str:
        return list_text(self)

    def _repr_html_(self) -> str:
        return list_html(self)

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        return Listing(found) if isinstance(index, slice) else found


class Results:
    """Each iteration asks the daemon for one page after another: while a job runs, a later iteration sees
    more. Every page has the deadline that was given to Client.results. May be shared by threads; an iterator may not.
    Pickling fetches the trials.

    Trials that are damaged in the daemon's database are left out: an iteration that met some warns (UserWarning) when it
    ends, with their number.
    """

    def __init__(self, fetch_page: Callable[[str], Page], fetch_parameters: Callable[[], Sequence[str]],
                 name: str = "") -> None:
        self._fetch_page = fetch_page
        self._fetch_parameters = fetch_parameters
        self.name = name
        """ "jobs/{job}" or "jobs/{job}/studies/{study}"."""
        self.unreadable = 0
        """How many damaged trials the iteration that ended last has left out, of the pages that it fetched."""

    def __repr__(self) -> str:
        return angle("Results", "of" if self.name else "", self.name)

    def _repr_html_(self) -> str:
        """The first trials of the first page."""
        try:
            trials, token, unreadable = self._fetch_page("")
        except TunefarmError as error:  # A notebook would show a traceback for a value of an earlier cell.
            return sentence_html(f"{self!r}: {error}")
        note = f"{self!r}: {_left_out(unreadable)}" if unreadable else repr(self)
        return list_html(trials, note, is_all=not token)

    def __reduce__(self) -> Tuple[Any, ...]:
        """A pickle holds the trials as they are now, and needs no daemon when it is read."""
        trials = list(self)
        return _fixed, (trials, list(self._fetch_parameters()), self.name, self.unreadable)

    def __iter__(self) -> Iterator[Trial]:
        token = ""
        unreadable = 0
        try:
            while True:
                trials, token, damaged = self._fetch_page(token)
                unreadable += damaged
                yield from trials
                if not token:
                    return
        finally:  # Also of an iteration that its caller leaves early.
            self.unreadable = unreadable
            if unreadable:
                warnings.warn(f"tunefarm: {self.name}: {_left_out(unreadable)}", stacklevel=2)

    def to_list(self) -> List[Trial]:
        """All trials."""
        return Listing(self)

    def rows(self) -> Tuple[List[str], List[Dict[str, Any]]]:
        """Column names and one row for each trial; None where there is no value."""
        trials = list(self)
        names = list(self._fetch_parameters())
        for trial in trials:
            names.extend(name for name in trial.config if name not in names)
        # A parameter may be called like a column of ours.
        columns = {name: f"config.{name}" if name in _LEADING + _TRAILING else name for name in names}
        return [*_LEADING, *columns.values(), *_TRAILING], [_row(trial, columns) for trial in trials]

    def to_dataframe(self) -> "pandas.DataFrame":
        """One row for each trial: study, problem, ordinal, purpose, outcome, a column for each parameter, then times and
        the rest. ImportError without pandas."""
        pandas = _optional.needed("pandas", "to_dataframe", "to_csv and rows do without")
        columns, rows = self.rows()
        return pandas.DataFrame(rows, columns=columns).astype(_TYPES)

    def to_csv(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """The columns of to_dataframe, without an index; needs no pandas."""
        columns, rows = self.rows()
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        _files.write(path, text.getvalue())


def _fixed(trials: List[Trial], parameters: List[str], name: str, unreadable: int) -> Results:
    return Results(lambda token: (trials, "", unreadable), lambda: parameters, name)


def _left_out(unreadable: int) -> str:
    return f"{count_text(unreadable, 'trial is', 'trials are')} damaged in the daemon's database and left out"


def _row(trial: Trial, columns: Dict[str, str]) -> Dict[str, Any]:
    row: Dict[str, Any] = {
        "study": trial.study, "problem": trial.problem_key, "ordinal": trial.ordinal, "purpose": trial.purpose.name,
        "outcome": trial.outcome.name,
    }
    row.update((column, trial.config.get(name)) for name, column in columns.items())
    row.update((name, _field(trial.measurement, name)) for name in _MEASURED)
    row.update((name, _field(trial.resources, name)) for name in _USED)
    row.update((name, getattr(trial, name)) for name in _TRAILING if name not in _MEASURED + _USED)
    return row


def _field(part: Optional[object], name: str) -> Any:
    return None if part is None else getattr(part, name)
