#!/usr/bin/env python3
"""How fast the fused mixture-of-experts kernel is tuned: every config of its space for one number of tokens, with nothing
compiled before, verified and timed. Needs a GPU, and an interpreter with Triton 3.6.

Usage: fused_moe.py BIN [--python FILE] [--tokens N] [--product up|down|both] [--operands bf16|u8]

Prints configs per second, and how many configs had which outcome; what the definition rules out is counted apart.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

LISTED = 1921  # of the frameworks' own tuners, and SGLang's default
LAYER = {"E": 128, "topk": 8, "hidden": 2048, "intermediate": 768}  # Qwen3-30B-A3B


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--product", default="up", choices=("up", "down", "both"))
    parser.add_argument("--operands", default="bf16", choices=("bf16", "u8"))
    options = parser.parse_args()
    program = str(options.bin.resolve() / "tunefarm")
    dims = dict(LAYER, M=options.tokens, product=options.product, operands=options.operands)
    words = [word for name, value in dims.items() for word in ("--dim", f"{name}={value}")]
    with tempfile.TemporaryDirectory(prefix="tunefarm-moe.") as directory:
        environment = dict(os.environ, TUNEFARM_DATA_DIR=directory)

        def call(*arguments):
            done = subprocess.run([program, *arguments], env=environment, stdout=subprocess.PIPE, text=True,
                                  stdin=subprocess.DEVNULL)
            if done.returncode != 0:
                sys.exit(f"tunefarm {' '.join(arguments)} ended with {done.returncode}")
            return done.stdout

        try:
            call("tune", "fused_moe", *words, "--strategy", "exhaustive", "--python", options.python)
            job = json.loads(call("jobs", "show", "1", "--output", "json"))
        finally:
            subprocess.run([program, "stop", "--now"], env=environment, capture_output=True)
    job = job.get("job", job)
    (study,) = job["studies"]
    seconds = (int(job["ended_at_ms"]) - int(job["started_at_ms"])) / 1000
    done = int(study["progress"]["done"])
    outcomes = {item["outcome"].removeprefix("OUTCOME_"): int(item["count"]) for item in study["progress"]["outcomes"]}
    print(f"{study['device_class_name']}, {os.cpu_count()} cores, {study['problem']['key']}")
    print(f"{done} configs in {seconds:.1f} s, the final included: {done / seconds:.1f} configs/s")
    print(f"{LISTED - done} of the {LISTED} listed configs are ruled out before anything is compiled")
    print(", ".join(f"{count} {name}" for name, count in sorted(outcomes.items())))


if __name__ == "__main__":
    main()
