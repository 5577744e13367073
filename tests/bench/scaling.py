#!/usr/bin/env python3
"""How the search of one job scales over the GPUs of a machine, with a warm binary cache and a fixed list of trials.

The same configs are measured three times under one policy, without early stops and reuse: on all GPUs (which fills the
cache and warms the runners; not counted), on one, and on all again. Scaling is the time of the one over the time of all,
each from the first search trial's begin to the last one's end; the final, which is on one GPU by design, is shown apart.

  scaling.py [--bin DIR] [--trials 400] [--size 4096] [--dtype bf16] [--policy default] [--device cuda]
Prints a table last. --expect RATIO: exit code 1 below it.
"""

import argparse
import sys

from daemon_of_its_own import DaemonOfItsOwn


def measure(client, options, number, device):
    dims = [f"--dim={name}={options.size}" for name in "MNK"]
    if options.dtype:
        dims.append(f"--dim=dtype={options.dtype}")
    client("tune", options.kernel, "--device", device, *dims, "--strategy", "random", "--seed", 1, "--max-trials",
           options.trials, "--policy", options.policy, "--measure", "no_early_stop=true", "--measure", "no_reuse=true",
           "--rows", 0)
    trials = client.json("results", number, "--all").get("trials", [])
    searched = [t for t in trials if t.get("purpose") == "TRIAL_PURPOSE_SEARCH"]
    ran = [t for t in searched if float(t.get("run_ms", 0)) > 0]
    ended = [int(t["ended_at_ms"]) for t in searched]
    began = min(int(t["ended_at_ms"]) - float(t.get("run_ms", 0)) for t in ran)
    devices = {}
    for trial in ran:
        share = devices.setdefault(trial["device_uuid"], [0, 0.0])
        share[0] += 1
        share[1] += float(trial["run_ms"]) / 1e3
    return {"device": device, "trials": len(searched), "seconds": (max(ended) - began) / 1e3,
            "cached": sum(bool(t.get("cached_binary")) for t in searched), "devices": devices,
            "all_seconds": (max(int(t["ended_at_ms"]) for t in trials) - began) / 1e3}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/bundle/bin")
    parser.add_argument("--kernel", default="matmul")
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--dtype", default="bf16")
    parser.add_argument("--policy", default="default")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--expect", type=float, default=0)
    options = parser.parse_args()
    with DaemonOfItsOwn(options.bin) as client:
        known = client.json("devices").get("devices", [])
        kind = "DEVICE_KIND_HOST" if options.device == "host" else "DEVICE_KIND_CUDA"
        uuids = [d["uuid"] for d in known if d["device_class"].get("kind") == kind]
        if not uuids:
            sys.exit(f"there is no device for --device {options.device}")
        runs = [measure(client, options, number + 1, device)
                for number, device in enumerate((options.device, uuids[0], options.device))]
    one, every = runs[1], runs[2]
    print(f"{'':<22}{'GPUs':>5}{'trials':>8}{'cached':>8}{'search s':>10}{'with final s':>14}{'busiest s':>11}{'idlest s':>10}")
    for name, run in zip(("all, cold: not counted", "one", "all"), runs):
        busy = [seconds for _, seconds in run["devices"].values()]
        print(f"{name:<22}{len(run['devices']):>5}{run['trials']:>8}{run['cached']:>8}{run['seconds']:>10.2f}"
              f"{run['all_seconds']:>14.2f}{max(busy):>11.2f}{min(busy):>10.2f}")
    ratio = one["seconds"] / every["seconds"]
    print(f"scaling {ratio:.2f}x on {len(every['devices'])} of {len(uuids)} GPUs; "
          + ", ".join(f"{count} trials" for count, _ in every["devices"].values()))
    if ratio < options.expect:
        sys.exit(f"expected {options.expect}x")


if __name__ == "__main__":
    main()
