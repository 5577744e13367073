"""A network of hosts on one machine: network namespaces that this makes itself, joined by a bridge in one more of them.

    with Network() as network:
        db, control = network.host("db"), network.host("control")
        control.run(["ping", "-c", "1", db.address])
        network.cut(db); network.heal(db)
        network.impair(db, delay_ms=50, loss=0.01)

Addresses are of 10.77.0.0/24 and exist inside those namespaces only; nothing leads out of them. Their names are
tf-PID-HOST: everything goes when the Network is closed, when the process ends, or, if it was killed, when the next
Network is made. Delay and loss are made by a process of this file that stands in the link (not every kernel has tc's
netem), with a seed: the same losses for the same frames.

Needs root, or CAP_SYS_ADMIN and CAP_NET_ADMIN. Where namespaces cannot be made, `require()` skips the test with the reason
(see tests/e2e/permitted.py).
"""

import argparse
import array
import atexit
import fcntl
import heapq
import os
import pathlib
import random
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import permitted  # noqa: E402

SUBNET = "10.77.0"
HOSTS_MAX = 200
NAMESPACES = pathlib.Path("/run/netns")
NAME = re.compile(r"^tf-(\d+)-([a-z0-9]+)$")


class NotPermitted(Exception):
    pass


def _ip(*arguments, check=True):
    done = subprocess.run(["ip", *map(str, arguments)], capture_output=True, text=True)
    if check and done.returncode != 0:
        raise RuntimeError(f"ip {' '.join(map(str, arguments))}: {done.stderr.strip()}")
    return done


def sweep():
    """Removes what killed processes have left."""
    for entry in NAMESPACES.iterdir() if NAMESPACES.is_dir() else ():
        found = NAME.match(entry.name)
        if found and not pathlib.Path(f"/proc/{found.group(1)}").exists():
            _ip("netns", "delete", entry.name, check=False)


def require():
    """Skips the running test where there can be no network namespaces."""
    try:
        Network().close()
    except NotPermitted as error:
        permitted.skip(str(error))


class Host:
    """One namespace: `lo`, and `eth0` with the address."""

    def __init__(self, network, name, number):
        self.network, self.name, self.number = network, name, number
        self.namespace = f"tf-{os.getpid()}-{name}"
        self.address = f"{SUBNET}.{number}"
        self.port = f"v{number}"  # the bridge's end of its cable
        self.wire = None
        self.is_cut = False

    def command(self, command):
        """The command line that runs it here. No process stands between: its id is the command's own."""
        return ["nsenter", f"--net={NAMESPACES / self.namespace}", *map(str, command)]

    def popen(self, command, **options):
        return subprocess.Popen(self.command(command), **options)

    def run(self, command, check=True, **options):
        done = subprocess.run(self.command(command), capture_output=True, text=True, **options)
        if check and done.returncode != 0:
            raise RuntimeError(f"{' '.join(map(str, command))} on {self.name} ended with {done.returncode}: "
                               f"{done.stdout}{done.stderr}")
        return done

    def processes(self):
        """Ids of all processes in the namespace, whoever started them."""
        return [int(pid) for pid in _ip("netns", "pids", self.namespace, check=False).stdout.split()]


