"""What can go wrong, as exceptions.

Every failed call raises a TunefarmError whose `reason` is the daemon's stable UPPER_SNAKE word ("KERNEL_NOT_FOUND",
"SPACE_EMPTY", ...; empty where the daemon gave none) and whose `code` is the name of the gRPC status (in
`tunefarm.launch`: of the status of tunefarm/launch.h). A config that crashes or computes nonsense is no error: it is a
trial with an Outcome.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping, Optional, Tuple

from tunefarm._visible import visible

if TYPE_CHECKING:
    from tunefarm.model import Job


class TunefarmError(Exception):
    """The base of all. `str(error)` is one sentence for people."""

    def __init__(self, message: str, *, code: str = "", reason: str = "",
                 metadata: Optional[Mapping[str, str]] = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.reason = reason
        self.metadata = dict(metadata or {})

    def __str__(self) -> str:
        message = visible(self.message)
        return f"{message} [{visible(self.reason)}]" if self.reason else message


class InvalidArgumentError(TunefarmError, ValueError):
    """What was asked for makes no sense; the message names the field."""


class NotFoundError(TunefarmError, LookupError):
    """There is no such kernel, job, trial, device or file."""


class FailedPreconditionError(TunefarmError):
    """Not in this state: a job that has ended cannot be cancelled, one that runs cannot be deleted."""


class PermissionDeniedError(TunefarmError):
    """Who calls has not the right to do that, or is not known: see the reason."""


class ResourceExhaustedError(TunefarmError):
    """A limit of the daemon: too many jobs, too little disk, a message that is too large."""


class AbortedError(TunefarmError):
    """The daemon gave the call up; it may be repeated."""


class UnavailableError(TunefarmError, ConnectionError):
    """No daemon can be reached or started."""


class DeadlineExceededError(TunefarmError, TimeoutError):
    """The call's time was over before the answer came. The daemon may or may not have carried it out."""


class InternalError(TunefarmError):
    """A fault of the daemon's or of this library's."""


class JobFailedError(TunefarmError):
    """The machinery could not carry the job on. `job` is its last state."""

    def __init__(self, message: str, job: "Job") -> None:
        super().__init__(message, reason="JOB_FAILED")
        self.job = job

    def __reduce__(self) -> Tuple[Any, ...]:
        return type(self), (self.message, self.job)


class JobCancelledError(TunefarmError):
    """Somebody cancelled the job that was waited for. `job` is its last state."""

    def __init__(self, message: str, job: "Job") -> None:
        super().__init__(message, reason="JOB_CANCELLED")
        self.job = job

    def __reduce__(self) -> Tuple[Any, ...]:
        return type(self), (self.message, self.job)


class LaunchError(TunefarmError):
    """A kernel of a package cannot be launched here and now (`tunefarm.launch`). `code` says why: NO_LIBRARY
    (libtunefarm-launch is not installed), INCOMPATIBLE, NO_DEVICE, STALE or DEVICE_ERROR, which tunefarm/launch.h
    describes."""


# By the names of gRPC's status codes; all others are InternalError.
BY_CODE = {
    "INVALID_ARGUMENT": InvalidArgumentError,
    "OUT_OF_RANGE": InvalidArgumentError,
    "NOT_FOUND": NotFoundError,
    "FAILED_PRECONDITION": FailedPreconditionError,
    "ALREADY_EXISTS": FailedPreconditionError,
    "PERMISSION_DENIED": PermissionDeniedError,
    "UNAUTHENTICATED": PermissionDeniedError,
    "RESOURCE_EXHAUSTED": ResourceExhaustedError,
    "ABORTED": AbortedError,
    "CANCELLED": AbortedError,
    "UNAVAILABLE": UnavailableError,
    "DEADLINE_EXCEEDED": DeadlineExceededError,
}
