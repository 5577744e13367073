#!/usr/bin/env python3
"""Measures the winners that repeat_winner.sh collected against each other, in turns, and prints their ratios."""

import json
import pathlib
import statistics
import subprocess
import sys

ROUNDS = 5


def settings_of(config):
    return sorted(f"{name}={value}" for name, value in config.items())


def text_of(setting):
    name, value = setting.split("=", 1)
    return f"{name}={value.lower() if value in ('True', 'False') else value}"


def measure(kernel, device, dims, settings):
    """The median of one run, as `tunefarm run` reports it, in ns."""
    done = subprocess.run(["tunefarm", "run", kernel, *settings, "--device", device, *dims, "--policy", "default",
                           "--measure", "min_samples=50", "--measure", "final_rounds=1", "--measure", "finalists=1",
                           "--output", "json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, text=True)
    return float(json.loads(done.stdout)["measurement"]["median_ns"])


def main():
    out, repeats, kernel, device, dims = pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4], sys.argv[5:]
    winners = {}
    for i in range(1, repeats + 1):
        best = json.loads((out / f"best_{i}.json").read_text())["best"]
        winners[i] = tuple(text_of(setting) for setting in settings_of(best["config"]))
    configs = sorted(set(winners.values()))
    times = {config: [] for config in configs}
    for turn in range(ROUNDS):
        order = configs[turn % len(configs):] + configs[:turn % len(configs)]
        for config in order:
            times[config].append(measure(kernel, device, dims, config))
    medians = {config: statistics.median(samples) for config, samples in times.items()}
    fastest = min(medians, key=medians.get)
    # Round by round against the same config, so that what drifts cancels.
    ratios = {config: statistics.median(a / b for a, b in zip(times[config], times[fastest])) for config in configs}
    least = min(ratios.values())
    print(f"\ntuning {'time us':>9} {'of best':>8}  winner")
    worst = 0
    for i, config in winners.items():
        ratio = ratios[config] / least
        worst = max(worst, ratio)
        print(f"{i:6} {medians[config] / 1e3:9.1f} {ratio:8.4f}  {' '.join(config)}")
    print(f"{len(configs)} different winners; the worst is {worst - 1:.2%} behind the best, 2 % allowed: "
          f"{'ok' if worst <= 1.02 else 'NOT OK'}")
    sys.exit(worst > 1.02)


if __name__ == "__main__":
    main()
