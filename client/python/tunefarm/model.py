"""What the daemon tells, as plain immutable values. Nothing here talks to anybody, and nothing needs gRPC.

Times are nanoseconds of one launch sequence where a name ends in `_ns`, milliseconds where it ends in `_ms`; moments
(`..._at_ms`) are milliseconds since 1970 UTC, 0 where something has not happened yet. Values of dims and parameters are
int, float, bool or str. Mappings are ordered by name and must not be changed.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Dict, Mapping, Optional, Tuple, Union

from tunefarm._display import angle, config_text, count_text, duration_text, list_html, record_html, table_html

Value = Union[bool, int, float, str]


class _Named(enum.IntEnum):
    """An enum with the numbers of the wire. A number that this version does not know is UNSPECIFIED."""

    @classmethod
    def _missing_(cls, value: object) -> "_Named":
        return cls["UNSPECIFIED"]

    def __str__(self) -> str:
        return self.name


class Match(_Named):
    """How well an answer fits the question, best first."""

    UNSPECIFIED = 0
    EXACT = 1  # same program, problem and device class, current toolkit
    STALE = 2  # the same with another driver or toolkit, or with headers that have changed since
    STALE_SOURCE = 3  # the same name, problem and class, from an older program
    NEAREST_SHAPE = 4  # another shape of the same class
    SAME_ARCH = 5  # another class of the same compute capability
    DEFAULT = 6  # the definition's default config
    NOT_FOUND = 7  # nothing can be said


class Outcome(_Named):
    """What a config did."""

    UNSPECIFIED = 0
    OK = 1
    PRUNED = 2
    INFEASIBLE_LAUNCH = 3
    COMPILE_ERROR = 4
    COMPILE_TIMEOUT = 5
    COMPILE_CRASH = 6
    LOAD_ERROR = 7
    OUT_OF_MEMORY = 8
    RUN_TIMEOUT = 9
    RUN_CRASH = 10
    OUT_OF_BOUNDS = 11
    WRONG_RESULT = 12
    SANDBOX_VIOLATION = 13
    NOISY = 14
    POISONED = 15
    LOST = 16


class TrialPurpose(_Named):
    """Why a trial was run."""

    UNSPECIFIED = 0
    SEARCH = 1
    BASELINE = 2
    FINALIST = 3


class JobState(_Named):
    """Life of a job."""

    UNSPECIFIED = 0
    QUEUED = 1
    RUNNING = 2
    PAUSED = 3
    CANCELLING = 4
    SUCCEEDED = 5
    FAILED = 6
    CANCELLED = 7

    @property
    def is_ended(self) -> bool:
        return self in (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED)


class StudyState(_Named):
    """Life of a study."""

    UNSPECIFIED = 0
    SEARCHING = 1
    FINALS = 2
    ENDED = 3


class DeviceKind(_Named):
    """Kinds of device."""

    UNSPECIFIED = 0
    CUDA = 1
    HOST = 2


class DeviceState(_Named):
    """Whether a device takes work."""

    UNSPECIFIED = 0
    READY = 1
    QUARANTINED = 2


class Language(_Named):
    """What a kernel is written in."""

    UNSPECIFIED = 0
    CUDA = 1
    HOST_CXX = 2
    PYTHON = 3
    TRITON = 4


@dataclass(frozen=True)
class Parameter:
    """One tunable of a kernel with all of its values, the default among them."""

    name: str
    values: Tuple[Value, ...]
    default: Value
    description: str

    def __repr__(self) -> str:
        return angle("Parameter", self.name, f"{count_text(len(self.values), 'value')},", f"default {self.default}")


@dataclass(frozen=True)
class Dim:
    """One dim of a kernel's problems. `default` None: a problem must name it."""

    name: str
    default: Optional[Value]
    description: str

    def __repr__(self) -> str:
        return angle("Dim", self.name, "" if self.default is None else f"default {self.default}")


@dataclass(frozen=True)
class Kernel:
    """A stored kernel definition, without its sources. `name` ("kernels/{id}") names this very definition,
    `display_name` the newest of that name."""

    name: str
    display_name: str
    description: str
    program_digest: str
    language: Language
    dims: Tuple[Dim, ...]
    parameters: Tuple[Parameter, ...]

    def __repr__(self) -> str:
        return angle("Kernel", self.display_name, self.language, count_text(len(self.parameters), "parameter"), self.name[:20])

    def _repr_html_(self) -> str:
        rows = [(parameter.name, " ".join(map(str, parameter.values)), parameter.default, parameter.description)
                for parameter in self.parameters]
        return table_html(("parameter", "values", "default", "description"), rows, repr(self))

    def _summary(self) -> Dict[str, object]:
        return {"kernel": self.display_name, "language": self.language, "parameters": len(self.parameters),
                "dims": " ".join(dim.name for dim in self.dims), "description": self.description, "name": self.name}


