"""Files of this machine, read and written as the command line does. Private."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path
from typing import BinaryIO, Optional, Union

from tunefarm.errors import InvalidArgumentError, NotFoundError

_LINKS_MAX = 40


def open_regular(path: Union[str, "os.PathLike[str]"], below: Optional[Path] = None) -> BinaryIO:
    """Only a regular file: a pipe would wait for its writer. With `below` it must lie in or below that folder, wherever
    links lead: what is read goes to the daemon."""
    try:
        place = Path(path)
        flags = 0
        if below is not None:
            place = place.resolve(strict=True)
            if below.resolve(strict=True) not in place.parents:
                raise InvalidArgumentError(
                    f"{path} leads to {place}, outside of its folder {below}; copy the file into the folder")
            flags |= os.O_NOFOLLOW  # the resolved path has no link; one that takes its place now is not followed
        return open(_opened(place, flags, path), "rb")
    except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle, before Python 3.13
        raise NotFoundError(f"{path}: {getattr(error, 'strerror', None) or error}") from None


def _opened(place: Union[str, Path], flags: int, path: Union[str, "os.PathLike[str]"]) -> int:
    """The descriptor of a regular file; `path` is what the caller calls it. InvalidArgumentError for another one."""
    descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | flags)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise InvalidArgumentError(f"{path} is a directory; a regular file is needed here" if stat.S_ISDIR(mode) else
                                   f"{path} is not a regular file, which is needed here")
    return descriptor


def read(path: Union[str, "os.PathLike[str]"], bytes_max: int, below: Optional[Path] = None) -> bytes:
    """The whole file; see open_regular."""
    with open_regular(path, below) as file:
        content = file.read(bytes_max + 1)
    if len(content) > bytes_max:
        raise InvalidArgumentError(f"{path} is larger than {bytes_max} bytes")
    return content


def read_at(path: str, bytes_max: int) -> bytes:
    """As read(), without pathlib, which takes as long as the reading: for paths that need no normalising. OSError where it
    cannot be opened."""
    with open(_opened(path, 0, path), "rb") as file:
        content = file.read(bytes_max + 1)
    if len(content) > bytes_max:
        raise InvalidArgumentError(f"{path} is larger than {bytes_max} bytes")
    return content


def write(path: Union[str, "os.PathLike[str]"], text: str) -> None:
    """Writes the target of a symbolic link, and into a device or a pipe. A regular file is replaced as a whole, so that a
    reader never finds half of it, and keeps its mode. A link below /proc, such as /dev/stdout is one, is appended to."""
    target, is_open_file = _follow_links(os.fspath(path))
    content = text.encode("utf-8")
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        mode = None
    if is_open_file or mode is not None:
        # Opened in any case: what may not be written is not replaced either.
        descriptor = os.open(target, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOCTTY)
        with open(descriptor, "wb") as file:
            if is_open_file or not stat.S_ISREG(mode or 0):
                file.write(content)
                return
    temporary = f"{target}.{os.getpid()}.{threading.get_ident()}.tmp"
    try:
        with open(temporary, "xb") as file:
            file.write(content)
        if mode is not None:
            os.chmod(temporary, stat.S_IMODE(mode))
        os.replace(temporary, target)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise


def _follow_links(path: str) -> "tuple[str, bool]":
    """The end of a chain of links, and whether that is a link below /proc, which stands for an open file."""
    at = path
    for _ in range(_LINKS_MAX):
        if not os.path.islink(at):
            return at, False
        folder = os.path.dirname(at) or "."
        if os.path.realpath(folder).startswith("/proc/"):
            return at, True
        at = os.path.join(folder, os.readlink(at))
    raise InvalidArgumentError(f"{path} leads through more than {_LINKS_MAX} symbolic links")
