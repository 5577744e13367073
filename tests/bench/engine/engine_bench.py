#!/usr/bin/env python3
"""The engine benchmark: how close a whole tuning job comes to what its compiles and its device work alone would take.

It starts daemons of its own on empty directories, submits one job to each, and follows it from outside: trials a second,
how busy device and cores were, memory of the daemon, and the two bounds that no engine can beat:
  compile  CPU-seconds of the same compiles, made serially by one compile worker in a run apart, over the cores
  device   seconds that devices worked for the trials, over the devices
Prints a table last; --json FILE writes everything, the memory curve too. Works on HOST kernels without a GPU and on CUDA.

  engine_bench.py                                      noop_host, a process per trial and the shared process: the overhead
  engine_bench.py --isolation shared --trials 1000000  every config of noop_host: memory and rate over a million trials
  engine_bench.py --kernel matmul --trials 500 --policy fast --cache cold --cache warm --serial-compiles
  engine_bench.py --crash-every 10                     one config in ten crashes (the definition has a dim CRASH_EVERY)
"""

import argparse
import json
import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[3]
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
RUNNING = ("JOB_STATE_QUEUED", "JOB_STATE_RUNNING", "JOB_STATE_UNSPECIFIED", "")
TRIALS_READ_MAX = 20_000  # above, what the trials say one by one is not read back


def log(text):
    print(text, file=sys.stderr, flush=True)


