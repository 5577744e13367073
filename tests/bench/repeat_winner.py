#!/usr/bin/env python3
"""repeat_winner.py BIN_DIRECTORY KERNEL [--repeats 5] [--allowed 0.02] [--device cuda] [--t4 DIRECTORY] [-d NAME=VALUE ...]
                 [--beside BESTS] [--without-starting-configs] [OPTION OF tune ...]

Do repeated tunings end with equally fast configs? Tunes KERNEL from nothing --repeats times, each time with another seed and in
a data directory of its own, then measures the winners and the default config against each other in one final. Prints the ratio
of each to the fastest with its 95 % interval over the rounds, and what became of the fastest in the other tunings' searches.
--t4 keeps the trials of each tuning as DIRECTORY/N.json, for `tunefarm simulate`. --beside: the best config of the problem in
this file (of `tunefarm export bests`) is in the final, too. --without-starting-configs: KERNEL is the path of a definition, of
which a copy without them is tuned. Needs the Python client in PYTHONPATH. Ends with 1 where a winner is more than --allowed
behind.
"""

import argparse
import json
import math
import pathlib
import re
import shutil
import statistics
import sys
import tempfile
import time

import tunefarm
from daemon_of_its_own import DaemonOfItsOwn

ROUNDS = 12
STUDENT_95 = 2.201  # two-sided, 11 degrees of freedom


def values_of(config):
    """One value for equal configs, whether they are an export's (true, "64") or the client's (True, 64)."""
    return tuple(sorted((name, str(value).lower() if isinstance(value, bool) else str(value)) for name, value in config.items()))


def numbers_of_rounds(measurement):
    """One number a round: the mean ratio of samples to their neighbours, or of the samples where they have none."""
    samples, neighbours = measurement.sample_ns, measurement.yardstick_ns
    each = len(samples) // ROUNDS
    if neighbours:
        samples = [a / b for a, b in zip(samples, neighbours)]
    return [statistics.median(samples[i * each:(i + 1) * each]) for i in range(ROUNDS)]


def config_values(best):
    return values_of({name: next(iter(value.values())) for name, value in best["config"]["values"].items()})


def stored_best(path, like):
    """The best of the file for the problem of another one."""
    for best in json.loads(path.read_text())["bests"]:
        if best["kernel_name"] == like["kernel_name"] and best["problem"]["dims"] == like["problem"]["dims"]:
            return best
    sys.exit(f"{path} has no best of {like['kernel_name']} for {like['problem']['dims']}")


def without_starting_configs(definition, directory):
    """The path of a copy in the directory, with what lies beside it."""
    copy = pathlib.Path(directory, definition.parent.name)
    shutil.copytree(definition.parent, copy)
    path = copy / definition.name
    path.write_text(re.sub(r'^starting_configs:\s*(?:"[^"]*"\s*)+', "", definition.read_text(), flags=re.MULTILINE))
    return path


class Tuning:
    """The winner's config, the export that holds it, and what became of each config of the search."""

    def __init__(self, config, exported, trials):
        self.config, self.exported, self.trials = config, exported, trials

    def fate_of(self, config):
        trial = self.trials.get(config)
        if trial is None:
            return "not tried"
        time_us = f", {trial.measurement.median_ns / 1e3:.1f} us" if trial.measurement else ""
        return f"trial {trial.ordinal}, {trial.outcome.name}{time_us}{', stopped early' if trial.stopped_early else ''}"


