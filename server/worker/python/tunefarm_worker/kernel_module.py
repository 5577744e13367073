"""The kernel's module: its sources as files, what it imports, its functions, and the cache that compilers fill."""

from __future__ import annotations

import ast
import importlib
import io
import os
import shutil
import sys
import tarfile
from typing import Any, Dict, List, Optional, Set

from . import messages

_CACHE_VARIABLES = ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "CUPY_CACHE_DIR", "NUMBA_CACHE_DIR")


class Config(Dict[str, Any]):
    """What a module's functions are given: the value of every dim, parameter and derived value, by name. Beside them
    `parameters` and `dims` alone, the `device` (compute_capability, sm_count, ... of its class), the `seed` of the
    inputs to make, and the `cache_directory` of compilers."""

    def __init__(self, parameters: Dict[str, Any], dims: Dict[str, Any], derived: Dict[str, Any],
                 device: Dict[str, Any], seed: int, cache_directory: str) -> None:
        super().__init__({**dims, **parameters, **derived})
        self.parameters = parameters
        self.dims = dims
        self.device = device
        self.seed = seed
        self.cache_directory = cache_directory


def plain_values(values: Dict[str, Any]) -> Dict[str, Any]:
    return {name: messages.plain_value(value) for name, value in sorted(values.items())}


class KernelModule:
    """The sources of one kernel below `directory`, which is made. Raises ValueError for a path that leads out of it."""

    def __init__(self, kernel: Dict[str, Any], directory: str) -> None:
        self.name = kernel.get("python", {}).get("module", "")
        self._directory = directory
        self._sources: Dict[str, bytes] = {}
        self._module: Any = None
        for source in kernel.get("sources", []):
            path, content = source.get("path", ""), source.get("content", b"")
            target = os.path.normpath(os.path.join(directory, path))
            if not target.startswith(directory + os.sep):
                raise ValueError(f"the source {path!r} leads out of its folder")
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "wb") as file:
                file.write(content)
            self._sources[path] = content
        sys.path.insert(0, directory)
        importlib.invalidate_caches()

    def forget(self) -> None:
        """Makes room for another kernel, whose modules may have the same names."""
        self._module = None
        sys.path[:] = [entry for entry in sys.path if entry != self._directory]
        for name, module in list(sys.modules.items()):
            origin = getattr(module, "__file__", None) or ""
            if origin.startswith(self._directory + os.sep):
                del sys.modules[name]
        shutil.rmtree(self._directory, ignore_errors=True)

    def source(self) -> bytes:
        """Of the module itself."""
        path = self.name.replace(".", "/")
        return self._sources.get(path + ".py", self._sources.get(path + "/__init__.py", b""))

    def defines(self, name: str) -> bool:
        """Whether the module's text gives the name at its top level, or may give any. SyntaxError."""
        for node in ast.parse(self.source(), self.name).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name:
                return True
            if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
                return True
            if isinstance(node, ast.ImportFrom) and any((a.asname or a.name) in (name, "*") for a in node.names):
                return True
        return False

    def import_packages(self) -> None:
        """Imports what the sources import from elsewhere, so that the first config need not wait for it. What fails is
        left to the config to report."""
        own = {path.split("/")[0].split(".")[0] for path in self._sources}
        for package in sorted(self._imported() - own):
            try:
                importlib.import_module(package)
            except Exception:  # It may be guarded where it stands.
                continue

    def _imported(self) -> Set[str]:
        packages: Set[str] = set()
        for path, content in self._sources.items():
            try:
                nodes = ast.parse(content, path).body if path.endswith(".py") else []
            except (SyntaxError, ValueError):
                continue
            for node in nodes:
                if isinstance(node, ast.Import):
                    packages.update(alias.name.split(".")[0] for alias in node.names)
                elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                    packages.add(node.module.split(".")[0])
        return packages

    def load(self) -> Any:
        """The module, imported once. What it raises goes through."""
        if self._module is None:
            self._module = importlib.import_module(self.name)
        return self._module


def use_cache(directory: str) -> None:
    """Compilers that look for their cache when they need it find this one."""
    os.makedirs(directory, exist_ok=True)
    for variable in _CACHE_VARIABLES:
        os.environ[variable] = directory


def pack(directory: str) -> bytes:
    """The files below it. The same files give the same bytes."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in _files_below(directory):
            member = tarfile.TarInfo(os.path.relpath(path, directory))
            member.size = os.path.getsize(path)
            member.mode = 0o700 if os.access(path, os.X_OK) else 0o600
            with open(path, "rb") as file:
                archive.addfile(member, file)
    return out.getvalue()


def unpack(content: bytes, directory: str) -> None:
    """Files alone, and only into the folder. tarfile.TarError, ValueError."""
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
        for member in archive:
            target = os.path.normpath(os.path.join(directory, member.name))
            file: Optional[Any] = archive.extractfile(member) if member.isfile() else None
            if file is None or not target.startswith(directory + os.sep):
                raise ValueError(f"{member.name!r} is no file of a cache")
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "wb") as out:
                shutil.copyfileobj(file, out)
            os.chmod(target, member.mode & 0o700)


def _files_below(directory: str) -> List[str]:
    found = []
    for folder, _, names in os.walk(directory):
        found += [os.path.join(folder, name) for name in names]
    return sorted(path for path in found if os.path.isfile(path) and not os.path.islink(path))
