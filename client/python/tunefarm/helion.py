"""A remote cache of Helion on the daemon: the configs that its autotuner finds. Set in the environment:

    HELION_AUTOTUNE_CACHE=RemoteAutotuneCache
    HELION_REMOTE_CACHE_BACKEND=tunefarm.helion.RemoteCache

Importing this module imports neither Helion nor PyTorch.
"""

from __future__ import annotations

import sys
from typing import Any, List, Optional

from tunefarm._remote_cache import Cache

__all__ = ["RemoteCache"]

_cache = Cache("helion")
_LISTED_MAX = 1000


class _RemoteCache:
    """A RemoteCacheBackend of Helion. Without the daemon all entries are misses, so that Helion tunes, and one warning
    says so. Threads may share it."""

    __qualname__ = "RemoteCache"

    def get(self, key: str) -> Optional[str]:
        """The text that was stored under the key; None if there is none."""
        data = _cache.get([key]).get(key)
        return None if data is None else data.decode(errors="replace")

    def put(self, key: str, data: str) -> None:
        """Texts of more than 8 MiB are not stored."""
        _cache.put(key, data.encode(errors="replace"))

    def list(self, max_results: Optional[int] = None) -> List[str]:
        """The texts that were stored last, of all kernels, the newest first; at most `max_results`, or 1,000."""
        count = _LISTED_MAX if max_results is None else max(0, max_results)
        return [data.decode(errors="replace") for data in _cache.newest(count)]


def __getattr__(name: str) -> Any:
    if name != "RemoteCache":
        raise AttributeError(f"module 'tunefarm.helion' has no attribute '{name}'")
    # Helion accepts only subclasses of its own class, and is imported when it looks this name up.
    backend = getattr(sys.modules.get("helion.autotuner.remote_cache"), "RemoteCacheBackend", None)
    if backend is not None:
        backend.register(_RemoteCache)
    return _RemoteCache
