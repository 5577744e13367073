#!/usr/bin/env python3
"""The example configs that come with the Triton kernels of grouped_gemm's layers, run and verified by tunefarm.

Usage: example_configs.py BUNDLE OUT

Those kernels' guides show six configs: three for the first product of a layer, whose X is permuted (128x128x64, 8 warps,
4 stages, weights or dY by the copy engine), and three for the second one, whose Y is permuted. Each is run by `tunefarm run`
on the layers of Qwen3-30B-A3B; what it leaves open (warps along the rows, epilogue) takes any valid value. Prints a table;
OUT/example_configs.json has the trials. Exit code 1 unless every config is OK, which says that its output equals the
reference's.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

UP = {"tokens": 4096, "topk": 8, "E": 128, "N": 1536, "K": 2048, "permute_x": "true"}
DOWN = {"tokens": 4096, "topk": 8, "E": 128, "N": 2048, "K": 768, "permute_y": "true"}
EXAMPLES = [
    ("forward", UP, (128, 128, 64, 8, 4), {"path": "hopper", "use_tma_load_w": "true", "use_tma_load_x": "false"}),
    ("dx", UP, (128, 128, 64, 8, 4), {"path": "hopper", "use_tma_load_w": "true", "use_tma_store": "false"}),
    ("dw", UP, (128, 128, 64, 8, 4), {"path": "hopper", "use_tma_load_dy": "true", "use_tma_load_x": "false"}),
    ("forward", DOWN, (64, 128, 64, 8, 4), {"path": "portable"}),
    ("dx", DOWN, (64, 64, 256, 4, 2), {"path": "portable"}),
    ("dw", DOWN, (64, 64, 256, 4, 2), {"path": "portable"}),
]
NAMES = ("BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "num_warps", "num_stages")


def run(program, environment, op, layer, config):
    words = [f"{name}={value}" for name, value in config.items()]
    dims = [word for name, value in layer.items() for word in ("--dim", f"{name}={value}")]
    done = subprocess.run([program, "run", f"grouped_gemm_{op}", *words, *dims, "--device", "cuda", "--policy", "fast",
                           "--output", "json"], env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if not done.stdout.strip():
        return {"outcome": "not run", "message": done.stderr.strip()[-500:]}
    return json.loads(done.stdout)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    program = str(pathlib.Path(sys.argv[1]).resolve() / "bin/tunefarm")
    out = pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    trials = []
    with tempfile.TemporaryDirectory(prefix="tunefarm-examples.") as directory:
        environment = dict(os.environ, TUNEFARM_DATA_DIR=directory)
        print("| product | permuted | config | outcome | us | worst element, relative |\n|---|---|---|---|---|---|")
        for op, layer, tile, flags in EXAMPLES:
            trial = run(program, environment, op, layer, dict(zip(NAMES, tile), **flags))
            trials.append(dict(trial, op=op))
            us = trial.get("measurement", {}).get("median_ns", 0) / 1000
            worst = trial.get("verification", {}).get("max_relative_error", "")
            text = "x".join(map(str, tile[:3])) + f", {tile[3]} warps, {tile[4]} stages, {flags['path']}"
            print(f"| {op} | {'X' if 'permute_x' in layer else 'Y'} | {text} | {trial['outcome'].removeprefix('OUTCOME_')} | "
                  f"{us:.1f} | {worst} |", flush=True)
            if trial.get("message"):
                print(trial["message"], file=sys.stderr)
        subprocess.run([program, "stop", "--now"], env=environment, capture_output=True)
    (out / "example_configs.json").write_text(json.dumps(trials, indent=1) + "\n")
    sys.exit(any(trial["outcome"] != "OUTCOME_OK" for trial in trials))


if __name__ == "__main__":
    main()
