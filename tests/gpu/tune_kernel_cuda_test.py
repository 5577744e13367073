"""tune_kernel and run_kernel with kernels in CUDA: the scripts of tests/data/tune_kernel/cuda, and launches of their
winners. Needs a GPU and NumPy; PyTorch and CuPy are used if they are there. Run it by hand, from the source folder:

    TUNEFARM_SOURCE_DIR=$PWD PYTHONPATH=$PWD/build/release/python TUNEFARM_BIN_DIR=$PWD/build/release/bin \
        TUNEFARM_LAUNCH_LIBRARY=libtunefarm-launch.so.1 python3 tests/gpu/tune_kernel_cuda_test.py
"""

import contextlib
import importlib.util
import io
import json
import os
import pathlib
import runpy
import subprocess
import tempfile
import time
import unittest

import numpy

import tunefarm

BIN = pathlib.Path(os.environ["TUNEFARM_BIN_DIR"])
SCRIPTS = pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"]) / "tests" / "data" / "tune_kernel" / "cuda"
START_SECONDS = 120

SAXPY = """
template <typename T>
__global__ void saxpy(T *y, const T *x, float alpha, int n) {
    for (int i = blockIdx.x * block_size_x * items + threadIdx.x, k = 0; k < items && i < n; ++k, i += block_size_x)
        y[i] = y[i] + static_cast<T>(alpha) * x[i];
}
"""


class TuneKernelCuda(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        os.environ["TUNEFARM_DATA_DIR"] = folder
        os.environ["PATH"] = f"{BIN}{os.pathsep}{os.environ['PATH']}"
        os.environ.pop("TUNEFARM_SERVER", None)
        daemon = subprocess.Popen([BIN / "tunefarmd", "--data-dir", folder], stdin=subprocess.DEVNULL)
        cls.addClassCleanup(daemon.wait)
        cls.addClassCleanup(daemon.terminate)
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                cls.client = cls.enterClassContext(tunefarm.Client(data_directory=folder, start=False))
                break
            except tunefarm.UnavailableError:
                if daemon.poll() is not None or time.monotonic() > end:
                    raise
                time.sleep(0.1)

    def script(self, name):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            runpy.run_path(str(SCRIPTS / f"{name}.py"), run_name="__main__")
        lines = said.getvalue().splitlines()
        print("\n".join(lines[:-1]), flush=True)
        made = json.loads(lines[-1])
        self.assertEqual(len(made["results"]), made["configs"])
        self.assertIn(made["env"]["best_config"], made["results"])
        return made

    def test_vector_add(self):
        self.assertTrue(self.script("vector_add")["env"]["verified_against_first_config"])

    def test_matmul(self):
        self.assertFalse(self.script("matmul")["env"]["verified_against_first_config"])

    def test_convolution(self):
        self.script("convolution")

    def test_reduction(self):
        self.assertTrue(self.script("reduction")["env"]["best_config"]["verified"])

    def test_expressions(self):
        made = self.script("expressions")
        self.assertEqual(made["others"], made["configs"])

    def saxpy(self, y, x, kind):
        return tunefarm.tune_kernel(f"saxpy<{kind}>", SAXPY, y.shape[0], [y, x, numpy.float32(2), numpy.int32(y.shape[0])],
                                    {"block_size_x": [64, 128], "items": [1, 4]}, grid_div_x=["block_size_x", "items"], quiet=True,
                                    client=self.client)

    CONSTANTS = """
        __constant__ float scale[2];
        extern "C" __global__ void f(float *x, int n) { if (threadIdx.x < n) x[threadIdx.x] *= scale[threadIdx.x % 2] * w; }"""

    def test_constants_and_launches_of_numpy_arrays(self):
        x = numpy.arange(64, dtype="f4")
        for second in (10, 20, 10):
            (scaled, _) = tunefarm.run_kernel("f", self.CONSTANTS, 1, [x, numpy.int32(64)], {"block_size_x": 64, "w": 2},
                                              client=self.client, cmem_args={"scale": numpy.array([1, second], "f4")})
            numpy.testing.assert_array_equal(scaled, x * numpy.tile([2, 2 * second], 32))

    def test_constants_of_kernels_that_share_a_binary(self):
        torch = importlib.import_module("torch") if importlib.util.find_spec("torch") else self.skipTest("PyTorch is not installed")
        x = numpy.arange(64, dtype="f4")
        bests = {second: tunefarm.tune_kernel("f", self.CONSTANTS, 1, [x, numpy.int32(64)], {"block_size_x": [64], "w": [2]}, quiet=True,
                                              client=self.client, cmem_args={"scale": numpy.array([1, second], "f4")}).best
                 for second in (10, 20)}
        streams = [torch.cuda.Stream() for _ in range(3)]
        found = []
        for number in range(60):
            second = (10, 20)[number // 10 % 2]
            with torch.cuda.stream(streams[number % 3]):
                values = torch.ones(64, device="cuda")
                bests[second].launch(values, None)
                found.append((values, second))
        torch.cuda.synchronize()
        for values, second in found:
            self.assertEqual(values.tolist(), [2, 2 * second] * 32)

    def launch(self, arrays, kind):
        y, x = arrays
        before = y + 0
        self.saxpy(y, x, kind).best.launch(y, x, None, None)
        return before + 2 * x, y

    def test_launches_of_pytorch_tensors(self):
        torch = importlib.import_module("torch") if importlib.util.find_spec("torch") else self.skipTest("PyTorch is not installed")
        for dtype, kind in ((torch.float32, "float"), (torch.float64, "double")):
            expected, found = self.launch([torch.rand(10000, dtype=dtype, device="cuda") for _ in range(2)], kind)
            torch.testing.assert_close(found, expected)

    def test_launches_of_cupy_arrays(self):
        cupy = importlib.import_module("cupy") if importlib.util.find_spec("cupy") else self.skipTest("CuPy is not installed")
        expected, found = self.launch(cupy.random.random((2, 10000), dtype="f4"), "float")
        cupy.testing.assert_allclose(found, expected, rtol=1e-6)


if __name__ == "__main__":
    unittest.main(verbosity=2)
