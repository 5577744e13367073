"""The frames between daemon and worker (proto/tunefarm/worker/v1) as far as a Python worker reads or writes them, and
the enumerators in them. tests/python compares every line with the definitions."""

from __future__ import annotations

from typing import Any, Dict

from .wire import Field, Table

VALUE: Table = {
    1: Field("int_value", "int"),
    2: Field("double_value", "double"),
    3: Field("bool_value", "bool"),
    4: Field("string_value", "string"),
}
CONFIG: Table = {1: Field("values", VALUE, "map")}
PROBLEM: Table = {1: Field("dims", VALUE, "map")}
DEVICE_CLASS: Table = {
    2: Field("kind", "int"),
    3: Field("display_name", "string"),
    4: Field("compute_capability", "int"),
    5: Field("sm_count", "int"),
    6: Field("registers_per_sm", "int"),
    8: Field("shared_bytes_per_sm", "int"),
    10: Field("shared_bytes_per_block_optin", "int"),
    14: Field("warp_size", "int"),
    16: Field("l2_bytes", "int"),
    18: Field("memory_gib", "int"),
}
SOURCE_FILE: Table = {1: Field("path", "string"), 2: Field("content", "bytes")}
PYTHON_MODULE: Table = {1: Field("module", "string"), 2: Field("device", "int")}
KERNEL: Table = {
    2: Field("display_name", "string"),
    6: Field("sources", SOURCE_FILE, "list"),
    25: Field("python", PYTHON_MODULE),
}
TOLERANCE: Table = {
    1: Field("atol", "double"),
    2: Field("rtol", "double"),
    3: Field("max_mismatch_fraction", "double"),
    4: Field("catastrophic_bound", "double"),
    5: Field("row_norm_bound", "double"),
    6: Field("row_length", "string"),
}
POLICY: Table = {
    2: Field("warmup_launches", "int"),
    3: Field("min_samples", "int"),
    4: Field("max_samples", "int"),
    5: Field("target_relative_half_width", "double"),
    6: Field("time_budget_ms", "int"),
    7: Field("warm_cache", "bool"),
    10: Field("first_look_samples", "int"),
    11: Field("no_early_stop", "bool"),
    18: Field("noisy_relative_half_width", "double"),
}
MEASUREMENT: Table = {
    1: Field("median_ns", "double"),
    2: Field("ci_low_ns", "double"),
    3: Field("ci_high_ns", "double"),
    4: Field("min_ns", "double"),
    5: Field("max_ns", "double"),
    6: Field("mean_ns", "double"),
    7: Field("stdev_ns", "double"),
    8: Field("samples", "int"),
    9: Field("launches_per_sample", "int"),
    10: Field("converged", "bool"),
    11: Field("stop_reason", "int"),
    12: Field("method", "int"),
    13: Field("cold_cache", "bool"),
    17: Field("sample_ns", "float", "list"),
    22: Field("input_copies", "int"),
    23: Field("device_busy_ms", "double"),
}
MISMATCH: Table = {
    1: Field("buffer", "string"),
    2: Field("index", "uint"),
    3: Field("actual", "double"),
    4: Field("expected", "double"),
}
VERIFICATION: Table = {
    1: Field("elements", "uint"),
    2: Field("mismatches", "uint"),
    3: Field("max_absolute_error", "double"),
    4: Field("max_relative_error", "double"),
    5: Field("first_mismatches", MISMATCH, "list"),
}
HELLO: Table = {
    1: Field("version", "uint"),
    2: Field("role", "string"),
    3: Field("backend", "string"),
    4: Field("toolchain", "string"),
    5: Field("sandbox_level", "string"),
    6: Field("pid", "int"),
}
PREPARE: Table = {
    2: Field("problem", PROBLEM),
    3: Field("device_class", DEVICE_CLASS),
    11: Field("tolerance", TOLERANCE),
}
PREPARED: Table = {1: Field("ok", "bool"), 2: Field("outcome", "int"), 3: Field("message", "string")}
EVALUATE: Table = {
    1: Field("evaluation_id", "uint"),
    2: Field("config", CONFIG),
    3: Field("has_artifact", "bool"),
    5: Field("policy", POLICY),
    6: Field("verify_only", "bool"),
    7: Field("keep_samples", "bool"),
    8: Field("input_seed", "uint"),
    10: Field("race_limit_ns", "double"),
    11: Field("second_input_seed", "uint"),
    14: Field("derived", VALUE, "map"),
}
PHASE_BEGAN: Table = {1: Field("evaluation_id", "uint"), 2: Field("phase", "int")}
RESULT: Table = {
    1: Field("evaluation_id", "uint"),
    2: Field("outcome", "int"),
    3: Field("phase", "int"),
    4: Field("message", "string"),
    5: Field("log", "string"),
    6: Field("has_artifact", "bool"),
    9: Field("measurement", MEASUREMENT),
    10: Field("verification", VERIFICATION),
    11: Field("compile_ms", "double"),
    12: Field("load_ms", "double"),
    13: Field("verify_ms", "double"),
    14: Field("measure_ms", "double"),
    15: Field("worker_is_damaged", "bool"),
    16: Field("device_busy_ms", "double"),
}
LOG: Table = {1: Field("text", "string")}
PROBE_REPORT: Table = {2: Field("notes", "string", "list")}
FRAME: Table = {
    1: Field("hello", HELLO),
    2: Field("prepared", PREPARED),
    3: Field("phase_began", PHASE_BEGAN),
    4: Field("result", RESULT),
    5: Field("log", LOG),
    6: Field("probe_report", PROBE_REPORT),
    16: Field("prepare", PREPARE),
    17: Field("evaluate", EVALUATE),
    18: Field("shutdown", {}),
    21: Field("warm_start", {}),
}
# By the name of the message in the definitions.
TABLES: Dict[str, Table] = {
    "tunefarm.v1.Value": VALUE,
    "tunefarm.v1.Config": CONFIG,
    "tunefarm.v1.Problem": PROBLEM,
    "tunefarm.v1.DeviceClass": DEVICE_CLASS,
    "tunefarm.v1.SourceFile": SOURCE_FILE,
    "tunefarm.v1.PythonModule": PYTHON_MODULE,
    "tunefarm.v1.Kernel": KERNEL,
    "tunefarm.v1.Tolerance": TOLERANCE,
    "tunefarm.v1.MeasurementPolicy": POLICY,
    "tunefarm.v1.Measurement": MEASUREMENT,
    "tunefarm.v1.Mismatch": MISMATCH,
    "tunefarm.v1.Verification": VERIFICATION,
    "tunefarm.worker.v1.Hello": HELLO,
    "tunefarm.worker.v1.Prepare": PREPARE,
    "tunefarm.worker.v1.Prepared": PREPARED,
    "tunefarm.worker.v1.Evaluate": EVALUATE,
    "tunefarm.worker.v1.PhaseBegan": PHASE_BEGAN,
    "tunefarm.worker.v1.Result": RESULT,
    "tunefarm.worker.v1.Log": LOG,
    "tunefarm.worker.v1.ProbeReport": PROBE_REPORT,
    "tunefarm.worker.v1.Frame": FRAME,
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
# server/exec/frame_limits.h
PROTOCOL_VERSION = 1
FRAME_BYTES_MAX = 64 << 10
FRAME_FDS_MAX = 4
ARTIFACT_BYTES_MAX = 64 << 20
KERNEL_BYTES_MAX = 16 << 20
MESSAGE_BYTES_MAX = 4 << 10
LOG_BYTES_MAX = 32 << 10


def plain_value(value: Dict[str, Any]) -> Any:
    """A Value as int, float, bool or str."""
    for kind in ("int_value", "double_value", "bool_value", "string_value"):
        if kind in value:
            return value[kind]
    raise ValueError("a value of no kind")
