#!/usr/bin/env python3
"""Judges what gpu_report.sh wrote: shares of cuBLAS, all configs verified, every fault under its own outcome."""

import csv
import json
import pathlib
import sys

FAULTS = {
    "none": "OK", "compile_error": "COMPILE_ERROR", "static_shared_excess": "COMPILE_ERROR",
    "shared_memory_excess_at_launch": "INFEASIBLE_LAUNCH", "launch_bounds_excess": "INFEASIBLE_LAUNCH",
    "registers_excess": "INFEASIBLE_LAUNCH", "device_memory_exhaustion": "OUT_OF_MEMORY", "illegal_address": "RUN_CRASH",
    "misaligned_address": "RUN_CRASH", "trap": "RUN_CRASH", "infinite_loop": "RUN_TIMEOUT", "wrong_result": "WRONG_RESULT",
    "nan_output": "WRONG_RESULT", "unwritten_output": "WRONG_RESULT", "out_of_bounds_write": "OUT_OF_BOUNDS",
    "out_of_bounds_before": "OUT_OF_BOUNDS", "input_write": "OUT_OF_BOUNDS",
}
FLOPS = 2 * 4096**3


def rows(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def main():
    out = pathlib.Path(sys.argv[1])
    failures = []
    print("\nmatmul 4096^3        configs  not OK   best us  TFLOP/s  cuBLAS us  TFLOP/s  share  required")
    for job, dtype, required in ((1, "f32", 0.70), (2, "bf16", 0.45)):
        trials = rows(out / f"job{job}.csv")
        search = [t for t in trials if t["purpose"] == "SEARCH"]
        bad = {}
        for trial in search:
            if trial["outcome"] != "OK":
                bad[trial["outcome"]] = bad.get(trial["outcome"], 0) + 1
        final = [float(t["median_ns"]) for t in trials if t["purpose"] == "FINALIST" and t["outcome"] == "OK"]
        base = [float(t["median_ns"]) for t in trials if t["purpose"] == "BASELINE" and t["outcome"] == "OK"]
        if not final or not base:
            failures.append(f"{dtype}: no finalist or no cuBLAS baseline")
            continue
        best, cublas = min(final), base[-1]  # the last baseline is the one of the same final
        share = cublas / best
        print(f"{dtype:20} {len(search):8} {sum(bad.values()):7} {best / 1e3:9.1f} {FLOPS / best / 1e3:8.1f} "
              f"{cublas / 1e3:10.1f} {FLOPS / cublas / 1e3:8.1f} {share:6.1%} {required:8.0%}  {bad or ''}")
        if share < required:
            failures.append(f"{dtype}: {share:.1%} of cuBLAS, {required:.0%} required")
    print("\nfault                            outcome            expected")
    trials = [t for t in json.load(open(out / "faulty.json"))["trials"] if t.get("purpose") == "TRIAL_PURPOSE_SEARCH"]
    seen = set()
    for trial in sorted(trials, key=lambda t: int(t.get("ordinal", 0))):
        fault = trial["config"]["FAULT"]
        outcome = trial["outcome"].removeprefix("OUTCOME_")
        seen.add(fault)
        wrong = outcome != FAULTS.get(fault)
        if fault != "none" or wrong:
            print(f"{fault:32} {outcome:18} {FAULTS.get(fault)}{'   <-- ' + trial.get('message', '') if wrong else ''}")
        if wrong:
            failures.append(f"{fault}: {outcome}")
    missing = set(FAULTS) - seen
    if missing:
        failures.append(f"faults without a trial: {sorted(missing)}")
    print("\n" + ("FAILED: " + "; ".join(failures) if failures else "all as required"))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
