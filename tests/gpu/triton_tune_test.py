"""tunefarm.triton.tune through the daemon: kernels of a file, of __main__ and of a function, and launches of the winners.
Needs a GPU, NumPy, and an interpreter with torch and Triton, which also is the daemon's: the one that runs this file. Run it
by hand, from the source folder, after a build:

    TUNEFARM_SOURCE_DIR=$PWD PYTHONPATH=$PWD/build/release/python TUNEFARM_BIN_DIR=$PWD/build/release/bin \
        python3 tests/gpu/triton_tune_test.py
"""

import os
import pathlib
import runpy
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

import tunefarm
import tunefarm.triton
from tunefarm.triton import tune

BIN = pathlib.Path(os.environ["TUNEFARM_BIN_DIR"])
DATA = pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"]) / "tests" / "data" / "triton"
START_SECONDS = 120
sys.path.insert(0, str(DATA))
import kernels  # noqa: E402

SCALE = tl.constexpr(2)


@triton.jit
def scaled(x):
    return x * SCALE


@triton.jit
def scale_of_main(out_ptr, x_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, scaled(tl.load(x_ptr + at, mask=at < n)), mask=at < n)


@triton.jit
def wrong_for_some(out_ptr, x_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n) + BLOCK // 256, mask=at < n)


def set_blocks(nargs):
    """A pre_hook of configs of matmul_of_tiles."""
    for name, shape in (("a_desc", "MK"), ("b_desc", "KN"), ("c_desc", "MN")):
        nargs[name].block_shape = [nargs[f"BLOCK_{letter}"] for letter in shape]


