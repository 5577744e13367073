"""Ten peers at once that mean harm: the daemon's memory is bounded, everybody else is answered, and each of them is refused in
words. `tests/bench/hostile_clients.py` shows what it costs the others."""

import contextlib
import itertools
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.request

import fault_case
from fault_case import BIN, HANG_SECONDS, QUICK, FaultFarm
from farm import wait_until
from hostile_peers import IN_FLIGHT, LOOKUP, TEN, HostilePeer, http2_connection, memory, until_closed
from plain_calls import PlainCalls

PEAK_BYTES_MAX = 600 << 20
KEPT_BYTES_MAX = 32 << 20  # of what the attacks took
LOOKUPS = 200
ATTACK_SECONDS = 6  # at least; longer than the latest refusal
REFUSED_AT_ONCE, REFUSED_LATE_SECONDS = 20, 5  # server/rpc/late_refusals.h
WATCHES_MAX = 512  # of one principal; the two that watch want 800


def health(address):
    """The status of /healthz: on a machine this busy it may be 503, but it is an answer."""
    try:
        with urllib.request.urlopen(address + "/healthz", timeout=HANG_SECONDS) as page:
            return page.status
    except urllib.error.HTTPError as error:
        return error.code


def watches(address):
    """Those that are open; 0 where the daemon is too busy to say."""
    try:
        with urllib.request.urlopen(address + "/metrics", timeout=HANG_SECONDS) as page:
            return sum(int(count) for count in re.findall(r"^tunefarm_(?:catalog_)?watch_streams (\d+)", page.read().decode(), re.M))
    except urllib.error.HTTPError:
        return 0


