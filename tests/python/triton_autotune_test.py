"""tunefarm.triton.install and autotune without Triton and without a daemon: what is asked for and launched, policies, graph
capture, forks, hooks, heuristics, and what stays with Triton's own tuner."""

import concurrent.futures
import contextlib
import gc
import io
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import types
import unittest
import unittest.mock
import warnings
import weakref

import grpc
import numpy

SOURCE = pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"])
DATA = SOURCE / "tests" / "data"
sys.path[:0] = [str(DATA / "fake_triton"), str(DATA / "triton")]

import kernels  # noqa: E402
import triton  # noqa: E402
import triton.language as tl  # noqa: E402
import triton.runtime.jit  # noqa: E402
from triton.tools.tensor_descriptor import TensorDescriptor  # noqa: E402
import tunefarm  # noqa: E402
import tunefarm.triton  # noqa: E402
from tunefarm import _definitions  # noqa: E402
from tunefarm.model import Match  # noqa: E402
from tunefarm.triton import _asking, _autotune, _kept, _log, _session  # noqa: E402
from tunefarm.v1 import kernel_pb2  # noqa: E402
from tune_kernel_test import FakeClient  # noqa: E402

PROGRAM = """
import sys
import triton
import tunefarm.triton
@tunefarm.triton.autotune(configs=[triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=[])
@triton.jit
def f(x, BLOCK: int):
    pass
print(type(f).__mro__[1].__name__, [name for name in ("grpc", "google.protobuf", "torch", "numpy") if name in sys.modules])
"""


class Daemon(FakeClient):
    """Answers what it has tuned: to each kernel the config of the row `best`."""

    def __init__(self):
        super().__init__()
        self.is_away = False
        self.is_stuck = False
        self.best_row = 1
        self.too_large = ()
        self.bests = {}
        self.jobs_run = []
        self.unfinished = []
        self.calls = []

    def connect(self, start):
        self.calls.append("connect")
        if self.is_away:
            raise tunefarm.UnavailableError("no daemon is running")
        return self

    def best(self, name, device, worst_match, timeout):
        self.calls.append("best")
        if self.is_away:
            raise tunefarm.UnavailableError("the daemon does not answer")
        if name not in self.bests:
            raise tunefarm.NotFoundError("no such kernel")
        return types.SimpleNamespace(config=self.bests[name], kernel="kernels/k", match=Match.EXACT)

    def jobs(self, states):
        return self.unfinished

    def submit(self, path, **options):
        self.calls.append("submit")
        self.definition = _definitions.load(path)
        job = types.SimpleNamespace(name=f"jobs/{len(self.jobs_run) + 1}", label=options["label"], best=None)
        self.jobs_run.append(options)
        self.unfinished.append(job)
        return job

    def tune(self, path, **options):
        job = self.submit(path, **options)
        self.finish()
        return job

    def finish(self):
        """Ends the job that was submitted last."""
        job, values = self.unfinished.pop(), {}
        for parameter in self.definition.parameters:
            listed = next(values for _, values in parameter.values.ListFields())
            values[parameter.name] = listed[min(self.best_row, len(listed) - 1)]
        self.fits = self.definition.parameters[0].values.ints[0] not in self.too_large
        if self.best_row >= 0 and self.fits:
            self.bests[self.definition.display_name] = values
            job.best = types.SimpleNamespace(config=values, time_ns=2e6)

    def wait(self, job, timeout):
        self.calls.append("wait")
        if self.is_stuck:
            raise tunefarm.DeadlineExceededError(f"{job.name} has not ended after {timeout:g} s")
        self.finish()

    def results(self, job):
        outcome = tunefarm.Outcome.WRONG_RESULT if self.fits else tunefarm.Outcome.INFEASIBLE_LAUNCH
        return [types.SimpleNamespace(message="y[3] is 0", outcome=outcome)]


def configs(*blocks, **options):
    return [triton.Config({"BLOCK": block}, **options) for block in blocks or (64, 128, 256)]


def arguments(count=1000, kind="f4"):
    return [numpy.zeros(count, kind), numpy.ones(count, kind), 0.5, count]


class Zeroable(numpy.ndarray):
    """As a tensor of PyTorch's."""

    def zero_(self):
        self[...] = 0


