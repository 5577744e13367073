"""farm_scaling.py without GPUs: agents on the host's CPU, and what it says when something is wrong."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"])
SCRIPT = SOURCE / "tests/bench/farm_scaling.py"
# All its configs share one binary.
HOST = ["--kernel", SOURCE / "kernels/examples/noop_host", "--device", "host", "--policy", "fast", "--tune-flag=--warm-cache",
        "--tune-flag=--measure=noisy_relative_half_width=-1", "--tune-flag=--host-isolation=shared", "--seconds", "600"]


class FarmScaling(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tunefarm-scaling-test.")
        self.addCleanup(folder.cleanup)
        self.bundle, self.out = pathlib.Path(folder.name) / "bundle", pathlib.Path(folder.name) / "out"
        self.bundle.mkdir()
        (self.bundle / "bin").symlink_to(os.environ["TUNEFARM_BIN_DIR"])

    def run_script(self, *arguments, bundle=None):
        return subprocess.run([sys.executable, SCRIPT, bundle or self.bundle, self.out, *arguments], capture_output=True,
                              text=True, check=False, stdin=subprocess.DEVNULL,
                              env=dict(os.environ, TUNEFARM_KERNELS=str(SOURCE / "kernels")))

    def test_one_agent_and_all_run_the_same_trials_and_a_killed_one_loses_none(self):
        done = self.run_script("--trials", "1000", "--gpus", "0,1,2", "--goal", "0", "--take-away", *HOST)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"3 agents are [0-9.]+ times as fast as one")
        self.assertIn("each of the 1000 trials is there once", done.stdout)
        runs = json.loads((self.out / "farm_scaling.json").read_text())["runs"]
        self.assertEqual([len(run["shares"]) for run in runs], [1, 1, 3, 3])
        # Every binary came from the caches, those of the other agents too.
        self.assertEqual([run["cached"] for run in runs[1:3]], [1000, 1000])
        self.assertEqual([run["configs"] for run in runs], [1000] * 4)

    def test_a_goal_that_is_missed_is_a_failure_with_logs(self):
        done = self.run_script("--trials", "1000", "--goal", "1000", *HOST)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("below the goal of 1000", done.stdout)
        self.assertEqual({log.name for log in self.out.glob("*.log")}, {"control.log", "agent0.log", "agent1.log"})

    def test_what_is_wrong_is_said(self):
        for words, message in ((["--trials", "1"], "--trials must be at least 2"),
                               (["--trials", "9", "--gpus", "0"], "two or more different ones"),
                               (["--trials", "9", "--gpus", "1,1"], "two or more different ones"),
                               ([], "--trials")):
            with self.subTest(words=words):
                done = self.run_script(*words)
                self.assertEqual(done.returncode, 2)
                self.assertIn(message, done.stderr)
        done = self.run_script("--trials", "9", bundle=self.out)
        self.assertIn("is no bundle: bin/tunefarm is missing", done.stderr)
        done = self.run_script("--trials", "9", *HOST, "--kernel", "no_such_kernel")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no_such_kernel", done.stdout)
        done = self.run_script("--trials", "9", *HOST, "--seconds", "0.01")
        self.assertEqual(done.returncode, 1)
        self.assertIn("the 0.01 s are over", done.stdout)


if __name__ == "__main__":
    unittest.main()
