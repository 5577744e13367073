"""A held clock is free again whatever dies: the process that has asked for it, the one that holds it, or both. NVML is
tests/fakes/fake_nvml.c; the process that holds the clock is tunefarm-worker."""

import os
import pathlib
import select
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import fault_case
from fault_case import BIN, FaultFarm, generator

MHZ = 1410
CYCLES = 200 if fault_case.NIGHTLY else 5


class Clock(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="tunefarm-clock."))
        self.addCleanup(shutil.rmtree, self.directory)
        self.addCleanup(self.await_all)  # they write into it
        self.library = self.directory / "nvml"
        self.markers = self.directory / "clocks"
        self.library.mkdir()
        self.markers.mkdir(mode=0o700)
        (self.library / "libnvidia-ml.so.1").symlink_to(BIN / "fake_nvml" / "libnvidia-ml.so.1")
        self.marker = self.markers / "GPU-1"

    def clock(self):
        return int((self.library / "clock").read_text())

    def calls(self):
        return (self.library / "calls").read_text().splitlines()

    def start(self, mhz=MHZ):
        """A process like a daemon, in a session of its own, and the first line that it says."""
        process = subprocess.Popen([BIN / "clock_holder", BIN / "tunefarm-worker", self.markers, str(mhz)],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
                                   env=dict(os.environ, LD_LIBRARY_PATH=str(self.library)))
        self.addCleanup(self.end, process)
        return process, process.stdout.readline().strip()

    def hold(self):
        """The process, and a descriptor and the id of the one that holds the clock for it."""
        process, line = self.start()
        self.assertRegex(line, r"^held by \d+$")
        self.assertEqual(self.clock(), MHZ)
        self.assertTrue(self.marker.exists())
        return process, *self.holder(line)

    def holder(self, line):
        pid = int(line.split()[-1])
        pidfd = os.pidfd_open(pid)
        self.addCleanup(os.close, pidfd)
        return pidfd, pid

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()

    def await_end(self, pidfd):
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        self.assertTrue(poll.poll(fault_case.HANG_SECONDS * 1000), "the process that holds the clock does not end")

    def await_all(self):
        """No process holds the clock, or is about to."""
        for command in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if f"--clock-marker={self.marker}" in command.read_text():
                    pidfd = os.pidfd_open(int(command.parent.name))
                    self.await_end(pidfd)
                    os.close(pidfd)
            except (FileNotFoundError, ProcessLookupError):
                pass

    def await_waiter(self):
        """A process waits for the lock of the marker, which another one has."""
        inode = str(self.marker.stat().st_ino)
        deadline = time.monotonic() + fault_case.HANG_SECONDS
        while time.monotonic() < deadline:
            for line in pathlib.Path("/proc/locks").read_text().splitlines():
                fields = line.split()
                # "1: -> FLOCK ADVISORY WRITE pid major:minor:inode start end"
                if fields[1] == "->" and fields[-3].split(":")[-1] == inode:
                    return
            time.sleep(0.005)
        self.fail("nothing waits for the lock of the marker")

    def assert_free(self):
        self.assertEqual(self.clock(), 0)
        self.assertEqual(list(self.markers.iterdir()), [])

    def test_in_order(self):
        process, pidfd, _ = self.hold()
        process.stdin.close()
        self.assertEqual(process.wait(fault_case.HANG_SECONDS), 0)
        self.await_end(pidfd)
        self.assert_free()
        self.assertEqual(self.calls(), [f"lock {MHZ} {MHZ}", "reset"])

    def test_the_daemon_is_killed(self):
        for _ in range(CYCLES):
            process, pidfd, _ = self.hold()
            process.kill()
            self.await_end(pidfd)
            self.assert_free()

    def test_the_group_and_the_session_of_the_daemon_are_killed(self):
        process, pidfd, pid = self.hold()
        self.assertEqual(os.getsid(pid), pid)
        os.killpg(process.pid, signal.SIGKILL)
        self.await_end(pidfd)
        self.assert_free()

    def test_other_signals_do_not_end_it(self):
        process, pidfd, pid = self.hold()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1):
            os.kill(pid, number)
        self.assertEqual(self.clock(), MHZ)
        process.kill()
        # What ended it was the end of the daemon: it has freed the clock.
        self.await_end(pidfd)
        self.assert_free()

    def test_the_holder_is_killed(self):
        process, pidfd, pid = self.hold()
        for _ in range(2):
            os.kill(pid, signal.SIGKILL)
            line = process.stdout.readline().strip()
            self.assertRegex(line, r"^held by \d+$")
            self.assertEqual(self.clock(), MHZ)
            before = pid
            pidfd, pid = self.holder(line)
            self.assertNotEqual(pid, before)
        process.kill()
        self.await_end(pidfd)
        self.assert_free()

    def kill_both(self):
        process, pidfd, pid = self.hold()
        os.kill(pid, signal.SIGSTOP)  # so that it frees nothing in between
        process.kill()
        process.wait()
        os.kill(pid, signal.SIGKILL)
        self.await_end(pidfd)
        self.assertEqual(self.clock(), MHZ)
        self.assertTrue(self.marker.exists())

    def test_both_are_killed(self):
        for _ in range(CYCLES):
            self.kill_both()
            process, line = self.start(mhz=0)
            self.assertEqual(line, "free")
            self.assert_free()
            self.end(process)

    def test_both_are_killed_and_a_daemon_starts(self):
        self.kill_both()
        with FaultFarm() as farm:
            shutil.copytree(self.markers, farm.directory / "clocks")
            farm.start(LD_LIBRARY_PATH=str(self.library))
            self.assertEqual(farm.stop(), 0)
            self.assertEqual(self.clock(), 0)
            self.assertEqual(list((farm.directory / "clocks").iterdir()), [])

    def test_the_next_daemon_waits_for_the_holder_of_the_last(self):
        process, pidfd, pid = self.hold()
        os.kill(pid, signal.SIGSTOP)
        process.kill()
        process.wait()
        # It is started while the clock is still held, and may hold it itself when that process has freed it.
        successor = subprocess.Popen([BIN / "clock_holder", BIN / "tunefarm-worker", self.markers, "900"],
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                     env=dict(os.environ, LD_LIBRARY_PATH=str(self.library)))
        self.addCleanup(self.end, successor)
        self.await_waiter()
        self.assertEqual(self.calls(), [f"lock {MHZ} {MHZ}"])
        self.assertEqual(self.clock(), MHZ)
        os.kill(pid, signal.SIGCONT)
        self.await_end(pidfd)
        line = successor.stdout.readline()
        self.assertRegex(line, r"^held by \d+$")
        self.assertEqual(self.calls()[:2], [f"lock {MHZ} {MHZ}", "reset"])
        self.assertEqual(self.clock(), 900)

    def test_at_any_moment(self):
        random = generator("clock")
        for _ in range(CYCLES):
            process, line = self.start()
            pid = self.holder(line)[1]
            victims = [lambda: process.kill(), lambda: os.kill(pid, signal.SIGKILL)]
            random.shuffle(victims)
            for kill in victims[:random.randint(1, 2)]:
                kill()
            process.kill()
            process.wait()
            # While what the process has started last may not have begun.
            last, line = self.start(mhz=0)
            self.assertEqual(line, "free")
            self.end(last)
            self.await_all()
            self.assert_free()

    def test_without_permission(self):
        (self.library / "denied").touch()
        _, line = self.start()
        self.assertEqual(line, f"refused: the clock cannot be held at {MHZ} MHz: NVML says no permission; run the "
                               "daemon as root or leave out locked_clock_mhz")
        self.assertFalse(self.marker.exists())


if __name__ == "__main__":
    fault_case.main()
