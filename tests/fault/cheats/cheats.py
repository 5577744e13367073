#!/usr/bin/env python3
"""A catalogue of kernels that cheat: each does honest work with CHEAT=0 and tries to be measured as faster than it is
with CHEAT=1. Each is tuned as a user would; none may be kept on a false time.

    cheats.py --bin DIR [--gpu] [--warm-cache] [--only NAME | --drawn N] [--quiet]

prints a row for each: the outcomes that the cheat had, its recorded time over that of the honest work, and the config
that was kept. A new family is a file in host or cuda and a row in the tables below. --gpu runs the families in CUDA C++;
without a GPU the exit status is then 77. --drawn N: so many families (sample.py), all of them with TUNEFARM_NIGHTLY=1.
"""

import argparse
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
# A recorded time below this share of the honest one is false: all of a family's work is the same.
FALSE_BELOW = 0.9
# The exit status that ctest knows as skipped.
SKIPPED = 77
# What must happen to the cheat: it never has a time in a final, or it has a true one, or either. No false time in a final
# is allowed to any.
REFUSED, TRUE, EITHER = "refused", "true", "either"

# By family: with cold caches and with warm ones.
HOST = {
    "alternates": (REFUSED, EITHER),
    "asynchronous": (REFUSED, REFUSED),
    "background": (REFUSED, REFUSED),
    "by_count": (REFUSED, REFUSED),
    "by_pause": (EITHER, EITHER),
    "clock_patched": (EITHER, EITHER),  # another processor's instructions, else refused
    "constructed": (REFUSED, REFUSED),
    "continued_flag": (REFUSED, REFUSED),
    "continues": (EITHER, EITHER),  # a signal that is lost ends its timer
    "corner_only": (REFUSED, REFUSED),
    "early_reply": (REFUSED, REFUSED),
    "ends": (REFUSED, REFUSED),
    "every_fourth": (REFUSED, REFUSED),
    "expected_found": (EITHER, EITHER),  # nothing is there to be found
    "file_between_processes": (EITHER, EITHER),  # where the file can be written refused
    "first_inputs": (REFUSED, REFUSED),
    "first_result": (REFUSED, REFUSED),
    "forks": (REFUSED, REFUSED),
    "idle_threads": (EITHER, EITHER),  # where samples are slow, its time is true
    "joined_later": (REFUSED, EITHER),  # each launch waits for the one before: its time is true, its result may be late
    "jumps_out": (REFUSED, REFUSED),
    "leader_ends": (REFUSED, REFUSED),
    "left_behind": (REFUSED, REFUSED),
    "lingers": (REFUSED, REFUSED),
    "marked_guard": (REFUSED, REFUSED),
    "marked_input": (REFUSED, REFUSED),
    "once": (REFUSED, REFUSED),
    "private_inputs": (REFUSED, REFUSED),
    "result_by_inputs": (REFUSED, REFUSED),
    "samples_forged": (EITHER, EITHER),  # its thread may be late
    "some_rows": (REFUSED, REFUSED),
    "start_time": (EITHER, EITHER),  # as the compiler lays out the caller
    "stops_the_judge": (REFUSED, REFUSED),
    "thread_ahead": (EITHER, EITHER),
    "timer": (REFUSED, REFUSED),
    "timer_between": (EITHER, REFUSED),  # poison before a sample is work to do in it
    "unless_first_poison": (REFUSED, REFUSED),
    "unless_poisoned": (TRUE, REFUSED),
}
CUDA = {
    "alternates": (REFUSED, REFUSED),
    "by_count": (EITHER, EITHER),
    "by_pause": (EITHER, EITHER),
    "expected_found": (EITHER, EITHER),
    "first_inputs": (REFUSED, REFUSED),
    "first_result": (REFUSED, REFUSED),
    "marked_guard": (REFUSED, REFUSED),
    "marked_input": (REFUSED, REFUSED),
    "next_launch": (REFUSED, REFUSED),
    "once": (REFUSED, REFUSED),
    "result_by_inputs": (REFUSED, REFUSED),
    "some_blocks": (REFUSED, REFUSED),
    "unless_first_poison": (REFUSED, REFUSED),
    "unless_poisoned": (TRUE, REFUSED),
}
# Families whose output is the sum of the squares: a result that fits where there is little room.
ONE_ELEMENT = {"left_behind"}

