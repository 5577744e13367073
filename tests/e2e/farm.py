"""A daemon with a data directory of its own, driven through the CLI: what the end-to-end and fault tests stand on."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

BIN = pathlib.Path(os.environ["TUNEFARM_BIN_DIR"])
KERNELS = pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"]) / "kernels"
# As root: what another program's workers fork without end counts against their own users.
WORKER_UIDS = ["--worker-uid-base", str(100_000 + 1024 * (os.getpid() % 100_000))]


class CliError(AssertionError):
    pass


# No test judges how long something takes. What takes this long does not come any more, on the slowest machine.
HANG_SECONDS = 600


def wait_until(condition, what, seconds=HANG_SECONDS):
    """Polls where there is no event to wait for (another process's state); fails loudly, never silently."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"{what} did not happen within {seconds} s")


def wait_for_daemon(process, data_directory):
    """Until the daemon of the directory, which is `process`, answers the Python client; fails if it ends before. The client
    is imported here: most tests that import this file have none."""
    import tunefarm

    def answers():
        if process.poll() is not None:
            raise AssertionError(f"the daemon ended with {process.returncode}")
        try:
            with tunefarm.Client(data_directory=data_directory, start=False):
                return True
        except tunefarm.UnavailableError:
            return False

    wait_until(answers, "the daemon's answer")


class Farm:
    """`with Farm() as farm:` makes the directory; start() the daemon; the end kills it and proves that nothing is left."""

    def __init__(self, *flags, directory=None):
        self.flags = [str(flag) for flag in flags]
        self.owned = directory is None
        self.directory = pathlib.Path(directory or tempfile.mkdtemp(prefix="tunefarm-e2e."))
        self.process = None
        self.wrapper = []  # set: a command that executes the daemon's, such as prlimit
        self.devices = ["--no-gpu"]  # []: the GPUs of this machine too
        self.server = None  # set: commands ask there, and never start a daemon by themselves
        self.log = self.directory.parent / (self.directory.name + ".log")

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        if self.process and self.process.poll() is None:
            self.kill()
        if kind is not None:
            self.print_log()
        try:
            self.assert_no_orphans()
        finally:
            if self.owned:
                shutil.rmtree(self.directory, ignore_errors=True)
                self.log.unlink(missing_ok=True)

    def print_log(self):
        if self.log.exists():
            print("--- daemon log (end) ---\n" + self.log.read_text(errors="replace")[-8000:])

    def start(self, **environment):
        """`environment`: variables of the daemon, beside this process's own."""
        self.spawn(**environment)
        wait_until(self._answers, "the daemon's answer")
        return self

    def spawn(self, **environment):
        """start() without waiting for an answer."""
        environment = dict(os.environ, **environment)
        environment.setdefault("TUNEFARM_LOG_LEVEL", "info")
        # Tests judge no times: their trials need not take turns on the cores.
        environment.setdefault("TUNEFARM_SHARE_HOST", "1")
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [*self.wrapper, BIN / "tunefarmd", "--data-dir", self.directory, *self.devices, *WORKER_UIDS, *self.flags],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)

    def _answers(self):
        if self.process.poll() is not None:
            raise AssertionError(f"the daemon ended with {self.process.returncode}: {self.log.read_text()[-2000:]}")
        return self.cli("status", check=False).returncode == 0

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(HANG_SECONDS)

    def cli(self, *arguments, check=True):
        if arguments[0] in ("tune", "submit", "run"):
            # A busy machine makes times unknowable; the tests judge everything else. Flushing a large cache before every
            # sample would be most of what they do.
            arguments += ("--measure", "noisy_relative_half_width=-1", "--warm-cache")
        environment = dict(os.environ, TUNEFARM_DATA_DIR=str(self.directory), TUNEFARM_KERNELS=str(KERNELS))
        environment.pop("TUNEFARM_SERVER", None)
        if self.server:
            environment["TUNEFARM_SERVER"] = self.server
        done = subprocess.run([BIN / "tunefarm", *map(str, arguments)], capture_output=True, text=True, env=environment,
                              timeout=HANG_SECONDS, stdin=subprocess.DEVNULL)
        if check and done.returncode != 0:
            raise CliError(f"tunefarm {' '.join(map(str, arguments))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done

    def json(self, *arguments, **options):
        return json.loads(self.cli("--output", "json", *arguments, **options).stdout or "{}")

    def trials(self, job):
        return self.json("results", job, "--all").get("trials", [])

    def info(self):
        return self.json("status")

    def orphans(self):
        """Processes that name this directory on their command line, other than the daemon itself."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            if self.process and self.process.poll() is None and int(entry.name) == self.process.pid:
                continue
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if str(self.directory) in command:
                found.append((int(entry.name), command))
        return found

    def assert_no_orphans(self):
        # The kernel ends a namespace asynchronously once its first process is dead.
        wait_until(lambda: not self.orphans(), f"the end of all workers ({self.orphans()})")


class SharedFarm(unittest.TestCase):
    """Tests with one daemon, `farm`, that runs from the first to the last."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.farm = Farm()
        cls.addClassCleanup(cls.farm.__exit__, None, None, None)
        cls.farm.start()


def outcome(trial):
    return trial.get("outcome", "OUTCOME_UNSPECIFIED").removeprefix("OUTCOME_")


def config(trial):
    """Values by name."""
    return dict(trial.get("config", {}))


def search(trials):
    return [t for t in trials if t.get("purpose") == "TRIAL_PURPOSE_SEARCH"]


def assert_ordinals_complete(trials):
    """Every ordinal of every study has exactly one final outcome."""
    by_study = {}
    for trial in trials:
        study, ordinal = trial["name"].split("/trials/")
        by_study.setdefault(study, []).append(int(ordinal))
        assert outcome(trial) not in ("UNSPECIFIED", "LOST"), trial
    for study, ordinals in by_study.items():
        assert sorted(ordinals) == list(range(len(ordinals))), f"{study}: {sorted(ordinals)}"
