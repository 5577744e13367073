"""Whole jobs through the real daemon, its workers and the CLI, on the CPU."""

import os
import pathlib
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree as ET

from farm import BIN, HANG_SECONDS, Farm, assert_ordinals_complete, config, outcome, search, wait_until

# What each fault of kernels/examples/faulty_host must be filed under (its README says why).
EXPECTED = {
    "none": {"OK"}, "compile_error": {"COMPILE_ERROR"},
    "segfault": {"RUN_CRASH"}, "bus_error": {"RUN_CRASH"}, "illegal_instruction": {"RUN_CRASH"},
    "divide_by_zero": {"RUN_CRASH"}, "stack_overflow": {"RUN_CRASH"}, "abort": {"RUN_CRASH"}, "throw": {"RUN_CRASH"},
    "exit_silently": {"RUN_CRASH"}, "infinite_loop": {"RUN_TIMEOUT"}, "sleep": {"RUN_TIMEOUT"},
    "memory_exhaustion": {"OUT_OF_MEMORY"}, "fork_bomb": {"SANDBOX_VIOLATION"},
    "wrong_result": {"WRONG_RESULT"}, "nan_output": {"WRONG_RESULT"}, "unwritten_output": {"WRONG_RESULT"},
    "out_of_bounds_write": {"OUT_OF_BOUNDS"}, "out_of_bounds_before": {"OUT_OF_BOUNDS"}, "input_write": {"OUT_OF_BOUNDS"},
}


