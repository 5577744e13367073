#!/usr/bin/env python3
"""What a farm takes in through gRPC and mTLS: agents that only play, a real control daemon, PostgreSQL, all on this machine.

  farm_load.py [--bin DIR] [--agents 8] [--jobs 16] [--studies 1] [--trials 4000000] [--seconds 60] [--rate 0]
               [--hold-transaction] [--goal-rate X] [--goal-cores Y]

The agents speak to control as agents do, each over a connection of its own; what they report is invented. --rate: trials a
second of all of them (a simulated farm); 0: as many as control takes. --hold-transaction: another session keeps a
transaction open all the time, so that vacuum may remove nothing. Each job has problems of its own. Prints trials a second for
each sixth of the run, what the processes cost, and how long calls took. The exit code is 1 when a goal is missed: --goal-rate
by the slowest sixth, --goal-cores by the control daemon.
"""

import argparse
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

SOURCE = pathlib.Path(__file__).resolve().parents[3]
KERNEL = pathlib.Path(__file__).resolve().parent / "wide_host"
PARTS = 6


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=SOURCE / "build/release/bin", help="the programs to measure")
    parser.add_argument("--agents", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=16)
    parser.add_argument("--studies", type=int, default=1, help="of each job")
    parser.add_argument("--trials", type=int, default=4_000_000, help="of each study, at most")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--warm-up", type=int, default=5, help="seconds before anything is counted")
    parser.add_argument("--rate", type=float, default=0)
    parser.add_argument("--hold-transaction", action="store_true")
    parser.add_argument("--goal-rate", type=float, default=0)
    parser.add_argument("--goal-cores", type=float, default=0)
    parser.add_argument("--profile", type=pathlib.Path, help="perf record of the control daemon, into this file")
    return parser.parse_args()


def cores_of(pids):
    """Processor time of processes so far, in seconds."""
    ticks = 0
    for pid in pids:
        try:
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        except FileNotFoundError:
            continue
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def children_of(pid):
    return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()]


