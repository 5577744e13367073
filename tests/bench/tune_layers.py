#!/usr/bin/env python3
"""Tunes the built-in grouped products for the layers of known models, and writes their bests for `./dev packages` and for
`tunefarm tune --starting-configs` elsewhere.

Usage: tune_layers.py BIN OUT [--layers qwen3_up,...] [--ops forward,dx,dw] [--flags packed,layer,row_major] [--rows R,...]
           [--trials N] [--policy POLICY] [--starting-configs FILE] [--time-limit SECONDS] [--data-dir DIR] [--list]

BIN is the folder of the programs: build/release/bin, or bin of a bundle. Needs a GPU. The daemon is one of its own, on a
data directory that is removed at the end unless --data-dir names it.

--layers     names of tests/bench/grouped_gemm_report.py's cases (default: Qwen3-30B and Llama-4-Scout)
--flags      packed: rows in the experts' order, weights [E, N, K], as torch's grouped product with a transposed view has
             them. layer: what tunefarm.torch.moe_mlp runs: `up` takes tokens by permute_x, `down` scatters rows by permute_y
             and multiplies by the routing weights; dX and dW have the same permutation. row_major: packed with weights
             [E, K, N], whose forward, dX and dW are the kernels dx, forward and dw of N and K exchanged.
--rows       numbers of routed rows, tokens * topk (default: each layer's own)
--trials     configs of each problem (150); the search starts from the winners of the kernel so far, and of FILE
--time-limit no problem is begun that would not end by then, as far as earlier ones tell; searches are cut short

The most important problems come first. OUT/bests.json is written again after each problem; OUT/tune.log has all outputs,
OUT/times.md the table. Exit code 1: a problem failed, or none was tuned.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

from grouped_gemm_report import CASES

MAIN_LAYERS = ("qwen3_up", "qwen3_down", "llama4_up")  # of the comparison with other libraries
DEFAULT_LAYERS = (*MAIN_LAYERS, "llama4_down")
OPS = ("forward", "dx", "dw")
FLAGS = ("packed", "layer", "row_major")
STARTING_CONFIGS_MAX = 32
RESERVE_S = 15  # for a final and the export


class Problem(NamedTuple):
    name: str
    kernel: str
    dims: dict

    def words(self):
        return [word for name, value in self.dims.items() for word in ("--dim", f"{name}={value}")]


def problem_of(layer, op, flags, rows):
    tokens, topk, experts, n, k = CASES[layer]
    if rows is not None:
        if rows % topk:
            raise ValueError(f"{rows} rows are not {topk} for each token, as {layer} has them")
        tokens = rows // topk
    kernel = op
    permuted = {}
    if flags == "row_major":
        n, k = k, n
        kernel = {"forward": "dx", "dx": "forward", "dw": "dw"}[op]
    elif flags == "layer":
        permuted = {"permute_x" if "_up" in layer else "permute_y": "true"}
        if op == "forward" and "_down" in layer:
            permuted["fuse_mul_post"] = "true"
    dims = {"tokens": tokens, "topk": topk, "E": experts, "N": n, "K": k, "dtype": "bf16", "routing": "balanced", **permuted}
    return Problem(f"{layer} {op} {flags} {tokens * topk}", f"grouped_gemm_{kernel}", dims)


def problems_of(options):
    def rank(layer, flags):
        if flags == "packed" and layer in MAIN_LAYERS:
            return 0
        return 1 + FLAGS.index(flags) if layer.startswith("qwen3_") and layer in MAIN_LAYERS else 4

    asked = [(rank(layer, flags), problem_of(layer, op, flags, rows)) for rows in options.rows for layer in options.layers
             for flags in options.flags for op in options.ops]
    found = {}
    for _, problem in sorted(asked, key=lambda each: each[0]):  # stable: else in the order that was asked for
        found.setdefault((problem.kernel, tuple(sorted(problem.dims.items()))), problem)
    return list(found.values())


class Farm:
    """tunefarm's command line on a data directory of its own."""

    def __init__(self, programs, directory, log):
        self.program = str(pathlib.Path(programs).resolve() / "tunefarm")
        self.environment = dict(os.environ, TUNEFARM_DATA_DIR=str(directory))
        self.environment.pop("TUNEFARM_SERVER", None)
        self.log = log

    def call(self, *words, timeout=None):
        """(exit code, stdout). Both outputs go to the log."""
        self.log.write(f"\n$ tunefarm {' '.join(words)}\n")
        try:
            done = subprocess.run([self.program, *words], env=self.environment, capture_output=True, text=True,
                                  timeout=timeout)
            code, out, err = done.returncode, done.stdout, done.stderr
        except subprocess.TimeoutExpired as error:
            code, out, err = 124, error.stdout or "", error.stderr or ""
            out, err = (text.decode(errors="replace") if isinstance(text, bytes) else text for text in (out, err))
        self.log.write(out + err + (f"exit code {code}\n" if code else ""))
        self.log.flush()
        return code, out


def bests_of(path):
    return json.loads(pathlib.Path(path).read_text())["bests"] if path else []


def write_starting_configs(path, kernel, *sources):
    """A file of bests with the kernel's configs of all sources, each config once; whether there is any."""
    kept, seen = [], set()
    for best in (best for source in sources for best in reversed(source)):
        config = json.dumps(best["config"], sort_keys=True)
        if best["kernel_name"] == kernel and config not in seen and len(kept) < STARTING_CONFIGS_MAX:
            seen.add(config)
            kept.append(best)
    source = {"host": "tune_layers", "data_directory": "", "tunefarm_version": ""}
    path.write_text(json.dumps({"format": "tunefarm-bests", "version": 1, "source": source, "bests": kept}))
    return bool(kept)


