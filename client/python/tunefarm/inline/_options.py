"""Kernel Tuner's options that say how to search and measure, as a job's. Private."""

from __future__ import annotations

import ast
import builtins
import math
import warnings
from typing import Any, Callable, Collection, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from tunefarm._display import a_type
from tunefarm.errors import InvalidArgumentError
from tunefarm.inline._expressions import plain
from tunefarm.inline._space import Space

MEASURED = ("time", "compile_time", "benchmark_time")  # in each result, in ms
# Of results, and of macros that sources get besides parameters.
_NOT_OF_PARAMETERS = (*MEASURED, "verified", "grid_size_x", "grid_size_y", "grid_size_z")
_SAMPLES_MAX = 4096
_TRIALS = 100  # of a search that no option ends
_RANDOM_FRACTION = 0.1  # of the space
_STRATEGIES = {
    "brute_force": "exhaustive", "random_sample": "random", "bayes_opt": "bayes", "skopt": "bayes",
    "genetic_algorithm": "genetic", "diff_evo": "genetic", "simulated_annealing": "annealing",
    "dual_annealing": "annealing", "mls": "local", "greedy_mls": "local", "ordered_greedy_mls": "local",
    "greedy_ils": "local", "minimize": "local", "basinhopping": "local", "pso": "pack", "firefly_algorithm": "pack",
    "adaptive_tabu_greywolf": "pack", "hybrid_vndx": "local",
}
# By the daemon's strategy: Kernel Tuner's option and the daemon's.
_STRATEGY_OPTIONS = {"genetic": {"popsize": "population"}, "pack": {"popsize": "pack"}}
_HIGHER_IS_BETTER = {"time": False, "energy": False, "fitness": True, "cost": False, "loss": False, "GFLOP/s": True,
                     "TFLOP/s": True, "GB/s": True, "TB/s": True, "GFLOPS/W": True, "TFLOPS/W": True, "GFLOP/J": True,
                     "TFLOP/J": True}
_REFUSED = {
    "texmem_args": "texture references are not part of current CUDA; pass a pointer",
    "simulation_mode": "the daemon replays its own records: tunefarm simulate",
    "observers": "the daemon takes the times itself; its trials also have registers, clocks and power",
    "log": "the daemon has a log of its own: tunefarm doctor says where",
    "platform": "there are no OpenCL devices",
    "parallel": "one call tunes on one device, for which the daemon compiles in parallel by itself",
}


def refuse(given: Mapping[str, Any]) -> None:
    """What is not supported must have its default."""
    for name, value in given.items():
        if value:
            shown = f"={value!r}" if isinstance(value, (bool, int, float, str)) else ""  # arrays take many lines
            raise InvalidArgumentError(f"{name}{shown} is not supported: {_REFUSED[name]}")


def check_parameters(names: Iterable[str]) -> None:
    """Names that a result has for something else, or that stand for what the daemon does not do."""
    for name in names:
        if name in _NOT_OF_PARAMETERS:
            raise InvalidArgumentError(f"tune_params: '{name}' names something else in results or sources; give the "
                                       "parameter another name")
        if name.startswith("nvml_"):
            raise InvalidArgumentError(f"tune_params: '{name}' is not supported: no config sets clocks or power limits of "
                                       "the GPU")


class Search(NamedTuple):
    """Arguments of Client.submit."""

    strategy: str
    options: Dict[str, Any]
    max_trials: int
    max_seconds: int


def search(strategy: Any, given: Optional[Mapping[str, Any]], space: Space) -> Search:
    """A search that Kernel Tuner ends by a number of generations ends here after 100 configs, unless max_fevals says
    another number."""
    if strategy is not None and (not isinstance(strategy, str) or strategy not in _STRATEGIES):
        raise InvalidArgumentError(f"strategy={strategy!r} is not supported; write one of {', '.join(_STRATEGIES)}")
    if given is not None and not isinstance(given, Mapping):
        raise InvalidArgumentError("strategy_options is a dict")
    name = _STRATEGIES[strategy or "brute_force"]
    left = dict(given or {})
    trials = _positive(left.pop("max_fevals", None), "max_fevals")
    seconds = _positive(left.pop("time_limit", None), "time_limit")
    fraction = left.pop("fraction", None) if name == "random" else None
    known = _STRATEGY_OPTIONS.get(name, {})
    options = {known[option]: left.pop(option) for option in list(left) if option in known}
    if left:
        raise InvalidArgumentError(f"strategy_options: {', '.join(left)} of {strategy or 'brute_force'} is not supported; "
                                   f"there are {', '.join(['max_fevals', 'time_limit', *known])}"
                                   f"{', fraction' if name == 'random' else ''}")
    if trials is None and name == "random" and (fraction is not None or seconds is None):
        share = _positive(_RANDOM_FRACTION if fraction is None else fraction, "fraction") or 0.0
        trials = max(1, math.ceil(space.count() * min(share, 1.0)))
    elif trials is None and name != "exhaustive" and seconds is None:
        trials = _TRIALS
    return Search(name, options, int(trials or 0), math.ceil(seconds or 0))


def _positive(given: Any, what: str) -> Optional[float]:
    if given is None:
        return None
    value = plain(given, f"strategy_options['{what}']")
    if isinstance(value, (bool, str)) or value <= 0:
        raise InvalidArgumentError(f"strategy_options['{what}'] is {value!r}; write a number above 0")
    return value