class TritonTune(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        os.environ["TUNEFARM_DATA_DIR"] = folder
        os.environ["PATH"] = f"{BIN}{os.pathsep}{os.environ['PATH']}"
        os.environ.pop("TUNEFARM_SERVER", None)
        daemon = subprocess.Popen([BIN / "tunefarmd", "--data-dir", folder, "--python-interpreter", sys.executable],
                                  stdin=subprocess.DEVNULL)
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

    def test_a_matmul_of_a_file(self):
        m, n, k = 1000, 768, 520
        a, b = (torch.randn(shape, device="cuda", dtype=torch.float16) for shape in ((m, k), (k, n)))
        c = torch.zeros((m, n), device="cuda", dtype=torch.float16)
        arguments = [a, b, c, m, n, k, a.stride(0), b.stride(0), c.stride(0)]

        def grid(META):
            return (triton.cdiv(m, META["BLOCK_M"]) * triton.cdiv(META["N"], META["BLOCK_N"]),)

        configs = [triton.Config({"BLOCK_M": rows, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 8}, num_warps=warps, num_stages=stages)
                   for rows, warps, stages in ((64, 4, 3), (128, 4, 4), (128, 8, 3), (32, 2, 2))]
        # More shared memory than any GPU has.
        configs.append({"BLOCK_M": 256, "BLOCK_N": 256, "BLOCK_K": 128, "GROUP_M": 8, "num_warps": 8, "num_stages": 5})
        results = tune(kernels.matmul, arguments, configs, grid=grid, policy="fast", client=self.client,
                       reference=lambda a_ptr, b_ptr: {"c_ptr": (a_ptr.float() @ b_ptr.float()).half()})
        print(results.to_dataframe() if results else results.failed)
        self.assertEqual((len(results), len(results.failed)), (4, 1), results.failed)
        self.assertFalse(results.verified_against_first_config)
        self.assertIn(results.best, [{name: result[name] for name in results.best} for result in results])
        kernels.matmul[grid](*arguments, **results.best)
        torch.testing.assert_close(c, a @ b, atol=1e-2, rtol=1e-2)
        self.assertEqual(results.triton_config().num_warps, results.best["num_warps"])
        # What was tuned is found again.
        self.assertEqual(self.client.best(results.kernel).config["BLOCK_M"], results.best["BLOCK_M"])

    def test_a_matmul_of_tensor_descriptors(self):
        m, n, k = 1000, 776, 520
        a, b = (torch.randn(shape, device="cuda", dtype=torch.float16) for shape in ((m, k), (k, n)))
        c = torch.zeros((m, n), device="cuda", dtype=torch.float16)
        arguments = [*(TensorDescriptor.from_tensor(array, [1, 8]) for array in (a, b, c)), n, k]

        def grid(META):
            return (triton.cdiv(m, META["BLOCK_M"]) * triton.cdiv(n, META["BLOCK_N"]),)

        values = [{"BLOCK_M": rows, "BLOCK_N": columns, "BLOCK_K": 64} for rows, columns in ((64, 64), (128, 64), (128, 128))]
        texts = {"a_desc": ["BLOCK_M", "BLOCK_K"], "b_desc": ["BLOCK_K", "BLOCK_N"], "c_desc": ["BLOCK_M", "BLOCK_N"]}
        for options in ({"configs": [triton.Config(config, num_warps=4, pre_hook=set_blocks) for config in values]},
                        {"configs": values, "block_shapes": texts}):
            results = tune(kernels.matmul_of_tiles, arguments, grid=grid, policy="fast", client=self.client, quiet=True,
                           reference=lambda a_desc, b_desc: {"c_desc": (a_desc.float() @ b_desc.float()).half()}, **options)
            self.assertEqual(len(results), 3, results.failed)
        set_blocks({**dict(zip(("a_desc", "b_desc", "c_desc"), arguments)), **results.best})
        kernels.matmul_of_tiles[grid](*arguments, **results.best)
        torch.testing.assert_close(c, a @ b, atol=1e-2, rtol=1e-2)

        # Programs that use @triton.autotune; Triton measures nothing.
        autotuned = tunefarm.triton.autotune(configs=[triton.Config(config, num_warps=4, pre_hook=set_blocks) for config in values],
                                             key=["N", "K"])(kernels.matmul_of_tiles)
        c.zero_()
        with tempfile.TemporaryDirectory() as cache, \
                unittest.mock.patch.dict(os.environ, {"XDG_CACHE_HOME": cache, "TUNEFARM_TRITON_LOG": "1"}), \
                unittest.mock.patch.object(triton.runtime.Autotuner, "_bench", side_effect=AssertionError("Triton tunes")):
            os.environ.pop("TUNEFARM_TRITON_POLICY", None)
            autotuned[grid](*arguments)
        torch.testing.assert_close(c, a @ b, atol=1e-2, rtol=1e-2)

    def test_a_softmax_of_a_script(self):
        results = runpy.run_path(str(DATA / "softmax_main.py"), run_name="__main__")["results"]
        self.assertEqual(len(results), 2, results.failed)

    def test_a_kernel_of_this_script_in_a_space(self):
        x = torch.randn(100_000, device="cuda")
        out = torch.zeros_like(x)
        results = tune(scale_of_main, {"out_ptr": out, "x_ptr": x, "n": len(x)}, grid="cdiv(n, BLOCK)", outputs=["out_ptr"],
                       space={"BLOCK": [256, 512, 1024], "num_warps": [2, 4, 8]}, restrictions=["BLOCK >= 64 * num_warps"],
                       strategy="exhaustive", policy="fast", client=self.client, reference=lambda x_ptr: 2 * x_ptr)
        print(results.to_dataframe() if results else results.failed)
        self.assertEqual(len(results), 8, results.failed)
        scale_of_main[(triton.cdiv(len(x), results.best["BLOCK"]),)](out, x, len(x), **results.best)
        torch.testing.assert_close(out, 2 * x)

    def test_an_output_in_place_and_its_types(self):
        for dtype in (torch.float32, torch.bfloat16, torch.float64):
            y, x = (torch.randn(5000, device="cuda", dtype=dtype) for _ in range(2))
            results = tune(kernels.axpy, [y, x, 0.5, len(x)], [{"BLOCK": 256}, {"BLOCK": 1024}], grid="cdiv(n, BLOCK)",
                           outputs=["y"], policy="fast", client=self.client, quiet=True, reference=lambda y, x: y + 0.5 * x)
            self.assertEqual(len(results), 2, (dtype, results.failed))

    def test_without_a_reference_configs_are_compared_with_the_first(self):
        x = torch.randn(5000, device="cuda")
        with self.assertWarnsRegex(UserWarning, "the outputs of 1 config differ"):
            results = tune(wrong_for_some, [torch.zeros_like(x), x, len(x)], [{"BLOCK": 128}, {"BLOCK": 256}], grid="cdiv(n, BLOCK)",
                           outputs=["out_ptr"], policy="fast", client=self.client, quiet=True)
        self.assertTrue(results.verified_against_first_config)
        self.assertEqual([failure["outcome"] for failure in results.failed], ["WRONG_RESULT"])

    def test_a_kernel_that_does_not_compile_says_why(self):
        @triton.jit
        def broken(out_ptr, n, BLOCK: tl.constexpr):
            tl.store(out_ptr + tl.arange(0, BLOCK), tl.zeros((BLOCK + 1,), tl.float32))

        out = torch.zeros(64, device="cuda")
        results = tune(broken, [out, 64], [{"BLOCK": 64}], grid=1, reference={"out_ptr": out}, policy="fast", client=self.client,
                       quiet=True)
        self.assertFalse(results.best)
        self.assertEqual(results.failed[0]["outcome"], "COMPILE_ERROR")
        print(results.failed[0]["message"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
