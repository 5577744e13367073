"""`tunefarm.tune(kernel, ...)` tunes through the daemon: it is `Client.tune` on a connection of its own. The module
`tunefarm.tune.utils` has helpers for scripts that tune by themselves."""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING, Any, Optional, Union

if TYPE_CHECKING:
    import os

    from tunefarm import model


class _CallablePackage(types.ModuleType):
    """A package cannot be a function too, but its module may be called like one."""

    def __call__(self, kernel: "Union[str, os.PathLike[str]]", *, server: Optional[str] = None,
                 **arguments: Any) -> "model.Job":
        """Tunes a kernel and returns the ended job: tunefarm.tune("matmul_host", dims={"M": 256}). `server` is that of
        tunefarm.Client, the other arguments are those of Client.tune."""
        from tunefarm.client import tune_job  # Needs gRPC, which the helpers do not.

        return tune_job(kernel, server=server, **arguments)


sys.modules[__name__].__class__ = _CallablePackage
