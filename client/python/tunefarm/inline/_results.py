"""What tune_kernel returns."""

from __future__ import annotations

import math
import warnings
from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple, Union

from tunefarm._display import count_text
from tunefarm.errors import FailedPreconditionError, InvalidArgumentError
from tunefarm.inline._launching import Program
from tunefarm.inline._options import Objective
from tunefarm.model import Outcome, Trial, TrialPurpose

Metrics = Sequence[Tuple[str, Callable[[Dict[str, Any]], Any]]]


class Best(Dict[str, Any]):
    """The best result, which can be launched."""

    def __init__(self, result: Mapping[str, Any], program: Program, names: Sequence[str]) -> None:
        super().__init__(result)
        self._program = program
        self.config: Dict[str, Any] = {name: result[name] for name in names}
        """The parameters alone."""

    def __reduce__(self) -> Tuple[Any, ...]:
        """A pickle holds the values."""
        return dict, (dict(self),)

    def launch(self, *arguments: Any, stream: Any = None) -> None:
        """Runs the kernel in this process, as tunefarm.launch does: on the CPU at once, on a GPU enqueued on `stream`
        (None: the current one of the arrays' library). `arguments` are as many as were tuned: arrays of the same types
        and at least the same lengths, on the kernel's device; scalars must have the values that were tuned, or be None.
        The first call compiles the config and needs the daemon."""
        self._program.launch(self.config, arguments, stream)


class NoBest(Dict[str, Any]):
    """In the place of the best result where there is none: empty and false. What is asked of it raises
    FailedPreconditionError with the reason."""

    def __init__(self, why: str = "no config ran and was right") -> None:
        super().__init__()
        self._why = why

    def error(self) -> FailedPreconditionError:
        """What is raised."""
        return FailedPreconditionError(f"there is no best config: {self._why}")

    def __missing__(self, key: str) -> Any:
        raise self.error()

    @property
    def config(self) -> Dict[str, Any]:
        raise self.error()

    def launch(self, *arguments: Any, stream: Any = None) -> None:
        raise self.error()

    def __reduce__(self) -> Tuple[Any, ...]:
        return NoBest, (self._why,)


class Results(List[Dict[str, Any]]):
    """A dict for each config that ran: its parameters, "time" in ms, and the metrics; in the order of the search."""

    best: Union[Best, NoBest]
    """By the objective; false if no config ran and was right."""
    failed: List[Dict[str, Any]]
    """A dict for each config that did not run or was wrong: its parameters, "outcome" and "message"."""
    verified_against_first_config = False
    """No answer was given: the outputs were compared with those of the first config."""

    def __init__(self) -> None:
        super().__init__()
        self.best = NoBest()
        self.failed = []

    def warn_of_differences(self, advice: str) -> None:
        """Where the first config is the reference, and others give something else."""
        differ = sum(failure["outcome"] == Outcome.WRONG_RESULT.name for failure in self.failed)
        if self.verified_against_first_config and differ:
            warnings.warn(f"the outputs of {count_text(differ, 'config')} differ from those of the first config; where they may depend on "
                          f"the parameters, {advice}", stacklevel=3)

    def no_config_text(self) -> str:
        """Why there is no best one."""
        why = f"; the first: {self.failed[0]['outcome']}: {self.failed[0]['message']}" if self.failed else ""
        return f"no config ran and was right{why}"


class Tuning(Tuple[Results, Dict[str, Any]]):
    """(results, env), which also has what can be done with the best result."""

    def __new__(cls, results: Results, env: Dict[str, Any]) -> "Tuning":
        return super().__new__(cls, (results, env))  # type: ignore[arg-type]

    def __getnewargs__(self) -> Tuple[Any, ...]:  # type: ignore[override]
        return tuple(self)

    @property
    def best(self) -> Union[Best, NoBest]:
        """As of the results."""
        return self[0].best


def collect(trials: Sequence[Trial], names: Sequence[str], metrics: Metrics) -> Results:
    """Of a job's trials. A finalist's time is that of the final, in which configs took turns."""
    results = Results()
    by_config: Dict[Tuple[Any, ...], Dict[str, Any]] = {}
    for trial in trials:
        if trial.purpose is TrialPurpose.BASELINE or any(name not in trial.config for name in names):
            continue
        key = tuple(trial.config[name] for name in names)
        config = dict(zip(names, key))
        if trial.outcome is Outcome.OK and trial.measurement is not None:
            made = by_config.setdefault(key, config)
            if "time" not in made:
                results.append(made)
            made["time"] = trial.measurement.median_ns / 1e6
            made.setdefault("compile_time", trial.compile_ms)
            made["benchmark_time"] = made.get("benchmark_time", 0.0) + trial.run_ms
        elif trial.purpose is TrialPurpose.SEARCH:
            results.failed.append({**config, "outcome": trial.outcome.name, "message": trial.message})
    for result in results:
        for name, value in metrics:
            result[name] = value(result)
    return results


def by_objective(results: Sequence[Dict[str, Any]], objective: Objective) -> List[Dict[str, Any]]:
    """The best first. What is no number comes last."""
    def rank(result: Dict[str, Any]) -> float:
        try:
            value = float(result[objective.name])
        except (TypeError, ValueError):
            raise InvalidArgumentError(f"objective='{objective.name}' is {result[objective.name]!r} for {result}, which is "
                                       "no number") from None
        if math.isnan(value):
            return math.inf
        return -value if objective.higher_is_better else value

    return sorted(results, key=rank)
