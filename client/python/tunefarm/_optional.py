"""Packages that only a few calls need. Private."""

from __future__ import annotations

import importlib
from typing import Any


def needed(package: str, call: str, instead: str = "") -> Any:
    """The package. ImportError with one sentence where it is not installed."""
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:  # It is there, and lacks something itself.
            raise
        hint = f"; {instead}" if instead else ""
        raise ImportError(f"{call} needs {package}, which is not installed: pip install {package}{hint}",
                          name=package) from None
