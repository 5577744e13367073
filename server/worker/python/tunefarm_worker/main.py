"""Entry point of the worker for kernels in Python. Started by tunefarm-worker only."""

from __future__ import annotations

import os
import platform
import sys
from typing import Dict, List

_FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [os.path.dirname(_FOLDER)] + [entry for entry in sys.path if entry != _FOLDER]

from tunefarm_worker import messages, triton_compile  # noqa: E402
from tunefarm_worker.channel import Channel, Closed, ProtocolError  # noqa: E402
from tunefarm_worker.memfd_filter import IsolationError, forbid_memfds, initialise_gpu  # noqa: E402
from tunefarm_worker.session import Session, adopt_orphans, fit  # noqa: E402

EXIT_OK, EXIT_USAGE, EXIT_ISOLATION, EXIT_PROTOCOL = 0, 64, 70, 76
# Each with the names of the distributions that have it.
_PACKAGES = {"numpy": ("numpy",), "torch": ("torch",), "triton": ("triton", "pytorch-triton", "triton-nightly"),
             "cupy": ("cupy", "cupy-cuda11x", "cupy-cuda12x", "cupy-cuda13x")}


def packages_found() -> List[str]:
    """Returns the names and versions of the installed packages without importing them."""
    from importlib import metadata

    found = []
    for name, distributions in _PACKAGES.items():
        for distribution in distributions:
            try:
                found.append(f"{name} {metadata.version(distribution)}")
                break
            except metadata.PackageNotFoundError:
                continue
    return found


def main(arguments: List[str]) -> int:
    given: Dict[str, str] = dict(word[2:].split("=", 1) for word in arguments if word.startswith("--") and "=" in word)
    if sys.version_info < (3, 9):
        print(f"Python {platform.python_version()} is too old for kernels: install 3.9 or newer", file=sys.stderr)
        return EXIT_USAGE
    try:
        channel, role = Channel(int(given["channel-fd"])), given["role"]
        scratch = given["scratch"]
    except (KeyError, ValueError, OSError) as error:
        print(f"bad arguments: {error}; tunefarmd starts this program", file=sys.stderr)
        return EXIT_USAGE
    adopt_orphans()
    interpreter = given.get("interpreter", sys.executable)
    packages = packages_found()
    toolchain = f"Python {platform.python_version()} ({interpreter}), {', '.join(packages) or 'no NumPy, torch, CuPy'}"
    try:
        channel.send({"hello": {"version": messages.PROTOCOL_VERSION, "role": role, "backend": given.get("backend", ""),
                                "toolchain": fit(toolchain, 1000), "sandbox_level": fit(given.get("sandbox-level", ""),
                                                                                         1000), "pid": os.getpid()}})
        if role == "probe":
            triton = "".join(package.split(" ", 1)[1] for package in packages if package.startswith("triton "))
            notes = [f"Python kernels are on: {toolchain}"]
            if not triton_compile.is_known(triton):
                notes.append(f"kernels in Triton are off: {interpreter} has {f'Triton {triton}' if triton else 'no Triton'}; "
                             f"install {triton_compile.known_releases()} and restart the daemon or agent here")
                triton = ""
            channel.send({"probe_report": {"notes": notes, "triton_version": fit(triton, 64)}})
        if role == "run" and given.get("backend") == "python-cuda":
            initialise_gpu()
            forbid_memfds()
        Session(channel, role, scratch).serve()
    except Closed:
        return EXIT_OK
    except ProtocolError as error:
        print(f"the daemon violated the protocol: {error}", file=sys.stderr)
        return EXIT_PROTOCOL
    except IsolationError as error:
        print(f"kernels cannot be isolated: {error}", file=sys.stderr)
        return EXIT_ISOLATION
    return EXIT_OK


if __name__ == "__main__":
    # sys.exit would wait for threads that a module has started.
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