class Tuning(unittest.TestCase):
    def test_matmul_host_and_a_restart(self):
        with Farm() as farm:
            farm.start()
            done = farm.cli("tune", "matmul_host", "--policy", "fast", "--dim", "M=128", "--dim", "N=128", "--dim", "K=128")
            self.assertIn("rank", done.stdout)
            trials = farm.trials(1)
            self.assertGreaterEqual(len(search(trials)), 200)
            self.assertEqual({outcome(t) for t in trials}, {"OK"})
            assert_ordinals_complete(trials)
            self.check_plot_and_analysis(farm, trials)
            before = farm.json("best", "matmul_host", "--exact", "--dim", "M=128", "--dim", "N=128", "--dim", "K=128")
            self.assertEqual(farm.stop(), 0)
            farm.start()
            after = farm.json("best", "matmul_host", "--exact", "--dim", "M=128", "--dim", "N=128", "--dim", "K=128")
            self.assertEqual(before["best"]["config"], after["best"]["config"])
            self.assertEqual(after["match"], "MATCH_EXACT")
            # The winner is what the final measured. Whether it is the right one: tests/fault/invariants.py.
            finalists = [t for t in trials if t.get("purpose") == "TRIAL_PURPOSE_FINALIST"]
            (winner,) = [t for t in finalists if t["config"] == after["best"]["config"]]
            self.assertEqual(after["best"]["measurement"]["median_ns"], winner["measurement"]["median_ns"])

    def check_plot_and_analysis(self, farm, trials):
        with tempfile.TemporaryDirectory() as folder:
            plot = pathlib.Path(folder) / "search.svg"
            farm.cli("results", "1", "--plot", str(plot))
            texts = [element.text for element in ET.parse(plot).getroot().iter("{http://www.w3.org/2000/svg}text")]
            self.assertIn(f"tried: {len(search(trials)):,}", texts)
            self.assertIn("best so far", texts)
            self.assertTrue(any(text.startswith("default config") for text in texts), texts)
        (study,) = farm.json("results", "1", "--analyze")["studies"]
        fastest = min(t["measurement"]["median_ns"] for t in search(trials))
        self.assertEqual(study["best"]["median_ns"], fastest)
        self.assertEqual(int(study["evaluations"]), len(search(trials)))
        self.assertEqual([step["within"] for step in study["convergence"]], [0.1, 0.05, 0.01])
        self.assertEqual({p["parameter"] for p in study["parameters"]}, set(config(search(trials)[0])))

    def test_every_fault_gets_its_own_outcome_and_is_not_run_again_unasked(self):
        with Farm("--launch-timeout-ms", "4000") as farm:
            farm.start()
            # The first job warms what is made once: workers, caches, the database's pages.
            farm.cli("tune", "faulty_host", "--policy", "fast", "--retry-poisoned", "--measure", "no_reuse=true")
            before = farm.info()
            farm.cli("tune", "faulty_host", "--policy", "fast", "--retry-poisoned", "--measure", "no_reuse=true")
            after = farm.info()
            for job in (1, 2):
                trials = farm.trials(job)
                assert_ordinals_complete(trials)
                seen = search(trials)
                self.assertEqual(len(seen), 24)
                for trial in seen:
                    fault = config(trial)["FAULT"]
                    self.assertIn(outcome(trial), EXPECTED[fault], f"{fault}: {trial.get('message')}")
                    if outcome(trial) != "OK":
                        self.assertTrue(trial.get("message"), f"{fault} has no explanation")
            # The connection of the command before may still be closing, and gRPC opens more for more threads when it is
            # held up; what leaks with every trial is more than that.
            wait_until(lambda: farm.info()["open_files"] <= before["open_files"] + 12,
                       f"the closing of files ({before['open_files']} were open, now {after['open_files']})")
            grown = int(after["resident_bytes"]) - int(before["resident_bytes"])
            self.assertLess(grown, 32 << 20, "the daemon's memory grew")
            farm.cli("tune", "faulty_host", "--policy", "fast")
            poisoned = {config(t)["FAULT"] for t in search(farm.trials(3)) if outcome(t) == "POISONED"}
            self.assertIn("segfault", poisoned)
            self.assertIn("infinite_loop", poisoned)
            self.assertNotIn("none", poisoned)

    def test_a_job_of_two_problems(self):
        with Farm() as farm:
            farm.start()
            farm.cli("tune", "matmul_host", "--policy", "fast", "--dim", "M=64,96", "--dim", "N=64", "--dim", "K=64",
                     "--strategy", "random", "--max-trials", "20", "--seed", "7")
            job = farm.json("jobs", "show", 1)
            self.assertEqual(len(job["studies"]), 2)
            self.assertEqual(job["state"], "JOB_STATE_SUCCEEDED")
            assert_ordinals_complete(farm.trials(1))
            for size in (64, 96):
                best = farm.json("best", "matmul_host", "--exact", "--dim", f"M={size}", "--dim", "N=64", "--dim", "K=64")
                self.assertIn(f"M={size}", best["best"]["problem"]["key"])
            near = farm.json("best", "matmul_host", "--dim", "M=80", "--dim", "N=64", "--dim", "K=64")
            self.assertEqual(near["match"], "MATCH_NEAREST_SHAPE")
            self.assertGreater(near["distance"], 0)

    def test_a_batch_goes_on_with_what_is_missing(self):
        with Farm() as farm:
            farm.start()
            grid = ("--policy", "fast", "--strategy", "random", "--max-trials", "4", "--missing-only")
            sizes = ("--dim", "N=64..256*2", "--dim", "CRASH_EVERY=16777217")
            farm.cli("tune", "noop_host", "--dim", "N=64..128*2", "--dim", "CRASH_EVERY=16777217", *grid)
            self.assertEqual(len(farm.json("jobs", "show", 1)["studies"]), 2)
            again = farm.cli("tune", "noop_host", *sizes, *grid)
            self.assertIn("Skipped 2 of 3 problems: they have an exact best.", again.stderr)
            (study,) = farm.json("jobs", "show", 2)["studies"]
            self.assertIn("N=256", study["problem"]["key"])
            done = farm.cli("tune", "noop_host", *sizes, *grid)
            self.assertIn("All 3 problems have an exact best: nothing to do.", done.stderr)
            self.assertEqual(done.stdout, "")
            self.assertEqual(farm.cli("jobs", "show", 3, check=False).returncode, 3)

    def test_bests_of_another_machine_are_measured_before_they_answer(self):
        problem = ("--dim", "N=64", "--dim", "CRASH_EVERY=16777217")
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "bests.json"
            with Farm() as there:
                there.start()
                there.cli("tune", "noop_host", *problem, "--policy", "fast", "--strategy", "random", "--max-trials", "5")
                winner = there.json("best", "noop_host", "--exact", *problem)["best"]["config"]
                there.cli("export", "bests", file, "--source", "another machine")
            with Farm() as here:
                here.start()
                here.cli("run", "noop_host", "--dim", "N=32", "X=1", "Y=1")  # so that the kernel is known
                self.assertEqual(here.cli("best", "noop_host", "--exact", *problem, check=False).returncode, 3)
                measure = ("tune", "noop_host", "--starting-configs", file, "--max-trials", "1", "--policy", "fast")
                here.cli(*measure)
                self.assertEqual([trial["config"] for trial in search(here.trials(2))], [winner])
                # To measure what is given is no search.
                self.assertEqual(here.cli("best", "noop_host", "--exact", *problem, check=False).returncode, 3)
                here.cli(*measure, "--promote")
                best = here.json("best", "noop_host", "--exact", *problem)
                self.assertEqual(best["match"], "MATCH_EXACT")
                self.assertEqual(best["best"]["job"], "jobs/3")

    def test_no_valid_config(self):
        with Farm() as farm:
            farm.start()
            done = farm.cli("tune", "faulty_host", "--pin", "FAULT=wrong_result", check=False)
            self.assertEqual(done.returncode, 5, done.stderr)
            self.assertIn("no valid config", done.stderr)

    def test_run_explains_one_config(self):
        with Farm() as farm:
            farm.start()
            good = farm.cli("run", "matmul_host", "--dim", "M=64", "--dim", "N=64", "--dim", "K=64", "MR=4", "NR=16")
            self.assertIn("outcome    OK", good.stdout)
            self.assertIn("Reproduce: tunefarm run matmul_host", good.stderr)
            bad = farm.cli("run", "faulty_host", "FAULT=wrong_result", check=False)
            self.assertEqual(bad.returncode, 5)
            self.assertIn("expected", bad.stdout)
            broken = farm.cli("run", "faulty_host", "FAULT=compile_error", check=False)
            self.assertIn("COMPILE_ERROR", broken.stdout)
            self.assertIn("#error", broken.stdout)

    def test_a_new_kernel_can_be_tuned_as_it_was_written(self):
        with Farm() as farm:
            farm.start()
            folder = farm.directory / "new"
            folder.mkdir()
            farm.cli("kernels", "new", folder / "my-kernel.cc")
            farm.cli("tune", folder, "--policy", "fast", "--strategy", "exhaustive", "--dim", "N=65536")
            trials = farm.trials(1)
            self.assertEqual({outcome(t) for t in trials}, {"OK"})
            assert_ordinals_complete(trials)
            self.assertEqual(farm.cli("__complete", "best", "my").stdout, "my_kernel\n")
            size = farm.json("jobs", "show", 1)["studies"][0]["space"]
            self.assertEqual(len(search(trials)), size["valid"])

    def test_cancel_pause_and_resume(self):
        with Farm() as farm:
            farm.start()
            job = farm.cli("submit", "matmul_host", "--quiet").stdout.strip()
            farm.cli("jobs", "pause", job)
            self.assertEqual(farm.json("jobs", "show", job)["state"], "JOB_STATE_PAUSED")
            farm.cli("jobs", "resume", job)
            farm.cli("jobs", "cancel", job)
            farm.cli("jobs", "watch", job, check=False)
            self.assertEqual(farm.json("jobs", "show", job)["state"], "JOB_STATE_CANCELLED")
            farm.cli("jobs", "delete", job)
            self.assertEqual(farm.cli("jobs", "show", job, check=False).returncode, 3)

    def test_a_watcher_outlives_restarts(self):
        with Farm() as farm:
            farm.start()
            job = farm.cli("submit", "matmul_host", "--quiet").stdout.strip()
            watcher = subprocess.Popen([BIN / "tunefarm", "jobs", "watch", job], stdout=subprocess.DEVNULL,
                                       stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
                                       env=dict(os.environ, TUNEFARM_DATA_DIR=str(farm.directory)))
            try:
                self.assertRegex(watcher.stderr.readline(), r"^\[")  # it follows the job
                # A daemon that stops ends streams in one of two ways, which timing chooses.
                for _ in range(5):
                    self.assertEqual(farm.stop(), 0)
                    farm.start()
                farm.cli("jobs", "cancel", job)
                _, said = watcher.communicate(timeout=HANG_SECONDS)
            finally:
                watcher.kill()
            self.assertIn(f"job {job} was cancelled", said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
