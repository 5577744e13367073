#!/usr/bin/env python3
"""How long `tunefarm tune-moe` takes for a whole table: both products, the 18 batch sizes of the frameworks' own
tuners, from nothing. Needs a GPU, and an interpreter with Triton 3.6.

Usage: fused_moe_table.py BIN --data-dir DIR [--python FILE] [--for vllm|sglang] [--kernel-file FILE]
           [--max-trials N] [--time-limit SECONDS]

Where it has not ended within --time-limit (570 s), the daemon is stopped with its job, and the next call with the same
DIR and the same options continues it: what was measured is not measured again. The time printed is that of all calls
together. Exit code 1: more than 10 minutes; 3: not finished, call again.
"""

import argparse
import json
import pathlib
import sys
import time

from fused_moe_winners import Tunefarm, layer_words

WHOLE_MAX_S = 600
STOP_S = 20  # for the daemon's end


def open_jobs(farm):
    ended = ("JOB_STATE_SUCCEEDED", "JOB_STATE_FAILED", "JOB_STATE_CANCELLED")
    return sorted(int(job["name"].rpartition("/")[2]) for job in farm.json("jobs", "list").get("jobs", [])
                  if job["state"] not in ended)


def goes_on(farm, options, end):
    """Whether the table was written before `end`."""
    # The job of an earlier call continues with its daemon; a second one would search the same.
    for job in open_jobs(farm):
        if farm.call_until(end, "jobs", "watch", str(job)) is None:
            return False
    words = ["--kernel-file", str(options.kernel_file)] if options.kernel_file else []
    return farm.call_until(end, "tune-moe", *layer_words(), "--for", options.reader, *words, "--max-trials",
                           options.max_trials, "--dir", str(options.data_dir / "table"), "--force") is not None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--data-dir", type=pathlib.Path, required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--for", dest="reader", default="sglang", choices=("vllm", "sglang"))
    parser.add_argument("--kernel-file", type=pathlib.Path)
    parser.add_argument("--max-trials", default="300")
    parser.add_argument("--time-limit", type=float, default=570)
    options = parser.parse_args()
    options.data_dir.mkdir(parents=True, exist_ok=True)
    kept = options.data_dir / "seconds.json"
    before = json.loads(kept.read_text()) if kept.exists() else []
    began = time.monotonic()
    with Tunefarm(options.bin, options.data_dir / "daemon", options.python) as farm:
        is_done = goes_on(farm, options, began + options.time_limit - STOP_S)
        seconds = [*before, time.monotonic() - began]
        kept.write_text(json.dumps(seconds))
        trials = sum(int(job["progress"]["done"]) for job in farm.json("jobs", "list").get("jobs", []))
    for path in sorted((options.data_dir / "table").rglob("*.md")):
        print(path.read_text())
    print(f"{options.reader}: {trials} trials in {len(seconds)} call(s), {sum(seconds):.0f} s together: "
          f"{'finished' if is_done else 'NOT FINISHED: call again with the same --data-dir'}")
    sys.exit(3 if not is_done else 1 if sum(seconds) > WHOLE_MAX_S else 0)


if __name__ == "__main__":
    main()
