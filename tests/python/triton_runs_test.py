"""tunefarm.triton.autotune in a distributed run, without Triton and without a daemon: what is asked for, whose answer counts,
and what is said where a process cannot know what the others launch."""

import gc
import os
import pathlib
import types
import unittest
import unittest.mock
import warnings
import weakref

import triton_autotune_test as autotune
import tunefarm
from tunefarm.model import Match
from tunefarm.triton import _autotune, _kept

BEGUN_AT_MS, REVISION = 1000, 7


class Answer(types.SimpleNamespace):
    def __bool__(self):
        return self.match is not Match.NOT_FOUND


class Daemon(autotune.Daemon):
    """That of the other tests, which also fixes answers."""

    def __init__(self):
        super().__init__()
        self.fixed = {}
        self.begun_at_ms = BEGUN_AT_MS

    def best(self, name, device, worst_match, timeout):
        self.calls.append("best")
        return self.found(name)

    def found(self, name):
        if self.is_away:
            raise tunefarm.UnavailableError("the daemon does not answer")
        if name in self.bests:
            return Answer(config=self.bests[name], kernel="kernels/k", match=Match.EXACT)
        if any(name in job["label"] for job in self.jobs_run):
            return Answer(config={}, kernel="kernels/k", match=Match.NOT_FOUND)
        raise tunefarm.NotFoundError("no such kernel")

    def join_run(self, run_id, timeout):
        self.calls.append("join")

        def agree(name, device, worst_match, timeout):
            self.calls.append("agree")
            key = run_id, name
            if key not in self.fixed:
                self.fixed[key] = self.found(name)
            return self.fixed[key]

        return types.SimpleNamespace(id=run_id, begun_at_ms=self.begun_at_ms, revision=REVISION, best=agree)


