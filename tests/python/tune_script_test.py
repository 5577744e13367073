"""The helpers for tuning scripts, on functions of NumPy and of plain numbers."""

import contextlib
import io
import json
import os
import pathlib
import tempfile
import types
import unittest
import warnings
from unittest import mock

import numpy

from tunefarm.tune import utils
from tunefarm.tune.utils import HostClockWarning, NoValidConfigError, benchmark_config, tune_kernel

GOLDEN = json.loads((pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"]) / "tests/data/seed_space_golden.json").read_text())


class OutOfResources(Exception):
    """As Triton's."""


def quiet():
    stack = contextlib.ExitStack()
    stack.enter_context(warnings.catch_warnings())
    warnings.simplefilter("ignore", HostClockWarning)
    return stack


def with_latencies(latencies_us):
    """tune_kernel's benchmark with known times: those of run()'s results."""
    def fake(run, ground_truth, num_iters, atol, rtol):
        del ground_truth, num_iters, atol, rtol
        return latencies_us[run()]
    return mock.patch.object(utils, "benchmark_config", fake)


class Space(unittest.TestCase):
    KEYS = ["BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M", "num_warps", "num_stages", "waves_per_eu",
            "matrix_instr_nonkdim"]

    def test_golden_counts_keys_and_orders(self):
        full, small = utils.get_search_space(), utils.get_search_space(small=True)
        self.assertEqual((len(full), len(small)), (GOLDEN["aiter_search_space"]["full"], GOLDEN["aiter_search_space"]["small"]))
        for space in (full, small):
            self.assertEqual({tuple(config) for config in space}, {tuple(self.KEYS)})
            self.assertEqual(len({tuple(config.items()) for config in space}), len(space))
        self.assertEqual(list(full[0].values()), [16, 32, 32, 1, 2, 1, 1, 16])
        self.assertEqual(list(full[1].values()), [16, 32, 32, 1, 2, 1, 2, 16])
        self.assertEqual(list(full[-1].values()), [256, 256, 128, 64, 8, 5, 8, 16])
        self.assertEqual(list(small[0].values()), [16, 32, 64, 1, 4, 2, 2, 16])
        self.assertEqual(list(small[-1].values()), [32, 64, 64, 1, 4, 3, 2, 16])


class Benchmark(unittest.TestCase):
    def test_warm_ups_and_a_check_of_every_timed_call(self):
        calls = []
        expected = numpy.arange(4.0)

        def run():
            calls.append(1)
            # Wrong in the warm-ups, which nobody looks at, and in the last call.
            return expected + (1 if len(calls) <= 4 or len(calls) == wrong_at else 0)

        wrong_at = 0
        with quiet():
            self.assertGreater(benchmark_config(run, expected, num_iters=7), 0)
            self.assertEqual(len(calls), 5 + 7)
            calls.clear()
            wrong_at = 5 + 7
            with self.assertRaises(AssertionError):
                benchmark_config(run, expected, num_iters=7)

    def test_microseconds(self):
        clock = iter(range(0, 10 ** 9, 3000))  # every reading is 3 us after the one before
        with quiet(), mock.patch.object(utils.time, "perf_counter_ns", lambda: next(clock)):
            self.assertAlmostEqual(benchmark_config(lambda: 1, 1, num_iters=4), 3.0)

    def test_events_of_a_gpu(self):
        class Event:
            def __init__(self, enable_timing):
                assert enable_timing

            def record(self):
                pass

            synchronize = record

            def elapsed_time(self, end):
                return 0.25  # milliseconds

        Tensor = type("Tensor", (), {"__module__": "torch", "is_cuda": True})
        compared = []
        testing = types.SimpleNamespace(assert_close=lambda output, expected, **limits: compared.append(limits))
        torch = types.SimpleNamespace(cuda=types.SimpleNamespace(Event=Event), testing=testing)
        with mock.patch.dict("sys.modules", {"torch": torch}), warnings.catch_warnings():
            warnings.simplefilter("error")
            self.assertEqual(benchmark_config(Tensor, Tensor(), num_iters=3, atol=0.5, rtol=0.25), 250.0)
        self.assertEqual(compared, [{"atol": 0.5, "rtol": 0.25}] * 3)

    def test_the_hosts_clock_is_not_silent(self):
        with self.assertWarns(HostClockWarning):
            benchmark_config(lambda: 1.0, 1.0)

    def test_what_counts_as_equal(self):
        array = numpy.ones((2, 3))
        good = [(1.05, 1.0), (array * 1.05, array), ((array, 2), [array, 2]), ({"a": array}, {"a": array}),
                (3.0, numpy.float32(3.0)), (numpy.float32(3.0), 3.0), (6, array.sum())]
        bad = [(1.5, 1.0), (array * 1.5, array), (array[0], array), (array * numpy.nan, array), ((array,), (array, 2)),
               ({"b": array}, {"a": array}), (1.0, array), (3.5, numpy.float32(3.0)), ("3", numpy.float32(3.0)),
               ("x", "y")]
        with quiet():
            for output, expected in good:
                benchmark_config(lambda: output, expected, num_iters=1)
            for output, expected in bad:
                with self.subTest(output=output), self.assertRaises(AssertionError):
                    benchmark_config(lambda: output, expected, num_iters=1)

    def test_tolerances(self):
        with quiet():
            benchmark_config(lambda: 1.005, 1.0, atol=1e-2, rtol=0)
            with self.assertRaises(AssertionError):
                benchmark_config(lambda: 1.005, 1.0, atol=1e-3, rtol=0)
            with self.assertRaises(ValueError):
                benchmark_config(lambda: 1, 1, num_iters=0)


class Tune(unittest.TestCase):
    def factory(self, config):
        return (lambda: config["x"]), config["x"]

    def test_the_first_of_the_fastest(self):
        space = [{"x": 0, "n": 0}, {"x": 1, "n": 1}, {"x": 1, "n": 2}, {"x": 2, "n": 3}]
        with with_latencies({0: 5.0, 1: 3.0, 2: 4.0}):
            self.assertIs(tune_kernel(space, self.factory), space[1])

    def test_the_callback_changes_the_config_that_is_used(self):
        seen = []
        with with_latencies({10: 5.0, 11: 3.0}):
            best = tune_kernel([{"x": 0}, {"x": 1}], lambda config: seen.append(dict(config)) or self.factory(config),
                               config_callback=lambda config: config.update(x=config["x"] + 10))
        self.assertEqual(seen, [{"x": 10}, {"x": 11}])
        self.assertEqual(best, {"x": 11})

    def test_bad_configs_cost_themselves(self):
        def factory(config):
            if config["x"] == "factory":
                raise ValueError("cannot make inputs")

            def run():
                if config["x"] == "resources":
                    raise OutOfResources
                if config["x"] == "raises":
                    raise RuntimeError("launch failed")
                return 2.0 if config["x"] == "wrong" else 1.0
            return run, 1.0

        out = io.StringIO()
        space = [{"x": x} for x in ("factory", "resources", "raises", "wrong", "good")]
        with quiet(), contextlib.redirect_stdout(out):
            self.assertEqual(tune_kernel(space, factory, num_iters=2), {"x": "good"})
        said = out.getvalue()
        for word in ("cannot make inputs", "launch failed", "AssertionError"):
            self.assertIn(word, said)
        self.assertNotIn("resources", said)

    def test_none_is_valid(self):
        def broken(config):
            raise ValueError("always")

        with quiet(), contextlib.redirect_stdout(io.StringIO()):
            with self.assertRaisesRegex(NoValidConfigError, "none of 1 config .*always"):
                tune_kernel([{"x": 1}], broken)
            with self.assertRaises(AssertionError):
                tune_kernel([], broken)


class Json(unittest.TestCase):
    def test_format(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a", "b")
            for _ in range(2):  # also over a file that is there
                utils.save_configs_to_json("gfx942-GEMM.json", path, {"small": {"BLOCK_SIZE_M": numpy.int64(16)}})
            self.assertEqual(os.listdir(path), ["gfx942-GEMM.json"])
            with open(os.path.join(path, "gfx942-GEMM.json"), encoding="utf-8") as file:
                self.assertEqual(file.read(), '{\n    "small": {\n        "BLOCK_SIZE_M": 16\n    }\n}\n')


if __name__ == "__main__":
    unittest.main()
