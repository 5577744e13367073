"""Tunable parameters and restrictions as Kernel Tuner's users write them. Private."""

from __future__ import annotations

import inspect
from typing import Any, Dict, Iterator, List, Mapping, Sequence, Union

from tunefarm._display import a_type
from tunefarm.errors import InvalidArgumentError
from tunefarm.inline._expressions import Formula, Listed, names_read, plain

_VISITS_MAX = 1_000_000  # partial configs, in looking for the first one and in counting
_THREADS_MAX = 1024  # of a CUDA block


class Space:
    """The parameters' values by name, and what restricts them."""

    def __init__(self, tune_params: Any, restrictions: Any, what: str = "tune_params") -> None:
        if not isinstance(tune_params, Mapping):
            raise InvalidArgumentError(f"{what} is a dict of lists: {{\"block_size_x\": [32, 64]}}")
        self.domains: Dict[str, List[Any]] = {}
        for name, values in tune_params.items():
            if not isinstance(name, str) or not name.isidentifier():
                raise InvalidArgumentError(f"{what}: {name!r} is no name of a parameter")
            if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
                raise InvalidArgumentError(f"{what}: the values of {name} are no list")
            self.domains[name] = _of_one_type(name, list(values), what)
        self._restrictions: List[Union[Formula, Listed]] = [
            _restriction(given, f"restrictions[{index}]", self.domains) for index, given in enumerate(_as_list(restrictions))]

    @classmethod
    def of_configs(cls, configs: Sequence[Mapping[str, Any]]) -> "Space":
        """These configs and no others; all name the same parameters. The first one is the default config."""
        made = cls({name: [config[name] for config in configs] for name in configs[0]}, None, "configs")
        # As the domains have them: ints beside floats are floats.
        rows = [tuple(next(value for value in values if value == config[name]) for name, values in made.domains.items())
                for config in configs]
        made._restrictions.append(Listed(list(made.domains), rows))
        return made

    @property
    def integers(self) -> "set[str]":
        """The parameters with int values alone."""
        return {name for name, values in self.domains.items() if all(type(value) is int for value in values)}

    def constraints(self) -> List[str]:
        """As expressions that must be true."""
        return [text for restriction in self._restrictions for text in restriction.constraints(self.domains)
                if text != "True"]

    def first(self, threads: Sequence[str] = ()) -> Dict[str, Any]:
        """The first config in the order of the parameters that keeps all restrictions. `threads`: parameters whose
        product is at most what a CUDA block has."""
        for config in self.configs(threads):
            return config
        raise InvalidArgumentError("no config keeps all restrictions" if self._restrictions else "tune_params has no config")

    def count(self) -> int:
        """How many configs keep the restrictions."""
        return sum(1 for _ in self.configs())

    def configs(self, threads: Sequence[str] = ()) -> Iterator[Dict[str, Any]]:
        """All that keep the restrictions, the last parameter changing fastest."""
        names = list(self.domains)
        rules = list(self._restrictions)
        if threads:
            rules.append(Formula(f"{' * '.join(threads)} <= {_THREADS_MAX}", "block size", names, is_condition=True))
        chosen = {name: values[0] for name, values in self.domains.items()}
        visits = 0

        def visit(level: int, waiting: List[Union[Formula, Listed]]) -> Iterator[Dict[str, Any]]:
            nonlocal visits
            visits += 1
            if visits > _VISITS_MAX:
                raise InvalidArgumentError(
                    f"{_VISITS_MAX} combinations of parameters were looked at without an end; write max_fevals into "
                    "strategy_options, or parameters that restrict each other beside each other")
            assigned = set(names[:level])
            left = []
            for rule in waiting:
                value, read = names_read(rule, chosen)
                if not read <= assigned:
                    left.append(rule)  # depends on what is not chosen yet
                elif not value:
                    return
            if level == len(names):
                yield dict(chosen)
                return
            name = names[level]
            for value in self.domains[name]:
                chosen[name] = value
                yield from visit(level + 1, left)
            chosen[name] = self.domains[name][0]

        return visit(0, rules)


def _of_one_type(name: str, values: List[Any], what: str) -> List[Any]:
    """As the daemon has them: ints with floats are floats, truth values with numbers are numbers; without repetitions."""
    made = [plain(value, f"{what}: a value of {name}") for value in values]
    if not made:
        raise InvalidArgumentError(f"{what}: {name} has no value")
    kinds = {type(value) for value in made}
    if len(kinds) > 1:
        if str in kinds:
            raise InvalidArgumentError(f"{what}: {name} has strings and numbers; write all of them as strings")
        kind = float if float in kinds else int
        made = [kind(value) for value in made]
    return list(dict.fromkeys(made))


def _as_list(restrictions: Any) -> List[Any]:
    if restrictions is None:
        return []
    if callable(restrictions) or isinstance(restrictions, str):
        return [restrictions]
    if not isinstance(restrictions, (list, tuple)):
        raise InvalidArgumentError(f"restrictions is {a_type(restrictions)}; give a function or a list of strings")
    return list(restrictions)


def _restriction(given: Any, what: str, names: Mapping[str, Any]) -> Formula:
    if isinstance(given, tuple) and len(given) in (2, 3) and callable(given[0]) and isinstance(given[1], (list, tuple)):
        function, chosen = given[0], list(given[1])
        for name in chosen:
            if name not in names:
                raise InvalidArgumentError(f"{what} names the unknown parameter {name!r}")
        return Formula(lambda config: function(**{name: config[name] for name in chosen}), what, names, is_condition=True)
    if isinstance(given, str):
        return Formula(given, what, names, is_condition=True)
    if not callable(given) or hasattr(given, "preProcess"):
        raise InvalidArgumentError(f"{what} is {a_type(given)}; give a string, or a function of a dict")
    return Formula(_of_a_dict(given, names), what, names, is_condition=True)


def _of_a_dict(function: Any, names: Mapping[str, Any]) -> Any:
    """Functions take a dict of all parameters, or parameters by their names."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return function
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return lambda config: function(**{name: config[name] for name in names})
    own = [parameter.name for parameter in parameters if parameter.default is parameter.empty]
    if own and all(name in names for name in own):
        return lambda config: function(**{name: config[name] for name in own})
    return function
