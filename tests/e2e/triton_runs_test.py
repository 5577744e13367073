"""Processes of a distributed run with kernels for @triton.autotune launch the same configs: whatever is tuned meanwhile, at
later starts, and without the daemon, or they say that they cannot know. Processes of no run take what an earlier start has
kept. Triton has a stand-in, and the daemon, a real one, tunes C++ in the kernel's place."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import types
import unittest

import tunefarm
from farm import HANG_SECONDS, Farm, wait_until
from tunefarm.model import JobState

SOURCE = pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"])
BLOCKS = (64, 128, 256)
FIRST = BLOCKS[0]
STARTS = 20
# The first config is by far the slowest, the others are tied.
WORK = """
extern "C" void work(int* out, int block) {
  volatile int sum = 0;
  for (int i = 0; i < (block == 64 ? 4000000 : 1000); ++i) sum = sum + 1;
  for (int i = 0; i < 16; ++i) out[i] = i + N;
}
extern "C" void work_reference(int* out) {
  for (int i = 0; i < 16; ++i) out[i] = i + N;
}
"""
DEFINITION = """
display_name: "%s" language: LANGUAGE_HOST_CXX sources { path: "work.cc" }
parameters { name: "BLOCK" values { ints: 64 ints: 128 ints: 256 } bind: BIND_RUN }
arguments { name: "out" buffer { data_type: DATA_TYPE_I32 length: "16" access: ACCESS_OUT } }
arguments { name: "block" scalar { data_type: DATA_TYPE_I32 value: "BLOCK" } }
launches { kernel { entry: "work" arguments: ["out", "block"] } }
reference { steps { kernel { entry: "work_reference" arguments: ["out"] } } }
"""


def rank():
    """A process of a run: launches the kernel for each number that it reads, and says with which block, and why."""
    data = SOURCE / "tests" / "data"
    sys.path[:0] = [str(data / "fake_triton"), str(data / "triton")]
    import numpy
    import triton
    import triton.runtime.jit
    from google.protobuf import text_format

    import tunefarm.triton
    from tunefarm.triton import _asking, _session
    from tunefarm.v1 import kernel_pb2

    tunefarm.triton.install(snapshot=os.environ.pop("SNAPSHOT", None))
    import kernels

    def definition(_, name, key, configs, args, kwargs, upload):
        made = text_format.Parse(DEFINITION % name, kernel_pb2.Kernel())
        made.sources[0].content = f"const int N = {key[0]};\n{WORK}".encode()
        return made

    _asking.Kernel._definition = definition
    if "GPU" in os.environ:
        sys.modules["torch"] = fake_torch(os.environ["GPU"])
        _session.Session.selector = lambda session, gpu: ""  # the daemon has no GPU
    listed = [triton.Config({"BLOCK": block}) for block in BLOCKS]
    axpy = triton.autotune(configs=listed, key=["n"])(kernels.axpy)
    for line in sys.stdin:
        triton.runtime.jit.launches.clear()
        n = int(line)
        axpy[(1,)](numpy.zeros(n, "f4"), numpy.ones(n, "f4"), 0.5, n)
        print(json.dumps([launch.values["BLOCK"] for launch in triton.runtime.jit.launches]), flush=True)


def fake_torch(name):
    properties = types.SimpleNamespace(name=name, uuid="")
    cuda = types.SimpleNamespace(is_initialized=lambda: True, is_current_stream_capturing=lambda: False,
                                 is_available=lambda: True, synchronize=lambda: None, current_device=lambda: 0,
                                 get_device_properties=lambda number: properties)
    return types.SimpleNamespace(cuda=cuda, Tensor=type(None))


class Rank:
    def __init__(self, farm, run, folder, policy, **environment):
        self.errors = tempfile.TemporaryFile("w+")
        own = {name: value for name, value in os.environ.items()
               if not name.startswith(("TORCHELASTIC", "TUNEFARM_TRITON", "TUNEFARM_SERVER"))}
        if run:
            own["TORCHELASTIC_RUN_ID"] = run
        self.process = subprocess.Popen(
            [sys.executable, __file__, "rank"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True,
            env={**own, "TUNEFARM_DATA_DIR": str(farm), "XDG_CACHE_HOME": str(folder), "TUNEFARM_TRITON_LOG": "1",
                 "TUNEFARM_TRITON_POLICY": policy, "PYTHONWARNINGS": "always", **environment})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        self.errors.close()

    def ask(self, n):
        self.process.stdin.write(f"{n}\n")
        self.process.stdin.flush()

    def answer(self):
        """The block of the one launch: none was made for tuning."""
        line = self.process.stdout.readline()
        assert line, self.said()
        (block,) = json.loads(line)
        return block

    def launch(self, n):
        self.ask(n)
        return self.answer()

    def said(self):
        self.errors.seek(0)
        return self.errors.read()


class TritonRuns(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="tunefarm-runs.")))
        self.farm = self.enterContext(Farm())
        self.farm.start()

    def enterContext(self, context):  # of unittest since Python 3.11
        entered = context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)
        return entered

    def rank(self, run, policy="default", notes="notes", directory=None, **environment):
        """`notes`: a machine's. `directory`: another one's than the daemon's cuts the rank off."""
        return self.enterContext(Rank(directory or self.farm.directory, run, self.folder / notes, policy, **environment))

    def away(self):
        return self.folder / "no daemon"

    def finish_jobs(self):
        with tunefarm.Client(data_directory=self.farm.directory, start=False, timeout=HANG_SECONDS) as client:
            for job in client.jobs(states=(JobState.QUEUED, JobState.RUNNING)):
                client.wait(job, timeout=HANG_SECONDS)

    def test_ranks_on_both_sides_of_the_end_of_tuning(self):
        told_apart = 0
        for start in range(STARTS):
            n, run = 1000 + start, f"start {start}"
            early = self.rank(run)
            agreed = early.launch(n)
            self.finish_jobs()
            late, elsewhere = self.rank(run), self.rank(run, notes="another machine")
            later_start = self.rank(run, policy="wait", notes="a third one")
            cut_off = self.rank(run, directory=self.away())
            ranks = (late, elsewhere, later_start, cut_off)
            for one in ranks:
                one.ask(n)
            self.assertEqual([one.answer() for one in ranks], [agreed] * 4, [one.said() for one in ranks])
            self.assertIn(f"run {run} agreed: ", elsewhere.said())
            self.assertIn(f"run {run} agreed, as noted here: no daemon is running", cut_off.said())
            self.assertNotIn("NOT AGREED", "".join(one.said() for one in (early, *ranks)))
            # It was tuned: another run, and a process of none, have another config.
            found = self.rank(f"next {start}").launch(n)
            self.assertNotEqual(found, FIRST)
            self.assertEqual(self.rank("").launch(n), found)
            told_apart += agreed != found  # not where the tuning had ended before the first rank asked
            for one in (early, *ranks):
                one.process.kill()
        self.assertGreater(told_apart, 0)

    def test_all_wait_for_one_answer(self):
        ranks = [self.rank("run", policy="wait", notes=f"machine {number % 2}") for number in range(4)]
        for one in ranks:
            one.ask(500)
        blocks = [one.answer() for one in ranks]
        self.assertEqual(len(set(blocks)), 1, [one.said() for one in ranks])
        self.assertNotEqual(blocks[0], FIRST)
        self.farm.kill()
        self.farm.start()
        self.assertEqual(self.rank("run", policy="wait", notes="machine 2").launch(500), blocks[0])

    def test_a_rank_without_the_daemon_has_the_runs_snapshot_or_says_that_it_does_not_know(self):
        tuned = self.rank("", policy="wait").launch(700)
        snapshot = self.folder / "bests.tfsnap"
        self.farm.cli("export", "snapshot", snapshot)
        first, other = self.rank("run", SNAPSHOT=str(snapshot)), self.rank("run", notes="another machine")
        self.assertEqual(first.launch(701), other.launch(701))
        self.finish_jobs()
        late = self.rank("late", SNAPSHOT=str(snapshot), notes="a third one")
        self.assertNotEqual(late.launch(701), FIRST)
        self.farm.kill()
        self.assertEqual(first.launch(700), tuned)
        self.assertIn("of the snapshot that run run agreed on", first.said())
        for rank, n, why in ((first, 702, "has no answer"), (other, 700, "there is no snapshot"), (late, 700, "has revision"),
                             (self.rank("unknown run"), 700, "no process of the run has reached the daemon")):
            self.assertEqual(rank.launch(n), FIRST)
            said = rank.said()
            self.assertRegex(said, f"axpy .{n}.*NOT AGREED.*{why}")
            self.assertRegex(said, "UserWarning: tunefarm: axpy .* the others of run .* may have another one")
        # What they learn later is what they were told.
        self.farm.start()
        self.assertEqual(self.rank("run", notes="a fourth one").launch(700), tuned)

    def test_what_is_kept_is_taken_first_and_asked_for_again(self):
        tuned = self.rank("", policy="wait", GPU="one").launch(900)
        self.assertNotEqual(tuned, FIRST)
        self.farm.process.send_signal(signal.SIGSTOP)
        try:
            kept = self.rank("", GPU="one")
            self.assertEqual(kept.launch(900), tuned)
        finally:
            self.farm.process.send_signal(signal.SIGCONT)
        self.assertIn("(kept from an earlier start)", kept.said())
        wait_until(lambda: "asked again: unchanged" in kept.said(), "the answer to what was kept")
        other = self.rank("", GPU="another")
        self.assertEqual(other.launch(900), tuned)
        self.assertIn("(known: kernels/", other.said())
        self.farm.kill()
        without = self.rank("", GPU="one")
        self.assertEqual(without.launch(900), tuned)
        wait_until(lambda: "asked again: without an answer: no daemon is running" in without.said(), "the daemon's absence")
        self.assertEqual((kept.launch(900), without.launch(900)), (tuned, tuned))
        in_a_run = self.rank("run", GPU="one")
        self.assertEqual(in_a_run.launch(900), FIRST)
        self.assertIn("NOT AGREED", in_a_run.said())


if __name__ == "__main__":
    if sys.argv[1:] == ["rank"]:
        rank()
    else:
        unittest.main(verbosity=2)
