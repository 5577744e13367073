"""The client of CacheService, for programs that continue without the daemon. Private."""

from __future__ import annotations

import itertools
import os
import threading
import time
import warnings
from typing import Any, Dict, Iterator, List, Optional, Sequence, Set

from tunefarm import _calls, _connection
from tunefarm.errors import DeadlineExceededError, TunefarmError, UnavailableError
from tunefarm.v1 import cache_service_pb2, cache_service_pb2_grpc

DATA_BYTES_MAX = 8 << 20
_KEY_BYTES_MAX = 512
_KEYS_MAX = 100  # of one call
_PAGE_SIZE_MAX = 1000
_CALL_SECONDS = 3.0
_REST_SECONDS = 60.0  # the pause after a call that failed
# gRPC's option for the minimum time of an attempt to connect: within its deadline a call makes no second one.
_OPTIONS = {**dict(_calls.OPTIONS), "grpc.min_reconnect_backoff_ms": int(1000 * _CALL_SECONDS)}


class Cache:
    """One of the daemon's caches by its name. No method raises a TunefarmError: where the daemon is absent, hangs or
    refuses, entries are misses and nothing is stored, a warning says so once, and the daemon is not asked for 60 s.
    Threads may share it. In a child of a process that had connected it finds and stores nothing, since gRPC does not
    survive a fork."""

    def __init__(self, name: str) -> None:
        self._name = name

    def get(self, keys: Sequence[str]) -> Dict[str, bytes]:
        """The data of those of the keys that have an entry."""
        found: Dict[str, bytes] = {}
        left = [key for key in keys if _is_key(key)]
        while left:
            asked = left[:_KEYS_MAX]
            answer = _link.call("GetCacheEntries", cache_service_pb2.GetCacheEntriesRequest(cache=self._name, keys=asked))
            if answer is None or len(answer.keys_left) >= len(asked):
                return found
            found.update((entry.key, entry.data) for entry in answer.entries)
            left = [*answer.keys_left, *left[_KEYS_MAX:]]
        return found

    def put(self, key: str, data: bytes) -> None:
        """Stores the data; does nothing where it has more than DATA_BYTES_MAX."""
        if _is_key(key) and len(data) <= DATA_BYTES_MAX:
            _link.call("PutCacheEntry", cache_service_pb2.PutCacheEntryRequest(cache=self._name, key=key, data=data))

    def newest(self, entries_max: int) -> List[bytes]:
        """The data of the entries that were stored last, the newest first; at most `entries_max`."""
        return list(itertools.islice(self._newest(entries_max), entries_max))

    def _newest(self, entries_max: int) -> Iterator[bytes]:
        request = cache_service_pb2.ListCacheEntriesRequest(cache=self._name, page_size=min(entries_max, _PAGE_SIZE_MAX))
        for _ in range(entries_max):  # a page has one entry at least
            answer = _link.call("ListCacheEntries", request)
            if answer is None:
                return
            for entry in answer.entries:
                yield entry.data
            request.page_token = answer.next_page_token
            if not request.page_token:
                return


def _is_key(key: str) -> bool:
    return 0 < len(key.encode(errors="replace")) <= _KEY_BYTES_MAX and key.isprintable()


class _Link:
    """A process's connection, made by the first call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._service: Any = None
        self._rests: Dict[str, float] = {}  # until when a method is not called
        self._warned: Set[str] = set()

    def call(self, method: str, request: Any) -> Optional[Any]:
        """The answer; None where there is none."""
        if not _connection.may_use_grpc() or time.monotonic() < self._rests.get(method, 0.0):
            return None
        try:
            return _calls.call(getattr(self._connected(), method), request, _CALL_SECONDS, 0)
        except TunefarmError as error:
            self._rest(method, error)
            return None

    def _connected(self) -> Any:
        with self._lock:
            if self._service is None:
                address = _connection.find_server(None, None, start=False)
                channel = _connection.open_channel(address, list(_OPTIONS.items()), tls_ca=None, tls_certificate=None,
                                                   tls_key=None, token=None, token_file=None)
                self._service = cache_service_pb2_grpc.CacheServiceStub(channel)
            return self._service

    def _rest(self, method: str, error: TunefarmError) -> None:
        # A caller without the right to store may still read.
        is_away = self._service is None or isinstance(error, (UnavailableError, DeadlineExceededError))
        methods = ("GetCacheEntries", "PutCacheEntry", "ListCacheEntries") if is_away else (method,)
        kind = "away" if is_away else method
        with self._lock:
            self._rests.update(dict.fromkeys(methods, time.monotonic() + _REST_SECONDS))
            is_known = kind in self._warned
            self._warned.add(kind)
        if not is_known:
            what = "stores nothing" if methods == ("PutCacheEntry",) else "is not used"
            warnings.warn(f"tunefarm: the remote cache {what} for {_REST_SECONDS:.0f} s, and then tried again: {error}",
                          stacklevel=2)


_link = _Link()


def _after_fork() -> None:
    global _link
    _link = _Link()  # another thread of the parent may have held its lock


os.register_at_fork(after_in_child=_after_fork)
