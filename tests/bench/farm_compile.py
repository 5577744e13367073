#!/usr/bin/env python3
"""What an agent without devices saves: daemons of a relocatable bundle, on a machine with one GPU and no build tools.

  farm_compile.py BUNDLE OUT [--trials 200] [--kernel matmul] [--dim NAME=VALUE ...] [--policy fast] [--few 2] [--many 12]
                  [--seconds 235]

A control daemon and an agent with the GPU and --few compile workers tune from a cold cache; then the same anew, with an
agent that has no devices and --many compile workers beside it. All are processes of their own and talk over mTLS on
loopback. Shown are both wall times of the search, and how many binaries the GPU's agent did not compile itself. The exit
code is 1 when none came from the other, or something failed.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile
import urllib.request

from farm_scaling import Daemon, Failure, Scaling


class Farm(Scaling):
    """Control and the agent with the GPU, and the helper if there is one."""

    def start_helper(self, workers):
        certificates = self.directory / "certificates"
        flags = ["--role", "agent", "--control", self.address, "--agent-name", "helper", "--tls-ca", certificates / "ca.pem",
                 "--tls-certificate", certificates / "agent.pem", "--tls-key", certificates / "agent.key", "--compile-only",
                 "--compile-workers", workers]
        if os.geteuid() == 0:
            flags += ["--worker-uid-base", 200_000 + 1024 * (2 * (os.getpid() % 50_000) + 1)]
        self.daemons.append(Daemon(self, "helper", [str(flag) for flag in flags]))
        self.deadline.wait_for(lambda: any(agent.get("compiles_only") for agent in self.json("agents").get("agents", [])),
                               "the agent without devices is there")

    def found(self):
        """Binaries that the GPU's agent was given, as control counts them."""
        with urllib.request.urlopen(f"http://{self.pages}/metrics", timeout=30) as page:
            return int(float(re.search(r"^tunefarm_binaries_found_total (\S+)$", page.read().decode(), re.MULTILINE).group(1)))


def run(options, name, helpers):
    directory = pathlib.Path(tempfile.mkdtemp(prefix="tunefarm-compile."))
    directory.chmod(0o711)
    farm = Farm(options, directory)
    try:
        farm.start_control()
        farm.start_agent(0, options.few)
        if helpers:
            farm.start_helper(helpers)
        measured = farm.measure(options.trials, "cuda")
        return {"name": name, **measured, "found": farm.found()}
    except Failure:
        for log in directory.glob("*.log"):
            shutil.copy(log, options.out / f"{name.replace(' ', '_')}.{log.name}")
        raise
    finally:
        farm.stop()
        shutil.rmtree(directory, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=pathlib.Path, help="what server/cmake/bundle.sh made")
    parser.add_argument("out", type=pathlib.Path, help="folder for the result, and for the logs when something fails")
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--kernel", default="matmul")
    parser.add_argument("--dim", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--policy", default="fast")
    parser.add_argument("--few", type=int, default=2, help="compile workers of the agent with the GPU")
    parser.add_argument("--many", type=int, default=12, help="compile workers of the other")
    parser.add_argument("--seconds", type=float, default=235, help="of each of the two")
    options = parser.parse_args()
    options.device, options.gpus, options.tune_flag = "cuda", ["0"], []
    options.out.mkdir(parents=True, exist_ok=True)
    try:
        runs = [run(options, "alone", 0), run(options, "with another", options.many)]
    except Failure as failure:
        sys.exit(f"FAILED: {failure}; logs are in {options.out}")
    print(f"{options.kernel}, {options.trials} trials, {options.few} compile workers beside the GPU")
    print(f"{'':<14}{'trials':>8}{'OK':>6}{'search s':>10}{'binaries of the other':>23}")
    for one in runs:
        print(f"{one['name']:<14}{one['trials']:>8}{one['ok']:>6}{one['seconds']:>10.2f}{one['found']:>23}")
    (options.out / "farm_compile.json").write_text(json.dumps(runs, indent=1), encoding="utf-8")
    return 0 if runs[1]["found"] > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