def processes():
    """pid -> (parent, CPU seconds of itself, CPU seconds of the children it has waited for)."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        found[int(entry)] = (int(fields[1]), (int(fields[11]) + int(fields[12])) * TICK_S,
                             (int(fields[13]) + int(fields[14])) * TICK_S)
    return found


def machine_busy_s():
    with open("/proc/stat") as file:
        fields = [int(value) for value in file.readline().split()[1:]]
    return (sum(fields[:3]) + sum(fields[5:8])) * TICK_S  # all but idle and waiting for disks


def resident_mib(pid):
    try:
        with open(f"/proc/{pid}/status") as file:
            lines = dict(line.split(":", 1) for line in file if ":" in line)
        return int(lines["VmRSS"].split()[0]) / 1024, int(lines["VmHWM"].split()[0]) / 1024
    except (OSError, KeyError):
        return 0.0, 0.0


class Engine:
    """One daemon on one directory."""

    def __init__(self, options, directory, compile_workers):
        self.options, self.directory, self.compile_workers = options, directory, compile_workers
        self.process = None

    def start(self):
        command = [self.options.bin / "tunefarmd", "--data-dir", self.directory, "--compile-workers",
                   str(self.compile_workers)] + ([] if self.options.gpu else ["--no-gpu"])
        if self.options.share_cores:
            command.append("--share-host")
        with open(self.directory / "bench.log", "ab") as file:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
        end = time.monotonic() + 120
        while time.monotonic() < end:
            if self.process.poll() is not None:
                sys.exit(f"the daemon ended: {(self.directory / 'bench.log').read_text(errors='replace')[-2000:]}")
            if self.cli("status", check=False).returncode == 0:
                return self
            time.sleep(0.05)
        sys.exit("the daemon does not answer")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(120)

    def kill(self):
        self.process.kill()
        self.process.wait()

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

    def cpu_s(self):
        """CPU seconds of the daemon, and of all processes below it, the ended ones too."""
        found = processes()
        if self.process.pid not in found:
            return 0.0, 0.0
        below, frontier = set(), {self.process.pid}
        while frontier:
            frontier = {pid for pid, (parent, _, _) in found.items() if parent in frontier}
            below |= frontier
        _, own, waited = found[self.process.pid]
        return own, waited + sum(found[pid][1] + found[pid][2] for pid in below)


def submit(engine, options, isolation):
    arguments = ["submit", options.kernel, "--policy", options.policy, "--max-trials", options.trials,
                 "--strategy", options.strategy, "--host-isolation", isolation]
    if options.samples:
        arguments += ["--min-samples", options.samples, "--max-samples", options.samples]
    if options.warm_l2:
        arguments.append("--warm-cache")
    if not options.reuse:
        arguments += ["--measure", "no_reuse=true"]
    if options.device:
        arguments += ["--device", options.device]
    if options.crash_every:
        arguments += ["--dim", f"CRASH_EVERY={options.crash_every}"]
    for dim in options.dim:
        arguments += ["--dim", dim]
    for pin in options.pin:
        arguments += ["--pin", pin]
    return engine.cli(*arguments).stdout.strip()


def follow(engine, job, options, result):
    """Waits for the end of the job; samples memory and rates meanwhile. Kills and restarts the daemon once if asked to."""
    curve = []
    restart_at = options.restart_at
    while True:
        view = engine.json("jobs", "show", job)
        done = int(view.get("progress", {}).get("done", 0))
        now = time.monotonic()
        rss, peak = resident_mib(engine.process.pid)
        own, workers = engine.cpu_s()
        curve.append({"s": round(now - result["began"], 2), "trials": done, "rss_mib": round(rss, 1),
                      "peak_mib": round(peak, 1), "daemon_cpu_s": round(own, 2), "worker_cpu_s": round(workers, 2),
                      "machine_cpu_s": round(machine_busy_s(), 2)})
        if view.get("state", "") not in RUNNING:
            break
        if restart_at and done >= restart_at:
            restart_at = 0
            engine.kill()
            killed = time.monotonic()
            engine.start()
            while int(engine.json("jobs", "show", job).get("progress", {}).get("done", 0)) <= done:
                time.sleep(0.1)
            result["restart"] = {"trials": done, "until_next_trial_s": round(time.monotonic() - killed, 2),
                                 "peak_mib": round(resident_mib(engine.process.pid)[1], 1)}
        # A look costs a process; of a long run one for each thousandth is enough.
        time.sleep(max(options.poll, min(10, (now - result["began"]) / 100)))
    result["curve"] = curve
    return view


def read_trials(engine, job, result):
    listed = engine.json("results", job, "--all").get("trials", [])
    outcomes = {}
    for trial in listed:
        if trial.get("purpose") == "TRIAL_PURPOSE_SEARCH":
            name = trial.get("outcome", "OUTCOME_UNSPECIFIED").removeprefix("OUTCOME_")
            outcomes[name] = outcomes.get(name, 0) + 1
    result["outcomes"] = outcomes
    result["compile_s"] = sum(t.get("compile_ms", 0) for t in listed if not t.get("cached_binary")) / 1000
    result["compiles"] = sum(1 for t in listed if t.get("compile_ms", 0) > 0 and not t.get("cached_binary"))
    result["device_s"] = sum(t.get("device_busy_ms", 0) or t.get("run_ms", 0) for t in listed) / 1000
    result["held_s"] = sum(t.get("run_ms", 0) for t in listed) / 1000
    result["device_is_measured"] = any(t.get("device_busy_ms", 0) > 0 for t in listed)
    result["devices"] = len({t.get("device_uuid") for t in listed if t.get("device_uuid")}) or 1
    # A device holds a trial from the load of its binary to the restore of its inputs.
    searched = [(int(t["ended_at_ms"]) / 1000 - result["began_at_s"], t.get("run_ms", 0) / 1000) for t in listed
                if t.get("purpose") == "TRIAL_PURPOSE_SEARCH" and t.get("run_ms", 0) > 0]
    result["held"] = [[end - length, end] for end, length in searched]


def check_database(engine, trials_told, result):
    """What the daemon said against what is on disk."""
    with sqlite3.connect(f"file:{engine.directory}/tunefarm.db?mode=ro", uri=True) as database:
        (stored,) = database.execute("SELECT count(*) FROM trial_result WHERE purpose = 1").fetchone()
        (states,) = database.execute("SELECT count(*) FROM work_unit WHERE state <> 4").fetchone()
    database.close()
    result["stored"] = stored
    if stored != trials_told or states != 0:
        sys.exit(f"{trials_told} trials were reported done, {stored} are stored, {states} units are left over")


def run_once(engine, options, label, isolation):
    cores = len(os.sched_getaffinity(0))
    log(f"{label} ...")
    before_own, before_workers = engine.cpu_s()
    before_machine = machine_busy_s()
    result = {"label": label, "began": time.monotonic(), "began_at_s": time.time(), "cores": cores,
              "compile_workers": engine.compile_workers or cores}
    job = submit(engine, options, isolation)
    view = follow(engine, job, options, result)
    wall = time.monotonic() - result.pop("began")
    own, workers = engine.cpu_s()
    if "restart" in result:
        before_own = before_workers = 0.0
    if view.get("state") != "JOB_STATE_SUCCEEDED":
        sys.exit(f"the job ended as {view.get('state')}: {view.get('error')}")
    trials = int(view["progress"]["done"])
    # The search alone: submission, the final and the poll's coarseness are no rate.
    curve = [point for point in result["curve"] if point["trials"] > 0]
    steady = [point for point in curve if point["trials"] < trials] or curve
    if len(steady) > 1 and "restart" not in result:
        result["steady_rate"] = (steady[-1]["trials"] - steady[0]["trials"]) / (steady[-1]["s"] - steady[0]["s"])
    result.update(trials=trials, wall_s=wall, rate=trials / wall, peak_mib=max(p["peak_mib"] for p in result["curve"]),
                  daemon_cpu_us=1e6 * (own - before_own) / max(trials, 1),
                  worker_cpu_us=1e6 * (workers - before_workers) / max(trials, 1),
                  cpu_busy=(machine_busy_s() - before_machine) / wall / cores,
                  own_cpu_busy=(own - before_own + workers - before_workers) / wall / cores)
    if trials <= TRIALS_READ_MAX:
        read_trials(engine, job, result)
        result["device_busy"] = result["device_s"] / wall / result["devices"]
        result["device_bound_s"] = result["device_s"] / result["devices"]
    return result


def bound(result, serial_compile_s):
    if serial_compile_s is not None:
        result["compile_bound_s"] = serial_compile_s / result["cores"]
    bounds = [result[name] for name in ("compile_bound_s", "device_bound_s") if name in result]
    if bounds and max(bounds) > 0:
        result["wall_over_bound"] = result["wall_s"] / max(bounds)


def with_engine(options, compile_workers, body):
    """A fresh directory, deleted afterwards."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="tunefarm-bench.", dir=options.directory))
    engine = Engine(options, directory, compile_workers).start()
    try:
        return body(engine)
    finally:
        if engine.process.poll() is None:
            engine.stop()
        shutil.rmtree(directory, ignore_errors=True)


