"""Draws what _plot.py has worked out. Needs matplotlib, and not its pyplot, which would keep each figure and show it a
second time in a notebook. Private."""

from __future__ import annotations

import io
from typing import Any, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from tunefarm._display import time_unit
from tunefarm._plot import Groups, StudyPlot

# From this ratio of the slowest to the fastest on, a logarithmic axis shows more; as in the command line's plots.
_LOG_FROM = 3
_TICKS_MAX = 12  # values of a parameter that are written below its axis
_POINTS = {"linestyle": "", "marker": ".", "color": "gray", "alpha": 0.5}


class TunefarmFigure(Figure):
    """A notebook shows it, also where pyplot has not told IPython about figures."""

    def _repr_png_(self) -> bytes:
        image = io.BytesIO()
        self.savefig(image, format="png")
        return image.getvalue()


def drawn(title: str, studies: Sequence[StudyPlot]) -> Figure:
    """A row for each study."""
    rows = max(len(studies), 1)
    figure = TunefarmFigure(figsize=(12, 0.5 + 3.5 * rows), layout="constrained")
    figure.suptitle(_plain(title if studies else f"{title}: no trials"))
    if studies:
        for part, study in zip(figure.subfigures(rows, 1, squeeze=False)[:, 0], studies):
            part.suptitle(_plain(study.title))
            _draw(part.subplots(1, 3), study)
    return figure


def _draw(panels: Sequence[Any], study: StudyPlot) -> None:
    over_trials, by_outcome, by_value = panels
    times = [time for _, group in study.outcomes for time in group]
    shown = [*times, study.baseline_ns] if study.baseline_ns else times
    unit_ns, unit = time_unit(min(shown, default=1.0))

    over_trials.set(title="best time so far", xlabel="trial", ylabel=f"time ({unit})")
    over_trials.plot([ordinal for ordinal, _ in study.tried], [time / unit_ns for _, time in study.tried], **_POINTS)
    over_trials.step([ordinal for ordinal, _ in study.best], [time / unit_ns for _, time in study.best], where="post",
                     label="best so far")
    if study.baseline_ns:
        over_trials.axhline(study.baseline_ns / unit_ns, linestyle="--", color="black", linewidth=1, label="baseline")
    over_trials.legend()

    by_outcome.set(title="times by outcome", xlabel=f"time ({unit})", ylim=(max(len(study.outcomes), 1) - 0.5, -0.5))
    by_outcome.plot([time / unit_ns for time in times], _places(study.outcomes), **_POINTS)
    by_outcome.tick_params(axis="x", rotation=30)
    by_outcome.set_yticks(range(len(study.outcomes)), [label for label, _ in study.outcomes])

    by_value.set(title=_plain(f"effect of {study.parameter}" if study.parameter else "no parameter"),
                 ylabel=f"time ({unit})")
    by_value.plot(_places(study.values), [time / unit_ns for _, group in study.values for time in group], **_POINTS)
    by_value.plot([min(group) / unit_ns for _, group in study.values], marker="o", label="best of the value")
    every = -(-len(study.values) // _TICKS_MAX) or 1
    labels = [_plain(label) for label, _ in study.values][::every]
    by_value.set_xticks(range(0, len(study.values), every), labels, rotation=30)
    by_value.legend()

    if shown and max(shown) >= _LOG_FROM * min(shown):
        for panel, axis in ((over_trials, "y"), (by_outcome, "x"), (by_value, "y")):
            getattr(panel, f"set_{axis}scale")("log")
            lines = getattr(panel, f"{axis}axis")
            lines.set_major_locator(LogLocator(subs=(1, 2, 5)))
            lines.set_major_formatter("{x:g}")
            lines.set_minor_formatter(NullFormatter())


def _places(groups: Groups) -> "list[float]":
    """Beside the number of its group, so that points do not hide each other."""
    return [number + (at * 0.618 % 1 - 0.5) / 2 for number, (_, times) in enumerate(groups) for at in range(len(times))]


def _plain(text: str) -> str:
    """Not as a formula between dollar signs."""
    return text.replace("$", r"\$")
