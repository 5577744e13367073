"""The examples of client/python run as they stand."""

import ast
import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"])
sys.path.insert(0, str(SOURCE / "tests" / "e2e"))
from farm import HANG_SECONDS, KERNELS, Farm  # noqa: E402

EXAMPLES = SOURCE / "client" / "python" / "examples"


def public_names(file):
    """Constants, and functions with their parameters."""
    names = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            names.add((node.name, tuple(argument.arg for argument in node.args.args)))
        elif isinstance(node, ast.Assign):
            names.update(name.id for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name))
    return names


class Examples(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_example(self, name, *arguments, **environment):
        done = subprocess.run([sys.executable, EXAMPLES / name, *arguments], cwd=self.folder, capture_output=True, text=True,
                              timeout=HANG_SECONDS, env=dict(os.environ, **environment), stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_grouped_gemm_typical_usage(self):
        out = self.run_example("grouped_gemm_typical_usage.py")
        self.assertIn("18 forward, 18 dW and 18 dX configs", out)
        self.assertIn("is larger than K", out)  # what the context recorded
        with open(self.folder / "gemm_benchmark.csv", newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(len(rows), 1 + 12)
        speedups = [float(row["speedup"]) for row in rows]
        self.assertEqual(speedups, sorted(speedups, reverse=True))

    def test_tuning_script(self):
        out = self.run_example("tuning_script.py", "configs/gemm")
        self.assertIn("8 configs", out)
        self.assertRegex(out, r"Tuning took [\d.]+ seconds")
        (file,) = (self.folder / "configs" / "gemm").iterdir()
        self.assertTrue(file.name.endswith("-GEMM-TILED.json"))
        configs = json.loads(file.read_text())
        self.assertEqual(list(configs), ["small", "medium", "large"])
        self.assertEqual(configs["small"]["num_warps"], 4)

    def test_the_custom_space(self):
        sys.path.insert(0, str(EXAMPLES))
        self.addCleanup(sys.path.remove, str(EXAMPLES))
        import tuning_script

        self.assertEqual(len(tuning_script.custom_search_space()), 216)

    def test_the_triton_kernels_can_take_the_place_of_those_in_numpy(self):
        numpy_names, triton_names = (public_names(EXAMPLES / file) for file in ("numpy_kernels.py", "triton_kernels.py"))
        self.assertIn(("grouped_gemm", ("x", "w", "sizes", "gather", "config")), numpy_names)
        self.assertIn("MATMUL_K", numpy_names)
        # How often a run is repeated is a matter of each.
        self.assertLessEqual(numpy_names - {("milliseconds", ("run", "repeats"))}, triton_names)
        self.assertIn(("milliseconds", ("run",)), triton_names)

    def test_tune_matmul_host(self):
        with Farm() as farm:
            farm.start()
            out = self.run_example("tune_matmul_host.py", "--size", "64", "--trials", "4",
                                   TUNEFARM_DATA_DIR=str(farm.directory), TUNEFARM_KERNELS=str(KERNELS), TUNEFARM_SERVER="")
        self.assertIn("4 configs were tried", out)
        self.assertRegex(out, r"(?m)^EXACT: [\d.]+ µs, [\d.]+x the default config$")
        self.assertRegex(out, r"(?m)^NEAREST_SHAPE at distance 1\.0: ")


if __name__ == "__main__":
    unittest.main()