def measure(options):
    results = []
    serial_compile_s = None
    if options.serial_compiles:
        serial = with_engine(options, 1, lambda e: run_once(e, options, "one compile worker, cold", options.isolation[0]))
        if "compile_s" not in serial:
            sys.exit(f"--serial-compiles reads every trial back: at most {TRIALS_READ_MAX} of them")
        serial_compile_s = serial["compile_s"]
        results.append(serial)

    def body(isolation):
        def run(engine):
            for cache in options.cache:
                name = isolation if len(options.isolation) > 1 else ""
                label = f"{name + ', ' if name else ''}{cache} cache"
                if cache == "warm" and "cold" not in options.cache:
                    run_once(engine, options, "filling the cache", isolation)
                if cache == "warm":
                    engine.stop()
                    engine.start()
                results.append(run_once(engine, options, label, isolation))
            engine.stop()
            check_database(engine, sum(r["trials"] for r in results[-len(options.cache):]) if options.cache != ["warm"]
                           else 2 * results[-1]["trials"], results[-1])
        return run

    for isolation in options.isolation:
        with_engine(options, options.compile_workers, body(isolation))
    for result in results:
        bound(result, serial_compile_s if "cold" in result["label"] else 0.0 if "warm" in result["label"] else None)
    return results


def table(results):
    columns = [("", "label", "{}"), ("trials", "trials", "{:,}"), ("wall s", "wall_s", "{:.1f}"),
               ("trials/s", "rate", "{:.0f}"), ("steady/s", "steady_rate", "{:.0f}"),
               ("device", "device_busy", "{:.0%}"), ("CPU", "own_cpu_busy", "{:.0%}"), ("machine", "cpu_busy", "{:.0%}"),
               ("daemon us", "daemon_cpu_us", "{:.0f}"), ("workers us", "worker_cpu_us", "{:.0f}"),
               ("peak MiB", "peak_mib", "{:.0f}"), ("compile s", "compile_bound_s", "{:.1f}"),
               ("device s", "device_bound_s", "{:.1f}"), ("wall/bound", "wall_over_bound", "{:.2f}")]
    columns = [c for c in columns if any(c[1] in result for result in results)]
    rows = [[title for title, _, _ in columns]]
    for result in results:
        rows.append([shape.format(result[key]) if key in result else "-" for _, key, shape in columns])
    widths = [max(len(row[i]) for row in rows) for i in range(len(columns))]
    lines = ["  ".join(cell.ljust(width) if i == 0 else cell.rjust(width)
                       for i, (cell, width) in enumerate(zip(row, widths))) for row in rows]
    return "\n".join(lines)


def held_s(result, begin, end):
    """Seconds between the two that the devices, taken together, held trials of the search."""
    return sum(max(0.0, min(end, until) - max(begin, since)) for since, until in result["held"])


def where_time_goes(result):
    """The wall time as each resource saw it: seconds for each device, each compile worker, and the daemon's threads."""
    devices, wall, held = result["devices"], result["wall_s"], result["held"]
    first, last = min(since for since, _ in held), max(until for _, until in held)
    in_search = sum(until - since for since, until in held) / devices
    rows = [("before the first trial is on a device", first),
            ("search, a device works", result["device_s"] / result["held_s"] * in_search),
            ("search, a device holds a trial and waits", (1 - result["device_s"] / result["held_s"]) * in_search),
            ("search, a device has no trial", last - first - in_search),
            ("final and end", wall - last),
            ("wall", wall),
            (f"a compile worker compiles ({result['compile_workers']} of them)", result["compile_s"] / result["compile_workers"]),
            ("the daemon's threads compute", result["daemon_cpu_us"] * result["trials"] / 1e6)]
    return "\n".join(f"  {name:<52}{seconds:>9.2f} s {seconds / wall:>7.1%}" for name, seconds in rows)


