"""Calls of a daemon as bytes, without generated code and without a process for each: for what counts how long calls take."""

import time

import grpc

TUNING = "/tunefarm.v1.TuningService/"


def named(job):
    """A request whose field 1 is the name of a job, given as its number."""
    data = f"jobs/{job}".encode()
    return b"\x0a" + bytes([len(data)]) + data


class PlainCalls:
    """`with PlainCalls("unix:/path") as calls:`; methods answer how many seconds the call took, and raise its error."""

    def __init__(self, server):
        self.channel = grpc.insecure_channel(server)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.channel.close()

    def seconds(self, method, request):
        begin = time.monotonic()
        self.channel.unary_unary(method)(request, timeout=60)
        return time.monotonic() - begin

    def get_job(self, job):
        return self.seconds(TUNING + "GetJob", named(job))

    def list_jobs(self):
        return self.seconds(TUNING + "ListJobs", b"")

    def order(self, verb, job):
        """`verb`: Cancel, Pause or Resume."""
        return self.seconds(f"{TUNING}{verb}Job", named(job))


def read_while(server, jobs, is_over, count):
    """At least `count` pairs of reads, and on until is_over(): the seconds of each."""
    took = []
    with PlainCalls(server) as calls:
        calls.list_jobs()  # connects
        while len(took) < 2 * count or not is_over():
            took += [calls.get_job(jobs[len(took) // 2 % len(jobs)]), calls.list_jobs()]
    return took
