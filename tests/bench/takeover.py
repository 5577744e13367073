#!/usr/bin/env python3
"""What crashes cost on a GPU: tunes kernels/matmul once as it is and once with a share of configs that break the GPU's
context (an illegal address before the launch), and reads from the daemon how long each crash interrupted the work.

Both runs have the same configs, binaries and policy; their finals, whose lengths depend on the power that finalists need,
are timed apart. A parameter FAULT of ten values is added to the definition, and in the second run one of its values makes
an extra launch that faults. A third run has one config that never ends.

  takeover.py [--bin DIR] [--trials 200] [--size 4096] [--dtype bf16] [--policy fast] [--device UUID]
Prints a row after each run; exit code 1 when a promise is broken.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from daemon_of_its_own import clean_up_when_terminated

SOURCE = pathlib.Path(__file__).resolve().parents[2]

FAULT_KERNEL = """
// Breaks the context of whoever runs it, or never ends.
extern "C" __global__ void inject_fault(int kind) {
  volatile int* const nowhere = reinterpret_cast<volatile int*>(16);
  if (kind == 1) *nowhere = 1;
  while (kind == 2) asm volatile("nanosleep.u32 1000;");
}
"""


def definition(folder, condition, kind):
    """kernels/matmul with the parameter FAULT; where `condition` holds a launch of its own faults."""
    shutil.copytree(SOURCE / "kernels/matmul", folder)
    text = (folder / "kernel.pbtxt").read_text()
    text += f"""
parameters {{ name: "FAULT" range {{ first: 0 last: 9 }} default_value {{ int_value: 5 }} bind: BIND_RUN }}
arguments {{ name: "fault_kind" scalar {{ data_type: DATA_TYPE_I32 value: "{kind} if {condition} else 0" }} }}
launches {{
  kernel {{ entry: "inject_fault" grid: "1" block: "1" arguments: ["fault_kind"] }}
  when: "{condition}"
  untimed: true
}}
"""
    (folder / "kernel.pbtxt").write_text(text)
    with open(folder / "matmul.cu", "a") as file:
        file.write(FAULT_KERNEL)
    return folder


class Daemon:
    def __init__(self, options, directory):
        self.options, self.directory = options, directory
        self.log = directory / "bench.log"

    def __enter__(self):
        command = [self.options.bin / "tunefarmd", "--data-dir", self.directory, "--log-level", "exec=debug",
                   "--launch-timeout-ms", "3000"]
        with open(self.log, "wb") as file:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
        end = time.monotonic() + 120
        while self.cli("status", check=False).returncode != 0:
            if self.process.poll() is not None or time.monotonic() > end:
                sys.exit(f"the daemon does not answer: {self.log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.05)
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(120)

    def cli(self, *arguments, check=True):
        environment = dict(os.environ, TUNEFARM_DATA_DIR=str(self.directory), TUNEFARM_KERNELS=str(SOURCE / "kernels"))
        environment.pop("TUNEFARM_SERVER", None)
        done = subprocess.run([self.options.bin / "tunefarm", *map(str, arguments)], capture_output=True, text=True,
                              env=environment, stdin=subprocess.DEVNULL)
        if check and done.returncode != 0:
            sys.exit(f"tunefarm {' '.join(map(str, arguments))}:\n{done.stdout}{done.stderr}")
        return done

    def json(self, *arguments):
        return json.loads(self.cli("--output", "json", *arguments).stdout or "{}")


def tune(daemon, kernel, options, policy, trials, pins=()):
    """The trials of a job's search, its seconds until the last of them ended, and those of its final."""
    arguments = ["submit", kernel, "--policy", policy, "--max-trials", trials, "--strategy", "random", "--seed", 7,
                 "--measure", "no_reuse=true"]
    for name, value in (("M", options.size), ("N", options.size), ("K", options.size), ("dtype", options.dtype)):
        arguments += ["--dim", f"{name}={value}"]
    for pin in pins:
        arguments += ["--pin", pin]
    if options.device:
        arguments += ["--device", options.device]
    job = daemon.cli(*arguments).stdout.strip()
    while True:
        view = daemon.json("jobs", "show", job)
        if view.get("state") not in ("JOB_STATE_QUEUED", "JOB_STATE_RUNNING", None):
            break
        time.sleep(0.1)
    if view["state"] != "JOB_STATE_SUCCEEDED":
        sys.exit(f"the job ended as {view['state']}: {view.get('error')}")
    listed = daemon.json("results", job, "--all").get("trials", [])
    found = [t for t in listed if t.get("purpose") == "TRIAL_PURPOSE_SEARCH"]
    searched_ms = max(int(t["ended_at_ms"]) for t in found)
    return found, (searched_ms - int(view["started_at_ms"])) / 1e3, (int(view["ended_at_ms"]) - searched_ms) / 1e3


