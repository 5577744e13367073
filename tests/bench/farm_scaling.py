#!/usr/bin/env python3
"""How much faster several agents tune than one: daemons of a relocatable bundle, on a machine with several GPUs and no
build tools.

  farm_scaling.py BUNDLE OUT --trials N [--kernel grouped_gemm_forward] [--device cuda] [--dim NAME=VALUE ...]
                  [--policy default] [--tune-flag FLAG ...] [--gpus 0,1] [--goal RATIO] [--take-away] [--seconds 235]

A private certificate authority is made, a control daemon (on SQLite) and one agent for each GPU are started, each a process
with a data directory of its own; they talk over mTLS on loopback. The same list of trials is measured without early stops
and reuse: by one agent to fill its binary cache (not counted), by it again, and by all, the others with a copy of the
first's cache and a few trials to wake their runners. The ratio is the time of the one over the time of all, from the first
search trial's begin to the last one's end; the final, which is on one device by design, is shown apart.

--take-away: the list is measured once more by all agents. After a quarter of the trials the last agent, whose GPU is then
lost to the job, is killed with SIGKILL, and it is started again after half of them. Each trial must be there exactly once,
and the agent's GPU must have run some before and some after.

Everything together takes at most --seconds. The exit code is 1 below the goal, or when something failed; then the logs of
all daemons are in OUT. With --device host the agents are CPUs of this machine that share its cores: that shows that it
works, and says nothing about speed.
"""

import argparse
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

KINDS = {"cuda": "DEVICE_KIND_CUDA", "host": "DEVICE_KIND_HOST"}


class Failure(Exception):
    """What went wrong, for people."""


class Deadline:
    def __init__(self, seconds):
        self.end = time.monotonic() + seconds
        self.seconds = seconds

    def left(self, what):
        left = self.end - time.monotonic()
        if left <= 0:
            raise Failure(f"the {self.seconds} s are over before {what}")
        return left

    def wait_for(self, condition, what):
        while True:
            value = condition()
            if value:
                return value
            threading.Event().wait(min(0.05, self.left(what)))


def free_address():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


class Daemon:
    """A tunefarmd of the bundle."""

    def __init__(self, scaling, name, flags, environment=None):
        self.name, self.scaling = name, scaling
        self.data = scaling.directory / name
        self.data.mkdir(mode=0o700, exist_ok=True)
        with open(scaling.directory / f"{name}.log", "ab") as log:
            self.process = subprocess.Popen(
                [scaling.bin / "tunefarmd", "--data-dir", self.data, "--share-host", *flags],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={**os.environ, "XDG_RUNTIME_DIR": str(self.data), **(environment or {})})

    def check(self):
        if self.process.poll() is not None:
            raise Failure(f"{self.name} ended with {self.process.returncode}")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.kill()


