"""The messages between daemon and worker (proto/tunefarm/worker/v1) as dicts, and how they are written: protobuf's
JSON mapping with the field names of the definitions, and enumerators as numbers. A field with its default value may be
absent. tests/python compares the names and numbers here with the definitions."""

from __future__ import annotations

import base64
import json
import math
from typing import Any, Dict

Message = Dict[str, Any]

# Fields whose JSON is not what Python computes with: a 64-bit integer is a string; a double may be written as a whole
# number, or as a string that float() takes; bytes are base64. Of the messages that the worker reads.
READ_AS = {
    "atol": float,
    "catastrophic_bound": float,
    "content": base64.b64decode,
    "double_value": float,
    "evaluation_id": int,
    "expected_outputs_bytes_max": int,
    "grid_max": int,
    "input_seed": int,
    "int_value": int,
    "l1_bytes": int,
    "l2_bytes": int,
    "max_mismatch_fraction": float,
    "min_clock_share": float,
    "noisy_relative_half_width": float,
    "race_limit_ns": float,
    "row_norm_bound": float,
    "rtol": float,
    "second_input_seed": int,
    "target_relative_half_width": float,
}

# tunefarm.v1.Outcome
OK = 1
INFEASIBLE_LAUNCH = 3
COMPILE_ERROR = 4
LOAD_ERROR = 7
OUT_OF_MEMORY = 8
RUN_CRASH = 10
WRONG_RESULT = 12
NOISY = 14
LOST = 16
# tunefarm.v1.Phase
PHASE_COMPILE, PHASE_LOAD, PHASE_FIRST_LAUNCH, PHASE_VERIFY, PHASE_MEASURE = 1, 2, 3, 4, 5
# tunefarm.v1.StopReason
STOP_CONVERGED, STOP_TIME_BUDGET, STOP_SAMPLE_BUDGET, STOP_LOSING = 1, 2, 3, 4
# tunefarm.v1.TimingMethod
METHOD_CUDA_EVENTS, METHOD_STEADY_CLOCK = 1, 2
# tunefarm.v1.DeviceKind
DEVICE_CUDA, DEVICE_HOST = 1, 2
# tunefarm.v1.Language, Bind and ValueType
LANGUAGE_TRITON, BIND_COMPILE, VALUE_STRING = 4, 1, 4
# server/exec/frame_limits.h
PROTOCOL_VERSION = 1
FRAME_BYTES_MAX = 128 << 10
FRAME_FDS_MAX = 4
ARTIFACT_BYTES_MAX = 64 << 20
KERNEL_BYTES_MAX = 16 << 20
MESSAGE_BYTES_MAX = 4 << 10
LOG_BYTES_MAX = 32 << 10


def encode(message: Message) -> bytes:
    text = json.dumps(_writable(message), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")


def decode(data: bytes) -> Message:
    """Raises ValueError for bytes that are not a message."""
    try:
        message = json.loads(data.decode("utf-8"), object_hook=_read_fields, parse_int=_parse_int)
    except (RecursionError, TypeError) as error:
        raise ValueError(str(error)) from error
    if not isinstance(message, dict):
        raise ValueError("the message is not an object")
    return message


def _writable(value: Any) -> Any:
    """Replaces NaN and infinities, which JSON has no numbers for, by the strings that protobuf reads."""
    if isinstance(value, dict):
        return {name: _writable(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_writable(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _read_fields(fields: Dict[str, Any]) -> Dict[str, Any]:
    for name, item in fields.items():
        if name in READ_AS and not isinstance(item, dict):  # A dict is the value of a map's key that has such a name.
            read = READ_AS[name]
            fields[name] = [read(one) for one in item] if isinstance(item, list) else read(item)
    return fields


def _parse_int(digits: str) -> Any:
    return -0.0 if digits == "-0" else int(digits)


def plain_value(value: Dict[str, Any]) -> Any:
    """Returns a Value as int, float, bool or str."""
    for kind in ("int_value", "double_value", "bool_value", "string_value"):
        if kind in value:
            return value[kind]
    raise ValueError("a value has no type")