class Runs(autotune.AutotuneTest):
    def setUp(self):
        super().setUp()
        self.daemon = Daemon()
        self.enterContext(unittest.mock.patch.object(autotune._session, "Client", self.daemon.connect))
        self.enterContext(unittest.mock.patch.dict(os.environ, {"TORCHELASTIC_RUN_ID": "job"}))
        for name in ("TUNEFARM_TRITON_RUN_ID", "TUNEFARM_TRITON_SNAPSHOT"):
            os.environ.pop(name, None)
        self.warned = self.enterContext(warnings.catch_warnings(record=True))
        warnings.simplefilter("always")

    def elsewhere(self):
        """A new process on another machine."""
        self.start()
        for file in pathlib.Path(os.environ["XDG_CACHE_HOME"], "tunefarm", "triton").glob("*"):
            file.unlink()

    def starts(self, block, **options):
        self.start()
        self.run_once(self.kernel(**options))
        self.assertEqual(self.launched(), [block], self.log.getvalue())

    def cannot_know(self, reason, block=64, **options):
        self.warned.clear()
        self.starts(block, **options)
        self.assertRegex(self.said(), f"the first config, NOT AGREED: .*{reason}")
        self.assertRegex(str(self.warned[-1].message), f"the others of run job may have another one: .*{reason}")

    def test_the_first_answer_is_that_of_the_run(self):
        self.starts(64, policy="default")
        self.assertEqual(self.daemon.calls, ["connect", "join", "best", "submit", "agree"])
        self.daemon.finish()
        self.starts(64, policy="default")  # as noted here
        self.assertEqual(self.daemon.calls, ["connect", "join"])
        self.elsewhere()
        self.starts(64, policy="wait")
        self.assertEqual(self.daemon.calls, ["connect", "join", "best", "agree"])
        with unittest.mock.patch.dict(os.environ, {"TORCHELASTIC_RUN_ID": "next"}):
            self.starts(128)
        self.assertEqual(self.warned, [])

    def test_wait_tunes_first(self):
        self.starts(128)
        self.assertEqual(self.daemon.calls, ["connect", "join", "best", "submit", "agree"])
        for name in self.daemon.bests:
            self.daemon.bests[name] = {"BLOCK": 256}  # of a later tuning
        self.elsewhere()
        self.starts(128)
        self.assertIn("(run job agreed: kernels/k, EXACT)", self.said())

    def test_which_run(self):
        for own, torch, agreed in ((None, "none", False), (None, "", False), ("none", "job", False), ("mine", "none", True)):
            with unittest.mock.patch.dict(os.environ, {"TORCHELASTIC_RUN_ID": torch, "TUNEFARM_TRITON_RUN_ID": own or ""}):
                self.starts(128)
                self.assertEqual("join" in self.daemon.calls, agreed, (own, torch))
        with unittest.mock.patch.object(_autotune, "_run_id", "given"):
            self.starts(128)
        self.assertEqual({run for run, _ in self.daemon.fixed}, {"mine", "given"})

    def test_inprocess_tunes_nothing(self):
        self.starts(64, policy="inprocess")
        self.assertEqual(self.daemon.calls[-2:], ["submit", "agree"])

    def test_a_tuning_that_fails_is_agreed_on(self):
        self.daemon.best_row = -1
        self.starts(64)
        self.assertIn("(the first config; run job agreed: nothing is known; jobs/1 found no config that runs", self.said())

    def test_what_cannot_be_described_is_said(self):
        self.cannot_know("do_bench", do_bench=print)
        self.start()
        with unittest.mock.patch.object(autotune._asking.Kernel, "_definition",
                                        side_effect=tunefarm.InvalidArgumentError("no buffers of that")):
            self.cannot_know("run job cannot agree on what nobody has described to the daemon: no buffers of that")

    def test_without_a_daemon(self):
        self.daemon.is_away = True
        self.cannot_know("no daemon is running; and no process of the run has reached the daemon")
        self.daemon.is_away = False
        self.starts(128)
        self.daemon.is_away = True
        self.starts(128)
        self.assertIn("(run job agreed, as noted here: no daemon is running)", self.said())
        # Answers of other runs, and of processes of none, are not the run's.
        with unittest.mock.patch.dict(os.environ, {"TORCHELASTIC_RUN_ID": "none"}):
            self.starts(128)
        os.environ["TORCHELASTIC_RUN_ID"] = "other"
        self.start()
        self.run_once(self.kernel())
        self.assertEqual(self.launched(), [64])
        self.assertIn("NOT AGREED", self.said())

    def test_no_tensor_is_kept_alive(self):
        gc.disable()  # cycles would keep them, too
        self.addCleanup(gc.enable)
        for is_away, kind in ((True, "f4"), (False, "?")):
            self.daemon.is_away = is_away
            self.start()
            given = autotune.arguments(kind=kind)
            kernel = self.kernel()
            for _ in range(2):  # the absence is found, and known
                self.run_once(kernel, given)
                kernel.cache.clear()
            self.assertIn("NOT AGREED", self.said())
            held = weakref.ref(given[0])
            autotune.triton.runtime.jit.launches.clear()
            del given
            self.assertTrue(held() is None, kind)

    def test_notes_are_of_one_begin(self):
        self.starts(64, policy="default")
        self.daemon.finish()
        self.daemon.fixed.clear()
        self.daemon.begun_at_ms += 1  # another run of this name
        self.starts(128)

    def test_an_answer_that_is_no_config_here_is_said(self):
        self.starts(128)
        for answer in self.daemon.fixed.values():
            answer.config = {"BLOCK": 512}
        self.elsewhere()
        self.cannot_know("BLOCK.*512.*none of this process's configs")

    def test_what_pruning_leaves_may_differ(self):
        self.daemon.best_row = -1
        pruned = {"early_config_prune": lambda listed, named, **rest: listed[1:]}
        self.cannot_know("pruning", 128, prune_configs_by=pruned)

    def test_capture_never_tunes(self):
        cuda, gpu = autotune.fake_gpu()
        cuda.is_current_stream_capturing = lambda: True
        self.daemon.devices = lambda timeout: [autotune.device_of(gpu)]
        with unittest.mock.patch.dict(autotune.sys.modules, {"torch": types.SimpleNamespace(cuda=cuda, Tensor=type(None))}):
            self.cannot_know("the launch is captured into a graph")
        self.assertEqual((self.daemon.jobs_run, self.daemon.fixed), ([], {}))
        self.starts(128)


class RunsOnAKnownGpu(Runs, autotune.KeptTest):
    """Where processes of no run take what is kept from earlier starts."""

    def setUp(self):
        super().setUp()
        self.daemon.devices = lambda timeout: [autotune.device_of(self.gpu)]

    def test_what_processes_of_no_run_have_kept_is_not_the_runs(self):
        os.environ["TORCHELASTIC_RUN_ID"] = "none"
        self.starts(128)
        (name,) = self.daemon.bests
        self.daemon.bests[name] = {"BLOCK": 256}
        os.environ["TORCHELASTIC_RUN_ID"] = "job"
        self.starts(256)
        self.assertEqual(self.daemon.calls, ["connect", "join", "best", "agree"])
        self.daemon.bests[name] = {"BLOCK": 64}
        self.starts(256)
        os.environ["TORCHELASTIC_RUN_ID"] = "none"
        self.starts(256)  # what is known is kept, the run's answers apart
        self.refreshed()
        self.starts(64)
        os.environ["TORCHELASTIC_RUN_ID"] = "job"
        self.starts(256)
        # Nor is it an answer where the run is unknown.
        self.daemon.is_away = True
        os.environ["TORCHELASTIC_RUN_ID"] = "other"
        with unittest.mock.patch.object(_kept, "read", wraps=_kept.read) as read:
            self.starts(64)
        self.assertIn("NOT AGREED: what the other processes of run other use cannot be known here", self.said())
        self.assertEqual({call.args[0].partition("_")[0] for call in read.call_args_list}, {"run"})


if __name__ == "__main__":
    unittest.main()