@dataclass(frozen=True)
class Energy:
    """What one launch sequence costs by the device's energy counter, with its 95 % interval; of finalists alone.
    `missing_because`: why there is no figure, which is then 0."""

    millijoules: float
    ci_low_millijoules: float
    ci_high_millijoules: float
    batches: int
    batch_seconds: float
    power_watts: float
    idle_power_watts: float
    missing_because: str

    def __repr__(self) -> str:
        if self.missing_because:
            return angle("Energy", "none:", self.missing_because)
        return angle("Energy", f"{self.millijoules:.4g} mJ",
                     f"({self.ci_low_millijoules:.4g} to {self.ci_high_millijoules:.4g}, {self.power_watts:.0f} W)")


@dataclass(frozen=True)
class Measurement:
    """How long a config takes: the median and its 95 % interval, and how that was found out.

    `sample_ns` and `yardstick_ns` have values where a single trial of a final was asked for (Client.trial). yardstick_ns[i] is the
    launch of another config, the same for all configs of the final, that was the direct neighbour of sample_ns[i]; it is empty
    where the config was measured alone."""

    median_ns: float
    ci_low_ns: float
    ci_high_ns: float
    min_ns: float
    max_ns: float
    mean_ns: float
    stdev_ns: float
    samples: int
    converged: bool
    stop_reason: str
    method: str
    cold_cache: bool
    clock_mhz: int
    throttled: bool
    contended: bool
    sample_ns: Tuple[float, ...] = field(repr=False, default=())
    yardstick_ns: Tuple[float, ...] = field(repr=False, default=())
    energy: Optional[Energy] = None

    def __repr__(self) -> str:
        return angle("Measurement", duration_text(self.median_ns),
                     f"({duration_text(self.ci_low_ns)} to {duration_text(self.ci_high_ns)}, {count_text(self.samples, 'sample')})")


@dataclass(frozen=True)
class ResourceUse:
    """What compiler and loader said of a binary."""

    registers: int
    spill_bytes: int
    static_shared_bytes: int
    dynamic_shared_bytes: int
    local_bytes: int
    blocks_per_sm: int
    binary_bytes: int

    def __repr__(self) -> str:
        return angle("ResourceUse", f"{count_text(self.registers, 'register')},", f"{count_text(self.spill_bytes, 'byte')} spilled,",
                     f"{count_text(self.static_shared_bytes + self.dynamic_shared_bytes, 'byte')} shared")


@dataclass(frozen=True)
class Trial:
    """One attempt to evaluate one config. `log` is filled by Client.trial only."""

    name: str
    ordinal: int
    config: Mapping[str, Value]
    purpose: TrialPurpose
    outcome: Outcome
    message: str
    log: str
    measurement: Optional[Measurement]
    resources: Optional[ResourceUse]
    compile_ms: float
    run_ms: float
    cached_binary: bool
    reused: bool
    stopped_early: bool
    device_uuid: str
    ended_at_ms: int
    problem_key: str

    @property
    def study(self) -> str:
        """"jobs/{job}/studies/{study}"."""
        return self.name.split("/trials/")[0]

    def __repr__(self) -> str:
        return angle("Trial", self.ordinal, self.outcome, self._time_text(), config_text(self.config), self.message)

    def _repr_html_(self) -> str:
        return record_html("trial", {"name": self.name, **self._summary()}, self.config)

    def _summary(self) -> Dict[str, object]:
        return {"problem": self.problem_key, "ordinal": self.ordinal, "purpose": self.purpose, "outcome": self.outcome,
                "time": self._time_text(), "config": config_text(self.config), "message": self.message}

    def _time_text(self) -> str:
        return duration_text(self.measurement.median_ns) if self.measurement else ""


@dataclass(frozen=True)
class Problem:
    """What a kernel is tuned for. `key` is the canonical text that results are filed under."""

    dims: Mapping[str, Value]
    pinned: Mapping[str, Value]
    input_seeds: Tuple[int, ...]
    key: str

    def __repr__(self) -> str:
        return angle("Problem", self._text())

    def _text(self) -> str:
        return self.key or config_text({**self.dims, **self.pinned})  # no key: a job's, as it was submitted


