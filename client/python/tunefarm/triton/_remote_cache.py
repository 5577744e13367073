"""The remote cache of Triton's RemoteCacheManager. Private."""

from __future__ import annotations

from typing import Dict, List

from tunefarm._remote_cache import Cache

_cache = Cache("triton")


class RemoteCacheBackend:
    """Triton accepts a class that has a base of this name."""


class RemoteCache(RemoteCacheBackend):
    """Triton's cache on the daemon: of compiled kernels, of launchers, and of autotuning.

        TRITON_CACHE_MANAGER=triton.runtime.cache:RemoteCacheManager
        TRITON_REMOTE_CACHE_BACKEND=tunefarm.triton:RemoteCache

    `key` is Triton's hash of all that a compilation depends on. Without the daemon all entries are misses, so that
    Triton compiles, and one warning says so. Threads may share it."""

    def __init__(self, key: str) -> None:
        self._key = key

    def get(self, filenames: List[str]) -> Dict[str, bytes]:
        """All files or none: Triton would use a kernel of which files are missing as if it were complete."""
        keys = {filename: f"{self._key}/{filename}" for filename in filenames}
        found = _cache.get(list(keys.values()))
        if not all(key in found for key in keys.values()):
            return {}
        return {filename: found[key] for filename, key in keys.items()}

    def put(self, filename: str, data: bytes) -> None:
        """Files of more than 8 MiB are not stored."""
        _cache.put(f"{self._key}/{filename}", data)