def over_time(result, points=10):
    """The run in parts of as many trials each: what grows with the trials shows here."""
    curve, trials = result["curve"], result["trials"]
    rows = [("trials", "s", "trials/s", "daemon MiB", "daemon us", "workers us", "machine", "devices")]
    before = curve[0]
    for part in range(1, points + 1):
        now = next((p for p in curve if p["trials"] * points >= part * trials), curve[-1])
        count, seconds = now["trials"] - before["trials"], now["s"] - before["s"]
        if count <= 0 or seconds <= 0:
            continue
        cpu = [(now[name] - before[name]) for name in ("daemon_cpu_s", "worker_cpu_s", "machine_cpu_s")]
        # Across a restart the counters begin anew.
        us = [f"{1e6 * spent / count:.0f}" if spent >= 0 else "-" for spent in cpu[:2]]
        rows.append((f"{now['trials']:,}", f"{now['s']:.0f}", f"{count / seconds:.0f}", f"{now['rss_mib']:.1f}", *us,
                     f"{cpu[2] / seconds / result['cores']:.0%}",
                     f"{held_s(result, before['s'], now['s']) / seconds / result['devices']:.0%}" if "held" in result else "-"))
        before = now
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths)) for row in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=SOURCE / "build/release/bin", help="the programs to measure")
    parser.add_argument("--kernel", default=str(SOURCE / "kernels/examples/noop_host"))
    parser.add_argument("--dim", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--pin", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--device", default="", help="as for tunefarm tune --device")
    parser.add_argument("--gpu", action="store_true", help="let the daemon use GPUs (implied by a --device that is not host)")
    parser.add_argument("--trials", type=int, default=50_000)
    parser.add_argument("--strategy", default="exhaustive")
    parser.add_argument("--policy", default="fast")
    parser.add_argument("--samples", type=int, default=None, help="samples of a config (default: 1 for noop_host, else the policy's)")
    parser.add_argument("--flush", action="store_true", help="flush caches between samples also for noop_host")
    parser.add_argument("--reuse", action="store_true", help="let equal configs be measured once")
    parser.add_argument("--isolation", action="append", choices=["process", "shared"], help="of host trials; may be repeated")
    parser.add_argument("--compile-workers", type=int, default=0, help="0: one per core")
    parser.add_argument("--cache", action="append", choices=["cold", "warm"], help="of compiled binaries; may be repeated")
    parser.add_argument("--serial-compiles", action="store_true", help="measure the compile bound in a run apart, first")
    parser.add_argument("--crash-every", type=int, default=0, metavar="N", help="one config in N crashes")
    parser.add_argument("--restart-at", type=int, default=0, metavar="TRIALS", help="kill -9 the daemon after so many trials")
    parser.add_argument("--directory", help="where the databases go (default: the system's temporary folder)")
    parser.add_argument("--share-cores", action="store_true", help="measure although another daemon does, and be wrong")
    parser.add_argument("--poll", type=float, default=0.5, help="seconds between looks at the job")
    parser.add_argument("--json", type=pathlib.Path, help="write everything there")
    options = parser.parse_args()
    noop = pathlib.Path(options.kernel).name == "noop_host"
    options.gpu = options.gpu or options.device not in ("", "host")
    options.isolation = options.isolation or (["process", "shared"] if noop else ["process"])
    options.cache = options.cache or ["cold"]
    options.samples = options.samples if options.samples is not None else (1 if noop else 0)
    options.warm_l2 = noop and not options.flush
    results = measure(options)
    if options.json:
        options.json.write_text(json.dumps({"options": {k: str(v) for k, v in vars(options).items()}, "results": results},
                                           indent=1) + "\n")
    for result in results:
        print(f"{result['label']}: over the run, each line since the one before (peak {result['peak_mib']:.1f} MiB)")
        print(over_time(result))
        if "outcomes" in result:
            print(f"{result['label']}: outcomes {result['outcomes']}")
        if result.get("held") and "restart" not in result:
            print(f"{result['label']}: where the time goes; of devices and compile workers, each one's mean")
            print(where_time_goes(result))
        if "restart" in result:
            print(f"{result['label']}: after kill -9 at {result['restart']['trials']:,} trials the next trial ended within "
                  f"{result['restart']['until_next_trial_s']} s, peak {result['restart']['peak_mib']} MiB")
    print(table(results))


if __name__ == "__main__":
    main()