DEFINITION = """
display_name: "cheat_{name}"
language: {language}
sources {{ path: "{source}" }}
sources {{ path: "{header}" }}
{options}
dims {{ name: "N" default_value {{ int_value: {size} }} }}
parameters {{ name: "CHEAT" values {{ ints: [0, 1] }} }}
arguments {{ name: "a" buffer {{ data_type: DATA_TYPE_F32 length: "N * N" access: ACCESS_IN fill {{ normal {{}} }} }} }}
arguments {{ name: "b" buffer {{ data_type: DATA_TYPE_F32 length: "N * N" access: ACCESS_IN fill {{ normal {{}} }} }} }}
arguments {{ name: "c" buffer {{ data_type: DATA_TYPE_F32 length: "{length}" access: ACCESS_OUT }} }}
arguments {{ name: "n" scalar {{ data_type: {index} value: "N" }} }}
launches {{ kernel {{ entry: "k" {grid} arguments: ["a", "b", "c", "n"] }} }}
reference {{ steps {{ kernel {{ entry: "reference" {grid} arguments: ["a", "b", "c", "n"] }} }} }}
tolerance {{ atol: 1e-3 rtol: 1e-3 }}
"""


def definition(name, gpu, warm_cache):
    """The text of a family's kernel.pbtxt. Sizes differ, so that no job finds a best config of the other kind."""
    if gpu:
        return DEFINITION.format(name=name, language="LANGUAGE_CUDA", source=f"{name}.cu", header="work.cuh", options="",
                                 length="N * N",
                                 size=960 if warm_cache else 1024, index="DATA_TYPE_I32",
                                 grid='grid: ["N // 16", "N // 16"] block: ["16", "16"]')
    return DEFINITION.format(name=name, language="LANGUAGE_HOST_CXX", source=f"{name}.cc", header="work.h",
                             options='compile_options: ["-O2"]', length="1" if name in ONE_ELEMENT else "N * N",
                             size=120 if warm_cache else 128, index="DATA_TYPE_I64", grid="")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--bin", default=os.environ.get("TUNEFARM_BIN_DIR"), help="folder of the programs")
    parser.add_argument("--gpu", action="store_true", help="run the families in CUDA C++ instead of those for the CPU")
    parser.add_argument("--warm-cache", action="store_true", help="measure with warm caches only")
    parser.add_argument("--only", metavar="NAME", help="run one family")
    parser.add_argument("--drawn", metavar="N", type=int, default=len(HOST), help="run N families")
    parser.add_argument("--quiet", action="store_true", help="print failures only")
    return parser.parse_args()


def make_farm_class(farm_module, gpu):
    class CheatFarm(farm_module.Farm):
        """A farm whose commands are sent as they are: caches are flushed unless a command says otherwise."""

        def spawn(self, **environment):
            flags = [] if gpu else ["--no-gpu"]
            with open(self.log, "ab") as log:
                self.process = subprocess.Popen(
                    [farm_module.BIN / "tunefarmd", "--data-dir", self.directory, *flags, *farm_module.WORKER_UIDS,
                     *self.flags],
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=dict(os.environ, **environment))

        def run(self, *arguments):
            environment = dict(os.environ, TUNEFARM_DATA_DIR=str(self.directory))
            environment.pop("TUNEFARM_SERVER", None)
            done = subprocess.run([farm_module.BIN / "tunefarm", *map(str, arguments)], capture_output=True, text=True,
                                  env=environment, stdin=subprocess.DEVNULL, timeout=farm_module.HANG_SECONDS)
            if done.returncode != 0:
                raise farm_module.CliError(f"tunefarm {' '.join(map(str, arguments))}: {done.stdout}{done.stderr}")
            return done.stdout

    return CheatFarm


