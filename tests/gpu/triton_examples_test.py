"""The examples of client/python with their Triton kernels. Needs a GPU, torch and Triton. Run it by hand, from the source
folder:

    TUNEFARM_SOURCE_DIR=$PWD PYTHONPATH=$PWD/client/python python3 tests/gpu/triton_examples_test.py
"""

import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

EXAMPLES = pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"]) / "client" / "python" / "examples"


class TritonExamples(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_example(self, name, *arguments):
        done = subprocess.run([sys.executable, EXAMPLES / name, "--triton", *arguments], cwd=self.folder, text=True,
                              capture_output=True, stdin=subprocess.DEVNULL, timeout=600)
        print(done.stdout, done.stderr, flush=True)
        self.assertEqual(done.returncode, 0)
        return done.stdout

    def test_grouped_gemm_typical_usage(self):
        out = self.run_example("grouped_gemm_typical_usage.py")
        self.assertIn("18 forward, 18 dW and 18 dX configs", out)
        # Only what does not fit into shared memory is left out, and the context says so.
        self.assertNotRegex(out, r"(?m)^\w*Error for ")
        with open(self.folder / "gemm_benchmark.csv", newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(len(rows) + out.count("Out of resources: "), 1 + 18)
        self.assertGreater(len(rows), 9)
        self.assertIn("True", {row["use_tma_load_w"] for row in rows})

    def test_tuning_script(self):
        out = self.run_example("tuning_script.py", "configs/gemm")
        self.assertIn("8 configs", out)
        self.assertNotIn("Skipped", out)
        (file,) = (self.folder / "configs" / "gemm").iterdir()
        self.assertTrue(file.name.endswith("-GEMM-TILED.json"))
        configs = json.loads(file.read_text())
        self.assertEqual(list(configs), ["small", "medium", "large"])
        self.assertEqual(configs["large"]["BLOCK_SIZE_K"], 64)

    def test_the_custom_space(self):
        out = self.run_example("tuning_script.py", "configs", "--custom")
        self.assertIn("216 configs", out)
        self.assertRegex(out, r"Tuning took [\d.]+ seconds")


if __name__ == "__main__":
    unittest.main(verbosity=2)
