#!/usr/bin/env python3
"""Look-ups over gRPC against a catalog of many bests, client and daemon on the same machine, in one table.

  lookup_bench.py [--bin build/release/bin] [--entries 100000] [--seconds 5] [--directory DIR] [--job]
                  [--lookups-first] [--question exact,nearest] [--paced] [--rounds 1]

matmul_host is tuned a little, for one true best, which fill_catalog copies to --entries shapes. lookup_load then asks:
as fast as answers come, at 5,000 questions a second, and in batches of 1,000, each for shapes that are there and for
shapes between them. --job: the same while a job of a million host trials runs (its processes use the cores, too).
--lookups-first: with the daemon's setting of this name. --paced: only at 5,000 questions a second. --rounds: all of it as
many times, one after the other.
"""

import argparse
import itertools
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[3]


class Daemon:
    def __init__(self, options, directory):
        self.bin, self.directory = options.bin, directory
        self.settings = {"TUNEFARM_LOOKUPS_FIRST": "true"} if options.lookups_first else {}

    def cli(self, *arguments, check=True):
        environment = dict(os.environ, TUNEFARM_DATA_DIR=str(self.directory), TUNEFARM_KERNELS=str(SOURCE / "kernels"),
                           **self.settings)
        environment.pop("TUNEFARM_SERVER", None)
        done = subprocess.run([self.bin / "tunefarm", *map(str, arguments)], capture_output=True, text=True,
                              env=environment, stdin=subprocess.DEVNULL)
        if check and done.returncode != 0:
            sys.exit(f"tunefarm {' '.join(map(str, arguments))}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def socket(self):
        found = list(self.directory.rglob("client.sock"))
        return found[0] if found else sys.exit(f"no client.sock below {self.directory}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=SOURCE / "build/release/bin", help="the programs to measure")
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--directory", default="/dev/shm", help="where the data directory is made")
    parser.add_argument("--job", action="store_true", help="while a job runs")
    parser.add_argument("--lookups-first", action="store_true", help="jobs get only processor time that is left over")
    parser.add_argument("--question", default="exact,nearest")
    parser.add_argument("--paced", action="store_true", help="only at 5,000 questions a second")
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    directory = pathlib.Path(tempfile.mkdtemp(prefix="tunefarm-lookup.", dir=options.directory))
    daemon = Daemon(options, directory)
    try:
        daemon.cli("tune", "matmul_host", "--device", "host", "--max-trials", 2, "--policy", "fast", "--rows", 0)
        daemon.cli("stop")
        print(subprocess.run([options.bin / "fill_catalog", directory / "tunefarm.db", "--entries", str(options.entries)],
                             check=True, capture_output=True, text=True).stdout.strip(), flush=True)
        begin = time.monotonic()
        daemon.cli("devices")  # starts it
        print(f"daemon up after {time.monotonic() - begin:.1f} s", flush=True)
        if options.job:
            daemon.cli("submit", SOURCE / "kernels/examples/noop_host", "--device", "host", "--policy", "fast",
                       "--strategy", "exhaustive", "--max-trials", 1_000_000, "--min-samples", 1, "--max-samples", 1,
                       "--warm-cache", "--host-isolation", "shared")
        modes = [["--rate", "5000"]] if options.paced else [[], ["--rate", "5000"], ["--batch", "1000", "--outstanding", "4"]]
        for question, mode in itertools.product(options.question.split(",") * options.rounds, modes):
            subprocess.run([options.bin / "lookup_load", f"unix:{daemon.socket()}", "--question", question, "--entries",
                            str(options.entries), "--seconds", str(options.seconds), *mode], check=False)
            sys.stdout.flush()
        if options.job:
            print(daemon.cli("jobs", "list"), end="")
    finally:
        daemon.cli("stop", "--now", check=False)
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