class Tuning:
    """One run of the script."""

    def __init__(self, options, farm, out):
        self.options, self.farm, self.out = options, farm, out
        self.given = bests_of(options.starting_configs)
        self.found = []  # bests so far
        self.end = time.monotonic() + options.time_limit if options.time_limit else None
        self.longest_s = 0.0
        self.rows = []

    def left_s(self):
        return float("inf") if self.end is None else self.end - time.monotonic()

    def tune(self, problem):
        words = ["tune", problem.kernel, "--device", self.options.device, *problem.words(), "--max-trials",
                 str(self.options.trials), "--policy", self.options.policy, "--promote"]
        starting = self.out / "starting_configs.json"
        if write_starting_configs(starting, problem.kernel, self.found, self.given):
            words += ["--starting-configs", str(starting)]
        timeout = None
        if self.end is not None:
            timeout = max(self.left_s(), 1)
            words += ["--max-time", f"{max(int(timeout - RESERVE_S), 1)}s"]
        begin = time.monotonic()
        code, _ = self.farm.call(*words, timeout=timeout)
        seconds = time.monotonic() - begin
        self.longest_s = max(self.longest_s, seconds)
        best = {}
        if code == 0:
            code, text = self.farm.call("best", problem.kernel, "--device", self.options.device, *problem.words(), "--exact",
                                        "--output", "json")
            best = json.loads(text).get("best", {}) if code == 0 else {}
        self.rows.append((problem, best, seconds, code))
        self.export()

    def export(self):
        if not any(best for _, best, *_ in self.rows):
            return
        code, _ = self.farm.call("export", "bests", str(self.out / "bests.json"), "--source", "tune_layers")
        if code == 0:
            self.found = bests_of(self.out / "bests.json")
        self.write_table()

    def table(self):
        lines = ["| problem | us | against the baseline | s | config |", "|---|---|---|---|---|"]
        for problem, best, seconds, code in self.rows:
            ns = float(best.get("measurement", {}).get("median_ns", 0))
            baseline = float(best.get("baseline_ns", 0))
            config = " ".join(f"{name}={str(value).lower() if isinstance(value, bool) else value}"
                              for name, value in best.get("config", {}).items())
            lines.append(f"| {problem.name} | {ns / 1e3:.1f} | {f'{baseline / ns:.2f}x' if baseline and ns else '-'} | "
                         f"{seconds:.0f} | {config or f'failed: exit code {code}'} |")
        return "\n".join(lines)

    def write_table(self):
        (self.out / "times.md").write_text(self.table() + "\n")

    def run(self, problems):
        """How many were not begun."""
        for number, problem in enumerate(problems):
            if self.left_s() < max(self.longest_s, RESERVE_S) + RESERVE_S:
                return len(problems) - number
            self.tune(problem)
            _, best, seconds, code = self.rows[-1]
            ns = float(best.get("measurement", {}).get("median_ns", 0))
            print(f"{number + 1}/{len(problems)} {problem.name}: {f'{ns / 1e3:.1f} us' if ns else f'exit code {code}'}, "
                  f"{seconds:.0f} s", flush=True)
        return 0


def arguments():
    parser = argparse.ArgumentParser(description="Tunes the grouped products of known layers.")
    parser.add_argument("bin")
    parser.add_argument("out")
    parser.add_argument("--layers", default=",".join(DEFAULT_LAYERS))
    parser.add_argument("--ops", default=",".join(OPS))
    parser.add_argument("--flags", default="packed,layer")
    parser.add_argument("--rows", default="")
    parser.add_argument("--trials", type=int, default=150)
    parser.add_argument("--policy", default="fast")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--starting-configs", metavar="FILE")
    parser.add_argument("--time-limit", type=float, metavar="SECONDS")
    parser.add_argument("--data-dir", metavar="DIR")
    parser.add_argument("--list", action="store_true", help="only print the problems")
    options = parser.parse_args()
    for name, known in (("layers", CASES), ("ops", OPS), ("flags", FLAGS)):
        values = getattr(options, name).split(",")
        for value in values:
            if value not in known:
                parser.error(f"--{name}: '{value}' is none of {', '.join(known)}")
        setattr(options, name, values)
    options.rows = [int(rows) for rows in options.rows.split(",")] if options.rows else [None]
    return options


def main():
    options = arguments()
    problems = problems_of(options)
    if options.list:
        print("\n".join(f"{problem.name}: {problem.kernel} {' '.join(problem.words())}" for problem in problems))
        return
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tunefarm-layers.") as own, open(out / "tune.log", "w") as log:
        farm = Farm(options.bin, options.data_dir or own, log)
        tuning = Tuning(options, farm, out)
        try:
            left = tuning.run(problems)
        finally:
            tuning.export()
            farm.call("stop", "--now")
            (out / "starting_configs.json").unlink(missing_ok=True)
    print(f"\n{tuning.table()}\n\n{len(tuning.rows)} of {len(problems)} problems in {time.monotonic() - begin:.0f} s; "
          f"{len(tuning.found)} bests in {out / 'bests.json'}" + (f"; no time was left for {left}" if left else ""))
    sys.exit(0 if tuning.rows and all(code == 0 for *_, code in tuning.rows) else 1)


if __name__ == "__main__":
    main()
