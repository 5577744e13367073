"""What a caller says of a job, as the message of the wire. Private."""

from __future__ import annotations

import enum
import itertools
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

from tunefarm import _wire, model
from tunefarm.errors import InvalidArgumentError
from tunefarm.v1 import job_pb2, lookup_service_pb2, measurement_pb2, package_service_pb2, problem_pb2

PROBLEMS_MAX = 256
# The daemon takes so many problems at once.
BATCH_MAX = 10_000
# Of fields that callers know by another name.
_ARGUMENTS = {"strategy_name": "strategy", "device_selector": "device", "max_trials_without_gain": "patience"}


def job_name(job: Union[int, str, model.Job]) -> str:
    """17, "17", "jobs/17" and a Job are the same."""
    if isinstance(job, model.Job):
        return job.name
    number = str(job)
    number = number[len("jobs/"):] if number.startswith("jobs/") else number
    if not number.isascii() or not number.isdigit():
        raise InvalidArgumentError(f"'{job}' is not a job; write its number")
    return "jobs/" + number


def message(kind: Any, **fields: Any) -> Any:
    """`kind` of plain values. InvalidArgumentError names the field that does not take its value."""
    made = kind()
    for name, value in fields.items():
        try:
            made.MergeFrom(kind(**{name: value}))
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(f"{_ARGUMENTS.get(name, name)}={value!r}: {error}") from None
    return made


def _is_list(value: Any) -> bool:
    return not isinstance(value, (str, bytes)) and hasattr(value, "__iter__")


def dim_filters(dims: Optional[Mapping[str, Any]]) -> List[Any]:
    """Of each dim a value or a list of values, as they are printed."""
    filters = []
    for name, value in (dims or {}).items():
        values = [_wire.value_from(_wire.value_to(one, f"dim {name}")) for one in (value if _is_list(value) else [value])]
        texts = [str(one).lower() if isinstance(one, bool) else str(one) for one in values]
        filters.append(package_service_pb2.DimFilter(dim=name, values=texts))
    return filters


def problems(dims: Optional[Mapping[str, Any]], listed: Optional[Sequence[Mapping[str, Any]]],
             pinned: Optional[Mapping[str, Any]], input_seeds: Sequence[int]) -> List[Any]:
    """`dims` with lists of values spans a grid; `listed` are whole problems, which take from `dims` what they lack."""
    names = list(dims or {})
    columns = [list(value) if _is_list(value) else [value] for value in (dims or {}).values()]
    count = len(listed) if listed is not None else 1
    for name, column in zip(names, columns):
        if not column:
            raise InvalidArgumentError(f"dims: {name} has no value")
        count *= len(column)
    if not 1 <= count <= PROBLEMS_MAX:
        raise InvalidArgumentError(f"a job has 1 to {PROBLEMS_MAX} problems, not {count}; make several jobs")
    result = []
    for own in listed if listed is not None else [{}]:
        for values in itertools.product(*columns):
            problem = message(problem_pb2.Problem, input_seeds=list(input_seeds))
            _wire.fill_values(problem.dims, {**dict(zip(names, values)), **own}, "dim")
            _wire.fill_values(problem.pinned, pinned or {}, "pinned parameter")
            result.append(problem)
    return result


def policy(preset: str, knobs: Optional[Mapping[str, Any]]) -> Any:
    """`knobs` are the fields of the wire's MeasurementPolicy, enums by their short names ("cuda_graph")."""
    made = measurement_pb2.MeasurementPolicy()
    fields = made.DESCRIPTOR.fields_by_name
    for name, value in {"preset": preset, **(knobs or {})}.items():
        if name not in fields:
            raise InvalidArgumentError(f"measure: there is no '{name}'; knobs are {', '.join(fields)}")
        enum_type = fields[name].enum_type
        if enum_type is not None:
            prefix = enum_type.values[0].name[:-len("UNSPECIFIED")]
            known = enum_type.values_by_name.get(prefix + str(value).upper())
            if known is None or known.number == 0:
                words = ", ".join(item.name[len(prefix):].lower() for item in enum_type.values[1:])
                raise InvalidArgumentError(f"measure: {name}={value}: write one of {words}")
            value = known.number
        try:
            setattr(made, name, value)
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(f"measure: {name}={value!r}: {error}") from None
    return made


def objective(name: str) -> int:
    """0, which is time, for "" and None."""
    values = job_pb2.Objective.DESCRIPTOR.values_by_name
    known = values.get(f"OBJECTIVE_{str(name or 'unspecified').upper()}")
    if known is None:
        raise InvalidArgumentError(f"objective={name!r}: write time, energy or energy_delay")
    return int(known.number)


def strategy(name: str, options: Optional[Mapping[str, Any]], seed: int) -> Any:
    texts = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in (options or {}).items()}
    return message(job_pb2.Strategy, strategy_name=name, seed=seed, options=texts)


def number(value: enum.IntEnum) -> Any:
    """As the generated modules take it."""
    return int(value)


def match(worst_match: Union[str, model.Match]) -> Any:
    if isinstance(worst_match, model.Match):
        return number(worst_match)
    known = {item.name for item in model.Match if item not in (model.Match.UNSPECIFIED, model.Match.NOT_FOUND)}
    if worst_match.upper() not in known:
        raise InvalidArgumentError(f"worst_match: '{worst_match}'; write one of {', '.join(sorted(known))}")
    return number(model.Match[worst_match.upper()])


def _column(dim: str, values: Sequence[Any]) -> Any:
    plain = [value.item() if hasattr(value, "item") else value for value in values]
    if all(isinstance(value, int) and not isinstance(value, bool) for value in plain):
        try:
            return lookup_service_pb2.DimColumn(dim=dim, ints=plain)
        except ValueError:
            large = next(value for value in plain if not -(1 << 63) <= value < 1 << 63)
            raise InvalidArgumentError(f"columns: {dim}: {large} does not fit into 64 bits") from None
    if not all(isinstance(value, str) for value in plain):
        raise InvalidArgumentError(f"columns: {dim}: a column holds ints alone or strings alone")
    indexes: Dict[str, int] = {}
    column = lookup_service_pb2.DimColumn(
        dim=dim, string_indexes=[indexes.setdefault(value, len(indexes)) for value in plain])
    column.strings.extend(indexes)
    return column


def columns(given: Mapping[str, Sequence[Any]], first: int, last: int) -> List[Any]:
    return [_column(dim, values[first:last]) for dim, values in given.items()]
