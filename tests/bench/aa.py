#!/usr/bin/env python3
"""aa.py BUNDLE_DIRECTORY OUT_DIRECTORY [--pairs N] [--case NAME ...] [OPTION OF doctor ...]

The A/A test on a GPU: each case's config against itself in N (default 200) pairs, by `tunefarm doctor --repeatability`.
Reports go to OUT_DIRECTORY as JSON; prints a line for each case when it ends. Ends with 1 if the intervals of a case are not
what they say, or are wider than 0.5 % at the median. Tuned configs are those of kernels/grouped_gemm/bests for this device.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from daemon_of_its_own import clean_up_when_terminated

SOURCE = pathlib.Path(__file__).resolve().parents[2]
HALF_WIDTH_MAX = 0.005
QWEN3_UP = {"tokens": 4096, "topk": 8, "E": 128, "N": 1536, "K": 2048}
LLAMA4_UP = {"tokens": 8192, "topk": 1, "E": 16, "N": 16384, "K": 5120}


def matmul(dtype, size):
    return "matmul", {"dtype": dtype, "M": size, "N": size, "K": size}, False


# Kernel, dims, and whether the config is the tuned one.
CASES = {
    "matmul_bf16_2048": matmul("bf16", 2048),
    "matmul_f32_1024": matmul("f32", 1024),
    "matmul_bf16_4096": matmul("bf16", 4096),
    "matmul_bf16_8192": matmul("bf16", 8192),
    "qwen3_up_default": ("grouped_gemm_forward", QWEN3_UP, False),
    "qwen3_up_tuned": ("grouped_gemm_forward", QWEN3_UP, True),
    "llama4_up_tuned": ("grouped_gemm_forward", LLAMA4_UP, True),
    "vector_add_1M": ("vector_add", {"N": 1 << 20}, False),
    "vector_add_64M": ("vector_add", {"N": 1 << 26}, False),
    "row_sum_20us": (str(SOURCE / "kernels/examples/row_sum"), {"rows": 8192, "columns": 2048}, False),
}


# Rounds of a pair, where they are not 8, and samples of a round, where they are not 8 (0: 30 ms of them). A launch of 7 us
# varies by 2 % between rounds, each of which loads the module at another address: many rounds. One of 25 us that reads memory
# differs by 7 % from sample to sample: many samples. At the power limit a sample of 3 ms takes 30 ms: few of both.
ROUNDS = {"vector_add_1M": 128, "row_sum_20us": 13, "matmul_bf16_8192": 5, "llama4_up_tuned": 5}
SAMPLES = {"vector_add_1M": 12, "row_sum_20us": 0, "matmul_bf16_8192": 2, "llama4_up_tuned": 3}


def plain(value):
    (text,) = value.values()
    return str(text).lower() if isinstance(text, bool) else str(text)


def tuned_pins(kernel, dims, device):
    bests = json.loads((SOURCE / f"kernels/grouped_gemm/bests/{device}.json").read_text())["bests"]
    for best in bests:
        of = {name: plain(value) for name, value in best["problem"]["dims"].items()}
        if best["kernel_name"] == kernel and all(of.get(name) == str(value) for name, value in dims.items()):
            pins = {name: plain(value) for name, value in best["config"]["values"].items()}
            return {name: value for name, value in of.items() if name not in dims}, pins
    raise SystemExit(f"there is no best of {kernel} {dims} for {device}")


def run_case(tunefarm, name, pairs, device, out, options):
    kernel, dims, is_tuned = CASES[name]
    dims, pins = dict(dims), {}
    if is_tuned:
        other_dims, pins = tuned_pins(kernel, dims, device)
        dims.update(other_dims)
    command = [tunefarm, "doctor", "--repeatability", "--kernel", kernel, "--device", "cuda", "--pairs", str(pairs),
               "--rounds", str(ROUNDS.get(name, 8)), "--output", "json"]
    samples = SAMPLES.get(name, 8)
    if samples and not any("_samples=" in option for option in options):
        command += [f"--measure={bound}_samples={samples}" for bound in ("min", "max")]
    for flag, values in (("--dim", dims), ("--pin", pins)):
        for key, value in values.items():
            command += [flag, f"{key}={value}"]
    start = time.monotonic()
    done = subprocess.run(command + options, capture_output=True, text=True)
    (out / f"{name}.json").write_text(done.stdout)
    (out / f"{name}.err").write_text(done.stderr)
    return time.monotonic() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--case", action="append", choices=sorted(CASES), default=[])
    arguments, options = parser.parse_known_args()  # what is not known here is for doctor: --rounds 8, for example
    out = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    clean_up_when_terminated()
    tunefarm = str(arguments.bundle / "bin/tunefarm")
    os.environ["PATH"] = f"{arguments.bundle / 'bin'}:{os.environ['PATH']}"
    name = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True,
                          check=True).stdout
    device = "H100" if "H100" in name else "H200"
    bad = 0
    print(f"A/A on {name.strip()}")
    print(f"{'case':17} {'time us':>9} {'pairs':>5} {'excl. 1':>7} {'allowed':>7} {'half-width':>10} {'bias':>7} {'drift':>7} "
          f"{'MHz':>5} {'W':>5} {'discarded':>9} {'duty':>5} {'s':>5}  verdict", flush=True)
    with tempfile.TemporaryDirectory(prefix="tunefarm-aa.") as data:
        os.environ["TUNEFARM_DATA_DIR"] = data
        try:
            for case in arguments.case or CASES:
                seconds = run_case(tunefarm, case, arguments.pairs, device, out, options)
                try:
                    report = json.loads((out / f"{case}.json").read_text())
                except ValueError:
                    lines = (out / f"{case}.err").read_text().strip().splitlines()
                    print(f"{case:17} failed: {lines[-1] if lines else 'without a word'}", flush=True)
                    bad += 1
                    continue
                good = report["honest"] and report["median_half_width"] <= HALF_WIDTH_MAX
                bad += not good
                print(
                    f"{case:17} {report['median_ns'] / 1e3:9.1f} {report['pairs']:5} {report['excluding_one']:7} "
                    f"{report['excluding_one_max']:7} {report['median_half_width']:10.2%} {report['median_ratio'] - 1:+7.2%} "
                    f"{report['drift_range']:7.1%} {report['clock_mhz']:5.0f} {report['power_watts']:5.0f} "
                    f"{report['discarded_samples']:9} {report.get('duty_cycle', 0):5.2f} {seconds:5.0f}  {'ok' if good else 'NOT OK'}", flush=True)
        finally:
            log = pathlib.Path(data) / "log/tunefarmd.log"
            if log.exists():
                (out / "tunefarmd.log").write_bytes(log.read_bytes())
            subprocess.run([tunefarm, "stop", "--now"], capture_output=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
