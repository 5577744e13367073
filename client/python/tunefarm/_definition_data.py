"""The users' own data in a definition: files that it names by path, and what callers give in their place. Private."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, List, Mapping, Optional, Set

from tunefarm import _data_files
from tunefarm.errors import InvalidArgumentError
from tunefarm.v1 import kernel_pb2

_TYPE_PREFIX = "DATA_TYPE_"


def fill(definition: Any, folder: Optional[Path], inputs: Optional[Mapping[str, Any]],
         expected: Optional[Mapping[str, Any]], link: Optional[_data_files.Link]) -> None:
    """Names all data files of a kernel_pb2.Kernel by digest, and has the daemon hold them (without `link`: not).

    `inputs` fill buffers and `expected` are what outputs must equal, in place of what the definition says: arrays, paths
    that may lead anywhere, or what Client.upload_file has returned. Paths of the definition are relative to `folder` and
    lead nowhere else. A prepare step whose buffers are all filled by `inputs` is left out."""
    replaced_steps: Set[str] = set()
    for name, source in _checked(inputs, "inputs").items():
        argument = _find(definition, name, "inputs")
        if argument.HasField("buffer"):
            buffer = argument.buffer
            _check_not_scratch(argument, "inputs")
            filled = buffer.access == kernel_pb2.ACCESS_OUT and buffer.init == kernel_pb2.INIT_FILL
            if buffer.access not in (kernel_pb2.ACCESS_IN, kernel_pb2.ACCESS_INOUT) and not filled:
                raise InvalidArgumentError(f"inputs: the kernel does not read buffer '{name}'; `expected` says what an "
                                           "output must equal")
        target = _fill_of(argument)
        if target.WhichOneof("kind") == "prepare_step":
            replaced_steps.add(target.prepare_step)
        target.file.CopyFrom(_described(source, definition, argument, link))
    for name, source in _checked(expected, "expected").items():
        argument = _find(definition, name, "expected")
        _check_not_scratch(argument, "expected")
        if argument.buffer.access not in (kernel_pb2.ACCESS_OUT, kernel_pb2.ACCESS_INOUT):
            raise InvalidArgumentError(f"expected: the kernel does not write '{name}'; `inputs` says what it holds")
        definition.unverified_reason = ""
        del definition.reference.steps[:]
        files = definition.reference.files
        known = [one for one in files if one.buffer == name]
        target = known[0] if known else files.add(buffer=name)
        target.file.CopyFrom(_described(source, definition, argument, link))
    _drop_prepare_steps(definition, replaced_steps)
    _fill_paths(definition, folder or Path(), link)


def _fill_of(argument: Any) -> Any:
    return argument.constant_symbol.fill if argument.HasField("constant_symbol") else argument.buffer.fill


def _checked(given: Optional[Mapping[str, Any]], what: str) -> Mapping[str, Any]:
    if given is not None and not isinstance(given, Mapping):
        raise InvalidArgumentError(f"{what} is a value of type {type(given).__name__}; write a dict from the names of "
                                   "buffers to arrays or paths")
    return given or {}


def _check_not_scratch(argument: Any, what: str) -> None:
    if argument.buffer.access == kernel_pb2.ACCESS_SCRATCH:
        raise InvalidArgumentError(f"{what}: buffer '{argument.name}' is scratch space, which takes no file and is "
                                   "compared with none")


def _find(definition: Any, name: str, what: str) -> Any:
    names = []
    for argument in definition.arguments:
        if argument.WhichOneof("kind") in ("buffer", "constant_symbol"):
            if argument.name == name:
                return argument
            names.append(argument.name)
    if not names:
        of_python = definition.language == kernel_pb2.LANGUAGE_PYTHON
        raise InvalidArgumentError(f"{what}: the kernel has no buffers" +
                                   ("; its module makes its data" if of_python else ""))
    raise InvalidArgumentError(f"{what}: the kernel has no buffer '{name}'; its buffers are {', '.join(names)}")


def _types(definition: Any, argument: Any) -> List[str]:
    """All that the argument may have; none where the definition is wrong, which the daemon says."""
    kind = argument.constant_symbol if argument.HasField("constant_symbol") else argument.buffer
    names = [kernel_pb2.DataType.Name(kind.data_type)[len(_TYPE_PREFIX):].lower()]
    if argument.buffer.data_type_dim:
        names = ["f8e4m3" if value.string_value == "fp8" else value.string_value for dim in definition.dims
                 if dim.name == argument.buffer.data_type_dim for value in dim.values]
    return [name for name in names if name in _data_files.WIDTHS]


def _described(source: Any, definition: Any, argument: Any, link: Optional[_data_files.Link],
               below: Optional[Path] = None) -> Any:
    if isinstance(source, kernel_pb2.DataFile):
        return source
    types = _types(definition, argument)
    if isinstance(source, (str, os.PathLike)):
        with _data_files.opened(source, below) as elements:
            return _data_files.describe(elements, _data_files.type_for(elements, types, argument.name), link)
    # Errors name the buffer where they would name a file.
    elements = _data_files.of_array(source, f"the array for '{argument.name}'")._replace(path=argument.name)
    return _data_files.describe(elements, _data_files.type_for(elements, types, argument.name), link)


def _drop_prepare_steps(definition: Any, names: Set[str]) -> None:
    """Steps that filled nothing but what is now given. Others would write over it."""
    for name in sorted(names):
        others = [argument.name for argument in definition.arguments
                  if argument.WhichOneof("kind") in ("buffer", "constant_symbol") and
                  _fill_of(argument).prepare_step == name]
        if others:
            raise InvalidArgumentError(f"inputs: prepare step '{name}' fills {', '.join(others)} too; give all that it "
                                       "fills")
        for index in reversed(range(len(definition.prepare))):
            if definition.prepare[index].step.name == name:
                del definition.prepare[index]


def _fill_paths(definition: Any, folder: Path, link: Optional[_data_files.Link]) -> None:
    """All that the definition itself names by path."""
    arguments = {}
    for argument in definition.arguments:
        if argument.WhichOneof("kind") in ("buffer", "constant_symbol"):
            arguments[argument.name] = argument
            if _fill_of(argument).WhichOneof("kind") == "file":
                _fill_path(_fill_of(argument).file, definition, argument, folder, link)
    for expected in definition.reference.files:
        # The daemon says what is wrong with the name of another one.
        if expected.buffer in arguments:
            _fill_path(expected.file, definition, arguments[expected.buffer], folder, link)


def _fill_path(file: Any, definition: Any, argument: Any, folder: Path, link: Optional[_data_files.Link]) -> None:
    if file.digest:
        return
    parts = file.path.split("/")
    if not file.path or file.path.startswith("/") or ".." in parts:
        raise InvalidArgumentError(f"argument '{argument.name}': '{file.path}' is not a path below the definition's folder")
    written = file.path
    file.CopyFrom(_described(folder / file.path, definition, argument, link, folder))
    file.path = written