class AutotuneTest(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon()
        folder = self.enterContext(tempfile.TemporaryDirectory())
        self.enterContext(unittest.mock.patch.dict(os.environ, {"XDG_CACHE_HOME": folder, "TUNEFARM_TRITON_LOG": "1"}))
        os.environ.pop("TUNEFARM_TRITON_POLICY", None)
        self.enterContext(unittest.mock.patch.object(_session, "Client", self.daemon.connect))
        self.enterContext(unittest.mock.patch.object(_autotune, "_has_warned", True))
        self.log = self.enterContext(contextlib.redirect_stderr(io.StringIO()))
        self.start()

    def start(self):
        """What a new process has."""
        _session._sessions.clear()
        triton.runtime.jit.launches.clear()
        self.daemon.calls.clear()

    def launched(self):
        """The blocks of all launches, those for tuning included."""
        return [launch.values["BLOCK"] for launch in triton.runtime.jit.launches]

    def said(self):
        return self.log.getvalue().splitlines()[-1]

    @staticmethod
    def kernel(function=kernels.axpy, listed=None, **options):
        return tunefarm.triton.autotune(configs=configs() if listed is None else listed, key=options.pop("key", ["n"]),
                                        **options)(function)

    def run_once(self, kernel, given=None, grid=(1,), **named):
        kernel[grid](*(arguments() if given is None else given), **named)

    def defined(self, given=None, grid=(1,), **options):
        """The definition of which the daemon is asked for a best config."""
        self.run_once(self.kernel(**options), given, grid)
        self.assertEqual(len(self.daemon.jobs_run), 1, self.log.getvalue())
        return self.daemon.definition

    def stays_with_triton(self, reason, given=None, grid=(1,), kernel=None, named=None, **options):
        self.start()
        self.run_once(kernel or self.kernel(**options), given, grid, **(named or {}))
        self.assertGreater(len(self.launched()), 1)
        self.assertEqual(self.daemon.jobs_run, [])
        self.assertIn("Triton's own tuning", self.said())
        self.assertIn(reason, self.said())


class Starts(AutotuneTest):
    def test_the_first_start_tunes_and_the_second_one_launches_nothing_for_it(self):
        kernel = self.kernel()
        for _ in range(2):
            self.run_once(kernel)
        self.assertEqual(self.launched(), [128, 128])
        self.assertEqual(self.daemon.calls, ["connect", "best", "submit"])
        job = self.daemon.jobs_run[0]
        self.assertEqual((job["strategy"], job["promote_given"], job["label"]),
                         ("exhaustive", True, f"tunefarm.triton.autotune {self.daemon.definition.display_name}"))
        self.assertRegex(self.daemon.definition.display_name, "^axpy_[0-9a-f]{20}$")
        self.assertRegex(self.said(), r"axpy \(1000, 'float32', 'float32'\): BLOCK: 128, .* \(tuned by jobs/1, 2 ms\)")
        self.assertEqual(kernel.best_config.kwargs, {"BLOCK": 128})

        self.start()
        kernel = self.kernel()
        for _ in range(2):
            self.run_once(kernel)
        self.assertEqual((self.launched(), self.daemon.calls), ([128, 128], ["connect", "best"]))
        self.assertIn("(known: kernels/k, EXACT)", self.said())
        # Another key is another question.
        self.run_once(kernel, arguments(2000))
        self.assertEqual((self.launched()[2:], self.daemon.calls[2:]), ([128], ["best", "submit"]))

    def test_what_is_another_kernel(self):
        names = set()
        pruned = [{"early_config_prune": lambda listed, named, **rest: listed[:1]},
                  {"early_config_prune": lambda listed, named, **rest: listed[:2]}]
        for options in ({}, {"listed": configs(64, 128)}, {"listed": configs(num_warps=8)}, {"key": ["a"]},
                        {"prune_configs_by": pruned[0]}, {"prune_configs_by": pruned[1]},
                        {"function": triton.heuristics({"BLOCK": lambda args: 32})(kernels.axpy)}):
            names.add(_asking.Kernel(self.kernel(**options)).name((1,)))
        kernel = _asking.Kernel(self.kernel())
        keys = [(1,), (2,), (1.0,), (True,), (None,), ("1",), (tl.float16,), ((1, 2),), (1, 2)]
        names.update(map(kernel.name, keys))
        self.assertEqual(len(names), 6 + len(keys))
        for key in ((1,), (numpy.int64(1),), (tl.constexpr(1),)):
            self.assertEqual(kernel.name(key), _asking.Kernel(self.kernel()).name((1,)))

    def test_default_takes_the_first_config_until_the_next_start(self):
        for _ in range(2):  # a second process, meanwhile
            self.start()
            kernel = self.kernel(policy="default")
            for _ in range(2):
                self.run_once(kernel)
            self.assertEqual(self.launched(), [64, 64])
            self.assertIn("(the first config; jobs/1 tunes it)", self.said())
        self.assertEqual(len(self.daemon.jobs_run), 1)
        self.daemon.finish()
        self.run_once(kernel)
        self.assertEqual(self.launched(), [64, 64, 64])
        self.start()
        self.run_once(self.kernel(policy="default"))
        self.assertEqual(self.launched(), [128])

    def test_wait_waits_for_the_job_of_another_process(self):
        self.run_once(self.kernel(policy="default"))
        self.start()
        self.run_once(self.kernel(policy="wait"))
        self.assertEqual((self.launched(), self.daemon.calls), ([128], ["connect", "best", "wait", "best"]))

    def test_a_job_whose_turn_does_not_come_is_not_waited_for_without_end(self):
        self.run_once(self.kernel(policy="default"))
        self.daemon.is_stuck = True
        self.start()
        self.run_once(self.kernel(policy="wait"))
        self.assertEqual((self.launched(), self.daemon.calls), ([64, 128, 256, 256], ["connect", "best", "wait"]))
        self.assertIn("Triton's own tuning (jobs/1 has not ended after 1800 s)", self.said())
        self.run_once(self.kernel(policy="wait"), arguments(2000))
        self.assertEqual(self.daemon.jobs_run[-1]["timeout"], 1800)

    def test_inprocess_is_as_triton_does_it(self):
        with unittest.mock.patch.dict(os.environ, {"TUNEFARM_TRITON_POLICY": "inprocess"}):
            kernel = self.kernel()
        self.run_once(kernel)
        self.run_once(kernel)
        self.assertEqual((self.launched(), self.daemon.jobs_run), ([64, 128, 256, 256, 256], []))
        self.assertIn("Triton's own tuning (the policy is inprocess)", self.said())
        # What the daemon knows is taken all the same.
        self.run_once(self.kernel())
        self.start()
        self.run_once(self.kernel(policy="inprocess"))
        self.assertEqual(self.launched(), [128])

    def test_no_config_that_is_right(self):
        self.daemon.best_row = -1
        self.run_once(self.kernel())
        self.assertEqual(self.launched(), [64, 128, 256, 256])
        self.assertIn("jobs/1 found no config that runs and is right; the first: WRONG_RESULT: y[3] is 0", self.said())

    def test_the_reference_is_the_first_config_that_runs(self):
        self.daemon.too_large = (64, 128)
        self.run_once(self.kernel(listed=configs(64, 128, 256, 512)))
        self.assertEqual((self.launched(), self.daemon.calls), ([512], ["connect", "best", "submit", "submit", "submit"]))
        self.daemon.too_large = (64, 128, 256)
        self.stays_after(3, "jobs/6 found no config that runs and is right; the first: INFEASIBLE_LAUNCH", 64, 128, 256, 512)
        self.stays_after(2, "jobs/8 found no config", 64, 128)

    def stays_after(self, count, reason, *blocks):
        before = len(self.daemon.jobs_run)
        self.run_once(self.kernel(listed=configs(*blocks)), arguments(2000 + count))
        self.assertEqual(len(self.daemon.jobs_run) - before, count)
        self.assertIn(reason, self.said())

    def test_without_a_daemon(self):
        self.daemon.is_away = True
        with unittest.mock.patch.object(_autotune, "_has_warned", False), warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            kernel = self.kernel()
            self.run_once(kernel)
            self.run_once(kernel, arguments(2000))
            self.run_once(self.kernel(policy="default"))
        self.assertEqual([str(one.message) for one in warned],
                         ["tunefarm: kernels are tuned by Triton itself: no daemon is running"])
        self.assertEqual(self.launched(), [64, 128, 256, 256] * 2 + [64])
        self.assertEqual(self.daemon.calls, ["connect"])

    def test_a_daemon_that_is_killed_is_remembered(self):
        self.run_once(self.kernel())
        self.daemon.is_away = True
        self.start()
        self.run_once(self.kernel())
        self.assertEqual(self.launched(), [128])
        self.assertIn("(kept from an earlier start: no daemon is running)", self.said())

    def test_a_daemon_that_dies_meanwhile_is_asked_once(self):
        kernel = self.kernel(policy="default")
        self.run_once(kernel)
        self.daemon.is_away = True
        self.run_once(kernel, arguments(2000))
        self.run_once(kernel, arguments(3000))
        self.assertEqual(self.daemon.calls, ["connect", "best", "submit", "best"])
        self.assertEqual(self.launched(), [64, 64, 64])

    def test_what_is_refused_keeps_no_tensor_alive(self):
        gc.disable()  # cycles would keep them, too
        self.addCleanup(gc.enable)
        for is_away, kind, policy in ((True, "f4", "wait"), (True, "f4", "default"), (False, "?", "wait")):
            self.daemon.is_away = is_away
            self.start()
            given = arguments(kind=kind)
            kernel = self.kernel(policy=policy)
            for _ in range(2):  # the absence is found, and known
                self.run_once(kernel, given)
                kernel.cache.clear()
            held = weakref.ref(given[0])
            triton.runtime.jit.launches.clear()
            del given
            self.assertTrue(held() is None, f"{kind}, {policy}")

    def test_the_newest_answers_are_kept(self):
        folder = pathlib.Path(os.environ["XDG_CACHE_HOME"], "tunefarm", "triton")
        with unittest.mock.patch.object(_kept, "_FILES_MAX", 2):
            for count in (100, 200, 300):
                before = set(folder.iterdir()) if folder.exists() else set()
                self.run_once(self.kernel(), arguments(count))
                (new,) = set(folder.iterdir()) - before
                os.utime(new, (count, count))
        self.assertEqual(sorted(file.stat().st_mtime for file in folder.iterdir()), [200, 300])

    def test_a_fork_makes_its_own_connection(self):
        self.run_once(self.kernel())
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            self.run_once(self.kernel(), arguments(2000))
            os.write(writer, ",".join(self.daemon.calls).encode())
            os._exit(0)
        os.close(writer)
        with open(reader) as told:
            self.assertEqual(told.read(), "connect,best,submit,connect,best,submit")
        os.waitpid(child, 0)


HANG_SECONDS = 60
HUNG_PROGRAM = """
import sys, types
import triton_autotune_test as test
sys.modules["torch"] = types.SimpleNamespace(cuda=test.fake_gpu()[0], Tensor=type(None))
test._session.Client.devices = lambda client, timeout: [test.device_of(test.fake_gpu()[1])]
test._session._REFRESH_PAUSE_SECONDS = 0
test.AutotuneTest.kernel()[(1,)](*test.arguments())
sys.stdin.read()
"""
ENDING_PROGRAM = """
import sys, threading, types
import triton_autotune_test as test
cuda, properties = test.fake_gpu()
sys.modules["torch"] = types.SimpleNamespace(cuda=cuda, Tensor=type(None))
is_asking = threading.Event()
class Daemon(test.Daemon):
    def best(self, *arguments, **named):
        is_asking.set()
        threading.main_thread().join()
        return super().best(*arguments, **named)
daemon = Daemon()
daemon.devices = lambda timeout: [test.device_of(properties)]
daemon.bests = {name: {"BLOCK": 256} for name in sys.argv[2:]}
test._session.Client = daemon.connect
test._session._REFRESH_PAUSE_SECONDS = float(sys.argv[1])
kernel = test.AutotuneTest.kernel()
for count in (1000, 2000):
    kernel[(1,)](*test.arguments(count))
    if sys.argv[1] == "0":
        is_asking.wait()
"""


def fake_gpu():
    """torch.cuda, and the properties of its GPU."""
    properties = types.SimpleNamespace(name="NVIDIA H200", uuid="ab", major=9, minor=0, multi_processor_count=132,
                                       total_memory=1 << 37)
    cuda = types.SimpleNamespace(is_initialized=lambda: True, is_current_stream_capturing=lambda: False,
                                 is_available=lambda: True, mem_get_info=lambda: (1 << 37, 1 << 37), synchronize=lambda: None,
                                 current_device=lambda: 0, get_device_properties=lambda number: properties)
    return cuda, properties


def device_of(properties):
    """The daemon's, of that GPU."""
    kind = types.SimpleNamespace(kind=tunefarm.DeviceKind.CUDA, display_name=properties.name)
    return types.SimpleNamespace(uuid=f"GPU-{properties.uuid}", device_class=kind)


class KeptTest(AutotuneTest):
    """On a GPU that is known."""

    def setUp(self):
        super().setUp()
        self.cuda, self.gpu = fake_gpu()
        self.daemon.devices = lambda timeout: [device_of(self.gpu)]
        torch = types.SimpleNamespace(cuda=self.cuda, Tensor=type(None))
        self.enterContext(unittest.mock.patch.dict(sys.modules, {"torch": torch}))
        self.enterContext(unittest.mock.patch.object(_session, "_REFRESH_PAUSE_SECONDS", 0))
        self.addCleanup(self.refreshed)

    def refreshed(self):
        """Waits until the daemon has been asked again."""
        for session in _session._sessions:
            if session._refresher is not None:
                self.assertTrue(session._refresher.is_idle.wait(HANG_SECONDS))

    def start(self):
        self.refreshed()
        super().start()
        self.log.seek(0)
        self.log.truncate()

    def starts(self, block, calls, *said, **options):
        """A start launches the block and makes these calls, those of the thread included."""
        self.start()
        self.run_once(self.kernel(**options))
        self.refreshed()
        self.assertEqual((self.launched(), self.daemon.calls), ([block], calls), self.log.getvalue())
        for part in said:
            self.assertIn(part, self.log.getvalue())

    def tuned(self):
        self.starts(128, ["connect", "best", "submit"], "(tuned by jobs/")

    def has_kept(self, block=128, *said, **options):
        self.starts(block, ["connect", "best"], "(kept from an earlier start)", *said, **options)

    def files(self):
        return sorted(pathlib.Path(os.environ["XDG_CACHE_HOME"], "tunefarm", "triton").iterdir())

    @staticmethod
    def program(text, *arguments, **options):
        """A process of that program, which may import this file."""
        folders = [str(DATA / "fake_triton"), str(DATA / "triton"), str(SOURCE / "tests" / "python"),
                   str(pathlib.Path(tunefarm.__file__).parents[1])]
        return subprocess.Popen([sys.executable, "-c", text, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)}, **options)

    def is_asked_first(self):
        """What is kept does not answer."""
        self.starts(128, ["connect", "best"], "(known: kernels/k, EXACT)")


