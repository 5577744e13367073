"""The remote cache of Triton's RemoteCacheManager. Private."""

from __future__ import annotations

from typing import Dict, List

from tunefarm._remote_cache import Cache

_cache = Cache("triton")


class RemoteCacheBackend:
    """Triton takes a class that has this name among its bases."""


class RemoteCache(RemoteCacheBackend):
    """Triton's cache on the daemon: of compiled kernels, of launchers, and of autotuning.

        TRITON_CACHE_MANAGER=triton.runtime.cache:RemoteCacheManager
        TRITON_REMOTE_CACHE_BACKEND=tunefarm.triton:RemoteCache

    `key` is Triton's, of all that a compilation depends on. Without the daemon everything is a miss, which Triton compiles,
    and a warning says so once. Threads may share it."""

    def __init__(self, key: str) -> None:
        self._key = key

    def get(self, filenames: List[str]) -> Dict[str, bytes]:
        """All files, or none: Triton takes a kernel whose files are not all there for a compiled one."""
        keys = {filename: f"{self._key}/{filename}" for filename in filenames}
        found = _cache.get(list(keys.values()))
        if not all(key in found for key in keys.values()):
            return {}
        return {filename: found[key] for filename, key in keys.items()}

    def put(self, filename: str, data: bytes) -> None:
        """Files of more than 8 MiB are not stored."""
        _cache.put(f"{self._key}/{filename}", data)
