"""The module of a kernel: its source files, imports and functions, and the cache directory of its compilers."""

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
from .remove_tree import remove_tree

_CACHE_VARIABLES = ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "CUPY_CACHE_DIR", "NUMBA_CACHE_DIR")


class Config(Dict[str, Any]):
    """The argument of a module's functions: a dict from the name of every dim, parameter and derived value to its
    value. Its attributes are `parameters` and `dims` (each alone), `device` (compute_capability, sm_count and
    the other fields of the device class), `seed` (of the inputs to generate) and `cache_directory` (for compilers)."""

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
    """Writes the sources of one kernel below `directory`, which it creates. Raises ValueError for other paths."""

    def __init__(self, kernel: Dict[str, Any], directory: str) -> None:
        self.name = kernel.get("python", {}).get("module", "")
        self.directory = directory
        self._sources: Dict[str, bytes] = {}
        self._module: Any = None
        for source in kernel.get("sources", []):
            path, content = source.get("path", ""), source.get("content", b"")
            target = os.path.normpath(os.path.join(directory, path))
            if not target.startswith(directory + os.sep):
                raise ValueError(f"the path {path!r} of a source is outside of the folder of the kernel")
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "wb") as file:
                file.write(content)
            self._sources[path] = content
        sys.path.insert(0, directory)
        importlib.invalidate_caches()

    def forget(self) -> None:
        """Unloads the modules: those of the next kernel may have the same names."""
        self._module = None
        sys.path[:] = [entry for entry in sys.path if entry != self.directory]
        for name, module in list(sys.modules.items()):
            origin = getattr(module, "__file__", None) or ""
            if origin.startswith(self.directory + os.sep):
                del sys.modules[name]
        remove_tree(self.directory)

    def source(self) -> bytes:
        """Returns the source of the module itself."""
        path = self.name.replace(".", "/")
        return self._sources.get(path + ".py", self._sources.get(path + "/__init__.py", b""))

    def defines(self, name: str) -> bool:
        """Whether the source defines the name at its top level, or may do so by `import *`. Raises SyntaxError."""
        for node in ast.parse(self.source(), self.name).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name:
                return True
            if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
                return True
            if isinstance(node, ast.ImportFrom) and any((a.asname or a.name) in (name, "*") for a in node.names):
                return True
        return False

    def import_packages(self) -> None:
        """Imports the packages that the sources import, so that the first config does not wait for them. A failing
        import is reported by the config."""
        own = {path.split("/")[0].split(".")[0] for path in self._sources}
        for package in sorted(self._imported() - own):
            try:
                importlib.import_module(package)
            except Exception:  # The source may catch this error.
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
        """Returns the module, imported once. Raises what the import raises, and ImportError for a name that another
        module, such as one of the standard library, has already."""
        if self._module is None:
            module = importlib.import_module(self.name)
            if not (getattr(module, "__file__", None) or "").startswith(self.directory + os.sep):
                raise ImportError(f"the name '{self.name}' is that of a module of Python or of a package; rename the source")
            self._module = module
        return self._module


def use_cache(directory: str) -> None:
    """Points compilers that read their cache variable at each use to this directory."""
    os.makedirs(directory, exist_ok=True)
    for variable in _CACHE_VARIABLES:
        os.environ[variable] = directory


def pack(directory: str) -> bytes:
    """Returns an archive of the files below the directory. The same files give the same bytes."""
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
    """Unpacks regular files into the directory. Raises tarfile.TarError, and ValueError for other members or paths."""
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
        for member in archive:
            target = os.path.normpath(os.path.join(directory, member.name))
            file: Optional[Any] = archive.extractfile(member) if member.isfile() else None
            if file is None or not target.startswith(directory + os.sep):
                raise ValueError(f"the archive of a cache contains {member.name!r}, not a file below its directory")
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "wb") as out:
                shutil.copyfileobj(file, out)
            os.chmod(target, member.mode & 0o700)


def _files_below(directory: str) -> List[str]:
    found = []
    for folder, _, names in os.walk(directory):
        found += [os.path.join(folder, name) for name in names]
    return sorted(path for path in found if os.path.isfile(path) and not os.path.islink(path))
