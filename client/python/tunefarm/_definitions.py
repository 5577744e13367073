"""Kernel definitions on this machine's disk, found by the rules of the command line. Private."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, List, Optional, Tuple, Union

from google.protobuf import text_format

from tunefarm import _assembled_text, _files, _short_forms, _wire
from tunefarm._connection import places_beside
from tunefarm.errors import InvalidArgumentError, NotFoundError

_SOURCE_BYTES_MAX = 4 << 20


def load(file: Path) -> Any:
    """The definition with its sources. Errors name file, line and column."""
    assembled = _assembled_text.AssembledText(_text_of(file), str(file),
                                              lambda path: _text_of(file.parent / path, file.parent))
    if assembled.errors:
        raise InvalidArgumentError("\n".join(assembled.errors))
    message = _wire.empty_kernel()
    expanded = _short_forms.ExpandedText(assembled.text, message.DESCRIPTOR)
    if expanded.errors:
        raise InvalidArgumentError("\n".join(assembled.place(text, offset) for offset, text in expanded.errors))
    try:
        text_format.Parse(expanded.text, message)
    except text_format.ParseError as error:
        line, column = error.GetLine(), error.GetColumn()
        # Its text begins with the place.
        text = str(error)[len(f"{line}:{column} : "):] if str(error).startswith(f"{line}:{column} : ") else str(error)
        if line is None:
            raise InvalidArgumentError(f"{file}: {text}") from None
        raise InvalidArgumentError(assembled.place(text, expanded.offset_of_parser(line, column or 1))) from None
    for source in message.sources:
        if source.content:
            continue
        parts = source.path.split("/")
        if not source.path or source.path.startswith("/") or ".." in parts:
            raise InvalidArgumentError(f"{file}: sources: '{source.path}' is not a path below the definition's folder")
        source.content = _files.read(file.parent / source.path, _SOURCE_BYTES_MAX, file.parent)
    return message


def _text_of(file: Path, below: Optional[Path] = None) -> str:
    try:
        return _files.read(file, _assembled_text.BYTES_MAX, below).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidArgumentError(f"{file}: is not UTF-8 text") from None


def _in_folder(folder: Path) -> List[Tuple[str, Path]]:
    """Names and files. kernel.pbtxt stands for its folder; others stand for themselves."""
    only = folder / "kernel.pbtxt"
    if only.exists():
        return [(folder.name, only)]
    return sorted((file.stem, file) for file in folder.glob("*.pbtxt"))


def _box() -> Optional[Path]:
    chosen = os.environ.get("TUNEFARM_KERNELS")
    if chosen:
        return Path(chosen)
    for candidate in places_beside((2, "share/tunefarm/kernels"), (4, "share/tunefarm/kernels"), (4, "kernels")):
        if candidate.is_dir():
            return candidate
    return None


def _in_box(name: str) -> Optional[Path]:
    box = _box()
    if box is None:
        return None
    for group in (box, box / "examples"):
        if not group.is_dir():
            continue
        for folder in sorted(group.iterdir()):
            if folder.is_dir():
                for found, file in _in_folder(folder):
                    if found == name:
                        return file
    return None


def is_path(kernel: Union[str, "os.PathLike[str]"]) -> bool:
    """Whether a caller names a place on disk and not a kernel's name."""
    if not isinstance(kernel, str):
        return True
    has_folder = "/" in kernel and not kernel.startswith("kernels/")
    return has_folder or kernel.endswith(".pbtxt") or kernel in (".", "..")


def _find(kernel: Union[str, "os.PathLike[str]"]) -> Tuple[str, Optional[Path]]:
    """What a caller names, and its definition's file; None: a stored kernel."""
    text = os.fspath(kernel)
    path = Path(text)
    if path.is_dir():
        definitions = _in_folder(path.resolve())
        if not definitions:
            raise NotFoundError(f"the folder {text} has no kernel.pbtxt; tunefarm kernels new writes one")
        if len(definitions) > 1:
            names = ", ".join(file.name for _, file in definitions)
            raise InvalidArgumentError(f"the folder {text} has several definitions: {names}; name one of them")
        return text, definitions[0][1]
    if path.suffix == ".inc" and path.exists():
        raise InvalidArgumentError(f"{text} is text that definitions include; name a definition")
    if path.exists():
        return text, path
    looks_like_path = "/" in text and not text.startswith("kernels/")
    if looks_like_path or text.endswith(".pbtxt"):
        raise NotFoundError(f"there is no kernel definition at {text}")
    name = text[len("kernels/"):] if text.startswith("kernels/") else text
    return text, _in_box(name)


def resolve(kernel: Union[str, "os.PathLike[str]"]) -> Tuple[str, Any, Optional[Path]]:
    """(name, definition or None, its file) of what a caller names: a definition file, a folder with one, a built-in
    kernel, or else a stored kernel's name. The definition's data files are only named in it."""
    text, file = _find(kernel)
    if file is None:
        return text, None, None
    definition = load(file)
    return definition.display_name, definition, file
