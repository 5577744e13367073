#!/usr/bin/env python3
"""Grouped products of mixture-of-experts layers: ours, tuned, against what PyTorch and cuBLAS do, in one table.

Usage: grouped_gemm_report.py BUNDLE OUT [--case NAME ...] [--op forward,dx,dw] [--trials N] [--later-trials N] [--rounds N]
           [--policy POLICY]
       grouped_gemm_report.py BUNDLE OUT --flags [--whole-tensors] [--case NAME ...] [--op forward,dx,dw] [--later-trials N]

Needs a GPU, PyTorch with CUDA and a bundle of tunefarm. For each case the kernel is tuned, from an empty cache; then rounds
follow in which every contender is measured in turn, the order moving on by one each round, so that all see the same clocks:
the tuned config and the default one (tunefarm run), torch._grouped_mm, one torch.mm for each expert, and the dense product
with as many operations. Every sample starts with a cold L2, and all take as many samples: a GPU that works for longer gets
slower. A contender's time is the median of its rounds' medians.
Operands are normally distributed bfloat16; rows are routed by independent draws, each side with draws of its own. Later
cases of a kernel start from what the first found. RECORDED holds other peers' times, measured in the same way on another
machine of the kind.

With --flags every valid combination of flags is tuned in each case, packed first: how many configs were verified, and the
best against the packed best. With --whole-tensors too, the definitions are copies in which not every row but the output
as a whole must be within WHOLE_TENSOR_BOUND of the reference.

The floor is the larger of operations / P and bytes / B. P (a dense 8192^3 product) and B (a copy of 1 GiB, both
directions counted) are measured first. OUT/report.md has the table, OUT/report.json all numbers.
"""

import argparse
import collections
import csv
import io
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

# name: (tokens, topk, E, N, K)
CASES = {
    "qwen3_up": (4096, 8, 128, 1536, 2048),
    "qwen3_down": (4096, 8, 128, 2048, 768),
    "llama4_up": (8192, 1, 16, 16384, 5120),
    "llama4_down": (8192, 1, 16, 5120, 8192),
    "deepseek_up": (8192, 1, 32, 4096, 7168),
    "deepseek_down": (8192, 1, 32, 7168, 2048),
    "mixtral_up": (4096, 2, 8, 28672, 4096),
    "mixtral_down": (4096, 2, 8, 4096, 14336),
    "qwen235_up": (4096, 8, 128, 3072, 4096),
    "qwen235_down": (4096, 8, 128, 4096, 1536),
    "gpt_oss_up": (4096, 4, 128, 5760, 2880),
    "gpt_oss_down": (4096, 4, 128, 2880, 2880),
    "qwen3_next_up": (4096, 10, 512, 1024, 2048),
    "qwen3_next_down": (4096, 10, 512, 2048, 512),
    "qwen3_up_32k": (32768, 8, 128, 1536, 2048),
    "mixtral_up_8k": (8192, 2, 8, 28672, 4096),
    "qwen3_up_decode": (128, 8, 128, 1536, 2048),
    "deepseek_up_decode": (128, 8, 32, 4096, 7168),
}
# Microseconds on an H200 of the better of Triton (best of its own autotuner and of eight hand-set configs) and DeepGEMM
# (commit 54e2261), CUDA 13.0, cold L2, routed group sizes, 2026-11-20.
RECORDED = {
    ("qwen3_up", "forward"): 398, ("qwen3_up", "dx"): 410, ("qwen3_up", "dw"): 1260,
    ("qwen3_down", "forward"): 217, ("qwen3_down", "dx"): 223, ("qwen3_down", "dw"): 635,
    ("llama4_up", "forward"): 2110, ("llama4_up", "dx"): 2258, ("llama4_up", "dw"): 5127,
}
FLAGS = {
    "forward": [[], ["permute_x"], ["permute_y"], ["permute_y", "fuse_mul_post"]],
    "dx": [[], ["permute_x"], ["permute_y"]],
    "dw": [[], ["permute_x"], ["permute_y"]],
}
WHOLE_TENSOR_BOUND = "2.5e-3"  # ||out - reference|| / ||reference||
ELEMENTS = {"forward": "rows * N", "dx": "rows * K", "dw": "E * N * K"}  # of the output
FIRST_CASES = ["qwen3_up", "qwen3_down", "llama4_up"]
SAMPLES = 20