class Load:
    """The played agents."""

    def __init__(self, options, address, certificates):
        self.process = subprocess.Popen(
            [options.bin / "farm_load", "--control", address, "--tls-ca", certificates / "ca.pem", "--tls-certificate",
             certificates / "agents.pem", "--tls-key", certificates / "agents.key", "--agents", str(options.agents),
             "--rate", str(options.rate)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline().strip() != "registered":
            sys.exit("the agents have ended before they were registered")

    def tell(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def count(self):
        self.tell("count")
        return int(self.process.stdout.readline())

    def end(self):
        self.tell("end")
        return json.loads(self.process.stdout.readline())


def measure(options, control, load, database):
    """Trials a second of each part, processor seconds by process, and what the agents saw."""
    pids = {"control": [control], "PostgreSQL": children_of(database), "agents": [load.process.pid]}
    wait = threading.Event().wait
    wait(options.warm_up)
    recorder = None
    if options.profile:
        recorder = subprocess.Popen(["perf", "record", "-q", "-F", "299", "--call-graph", "dwarf,16384", "-p", str(control), "-o", options.profile])
    load.tell("begin")
    begin, before, parts = time.monotonic(), 0, []
    spent = {name: cores_of(group) for name, group in pids.items()}
    for number in range(1, PARTS + 1):
        wait(max(0, begin + options.seconds * number / PARTS - time.monotonic()))
        now = load.count()
        parts.append((now - before) * PARTS / options.seconds)
        before = now
    took = time.monotonic() - begin
    spent = {name: (cores_of(group) - spent[name]) / took for name, group in pids.items()}
    seen = load.end()
    if recorder:
        recorder.send_signal(signal.SIGINT)
        recorder.wait()
    return parts, spent, seen


def report(options, parts, spent, seen):
    mean = sum(parts) / len(parts)
    print(f"{options.agents} agents, {options.jobs} jobs of {options.studies} studies, "
          + (f"{options.rate:,.0f} trials/s asked for" if options.rate else "as fast as control takes")
          + (", a transaction held open" if options.hold_transaction else ""))
    print("trials/s by sixths " + " ".join(f"{part:,.0f}" for part in parts) + f"; mean {mean:,.0f}")
    print("cores " + ", ".join(f"{name} {cores:.2f}" for name, cores in spent.items())
          + f"; of {os.cpu_count()}; control {spent['control'] / max(mean, 1) * 1e6:.1f} us a trial")
    for name in ("claim", "synchronize", "report"):
        times = seen[name]
        print(f"{name:<12} p50 {times['p50']:8.1f} ms  p99 {times['p99']:8.1f} ms  {times['calls'] / options.seconds:8.1f} a second")
    print(f"refused or stale {seen['stale']}, failed calls {seen['failures']}")
    missed = []
    if options.goal_rate and min(parts) < options.goal_rate:
        missed.append(f"{min(parts):,.0f} trials/s in the slowest sixth; {options.goal_rate:,.0f} are asked for")
    if options.goal_cores and spent["control"] > options.goal_cores:
        missed.append(f"control needs {spent['control']:.2f} cores; {options.goal_cores:.2f} are allowed")
    for goal in missed:
        print("MISSED: " + goal)
    return 1 if missed else 0


def hold_transaction(server):
    session = subprocess.Popen(["psql", "--host", server.directory, "--username", "tunefarm", "--no-psqlrc", "--quiet",
                                "--dbname", "load"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    session.stdin.write("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM work_unit;\n")
    session.stdin.flush()
    session.stdout.readline()
    return session


def main():
    options = arguments()
    os.environ["TUNEFARM_BIN_DIR"] = str(options.bin)
    os.environ["TUNEFARM_SOURCE_DIR"] = str(SOURCE)
    sys.path.insert(0, str(SOURCE / "tests" / "e2e"))
    from farm import Farm  # pylint: disable=import-outside-toplevel
    from machines import free_port  # pylint: disable=import-outside-toplevel
    from postgres import Postgres, programs  # pylint: disable=import-outside-toplevel
    if programs() is None:
        sys.exit("PostgreSQL is missing; install Debian's postgresql")
    certificates = pathlib.Path(tempfile.mkdtemp(prefix="tunefarm-load."))
    try:
        for command in (("init", certificates), ("issue", certificates, "--name", "control", "--host", "127.0.0.1"),
                        ("issue", certificates, "--name", "agents", "--role", "agent")):
            subprocess.run([options.bin / "tunefarm", "certs", *command], check=True, stdout=subprocess.DEVNULL)
        with Postgres() as server:
            for setting in ("shared_buffers = '256MB'", "max_wal_size = '4GB'"):
                server.sql("postgres", f"ALTER SYSTEM SET {setting}")
            server.stop()
            server.start()
            address = f"127.0.0.1:{free_port()}"
            with Farm("--role", "control", "--store", server.url("load"), "--listen", address, "--tls-certificate",
                      certificates / "control.pem", "--tls-key", certificates / "control.key", "--tls-client-ca",
                      certificates / "ca.pem", "--max-jobs-per-principal", 0) as control:
                control.start(TUNEFARM_LOG_LEVEL="warn")
                begin = time.monotonic()
                load = Load(options, address, certificates)
                print(f"{options.agents} agents are registered after {time.monotonic() - begin:.1f} s", flush=True)
                holder = None
                try:
                    for number in range(options.jobs):
                        first = 16 + number * options.studies
                        problems = f"N={first}..{first + options.studies - 1}"
                        control.cli("submit", KERNEL, "--strategy", "random", "--seed", number + 1, "--max-trials",
                                    options.trials, "--policy", "fast", "--dim", problems)
                    if options.hold_transaction:
                        holder = hold_transaction(server)
                    result = measure(options, control.process.pid, load, server.process.pid)
                finally:
                    load.process.kill()
                    load.process.wait()
                    if holder:
                        holder.kill()
                        holder.wait()
                return report(options, *result)
    finally:
        shutil.rmtree(certificates, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
