#!/usr/bin/env python3
"""How long reads and orders take while every commit of SQLite takes --commit-ms: GetJob and ListJobs, with jobs that run.

  slow_store.py [--bin DIR] [--commit-ms 2000] [--jobs 4] [--reads 1000]
Needs a build with failpoints, and grpcio. Prints p50, p99 and the largest in ms.
"""

import argparse
import os
import pathlib
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]


def show(what, seconds):
    ms = sorted(1000 * s for s in seconds)
    at = lambda q: ms[int(q * (len(ms) - 1))]
    print(f"{what:8} {len(ms):6} calls  ms: p50 {at(0.5):8.2f} p99 {at(0.99):8.2f} max {ms[-1]:8.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=SOURCE / "build/release/bin")
    parser.add_argument("--commit-ms", type=int, default=2000)
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--reads", type=int, default=1000)
    options = parser.parse_args()
    os.environ.update(TUNEFARM_BIN_DIR=str(options.bin), TUNEFARM_SOURCE_DIR=str(SOURCE))
    sys.path.insert(0, str(SOURCE / "tests/e2e"))
    from farm import Farm, wait_until
    from plain_calls import PlainCalls, read_while

    with Farm() as farm:
        farm.start(TUNEFARM_FAILPOINTS=f"store.commit.before=delay:{options.commit_ms}@1+")
        server = f"unix:{farm.directory}/run/admin.sock"
        jobs = [farm.cli("submit", "--quiet", "noop_host", "--max-trials", "400", "--measure", "no_reuse=true").stdout.strip()
                for _ in range(options.jobs)]
        wait_until(lambda: farm.json("jobs", "show", jobs[0])["state"] == "JOB_STATE_RUNNING", "the start of the first job")
        took = read_while(server, jobs, lambda: True, options.reads)
        show("GetJob", took[::2])
        show("ListJobs", took[1::2])
        with PlainCalls(server) as calls:
            show("orders", [calls.order(verb, job) for job in jobs for verb in ("Pause", "Resume", "Cancel")])


if __name__ == "__main__":
    main()
