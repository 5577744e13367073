#!/usr/bin/env python3
"""How soon the default strategy finds what an exhaustive search finds, on a GPU.

Usage: search_report.py BUNDLE OUT [--parts warm,budget,gemm] [--shapes N] [--seeds N] [--cold]

  warm    kernels/matmul in ten shapes that were never tuned, with the results of 4096^3 in the store: how near the best of
          20 trials comes to the exhaustive best (5 % for 8 of 10 shapes asked)
  budget  kernels/matmul at 4096^3 without memory and a budget of 10 % of the space, five seeds (3 % for 4 of 5 asked)
  gemm    the same for kernels/grouped_gemm forward, over a part of its space that can be searched exhaustively (PINS)

Every trial is measured anew (no_reuse), under the policy fast. A config's time is the one that the exhaustive search
measured for it: found configs are compared by the same samples, not by another run's. Prints a table, line by line;
OUT/search.json has the numbers. Exit code 1 when a goal is missed.
"""

import argparse
import csv
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

BASE = (4096, 4096, 4096)
SHAPES = [(4096, 4096, 2048), (2048, 4096, 4096), (4096, 2048, 4096), (2048, 2048, 2048), (4096, 4096, 1024),
          (3072, 4096, 4096), (4096, 1024, 4096), (1024, 4096, 4096), (2560, 5120, 2048), (1536, 1536, 8192)]
GEMM = {"tokens": 4096, "topk": 8, "E": 128, "N": 1536, "K": 2048}
PINS = ["path=hopper", "cluster_n=1", "use_tma_store=true", "use_tma_load_x=true", "epilogue=staged", "swap_operands=false",
        "GROUP_SIZE_M=8", "persistent=1"]
WARM_TRIALS = 20


class Farm:
    """tunefarm's command line on a data directory of its own."""

    def __init__(self, bundle, directory):
        self.program = str(pathlib.Path(bundle).resolve() / "bin/tunefarm")
        self.environment = dict(os.environ, TUNEFARM_DATA_DIR=str(directory))

    def call(self, *arguments, check=True):
        done = subprocess.run([self.program, *map(str, arguments)], env=self.environment, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL)
        if check and done.returncode != 0:
            sys.exit(f"tunefarm {' '.join(map(str, arguments))} ended with {done.returncode}:\n{done.stderr[-2000:]}")
        return done.stdout

    def tune(self, *arguments):
        """Config text to nanoseconds of every config that ran, in the order of the trials, and the seconds it took."""
        begin = time.monotonic()
        text = self.call("tune", *arguments, "--device", "cuda", "--policy", "fast", "--measure", "no_reuse=true",
                         "--rows", 0)
        seconds = time.monotonic() - begin
        rows = csv.DictReader(io.StringIO(self.call("results", text.split()[1], "--all", "--output", "csv")))
        found = {}
        for row in rows:
            if row["purpose"] == "SEARCH" and row["outcome"] == "OK":
                found[row["config"]] = float(row["median_ns"])
        return found, seconds

    def stop(self):
        self.call("stop", check=False)


def matmul(shape):
    return ["matmul", "--dim", "dtype=bf16", *[word for name, value in zip("MNK", shape) for word in ("--dim", f"{name}={value}")]]


def behind(truth, found):
    """How far the config that the search measured fastest is behind the best of all, as the exhaustive search timed both."""
    return truth[min(found, key=found.get)] / min(truth.values()) - 1


def percent(value):
    return f"{100 * value:.2f} %"


class Report:
    """A table, and the same numbers in a file: as they come, since hours may be cut short."""

    def __init__(self, path):
        self.path = path
        self.numbers = {}

    def add(self, title, numbers, *columns):
        print(f"| {title} | {' | '.join(columns)} |", flush=True)
        self.numbers[title] = numbers
        self.path.write_text(json.dumps(self.numbers, indent=1) + "\n")


def budget(farm, title, arguments, seeds, report):
    truth, seconds = farm.tune(*arguments, "--strategy", "exhaustive", "--no-memory")
    trials = len(truth) // 10
    losses = []
    for seed in range(1, seeds + 1):
        found, _ = farm.tune(*arguments, "--strategy", "default", "--seed", seed, "--no-memory", "--max-trials", trials)
        losses.append(behind(truth, found))
    near = sum(loss <= 0.03 for loss in losses)
    report.add(title, {"configs": len(truth), "trials": trials, "losses": losses, "best_ns": min(truth.values()),
                       "best": min(truth, key=truth.get)},
               f"{len(truth)} configs, {trials} trials, exhaustive in {seconds:.0f} s",
               ", ".join(percent(loss) for loss in losses), f"{near} of {seeds} within 3 %")
    return near >= seeds - 1


def warm(bundle, work, truths, shapes, names, report):
    told = Farm(bundle, work / "told")
    told.tune(*matmul(BASE), "--strategy", "exhaustive")
    told.stop()
    near = 0
    for i, shape in enumerate(shapes):
        truth, _ = truths.tune(*matmul(shape), "--strategy", "exhaustive", "--no-memory")
        truths.stop()  # a daemon keeps its GPU as long as it runs, and the next one would wait for it
        losses = {}
        for name in names:
            directory = work / f"{name}{i}"
            if name == "told":
                shutil.copytree(work / "told", directory, ignore=shutil.ignore_patterns("*.sock", "*.lock"))
            farm = Farm(bundle, directory)
            found, _ = farm.tune(*matmul(shape), "--strategy", "default", "--max-trials", WARM_TRIALS)
            farm.stop()
            losses[name] = behind(truth, found)
        near += losses["told"] <= 0.05
        report.add("matmul " + "x".join(map(str, shape)), dict(losses, best_ns=min(truth.values())),
                   f"{len(truth)} configs, {WARM_TRIALS} trials",
                   ", ".join(f"{name} {percent(loss)}" for name, loss in losses.items()), f"{near} of {i + 1} within 5 %")
    return near >= 0.8 * len(shapes)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--parts", default="budget,warm,gemm")
    parser.add_argument("--shapes", type=int, default=len(SHAPES))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--cold", action="store_true", help="warm: also search without the results of 4096^3")
    options = parser.parse_args()
    parts = options.parts.split(",")
    options.out.mkdir(parents=True, exist_ok=True)
    work = pathlib.Path(tempfile.mkdtemp(prefix="tunefarm-search."))
    report = Report(options.out / "search.json")
    reached = []
    try:
        truths = Farm(options.bundle, work / "truth")
        if "budget" in parts:
            reached.append(budget(truths, "matmul 4096^3 bf16", matmul(BASE), options.seeds, report))
        if "gemm" in parts:
            arguments = ["grouped_gemm_forward", *[word for name, value in GEMM.items() for word in ("--dim", f"{name}={value}")],
                         *[word for pin in PINS for word in ("--pin", pin)]]
            reached.append(budget(truths, "grouped_gemm_forward qwen3_up", arguments, options.seeds, report))
        truths.stop()  # the other daemons of `warm` need its GPU
        if "warm" in parts:
            names = ("told", "cold") if options.cold else ("told",)
            reached.append(warm(options.bundle, work, truths, SHAPES[:options.shapes], names, report))
        truths.stop()
    finally:
        shutil.rmtree(work, ignore_errors=True)
    sys.exit(not all(reached))


if __name__ == "__main__":
    main()
