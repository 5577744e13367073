#!/usr/bin/env python3
"""Brings the sm_90a kernels of kernels/grouped_gemm up on a GPU: smallest primitives first, each step in a process of its own
with a time limit, so that a hang costs seconds and the next step goes on. Needs the driver, NVRTC and numpy; nothing is built.

  hopper_bringup.py                     probes, then whole kernels from the simplest config on; a table of what passed
  hopper_bringup.py --only dw,swap      steps whose names contain any of these
  hopper_bringup.py --sample 60 --seed 1  random configs of the definitions instead
  hopper_bringup.py --time              candidate configs on the benchmark shapes: microseconds and TFLOP/s
  hopper_bringup.py --compile           compile only (needs no GPU); with --strict spills and ptxas's C75xx are failures

All values of a check are small whole numbers, so that every bit must be right. Exit code 1 if any step failed.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time

from cuda_driver import compile_source, nvrtc_is_there
from hopper_definition import Definition, headers, source
from hopper_steps import PROBES, STEPS, TIMED

HERE = os.path.dirname(os.path.abspath(__file__))
WAITS_MAX = 2000000  # Tries of one barrier wait before the launch is ended.


def compile_step(step, folder):
    """Fills in step["cubin"] and step["log"]."""
    definition = Definition(step["op"])
    values = definition.environment(step["problem"], step["config"])
    step["broken"] = definition.broken(values, slow=True)
    macros = definition.macros(values, step["dtype"])
    if not step.get("timed") and not step["strict"]:
        macros["HOPPER_WAITS_MAX"] = WAITS_MAX
    if step["kind"] == "probe":
        macros["GROUPED_GEMM_OP"] = {"forward": "OP_FORWARD", "dx": "OP_DX", "dw": "OP_DW"}[step["op"]]
        text = open(os.path.join(HERE, "hopper_probes.cu"), encoding="utf-8").read()
    else:
        text = source(step["op"])
        text += "\nstatic_assert(hopper::SharedBytes(%d) == %d);\n" % (values["E"], values["hopper_shared_bytes"])
    cubin, log = compile_source(text, headers(), macros)
    entry = re.search(r"Compiling entry function 'grouped_gemm_%s'.*?Used (\d+) registers" % step["op"], log, flags=re.S)
    stack = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores", entry.group(0)) if entry else None
    step["spills"] = stack.group(0) if stack and (int(stack.group(1)) or int(stack.group(2))) else ""
    step["warnings"] = sorted(set(re.findall(r"C75\d\d", log)))
    step["log"] = "" if cubin else log[:2000]
    if cubin:
        step["cubin"] = os.path.join(folder, hashlib.sha256(json.dumps([macros, step["kind"]]).encode()).hexdigest()[:16] + ".cubin")
        with open(step["cubin"], "wb") as file:
            file.write(cubin)
    return step


def run_step(step, limit_s):
    begin = time.monotonic()
    child = subprocess.Popen([sys.executable, os.path.join(HERE, "hopper_step.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
    try:
        out, err = child.communicate(json.dumps(step), timeout=limit_s)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        return "HANGS (killed after %d s)" % limit_s, time.monotonic() - begin
    lines = [line for line in out.splitlines() if line.strip()]
    if child.returncode != 0 or not lines:
        return "DIED: " + (err.strip().splitlines() or ["no output"])[-1], time.monotonic() - begin
    return lines[-1], time.monotonic() - begin


def describe(step):
    config = step["config"]
    tile = "%sx%sx%s" % tuple(config.get("BLOCK_SIZE_" + axis, "-") for axis in "MNK")
    rest = [key + "=" + str(int(value) if isinstance(value, bool) else value) for key, value in sorted(config.items())
            if not key.startswith("BLOCK_SIZE") and key not in ("path", "warps_m", "min_blocks")]
    return tile + " " + " ".join(rest)


def choose(arguments):
    if arguments.sample:
        numbers = random.Random(arguments.seed)
        steps = []
        for i in range(arguments.sample):
            pattern = numbers.choice([step for step in STEPS if step["kind"] == "kernel"])
            step = dict(pattern, name="sample %d" % i, config=Definition(pattern["op"]).draw(pattern["problem"], numbers))
            steps.append(step)
        return steps
    steps = TIMED if arguments.time else PROBES + STEPS
    if arguments.only:
        steps = [step for step in steps if any(word in step["name"] for word in arguments.only.split(","))]
    return steps


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--time", action="store_true")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--keep", default="", help="folder that keeps the cubins, for cuobjdump -sass")
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--limit", type=int, default=25, help="seconds for one step")
    parser.add_argument("--stop", type=int, default=12, help="failures after which no more steps are run")
    arguments = parser.parse_args()
    if arguments.compile and not nvrtc_is_there():
        print("Skipped: no NVRTC.")
        return 77
    steps = [dict(step, strict=arguments.strict) for step in choose(arguments)]
    failed = 0
    with tempfile.TemporaryDirectory() as temporary, concurrent.futures.ProcessPoolExecutor(os.cpu_count()) as pool:
        folder = arguments.keep or temporary
        os.makedirs(folder, exist_ok=True)
        compiled = pool.map(compile_step, steps, [folder] * len(steps))
        for step in compiled:
            note = " ".join([step["spills"]] + step["warnings"]).strip()
            if step["broken"]:
                result, seconds = "INVALID: " + step["broken"], 0
            elif step["log"]:
                result, seconds = "DOES NOT COMPILE\n" + step["log"], 0
            elif arguments.compile or failed >= arguments.stop:
                result, seconds = "compiled", 0
            else:
                result, seconds = run_step(step, arguments.limit)
            ok = (result.startswith("ok") or result == "compiled") and not (arguments.strict and note)
            failed += not ok
            print("%-4s %-28s %-60s %5.1fs %s %s" % ("ok" if ok else "BAD", step["name"], result, seconds, note,
                                                  "" if ok and not arguments.time and not arguments.sample else describe(step)), flush=True)
    print("%d steps, %d failed" % (len(steps), failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
