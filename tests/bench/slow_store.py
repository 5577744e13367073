#!/usr/bin/env python3
"""How long reads and orders take while every commit of SQLite takes --commit-ms: GetJob and ListJobs, with jobs that run.
With --postgres: how long GetJob of driven jobs and look-ups take while a PostgreSQL server is stopped by SIGSTOP, and
other calls until they are UNAVAILABLE: the first of each, all at once, and the next when the daemon knows of it.

  slow_store.py [--bin DIR] [--commit-ms 2000 | --postgres] [--jobs 4] [--reads 1000]
Needs grpcio, and a build with failpoints or Debian's package postgresql. Prints p50, p99 and the largest in ms.
"""

import argparse
import concurrent.futures
import os
import pathlib
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
KERNEL = "noop_host"


def show(what, seconds):
    ms = sorted(1000 * s for s in seconds)
    at = lambda q: ms[int(q * (len(ms) - 1))]
    print(f"{what:16} {len(ms):6} calls  ms: p50 {at(0.5):8.2f} p99 {at(0.99):8.2f} max {ms[-1]:8.2f}")


def socket_of(farm):
    return f"unix:{farm.directory}/run/admin.sock"


def running_jobs(farm, count):
    """Their numbers; none of them ends by itself before the measurement does."""
    from farm import wait_until
    jobs = [farm.cli("submit", "--quiet", KERNEL, "--max-trials", "20000", "--measure", "no_reuse=true").stdout.strip()
            for _ in range(count)]
    wait_until(lambda: farm.json("jobs", "show", jobs[0])["state"] == "JOB_STATE_RUNNING", "the start of the first job")
    return jobs


def slow_commits(farm, options):
    from plain_calls import PlainCalls, read_while
    farm.start(TUNEFARM_FAILPOINTS=f"store.commit.before=delay:{options.commit_ms}@1+")
    jobs = running_jobs(farm, options.jobs)
    took = read_while(socket_of(farm), jobs, lambda: True, options.reads)
    show("GetJob", took[::2])
    show("ListJobs", took[1::2])
    with PlainCalls(socket_of(farm)) as calls:
        show("orders", [calls.order(verb, job) for job in jobs for verb in ("Pause", "Resume", "Cancel")])


def stopped_server(farm, database, options):
    from plain_calls import TUNING, PlainCalls, field, named
    farm.start(TUNEFARM_STORE=database.url("tunefarm"))
    farm.cli("tune", KERNEL, "--max-trials", "4")
    jobs = running_jobs(farm, options.jobs)
    others = [(TUNING + "CreateJob", field(1, field(3, KERNEL) + field(5, b""))), (TUNING + "ListJobs", b""),
              ("/tunefarm.v1.KernelService/ListKernels", b""),
              *((TUNING + method, named(jobs[0])) for method in ("ListTrials", "PauseJob", "CancelJob"))]
    with PlainCalls(socket_of(farm)) as calls, concurrent.futures.ThreadPoolExecutor(len(others)) as pool:
        calls.look_up(KERNEL)  # connects, and brings the kernel's definition into the daemon's memory
        database.freeze()
        first = [pool.submit(calls.seconds_until_unavailable, *other) for other in others]
        job_reads, look_ups = [], []
        while len(look_ups) < options.reads or not all(call.done() for call in first):
            job_reads.append(calls.get_job(jobs[len(job_reads) % len(jobs)]))
            look_ups.append(calls.look_up(KERNEL))
        show("GetJob", job_reads)
        show("LookupConfig", look_ups)
        show("first of others", [call.result() for call in first])
        show("next of others", [calls.seconds_until_unavailable(*other) for other in others])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=SOURCE / "build/release/bin")
    parser.add_argument("--commit-ms", type=int, default=2000)
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--reads", type=int, default=1000)
    options = parser.parse_args()
    os.environ.update(TUNEFARM_BIN_DIR=str(options.bin), TUNEFARM_SOURCE_DIR=str(SOURCE))
    sys.path.insert(0, str(SOURCE / "tests/e2e"))
    from farm import Farm
    from postgres import Postgres

    if options.postgres:
        with Postgres() as database, Farm() as farm:
            stopped_server(farm, database, options)
    else:
        with Farm() as farm:
            slow_commits(farm, options)


if __name__ == "__main__":
    main()