class Farm:
    """tunefarm's command line on a data directory of its own."""

    def __init__(self, bundle, policy, whole_tensors=False):
        self.policy = policy
        bundle = pathlib.Path(bundle).resolve()
        self.program = str(bundle / "bin/tunefarm")
        self.directory = tempfile.mkdtemp(prefix="tunefarm-gemm.")
        self.kernels = compare_whole_tensors(bundle, self.directory) if whole_tensors else {}
        self.environment = dict(os.environ, TUNEFARM_DATA_DIR=self.directory)

    def call(self, *arguments, check=True):
        done = subprocess.run([self.program, *arguments], env=self.environment, capture_output=True, text=True)
        if check and done.returncode != 0:
            raise RuntimeError(f"tunefarm {' '.join(arguments)}: {done.returncode}\n{done.stderr[-2000:]}")
        return done.stdout

    def dims(self, case):
        names = ("tokens", "topk", "E", "N", "K")
        return [word for name, value in zip(names, CASES[case]) for word in ("--dim", f"{name}={value}")]

    def tune(self, op, case, trials, flags=()):
        """The best config's answer, and a summary of the search."""
        kernel = self.kernels.get(op, f"grouped_gemm_{op}")
        dims = self.dims(case) + [word for flag in flags for word in ("--dim", f"{flag}=true")]
        begin = time.monotonic()
        text = self.call("tune", kernel, "--device", "cuda", *dims, "--max-trials", str(trials), "--policy",
                         self.policy)
        seconds = time.monotonic() - begin
        job = text.split()[1]  # "job 7  grouped_gemm_dw"
        rows = list(csv.DictReader(io.StringIO(self.call("results", job, "--all", "--output", "csv"))))
        searched = [row for row in rows if row["purpose"] == "SEARCH"]
        times = sorted(float(row["median_ns"]) for row in searched if row["outcome"] == "OK")
        outcomes = collections.Counter(row["outcome"] for row in searched)
        best = json.loads(self.call("best", kernel, "--device", "cuda", *dims, "--exact", "--output", "json"))
        return best, {"seconds": seconds, "configs": len(searched), "outcomes": dict(outcomes),
                      "median_config_ns": statistics.median(times) if times else 0, "best_ns": median_of(best)}

    def run(self, op, case, settings):
        """Nanoseconds, and the outcome."""
        text = self.call("run", f"grouped_gemm_{op}", *settings, "--device", "cuda", *self.dims(case), "--policy", "fast",
                         "--min-samples", str(SAMPLES), "--max-samples", str(SAMPLES), "--measure", "no_reuse=true",
                         "--output", "json", check=False)
        trial = json.loads(text)
        return float(trial.get("measurement", {}).get("median_ns", 0)), trial.get("outcome", "none")

    def keep_log(self, out):
        log = pathlib.Path(self.directory) / "log/tunefarmd.log"
        if log.exists():
            (out / "tunefarmd.log").write_text(log.read_text()[-200000:])

    def stop(self):
        self.call("stop", "--now", check=False)


def compare_whole_tensors(bundle, directory):
    """Copies of the definitions whose outputs are one row each; the path of each product's."""
    folder = shutil.copytree(bundle / "share/tunefarm/kernels/grouped_gemm", pathlib.Path(directory) / "whole_tensors")
    paths = {}
    for op, elements in ELEMENTS.items():
        path = folder / f"grouped_gemm_{op}.pbtxt"
        text, found = re.subn(r'row_norm_bound: [\de.-]+ row_length: "\w+"',
                              f'row_norm_bound: {WHOLE_TENSOR_BOUND} row_length: "{elements}"', path.read_text())
        if not found:
            raise RuntimeError(f"{path}: no tolerance with rows was found")
        path.write_text(text)
        paths[op] = str(path)
    return paths


def median_of(answer):
    return float(answer.get("best", {}).get("measurement", {}).get("median_ns", 0))