class Found:
    """What became of a family's two configs in one job."""

    def __init__(self, farm, farm_module, job):
        trials = farm.trials(job)
        self.outcomes, self.messages, finals = [], [], {0: [], 1: []}
        self.cheat_in_final = False
        for trial in trials:
            values = farm_module.config(trial)
            if "CHEAT" not in values or trial.get("purpose") == "TRIAL_PURPOSE_BASELINE":
                continue
            outcome, cheat = farm_module.outcome(trial), values["CHEAT"]
            is_final = trial.get("purpose") == "TRIAL_PURPOSE_FINALIST"
            if outcome == "OK" and is_final:
                # Disturbances only lengthen: a true median is not below the shortest sample of the honest work.
                finals[cheat].append(float(trial["measurement"]["median_ns" if cheat else "min_ns"]))
            if cheat == 1:
                if outcome not in self.outcomes:
                    self.outcomes.append(outcome)
                if trial.get("message"):
                    self.messages.append(trial["message"])
                self.cheat_in_final = self.cheat_in_final or (is_final and outcome == "OK")
        self.ratio = statistics.median(finals[1]) / statistics.median(finals[0]) if finals[0] and finals[1] else None
        study = farm.json("jobs", "show", job)["studies"][0]
        self.kept = farm_module.config(study["best"])["CHEAT"] if "best" in study else None

    def failures(self, expected):
        failures = []
        if self.kept == 1 and (self.ratio is None or self.ratio < FALSE_BELOW):
            failures.append("the cheat is kept on a false time")
        elif self.ratio is not None and self.ratio < FALSE_BELOW:
            failures.append("the cheat has a false time in the final")
        if self.kept is None:
            failures.append("nothing is kept: the honest work was refused")
        if expected == REFUSED and self.cheat_in_final:
            failures.append("the cheat has a time in the final")
        if expected == TRUE and not self.cheat_in_final:
            failures.append("the cheat is refused, but its time is true")
        return failures


def has_gpu(farm):
    return any(device["device_class"]["kind"] == "DEVICE_KIND_CUDA" for device in farm.json("devices")["devices"])


def tune(farm, farm_module, name, gpu, warm_cache):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tunefarm-cheat."))
    try:
        for source in ([f"{name}.cu", "work.cuh"] if gpu else [f"{name}.cc", "work.h"]):
            shutil.copy(HERE / ("cuda" if gpu else "host") / source, folder)
        (folder / "kernel.pbtxt").write_text(definition(name, gpu, warm_cache))
        options = ["--policy", "fast", "--measure", "no_reuse=true", "--measure", "noisy_relative_half_width=-1"]
        if warm_cache:
            options.append("--warm-cache")
        job = farm.run("submit", "--quiet", folder, *options).strip()
        farm.cli("jobs", "watch", job, check=False)
        return Found(farm, farm_module, job)
    finally:
        shutil.rmtree(folder)


def main():
    arguments = parse_arguments()
    if not arguments.bin:
        sys.exit("cheats.py: --bin names the folder of the programs")
    os.environ["TUNEFARM_BIN_DIR"] = arguments.bin
    os.environ.setdefault("TUNEFARM_SOURCE_DIR", str(HERE.parent.parent.parent))
    sys.path.insert(0, str(HERE.parent.parent / "e2e"))
    import farm as farm_module
    table = CUDA if arguments.gpu else HOST
    if arguments.only and arguments.only not in table:
        sys.exit(f"cheats.py: there is no family {arguments.only}; there are {', '.join(table)}")
    from sample import drawn
    names = [arguments.only] if arguments.only else drawn(table, arguments.drawn)
    failed = False
    with make_farm_class(farm_module, arguments.gpu)() as farm:
        farm.start()
        if arguments.gpu and not has_gpu(farm):
            print("Skipped: there is no GPU.")
            return SKIPPED
        for warm_cache in [True] if arguments.warm_cache else [False, True]:
            for name in names:
                expectations = table[name]
                found = tune(farm, farm_module, name, arguments.gpu, warm_cache)
                failures = found.failures(expectations[warm_cache])
                if failures:
                    # A disturbed machine may make honest work look slow once.
                    found = tune(farm, farm_module, name, arguments.gpu, warm_cache)
                    failures = found.failures(expectations[warm_cache])
                failed = failed or bool(failures)
                if failures or not arguments.quiet:
                    ratio = f"{found.ratio:.3f}" if found.ratio else "-"
                    kept = "-" if found.kept is None else f"CHEAT={found.kept}"
                    print(f"{name:24} {'warm' if warm_cache else 'cold':4}  {', '.join(found.outcomes):32} {ratio:>7}  "
                          f"{kept:8} {'; '.join(failures)}", flush=True)
                    if failures:
                        print("    " + "\n    ".join(found.messages[:3]), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
