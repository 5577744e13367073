"""y = 2 * x, and what goes wrong with it."""

import ctypes
import os
import signal
import socket
import sys
import time

import numpy
from doubling import doubled, inputs


def compile(config):
    """Nothing to compile: what a compiler could do wrong."""
    fault = config["FAULT"]
    if fault == "compile_error":
        raise ValueError("this config cannot be compiled")
    if fault == "missing_module":
        import a_module_that_nobody_has  # noqa: F401
    if fault == "syntax_error":
        exec("this is no Python")
    if fault == "compile_crash":
        os.abort()
    while fault == "compile_hang":
        pass
    with open(os.path.join(config.cache_directory, "compiled.txt"), "w", encoding="utf-8") as file:
        file.write(f"{config['CHUNK']} elements at once\n")


def make_run_and_gt(config):
    fault, chunk, chunks = config["FAULT"], config["CHUNK"], config["chunks"]
    if fault == "make_raises":
        raise RuntimeError("no inputs today")
    with open(os.path.join(config.cache_directory, "compiled.txt"), encoding="utf-8") as file:
        assert file.read().split()[0].isdigit()
    x = inputs(config["N"], config.seed)
    y = numpy.empty_like(x)
    expected = 2 * x
    calls = 0

    def run():
        nonlocal calls
        calls += 1
        if fault in BEFORE:
            BEFORE[fault]()
        if fault == "stale_output" and calls > 1:
            return y
        doubled(x, y, chunk, chunks)
        if fault == "wrong_result" or (fault == "wrong_later" and calls > 5):
            y[len(y) // 2] += 1
        if fault == "nan_output":
            y[3] = numpy.nan
        if fault == "wrong_shape":
            return y[:-1]
        return y

    if fault == "unwritten_output":
        def run():  # noqa: F811
            doubled(x, y[:len(y) * 3 // 4], chunk, chunks * 3 // 4)
    if fault != "wrong_shape":
        run.outputs = (y,)
    return run if fault == "no_ground_truth" else (run, expected)


def fail():
    raise RuntimeError("the run failed")


def spin():
    while True:
        pass


def read_null():
    ctypes.string_at(0)


def take_all_memory():
    numpy.ones(1 << 46, dtype=numpy.uint8)


def keep_memory_file():
    KEPT.append(os.memfd_create("kept"))
    os.truncate(KEPT[-1], 1 << 20)


def leave_child():
    if os.fork() == 0:
        signal.pause()


def fork_without_end():
    for _ in range(3000):
        if os.fork() == 0:
            signal.pause()


def connect():
    with socket.create_connection(("127.0.0.1", 9), timeout=5):
        pass


def mount():
    ctypes.CDLL(None).mount(b"none", b"/tmp", b"tmpfs", 0, None)
    raise RuntimeError("nobody minded")


KEPT = []
BEFORE = {
    "raise": fail,
    "sys_exit": lambda: sys.exit(0),
    "abort": os.abort,
    "segfault": read_null,
    "exit_silently": lambda: os._exit(0),
    "infinite_loop": spin,
    "sleep": lambda: time.sleep(3600),
    "memory_exhaustion": take_all_memory,
    "memory_file": keep_memory_file,
    "child_left_behind": leave_child,
    "fork_bomb": fork_without_end,
    "socket": connect,
    "mount": mount,
}
