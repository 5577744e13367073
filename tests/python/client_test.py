"""The client and a daemon of its own: jobs, results, look-ups, errors, threads."""

import contextlib
import csv
import dataclasses
import io
import os
import pathlib
import pickle
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"]) / "tests" / "e2e"))
from farm import BIN, HANG_SECONDS, KERNELS, Farm  # noqa: E402

import tunefarm  # noqa: E402
from quick import QUICK  # noqa: E402
from tunefarm.grouped_gemm import device_properties  # noqa: E402


def quick(**more):
    return dict(QUICK, progress=False, **more)


class WithDaemon(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        stack = contextlib.ExitStack()
        cls.addClassCleanup(stack.close)
        cls.farm = stack.enter_context(Farm())
        cls.farm.start()
        stack.enter_context(mock.patch.dict(os.environ, TUNEFARM_KERNELS=str(KERNELS)))
        cls.client = stack.enter_context(tunefarm.Client(data_directory=cls.farm.directory, timeout=HANG_SECONDS))


class Jobs(WithDaemon):
    def test_from_submit_to_best(self):
        job = self.client.tune("noop_host", dims={"N": 64}, max_trials=30, label="thirty", **quick())
        self.assertEqual((job.state, job.label, job.kernel_name), (tunefarm.JobState.SUCCEEDED, "thirty", "noop_host"))
        self.assertEqual(job.progress.outcomes[tunefarm.Outcome.OK], job.progress.done)
        labelled = self.client.jobs(kernel="noop_host", label="thirty")
        self.assertEqual([other.name for other in labelled], [job.name])
        self.assertEqual(self.client.jobs(kernel="another", label="thirty"), [])
        self.assertEqual(self.client.jobs(label="thirty", submitted_by="nobody"), [])
        (study,) = job.studies
        self.assertEqual((study.state, study.problem.dims["N"]), (tunefarm.StudyState.ENDED, 64))
        self.assertGreater(job.best.time_ns, 0)

        exact = self.client.best("noop_host", worst_match="EXACT", N=64)
        self.assertTrue(exact)
        self.assertEqual((exact.match, exact.config, exact.time_ns),
                         (tunefarm.Match.EXACT, job.best.config, job.best.time_ns))
        self.assertEqual(exact.best.job, job.name)
        near = self.client.best("noop_host", N=65)
        self.assertEqual((near.match, near.config), (tunefarm.Match.NEAREST_SHAPE, job.best.config))
        self.assertGreater(near.distance, 0)
        nothing = self.client.best("noop_host", worst_match=tunefarm.Match.EXACT, problem={"N": 65})
        self.assertFalse(nothing)
        self.assertEqual((nothing.match, nothing.config, nothing.best), (tunefarm.Match.NOT_FOUND, {}, None))
        self.assertIn(job.best, self.client.bests("noop_host"))

        batch = self.client.best_batch("noop_host", {"N": [64 + at % 2 for at in range(10_001)]}, worst_match="EXACT",
                                       CRASH_EVERY=16777217)
        self.assertEqual(len(batch), 10_001)
        self.assertEqual(batch[10_000].config, job.best.config)
        self.assertIsNone(batch[1])
        self.assertEqual(set(batch.matches[1::2]), {tunefarm.Match.NOT_FOUND})
        self.assertIsInstance(batch, tunefarm.BatchAnswer)

        configs = self.client.best_batch("noop_host", {"N": [64 + at % 2 for at in range(10_001)]}, worst_match="EXACT",
                                         configs_only=True, CRASH_EVERY=16777217)
        self.assertIsInstance(configs, tunefarm.BatchConfigs)
        self.assertEqual(len(configs), 10_001)
        self.assertEqual((configs.matches, configs.distances), (batch.matches, batch.distances))
        for at in (0, 2, 10_000):
            self.assertEqual(configs[at], job.best.config)
            self.assertEqual(configs.medians_ns[at], job.best.time_ns)
        self.assertEqual((configs[1], configs.medians_ns[1]), (None, 0))
        self.assertEqual(len(configs.configs), 2, "one of each call")

    def test_results(self):
        job = self.client.tune("noop_host", dims={"N": 32}, max_trials=25, **quick())
        with mock.patch("tunefarm.client._PAGE_SIZE", 10):
            searched = self.client.results(job, purpose=tunefarm.TrialPurpose.SEARCH)
        trials = searched.to_list()  # three pages
        self.assertEqual([trial.ordinal for trial in trials], list(range(25)))
        self.assertEqual(trials, list(searched))
        timed = [trial.measurement.median_ns for trial in self.client.results(job, order_by_time=True) if trial.measurement]
        self.assertEqual(timed, sorted(timed))
        self.assertEqual(self.client.results(job, outcomes=[tunefarm.Outcome.RUN_CRASH]).to_list(), [])

        frame = searched.to_dataframe()
        self.assertEqual(list(frame.columns[:7]), ["study", "problem", "ordinal", "purpose", "outcome", "X", "Y"])
        self.assertEqual(list(frame["X"]), [trial.config["X"] for trial in trials])
        self.assertEqual(list(frame["median_ns"]), [trial.measurement.median_ns for trial in trials])
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "r.csv"
            searched.to_csv(path)
            with open(path, newline="", encoding="utf-8") as file:
                rows = list(csv.DictReader(file))
        self.assertEqual(list(rows[0]), list(frame.columns))
        self.assertEqual([float(row["median_ns"]) for row in rows], list(frame["median_ns"]))
        self.assertEqual(self.client.trial(trials[3].name).config, trials[3].config)

    def test_a_grid_of_problems(self):
        job = self.client.submit("noop_host", dims={"N": [8, 16]}, max_trials=2, **QUICK)
        ended = self.client.wait(job)
        (listed,) = [other for other in self.client.jobs() if other == dataclasses.replace(ended, studies=())]
        self.assertIn("N=8 ... and 1 more</td>", listed._repr_html_())
        with mock.patch("tunefarm._optional.needed"), mock.patch.dict(sys.modules, {"tunefarm._figure": mock.Mock()}) as modules:
            figure = tunefarm.plot(job.number, server=self.client.address)
            drawn = modules["tunefarm._figure"].drawn
        self.assertIs(figure, drawn.return_value)
        (title, studies), _ = drawn.call_args
        self.assertEqual((title, [study.title for study in studies]), (job.name, [study.problem.key for study in ended.studies]))
        self.assertEqual([study.problem.dims["N"] for study in ended.studies], [8, 16])
        self.assertEqual({trial.study for trial in self.client.results(job, study=2)}, {job.name + "/studies/2"})

    def test_submitting_twice_is_submitting_once(self):
        def submit(**more):
            return self.client.submit("noop_host", dims={"N": 16}, request_id="the-same", **dict(QUICK, **more))

        first = submit(max_trials=3)
        self.assertEqual(submit(max_trials=3).uid, first.uid)
        with self.assertRaises(tunefarm.InvalidArgumentError) as caught:
            submit(max_trials=4)
        self.assertEqual(caught.exception.reason, "REQUEST_ID_REUSED")

    def test_a_job_without_memory_starts_from_nothing(self):
        self.client.tune("noop_host", dims={"N": 32}, max_trials=20, **quick())
        for no_memory in (False, True):
            job = self.client.tune("noop_host", dims={"N": 33}, max_trials=5, no_memory=no_memory,
                                   **dict(quick(), strategy="default"))
            stored = self.farm.json("jobs", "show", job.number)
            self.assertEqual(stored.get("no_memory", False), no_memory)
            (study,) = stored["studies"]
            self.assertEqual(bool(study.get("priors")), not no_memory, study.get("priors"))

    def test_cancel_and_delete(self):
        job = self.client.submit("noop_host", dims={"N": 17}, **QUICK)  # a million configs
        with self.assertRaises(tunefarm.FailedPreconditionError):
            self.client.delete(job)
        self.assertIn(self.client.pause(job).state, (tunefarm.JobState.PAUSED, tunefarm.JobState.RUNNING))
        self.client.resume(job)
        self.client.cancel(job)
        self.assertEqual(self.client.wait(job).state, tunefarm.JobState.CANCELLED)
        with self.assertRaises(tunefarm.FailedPreconditionError) as caught:
            self.client.cancel(job.number)
        self.assertEqual(caught.exception.reason, "JOB_STATE")
        self.assertIn(job.name, [other.name for other in self.client.jobs(states=[tunefarm.JobState.CANCELLED])])
        self.client.delete(job)
        with self.assertRaises(LookupError):
            self.client.job(job)

    def interrupted(self, size, again):
        """What tune says when Ctrl-C is pressed at its first trial, and a second time if `again`; and the job's name."""
        seen = []

        def interrupt(event):
            if event.trial and not seen:
                seen.append(event)
                signal.raise_signal(signal.SIGINT)

        class Terminal(io.StringIO):
            def isatty(self):
                return again

        def second(_):
            signal.raise_signal(signal.SIGINT)

        err = Terminal()
        with contextlib.redirect_stderr(err), mock.patch("tunefarm.client.time", mock.Mock(sleep=second)), \
                self.assertRaises(KeyboardInterrupt):
            self.client.tune("noop_host", dims={"N": size}, **dict(QUICK, progress=interrupt))
        return err.getvalue(), "/".join(seen[0].trial.name.split("/")[:2])

    def test_ctrl_c_detaches(self):
        said, name = self.interrupted(18, again=False)
        number = name[len("jobs/"):]
        self.assertRegex(said, rf"^Detached; job {number} continues\. .*tunefarm jobs watch {number}.*jobs cancel {number}\n$")
        self.assertIn(self.client.job(name).state, (tunefarm.JobState.QUEUED, tunefarm.JobState.RUNNING))
        self.client.cancel(name)

    def test_a_second_ctrl_c_cancels_the_job(self):
        said, name = self.interrupted(22, again=True)
        number = name[len("jobs/"):]
        self.assertIn(f"Cancelled job {number}; what it found stays", said)
        self.assertEqual(self.client.wait(name).state, tunefarm.JobState.CANCELLED)

    def test_its_time_is_over(self):
        with contextlib.redirect_stderr(io.StringIO()) as err, self.assertRaises(TimeoutError):
            self.client.tune("noop_host", dims={"N": 19}, label="over", timeout=2, **quick())
        # Either it was queued in time and then cancelled, or nobody knows.
        self.assertRegex(err.getvalue(), r"^Cancelled job \d+; what it found stays.*\n$|may have been queued")
        for job in self.client.jobs(states=[tunefarm.JobState.QUEUED, tunefarm.JobState.RUNNING]):
            if job.label == "over":
                self.client.cancel(job)

    def test_cancelled_by_somebody_else(self):
        def cancel(event):
            if event.trial and event.trial.ordinal == 0:
                self.client.cancel(event.trial.name.split("/")[1])

        with self.assertRaises(tunefarm.JobCancelledError) as caught:
            self.client.tune("noop_host", dims={"N": 20}, **dict(QUICK, progress=cancel))
        self.assertEqual(caught.exception.job.state, tunefarm.JobState.CANCELLED)

    def test_plain_lines_of_progress(self):
        with contextlib.redirect_stderr(io.StringIO()) as err:
            self.client.tune("noop_host", dims={"N": 21}, max_trials=20, **QUICK)
        lines = err.getvalue().splitlines()
        self.assertLessEqual(len(lines), 13)
        self.assertRegex(lines[-1], r"^\[20/20\] 100%  best .*s$")

    def test_two_threads(self):
        errors = []

        def work(size):
            try:
                job = self.client.tune("noop_host", dims={"N": size}, max_trials=20, **quick())
                for _ in range(50):
                    answer = self.client.best("noop_host", worst_match="EXACT", N=size)
                    assert answer.config == job.best.config, answer
                assert len(self.client.results(job, purpose=tunefarm.TrialPurpose.SEARCH).to_list()) == 20
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(size,), daemon=True) for size in (40, 41)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(HANG_SECONDS)
            self.assertFalse(thread.is_alive(), "a thread hangs")
        self.assertEqual(errors, [])


