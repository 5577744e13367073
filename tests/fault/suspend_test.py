"""Processes that stand still for longer than anybody waits for them, and go on afterwards."""

import os
import pathlib
import signal
import time
import unittest

import fault_case
from fault_case import QUICK, FaultFarm, SuspendedProcess, wait_until
from farm import assert_ordinals_complete, outcome, search

# Well above what an honest trial or compile needs, even where everything takes ten times as long.
LAUNCH_TIMEOUT_MS = 6000
COMPILE_TIMEOUT_MS = 15_000
# Longer than a launch may take under that limit.
STANDSTILL_SECONDS = 10


def alive(pid):
    """Whether it could go on. One that nobody has waited for yet could not: that is left to whoever is pid 1 here."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def send(number, pids):
    """Those that it reached."""
    reached = []
    for pid in pids:
        try:
            os.kill(pid, number)
            reached.append(pid)
        except ProcessLookupError:
            pass
    return reached


class Suspend(unittest.TestCase):
    def suspend_worker(self, farm, role, submit):
        """Stops every process of a worker of that role while a job runs, until the daemon has done away with them. The
        job, which has ended: the first one that was not done with such workers before they were stopped."""
        for attempt in range(100):
            job = farm.cli(*submit, "--strategy", "random", "--seed", attempt + 1).stdout.strip()
            wait_until(lambda: farm.trials(job), "the first results")
            stopped = send(signal.SIGSTOP, farm.workers(role))
            begin = time.monotonic()
            wait_until(lambda: not any(alive(pid) for pid in stopped) or farm.state(job) == "SUCCEEDED",
                       f"the end of stopped workers {stopped}")
            if stopped and not any(alive(pid) for pid in stopped):
                break
            send(signal.SIGCONT, stopped)
        else:
            self.fail("every job ended before its worker could be stopped")
        print(f"{role}: the stopped worker was replaced after {fault_case.elapsed(begin)}")
        send(signal.SIGCONT, stopped)  # too late, and reports nothing
        self.assertEqual(farm.watch_to_end(job), "SUCCEEDED")
        return job

    def test_a_command_says_that_the_daemon_stands_still(self):
        with FaultFarm() as farm:
            farm.start()
            with SuspendedProcess(farm.process.pid):
                refused = farm.cli("jobs", check=False)
            self.assertEqual(refused.returncode, 4, refused.stderr)
            self.assertIn("accepts connections but does not answer", refused.stderr)
            self.assertEqual(farm.cli("jobs").returncode, 0)

    def test_a_runner_that_stands_still(self):
        with FaultFarm("--launch-timeout-ms", LAUNCH_TIMEOUT_MS) as farm:
            farm.start()
            job = self.suspend_worker(farm, "run", ["submit", "--quiet", "noop_host", "--max-trials", "300", *QUICK])
            trials = farm.trials(job)
            assert_ordinals_complete(trials)
            late = [t for t in trials if outcome(t) != "OK"]
            self.assertLessEqual(len(late), 2, late)  # the one in hand, and the next one that it may have been sent
            self.assertLessEqual({outcome(t) for t in late}, {"RUN_TIMEOUT", "RUN_CRASH"})

    def test_a_compiler_that_stands_still(self):
        with FaultFarm("--compile-timeout-ms", COMPILE_TIMEOUT_MS, "--compile-workers", "1") as farm:
            farm.start()
            job = self.suspend_worker(farm, "compile", ["submit", "--quiet", "matmul_host", "--dim", "M=32", "--dim",
                                                        "N=32", "--dim", "K=32", "--max-trials", "60", *QUICK])
            trials = search(farm.trials(job))
            self.assertEqual(len(trials), 60)
            late = [t for t in trials if outcome(t) != "OK"]
            self.assertLessEqual(len(late), 8, late)  # those that share the binary
            self.assertLessEqual({outcome(t) for t in late}, {"COMPILE_TIMEOUT"})

    def test_a_daemon_that_stands_still(self):
        """The workers go on meanwhile and answer in time: that the daemon reads it late is not their fault."""
        with FaultFarm("--launch-timeout-ms", LAUNCH_TIMEOUT_MS) as farm:
            farm.start()
            job = farm.cli("submit", "--quiet", "noop_host", "--max-trials", "300", *QUICK).stdout.strip()
            wait_until(lambda: farm.trials(job), "the first results")
            # The deadlines of what runs pass while nobody looks: the time is the fault, not a wait for something.
            with SuspendedProcess(farm.process.pid):
                time.sleep(STANDSTILL_SECONDS)
            self.assertEqual(farm.watch_to_end(job), "SUCCEEDED")
            trials = farm.trials(job)
            assert_ordinals_complete(trials)
            self.assertEqual([t for t in trials if outcome(t) != "OK"], [])
            self.assertEqual({t["attempt"] for t in trials}, {1})


if __name__ == "__main__":
    fault_case.main()