def outcomes(trials):
    counts = {}
    for trial in trials:
        name = trial.get("outcome", "OUTCOME_UNSPECIFIED").removeprefix("OUTCOME_")
        counts[name] = counts.get(name, 0) + 1
    return counts


def measure(options, name, condition, kind, trials, pins=()):
    work = pathlib.Path(tempfile.mkdtemp(prefix="tunefarm-takeover."))
    try:
        kernel = definition(work / "matmul", condition, kind)
        (work / "data").mkdir()
        with Daemon(options, work / "data") as daemon:
            # Compiles are not what is measured: the second job finds every binary.
            print(f"{name}: filling the binary cache ...", file=sys.stderr, flush=True)
            tune(daemon, definition(work / "warm", "FAULT > 99", 0), options, "fast", trials, pins)
            print(f"{name}: measuring ...", file=sys.stderr, flush=True)
            found, search_s, final_s = tune(daemon, kernel, options, options.policy, trials, pins)
            devices = daemon.json("devices").get("devices", [])
        log = daemon.log.read_text(errors="replace")
        if options.keep_log:
            shutil.copy(daemon.log, f"{options.keep_log}.{name.replace(' ', '_')}")
    finally:
        shutil.rmtree(work, ignore_errors=True)
    gaps = [(float(ms), how) for ms, how in re.findall(r"continues ([0-9.]+) ms after the crash: (the standby took over|a new worker was started)", log)]
    runners = len(re.findall(r" run-[^ ]* is ready: ", log))
    ok_ms = [t.get("run_ms", 0.0) for t in found if t.get("outcome") == "OUTCOME_OK"]
    return {"name": name, "search_s": search_s, "final_s": final_s, "ok_ms": statistics.median(ok_ms), "trials": found,
            "outcomes": outcomes(found), "gaps": gaps, "runners": runners,
            "quarantined": [d["uuid"] for d in devices if d.get("state") == "DEVICE_STATE_QUARANTINED"],
            "log": log}


def quantile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else float("nan")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=SOURCE / "build/release/bin")
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--dtype", default="bf16")
    parser.add_argument("--policy", default="fast")
    parser.add_argument("--device", default="")
    parser.add_argument("--keep-log", default="", help="copy each daemon's log to this path and a suffix")
    options = parser.parse_args()
    clean_up_when_terminated()
    broken, runs = [], []
    print(f"{'run':<20} {'trials':>6} {'search s':>8} {'final s':>7} {'OK ms':>6} {'crashes':>7} {'runners':>7} {'gaps':>5} "
          f"{'median ms':>9} {'p90 ms':>7} {'max ms':>7} {'stood by':>8}  outcomes")
    for name, condition, kind, trials in (("none crash", "FAULT > 99", 0, options.trials),
                                          ("one in ten crashes", "FAULT == 0", 1, options.trials),
                                          ("some never end", "FAULT == 0 and GROUP_M == 8", 2, 30)):
        run = measure(options, name, condition, kind, trials)
        runs.append(run)
        crashes = run["outcomes"].get("RUN_CRASH", 0) + run["outcomes"].get("RUN_TIMEOUT", 0)
        gaps = [ms for ms, _ in run["gaps"]]
        standing = sum(how == "the standby took over" for _, how in run["gaps"])
        median = statistics.median(gaps) if gaps else float("nan")
        print(f"{name:<20} {len(run['trials']):>6} {run['search_s']:>8.1f} {run['final_s']:>7.1f} "
              f"{run['ok_ms']:>6.0f} {crashes:>7} {run['runners']:>7} {len(gaps):>5} {median:>9.1f} "
              f"{quantile(gaps, 0.9):>7.1f} {max(gaps, default=float('nan')):>7.1f} {standing:>8}  {run['outcomes']}", flush=True)
        if run["quarantined"]:
            broken.append(f"{run['name']}: {run['quarantined']} left service")
        if run["runners"] != crashes + 2:
            broken.append(f"{run['name']}: {run['runners']} runners were started for {crashes} crashes")
    base, crashing, hanging = runs
    slower = crashing["search_s"] / base["search_s"] - 1
    print(f"the search with crashes: {100 * slower:+.1f} %")
    crash_gaps = [ms for ms, _ in crashing["gaps"]]
    if not crash_gaps or statistics.median(crash_gaps) > 50:
        broken.append("the median gap after a crash is above 50 ms")
    if slower > 0.10:
        broken.append("crashes cost more than 10 % of the search's time")
    if any(ms > 1000 for ms, _ in hanging["gaps"]) or not hanging["gaps"]:
        broken.append("a config that never ends held the job up for more than a second after its timeout")
    for sentence in broken:
        print("BROKEN:", sentence)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
