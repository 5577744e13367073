"""Removes what a config left on disk, whatever modes and depth it gave it."""

from __future__ import annotations

import os


def remove_tree(path: str) -> None:
    """Removes a file or a directory with all below it; nothing if it is missing. OSError if something stays."""
    try:
        if os.path.islink(path) or not os.path.isdir(path):
            os.unlink(path)
            return
    except FileNotFoundError:
        return
    empty_directory(path)
    os.rmdir(path)


def empty_directory(path: str) -> None:
    """Removes all that the directory holds. Directories two levels below move to its top, so that no path grows long."""
    os.chmod(path, 0o700)
    moves = 0
    while True:
        entries = list(os.scandir(path))
        if not entries:
            return
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.path)
                continue
            os.chmod(entry.path, 0o700)
            for below in list(os.scandir(entry.path)):
                if not below.is_dir(follow_symlinks=False):
                    os.unlink(below.path)
                    continue
                os.chmod(below.path, 0o700)
                target = f"{path}/.removed-{moves}"
                while os.path.lexists(target):
                    moves += 1
                    target = f"{path}/.removed-{moves}"
                os.rename(below.path, target)
            os.rmdir(entry.path)
