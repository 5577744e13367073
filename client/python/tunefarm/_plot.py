"""`tunefarm.plot`: what the trials of a job show, as a figure. What is drawn is worked out here; _figure.py draws it.
Private."""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Dict, List, Optional, Sequence, Tuple, Union

from tunefarm import _optional, model
from tunefarm._display import count_text, short
from tunefarm.errors import InvalidArgumentError
from tunefarm.results import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STUDIES_MAX = 4

Groups = List[Tuple[str, List[float]]]  # times in nanoseconds by what they have in common


@dataclass(frozen=True)
class StudyPlot:
    """What is drawn of one study."""

    title: str
    tried: List[Tuple[int, float]]  # ordinals and times in nanoseconds, in the order of the ordinals
    best: List[Tuple[int, float]]  # the same, of those that were faster than all before, and the end
    baseline_ns: Optional[float]
    outcomes: Groups
    parameter: str  # empty: no config has one
    values: Groups  # by the parameter's values, in their order


def plot(job: "Union[int, str, model.Job, Results]", *, parameter: str = "",
         server: Optional[str] = None) -> "Figure":
    """Draws the search of a job by matplotlib: the best time so far over its trials, the times by outcome, and the times
    by the values of `parameter` (by default the one that explains most of the differences). A row for each problem, at
    most 4; `client.results(job, study=5)` is one of the others.

    `job`: a number, a name or a Job, whose trials are fetched through `Client(server)`, or the Results of any Client,
    unpickled ones too. Returns the Figure, which a notebook shows as the value of a cell; `figure.savefig("search.png")`
    writes it. Nothing is shown and pyplot is not used. ImportError without matplotlib."""
    _optional.needed("matplotlib", "tunefarm.plot")
    figure = importlib.import_module("tunefarm._figure")
    if isinstance(job, Results):
        trials, name = job.to_list(), job.name
    else:
        from tunefarm.client import Client  # Needs gRPC, which saved results do not.

        with Client(server) as client:
            results = client.results(job)
            trials, name = results.to_list(), results.name
    studies = studies_of(trials, parameter)
    left = len(studies) - _STUDIES_MAX
    title = short(name) + (f" ... and {count_text(left, 'more problem')}" if left > 0 else "")
    return figure.drawn(title, studies[:_STUDIES_MAX])


def studies_of(trials: Sequence[model.Trial], parameter: str = "") -> List[StudyPlot]:
    """Of each study, in their order. InvalidArgumentError where no config has the parameter."""
    names = sorted({name for trial in trials for name in trial.config})
    if parameter and parameter not in names:
        raise InvalidArgumentError(f"no config has a parameter '{parameter}'; they have {', '.join(names) or 'none'}")
    by_study: Dict[str, List[model.Trial]] = {}
    for trial in sorted(trials, key=lambda trial: trial.ordinal):
        by_study.setdefault(trial.study, []).append(trial)
    return [_study(by_study[study], parameter) for study in sorted(by_study, key=_number)]


def _number(study: str) -> int:
    return int(study.rsplit("/", 1)[1])


def _study(trials: Sequence[model.Trial], parameter: str) -> StudyPlot:
    searched = [trial for trial in trials if trial.purpose == model.TrialPurpose.SEARCH]
    baseline = next((trial for trial in trials if trial.purpose == model.TrialPurpose.BASELINE), None)
    ok = [trial for trial in searched if trial.outcome == model.Outcome.OK and _time_ns(trial)]
    tried = [(trial.ordinal, _time_ns(trial)) for trial in ok]
    best: List[Tuple[int, float]] = []
    for ordinal, time_ns in tried:
        if not best or time_ns < best[-1][1]:
            best.append((ordinal, time_ns))
    if best:
        best.append((searched[-1].ordinal, best[-1][1]))
    outcomes: Groups = []
    for outcome in sorted({trial.outcome for trial in searched}):
        group = [trial for trial in searched if trial.outcome == outcome]
        outcomes.append((f"{outcome} ({len(group)})", list(filter(None, map(_time_ns, group)))))
    parameter = parameter or _most_important(ok)
    return StudyPlot(short(trials[0].problem_key), tried, best, _time_ns(baseline) if baseline else None, outcomes,
                     parameter, _by_value(ok, parameter))


def _time_ns(trial: model.Trial) -> float:
    """0: not measured."""
    return trial.measurement.median_ns if trial.measurement else 0.0


def _by_value(trials: Sequence[model.Trial], parameter: str) -> Groups:
    groups: Dict[model.Value, List[float]] = {}
    for trial in trials:
        if parameter in trial.config:
            groups.setdefault(trial.config[parameter], []).append(_time_ns(trial))
    return [(short(value), groups[value]) for value in sorted(groups, key=lambda value: (isinstance(value, str), value))]


def _most_important(trials: Sequence[model.Trial]) -> str:
    names = sorted({name for trial in trials for name in trial.config})
    return max(names, key=lambda name: explained([times for _, times in _by_value(trials, name)]), default="")


def explained(groups: Sequence[Sequence[float]]) -> float:
    """Which share of the variance of log(time) the grouping explains (epsilon squared: about 0 for a grouping by chance,
    also into many groups)."""
    logs = [[math.log(time) for time in times] for times in groups]
    count = sum(map(len, logs))
    total = _squares([log for group in logs for log in group])
    if len(logs) < 2 or count <= len(logs) or total <= 0:
        return 0.0
    within = sum(map(_squares, logs))
    return 1 - within / (count - len(logs)) * (count - 1) / total


def _squares(values: Sequence[float]) -> float:
    mean = sum(values) / len(values) if values else 0.0
    return sum((value - mean) ** 2 for value in values)
