"""Calls over a channel: deadlines, retries where they are safe, errors as exceptions. Private."""

from __future__ import annotations

import time
from typing import Any, Callable, Optional

import grpc

from tunefarm.errors import BY_CODE, InternalError, InvalidArgumentError, TunefarmError
from tunefarm.v1 import error_pb2

MESSAGE_BYTES_MAX = 16 << 20
_DETAILS_KEY = "grpc-status-details-bin"
_FIRST_PAUSE_SECONDS = 0.05
_PAUSE_SECONDS_MAX = 1.0

OPTIONS = [
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    # A daemon that is back is found at once; gRPC's own pauses grow to minutes.
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 500),
]


def error_from(error: grpc.RpcError) -> TunefarmError:
    code = error.code().name
    detail = error_pb2.ErrorDetail()
    for entry in error.trailing_metadata() or ():
        if entry[0] == _DETAILS_KEY:
            try:
                detail.ParseFromString(entry[1])
            except Exception:  # Not ours, then: the status says enough.
                detail.Clear()
    kind = BY_CODE.get(code, InternalError)
    return kind(error.details() or code, code=code, reason=detail.reason, metadata=detail.metadata)


def checked_timeout(timeout: float) -> float:
    if not timeout > 0:
        raise InvalidArgumentError(f"timeout: {timeout} is not a number of seconds above 0")
    return float(timeout)


class Deadline:
    """A moment after which a call must not go on. None: never."""

    def __init__(self, timeout: Optional[float]) -> None:
        self._end = None if timeout is None else time.monotonic() + checked_timeout(timeout)

    def left(self, at_most: float = float("inf")) -> float:
        """Seconds, at least 0."""
        left = float("inf") if self._end is None else self._end - time.monotonic()
        return max(0.0, min(left, at_most))

    @property
    def is_over(self) -> bool:
        return self._end is not None and time.monotonic() >= self._end


class Pauses:
    """Growing pauses between attempts."""

    def __init__(self) -> None:
        self._next = _FIRST_PAUSE_SECONDS

    def wait(self, at_most: float) -> None:
        time.sleep(max(0.0, min(self._next, at_most)))
        self._next = min(2 * self._next, _PAUSE_SECONDS_MAX)


def call(method: Callable[..., Any], request: Any, timeout: float, retry_seconds: float) -> Any:
    """One answer. Attempts that ended in UNAVAILABLE are repeated for `retry_seconds`, never past the deadline; 0 for
    what must not be sent twice."""
    deadline = Deadline(timeout)
    give_up = Deadline(retry_seconds) if retry_seconds > 0 else None
    pauses = Pauses()
    while True:
        try:
            return method(request, timeout=max(deadline.left(), 0.001))
        except grpc.RpcError as error:
            may_repeat = error.code() == grpc.StatusCode.UNAVAILABLE and give_up is not None
            if not may_repeat or give_up is None or give_up.is_over or deadline.is_over:
                raise error_from(error) from None
        pauses.wait(deadline.left())