def settings_of(message):
    """NAME=VALUE of every value of the first config found in a JSON answer."""
    if isinstance(message, dict):
        values = message.get("config")
        if isinstance(values, dict) and values:
            return [f"{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in values.items()]
        message = list(message.values())
    if isinstance(message, list):
        for part in message:
            found = settings_of(part)
            if found:
                return found
    return []


class Torch:
    """The peers, on operands of one case."""

    def __init__(self):
        import torch
        self.torch = torch
        self.flush = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")

    def time_ns(self, function):
        torch = self.torch
        for _ in range(3):
            function()
        times = []
        for _ in range(SAMPLES):
            self.flush.zero_()
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            function()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) * 1e6)
        return statistics.median(times)

    def limits(self):
        torch = self.torch
        a = torch.randn(8192, 8192, device="cuda").bfloat16()
        b = torch.randn(8192, 8192, device="cuda").bfloat16()
        source = torch.randn(1 << 28, device="cuda")
        target = torch.empty_like(source)
        peak = 2 * 8192**3 / self.time_ns(lambda: torch.mm(a, b)) * 1e9
        bandwidth = 2 * source.numel() * 4 / self.time_ns(lambda: target.copy_(source)) * 1e9
        return peak, bandwidth

    def contenders(self, op, case):
        """name -> function, and the sizes of the groups."""
        torch = self.torch
        tokens, topk, experts, n, k = CASES[case]
        rows = tokens * topk
        generator = torch.Generator(device="cuda").manual_seed(1)
        routed = torch.randint(experts, (rows,), device="cuda", generator=generator)
        sizes = torch.bincount(routed, minlength=experts)
        ends = torch.cumsum(sizes, 0).to(torch.int32)
        host = sizes.tolist()
        def normal(*shape):
            return torch.randn(*shape, device="cuda", generator=generator).mul_(0.1).bfloat16()
        x, dy = normal(rows, k), normal(rows, n)
        w = torch.stack([normal(n, k) for _ in range(experts)])
        if op == "forward":
            out, dense = torch.empty_like(dy), lambda: torch.mm(x, w[0].t(), out=out)
            grouped = lambda: torch._grouped_mm(x, w.transpose(-2, -1), offs=ends)
            pairs = [(a, m.t(), o) for a, m, o in zip(x.split(host), w, out.split(host))]
        elif op == "dx":
            out, dense = torch.empty_like(x), lambda: torch.mm(dy, w[0], out=out)
            grouped = lambda: torch._grouped_mm(dy, w, offs=ends)
            pairs = [(a, m, o) for a, m, o in zip(dy.split(host), w, out.split(host))]
        else:
            out = torch.empty_like(w)
            dense_out = torch.empty(n, k, device="cuda", dtype=torch.bfloat16)
            dense = lambda: torch.mm(dy.t(), x, out=dense_out)
            grouped = lambda: torch._grouped_mm(dy.t(), x, offs=ends)
            pairs = [(a.t(), b, o) for a, b, o in zip(dy.split(host), x.split(host), out)]
        def loop():
            for a, b, o in pairs:
                torch.mm(a, b, out=o)
        return {"torch._grouped_mm": grouped, "mm per expert": loop, "dense, equal flops": dense}, host


def floor_ns(op, case, sizes, peak, bandwidth):
    tokens, topk, experts, n, k = CASES[case]
    rows = tokens * topk
    matrices = experts if op == "dw" else sum(size > 0 for size in sizes)
    moved = 2 * (rows * k + rows * n + matrices * n * k)
    return max(2 * rows * n * k / peak, moved / bandwidth) * 1e9


def measure(farm, torch, op, case, trials, rounds, limits):
    best, search = farm.tune(op, case, trials)
    settings = settings_of(best)
    peers, sizes = torch.contenders(op, case)
    contenders = dict(peers)
    contenders["ours, tuned"] = settings
    contenders["ours, default"] = []
    times = {name: [] for name in contenders}
    notes = []
    names = list(contenders)
    for round_number in range(rounds):
        shift = round_number % len(names)
        for name in names[shift:] + names[:shift]:
            if name in peers:
                try:
                    times[name].append(torch.time_ns(peers[name]))
                except (RuntimeError, AttributeError) as error:  # A version without it is no contender.
                    notes.append(f"{name}: {str(error).splitlines()[0]}")
                continue
            nanoseconds, outcome = farm.run(op, case, contenders[name])
            if outcome == "OUTCOME_OK":
                times[name].append(nanoseconds)
            else:
                notes.append(f"{name}: {outcome}")
    medians = {name: statistics.median(values) for name, values in times.items() if values}
    return {"case": case, "op": op, "floor_ns": floor_ns(op, case, sizes, *limits), "medians_ns": medians, "rounds_ns": times,
            "search": search, "config": settings, "notes": sorted(set(notes))}