class Kept(KeptTest):
    def test_a_kept_answer_is_taken_before_the_daemon_is_asked(self):
        self.tuned()
        gate = threading.Event()
        self.addCleanup(gate.set)
        connect = self.daemon.connect

        def connect_later(start):
            if not gate.wait(HANG_SECONDS):
                raise AssertionError("the launch waits for the daemon")
            return connect(start)

        with unittest.mock.patch.object(_session, "Client", connect_later):
            self.start()
            kernel = self.kernel()
            for _ in range(2):
                self.run_once(kernel)
            self.run_once(self.kernel())  # another launch, while the thread is connecting
            self.assertEqual((self.launched(), self.daemon.calls), ([128] * 3, []))
            self.assertRegex(self.said(), r"axpy \(1000, .*\): BLOCK: 128, .* \(kept from an earlier start\)")
            gate.set()
            self.refreshed()
        self.assertEqual(self.daemon.calls, ["connect", "best", "best"])
        self.assertRegex(self.log.getvalue(), "axpy_[0-9a-f]{20} asked again: unchanged")

    def test_a_newer_best_is_used_from_the_next_start_on(self):
        self.tuned()
        (name,) = self.daemon.bests
        self.daemon.bests[name] = {"BLOCK": 256}
        self.has_kept(128, "asked again: changed for the next start: {'BLOCK': 256}")
        self.has_kept(256, "asked again: unchanged")

    def test_what_the_daemon_no_longer_knows_is_asked_at_the_next_start(self):
        self.tuned()
        self.daemon.bests.clear()
        self.has_kept(128, "asked again: unknown to the daemon")
        self.assertEqual(self.files(), [])
        self.tuned()

    def test_every_policy_takes_what_is_kept_and_so_does_a_captured_launch(self):
        self.tuned()
        for policy in ("wait", "default", "inprocess"):
            self.has_kept(policy=policy)
        self.cuda.is_current_stream_capturing = lambda: True
        self.has_kept()

    def test_capture_never_tunes(self):
        capturing = self.cuda.is_current_stream_capturing = unittest.mock.Mock(return_value=True)
        for policy in ("wait", "inprocess"):
            self.run_once(self.kernel(policy=policy))
            self.assertIn("(the first config, for this call alone: it is captured into a graph)", self.said())
        self.run_once(self.kernel(do_bench=print))
        self.assertEqual((self.launched(), self.daemon.jobs_run), ([64] * 3, []))
        capturing.return_value = False
        kernel = self.kernel()
        self.run_once(kernel)
        capturing.return_value = True
        self.run_once(kernel)
        for file in self.files():
            file.unlink()
        self.start()
        self.run_once(self.kernel())  # which the daemon knows
        self.assertEqual((self.launched(), len(self.daemon.jobs_run)), ([128], 1))

    def test_another_source_is_another_question(self):
        def kernel(text):
            @triton.jit
            def f(y, n, BLOCK: tl.constexpr):
                return y + 1

            f.raw_src = [line.replace("y + 1", text) for line in f.raw_src]
            return self.kernel(f, key=["n"])

        given = [numpy.zeros(8, "f4"), 8]
        self.run_once(kernel("y + 1"), given)
        self.start()
        self.run_once(kernel("y + 1"), given)
        self.assertIn("(kept from an earlier start)", self.log.getvalue())
        self.start()
        self.run_once(kernel("y + 2"), given)
        self.assertEqual(self.daemon.calls, ["connect", "best", "submit"])
        with unittest.mock.patch.object(triton, "__version__", "3.7.0"):
            self.start()
            self.run_once(kernel("y + 1"), given)
            self.assertEqual(self.daemon.calls, ["connect", "best", "submit"])

    def test_answers_are_of_a_gpu_and_a_daemon(self):
        self.tuned()
        for name, value in (("name", "NVIDIA H100"), ("multi_processor_count", 66), ("total_memory", 1 << 36)):
            with unittest.mock.patch.object(self.gpu, name, value):
                self.is_asked_first()
                self.has_kept()
        for name, value in (("TUNEFARM_SERVER", "host:7070"), ("TUNEFARM_DATA_DIR", "/data"),
                            ("TUNEFARM_DATA_DIR", os.fsdecode(b"/\xff"))):
            with unittest.mock.patch.dict(os.environ, {name: value}):
                self.is_asked_first()
                self.has_kept()
        self.gpu.uuid = "cd"  # another one of the same kind
        self.has_kept()

    def test_without_a_known_gpu_the_daemon_is_asked(self):
        with unittest.mock.patch.dict(sys.modules):
            del sys.modules["torch"]
            self.tuned()
            self.is_asked_first()

    def test_damaged_files_are_no_answers(self):
        self.tuned()
        (file,) = self.files()
        good = file.read_text()
        self.run_once(self.kernel(), arguments(2000))
        (other,) = set(self.files()) - {file}
        for text in ("", good[:-9], "{", "5", "null", "[" * 60_000, good.replace("128", "512"), other.read_text(), "\xff",
                     good + " " * _kept._BYTES_MAX, good.replace('"answer": {', '"answer": [{').replace("}}", "}]}")):
            file.write_bytes(text.encode("latin-1"))
            self.is_asked_first()
            self.assertEqual(file.read_text(), good)
        file.unlink()
        os.mkfifo(file)
        self.is_asked_first()

    def test_where_nothing_can_be_written_nothing_is_kept(self):
        with tempfile.NamedTemporaryFile() as no_folder, unittest.mock.patch.dict(os.environ, {"XDG_CACHE_HOME": no_folder.name}):
            self.tuned()
            self.is_asked_first()

    def test_answers_that_are_confirmed_stay(self):
        for count in (100, 200):
            self.run_once(self.kernel(), arguments(count))
        for file in self.files():
            os.utime(file, (1, 1))
        self.start()
        self.run_once(self.kernel(), arguments(100))
        self.refreshed()
        (confirmed,) = [file for file in self.files() if file.stat().st_mtime > 1]
        with unittest.mock.patch.object(_kept, "_FILES_MAX", 2):
            self.run_once(self.kernel(), arguments(300))
        self.assertEqual(len(self.files()), 2)
        self.assertIn(confirmed, self.files())

    def test_a_daemon_that_is_killed_is_asked_once(self):
        self.tuned()
        self.run_once(self.kernel(), arguments(2000))
        self.daemon.is_away = True
        self.start()
        self.run_once(self.kernel())
        self.refreshed()
        self.assertIn("asked again: without an answer: no daemon is running", self.log.getvalue())
        self.run_once(self.kernel(), arguments(2000))
        self.refreshed()
        self.assertEqual((self.launched(), self.daemon.calls), ([128, 128], ["connect"]))
        self.assertEqual((len(self.files()), self.log.getvalue().count("asked again")), (2, 1))

    def test_a_child_of_a_process_that_has_launched_connects_to_nothing(self):
        self.tuned()
        self.start()
        self.run_once(self.kernel())
        self.refreshed()
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            self.run_once(self.kernel())
            self.refreshed()
            os.write(writer, f"{self.launched()} {self.daemon.calls}".encode())
            os._exit(0)
        os.close(writer)
        with open(reader) as told:
            self.assertEqual(told.read(), "[128, 128] ['connect', 'best']")
        os.waitpid(child, 0)

    def test_a_program_that_ends_waits_for_the_call_in_flight_alone(self):
        self.tuned()
        self.run_once(self.kernel(), arguments(2000))
        for pause, again in (("1e6", ""), ("0", "; asked again 1: 1 changed for the next start")):
            with self.program(ENDING_PROGRAM, pause, *self.daemon.bests) as program:
                _, said = program.communicate()
            self.assertEqual(program.returncode, 0, said)
            self.assertEqual(said.splitlines()[-1], f"tunefarm.triton: decisions 2: 2 kept from an earlier start{again}")
        for count, block in ((1000, 256), (2000, 128)):
            self.start()
            self.run_once(self.kernel(), arguments(count))
            self.assertEqual(self.launched(), [block])

    def test_a_program_that_ends_does_not_wait_for_a_daemon_that_hangs(self):
        """One does not answer the look-up, the other one not even the connection; both would fail after seconds."""
        asked, ended = threading.Event(), threading.Event()

        class Hangs(grpc.GenericRpcHandler):
            def service(self, details):
                def answer(request, context):
                    context.add_callback(ended.set)
                    asked.set()
                    ended.wait()

                return grpc.unary_unary_rpc_method_handler(answer)

        folder = self.enterContext(tempfile.TemporaryDirectory())
        server = grpc.server(concurrent.futures.ThreadPoolExecutor(1))
        server.add_generic_rpc_handlers((Hangs(),))
        server.add_insecure_port(f"unix:{folder}/calls")
        server.start()
        self.addCleanup(server.stop, None)
        self.addCleanup(ended.set)
        listener = self.enterContext(socket.socket(socket.AF_UNIX))
        listener.bind(f"{folder}/connects")
        listener.listen()
        listener.settimeout(HANG_SECONDS)
        for place, wait in (("calls", lambda: self.assertTrue(asked.wait(HANG_SECONDS))),
                            ("connects", lambda: self.enterContext(listener.accept()[0]))):
            with unittest.mock.patch.dict(os.environ, {"TUNEFARM_SERVER": f"unix:{folder}/{place}"}):
                self.tuned()
                with self.program(HUNG_PROGRAM, stdin=subprocess.PIPE) as program:
                    wait()
                    _, said = program.communicate()
            self.assertEqual(program.returncode, 0, said)
            # No failure, which the program would have had to wait for.
            self.assertEqual(said.splitlines()[-1], "tunefarm.triton: decisions 1: 1 kept from an earlier start")
            self.daemon.bests.clear()

    def test_standard_error_may_be_closed(self):
        self.tuned()
        self.start()
        self.log.close()
        self.run_once(self.kernel())
        self.refreshed()
        self.assertEqual((self.launched(), self.daemon.calls), ([128], ["connect", "best"]))

    def test_what_is_counted(self):
        for counts in (_log._decisions, _log._refreshes):
            counts.clear()
        self.tuned()
        self.has_kept()
        self.daemon.bests.clear()
        self.has_kept()
        self.starts(64, ["connect", "best", "submit"], policy="default")
        self.run_once(self.kernel(policy="inprocess"), arguments(2000))
        self.assertEqual(dict(_log._decisions), {_log.TUNED: 1, _log.KEPT: 2, _log.FIRST: 1, _log.TRITON: 1})
        self.assertEqual(dict(_log._refreshes), {_log.UNCHANGED: 1, _log.UNKNOWN: 1})


