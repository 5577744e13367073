"""What the daemon tells a service manager: that it is ready, that it goes round, that it ends."""

import os
import pathlib
import signal
import socket
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"]) / "tests" / "e2e"))
from farm import HANG_SECONDS, Farm  # noqa: E402


class Manager:
    """The service manager's end of NOTIFY_SOCKET."""

    def __init__(self, folder):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.path = f"{folder}/notify"
        self.socket.bind(self.path)
        self.socket.settimeout(HANG_SECONDS)

    def next(self):
        return self.socket.recv(4096).decode()

    def silent_for(self, seconds):
        self.socket.settimeout(seconds)
        try:
            return self.next() == ""
        except TimeoutError:
            return True


class Watchdog(unittest.TestCase):
    def setUp(self):
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix="tunefarm-notify."))
        self.manager = Manager(folder)
        self.addCleanup(self.manager.socket.close)

    def test_it_is_heard_until_the_end(self):
        with Farm() as farm:
            farm.start(NOTIFY_SOCKET=self.manager.path, WATCHDOG_USEC="2000000", WATCHDOG_PID="")
            self.assertEqual([self.manager.next() for _ in range(4)], ["READY=1"] + 3 * ["WATCHDOG=1"])
            farm.process.send_signal(signal.SIGTERM)
            rest = []
            while "STOPPING=1" not in rest:
                rest.append(self.manager.next())
            self.assertLessEqual(set(rest), {"WATCHDOG=1", "STOPPING=1"})
            self.assertEqual(farm.process.wait(HANG_SECONDS), 0)

    def test_a_frozen_daemon_is_not(self):
        with Farm() as farm:
            farm.start(NOTIFY_SOCKET=self.manager.path, WATCHDOG_USEC="2000000")
            self.assertEqual([self.manager.next() for _ in range(2)], ["READY=1", "WATCHDOG=1"])
            farm.process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, farm.process.pid, os.WSTOPPED)
            self.manager.socket.setblocking(False)
            try:
                while True:
                    self.manager.next()  # sent before it froze
            except BlockingIOError:
                pass
            self.assertTrue(self.manager.silent_for(4))
            self.manager.socket.settimeout(HANG_SECONDS)
            farm.process.send_signal(signal.SIGCONT)
            self.assertEqual(self.manager.next(), "WATCHDOG=1")

    def test_nobody_asked(self):
        with Farm() as farm:
            farm.start(NOTIFY_SOCKET=self.manager.path)
            self.assertEqual(self.manager.next(), "READY=1")
            self.assertTrue(self.manager.silent_for(3))


if __name__ == "__main__":
    unittest.main()