class Scaling:
    def __init__(self, options, directory):
        self.options, self.directory = options, directory
        self.bin = options.bundle.resolve() / "bin"
        self.deadline = Deadline(options.seconds)
        self.daemons = []
        self.jobs = 0

    def run(self, *arguments, server=True):
        environment = {**os.environ, "TUNEFARM_DATA_DIR": str(self.directory / "control"),
                       "XDG_RUNTIME_DIR": str(self.directory / "control")}
        environment.pop("TUNEFARM_SERVER", None)
        words = [str(word) for word in arguments]
        if server:
            for daemon in self.daemons:
                daemon.check()
        try:
            done = subprocess.run([self.bin / "tunefarm", *words], capture_output=True, text=True, env=environment,
                                  stdin=subprocess.DEVNULL, timeout=self.deadline.left(f"'tunefarm {words[0]}'"), check=False)
        except subprocess.TimeoutExpired:
            raise Failure(f"the {self.deadline.seconds} s are over during 'tunefarm {' '.join(words)}'") from None
        if done.returncode != 0:
            raise Failure(f"'tunefarm {' '.join(words)}' ended with {done.returncode}:\n{done.stdout}{done.stderr}".rstrip())
        return done.stdout

    def json(self, *arguments):
        return json.loads(self.run("--output", "json", *arguments) or "{}")

    def start_control(self):
        certificates = self.directory / "certificates"
        self.run("certs", "init", certificates, server=False)
        self.run("certs", "issue", certificates, "--name", "control", "--host", "127.0.0.1", server=False)
        self.run("certs", "issue", certificates, "--name", "agent", "--role", "agent", server=False)
        self.address, self.pages = free_address(), free_address()
        control = Daemon(self, "control", ["--role", "control", "--no-gpu", "--listen", self.address, "--http-listen", self.pages,
                                           "--tls-certificate",
                                           certificates / "control.pem", "--tls-key", certificates / "control.key",
                                           "--tls-client-ca", certificates / "ca.pem"])
        self.daemons.append(control)

        def answers():
            control.check()
            return list(control.data.rglob("admin.sock"))

        self.deadline.wait_for(answers, "the control daemon listens")

    def start_agent(self, number, compile_workers=None, returns=False):
        """The uuid of the device that it brings; with `returns` nothing: the agent was there before, and so was its device."""
        certificates = self.directory / "certificates"
        known = {device["uuid"] for device in self.devices()}
        flags = ["--role", "agent", "--control", self.address, "--agent-name", f"agent{number}", "--tls-ca",
                 certificates / "ca.pem", "--tls-certificate", certificates / "agent.pem", "--tls-key",
                 certificates / "agent.key"]
        environment = {}
        if self.options.device == "cuda":
            environment["CUDA_VISIBLE_DEVICES"] = self.options.gpus[number]
        else:
            flags.append("--no-gpu")
        if os.geteuid() == 0:  # workers under users of their own: as root, processes of one user share limits
            flags += ["--worker-uid-base", 200_000 + 1024 * (2 * (os.getpid() % 50_000) + number)]
        # An equal share of the cores for each, also while the others are not there yet.
        flags += ["--compile-workers", compile_workers or max(1, len(os.sched_getaffinity(0)) // len(self.options.gpus))]
        self.daemons.append(Daemon(self, f"agent{number}", [str(flag) for flag in flags], environment))
        if returns:
            return None
        return self.deadline.wait_for(lambda: {device["uuid"] for device in self.devices()} - known,
                                      f"agent{number} brings a device for --device {self.options.device}").pop()

    def devices(self):
        return [device for device in self.json("devices").get("devices", [])
                if device["device_class"].get("kind") == KINDS[self.options.device]
                and device.get("state") == "DEVICE_STATE_READY"]

    def tune(self, trials, device):
        dims = [word for dim in self.options.dim for word in ("--dim", dim)]
        self.run("tune", self.options.kernel, "--device", device, *dims, "--strategy", "random", "--seed", 1, "--max-trials",
                 trials, "--policy", self.options.policy, "--measure", "no_early_stop=true", "--measure", "no_reuse=true",
                 "--rows", 0, *self.options.tune_flag)

    def measure(self, trials, device, tune=None):
        self.jobs += 1
        (tune or self.tune)(trials, device)
        ended = self.json("results", self.jobs, "--all").get("trials", [])
        searched = [trial for trial in ended if trial.get("purpose") == "TRIAL_PURPOSE_SEARCH"]
        ran = [trial for trial in searched if float(trial.get("run_ms", 0)) > 0]
        if len(searched) != trials or not ran:
            raise Failure(f"of {trials} trials {len(searched)} were made, and {len(ran)} came to a device")
        begin = min(int(trial["ended_at_ms"]) - float(trial["run_ms"]) for trial in ran)
        shares = {}
        for trial in ran:
            shares[trial["device_uuid"]] = shares.get(trial["device_uuid"], 0) + 1
        return {"trials": len(searched), "ok": sum(trial.get("outcome") == "OUTCOME_OK" for trial in searched),
                "configs": len({json.dumps(trial["config"], sort_keys=True) for trial in searched}),
                "ms_a_trial": sum(float(trial["run_ms"]) for trial in ran) / len(ran),
                "ended_ms": [[int(trial["ended_at_ms"]), trial["device_uuid"]] for trial in ran],
                "cached": sum(bool(trial.get("cached_binary")) for trial in searched), "shares": shares,
                "seconds": (max(int(trial["ended_at_ms"]) for trial in searched) - begin) / 1e3,
                "all_seconds": (max(int(trial["ended_at_ms"]) for trial in ended) - begin) / 1e3}

    def tune_with_a_death(self, trials, device):
        """As tune(); the last agent is killed after a quarter of the trials and started again after half of them."""
        failures = []

        def tune():
            try:
                self.tune(trials, device)
            except Failure as failure:
                failures.append(failure)

        def done(count):
            if failures:
                raise failures[0]
            job = next((job for job in self.json("jobs", "list").get("jobs", [])
                        if job["name"].rpartition("/")[2] == str(self.jobs)), {})
            return int(job.get("progress", {}).get("done", 0)) >= count

        tuning = threading.Thread(target=tune)
        tuning.start()
        try:
            self.deadline.wait_for(lambda: done(trials // 4), "a quarter of the trials are done")
            last = self.daemons.pop()
            last.kill()
            self.killed_ms = time.time() * 1e3
            self.deadline.wait_for(lambda: done(trials // 2), "half of the trials are done")
            self.start_agent(len(self.options.gpus) - 1, returns=True)
            self.returned_ms = time.time() * 1e3
        finally:
            tuning.join()
        if failures:
            raise failures[0]

    def run_all(self):
        options = self.options
        self.start_control()
        devices = [self.start_agent(0)]
        runs = [self.measure(options.trials, options.device) for _ in range(2)]
        for number in range(1, len(options.gpus)):
            data = self.directory / f"agent{number}"
            data.mkdir(mode=0o700)
            shutil.copytree(self.directory / "agent0" / "cache", data / "cache")
            devices.append(self.start_agent(number))
            self.measure(min(4, options.trials), devices[-1])
        runs.append(self.measure(options.trials, options.device))
        if set(runs[1]["shares"]) != {devices[0]} or set(runs[2]["shares"]) != set(devices):
            raise Failure(f"trials ran elsewhere than they should: {runs[1]['shares']}, then {runs[2]['shares']}")
        if options.take_away:
            run = self.measure(options.trials, options.device, self.tune_with_a_death)
            ended = [at for at, device in run["ended_ms"] if device == devices[-1]]
            run["last"] = {"before": sum(at <= self.killed_ms for at in ended),
                           "after": sum(at >= self.returned_ms for at in ended),
                           "away_s": (self.returned_ms - self.killed_ms) / 1e3}
            runs.append(run)
            if run["configs"] != options.trials or run["ok"] != runs[2]["ok"]:
                raise Failure(f"with a death {run['configs']} configs have {run['trials']} trials, {run['ok']} of them OK; "
                              f"without {runs[2]['ok']} are OK")
            if not run["last"]["before"] or not run["last"]["after"]:
                raise Failure(f"the agent that was killed ran {run['last']['before']} trials before and "
                              f"{run['last']['after']} after; use more trials")
        return runs

    def stop(self):
        for daemon in reversed(self.daemons):
            daemon.stop()


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=pathlib.Path, help="what server/cmake/bundle.sh made")
    parser.add_argument("out", type=pathlib.Path, help="folder for the result, and for the logs when something fails")
    parser.add_argument("--trials", type=int, required=True)
    parser.add_argument("--kernel", default="grouped_gemm_forward", help="a kernel of the bundle, or a folder")
    parser.add_argument("--device", choices=sorted(KINDS), default="cuda")
    parser.add_argument("--dim", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--policy", default="default")
    parser.add_argument("--tune-flag", action="append", default=[], metavar="FLAG", help="one more word for 'tunefarm tune'")
    parser.add_argument("--gpus", default="0,1", type=lambda text: text.split(","), help="the agents' CUDA_VISIBLE_DEVICES")
    parser.add_argument("--goal", type=float, help="ratio (default: 0.95 for each agent); 0: any")
    parser.add_argument("--take-away", action="store_true", help="kill the last agent in a further job and start it again")
    parser.add_argument("--seconds", type=float, default=235)
    options = parser.parse_args()
    if len(options.gpus) < 2 or len(set(options.gpus)) != len(options.gpus):
        parser.error("--gpus: two or more different ones, such as 0,1")
    if options.goal is None:
        options.goal = 0.95 * len(options.gpus)
    if options.trials < 2 or options.seconds <= 0:
        parser.error("--trials must be at least 2, and --seconds more than 0")
    missing = [name for name in ("tunefarm", "tunefarmd", "tunefarm-worker") if not (options.bundle / "bin" / name).is_file()]
    if missing:
        parser.error(f"{options.bundle} is no bundle: bin/{missing[0]} is missing")
    return options


def report(options, runs):
    print(f"{options.kernel}, {options.trials} trials, --device {options.device}; daemons over mTLS on loopback")
    # A trial that takes longer where more agents work waits for what they share: the driver, the processors, the disk.
    print(f"{'':<24}{'agents':>7}{'trials':>8}{'OK':>6}{'cached':>8}{'search s':>10}{'with final s':>14}{'ms a trial':>12}"
          "  trials of each")
    for name, run in zip(("one, cold: not counted", "one", "all", "all, one killed"), runs):
        print(f"{name:<24}{len(run['shares']):>7}{run['trials']:>8}{run['ok']:>6}{run['cached']:>8}{run['seconds']:>10.2f}"
              f"{run['all_seconds']:>14.2f}{run['ms_a_trial']:>12.1f}  {', '.join(str(count) for count in run['shares'].values())}")
        del run["ended_ms"]
    ratio = runs[1]["seconds"] / runs[2]["seconds"]
    print(f"{len(options.gpus)} agents are {ratio:.2f} times as fast as one")
    if options.take_away:
        last = runs[3]["last"]
        print(f"the last agent was killed, was away for {last['away_s']:.1f} s, and ran {last['before']} trials before and "
              f"{last['after']} after; each of the {runs[3]['trials']} trials is there once")
    (options.out / "farm_scaling.json").write_text(json.dumps({"ratio": ratio, "runs": runs}, indent=1), encoding="utf-8")
    if ratio < options.goal:
        raise Failure(f"{ratio:.2f} is below the goal of {options.goal}")


def main():
    options = arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    directory = pathlib.Path(tempfile.mkdtemp(prefix="tunefarm-scaling."))
    directory.chmod(0o711)  # workers under other users go through it
    scaling = Scaling(options, directory)
    begin = time.monotonic()
    try:
        report(options, scaling.run_all())
        return 0
    except Failure as failure:
        print(f"FAILED after {time.monotonic() - begin:.0f} s: {failure}")
        for log in directory.glob("*.log"):
            shutil.copy(log, options.out)
        print(f"logs are in {options.out}")
        return 1
    finally:
        scaling.stop()
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