def table(results, limits):
    names = ["ours, tuned", "ours, default", "torch._grouped_mm", "mm per expert", "dense, equal flops"]
    lines = [f"P = {limits[0] / 1e12:.0f} TFLOP/s, B = {limits[1] / 1e12:.2f} TB/s; times in us", "",
             "| case | floor | " + " | ".join(names) + " | median config | recorded peer | of floor | best peer / ours | configs | configs/s |",
             "|---|---|" + "---|" * (len(names) + 6)]
    for result in results:
        medians = result["medians_ns"]
        ours = medians.get("ours, tuned")
        peers = [medians[name] for name in ("torch._grouped_mm", "mm per expert") if name in medians]
        recorded = RECORDED.get((result["case"], result["op"]))
        peers += [recorded * 1e3] if recorded else []
        search = result["search"]
        cells = [f"{medians[name] / 1e3:.1f}" if name in medians else "-" for name in names]
        cells += [f"{search['median_config_ns'] / 1e3:.1f}", str(recorded or "-")]
        cells.append(f"{result['floor_ns'] / ours:.0%}" if ours else "-")
        cells.append(f"{min(peers) / ours:.2f}" if ours and peers else "-")
        cells += [str(search["configs"]), f"{search['configs'] / search['seconds']:.1f}"]
        lines.append(f"| {result['case']} {result['op']} | {result['floor_ns'] / 1e3:.1f} | " + " | ".join(cells) + " |")
    ratios = [min([value for name, value in result["medians_ns"].items() if name in ("torch._grouped_mm", "mm per expert")] +
                  [RECORDED.get((result["case"], result["op"]), 1e9) * 1e3]) / result["medians_ns"]["ours, tuned"]
              for result in results if "ours, tuned" in result["medians_ns"]]
    if ratios:
        lines.append(f"\ngeometric mean of best peer / ours over {len(ratios)}: {statistics.geometric_mean(ratios):.3f}")
    for result in results:
        lines.append(f"\n{result['case']} {result['op']}: {', '.join(result['config']) or 'no config'}")
        lines.extend(f"  {note}" for note in result["notes"])
    return "\n".join(lines)


def flag_table(farm, cases, ops, trials):
    """Lines of a table, one for each case, op and combination of flags; and how many combinations have no best."""
    failed = 0
    lines = ["| case | flags | configs | outcomes | best us | against packed |", "|---|---|---|---|---|---|"]
    for case in cases:
        for op in ops:
            packed = 0
            for flags in FLAGS[op]:
                try:
                    _, search = farm.tune(op, case, trials, flags)
                except RuntimeError as error:  # The other combinations are worth knowing all the same.
                    lines.append(f"| {case} {op} | {'+'.join(flags) or 'packed'} | - | {str(error).splitlines()[-1]} | - | - |")
                    print(lines[-1], flush=True)
                    failed += 1
                    continue
                packed = packed or search["best_ns"]
                outcomes = " ".join(f"{count} {name}" for name, count in sorted(search["outcomes"].items()))
                lines.append(f"| {case} {op} | {'+'.join(flags) or 'packed'} | {search['configs']} | {outcomes} | "
                             f"{search['best_ns'] / 1e3:.1f} | {search['best_ns'] / packed if packed else 0:.3f} |")
                print(lines[-1], flush=True)
    return lines, failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle")
    parser.add_argument("out")
    parser.add_argument("--case", nargs="+", choices=sorted(CASES), default=FIRST_CASES)
    parser.add_argument("--op", default="forward,dx,dw")
    parser.add_argument("--trials", type=int, default=500)
    parser.add_argument("--later-trials", type=int, default=250)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--policy", default="fast", help="of the search")
    parser.add_argument("--flags", action="store_true")
    parser.add_argument("--whole-tensors", action="store_true")
    arguments = parser.parse_args()
    if arguments.whole_tensors and not arguments.flags:
        parser.error("--whole-tensors is for --flags")
    out = pathlib.Path(arguments.out)
    out.mkdir(parents=True, exist_ok=True)
    farm = Farm(arguments.bundle, arguments.policy, arguments.whole_tensors)
    ops = arguments.op.split(",")
    if arguments.flags:
        try:
            lines, failed = flag_table(farm, arguments.case, ops, arguments.later_trials)
            (out / "flags.md").write_text("\n".join(lines) + "\n")
        finally:
            farm.stop()
        sys.exit(f"{failed} combinations of flags have no verified config" if failed else 0)
    torch = Torch()
    limits = torch.limits()
    results = []
    try:
        for case in arguments.case:
            for op in ops:
                trials = arguments.trials if all(result["op"] != op for result in results) else arguments.later_trials
                results.append(measure(farm, torch, op, case, trials, arguments.rounds, limits))
                torch.torch.cuda.empty_cache()
                (out / "report.json").write_text(json.dumps({"limits": limits, "results": results}, indent=1))
                (out / "report.md").write_text(table(results, limits) + "\n")
                print(table(results[-1:], limits).splitlines()[4], flush=True)
    except BaseException:
        farm.keep_log(out)
        raise
    finally:
        farm.stop()


if __name__ == "__main__":
    main()
