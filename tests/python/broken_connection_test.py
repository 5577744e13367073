"""The client when the connection breaks, and when the daemon is frozen, killed and restarted."""

import contextlib
import io
import os
import pathlib
import signal
import socket
import sys
import tempfile
import threading
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"]) / "tests" / "e2e"))
from farm import HANG_SECONDS, KERNELS, Farm, wait_until  # noqa: E402

import tunefarm  # noqa: E402
from quick import QUICK  # noqa: E402


class Proxy:
    """Between a client and a daemon's socket; cut() breaks every connection that there is."""

    def __init__(self, target):
        self.target = target
        self.folder = tempfile.TemporaryDirectory(prefix="tunefarm-py.")
        self.address = f"unix:{self.folder.name}/p.sock"
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.folder.name + "/p.sock")
        self.listener.listen()
        self.lock = threading.Lock()
        self.pairs = []
        self.ends = []  # of all connections that there ever were
        self.connections = 0
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            far.connect(self.target)
            with self.lock:
                self.pairs.append((near, far))
                self.ends += [near, far]
                self.connections += 1
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self.pump, args=(source, sink), daemon=True).start()

    @staticmethod
    def pump(source, sink):
        with contextlib.suppress(OSError):
            while True:
                data = source.recv(65536)
                if not data:
                    break
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def cut(self):
        with self.lock:
            pairs, self.pairs = self.pairs, []
        for pair in pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.listener.close()
        self.cut()
        for end in self.ends:
            end.close()
        self.folder.cleanup()


class Broken(unittest.TestCase):
    def setUp(self):
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        stack.enter_context(mock.patch.dict(os.environ, TUNEFARM_KERNELS=str(KERNELS)))
        self.farm = stack.enter_context(Farm())
        self.farm.start()
        self.client = stack.enter_context(tunefarm.Client(data_directory=self.farm.directory, timeout=HANG_SECONDS))
        self.stack = stack

    def in_time(self, *calls):
        """Each call's exception (or None). A call that blocks for ever fails the test; how long one takes is not judged."""
        ends = {}

        def run(number, call):
            try:
                call()
                ends[number] = None
            except Exception as error:
                ends[number] = error

        threads = [threading.Thread(target=run, args=item, daemon=True) for item in enumerate(calls)]
        for thread in threads:
            thread.start()
        for number, thread in enumerate(threads):
            thread.join(HANG_SECONDS)
            self.assertFalse(thread.is_alive(), f"call {number} blocks")
        return [ends[number] for number in range(len(calls))]

    def test_a_broken_stream_misses_nothing(self):
        proxy = Proxy(self.client.address[len("unix:"):])
        self.stack.callback(proxy.close)
        watcher = self.stack.enter_context(tunefarm.Client(proxy.address, timeout=HANG_SECONDS))
        job = self.client.submit("noop_host", dims={"N": 16}, max_trials=60, **QUICK)
        self.client.pause(job)
        events = watcher.watch(job)
        seen = [next(events)]
        self.assertEqual(seen[0].job.name, job.name)
        # Once where nothing can end meanwhile, then while events are on their way.
        proxy.cut()
        self.client.resume(job)
        trials = 0
        for event in events:
            seen.append(event)
            if event.trial:
                trials += 1
                if trials in (3, 20, 45):
                    proxy.cut()
        self.assertGreaterEqual(proxy.connections, 2)
        # None is missing, none came twice: a snapshot in place of lost ones would leave a gap.
        numbers = [event.event_id for event in seen]
        self.assertEqual(numbers, list(range(numbers[0], numbers[0] + len(numbers))))
        names = [event.trial.name for event in seen if event.trial]
        self.assertEqual(len(names), len(set(names)))
        self.assertEqual(sum(event.trial is not None and event.trial.purpose == tunefarm.TrialPurpose.SEARCH
                             for event in seen), 60)
        # What changes nothing is repeated when its connection breaks.
        proxy.cut()
        self.assertEqual(watcher.job(job).state, tunefarm.JobState.SUCCEEDED)

    def test_the_daemon_is_killed_and_comes_back(self):
        job = self.client.submit("noop_host", dims={"N": 16}, max_trials=80, **QUICK)
        self.client.pause(job)
        events = self.client.watch(job, reconnect_seconds=HANG_SECONDS)
        self.assertEqual(next(events).job.name, job.name)
        self.farm.kill()
        self.farm.start()
        # Calls that change something are sent once: only when the connection stands again.
        self.assertNotEqual(self.client.info().pid, 0)
        self.client.resume(job)
        rest = list(events)
        self.assertTrue(any(event.job for event in rest), "no snapshot after the restart")
        self.assertEqual(self.client.job(job).state, tunefarm.JobState.SUCCEEDED)
        found = self.client.results(job, purpose=tunefarm.TrialPurpose.SEARCH).to_list()
        self.assertEqual([trial.ordinal for trial in found], list(range(80)))

    def test_no_call_blocks_past_its_deadline(self):
        job = self.client.submit("noop_host", dims={"N": 16}, **QUICK)  # a million configs
        client = self.stack.enter_context(tunefarm.Client(self.client.address, retry_seconds=0.2))
        client._timeout = 1.0  # of calls; the connection may take longer on a busy machine
        calls = [
            client.info, client.devices, client.kernels, client.jobs, client.bests, lambda: client.job(job),
            lambda: client.cancel(job), lambda: client.delete(job), lambda: client.best("noop_host"),
            lambda: client.best_batch("noop_host", {"N": [1, 2]}), lambda: client.results(job).to_list(),
            lambda: client.submit("noop_host", max_trials=1), lambda: client.wait(job, timeout=1),
            lambda: client.tune("noop_host", progress=False, timeout=1),
            lambda: list(client.watch(job, reconnect_seconds=1)),
        ]
        with mock.patch("tunefarm.client._STREAM_SECONDS", 1.0), mock.patch("tunefarm.client._ALIVE_SECONDS", 1.0), \
                mock.patch("tunefarm.client._CANCEL_SECONDS", 1.0), contextlib.redirect_stderr(io.StringIO()):
            self.farm.process.send_signal(signal.SIGSTOP)
            try:
                stat = pathlib.Path(f"/proc/{self.farm.process.pid}/task")
                wait_until(lambda: all(") T " in (task / "stat").read_text() for task in stat.iterdir()), "the stop")
                for number, error in enumerate(self.in_time(*calls)):
                    self.assertIsInstance(error, (tunefarm.DeadlineExceededError, tunefarm.UnavailableError), number)
            finally:
                self.farm.process.send_signal(signal.SIGCONT)
            # It goes on as if nothing had happened.
            wait_until(lambda: self.in_time(client.info) == [None], "an answer of the daemon")
            self.farm.kill()
            for number, error in enumerate(self.in_time(*calls)):
                self.assertIsInstance(error, (tunefarm.DeadlineExceededError, tunefarm.UnavailableError), number)


if __name__ == "__main__":
    unittest.main()