class Install(AutotuneTest):
    def test_install(self):
        modules = (triton, triton.runtime, triton.runtime.autotuner)
        own = triton.autotune
        for module in modules:
            self.enterContext(unittest.mock.patch.object(module, "autotune", own))
        before = triton.autotune(configs=configs(), key=["n"])(kernels.axpy)
        tunefarm.triton.install()
        tunefarm.triton.install("default")
        self.assertEqual({module.autotune for module in modules}, {triton.autotune})
        self.assertEqual(triton.autotune.__doc__, own.__doc__)
        after = triton.autotune(configs(), ["n"])(kernels.axpy)
        self.assertIsInstance(after, triton.runtime.Autotuner)
        self.run_once(after)
        self.assertEqual((self.launched(), len(self.daemon.jobs_run)), ([64], 1))
        self.start()
        self.run_once(before)
        self.assertEqual((self.launched(), self.daemon.calls), ([64, 128, 256, 256], []))

    def test_policies(self):
        for given, reason in (({"policy": "never"}, "policy is 'never'; write one of wait, default, inprocess"),
                              ({}, "TUNEFARM_TRITON_POLICY is 'now'")):
            with unittest.mock.patch.dict(os.environ, {"TUNEFARM_TRITON_POLICY": "now"}):
                with self.assertRaisesRegex(tunefarm.InvalidArgumentError, reason):
                    tunefarm.triton.install(**given)
                with self.assertRaisesRegex(tunefarm.InvalidArgumentError, reason):
                    self.kernel(**given)

    def test_nothing_is_imported_before_it_is_needed(self):
        path = os.pathsep.join([str(DATA / "fake_triton"), str(pathlib.Path(tunefarm.__file__).parents[1])])
        done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": path})
        self.assertEqual(done.stdout, "Autotuner []\n", done.stderr)

    def test_install_imports_what_launches_need_and_does_not_connect(self):
        for module in (triton, triton.runtime, triton.runtime.autotuner):
            self.enterContext(unittest.mock.patch.object(module, "autotune", module.autotune))
        with unittest.mock.patch.dict(sys.modules):
            sys.modules.pop("tunefarm.triton._agreeing", None)
            tunefarm.triton.install()
            self.assertIn("tunefarm.triton._agreeing", sys.modules)
        self.assertEqual(self.daemon.calls, [])

    def test_the_cache_is_a_dict_outside_of_launches(self):
        kernel = self.kernel()
        self.assertNotIn((1000, "float32", "float32"), kernel.cache)
        self.run_once(kernel)
        self.assertEqual(list(kernel.cache), [(1000, "float32", "float32")])
        self.assertEqual(self.daemon.calls, ["connect", "best", "submit"])


