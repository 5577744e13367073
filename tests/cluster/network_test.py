"""The network of the farm's tests, itself: hosts hear each other, a cut cable stops that, nothing is left behind."""

import os
import pathlib
import re
import subprocess
import sys
import unittest

import network
import permitted
from network import Network

sys.path.insert(0, str(pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"]) / "tests" / "e2e"))
from farm import wait_until  # noqa: E402

ECHO = """
import socket, sys
server = socket.create_server(("", 7000))
print("up", flush=True)
while True:
    peer, _ = server.accept()
    total = 0
    while True:
        data = peer.recv(65536)
        if not data: break
        total += len(data)
    peer.sendall(str(total).encode())
    peer.close()
"""
SEND = """
import socket, sys
peer = socket.create_connection((sys.argv[1], 7000), timeout=60)
peer.sendall(b"x" * int(sys.argv[2]))
peer.shutdown(socket.SHUT_WR)
print(peer.recv(100).decode())
"""


def names():
    return subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout


class NetworkTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        network.require()

    def hears(self, host, other):
        return host.run(["ping", "-n", "-c", "1", "-W", "1", other.address], check=False).returncode == 0

    def assert_hears(self, host, other):
        # A busy machine answers later, and whose address it is has to be asked again after a cut.
        wait_until(lambda: self.hears(host, other), f"{other.address}'s answer")

    def test_a_cut_cable_stops_everything_until_it_is_healed(self):
        with Network() as net:
            a, b, c = (net.host(name) for name in "abc")
            for host, other in ((a, b), (b, c), (c, a)):
                self.assert_hears(host, other)
            net.cut(b)
            self.assertFalse(self.hears(a, b))
            self.assertFalse(self.hears(b, c))
            self.assert_hears(c, a)
            net.heal(b)
            self.assert_hears(a, b)
            self.assert_hears(b, c)

    def test_nothing_leads_out(self):
        with Network() as net:
            a = net.host("a")
            routes = a.run(["ip", "route"]).stdout.splitlines()
            self.assertEqual(len(routes), 1)
            self.assertIn("10.77.0.0/24", routes[0])
            self.assertNotIn("10.77.0.", subprocess.run(["ip", "address"], capture_output=True, text=True).stdout)

    def test_delay(self):
        with Network() as net:
            a, b = net.host("a"), net.host("b")
            net.impair(b, delay_ms=40)
            time_ms = float(re.search(r"time=([\d.]+)", a.run(["ping", "-n", "-c", "1", b.address]).stdout).group(1))
            self.assertGreaterEqual(time_ms, 80)  # there and back
            net.heal(b)
            self.assert_hears(a, b)

    def test_loss_of_one_direction(self):
        with Network() as net:
            a, b = net.host("a"), net.host("b")
            self.assert_hears(a, b)  # both know whose address it is
            net.impair(b, loss_to=1.0)
            self.assertFalse(self.hears(a, b))
            count = a.run(["cat", "/proc/net/dev"]).stdout
            b.run(["ping", "-n", "-c", "1", "-W", "1", a.address], check=False)
            self.assertNotEqual(a.run(["cat", "/proc/net/dev"]).stdout, count, "what b says still arrives")

    def test_tcp_comes_whole_through_delay_and_loss(self):
        with Network() as net:
            a, b = net.host("a"), net.host("b")
            server = b.popen([sys.executable, "-c", ECHO], stdout=subprocess.PIPE)
            self.addCleanup(server.stdout.close)
            self.addCleanup(server.wait)
            self.assertEqual(server.stdout.readline(), b"up\n")
            for impairment in ({}, {"delay_ms": 2, "jitter_ms": 2, "loss": 0.02}):
                if impairment:
                    net.impair(b, **impairment)
                self.assertEqual(a.run([sys.executable, "-c", SEND, b.address, 2_000_000]).stdout.strip(), "2000000")

    def test_the_end_takes_everything_along(self):
        with Network() as net:
            a = net.host("a")
            net.impair(a, delay_ms=1)
            process = a.popen(["cat"], stdin=subprocess.PIPE)
            wire = a.wire
            wait_until(lambda: a.processes() == [process.pid], "the process in its host")
        self.assertNotEqual(process.wait(), 0)
        process.stdin.close()
        self.assertIsNotNone(wire.returncode)
        self.assertNotIn(f"tf-{os.getpid()}-", names())

    def test_what_a_killed_process_left_is_swept(self):
        code = ("import os, sys; sys.path.insert(0, sys.argv[1]); from network import Network; n = Network(); n.host('a'); "
                "print(os.getpid(), flush=True); os.kill(os.getpid(), 9)")
        killed = subprocess.run([sys.executable, "-c", code, os.path.dirname(os.path.abspath(__file__))],
                                capture_output=True, text=True).stdout.strip()
        self.assertIn(f"tf-{killed}-a", names())
        Network().close()
        self.assertNotIn(f"tf-{killed}-", names())

    def test_without_permission_it_skips_or_fails_as_asked(self):
        code = "import sys; sys.path.insert(0, sys.argv[1]); import network; network.require()"
        command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", sys.executable, "-c", code,
                   os.path.dirname(os.path.abspath(__file__))]
        for required, error in (("0", "SkipTest"), ("1", "AssertionError")):
            done = subprocess.run(command, capture_output=True, text=True,
                                  env=dict(os.environ, TUNEFARM_REQUIRE_NAMESPACES=required))
            self.assertRegex(done.stderr, f"{error}: network namespaces cannot be made here")


if __name__ == "__main__":
    permitted.main()
