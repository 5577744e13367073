"""Between the messages of the wire and the values of model.py. The only module that names both. Private."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Dict, Iterable, Mapping, Optional, Tuple, Type, TypeVar

from tunefarm import model
from tunefarm.errors import InvalidArgumentError
from tunefarm.v1 import kernel_pb2, measurement_pb2, value_pb2

T = TypeVar("T")


def value_from(message: Any) -> model.Value:
    kind = message.WhichOneof("kind")
    return getattr(message, kind) if kind else ""


def value_to(value: Any, what: str) -> Any:
    """A message of a plain value, of NumPy's scalars too. InvalidArgumentError names `what`."""
    if hasattr(value, "item") and not isinstance(value, (bool, int, float, str)):
        value = value.item()
    if isinstance(value, bool):
        return value_pb2.Value(bool_value=value)
    if isinstance(value, int):
        if not -(1 << 63) <= value < 1 << 63:
            raise InvalidArgumentError(f"{what}: {value} does not fit into 64 bits")
        return value_pb2.Value(int_value=value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidArgumentError(f"{what}: {value} is not a finite number")
        return value_pb2.Value(double_value=value)
    if isinstance(value, str):
        return value_pb2.Value(string_value=value)
    raise InvalidArgumentError(f"{what}: a value is an int, a float, a bool or a string, not {type(value).__name__}")


def values_from(messages: Mapping[str, Any]) -> Dict[str, model.Value]:
    return {name: value_from(messages[name]) for name in sorted(messages)}


def fill_values(messages: Any, values: Mapping[str, Any], what: str) -> None:
    for name, value in values.items():
        messages[name].CopyFrom(value_to(value, f"{what} {name}"))


def _plain(cls: Type[T], message: Any, **special: Any) -> T:
    """A dataclass whose other fields are called as those of the message."""
    values = {
        field.name: special[field.name] if field.name in special else getattr(message, field.name)
        for field in dataclasses.fields(cls)
    }
    return cls(**values)


def _word(enum_type: Any, number: int, prefix: str) -> str:
    """ "time_budget" of STOP_REASON_TIME_BUDGET."""
    known = enum_type.DESCRIPTOR.values_by_number.get(number)
    return known.name[len(prefix):].lower() if known else ""


def measurement(message: Any) -> model.Measurement:
    return _plain(
        model.Measurement, message,
        stop_reason=_word(measurement_pb2.StopReason, message.stop_reason, "STOP_REASON_"),
        method=_word(measurement_pb2.TimingMethod, message.method, "TIMING_METHOD_"),
        sample_ns=tuple(message.sample_ns),
        yardstick_ns=tuple(message.yardstick_ns),
        energy=_plain(model.Energy, message.energy) if message.HasField("energy") else None)


def _measurement_of(message: Any) -> Optional[model.Measurement]:
    return measurement(message.measurement) if message.HasField("measurement") else None


def trial(message: Any) -> model.Trial:
    return _plain(
        model.Trial, message,
        config=values_from(message.config.values),
        purpose=model.TrialPurpose(message.purpose),
        outcome=model.Outcome(message.outcome),
        measurement=_measurement_of(message),
        resources=_plain(model.ResourceUse, message.resources) if message.HasField("resources") else None)


def problem(message: Any) -> model.Problem:
    return model.Problem(values_from(message.dims), values_from(message.pinned), tuple(message.input_seeds), message.key)


def best_config(message: Any) -> model.BestConfig:
    return _plain(
        model.BestConfig, message,
        problem=problem(message.problem),
        config=values_from(message.config.values),
        measurement=_measurement_of(message))


def answer(message: Any, run: str = "", agreed_at_ms: int = 0) -> model.Answer:
    match = model.Match(message.match)
    found = match not in (model.Match.NOT_FOUND, model.Match.UNSPECIFIED)
    return model.Answer(match, best_config(message.best) if found else None, message.distance,
                        message.catalog_revision, message.age_ms, message.kernel, message.program_digest,
                        message.other_programs, run, agreed_at_ms)


def progress(message: Any) -> model.Progress:
    return _plain(
        model.Progress, message,
        outcomes={model.Outcome(entry.outcome): entry.count for entry in message.outcomes})


def study(message: Any) -> model.Study:
    return _plain(
        model.Study, message,
        problem=problem(message.problem),
        state=model.StudyState(message.state),
        space_size=message.space.valid,
        space_is_approximate=message.space.approximate,
        progress=progress(message.progress),
        incumbent=trial(message.incumbent) if message.HasField("incumbent") else None,
        baseline=trial(message.baseline) if message.HasField("baseline") else None,
        best=best_config(message.best) if message.HasField("best") else None)


def job(message: Any) -> model.Job:
    return _plain(
        model.Job, message,
        state=model.JobState(message.state),
        progress=progress(message.progress),
        studies=tuple(study(item) for item in message.studies),
        problems=tuple(problem(item) for item in message.problems))


def job_event(message: Any) -> model.JobEvent:
    kind = message.WhichOneof("kind")
    return model.JobEvent(
        event_id=message.event_id,
        at_ms=message.at_ms,
        job=job(message.job) if kind == "job" else None,
        trial=trial(message.trial_ended) if kind == "trial_ended" else None,
        study=study(message.study_changed) if kind == "study_changed" else None,
        message=message.message if kind == "message" else None,
        progress=progress(message.progress),
        study_name=message.study)


def device(message: Any) -> model.Device:
    device_class = _plain(model.DeviceClass, message.device_class, kind=model.DeviceKind(message.device_class.kind))
    return _plain(model.Device, message, device_class=device_class, state=model.DeviceState(message.state))


def server_info(message: Any) -> model.ServerInfo:
    return _plain(model.ServerInfo, message, addresses=tuple(message.addresses))


def _domain(parameter: Any) -> Tuple[model.Value, ...]:
    kind = parameter.WhichOneof("domain")
    if kind == "values":
        lists: Iterable[Any] = (parameter.values.ints, parameter.values.doubles, parameter.values.bools,
                                parameter.values.strings)
        return tuple(value for values in lists for value in values)
    if kind == "range":
        return tuple(range(parameter.range.first, parameter.range.last + 1, parameter.range.step or 1))
    values = []
    at = parameter.powers_of_two.first
    while 0 < at <= parameter.powers_of_two.last:
        values.append(at)
        at *= 2
    return tuple(values)


def kernel(message: Any) -> model.Kernel:
    dims = tuple(
        model.Dim(dim.name, value_from(dim.default_value) if dim.HasField("default_value") else None, dim.description)
        for dim in message.dims)
    parameters = []
    for parameter in message.parameters:
        values = _domain(parameter)
        default = value_from(parameter.default_value) if parameter.HasField("default_value") else values[0]
        parameters.append(model.Parameter(parameter.name, values, default, parameter.description))
    return _plain(model.Kernel, message, language=model.Language(message.language), dims=dims,
                  parameters=tuple(parameters))


def empty_kernel() -> Any:
    return kernel_pb2.Kernel()
