"""The sources of an imported kernel: the kernel's own file and what it includes. Files of one folder and below, and
nothing else: a T1 file may come from anywhere, and what it names as its source is sent to the daemon."""

import os
import re
import stat

from json_text import Refused, shown

FILES_MAX = 60
FILE_BYTES_MAX = 4 << 20
BYTES_MAX = 8 << 20
INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*"([^"\n]*)"', re.MULTILINE)


def plain(path):
    """a/./b/../c.h as a/c.h; empty for what leaves the folder."""
    parts = []
    for part in path.split("/"):
        if part == "..":
            if not parts:
                return ""
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


class Folder:
    def __init__(self, path):
        self.path = os.path.realpath(path or ".")
        if not os.path.isdir(self.path):
            raise Refused(f"there is no folder {shown(path, 400)}", is_missing=True)

    def contains(self, real):
        return real.startswith(self.path.rstrip("/") + "/")

    def path_of(self, file):
        """The path, relative to the folder, of a file that the user named."""
        real = os.path.realpath(file)
        if not os.path.exists(real):
            raise Refused(f"there is no file {shown(file, 400)}", is_missing=True)
        if not self.contains(real):
            where = shown(self.path, 400)
            raise Refused(f"'{shown(file, 400)}' must lie in or below {where}, the folder of the sources")
        return os.path.relpath(real, self.path)

    def read(self, path):
        full = os.path.join(self.path, path)
        name = shown(full, 400)
        try:
            real = os.path.realpath(full)
            if os.path.isabs(path) or not self.contains(real):
                raise Refused(f"'{shown(path, 400)}' lies outside of {shown(self.path, 400)}")
            # Without waiting for a FIFO, and without a link that takes the place of what was resolved.
            descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb", closefd=True) as file:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise Refused(f"{name} is not a regular file")
                content = file.read(FILE_BYTES_MAX + 1)
        except FileNotFoundError:
            raise Refused(f"there is no file {name}", is_missing=True) from None
        except (OSError, ValueError) as error:
            raise Refused(f"{name} cannot be read: {shown(str(error), 200)}") from None
        if len(content) > FILE_BYTES_MAX:
            raise Refused(f"{name} has more than {FILE_BYTES_MAX} bytes")
        return content


class Collector:
    """`sources` maps paths, relative to the folder of the main file, to bytes, in the order in which they were found."""

    def __init__(self, folder, main_file):
        self.folder = folder
        self.prefix = main_file[: main_file.rfind("/") + 1]
        self.main = main_file[len(self.prefix) :]
        self.sources = {}
        self.seen = set()
        self.total = 0
        self.add(self.main, True)

    def add(self, path, is_required=False):
        if not path or path in self.seen:
            return
        self.seen.add(path)
        try:
            content = self.folder.read(self.prefix + path)
        except Refused as refused:
            # An include that is not there may be the toolkit's; one that leads elsewhere is refused by its name.
            if is_required or not refused.is_missing:
                raise
            return
        self.total += len(content)
        if len(self.sources) >= FILES_MAX or self.total > BYTES_MAX:
            raise Refused(f"the sources are more than {FILES_MAX} files or {BYTES_MAX} bytes")
        if not content:
            if is_required:
                raise Refused(f"the source '{shown(path, 200)}' is empty")
            return
        self.sources[path] = content
        for include in INCLUDE.findall(content):
            try:
                name = include.decode("utf-8")
            except UnicodeDecodeError:
                continue
            self.add(plain(path[: path.rfind("/") + 1] + name))

    def add_reference(self, path):
        """The path of the reference's file relative to the main file's folder."""
        if not path.startswith(self.prefix):
            raise Refused(f"the reference '{shown(path, 200)}' must lie in or below the folder of '{self.prefix}{self.main}'")
        name = plain(path[len(self.prefix) :])
        self.add(name, True)
        return name

    def wrapped(self, functions, reference, is_cuda):
        """The sources as (path, bytes), with a generated file in front if there are functions or a reference."""
        files = list(self.sources.items())
        if not functions and not reference:
            return files
        text = f"// Made by tunefarm import around {self.main}: what fills inputs and computes expected outputs.\n"
        if not is_cuda and functions:
            text += "#include <math.h>\n\n"
        text += f'#include "{self.main}"\n'
        if reference and reference != self.main:
            text += f'#include "{reference}"\n'
        text += "".join(functions)
        name = "imported.cu" if is_cuda else "imported.cc"
        while name in self.sources:
            name = "t1_" + name
        return [(name, text.encode()), *files]
