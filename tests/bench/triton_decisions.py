"""What tunefarm.triton adds to a program with kernels for @triton.autotune: milliseconds of install(), of the first
decision of a process and of 20 later ones (median, longest), in starts that find answers in different places. A decision
is what Triton's autotuner waits for before it launches a new key, and what follows the launch: the start of the thread that
asks the daemon again. The calls of Python functions in a first decision are counted in a start of their own.

    TUNEFARM_SOURCE_DIR=$PWD PYTHONPATH=$PWD/build/release/python TUNEFARM_BIN_DIR=$PWD/build/release/bin \
        python3 tests/bench/triton_decisions.py [--triton]

With --triton: PyTorch, Triton and a GPU, of the interpreter that runs this file, which also is the daemon's. Without: a
stand-in for both (tests/data/fake_triton); the daemon tunes C++ in the kernel's place.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from farm import wait_for_daemon  # noqa: E402

BIN = pathlib.Path(os.environ["TUNEFARM_BIN_DIR"])
DATA = pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"]) / "tests" / "data"
LATER = 20
STARTS = 5  # of each kind; one where all is tuned
BLOCKS = (64, 128, 256)
DEFINITION = """
display_name: "%s" language: LANGUAGE_HOST_CXX
sources {
  path: "work.cc"
  content: "extern \\"C\\" void work(int* out, int block) { for (int i = 0; i < 16; ++i) out[i] = i; }"
}
parameters { name: "BLOCK" values { ints: 64 ints: 128 ints: 256 } bind: BIND_RUN }
arguments { name: "out" buffer { data_type: DATA_TYPE_I32 length: "16" access: ACCESS_OUT } }
arguments { name: "block" scalar { data_type: DATA_TYPE_I32 value: "BLOCK" } }
launches { kernel { entry: "work" arguments: ["out", "block"] } }
reference { steps { kernel { entry: "work" arguments: ["out", "block"] } } }
"""


def fake_torch():
    properties = types.SimpleNamespace(name="stand-in", uuid="")
    cuda = types.SimpleNamespace(is_initialized=lambda: True, is_current_stream_capturing=lambda: False,
                                 is_available=lambda: True, mem_get_info=lambda: (1 << 40, 1 << 40),
                                 synchronize=lambda: None, current_device=lambda: 0, get_device_properties=lambda number: properties)
    return types.SimpleNamespace(cuda=cuda, Tensor=type(None))


def stand_in_for_a_gpu():
    from google.protobuf import text_format

    from tunefarm.triton import _asking, _session
    from tunefarm.v1 import kernel_pb2

    _asking.Kernel._definition = lambda _, name, *rest: text_format.Parse(DEFINITION % name, kernel_pb2.Kernel())
    _session.Session.selector = lambda session, gpu: ""


def start(has_triton, counts):
    """A start of a program, which prints its times as JSON, and with `counts` how many calls the first decision makes."""
    sys.path[:0] = [str(DATA / "triton"), *([] if has_triton else [str(DATA / "fake_triton")])]
    import numpy  # which PyTorch imports, too

    if has_triton:
        import torch
    else:
        sys.modules["torch"] = fake_torch()
    import triton.runtime

    import tunefarm.triton
    from tunefarm.triton import _autotune

    begin = time.perf_counter()
    tunefarm.triton.install()
    install_ms = (time.perf_counter() - begin) * 1e3
    if not has_triton:
        stand_in_for_a_gpu()
    import kernels

    from tunefarm.triton import _session

    decided_ms, calls = [], []
    contains, refresh = _autotune._Cache.__contains__, _session.Session.start_refreshing

    def timed(cache, key):
        is_new = not dict.__contains__(cache, key)
        if counts and not decided_ms:
            sys.setprofile(lambda frame, event, argument: calls.append(frame.f_code) if event == "call" else None)
        begin = time.perf_counter()
        found = contains(cache, key)
        if is_new:
            decided_ms.append((time.perf_counter() - begin) * 1e3)
        sys.setprofile(None)
        return found

    def timed_refresh(session):
        begin = time.perf_counter()
        refresh(session)
        decided_ms[-1] += (time.perf_counter() - begin) * 1e3

    _autotune._Cache.__contains__, _session.Session.start_refreshing = timed, timed_refresh
    axpy = triton.autotune(configs=[triton.Config({"BLOCK": block}) for block in BLOCKS], key=["n"])(kernels.axpy)
    for n in range(1 << 12, (1 << 12) + 16 * (LATER + 1), 16):
        if has_triton:
            y, x = torch.ones(n, device="cuda"), torch.ones(n, device="cuda")
        else:
            y, x = numpy.ones(n, "f4"), numpy.ones(n, "f4")
        axpy[lambda META: (triton.cdiv(n, META["BLOCK"]),)](y, x, 0.5, n)
    assert len(decided_ms) == LATER + 1, decided_ms
    print(json.dumps({"install": install_ms, "first": decided_ms[0], "later": decided_ms[1:], "calls": len(calls)}))


def started(cache, options):
    """(times, counts) of a start."""
    done = subprocess.run([sys.executable, __file__, "start", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, env={**os.environ, "XDG_CACHE_HOME": cache, "TUNEFARM_TRITON_LOG": "1"})
    if done.returncode:
        sys.exit(done.stderr)
    counts = done.stderr.partition("tunefarm.triton: decisions ")[2].splitlines()[0]
    return json.loads(done.stdout.splitlines()[-1]), counts


def print_row(what, caches, options):
    """Of a start for each of the folders, in which answers are kept."""
    made = [started(cache, options) for cache in caches]
    cells = [what]
    for name in ("install", "first", "later"):
        values = [value for times, _ in made for value in (times[name] if name == "later" else [times[name]])]
        cells.append(f"{statistics.median(values):.2f}, {max(values):.2f}")
    print("| " + " | ".join([*cells, made[-1][1]]) + " |", flush=True)


def main(*options):
    with tempfile.TemporaryDirectory(prefix="tunefarm-decisions.") as folder:
        data = f"{folder}/data"
        os.environ.update(TUNEFARM_DATA_DIR=data, PATH=f"{BIN}{os.pathsep}{os.environ['PATH']}")
        for name in ("TUNEFARM_SERVER", "TUNEFARM_TRITON_POLICY", "TUNEFARM_TRITON_RUN_ID", "TORCHELASTIC_RUN_ID"):
            os.environ.pop(name, None)
        grpc = subprocess.run([sys.executable, "-c", "import numpy, time; begin = time.perf_counter(); import grpc; "
                               "print((time.perf_counter() - begin) * 1e3)"],
                              stdout=subprocess.PIPE, text=True, check=True)
        print(f"ms: median, longest. import grpc alone: {float(grpc.stdout):.0f} ms\n")
        print("| start | install() | first decision | later decisions | from where, in the last start |")
        print("|---|---|---|---|---|")
        daemon = subprocess.Popen([BIN / "tunefarmd", "--data-dir", data, "--python-interpreter", sys.executable],
                                  stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_for_daemon(daemon, data)
            caches = [f"{folder}/cache{number}" for number in range(STARTS)]
            print_row("nothing is known", [f"{folder}/cache"], options)
            print_row("known to the daemon", caches, options)
            print_row("known from an earlier start", caches, options)
        finally:
            daemon.kill()
            daemon.wait()
        print_row("the same without a daemon", caches, options)
        made, _ = started(caches[0], ["--calls", *options])
        print(f"\ncalls of Python functions in such a first decision, before the launch: {made['calls']}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["start"]:
        start("--triton" in sys.argv, "--calls" in sys.argv)
    else:
        main(*sys.argv[1:])
