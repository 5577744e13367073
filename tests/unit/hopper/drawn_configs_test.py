#!/usr/bin/env python3
"""Draws configs of the definitions' Hopper path and runs each on the machine: hopper_test has chosen ones only.

Usage: drawn_configs_test.py COMPILER [--count N] [--seed N]
"""

import argparse
import concurrent.futures
import os
import random
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
HERE = "tests/unit/hopper/"
sys.path.insert(0, os.path.join(ROOT, "tests", "gpu"))
from hopper_definition import Definition  # noqa: E402

PROBLEM = dict(tokens=4096, topk=8, E=128, N=1536, K=2048, permute_x=False, permute_y=False, fuse_mul_post=False)
FLAGS = [{}, {"permute_x": True}, {"permute_y": True}, {"permute_y": True, "fuse_mul_post": True}]
# In the macros that the tuner defines, but not of this path, or words of the C++ library.
LEFT_OUT = ["path", "path_hopper", "warps_m", "min_blocks", "persistent", "epilogue", "schedule", "gate_up"]


def compile_file(compiler, file, out, macros=()):
    command = [compiler, "-std=c++20", "-O1", "-w", "-I" + ROOT] + ["-D%s=%s" % item for item in macros]
    done = subprocess.run(command + ["-c", os.path.join(ROOT, HERE + file), "-o", out], capture_output=True, text=True)
    return done.stderr if done.returncode else ""


def try_config(compiler, folder, shared, number, macros):
    """What is wrong with it, or an empty string."""
    part = os.path.join(folder, "case_%d.o" % number)
    program = os.path.join(folder, "case_%d" % number)
    error = compile_file(compiler, "kernel_case.cc", part, list(macros.items()) + [("TUNEFARM_CASE", "drawn_%d" % number)])
    if error:
        return "does not compile: " + error[:1000]
    subprocess.run([compiler, part, *shared, "-o", program, "-lgtest", "-lgtest_main", "-lpthread"], check=True)
    done = subprocess.run([program, "--gtest_filter=Configs*"], capture_output=True, text=True, timeout=600)
    return done.stdout[-3000:] if done.returncode else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("compiler")
    parser.add_argument("--count", type=int, default=80 if os.environ.get("TUNEFARM_NIGHTLY") == "1" else 3)
    parser.add_argument("--seed", type=int, default=20261121)
    arguments = parser.parse_args()
    numbers = random.Random(arguments.seed)
    definitions = {op: Definition(op) for op in ("forward", "dx", "dw", "forward_fp8", "gate_up", "gate_up_fp8")}
    configs = []
    for _ in range(arguments.count):
        op = numbers.choice(sorted(definitions))
        problem = dict(PROBLEM, **numbers.choice(FLAGS if op.startswith("forward") else FLAGS[:3]))
        fp8 = op.endswith("_fp8")
        gate_up = op.startswith("gate_up")
        problem.update({"scale_layout": "row_major"} if fp8 else {})
        problem.update({"gate_up": numbers.choice(["split", "blocks"])} if gate_up else {})
        values = definitions[op].environment(problem, definitions[op].draw(problem, numbers))
        macros = definitions[op].macros(values, "fp8" if fp8 else numbers.choice(["bf16", "f16"]))
        macros = {name: value for name, value in macros.items() if name not in LEFT_OUT}
        macros.update(TUNEFARM_EXPERTS=problem["E"], TUNEFARM_SHARED_BYTES=definitions[op].launch(values)["shared"])
        macros.update({"quantize_y": 1} if fp8 and gate_up else {})
        configs.append(dict(macros, GROUPED_GEMM_OP="OP_" + op.upper() if op in ("dx", "dw") else "OP_FORWARD"))
    failed = 0
    os.environ.pop("TUNEFARM_NIGHTLY", None)  # One round of sizes each: many configs say more than many sizes.
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        shared = [os.path.join(folder, name + ".o") for name in ("machine", "machine_memory", "kernel_test")]
        for out in shared:
            error = compile_file(arguments.compiler, os.path.basename(out)[:-2] + ".cc", out)
            if error:
                raise SystemExit(error)
        jobs = [pool.submit(try_config, arguments.compiler, folder, shared, i, macros) for i, macros in enumerate(configs)]
        for macros, job in zip(configs, jobs):
            wrong = job.result()
            if wrong:
                failed += 1
                print(" ".join("-D%s=%s" % item for item in macros.items()), wrong, sep="\n", flush=True)
    print("%d configs of seed %d, %d failed" % (arguments.count, arguments.seed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
