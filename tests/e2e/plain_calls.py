"""Calls of a daemon as bytes, without generated code and without a process for each: for what counts how long calls take."""

import time

import grpc

TUNING = "/tunefarm.v1.TuningService/"
LOOK_UP = "/tunefarm.v1.LookupService/LookupConfig"


def field(number, data):
    """Of a request: bytes, a text or a message, shorter than 128 bytes."""
    data = data.encode() if isinstance(data, str) else data
    return bytes([8 * number + 2, len(data)]) + data


def named(job):
    """A request whose field 1 is the name of a job, given as its number."""
    return field(1, f"jobs/{job}")


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

    def seconds_until_unavailable(self, method, request):
        begin = time.monotonic()
        try:
            self.seconds(method, request)
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.UNAVAILABLE:
                return time.monotonic() - begin
            raise
        raise AssertionError(f"{method} was answered")

    def get_job(self, job):
        return self.seconds(TUNING + "GetJob", named(job))

    def list_jobs(self):
        return self.seconds(TUNING + "ListJobs", b"")

    def look_up(self, kernel):
        """The best of its default problem."""
        return self.seconds(LOOK_UP, field(1, kernel))

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
