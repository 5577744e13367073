#!/usr/bin/env python3
"""Tunes kernels/matmul_host through the daemon, looks at what was tried, and asks for the winner.

The daemon runs each config in a process of its own, checks every output and keeps every result; asking again costs
nothing. Needs no GPU. Options: --size, --trials.
"""

import argparse

import tunefarm


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=256, help="M, N and K")
    parser.add_argument("--trials", type=int, default=40)
    arguments = parser.parse_args()
    problem = dict.fromkeys("MNK", arguments.size)

    with tunefarm.Client() as client:
        job = client.tune("matmul_host", dims=problem, max_trials=arguments.trials, strategy="random", policy="fast",
                          # A busy machine cannot tell how fast anything is; take its word for it here.
                          measure={"noisy_relative_half_width": -1})

        fastest_first = client.results(job, purpose=tunefarm.TrialPurpose.SEARCH, order_by_time=True)
        print(f"{len(fastest_first.to_list())} configs were tried; the fastest:")
        for _, trial in zip(range(3), fastest_first):
            if trial.measurement:
                print(f"  {trial.measurement.median_ns / 1e3:8.1f} µs  {dict(trial.config)}")
        # fastest_first.to_dataframe() has a column for each parameter, where pandas is installed.

        answer = client.best("matmul_host", worst_match="EXACT", **problem)
        print(f"{answer.match}: {answer.time_ns / 1e3:.1f} µs, {answer.best.speedup:.2f}x the {answer.best.baseline_label}")
        near = client.best("matmul_host", **dict(problem, M=2 * arguments.size))
        print(f"{near.match} at distance {near.distance:.1f}: {dict(near.config)}")


if __name__ == "__main__":
    main()