def measure(iterations: Any, cache: Any, more: Optional[Mapping[str, Any]]) -> Dict[str, Any]:
    """Knobs of the policy. As Kernel Tuner does, each config has all its iterations, with caches as the one before left
    them, its time counts however noisy it is, and none is taken over from an earlier call unless `cache` asks for it."""
    count = plain(iterations, "iterations")
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= _SAMPLES_MAX:
        raise InvalidArgumentError(f"iterations is {count!r}; write a number from 1 to {_SAMPLES_MAX}")
    if cache is not None:
        warnings.warn(f"cache={str(cache)!r}: no file is written; the daemon keeps every measurement, and with `cache` it "
                      "takes over what earlier calls measured of the same kernel and arguments", stacklevel=4)
    return {"min_samples": count, "max_samples": count, "no_early_stop": True, "warm_cache": True,
            "no_reuse": cache is None, "no_second_inputs": True, "noisy_relative_half_width": -1.0, **(more or {})}


class Objective(NamedTuple):
    """What results are sorted by."""

    name: str
    higher_is_better: bool


def objective(name: Any, higher_is_better: Any, objectives: Any, metrics: Any, strategy: str) -> Objective:
    if objectives:
        if not isinstance(objectives, Mapping) or len(objectives) != 1:
            raise InvalidArgumentError("objectives: several objectives are not supported; give one as objective")
        (name, higher_is_better), = objectives.items()
    if isinstance(name, (list, tuple)) and len(name) == 1:
        name = name[0]
        if isinstance(higher_is_better, (list, tuple)) and len(higher_is_better) == 1:
            higher_is_better = higher_is_better[0]
    if isinstance(name, (list, tuple)):
        raise InvalidArgumentError("objective: several objectives are not supported; give one name")
    name = "time" if name is None else name
    if name != "time" and name not in (metrics or {}):
        raise InvalidArgumentError(f"objective={name!r} is neither time nor one of the metrics")
    if higher_is_better is None:
        if name not in _HIGHER_IS_BETTER:
            raise InvalidArgumentError(f"objective={name!r}: say objective_higher_is_better=True or False")
        higher_is_better = _HIGHER_IS_BETTER[name]
    if name != "time" and strategy not in ("exhaustive", "random"):
        raise InvalidArgumentError(f"objective={name!r}: the daemon searches for the shortest time; other objectives are "
                                   "for the strategies brute_force and random_sample")
    return Objective(str(name), bool(higher_is_better))


def metrics(given: Any, parameters: Collection[str]) -> List[Tuple[str, Callable[[Dict[str, Any]], Any]]]:
    """Names and functions of a result, to be called in order: each sees those before. What strings name is checked here,
    before a search."""
    if given is None:
        return []
    if not isinstance(given, Mapping):
        raise InvalidArgumentError("metrics is a dict of functions or strings by names")
    made: List[Tuple[str, Callable[[Dict[str, Any]], Any]]] = []
    for name, item in given.items():
        what = f"metrics['{name}']"
        if name in parameters:
            raise InvalidArgumentError(f"{what} has the name of a parameter; give the metric another name")
        if isinstance(item, str):
            _check_names(item, what, [*parameters, *MEASURED, *(metric for metric, _ in made)])
        elif not callable(item):
            raise InvalidArgumentError(f"{what} is {a_type(item)}; give a function or a string")
        made.append((name, _metric(item, what)))
    return made


class _Result(Dict[str, Any]):
    """A result that remembers what it was asked for and does not have."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.missing: List[Any] = []

    def __missing__(self, key: Any) -> Any:
        self.missing.append(key)
        raise KeyError(key)


def check_metrics(made: Sequence[Tuple[str, Callable[[Dict[str, Any]], Any]]], config: Mapping[str, Any]) -> None:
    """Before a search: functions may read what results have. They are called for a result that was not measured, so that
    no other failure counts."""
    result = _Result({**config, **dict.fromkeys(MEASURED, 1.0)})
    for name, metric in made:
        try:
            result[name] = metric(result)
        except InvalidArgumentError:
            if result.missing:
                raise InvalidArgumentError(f"metrics['{name}'] reads {result.missing[0]!r}, which results do not have; there "
                                           f"are {', '.join(result)}") from None
            result[name] = 1.0


def _metric(given: Any, what: str) -> Callable[[Dict[str, Any]], Any]:
    def value(result: Dict[str, Any]) -> Any:
        try:
            if callable(given):
                found = given(result)
            else:
                names = {name: item for name, item in result.items() if name.isidentifier()}
                found = eval(_with_values(given, result), {"math": math, **names})
            # Of NumPy's scalars json.dump takes few.
            return found.item() if hasattr(found, "item") and getattr(found, "ndim", 1) == 0 else found
        except Exception as error:
            raise InvalidArgumentError(f"{what} fails for {result}: {type(error).__name__}: {error}") from error

    return value


def _with_values(text: str, result: Mapping[str, Any]) -> str:
    """Of what is no name in Python: "GFLOP/s", of which a metric may be made."""
    for name in sorted(result, key=len, reverse=True):
        if not name.isidentifier():
            text = text.replace(name, f"({result[name]!r})")
    return text


def _check_names(text: str, what: str, known: Sequence[str]) -> None:
    try:
        tree = ast.parse(_with_values(text, dict.fromkeys(known, 1.0)).strip(), mode="eval")
    except (SyntaxError, ValueError) as error:
        raise InvalidArgumentError(f"{what}: '{text}' is no Python expression: {error}") from None
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    bound = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    for node in names:
        if node.id not in bound and node.id not in known and node.id != "math" and not hasattr(builtins, node.id):
            raise InvalidArgumentError(f"{what}: '{text}' has the unknown name '{node.id}'; there are {', '.join(known)}")