@triton.jit
def of_descriptors(a_desc, b_desc, c_desc, zeroed, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    c_desc.store([0, 0], tl.dot(a_desc.load([0, 0]), b_desc.load([0, 0])))


@triton.jit
def attention(out, q, mask, scale, causal, n, BLOCK: tl.constexpr, EVEN: tl.constexpr, TYPE: tl.constexpr,
              HAS_MASK: tl.constexpr):
    pass


class Prepared(KeptTest):
    """What is made when a kernel is decorated, after install()."""

    KEY = (1000, "float32", "float32")

    def is_another_kernel(self, kernel, change, *given):
        """From the change on, which is between the decorator and the first launch."""
        key = (given[-1], "float32") if given else self.KEY
        before = kernel.cache._kernel.name(key)
        change()
        self.run_once(kernel, list(given) or None)
        self.assertEqual(self.daemon.definition.display_name, _asking.Kernel(kernel).name(key))
        self.assertNotEqual(self.daemon.definition.display_name, before)

    def test_what_has_not_changed_is_used(self):
        kernel = self.kernel(function=triton.heuristics({"BLOCK": lambda args: 32})(kernels.axpy))
        prepared = kernel.cache._kernel
        self.run_once(kernel)
        self.assertIs(kernel.cache._kernel, prepared)

    def test_configs(self):
        kernel = self.kernel()
        self.is_another_kernel(kernel, lambda: kernel.configs.pop())
        kernel = self.kernel()
        self.is_another_kernel(kernel, lambda: setattr(kernel, "configs", configs(32, 64)))
        kernel = self.kernel()
        self.is_another_kernel(kernel, lambda: kernel.configs[0].kwargs.update(BLOCK=16))
        kernel = self.kernel()
        self.is_another_kernel(kernel, lambda: setattr(kernel.configs[1], "num_warps", 2))

    def test_heuristics_and_pruning(self):
        values = {"BLOCK": lambda args: 32}
        kernel = self.kernel(triton.heuristics(values)(kernels.axpy))
        self.is_another_kernel(kernel, lambda: values.update(BLOCK=lambda args: 16))
        kernel = self.kernel()
        self.is_another_kernel(kernel, lambda: setattr(kernel, "early_config_prune", lambda listed, named, **rest: listed[:2]))

    def test_the_source_and_what_it_uses(self):
        factor = 3

        @triton.jit
        def helper(x):
            return x + factor

        @triton.jit
        def f(y, n, BLOCK: tl.constexpr):
            return helper(y) * SCALE

        def set_factor():
            nonlocal factor
            factor = 4

        given = numpy.zeros(8, "f4"), 8
        with unittest.mock.patch.dict(globals(), {"SCALE": 1}):
            self.is_another_kernel(self.kernel(f, key=["n"]), set_factor, *given)
            self.daemon.bests.clear()
            self.is_another_kernel(self.kernel(f, key=["n"]), lambda: globals().update(SCALE=2), *given)
            lines = [line.replace("*", "-") for line in f.raw_src]
            self.is_another_kernel(self.kernel(f, key=["n"]), lambda: setattr(f, "raw_src", lines), *given)

    def test_names_that_are_defined_later(self):
        @triton.jit
        def f(y, n, BLOCK: tl.constexpr):
            return y * LATER

        kernel = self.kernel(f, key=["n"])
        self.assertIsNone(kernel.cache._kernel)
        with unittest.mock.patch.dict(globals(), {"LATER": 1}):
            self.run_once(kernel, [numpy.zeros(8, "f4"), 8])
        self.assertIn("LATER = 1", self.daemon.definition.sources[0].content.decode())

    def test_the_first_decision_does_little(self):
        """The functions of Python that it calls where the answer is kept; times are no measure on a busy machine."""
        self.tuned()
        self.start()
        kernel, called = self.kernel(), []
        contains = _autotune._Cache.__contains__

        def counted(cache, key):
            sys.setprofile(lambda frame, event, argument: called.append(frame.f_code) if event == "call" else None)
            try:
                return contains(cache, key)
            finally:
                sys.setprofile(None)

        with unittest.mock.patch.object(_autotune._Cache, "__contains__", counted), \
                unittest.mock.patch.dict(os.environ, {"TUNEFARM_TRITON_LOG": "0"}):
            self.run_once(kernel)
        self.assertEqual(self.launched(), [128])
        self.assertIn(contains.__code__, called)
        self.assertLess(len(called), 120, [code.co_name for code in called])


class Definitions(AutotuneTest):
    def test_arguments(self):
        q, mask = numpy.ones((8, 16), "f2"), numpy.arange(24, dtype="i4").reshape(4, 6)
        made = self.defined([numpy.ones((16, 8), "f4").T, q[:, ::2], mask[::1], 2.5, True, 16], function=attention,
                            listed=[triton.Config({"BLOCK": block, "EVEN": True, "TYPE": tl.float16, "HAS_MASK": True})
                                    for block in (8, 16)])
        found = {item.name: item for item in made.arguments}
        self.assertEqual(list(made.launches[0].kernel.arguments), ["out", "q", "mask", "scale", "n"])
        self.assertEqual([found[name].buffer.length for name in ("out", "q", "mask")], ["128", "127", "24"])
        self.assertEqual({found[name].buffer.access for name in ("out", "q", "mask")}, {kernel_pb2.ACCESS_INOUT})
        # Integers are the call's, the rest is random.
        self.assertTrue(found["q"].buffer.fill.HasField("normal"))
        self.assertEqual(self.daemon.uploads[found["mask"].buffer.fill.file.digest], mask.tobytes())
        self.assertEqual([found[name].scalar.value for name in ("scale", "n")], ["2.5", "16"])
        text = made.sources[0].content.decode()
        self.assertIn("causal: triton.language.constexpr=True", text)
        self.assertIn("TYPE: triton.language.constexpr=triton.language.float16", text)
        self.assertEqual({item.name: list(item.values.ints or item.values.bools) for item in made.parameters},
                         {"BLOCK": [8, 16], "EVEN": [True], "HAS_MASK": [True], "num_warps": [4], "num_stages": [3]})
        self.assertEqual(made.reference.steps[0], made.launches[0])

    def test_arguments_by_name_and_options(self):
        y, x, a, n = arguments()
        self.run_once(self.kernel(), [y], n=n, a=a, x=x, launch_pdl=True)
        made = self.daemon.definition
        self.assertEqual([argument.name for argument in made.arguments], ["y", "x", "a", "n"])
        self.assertEqual([(item.name, item.expression) for item in made.derived], [("launch_pdl", "True")])

    def test_what_is_reset_and_restored(self):
        def zeroes_y(values):
            self.assertEqual((values["n"], values["BLOCK"]), (1000, 64))
            values["y"].zero_()

        for options in ({"reset_to_zero": ["y"]}, {"listed": [*configs(64, pre_hook=zeroes_y), *configs(128)]}):
            self.daemon.jobs_run.clear()
            self.daemon.bests.clear()
            y = self.defined(restore_value=["x"], **options).arguments[0].buffer
            self.assertEqual((y.access, y.init, y.restore, y.HasField("fill")),
                             (kernel_pb2.ACCESS_OUT, kernel_pb2.INIT_ZERO, kernel_pb2.RESTORE_PER_SAMPLE, False))
            x = self.daemon.definition.arguments[1].buffer
            self.assertEqual((x.access, x.restore), (kernel_pb2.ACCESS_INOUT, kernel_pb2.RESTORE_PER_SAMPLE))

    def test_tensor_descriptors(self):
        def set_blocks(values):
            values["a_desc"].block_shape = [values["BLOCK_M"], values["BLOCK_K"]]
            values["c_desc"].block_shape = [values["BLOCK_M"], values["BLOCK_N"] // 2 if values["N"] > 48 else values["BLOCK_N"]]
            if values["BLOCK_M"] > 16:
                values["zeroed"].zero_()

        a, b, c = (TensorDescriptor.from_tensor(numpy.ones(shape, "f2"), block, padding)
                   for shape, block, padding in (((64, 32), [1, 1], "zero"), ((32, 48), [32, 16], "nan"), ((64, 48), [1, 1], "zero")))
        listed = [triton.Config({"BLOCK_M": rows, "BLOCK_N": 16, "BLOCK_K": 32}, pre_hook=set_blocks) for rows in (16, 32)]
        made = self.defined([a, b, c, numpy.ones(16, "f4").view(Zeroable), 48], function=of_descriptors, listed=listed, key=["N"])
        found = {item.name: item for item in made.arguments}
        self.assertEqual(list(made.launches[0].kernel.arguments),
                         ["a_desc_descriptor", "b_desc_descriptor", "c_desc_descriptor", "zeroed", "N"])
        self.assertEqual([found[name].buffer.length for name in ("a_desc", "b_desc", "c_desc")], ["2048", "1536", "3072"])
        described = [(item.buffer, list(item.shape), list(item.block_shape), item.oob_fill_nan)
                     for item in (found[f"{letter}_desc_descriptor"].tensor_descriptor for letter in "abc")]
        self.assertEqual(described, [("a_desc", ["64", "32"], ["BLOCK_M", "BLOCK_K"], False),
                                     ("b_desc", ["32", "48"], ["32", "16"], True),
                                     ("c_desc", ["64", "48"], ["BLOCK_M", "BLOCK_N"], False)])
        self.assertEqual(found["zeroed"].buffer.init, kernel_pb2.INIT_ZERO)
        launch = triton.runtime.jit.launches[-1].values
        self.assertEqual(launch["a_desc"].block_shape, [launch["BLOCK_M"], 32])  # Triton runs the hook at the launch

    def test_pre_hooks_run_at_each_launch(self):
        seen = []

        class Zeroed(numpy.ndarray):
            def zero_(self):
                seen.append(self)

        y, x, a, n = arguments()
        y = y.view(Zeroed)
        kernel = self.kernel(listed=configs(pre_hook=lambda values: values["y"].zero_()))
        for _ in range(2):
            self.run_once(kernel, [y, x, a, n])
        self.assertEqual(self.launched(), [128, 128])
        self.assertEqual([one is y for one in seen], [True, True])

    def test_heuristics_on_either_side(self):
        values = {"EVEN": lambda args: args["n"] % args["BLOCK"] == 0, "TYPE": lambda args: None,
                  "HAS_MASK": lambda args: args["mask"] is not None}
        given = [numpy.zeros(64, "f4"), numpy.zeros(64, "f4"), None, 1.0, False, 64]
        made = self.defined(given, function=triton.heuristics(values)(attention), listed=configs(64, 128))
        self.assertEqual({item.name: list(item.values.ints or item.values.bools) for item in made.parameters},
                         {"BLOCK": [64, 128], "num_warps": [4], "num_stages": [3], "EVEN": [True, False], "HAS_MASK": [False]})
        self.assertIn("TYPE: triton.language.constexpr=None", made.sources[0].content.decode())
        self.assertNotIn("heuristics", made.sources[0].content.decode())
        launch = triton.runtime.jit.launches[-1].values
        self.assertEqual((launch["BLOCK"], launch["EVEN"], launch["HAS_MASK"]), (128, False, False))

        self.daemon.jobs_run.clear()
        around = triton.heuristics({**values, "EVEN": lambda args: args["n"] == 64})(self.kernel(attention, configs(64, 128)))
        self.run_once(around, given)
        text = self.daemon.definition.sources[0].content.decode()
        self.assertIn("EVEN: triton.language.constexpr=True", text)
        self.assertEqual(triton.runtime.jit.launches[-1].values["EVEN"], True)

    def test_configs_that_are_pruned(self):
        pruned = {"early_config_prune": lambda listed, named, **rest: [one for one in listed if one.kwargs["BLOCK"] > named["n"]]}
        made = self.defined([*arguments(100)[:3], 100], prune_configs_by=pruned)
        self.assertEqual(list(made.parameters[0].values.ints), [128, 256])
        self.assertEqual(self.launched(), [256])
        # One that is left needs no tuning.
        self.run_once(self.kernel(prune_configs_by=pruned), [*arguments(200)[:3], 200])
        self.assertEqual((self.launched(), len(self.daemon.jobs_run)), ([256, 256], 1))

    def test_configs_that_pruning_makes_are_known_at_the_next_start(self):
        pruned = {"early_config_prune": lambda listed, named, **rest: configs(32, 16)}
        for is_away in (False, False, True):
            self.daemon.is_away = is_away
            self.start()
            self.run_once(self.kernel(prune_configs_by=pruned))
            self.assertEqual((self.launched(), len(self.daemon.jobs_run)), ([16], 1))

    def test_grids(self):
        processors = [132]
        for grid, wanted in (((4, 2), ["4", "2"]), (lambda META: (triton.cdiv(META["n"], META["BLOCK"]),), ["(1000 + BLOCK - 1) // BLOCK"]),
                             (lambda META: (min(processors[0], triton.cdiv(1000, META["BLOCK"])), META["y"].shape[0]), None)):
            self.daemon.jobs_run.clear()
            self.daemon.bests.clear()
            made = list(self.defined(grid=grid).launches[0].kernel.grid)
            if wanted is None:
                found = [eval(made[0], {"BLOCK": block, "min": min, "ceil_div": lambda a, b: -(-a // b)}) for block in (64, 128, 256)]
                self.assertEqual((found, made[1]), ([16, 8, 4], "1000"))
            else:
                self.assertEqual(made, wanted)

    def test_kernels_of_main_and_closures(self):
        factor = tl.constexpr(3)

        @tunefarm.triton.autotune(configs=configs(), key=["n"])
        @triton.jit
        def f(y, n, BLOCK: tl.constexpr):
            return y * factor

        with unittest.mock.patch.object(sys.modules[__name__], "__name__", "__main__"):
            self.run_once(f, [numpy.zeros(8, "f4"), 8])
        text = self.daemon.definition.sources[0].content.decode()
        self.assertIn("factor = triton.language.constexpr(3)", text)
        self.assertNotIn("tunefarm", text)


class Refusals(AutotuneTest):
    def test_of_the_decorator(self):
        self.stays_with_triton("@triton.autotune has a pre_hook or post_hook", post_hook=print)
        self.stays_with_triton("@triton.autotune has do_bench, warmup, rep or use_cuda_graph", do_bench=print)
        wrapped = types.SimpleNamespace(fn=kernels.axpy.fn, arg_names=kernels.axpy.arg_names, run=kernels.axpy.run)
        self.stays_with_triton("@triton.autotune is around a SimpleNamespace", function=wrapped)

    def test_of_hooks(self):
        def adds(values):
            values["y"] += 1

        self.stays_with_triton("the pre_hook of a Config does more than to set tensors to zero", listed=configs(pre_hook=adds))
        y, x, a, n = arguments()
        described = TensorDescriptor.from_tensor(x, [64])
        self.stays_with_triton("the configs have different pre_hooks", [y, described, a, n],
                               listed=[*configs(64, pre_hook=lambda values: None), *configs(128)])
        self.stays_with_triton("'n', which is to be reset or restored",
                               reset_to_zero=["n"])

    def test_of_arguments(self):
        y, x, a, n = arguments()
        descriptor = type("TensorDescriptor", (), {})()
        self.stays_with_triton("the argument 'x' is a TensorDescriptor; a definition has", [y, descriptor, a, n])
        self.stays_with_triton("the argument 'x' is a TensorDescriptor of the shape [500] with the strides [2], which is not",
                               [y, TensorDescriptor(x, [500], [2], [64]), a, n])
        self.stays_with_triton("the argument 'x' has elements of type bool", [y, x > 0, a, n])
        self.stays_with_triton("the argument 'x' has no elements", [y, x[:0], a, n])
        self.stays_with_triton("the argument 'x' has negative strides", [y, x[::-1], a, n])
        self.stays_with_triton("the argument 'x' does not begin at a multiple of 16 bytes", [y, x[1:], a, n])
        self.stays_with_triton("the argument 'x' is not contiguous", [y, numpy.ones((4, 6), "i4")[:, ::2], a, n])
        self.stays_with_triton("the argument 'a' is a str", [y, x, "a", n])
        self.stays_with_triton("the launch has no value for each parameter", [y, x, a], key=[])
        self.stays_with_triton("the kernel has no tensor", [1, 2, a, n])
        with unittest.mock.patch.object(_asking, "_INTEGER_BYTES_MAX", 3999):
            self.stays_with_triton("the argument 'x' has 4000 bytes of integers", [y, x.view("i4"), a, n])

    def test_of_addresses(self):
        y, x, a, n = arguments()
        pointers = numpy.array([0x7f2a40000000, 0, 0x302000000], "i8")
        self.stays_with_triton("the argument 'x' has integers that may be addresses", [y, pointers, a, n])
        for positions in ([5, 1 << 33], [-(1 << 33)], [0], [1 << 60]):
            self.daemon.jobs_run.clear()
            self.daemon.bests.clear()
            self.defined([y, numpy.array(positions), a, n])

    def test_what_no_one_foresaw(self):
        def fails(self, *arguments):
            raise TypeError("unforeseen")

        for name in ("known", "tune"):
            with unittest.mock.patch.object(_asking.Kernel, name, fails), warnings.catch_warnings(record=True) as warned, \
                    unittest.mock.patch.object(_autotune, "_has_warned", False):
                warnings.simplefilter("always")
                self.stays_with_triton("TypeError: unforeseen")
            self.assertEqual([str(one.message) for one in warned],
                             ["tunefarm: kernels are tuned by Triton itself: TypeError: unforeseen"])

    def test_of_keys_options_and_grids(self):
        self.stays_with_triton("the key has an object", [*arguments()[:3], object()])
        self.stays_with_triton("the launch has the option 'enable_fp_fusion'", named={"enable_fp_fusion": False})
        self.stays_with_triton("'x' of a Config or of @triton.heuristics is no tl.constexpr parameter",
                               function=triton.heuristics({"x": lambda args: 1})(kernels.axpy))
        self.stays_with_triton("a Config has an ir_override", listed=configs(ir_override="x.ttgir"))
        self.stays_with_triton("grid is 0; give a number above 0", grid=(0,))

    def test_of_sources(self):
        listed = {"a": 1}

        @triton.jit
        def f(y, n, BLOCK: tl.constexpr):
            return listed[y]

        self.stays_with_triton("'listed', which f uses, is of type dict", [numpy.zeros(8, "f4"), 8], function=f)

    def test_of_memory(self):
        cuda = types.SimpleNamespace(is_initialized=lambda: True, is_current_stream_capturing=lambda: False,
                                     is_available=lambda: True, mem_get_info=lambda: (23_999, 1 << 40), synchronize=lambda: None,
                                     current_device=lambda: 0,
                                     get_device_properties=lambda number: types.SimpleNamespace(name="H", uuid="ab"))
        device = types.SimpleNamespace(uuid="GPU-AB", device_class=types.SimpleNamespace(kind=tunefarm.DeviceKind.CUDA))
        self.daemon.devices = lambda timeout: [device]
        with unittest.mock.patch.dict(sys.modules, {"torch": types.SimpleNamespace(cuda=cuda, Tensor=type(None))}):
            self.stays_with_triton("the daemon needs 24000 bytes of the GPU's memory beside this process, and 23999 are free")
            cuda.mem_get_info = lambda: (24_000, 1 << 40)
            self.run_once(self.kernel())
            self.assertEqual(self.daemon.jobs_run[0]["device"], "GPU-AB")
            device.uuid, device.device_class.display_name = "GPU-CD", "other"
            self.start()
            self.run_once(self.kernel(), arguments(900))
            self.assertIn("the daemon has no H", self.said())


if __name__ == "__main__":
    unittest.main()
