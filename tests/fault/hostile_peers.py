"""Peers that mean harm, each a process: `with HostilePeer(KIND, ...) as peer:` runs one until the block ends.

nobody    calls without identity, whose requests take a hundred times their size once they are parsed
explode   the same with a certificate that may make the call
watch     watches of a job and of the catalog that nobody reads, with a certificate
http      connections to the pages that send a byte now and then
idle      TLS connections that speak HTTP/2 and never call
spaces    submits definitions whose search spaces take long to count (needs a folder with them)

A process prints a line when it is under way and, at its end, how often each thing happened, as JSON.
"""

import collections
import json
import os
import pathlib
import re
import socket
import ssl
import subprocess
import sys
import threading

IN_FLIGHT = 100
STREAMS = 400
CHANNELS = 4  # a connection takes 256 calls
SLOW_SOCKETS = 60
IDLE_CONNECTIONS = 100
CREATE_KERNEL = "/tunefarm.v1.KernelService/CreateKernel"
WATCHES = ("/tunefarm.v1.TuningService/WatchJob", "/tunefarm.v1.CatalogService/WatchBestConfigs")
HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])  # with empty SETTINGS
TEN = ("nobody", "nobody", "nobody", "nobody", "explode", "explode", "watch", "watch", "http", "idle")


def memory(pid, field):
    """A size of a process in bytes, as /proc tells it: VmRSS, or VmHWM for the largest so far."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(rf"^{field}:\s+(\d+) kB", status, re.M).group(1)) << 10


def varint(number):
    encoded = b""
    while number > 0x7f:
        encoded += bytes([number & 0x7f | 0x80])
        number >>= 7
    return encoded + bytes([number])


# A LookupConfigRequest for noop_host.
LOOKUP = b"\x0a" + varint(len("noop_host")) + b"noop_host"


def exploding_request(size):
    """A CreateKernelRequest of about `size` bytes: a kernel of empty parameters (field 9)."""
    kernel = b"\x4a\x00" * (size // 2)
    return b"\x0a" + varint(len(kernel)) + kernel


def http2_connection(address, ca):
    """A TLS connection that has begun to speak HTTP/2, without a certificate of its own."""
    host, _, port = address.rpartition(":")
    context = ssl.create_default_context(cafile=ca)
    context.set_alpn_protocols(["h2"])
    connection = context.wrap_socket(socket.create_connection((host, int(port))), server_hostname=host)
    connection.sendall(HTTP2_PREFACE)
    return connection


def until_closed(connection):
    """Reads until the peer closes, in order or not; TimeoutError after the socket's timeout."""
    try:
        while connection.recv(4096):
            pass
    except (ConnectionError, ssl.SSLError):
        pass


class Peer:
    def __init__(self, options):
        self.options = options
        self.stop = threading.Event()
        self.lock = threading.Lock()
        self.counts = collections.Counter()

    def count(self, what):
        with self.lock:
            self.counts[what] += 1

    def channel(self):
        import grpc
        read = lambda name: pathlib.Path(self.options[name]).read_bytes() if name in self.options else None
        credentials = grpc.ssl_channel_credentials(read("ca"), read("key"), read("certificate"))
        return grpc.secure_channel(self.options["address"], credentials,
                                   [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)])

    def nobody(self):
        call = self.channel().unary_unary(CREATE_KERNEL)
        request = exploding_request(int(self.options.get("size", 1 << 20)))
        slots = threading.Semaphore(IN_FLIGHT)

        def ended(future):
            self.count(future.code().name)
            slots.release()

        while not self.stop.is_set():
            if slots.acquire(timeout=0.2):
                call.future(request, timeout=600).add_done_callback(ended)

    explode = nobody

    def watch(self):
        channels = [self.channel() for _ in range(CHANNELS)]
        job = self.options["job"].encode()
        requests = (b"\x0a" + varint(len(job)) + job, b"")
        kept = []
        for number in range(STREAMS):
            stream = channels[number % CHANNELS].unary_stream(WATCHES[number % 2])(requests[number % 2])
            stream.add_done_callback(lambda ended: self.count(ended.code().name))
            kept.append(stream)
        self.stop.wait()
        self.counts["OPEN"] = sum(not stream.done() for stream in kept)

    def http(self):
        host, _, port = self.options["http"].removeprefix("http://").rpartition(":")
        sockets = {}
        while not self.stop.wait(0.2):
            for number in range(SLOW_SOCKETS):
                try:
                    if number not in sockets:
                        sockets[number] = socket.create_connection((host, int(port)))
                        sockets[number].sendall(b"GET /healthz HTTP/1.1\r\nX: ")
                    sockets[number].sendall(b"x")
                except OSError:
                    self.count("closed")
                    sockets.pop(number, None)

    def idle(self):
        connections = [http2_connection(self.options["address"], self.options["ca"]) for _ in range(IDLE_CONNECTIONS)]
        self.stop.wait()
        for connection in connections:
            connection.close()

    def spaces(self):
        number = 0
        while not self.stop.is_set():
            number += 1
            done = subprocess.run([self.options["cli"], "submit", self.options["folder"], "--seed", str(number)],
                                  capture_output=True, stdin=subprocess.DEVNULL)
            self.count("accepted" if done.returncode == 0 else "refused")

    def run(self, kind):
        if self.options.get("processors"):
            os.sched_setaffinity(0, map(int, self.options["processors"].split(",")))

        def listen():
            sys.stdin.read()
            self.stop.set()

        threading.Thread(target=listen, daemon=True).start()
        print("under way", flush=True)
        getattr(self, kind)()
        with self.lock:
            print(json.dumps(self.counts), flush=True)
        os._exit(0)  # calls in flight are nobody's concern


class HostilePeer:
    """`address` and `ca`: of the daemon; `certificate` and `key`: who it is; the rest as the kinds need it."""

    def __init__(self, kind, environment=None, **options):
        self.kind = kind
        self.counts = {}
        arguments = json.dumps({name: str(value) for name, value in options.items()})
        self.process = subprocess.Popen([sys.executable, __file__, kind, arguments], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, env=environment)

    def __enter__(self):
        assert self.process.stdout.readline() == "under way\n", f"{self.kind} did not start"
        return self

    def __exit__(self, *_):
        try:
            out, _ = self.process.communicate("", timeout=600)
            self.counts = json.loads(out) if out else {}
        finally:
            self.process.kill()
            self.process.wait()


if __name__ == "__main__":
    Peer(json.loads(sys.argv[2])).run(sys.argv[1])
