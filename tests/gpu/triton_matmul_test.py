"""The Triton example through the daemon, with its faults. Needs a GPU, and an interpreter with torch and triton: the one
that runs this file, unless TUNEFARM_TEST_TRITON names another. Run it by hand, from the source folder, after a build:

    TUNEFARM_SOURCE_DIR=$PWD TUNEFARM_BIN_DIR=$PWD/build/release/bin python3 tests/gpu/triton_matmul_test.py
"""

import importlib.util
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"]) / "tests" / "e2e"))
from farm import BIN, KERNELS, WORKER_UIDS, Farm, assert_ordinals_complete, config, outcome, search  # noqa: E402

INTERPRETER = os.environ.get("TUNEFARM_TEST_TRITON", sys.executable)
MATMUL = KERNELS / "examples" / "triton_matmul"
OUTCOMES = {"compile_error": "COMPILE_ERROR", "raise": "RUN_CRASH", "abort": "RUN_CRASH",
            "illegal_address": "RUN_CRASH", "infinite_loop": "RUN_TIMEOUT", "wrong_result": "WRONG_RESULT", "unwritten_output": "WRONG_RESULT"}
# A few of the space, and all that go wrong.
SPACE = ("--pin", "GROUP_M=8", "--pin", "BLOCK_K=64", "--pin", "num_warps=8")


class GpuFarm(Farm):
    def spawn(self, **environment):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [BIN / "tunefarmd", "--data-dir", self.directory, *WORKER_UIDS, *self.flags], stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, env=dict(os.environ, **environment))


@unittest.skipUnless("TUNEFARM_TEST_TRITON" in os.environ or importlib.util.find_spec("triton"), "there is no triton")
class TritonMatmul(unittest.TestCase):
    def test_the_best_is_right_and_every_fault_has_its_outcome(self):
        with GpuFarm("--python-interpreter", INTERPRETER) as farm:
            farm.start()
            print(farm.cli("doctor", check=False).stdout)
            shape = ("--dim", "M=1024", "--dim", "N=1000", "--dim", "K=520")
            done = farm.cli("tune", MATMUL, *shape, "--dim", "FAULTS=true", *SPACE, "--policy", "fast", "--strategy",
                            "exhaustive")
            print(done.stdout)
            trials = farm.trials(1)
            assert_ordinals_complete(trials)
            good = 0
            for trial in search(trials):
                fault = config(trial)["FAULT"]
                if fault != "none":
                    self.assertEqual(outcome(trial), OUTCOMES[fault], trial)
                    continue
                self.assertIn(outcome(trial), ("OK", "INFEASIBLE_LAUNCH"), trial)
                good += outcome(trial) == "OK"
                if outcome(trial) == "OK":
                    self.assertEqual(trial["measurement"]["method"], "TIMING_METHOD_CUDA_EVENTS")
            self.assertGreater(good, 4)
            self.assertEqual({config(t)["FAULT"] for t in search(trials)}, {"none", *OUTCOMES})
            best = farm.json("best", "triton_matmul", *shape, "--dim", "FAULTS=true", *SPACE, "--exact")
            self.assertEqual(best["best"]["config"]["FAULT"], "none")
            # The GPU is as good as new, for kernels in CUDA too.
            farm.cli("run", "vector_add", "--dim", "N=1048576", "--policy", "fast")
            # What was compiled is found again.
            farm.cli("tune", MATMUL, *shape, "--dim", "FAULTS=true", *SPACE, "--policy", "fast", "--strategy",
                     "exhaustive", "--measure", "no_reuse=true")
            self.assertTrue(all(t.get("cached_binary") for t in search(farm.trials(2)) if outcome(t) == "OK"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
