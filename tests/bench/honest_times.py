#!/usr/bin/env python3
"""Whether a change of the programs moves the times that honest kernels get: ten kernels for the CPU, from about 1 µs to
about 10 ms, measured by two sets of programs in turns.

  honest_times.py --base DIR --now DIR [--turns 5] [--policy default] [--warm-cache]
Prints for each kernel the median over the turns by either set, and their ratio.
"""

import argparse
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

SOURCE_DIR = pathlib.Path(__file__).resolve().parents[2]

DEFINITION = """
display_name: "honest_times"
language: LANGUAGE_HOST_CXX
sources { path: "kernel.cc" }
compile_options: ["-O2"]
dims { name: "N" default_value { int_value: 512 } }
parameters {
  name: "ROUNDS"
  values { ints: [1, 3, 10, 35, 110, 380, 1300, 4500, 15000, 55000] }
  bind: BIND_RUN
}
arguments { name: "x" buffer { data_type: DATA_TYPE_F32 length: "N" access: ACCESS_IN fill { normal {} } } }
arguments { name: "y" buffer { data_type: DATA_TYPE_F32 length: "N" access: ACCESS_OUT } }
arguments { name: "n" scalar { data_type: DATA_TYPE_I64 value: "N" } }
arguments { name: "rounds" scalar { data_type: DATA_TYPE_I64 value: "ROUNDS" } }
launches { kernel { entry: "scale" arguments: ["x", "y", "n", "rounds"] } }
reference { steps { kernel { entry: "reference" arguments: ["x", "y", "n"] } } }
tolerance { atol: 0 rtol: 0 }
"""

# Each round reads and writes everything; the last one leaves 2 x.
SOURCE = """
extern "C" void scale(const float* x, volatile float* y, long n, long rounds) {
  for (long round = 0; round < rounds; ++round) {
    for (long i = 0; i < n; ++i) y[i] = 2 * x[i];
  }
}
extern "C" void reference(const float* x, float* y, long n) {
  for (long i = 0; i < n; ++i) y[i] = 2 * x[i];
}
"""


def run_programs(programs, command, directory):
    environment = dict(os.environ, TUNEFARM_DATA_DIR=str(directory))
    environment.pop("TUNEFARM_SERVER", None)
    return subprocess.run([pathlib.Path(programs) / "tunefarm", *command], env=environment, check=True, text=True,
                          capture_output=True, stdin=subprocess.DEVNULL).stdout


def rounds(trial):
    """The config's only value. Programs of other versions may write it as a message."""
    values = trial["config"].get("values", trial["config"])
    value = values["ROUNDS"]
    return int(value["int_value"] if isinstance(value, dict) else value)


def measure(programs, folder, options):
    """Medians in nanoseconds by ROUNDS, of one job on a daemon of its own."""
    sys.path.insert(0, str(SOURCE_DIR / "tests/e2e"))
    os.environ.setdefault("TUNEFARM_BIN_DIR", str(programs))
    os.environ.setdefault("TUNEFARM_SOURCE_DIR", str(SOURCE_DIR))
    import json
    from farm import outcome, search
    with tempfile.TemporaryDirectory(prefix="tunefarm-bench.") as directory:
        daemon = subprocess.Popen([pathlib.Path(programs) / "tunefarmd", "--data-dir", directory, "--no-gpu"],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            command = ["submit", "--quiet", str(folder), "--policy", options.policy, "--strategy", "exhaustive",
                       "--measure", "no_early_stop=true", "--measure", "no_reuse=true", "--measure", "finalists=1",
                       "--measure", "final_rounds=1"] + (["--warm-cache"] if options.warm_cache else [])
            # Commands start a daemon where none answers yet: wait for ours.
            while not (pathlib.Path(directory) / "run/admin.sock").exists() and daemon.poll() is None:
                os.sched_yield()
            job = run_programs(programs, command, directory).strip()
            run_programs(programs, ["jobs", "watch", job], directory)
            trials = json.loads(run_programs(programs, ["--output", "json", "results", job, "--all"], directory))["trials"]
        finally:
            daemon.terminate()
            daemon.wait()
    bad = [trial for trial in trials if outcome(trial) != "OK"]
    if bad:
        sys.exit(f"{programs}: {outcome(bad[0])}: {bad[0].get('message', '')}")
    return {rounds(trial): float(trial["measurement"]["median_ns"]) for trial in search(trials)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", required=True, help="folder of the programs to compare with")
    parser.add_argument("--now", required=True, help="folder of the programs that changed")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--policy", default="default")
    parser.add_argument("--warm-cache", action="store_true")
    options = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tunefarm-kernel."))
    times = {options.base: {}, options.now: {}}
    try:
        (folder / "kernel.pbtxt").write_text(DEFINITION)
        (folder / "kernel.cc").write_text(SOURCE)
        for turn in range(options.turns):
            # Each goes first in every second turn.
            for programs in [options.base, options.now][::1 if turn % 2 == 0 else -1]:
                for rounds, ns in measure(programs, folder, options).items():
                    times[programs].setdefault(rounds, []).append(ns)
    finally:
        shutil.rmtree(folder)
    print(f"{'rounds':>7} {'base µs':>11} {'now µs':>11} {'ratio':>7}")
    for rounds in sorted(times[options.base]):
        base, now = (statistics.median(times[programs][rounds]) for programs in (options.base, options.now))
        print(f"{rounds:7} {base / 1e3:11.2f} {now / 1e3:11.2f} {now / base:7.3f}")


if __name__ == "__main__":
    main()
