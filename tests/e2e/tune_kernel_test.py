"""tune_kernel and run_kernel: scripts in Kernel Tuner's style, which only import from another module, on the CPU."""

import contextlib
import io
import json
import os
import pathlib
import runpy
import unittest
import warnings

import numpy

import tunefarm
from farm import SharedFarm
from tunefarm import run_kernel, tune_kernel

SCRIPTS = pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"]) / "tests" / "data" / "tune_kernel"

SAXPY = """
void saxpy(float *y, const float *x, float alpha, int n) {
#ifdef broken
    if (broken == 1) __builtin_trap();
    if (broken == 2) alpha += 1;
#endif
    for (int i = 0; i < n; i += step)
        for (int j = i; j < i + step && j < n; j++) y[j] += alpha * x[j];
}
"""


class TuneKernel(SharedFarm):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        os.environ["TUNEFARM_DATA_DIR"] = str(cls.farm.directory)
        os.environ.pop("TUNEFARM_SERVER", None)
        cls.client = cls.enterClassContext(tunefarm.Client())

    def script(self, name):
        """What it prints in its last line."""
        folder = os.getcwd()
        self.addCleanup(os.chdir, folder)
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            runpy.run_path(str(SCRIPTS / f"{name}.py"), run_name="__main__")
        return json.loads(said.getvalue().splitlines()[-1])

    def assert_results(self, said, *names):
        for result in said["results"]:
            self.assertGreater(result["time"], 0)
            self.assertLessEqual(set(names), set(result))
        best = said["env"]["best_config"]
        self.assertIn(best, said["results"])

    def test_vector_add(self):
        said = self.script("vector_add")
        self.assert_results(said, "vecsize", "GFLOP/s", "GB/s")
        self.assertEqual(sorted(result["vecsize"] for result in said["results"]), [1, 2, 4, 8])
        self.assertEqual(said["best"], said["env"]["best_config"])
        for result in said["results"]:
            self.assertAlmostEqual(result["GB/s"] / result["GFLOP/s"], 12, places=6)
        self.assertFalse(said["env"]["verified_against_first_config"])
        self.assertTrue(said["launched"])

    def test_matmul_with_restrictions(self):
        said = self.script("matmul")
        self.assert_results(said, "tile_i", "tile_k")
        self.assertEqual(sorted((result["tile_i"], result["tile_k"]) for result in said["results"]),
                         [(4, 2), (16, 2), (16, 8), (64, 2), (64, 8)])
        self.assertTrue(said["env"]["verified_against_first_config"])
        self.assertTrue(said["launched"])

    def test_convolution_with_an_answer_of_run_kernel(self):
        said = self.script("convolution")
        self.assert_results(said, "unroll", "GFLOP/s")
        self.assertEqual(len(said["results"]), 4)
        self.assertEqual(said["env"]["best_config"]["GFLOP/s"], max(result["GFLOP/s"] for result in said["results"]))
        self.assertTrue(said["launched"])
        self.assertTrue(said["untouched"])

    def test_reduction_with_its_own_verify(self):
        said = self.script("reduction")
        self.assert_results(said, "num_blocks", "verified")
        self.assertTrue(said["best"]["verified"])
        self.assertEqual([(item["num_blocks"], item["wrong"], item["outcome"]) for item in said["failed"]],
                         [(8, 1, "WRONG_RESULT")])
        self.assertEqual(sorted(result["num_blocks"] for result in said["results"]), [1, 2, 4, 8])

    def test_sparse_matrix_with_a_guided_search(self):
        said = self.script("sparse")
        self.assert_results(said, "block_size_x", "unroll")
        self.assertEqual(len(said["results"]), 5)

    def saxpy(self, arguments, tune_params, **options):
        return tune_kernel("saxpy", SAXPY, arguments[0].size, arguments, tune_params, quiet=True, client=self.client, **options)

    def vectors(self):
        y, x = numpy.random.default_rng(5).random((2, 1000), "f4")
        return [y, x, numpy.float32(2.5), numpy.int32(1000)]

    def test_wrong_and_crashing_configs_are_failures(self):
        arguments = self.vectors()
        answer = [arguments[0] + arguments[2] * arguments[1], None, None, None]
        for options, marked in (({"answer": answer}, False), ({}, True)):
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                results, env = self.saxpy(arguments, {"broken": [0, 1, 2], "step": [4]}, **options)
            differ = [str(item.message) for item in said if "the outputs of 1 config differ" in str(item.message)]
            self.assertEqual(len(differ), marked)
            self.assertEqual([result["broken"] for result in results], [0])
            self.assertEqual({item["broken"]: item["outcome"] for item in results.failed},
                             {1: "RUN_CRASH", 2: "WRONG_RESULT"})
            self.assertEqual((results.verified_against_first_config, env["verified_against_first_config"]), (marked, marked))
        with self.assertRaises(tunefarm.LaunchError):
            run_kernel("saxpy", SAXPY, 1000, arguments, {"broken": 1, "step": 4}, client=self.client)

    def test_what_is_said_of_a_job_without_dims(self):
        code, said = "void f(float *y) { y[0] = missing + w; }", io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            results, _ = tune_kernel("f", code, 1, [numpy.zeros(1, "f4")], {"w": [0, 1]}, client=self.client)
        self.assertEqual({failure["outcome"] for failure in results.failed}, {"COMPILE_ERROR"})
        self.assertIn("all 2 configs tried failed", said.getvalue().splitlines())

    def test_an_input_that_is_written_is_a_failure(self):
        arguments = self.vectors()
        code = SAXPY.replace("const float *x", "float *x").replace("#ifdef broken", "float *hidden = x; hidden[0] = 0;\n#ifdef broken")
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            results, _ = tune_kernel("saxpy", code, 1000, arguments, {"step": [1, 2]}, answer=[arguments[0], None, None, None],
                                     client=self.client)
        self.assertRegex(said.getvalue(), "(?m)^all 2 configs tried failed$")  # a kernel without dims: no problem is named
        self.assertEqual(list(results), [])
        self.assertFalse(results.best)
        with self.assertRaisesRegex(tunefarm.FailedPreconditionError, "no best config: no config ran and was right; the first: [A-Z_]+: "):
            results.best.launch(*arguments)
        self.assertEqual(len(results.failed), 2)

    def test_launching_the_best(self):
        arguments = self.vectors()
        y, x, alpha, n = arguments
        tuning = self.saxpy(arguments, {"step": [1, 8]})
        before = y.copy()
        tuning.best.launch(y, x, alpha, n)
        numpy.testing.assert_allclose(y, before + alpha * x, rtol=1e-6)
        tuning.best.launch(y, x, None, None)
        numpy.testing.assert_allclose(y, before + 2 * alpha * x, rtol=1e-6)
        for wrong, reason in (([y, x, alpha], "takes 4 arguments, not 3"), ([y, x, numpy.float32(3), n], "tuned for 2.5"),
                              ([y[:10], x, alpha, n], "argument 'y' has 40 bytes, but needs 4000 .1000 elements"),
                              ([y, x.astype("f8"), alpha, n], "'x' .* type float64")):
            with self.assertRaisesRegex(tunefarm.InvalidArgumentError, reason):
                tuning.best.launch(*wrong)

    def test_an_array_that_is_written_and_has_no_answer(self):
        code = "void f(float *y, float *t, int n) { for (int i = 0; i < n; i += w) { t[i % 4] = i + w; y[i % 4] = 3; } }"
        elsewhere = "static void put(float *p, float v) { *p = v; }\n" + code.replace("t[i % 4] = i + w", "put(t + i % 4, i + w)")
        for text in (code, elsewhere):
            y, t = numpy.zeros((2, 4), "f4")
            results, _ = tune_kernel("f", text, 1, [y, t, numpy.int32(100)], {"w": [1, 5]}, answer=[y + 3, None, None], quiet=True,
                                     client=self.client)
            self.assertEqual(len(results), 2, results.failed)
            results.best.launch(y, t, None)
            self.assertEqual(t.max(), 100)

    def test_cxx_with_templates_and_overloads(self):
        code = """#include <vector>
            template <class T> T twice(T x) { return x + x; }
            static float one(float x) { return x; }
            static double one(double x) { return x; }
            void f(float *y, int n) { for (int i = 0; i < n; i++) y[i] = twice(one(y[i])) + w - w; }"""
        y = numpy.ones(100, "f4")
        results, _ = tune_kernel("f", code, 100, [y, numpy.int32(100)], {"w": [0, 1]}, answer=[2 * y, None], quiet=True,
                                 client=self.client)
        self.assertEqual(len(results), 2, results.failed)
        results.best.launch(y, None)
        self.assertEqual(y.tolist(), [2] * 100)

    def test_cache_takes_over_what_was_measured(self):
        arguments = self.vectors()
        with self.assertWarnsRegex(UserWarning, "the daemon keeps every measurement"):
            _, first = self.saxpy(arguments, {"step": [2, 16]}, cache="saxpy.json")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _, second = self.saxpy(arguments, {"step": [2, 16]}, cache="saxpy.json")
        _, third = self.saxpy(arguments, {"step": [2, 16]})
        self.assertFalse(pathlib.Path("saxpy.json").exists())
        reused = [sum(trial.reused for trial in self.client.results(env["job"], purpose=tunefarm.TrialPurpose.SEARCH))
                  for env in (first, second, third)]
        self.assertEqual(reused, [0, 2, 0])

    def test_run_kernel_returns_all_arguments(self):
        arguments = self.vectors()
        before = arguments[0].copy()
        arguments[0] = arguments[0].reshape(10, 100)
        y, x, alpha, n = run_kernel("saxpy", SAXPY, 1000, arguments, {"step": 8}, client=self.client)
        numpy.testing.assert_allclose(y, (before + alpha * arguments[1]).reshape(10, 100), rtol=1e-6)
        numpy.testing.assert_array_equal(arguments[0].reshape(-1), before)
        numpy.testing.assert_array_equal(x, arguments[1])
        self.assertEqual((alpha, n), tuple(arguments[2:]))

    def test_the_example(self):
        example = SCRIPTS.parents[2] / "client" / "python" / "examples" / "kernel_in_a_string.py"
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            runpy.run_path(str(example), run_name="__main__")
        self.assertRegex(said.getvalue(), r"(?s)^best by time: TILE=\d+: time=[\d.e-]+\nright: True\n$")

    def test_what_the_daemon_refuses_is_said(self):
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "option '-lm' is not allowed"):
            self.saxpy(self.vectors(), {"step": [1]}, compiler_options=["-lm"])


if __name__ == "__main__":
    unittest.main()