class Rest(WithDaemon):
    def test_kernels(self):
        stored = self.client.create_kernel("noop_host")
        self.assertEqual(self.client.create_kernel(KERNELS / "examples" / "noop_host").name, stored.name)
        self.assertEqual(self.client.kernel("noop_host"), stored)
        self.assertEqual(self.client.kernel(stored.name), stored)
        self.assertIn(stored, self.client.kernels())
        x = stored.parameters[0]
        self.assertEqual((x.name, x.default, len(x.values)), ("X", 0, 1000))
        self.assertEqual(stored.language, tunefarm.Language.HOST_CXX)
        self.assertEqual(self.client.best("noop_host", N=4).match, tunefarm.Match.DEFAULT)

    def test_a_path_asks_for_its_own_definition(self):
        self.client.tune("noop_host", dims={"N": 77}, max_trials=5, **quick())
        folder = pathlib.Path(tempfile.mkdtemp()) / "noop_host"
        self.addCleanup(shutil.rmtree, folder.parent)
        shutil.copytree(KERNELS / "examples" / "noop_host", folder)
        own = self.client.best(folder, N=77)
        self.assertEqual(own.match, tunefarm.Match.EXACT)
        self.assertEqual(own.program_digest, own.best.program_digest)
        self.assertIn("noop_host", {best.kernel_name for best in self.client.bests(folder)})
        source = next(folder.glob("*.cc"))
        source.write_text(source.read_text() + "// edited\n")
        edited = self.client.best(str(folder), N=77)
        self.assertEqual(edited.match, tunefarm.Match.STALE_SOURCE)
        self.assertEqual(edited.program_digest, own.program_digest)
        self.assertEqual(self.client.best_batch(folder, {"N": [77]}).matches, (tunefarm.Match.STALE_SOURCE,))
        self.assertEqual(self.client.bests(folder), [])
        # A stored definition is deleted; its bests and the results of its jobs stay.
        job = self.client.tune(folder, dims={"N": 78}, max_trials=2, **quick())
        stored = self.client.create_kernel(folder)
        self.assertEqual(job.kernel, stored.name)
        self.assertEqual(self.client.kernel("noop_host"), stored)
        self.client.delete_kernel(stored.name)
        with self.assertRaises(tunefarm.NotFoundError):
            self.client.kernel(stored.name)
        self.assertEqual(self.client.best("noop_host", N=77).match, tunefarm.Match.EXACT)
        results = self.client.results(job)
        self.assertEqual(list(results.to_dataframe()["X"]), [trial.config["X"] for trial in results])
        self.assertEqual(pickle.loads(pickle.dumps(results)).to_list(), results.to_list())

    def test_devices(self):
        (host,) = self.client.devices()
        self.assertEqual((host.device_class.kind, host.state), (tunefarm.DeviceKind.HOST, tunefarm.DeviceState.READY))
        self.assertGreater(host.device_class.sm_count, 0)
        info = self.client.info()
        self.assertEqual((info.pid, info.data_directory), (self.farm.process.pid, str(self.farm.directory)))
        device_properties._properties = None
        self.addCleanup(setattr, device_properties, "_properties", None)
        with mock.patch.dict(os.environ, TUNEFARM_SERVER=self.client.address), mock.patch.dict(sys.modules, torch=None):
            known = device_properties.get_device_properties()
        self.assertEqual(known, device_properties.DeviceProperties(host.device_class.sm_count, 0, 0, 0))

    def test_errors_have_reasons(self):
        for call, kind, reason in (
                (lambda: self.client.job(4711), tunefarm.NotFoundError, "JOB_NOT_FOUND"),
                (lambda: self.client.best("nobody"), tunefarm.NotFoundError, "KERNEL_NOT_FOUND"),
                (lambda: self.client.submit("noop_host", dims={"Q": 1}), tunefarm.InvalidArgumentError, "UNKNOWN_DIM"),
                (lambda: self.client.submit("noop_host", device="H999"), tunefarm.NotFoundError, "DEVICE_NOT_FOUND"),
                (lambda: self.client.submit("noop_host", strategy="luck"), tunefarm.InvalidArgumentError, "STRATEGY_INVALID"),
                (lambda: self.client.submit("noop_host", objective="energy"), tunefarm.InvalidArgumentError,
                 "OBJECTIVE_UNSUPPORTED"),
                (lambda: self.client.submit("noop_host", objective="power"), tunefarm.InvalidArgumentError, None),
                (lambda: next(self.client.watch(4711)), tunefarm.NotFoundError, "JOB_NOT_FOUND"),
                (lambda: self.client.trial("jobs/1"), tunefarm.TunefarmError, None),
        ):
            with self.assertRaises(kind) as caught:
                call()
            self.assertTrue(caught.exception.message)
            if reason:
                self.assertEqual(caught.exception.reason, reason)

    def test_tune_job(self):
        with mock.patch.dict(os.environ, TUNEFARM_SERVER=self.client.address):
            job = tunefarm.tune_job("noop_host", dims={"N": 5}, max_trials=2, **quick())
        self.assertEqual(job.state, tunefarm.JobState.SUCCEEDED)

    def test_a_closed_client(self):
        with tunefarm.Client(self.client.address) as client:
            client.info()
            self.assertEqual(repr(client), f"<Client of {client.address}>")
        self.assertEqual(repr(client), f"<Client of {client.address} closed>")
        for call in (client.info, lambda: client.cancel(1), lambda: list(client.watch(1)), lambda: client.wait(1),
                     lambda: client.tune("noop_host", progress=False), client.jobs, lambda: client.best_batch("x", {"N": [1]})):
            with self.assertRaisesRegex(tunefarm.AbortedError, "closed"), contextlib.redirect_stderr(io.StringIO()):
                call()
        with self.assertRaises(tunefarm.InvalidArgumentError):
            client.job("no number")

    def test_a_client_is_closed_while_it_watches(self):
        job = self.client.submit("noop_host", dims={"N": 23}, **QUICK)  # a million configs
        self.addCleanup(self.client.cancel, job)
        client = tunefarm.Client(self.client.address)
        watching, ends = threading.Event(), []

        def wait():
            try:
                client.wait(job, on_event=lambda _: watching.set())
            except BaseException as error:
                ends.append(error)

        thread = threading.Thread(target=wait, daemon=True)
        thread.start()
        self.assertTrue(watching.wait(HANG_SECONDS), "no event")
        client.close()
        thread.join(HANG_SECONDS)
        self.assertFalse(thread.is_alive(), "the watch hangs")
        self.assertIsInstance(ends[0], tunefarm.AbortedError)