@dataclass(frozen=True)
class BestConfig:
    """A winner, as the interleaved final measured it."""

    kernel_name: str
    kernel_id: str
    program_digest: str
    problem: Problem
    device_class_id: str
    device_class_name: str
    config: Mapping[str, Value]
    measurement: Optional[Measurement]
    baseline_ns: float
    baseline_label: str
    job: str
    ordinal: int
    driver_version: str
    toolkit_version: str
    revision: int
    promoted_at_ms: int
    flops: float
    bytes: float
    floor_ns: float

    @property
    def time_ns(self) -> float:
        """The median; 0 where nothing was measured (the default config)."""
        return self.measurement.median_ns if self.measurement else 0.0

    @property
    def speedup(self) -> float:
        """How many times as fast as the baseline; 0 where there was none."""
        return self.baseline_ns / self.time_ns if self.time_ns > 0 else 0.0

    def __repr__(self) -> str:
        return angle("BestConfig", self.kernel_name, self.problem.key, self._time_text(), config_text(self.config))

    def _repr_html_(self) -> str:
        return record_html("best config", self._summary(), self.config)

    def _summary(self) -> Dict[str, object]:
        return {"kernel": self.kernel_name, "problem": self.problem.key, "device": self.device_class_name,
                "time": self._time_text(), "speedup": f"{self.speedup:.2f}" if self.speedup > 0 else "",
                "config": config_text(self.config)}

    def _time_text(self) -> str:
        return duration_text(self.time_ns) if self.time_ns > 0 else "not measured"


@dataclass(frozen=True)
class Answer:
    """What a look-up found. False in a condition when it found nothing."""

    match: Match
    best: Optional[BestConfig]
    distance: float
    catalog_revision: int
    age_ms: int
    # The stored definition by which the question was read ("kernels/{id}"), and its program_digest. Another one than was
    # asked for: that was never submitted, and the newest of its name took its place.
    kernel: str = ""
    program_digest: str = ""
    # For a question by name: how many other definitions of the name have a best for the problem. More than 0: the name
    # is ambiguous, and the definition that was submitted last answered.
    other_programs: int = 0
    # Of a distributed run (Client.join_run): its id, and since when the answer is fixed for it, in milliseconds since 1970
    # UTC; 0: it is a snapshot's.
    run: str = ""
    agreed_at_ms: int = 0

    @property
    def config(self) -> Mapping[str, Value]:
        """The config; empty when nothing was found."""
        return self.best.config if self.best else {}

    @property
    def time_ns(self) -> float:
        return self.best.time_ns if self.best else 0.0

    def __bool__(self) -> bool:
        return self.best is not None

    def __repr__(self) -> str:
        time = duration_text(self.time_ns) if self.time_ns > 0 else ""
        return angle("Answer", self.match, time, config_text(self.config))

    def _repr_html_(self) -> str:
        return self.best._repr_html_() + f"<p>{self.match.name}</p>" if self.best else f"<p>{self.match.name}</p>"


@dataclass(frozen=True)
class BatchAnswer:
    """Answers to many questions, in the order of the columns. `bests` are the distinct ones."""

    bests: Tuple[BestConfig, ...]
    best_indexes: Tuple[int, ...]  # into bests; -1: nothing was found
    matches: Tuple[Match, ...]
    distances: Tuple[float, ...]
    catalog_revision: int

    def __repr__(self) -> str:
        return angle("BatchAnswer", count_text(len(self), "problem"), count_text(len(self.bests), "best"))

    def __len__(self) -> int:
        return len(self.best_indexes)

    def __getitem__(self, index: int) -> Optional[BestConfig]:
        """The best for one of the problems; None when nothing was found."""
        at = self.best_indexes[index]
        return self.bests[at] if at >= 0 else None


@dataclass(frozen=True)
class BatchConfigs:
    """Answers to many questions by configs and times alone, in the order of the columns. `configs` are the distinct
    ones."""

    configs: Tuple[Mapping[str, Value], ...]
    config_indexes: Tuple[int, ...]  # into configs; -1: nothing was found
    medians_ns: Tuple[float, ...]  # of the problem that the answer was tuned for; 0: nothing was measured
    matches: Tuple[Match, ...]
    distances: Tuple[float, ...]
    catalog_revision: int

    def __repr__(self) -> str:
        return angle("BatchConfigs", count_text(len(self), "problem"), count_text(len(self.configs), "config"))

    def __len__(self) -> int:
        return len(self.config_indexes)

    def __getitem__(self, index: int) -> Optional[Mapping[str, Value]]:
        """The config for one of the problems; None when nothing was found."""
        at = self.config_indexes[index]
        return self.configs[at] if at >= 0 else None


@dataclass(frozen=True)
class Progress:
    """Counts of a job or study."""

    total: int
    total_is_estimate: bool
    done: int
    outcomes: Mapping[Outcome, int]
    finals_done: int
    finals_total: int
    eta_ms: int

    def __repr__(self) -> str:
        return angle("Progress", self._text())

    def _text(self) -> str:
        return f"{self.done} of {'about ' if self.total_is_estimate else ''}{self.total}"


