"""What the fault tests share: a seed that is printed and can be given again, and a farm that is checked at its end.

Every test file runs as `FILE.py [--seed N] [Class.test]`; TUNEFARM_NIGHTLY=1 asks for the long form.
"""

import os
import pathlib
import random
import re
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "e2e"))
from farm import BIN, HANG_SECONDS, Farm, wait_until  # noqa: E402, F401
import invariants  # noqa: E402
import permitted  # noqa: E402

SOURCE = pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"])
NIGHTLY = os.environ.get("TUNEFARM_NIGHTLY") == "1"
SEED = int(os.environ.get("TUNEFARM_SEED", "20"))
if "--seed" in sys.argv:
    at = sys.argv.index("--seed")
    SEED = int(sys.argv[at + 1])
    del sys.argv[at:at + 2]
# Measured as briefly as can be, and each time anew: nothing here is about times.
QUICK = ["--policy", "fast", "--min-samples", "1", "--max-samples", "1", "--time-budget-ms", "5", "--warm-cache",
         "--measure", "no_reuse=true"]
print(f"seed {SEED}{', nightly' if NIGHTLY else ''}", flush=True)


def generator(name):
    """Random numbers of one test: the same for the same seed, whatever ran before."""
    return random.Random(f"{SEED} {name}")


def failpoints():
    """All there are, from the header that lists them."""
    names = re.findall(r'^    "([\w.]+)",', (SOURCE / "server/base/failpoint.h").read_text(), re.M)
    assert len(names) > 10, names
    return names


class FaultFarm(Farm):
    """A farm that stops its daemon at the end, if a fault has not, and holds everything against the invariants."""

    def __init__(self, *flags, directory=None, incomplete=(), lost=False):
        super().__init__("--log-level", "info,store=debug", *flags, directory=directory)
        self.incomplete = set(incomplete)
        self.lost = lost
        # A command that finds the daemon dead must say so: it would start another one.
        self.server = f"unix:{self.directory}/run/admin.sock"
        self.shared_memory = invariants.shared_memory()

    def __exit__(self, kind, value, traceback):
        try:
            if kind is None:
                self.finish()
        except BaseException:
            self.print_log()
            raise
        finally:
            super().__exit__(kind, value, traceback)

    def finish(self):
        clean = self.process is not None and self.process.poll() is None
        if clean:
            status = self.stop()
            assert status == 0, f"the daemon ended with {status}"
        self.check(clean)
        left = invariants.shared_memory() - self.shared_memory
        assert not left, f"left in /dev/shm: {left}"

    def check(self, clean=False):
        invariants.check(self, self.incomplete, self.lost, clean)

    def workers(self, role):
        """Pids of the daemon's workers of a role: stub, init and worker of each."""
        return [pid for pid, command in self.orphans() if f"--role={role}" in command]

    def state(self, job):
        return self.json("jobs", "show", job)["state"].removeprefix("JOB_STATE_")

    def watch_to_end(self, job):
        self.cli("jobs", "watch", job, check=False)
        return self.state(job)


class SuspendedProcess:
    """`with SuspendedProcess(pid):` SIGSTOP, and SIGCONT at the end if it still lives."""

    def __init__(self, pid):
        self.pid = pid

    def __enter__(self):
        os.kill(self.pid, signal.SIGSTOP)
        return self

    def __exit__(self, kind, value, traceback):
        try:
            os.kill(self.pid, signal.SIGCONT)
        except ProcessLookupError:
            pass


def elapsed(begin):
    return f"{time.monotonic() - begin:.1f} s"


def main():
    permitted.main(verbosity=2)