def tune(bin_directory, common, seed, t4, options):
    with DaemonOfItsOwn(bin_directory) as call:
        start = time.monotonic()
        call("tune", *common, "--seed", seed, "--rows", 0, *options)
        exported = json.loads(call("export", "bests"))
        if len(exported["bests"]) != 1:
            sys.exit(f"tuning {seed} ended without a best config:\n{call('results', 1)}")
        print(f"tuning {seed} took {time.monotonic() - start:.0f} s: {call('results', 1, '--rows', 1).strip().splitlines()[-1]}",
              flush=True)
        if t4:
            call("export", "t4", 1, "--file", t4 / f"{seed}.json")
        with tunefarm.Client(data_directory=call.data) as client:
            trials = {values_of(trial.config): trial for trial in client.results(1, purpose=tunefarm.TrialPurpose.SEARCH)}
        return Tuning(config_values(exported["bests"][0]), exported, trials)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin_directory", type=pathlib.Path)
    parser.add_argument("kernel")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--allowed", type=float, default=0.02)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--t4", type=pathlib.Path)
    parser.add_argument("--beside", type=pathlib.Path)
    parser.add_argument("--without-starting-configs", action="store_true")
    parser.add_argument("-d", "--dim", action="append", default=[])
    arguments, options = parser.parse_known_args()
    with tempfile.TemporaryDirectory(prefix="tunefarm-winner.") as directory:
        if arguments.without_starting_configs:
            arguments.kernel = without_starting_configs(pathlib.Path(arguments.kernel), directory)
        return compare(arguments, options)


def compare(arguments, options):
    common = [arguments.kernel, "--device", arguments.device, *[f"--dim={dim}" for dim in arguments.dim]]
    if arguments.t4:
        arguments.t4.mkdir(parents=True, exist_ok=True)
    tunings = {seed: tune(arguments.bin_directory, common, seed, arguments.t4, options)
               for seed in range(1, arguments.repeats + 1)}
    winners = {seed: tuning.config for seed, tuning in tunings.items()}
    exported = tunings[1].exported
    exported["bests"] = [best for tuning in tunings.values() for best in tuning.exported["bests"]]
    if arguments.beside:
        exported["bests"].append(stored_best(arguments.beside, exported["bests"][0]))
        winners["stored"] = config_values(exported["bests"][-1])
    distinct = set(winners.values())
    with DaemonOfItsOwn(arguments.bin_directory) as call, tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(exported, file)
        file.flush()
        call("tune", *common, "--starting-configs", file.name, "--max-trials", len(distinct), "--no-memory", "--rows", 0,
             "--measure", f"finalists={len(distinct)}", "--measure", f"final_rounds={ROUNDS}")
        with tunefarm.Client(data_directory=call.data) as client:
            finalists = client.results(1, purpose=tunefarm.TrialPurpose.FINALIST, outcomes=[tunefarm.Outcome.OK])
            measured = {values_of(trial.config): client.trial(trial.name).measurement for trial in finalists}
    missing = [seed for seed, config in winners.items() if config not in measured]
    if missing:
        sys.exit(f"the winners of {missing} were not measured in the final")
    beside_neighbours = all(m.yardstick_ns for m in measured.values())
    rounds = {config: numbers_of_rounds(measured[config]) for config in winners.values()}
    fastest = min(rounds, key=lambda config: statistics.median(rounds[config]))
    print(f"{'tuning':>6} {'time us':>9} {'of best':>8} {'95 % interval':>17}  winner")
    worst = 1.0
    for seed, config in winners.items():
        logs = [math.log(a / b) for a, b in zip(rounds[config], rounds[fastest])]
        center, half = statistics.mean(logs), STUDENT_95 * statistics.stdev(logs) / math.sqrt(ROUNDS)
        if seed in tunings:
            worst = max(worst, math.exp(center))
        print(f"{seed:6} {measured[config].median_ns / 1e3:9.1f} {math.exp(center):8.4f} {math.exp(center - half):8.4f} "
              f"{math.exp(center + half):8.4f}  {' '.join(f'{k}={v}' for k, v in config)}")
    for seed, tuning in tunings.items():
        if winners[seed] != fastest:
            print(f"the fastest in tuning {seed}: {tuning.fate_of(fastest)}")
    print(f"{len(distinct)} different winners, {'beside a yardstick' if beside_neighbours else 'in rounds of blocks'}; the worst is "
          f"{worst - 1:.2%} behind the best, {arguments.allowed:.0%} allowed: {'ok' if worst <= 1 + arguments.allowed else 'NOT OK'}")
    return worst > 1 + arguments.allowed


if __name__ == "__main__":
    sys.exit(main())
