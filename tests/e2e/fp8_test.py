"""A kernel of fp8 (e4m3) elements on the host, from its own data and from files to a launch without the daemon."""

import os
import pathlib
import tempfile
import unittest

import numpy

import tunefarm
from farm import Farm, outcome, search

FOLDER = pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"]) / "tests" / "data" / "fp8_scale"
FAST = ["--policy", "fast"]
COUNT = 1000


def values_of(codes):
    """What the codes mean, by the definition of the format."""
    exponent, fraction = codes.astype("i4") >> 3 & 15, codes & 7
    magnitude = numpy.where(exponent == 0, fraction * 2.0 ** -9, (8 + fraction) * 2.0 ** (exponent - 10))
    return numpy.where(codes & 0x80, -magnitude, magnitude)


CODES = numpy.array([code for code in range(256) if code & 0x7F != 0x7F], dtype="u1")  # all but NaN
# Even ones first: of two that are as near the first is taken.
CANDIDATES = CODES[numpy.argsort(CODES & 1, kind="stable")]


def codes_of(values):
    """The nearest codes; of two that are as near the even one. Zero keeps its sign."""
    nearest = CANDIDATES[numpy.abs(values[:, None] - values_of(CANDIDATES)[None, :]).argmin(axis=1)]
    return numpy.where(nearest & 0x7F == 0, numpy.signbit(values) * 0x80, nearest).astype("u1")


def drawn(count):
    """Codes, of which number 7 is that of 1."""
    codes = numpy.random.default_rng(count).choice(CODES, count)
    codes[7:8] = 0x38
    return codes


def scaled(codes):
    return codes_of(1.5 * values_of(codes))


class Fp8(unittest.TestCase):
    def test_is_tuned_and_launched_without_the_daemon(self):
        with Farm() as farm:
            farm.start()
            farm.cli("kernels", "check", FOLDER)
            farm.cli("tune", FOLDER, *FAST)
            trials = search(farm.trials(1))
            self.assertEqual({outcome(trial) for trial in trials}, {"OK"})
            farm.cli("run", FOLDER, *FAST, "--dim", "dtype=f32")
            with tunefarm.Client(data_directory=farm.directory, start=False) as client:
                package = client.package("fp8_scale", dims={"dtype": ["fp8"]})
        kernel = package.kernel("fp8_scale", dtype="fp8")
        self.assertEqual(kernel.arguments, (("x", "f8e4m3", "IN"), ("y", "f8e4m3", "OUT")))
        for count in (1, COUNT, 5000):
            x, y = drawn(count), numpy.zeros(count, "u1")
            kernel(N=count, x=x, y=y)
            numpy.testing.assert_array_equal(y, scaled(x))
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "has elements of type float32; the kernel takes f8e4m3"):
            kernel(N=COUNT, x=numpy.zeros(COUNT, "f4"), y=numpy.zeros(COUNT, "u1"))

    def test_is_run_on_files(self):
        x = drawn(COUNT)
        y = scaled(x)
        with tempfile.TemporaryDirectory() as folder, Farm() as farm:
            farm.start()

            def run(x, y):
                for name, array in (("x", x), ("y", y)):
                    numpy.save(f"{folder}/{name}.npy", array)
                done = farm.cli("run", FOLDER, *FAST, "--dim", f"N={COUNT}", "--input", f"x={folder}/x.npy",
                                "--expected", f"y={folder}/y.npy", check=False)
                return done.returncode, done.stdout + done.stderr

            for array in (x, x.view("V1")):  # as ml_dtypes saves float8_e4m3fn
                code, text = run(array, y)
                self.assertEqual(code, 0, text)
            y[7] = 0x3D  # 1.625
            code, text = run(x, y)
            self.assertEqual(code, 5, text)
            self.assertIn("y[7] is 1.5, but the reference has 1.625", text)
            y[7] = 0x7F
            self.assertIn("has NaN at y[7], which no output can equal", run(x, y)[1])
            self.assertIn("x.npy holds i8, and 'x' is f8e4m3 or f32; convert it", run(x.view("i1"), y)[1])

    def test_is_tuned_on_arrays(self):
        x = drawn(COUNT)
        with Farm() as farm:
            farm.start()
            with tunefarm.Client(data_directory=farm.directory, start=False) as client:
                job = client.tune(FOLDER, dims={"N": COUNT}, inputs={"x": x}, expected={"y": scaled(x)}, policy="fast",
                                  measure={"noisy_relative_half_width": -1, "warm_cache": True}, progress=False)
                self.assertEqual({trial.outcome for trial in client.results(job)}, {tunefarm.Outcome.OK})


if __name__ == "__main__":
    unittest.main()