class PrivateDaemon(unittest.TestCase):
    def test_it_is_started_on_demand(self):
        with tempfile.TemporaryDirectory(prefix="tunefarm-py.") as folder:
            environment = {"PATH": f"{BIN}:{os.environ['PATH']}", "TUNEFARM_DATA_DIR": folder, "TUNEFARM_SHARE_HOST": "1"}
            with mock.patch.dict(os.environ, environment):
                os.environ.pop("TUNEFARM_SERVER", None)
                try:
                    with tunefarm.Client() as client, tunefarm.Client() as another:
                        self.assertEqual(client.info().data_directory, folder)
                        self.assertEqual(another.info().pid, client.info().pid)
                finally:
                    # Nothing is written into the folder once the daemon has let go of it.
                    subprocess.run([BIN / "tunefarm", "stop", "--now"], check=False, capture_output=True)
                    subprocess.run(["flock", "-w", str(HANG_SECONDS), folder + "/tunefarmd.lock", "true"], check=False)


class DamagedTrials(unittest.TestCase):
    def test_results_warn_of_a_damaged_trial(self):
        with Farm() as farm, mock.patch.dict(os.environ, TUNEFARM_KERNELS=str(KERNELS)):
            farm.start()
            with tunefarm.Client(data_directory=farm.directory, timeout=HANG_SECONDS) as client:
                job = client.tune("noop_host", dims={"N": 32}, max_trials=5, **quick())
            farm.stop()
            with contextlib.closing(sqlite3.connect(farm.directory / "tunefarm.db")) as database, database:
                database.execute("UPDATE trial_result SET detail = x'ff' WHERE ordinal = 2")
            farm.start()
            with tunefarm.Client(data_directory=farm.directory, timeout=HANG_SECONDS) as client:
                results = client.results(job, purpose=tunefarm.TrialPurpose.SEARCH)
                with self.assertWarnsRegex(UserWarning, f"^tunefarm: {job.name}: 1 trial is damaged"):
                    trials = results.to_list()
            self.assertEqual([trial.ordinal for trial in trials], [0, 1, 3, 4])
            self.assertEqual(results.unreadable, 1)


if __name__ == "__main__":
    unittest.main()