@dataclass(frozen=True)
class Study:
    """One problem on one device class."""

    name: str
    problem: Problem
    device_class_id: str
    device_class_name: str
    state: StudyState
    space_size: int
    space_is_approximate: bool
    progress: Progress
    incumbent: Optional[Trial]
    baseline: Optional[Trial]
    best: Optional[BestConfig]
    search_ended_because: str

    def __repr__(self) -> str:
        return angle("Study", self.problem.key, "on", self.device_class_name, self.state, _best_text(self.best))

    def _repr_html_(self) -> str:
        return record_html("study", self._summary())

    def _summary(self) -> Dict[str, object]:
        best = self.best._summary() if self.best else {}
        return {"problem": self.problem.key, "device": self.device_class_name, "state": self.state,
                "done": self.progress._text(), "best": best.get("time", ""), "speedup": best.get("speedup", ""),
                "config": best.get("config", "")}


@dataclass(frozen=True)
class Job:
    """A request to tune one kernel, as it stood when it was asked for. In lists, `studies` is empty."""

    name: str
    uid: str
    kernel: str
    kernel_name: str
    device_selector: str
    state: JobState
    state_reason: str
    error: str
    label: str
    priority: int
    progress: Progress
    studies: Tuple[Study, ...]
    problems: Tuple[Problem, ...]
    created_at_ms: int
    started_at_ms: int
    ended_at_ms: int
    device_busy_ms: float

    @property
    def number(self) -> int:
        """17 for "jobs/17"."""
        return int(self.name.split("/")[1])

    @property
    def best(self) -> Optional[BestConfig]:
        """The winner of the first study; None while there is none."""
        return self.studies[0].best if self.studies else None

    def __repr__(self) -> str:
        return angle("Job", self.number, self.kernel_name, self.state, _best_text(self.best), self.error)

    def _repr_html_(self) -> str:
        return list_html(self.studies, repr(self)) if self.studies else record_html("job", self._summary())

    def _summary(self) -> Dict[str, object]:
        problem = self.problems[0]._text() if self.problems else ""
        if len(self.problems) > 1:
            problem += f" ... and {len(self.problems) - 1} more"
        return {"job": self.number, "kernel": self.kernel_name, "problem": problem, "state": self.state,
                "label": self.label, "done": self.progress._text(), "error": self.error}


@dataclass(frozen=True)
class JobEvent:
    """One step in a job's life. Of `job` (a whole snapshot: the first event, when the job's state changes, and after a
    gap), `trial`, `study` and `message` one is set. `event_id` is where a later watch may resume."""

    event_id: int
    at_ms: int
    job: Optional[Job]
    trial: Optional[Trial]
    study: Optional[Study]
    message: Optional[str]
    progress: Progress
    study_name: str

    def __repr__(self) -> str:
        return angle("JobEvent", self.event_id, self.message or self.trial or self.study or self.job or "")


@dataclass(frozen=True)
class DeviceClass:
    """What results are filed under. Sizes in bytes; 0: not known, or not there on a CPU."""

    id: str
    kind: DeviceKind
    display_name: str
    compute_capability: int
    sm_count: int
    registers_per_sm: int
    registers_per_block: int
    shared_bytes_per_sm: int
    shared_bytes_per_block: int
    shared_bytes_per_block_optin: int
    threads_per_sm: int
    threads_per_block: int
    warp_size: int
    blocks_per_sm: int
    l2_bytes: int
    memory_gib: int
    mig_profile: str
    compiler: str

    def __repr__(self) -> str:
        return angle("DeviceClass", self.display_name, self.id)


@dataclass(frozen=True)
class Device:
    """One physical device."""

    name: str
    uuid: str
    device_class: DeviceClass
    ordinal: int
    memory_bytes: int
    memory_free_bytes: int
    driver_version: str
    toolkit_version: str
    clock_mhz: int
    peak_bytes_per_second: float
    state: DeviceState
    state_reason: str

    def __repr__(self) -> str:
        return angle("Device", self.device_class.display_name, self.uuid, self.state, self.state_reason)

    def _repr_html_(self) -> str:
        return record_html("device", self._summary())

    def _summary(self) -> Dict[str, object]:
        memory = f"{self.memory_free_bytes / 2**30:.1f} of {self.memory_bytes / 2**30:.1f} GiB free"
        return {"device": self.device_class.display_name, "name": self.name, "uuid": self.uuid, "state": self.state,
                "memory": memory, "driver": self.driver_version, "toolkit": self.toolkit_version,
                "reason": self.state_reason}


@dataclass(frozen=True)
class ServerInfo:
    """The daemon itself."""

    version: str
    revision: str
    pid: int
    started_at_ms: int
    data_directory: str
    addresses: Tuple[str, ...]
    active_jobs: int
    stored_trials: int
    sandbox_level: str

    def __repr__(self) -> str:
        return angle("ServerInfo", self.version, "pid", self.pid, self.data_directory)


def _best_text(best: Optional[BestConfig]) -> str:
    return f"best {duration_text(best.time_ns)}" if best and best.time_ns > 0 else ""