class Network:
    def __init__(self):
        self.hosts = {}
        self.bridge = f"tf-{os.getpid()}-bridge"
        self.closed = False
        sweep()
        done = _ip("netns", "add", self.bridge, check=False)
        if done.returncode != 0:
            raise NotPermitted(f"network namespaces cannot be made here ({done.stderr.strip() or 'ip netns failed'})")
        atexit.register(self.close)
        try:
            _ip("-n", self.bridge, "link", "add", "br0", "type", "bridge")
            _ip("-n", self.bridge, "link", "set", "br0", "up")
        except RuntimeError as error:
            self.close()
            raise NotPermitted(f"there can be no bridge in a network namespace ({error})") from None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def host(self, name):
        """A new host, connected."""
        assert NAME.match(f"tf-1-{name}"), f"'{name}' is no name of a host: small letters and digits"
        assert name not in self.hosts and name != "bridge", f"there is a host {name} already"
        assert len(self.hosts) < HOSTS_MAX, f"a network has {HOSTS_MAX} hosts at most"
        host = Host(self, name, len(self.hosts) + 1)
        _ip("netns", "add", host.namespace)
        self.hosts[name] = host
        _ip("-n", self.bridge, "link", "add", host.port, "type", "veth", "peer", "name", "eth0", "netns", host.namespace)
        _ip("-n", host.namespace, "address", "add", f"{host.address}/24", "dev", "eth0")
        # Frames as they would be on a cable: whole checksums, no more than 1,514 bytes. impair() needs both.
        subprocess.run(host.command([sys.executable, __file__, "plain", "eth0"]), check=True)
        for interface in ("lo", "eth0"):
            _ip("-n", host.namespace, "link", "set", interface, "up")
        self._plug(host)
        return host

    def _plug(self, host):
        _ip("-n", self.bridge, "link", "set", host.port, "master", "br0", "up")

    def cut(self, host):
        """Pulls the cable: nothing passes, and nobody is told."""
        host.is_cut = True
        _ip("-n", self.bridge, "link", "set", host.port, "down")

    def heal(self, host):
        """Back to a cable that is plugged in and delivers everything at once."""
        self._unwire(host)
        host.is_cut = False
        self._plug(host)

    def impair(self, host, delay_ms=0, jitter_ms=0, loss=0.0, loss_to=None, loss_from=None, seed=1):
        """From now on frames from and to the host come `delay_ms` later, and up to `jitter_ms` more, and `loss` (0 to 1)
        of them never. loss_to, loss_from: of one direction. Replaces what was said before."""
        self.heal(host)
        near, far = f"w{host.number}", f"x{host.number}"
        _ip("-n", self.bridge, "link", "set", host.port, "nomaster")
        _ip("-n", self.bridge, "link", "add", near, "type", "veth", "peer", "name", far)
        _ip("-n", self.bridge, "link", "set", near, "up")
        _ip("-n", self.bridge, "link", "set", far, "master", "br0", "up")
        ends = [loss if direction is None else direction for direction in (loss_from, loss_to)]
        host.wire = subprocess.Popen(
            ["nsenter", f"--net={NAMESPACES / self.bridge}", sys.executable, __file__, "wire", host.port, near, str(delay_ms),
             str(jitter_ms), *map(str, ends), str(seed)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert host.wire.stdout.readline() == b"ready\n", f"the wire of {host.name} has not started"

    def _unwire(self, host):
        if host.wire is None:
            return
        host.wire.kill()
        host.wire.communicate()
        host.wire = None
        _ip("-n", self.bridge, "link", "delete", f"w{host.number}", check=False)

    def close(self):
        """Ends what still runs in the namespaces, and removes them."""
        if self.closed:
            return
        self.closed = True
        atexit.unregister(self.close)
        for host in self.hosts.values():
            self._unwire(host)
            for pid in host.processes():
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            _ip("netns", "delete", host.namespace, check=False)
        _ip("netns", "delete", self.bridge, check=False)


# What follows runs in processes of its own, within a namespace.

SIOCETHTOOL = 0x8946
TX_CHECKSUM, SEGMENTATION, GENERIC_SEGMENTATION = 0x17, 0x1F, 0x24  # ETHTOOL_STXCSUM, STSO, SGSO


def make_plain(interface):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for setting in (SEGMENTATION, GENERIC_SEGMENTATION, TX_CHECKSUM):
            value = array.array("B", struct.pack("II", setting, 0))
            request = struct.pack("16sP", interface.encode(), value.buffer_info()[0])
            fcntl.ioctl(control, SIOCETHTOOL, request)


def carry(near, far, delay_ms, jitter_ms, loss_from, loss_to, seed):
    """Carries frames between two interfaces, late and not all of them, until standard input is closed."""
    frames_max = 100_000  # under way; more are lost, as in any queue
    ends = []
    for interface in (near, far):
        end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))  # 3: all protocols
        end.bind((interface, 0))
        end.setsockopt(263, 23, 1)  # PACKET_IGNORE_OUTGOING: what it sends itself does not come back
        ends.append(end)
    chance = [random.Random(f"{seed} from"), random.Random(f"{seed} to")]
    loss, under_way, count = (loss_from, loss_to), [], 0
    print("ready", flush=True)
    while True:
        wait = max(under_way[0][0] - time.monotonic(), 0) if under_way else None
        readable = select.select([*ends, sys.stdin], [], [], wait)[0]
        if sys.stdin in readable:
            return
        for side in (0, 1):
            if ends[side] not in readable:
                continue
            try:
                frame = ends[side].recv(65536, socket.MSG_DONTWAIT)
            except OSError:
                continue  # the interface has gone down
            late = delay_ms + jitter_ms * chance[side].random()
            if chance[side].random() >= loss[side] and len(under_way) < frames_max:
                count += 1
                heapq.heappush(under_way, (time.monotonic() + late / 1000, count, 1 - side, frame))
        while under_way and under_way[0][0] <= time.monotonic():
            _, _, side, frame = heapq.heappop(under_way)
            try:
                ends[side].send(frame)
            except OSError:
                pass  # the interface is down, or the frame too long: lost


def main():
    parser = argparse.ArgumentParser(description="Parts of network.py that run within a namespace.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("plain").add_argument("interface")
    wire = commands.add_parser("wire")
    for name, kind in (("near", str), ("far", str), ("delay_ms", float), ("jitter_ms", float), ("loss_from", float),
                       ("loss_to", float), ("seed", int)):
        wire.add_argument(name, type=kind)
    options = vars(parser.parse_args())
    {"plain": make_plain, "wire": carry}[options.pop("command")](**options)


if __name__ == "__main__":
    main()
