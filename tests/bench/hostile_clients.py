#!/usr/bin/env python3
"""What ten hostile clients cost the others, in one table: look-ups and an honest job without them and with them, and the
daemon's memory.

  hostile_clients.py [--bin build/release/bin] [--seconds 20] [--trials 50] [--mib 1] [--expensive-spaces]
                     [--apart]

The daemon has its default limits, and each client that is known has a certificate of its own.

The job is the median of nine, each of a problem of its own, so that none repeats the results of another. Five such jobs
run before: a search learns from at most four earlier studies, so that all that are timed have as many to learn from.

--mib: size of the requests that explode when they are parsed. --expensive-spaces: two of the ten submit definitions of 8
parameters of 18 doubles each with a rule of two sides. --apart: the clients run on half of this machine's cores, and the
daemon, its workers and the honest job on the other half, in all three rows: clients on other machines take nothing of the
daemon's cores, either. Needs grpcio.
"""

import argparse
import contextlib
import itertools
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
QUICK = ["--policy", "fast", "--min-samples", "1", "--max-samples", "1", "--time-budget-ms", "5", "--measure", "no_reuse=true"]
SUM = " + ".join(f"P{i}" for i in range(8))
KERNEL = """
display_name: "expensive"
language: LANGUAGE_HOST_CXX
sources { path: "expensive.cc" }
arguments { name: "out" buffer { data_type: DATA_TYPE_I32 length: "16" access: ACCESS_OUT } }
launches { kernel { entry: "expensive" arguments: ["out"] } }
reference { steps { kernel { entry: "expensive" arguments: ["out"] } } }
""" + "".join(f"parameters {{ name: \"P{i}\" values {{ doubles: [{', '.join(f'{i + 1}.{k:02}1' for k in range(18))}] }} }}\n"
              for i in range(8)) + f"constraints {{ expression: \"{SUM} >= 36.6885\" }}\nconstraints {{ expression: \"{SUM} <= 36.6975\" }}\n"


def halves_of_cores():
    """The processors of two halves of the cores that this process may use; threads of one core stay together."""
    cores = {}
    for processor in sorted(os.sched_getaffinity(0)):
        siblings = pathlib.Path(f"/sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list")
        cores.setdefault(siblings.read_text().strip(), []).append(processor)
    groups = list(cores.values())
    if len(groups) < 2:
        sys.exit("hostile_clients.py: --apart needs two cores, and this process may use one")
    half = len(groups) // 2
    return sum(groups[:half], []), sum(groups[half:], [])


def quantiles(seconds):
    ms = sorted(1000 * s for s in seconds)
    at = lambda q: ms[int(q * (len(ms) - 1))]
    return f"{len(ms):7} {at(0.5):9.2f} {at(0.99):9.2f} {ms[-1]:9.2f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=SOURCE / "build/release/bin", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--mib", type=int, default=1)
    parser.add_argument("--expensive-spaces", action="store_true")
    parser.add_argument("--apart", action="store_true")
    options = parser.parse_args()
    of_clients = []
    if options.apart:
        of_clients, of_daemon = halves_of_cores()
        os.sched_setaffinity(0, of_daemon)
        print(f"clients on the processors {of_clients}, the rest on {of_daemon}")
    os.environ.update(TUNEFARM_BIN_DIR=str(options.bin), TUNEFARM_SOURCE_DIR=str(SOURCE))
    sys.path[:0] = [str(SOURCE / "tests/fault"), str(SOURCE / "tests/e2e")]
    from farm import Farm
    from hostile_peers import LOOKUP, TEN, HostilePeer, memory
    from plain_calls import PlainCalls

    problems = itertools.count(17)

    def job_seconds(farm):
        begin = time.monotonic()
        farm.cli("tune", "noop_host", "--max-trials", options.trials, "--dim", f"N={next(problems)}", *QUICK)
        return time.monotonic() - begin

    def measure(farm, what):
        took = []
        begin = time.monotonic()
        with PlainCalls(f"unix:{farm.directory}/run/client.sock") as calls:
            while time.monotonic() - begin < options.seconds:
                took.append(calls.seconds("/tunefarm.v1.LookupService/LookupConfig", LOOKUP))
        job = statistics.median(job_seconds(farm) for _ in range(9))
        print(f"{what:16} {quantiles(took)} {job:9.2f} {memory(farm.process.pid, 'VmRSS') >> 20:9} "
              f"{memory(farm.process.pid, 'VmHWM') >> 20:9}", flush=True)

    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as outer:
        ca = pathlib.Path(folder) / "ca"
        for arguments in (["init", ca], ["issue", ca, "--name", "control", "--host", "127.0.0.1"],
                          *(["issue", ca, "--name", f"look{i}", "--role", "lookup"] for i in range(10)),
                          *(["issue", ca, "--name", f"submit{i}", "--role", "submit,kernels"] for i in range(10))):
            subprocess.run([options.bin / "tunefarm", "certs", *map(str, arguments)], check=True, capture_output=True)
        expensive = pathlib.Path(folder) / "expensive"
        expensive.mkdir()
        (expensive / "kernel.pbtxt").write_text(KERNEL)
        (expensive / "expensive.cc").write_text('extern "C" void expensive(int* out) { out[0] = 1; }\n')
        farm = outer.enter_context(Farm("--listen", "127.0.0.1:0", "--tls-certificate", ca / "control.pem", "--tls-key",
                                        ca / "control.key", "--tls-client-ca", ca / "ca.pem", "--http-listen", "127.0.0.1:0"))
        farm.start()
        farm.cli("tune", "noop_host", "--max-trials", "8", *QUICK)  # what is looked up
        for _ in range(5):
            job_seconds(farm)
        address = next(a for a in farm.info()["addresses"] if not a.startswith("unix:"))
        pages = farm.info()["http_address"]
        kinds = [*TEN[2:], "spaces", "spaces"] if options.expensive_spaces else TEN
        print(f"{'':16} {'look-ups':>7} {'p50 ms':>8} {'p99 ms':>9} {'max ms':>9} {'job s':>9} {'RSS MiB':>9} {'peak MiB':>9}")
        measure(farm, "alone")
        with contextlib.ExitStack() as stack:
            peers = []
            for number, kind in enumerate(kinds):
                name = {"explode": f"submit{number}", "watch": f"look{number}", "spaces": f"submit{number}"}.get(kind)
                identity = {"certificate": ca / f"{name}.pem", "key": ca / f"{name}.key"} if name else {}
                environment = dict(os.environ)
                if kind == "spaces":
                    environment.update(TUNEFARM_SERVER=address, TUNEFARM_TLS_CA=str(ca / "ca.pem"),
                                       TUNEFARM_CLIENT_CERTIFICATE=str(ca / f"{name}.pem"),
                                       TUNEFARM_CLIENT_KEY=str(ca / f"{name}.key"))
                peers.append(stack.enter_context(HostilePeer(
                    kind, environment, address=address, ca=ca / "ca.pem", http=pages, job="jobs/1", size=options.mib << 20,
                    cli=options.bin / "tunefarm", folder=expensive, processors=",".join(map(str, of_clients)), **identity)))
            measure(farm, "with ten")
        measure(farm, "after them")
        for peer in peers:
            print(f"{peer.kind:10} {peer.counts}")


if __name__ == "__main__":
    main()
