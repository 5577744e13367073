#!/usr/bin/env python3
"""How much of the time a device works while a search runs whose binaries are cached.

  device_busy.py BUNDLE_DIRECTORY [--trials 500] [--size 4096] [--policy default]

The same configs of matmul in bf16 are tried twice, without reuse; the first job fills the cache of binaries. Of the second one
the time from the first search trial's begin to the last one's end counts, and as work what the device's events saw: inputs set
back, flushes, launches, checks. Prints a table last. Ends with 1 where the device worked less than 80 % of the time.
"""

import argparse
import pathlib
import re
import statistics
import sys

from daemon_of_its_own import DaemonOfItsOwn

BUSY_MIN = 0.8


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=pathlib.Path)
    parser.add_argument("--trials", type=int, default=500)
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--policy", default="default")
    parser.add_argument("--keep-early-stop", action="store_true", help="leave what loses early, as a search does")
    arguments = parser.parse_args()
    dims = [f"--dim={name}={arguments.size}" for name in "MNK"] + ["--dim=dtype=bf16"]
    knobs = ["no_reuse=true"] + ([] if arguments.keep_early_stop else ["no_early_stop=true"])
    with DaemonOfItsOwn(arguments.bundle / "bin", TUNEFARM_LOG_LEVEL="exec=debug") as call:
        for _ in range(2):
            call("tune", "matmul", "--device", "cuda", *dims, "--strategy", "random", "--seed", 1, "--max-trials",
                 arguments.trials, "--policy", arguments.policy, "--no-memory", "--rows", 0,
                 *[word for knob in knobs for word in ("--measure", knob)])
        trials = call.json("results", 2, "--all").get("trials", [])
        log = call.log()
    ran = [t for t in trials if t.get("purpose") == "TRIAL_PURPOSE_SEARCH" and float(t.get("run_ms", 0)) > 0]
    ended = [int(t["ended_at_ms"]) for t in ran]
    wall_ms = max(ended) - min(end - float(t["run_ms"]) for end, t in zip(ended, ran))
    busy_ms = [float(t.get("device_busy_ms", 0)) for t in ran]
    cached = sum(bool(t.get("cached_binary")) for t in ran)
    busy = sum(busy_ms) / wall_ms
    phases = [[float(x) for x in found] for found in re.findall(
        r"load ([\d.]+) ms, launch and verify ([\d.]+) ms, measure ([\d.]+) ms, of which the device worked ([\d.]+) ms", log)]
    phases = phases[-len(ran):]
    if phases:
        for name, column in zip(("load", "launch and verify", "measure", "of these the device"), zip(*phases)):
            print(f"{name:20} {statistics.mean(column):8.2f} ms a trial, median {statistics.median(column):.2f}")
    readings = [float(x) for x in re.findall(r"readings of the conditions took ([\d.]+) ms", log)][-len(ran):]
    if readings:
        print(f"{'reading conditions':20} {statistics.mean(readings):8.2f} ms a trial, median {statistics.median(readings):.2f}")
    measured = [float(t["measurement"]["device_busy_ms"]) for t in ran if t.get("measurement", {}).get("device_busy_ms")]
    print(f"{'device in measure':20} {statistics.mean(measured):8.2f} ms a trial, median {statistics.median(measured):.2f}")
    run_ms = [float(t["run_ms"]) for t in ran]
    print(f"{'trials':>7} {'cached':>7} {'wall s':>7} {'trials/s':>9} {'run ms':>7} {'device ms':>10} {'busy':>6}")
    print(f"{len(ran):7} {cached:7} {wall_ms / 1e3:7.2f} {len(ran) / wall_ms * 1e3:9.1f} {statistics.mean(run_ms):7.2f} "
          f"{statistics.mean(busy_ms):10.2f} {busy:6.1%}")
    return 0 if busy >= BUSY_MIN else 1


if __name__ == "__main__":
    sys.exit(main())