class HostileClients(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="tunefarm-certs."))
        cls.ca = cls.folder / "ca"
        for arguments in (["init", cls.ca], ["issue", cls.ca, "--name", "control", "--host", "127.0.0.1"],
                          ["issue", cls.ca, "--name", "look", "--role", "lookup"],
                          ["issue", cls.ca, "--name", "alice", "--role", "submit,kernels"]):
            subprocess.run([BIN / "tunefarm", "certs", *map(str, arguments)], check=True, capture_output=True)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    def farm(self):
        # Without limits of rates: it is not those that protect the daemon.
        return FaultFarm("--listen", "127.0.0.1:0", "--tls-certificate", self.ca / "control.pem", "--tls-key",
                         self.ca / "control.key", "--tls-client-ca", self.ca / "ca.pem", "--http-listen", "127.0.0.1:0",
                         "--calls-per-second", "0")

    @staticmethod
    def address(farm):
        return next(a for a in farm.info()["addresses"] if not a.startswith("unix:"))

    def peer(self, kind, address, pages, size=1 << 20):
        name = {"explode": "alice", "watch": "look"}.get(kind)
        identity = {"certificate": self.ca / f"{name}.pem", "key": self.ca / f"{name}.key"} if name else {}
        return HostilePeer(kind, address=address, ca=self.ca / "ca.pem", http=pages, job="jobs/1", size=size, **identity)

    def attack(self, farm):
        """The peers, once they have ended. Meanwhile look-ups, probes and a job go on."""
        address, pages = self.address(farm), farm.info()["http_address"]
        with contextlib.ExitStack() as stack:
            peers = [stack.enter_context(self.peer(kind, address, pages)) for kind in TEN]
            with PlainCalls(f"unix:{farm.directory}/run/client.sock") as calls:
                begin = time.monotonic()
                for number in itertools.count():
                    if number >= LOOKUPS and time.monotonic() - begin >= ATTACK_SECONDS:
                        break
                    # Not repeated: peers on the network close no connection of this machine's users.
                    calls.seconds("/tunefarm.v1.LookupService/LookupConfig", LOOKUP)
                    if number % 10 == 0:
                        self.assertIn(health(pages), (200, 503))
                        self.assertLessEqual(watches(pages), WATCHES_MAX)
            farm.cli("tune", "noop_host", "--max-trials", "20", *QUICK)
            self.assertIn(health(pages), (200, 503))
        return peers

    def test_ten_hostile_clients_at_once(self):
        with self.farm() as farm:
            farm.start()
            farm.cli("tune", "noop_host", "--max-trials", "8", *QUICK)
            before = memory(farm.process.pid, "VmRSS")
            began = time.monotonic()
            peers = self.attack(farm)
            seconds = time.monotonic() - began
            for peer in peers:
                print(peer.kind, peer.counts, flush=True)
            for kind in ("nobody", "explode"):  # each of them one caller, with so many calls in flight
                in_flight = IN_FLIGHT * TEN.count(kind)
                refusals = sum(sum(peer.counts.values()) for peer in peers if peer.kind == kind)
                self.assertLessEqual(refusals, REFUSED_AT_ONCE + in_flight / REFUSED_LATE_SECONDS * (seconds + REFUSED_LATE_SECONDS))
            refused = {"nobody": "UNAUTHENTICATED", "explode": "RESOURCE_EXHAUSTED"}
            for peer in peers:
                if peer.kind in refused:
                    self.assertGreater(peer.counts.get(refused[peer.kind], 0), 0, peer.counts)
                    self.assertNotIn("OK", peer.counts)
                    self.assertNotIn("INVALID_ARGUMENT", peer.counts, "nothing of it was parsed")
            watching = [peer.counts for peer in peers if peer.kind == "watch"]
            self.assertGreater(sum(counts.get("OPEN", 0) for counts in watching), 100, watching)
            peak = memory(farm.process.pid, "VmHWM")
            print(f"before {before >> 20} MiB, peak {peak >> 20} MiB, now {memory(farm.process.pid, 'VmRSS') >> 20} MiB")
            self.assertLess(peak, PEAK_BYTES_MAX)
            wait_until(lambda: memory(farm.process.pid, "VmRSS") - before < KEPT_BYTES_MAX, "the memory given back")
            log = farm.log.read_text(errors="replace")
            self.assertLess(len(re.findall(r"\brpc (gRPC|protobuf) says:", log)), 100)
            self.assertNotRegex(log, r"^[EWID]\d{4} ", "a line of the library itself")

    def test_requests_nearly_as_large_as_they_may_be(self):
        """A few of them arrive at once, so that gRPC never runs out of memory: it closes nothing of others, and the daemon goes
        on."""
        with self.farm() as farm, contextlib.ExitStack() as stack:
            farm.start()
            farm.cli("tune", "noop_host", "--max-trials", "8", *QUICK)
            address, pages = self.address(farm), farm.info()["http_address"]
            peers = [stack.enter_context(self.peer("explode", address, pages, 15 << 20)) for _ in range(4)]
            with PlainCalls(f"unix:{farm.directory}/run/client.sock") as calls:
                for _ in range(20 * LOOKUPS):
                    calls.seconds("/tunefarm.v1.LookupService/LookupConfig", LOOKUP)
            peak = memory(farm.process.pid, "VmHWM")
            stack.close()
            print(f"peak {peak >> 20} MiB", [peer.counts for peer in peers], flush=True)
            self.assertLess(peak, PEAK_BYTES_MAX)

    def test_connections_without_identity_are_closed(self):
        """Those that never shake hands, those that shake hands and say no more, and those that speak HTTP/2 and never call."""
        with self.farm() as farm:
            farm.start()
            host, _, port = self.address(farm).rpartition(":")
            silent = [socket.create_connection((host, int(port))) for _ in range(20)]
            begun = [http2_connection(self.address(farm), self.ca / "ca.pem") for _ in range(20)]
            for connection in silent + begun:
                connection.settimeout(HANG_SECONDS)
                until_closed(connection)
                connection.close()
            self.assertEqual(farm.cli("devices").returncode, 0)


if __name__ == "__main__":
    fault_case.main()
