"""Kernels in TRITON on a GPU: compiled without one, launched without Python. Needs a GPU, and an interpreter with Triton
3.6: the one that runs this file, unless TUNEFARM_TEST_TRITON names another. Run it by hand, after a build:

    TUNEFARM_SOURCE_DIR=$PWD TUNEFARM_BIN_DIR=$PWD/build/release/bin python3 tests/gpu/triton_capture_test.py
"""

import importlib.util
import os
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"]) / "tests" / "e2e"))
from farm import KERNELS, Farm, config, outcome, search  # noqa: E402

INTERPRETER = os.environ.get("TUNEFARM_TEST_TRITON", sys.executable)
MATMUL = KERNELS / "examples" / "triton_matmul_native"
BRIEF = ("--policy", "fast")
LAUNCH_TIMEOUT_MS = "3000"  # of the kernel that hangs; others need much less

SOURCE = """
import triton
import triton.language as tl
from numbers_of import ONE


@triton.jit
def softmax(y, x, rows, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    place = tl.arange(0, BLOCK)
    inside = place < columns
    value = tl.load(x + row * columns + place, mask=inside, other=-float("inf"))
    value = tl.exp(value - tl.max(value, 0))
    tl.store(y + row * columns + place, value / tl.sum(value, 0), mask=inside)


@triton.jit
def softmax_plain(y, x, rows, columns, WIDTH: tl.constexpr = 4096):
    # Inputs are so small that no exponential overflows.
    row = tl.program_id(0)
    place = tl.arange(0, WIDTH)
    value = tl.exp(tl.load(x + row * columns + place, mask=place < columns, other=-float("inf")))
    tl.store(y + row * columns + place, value / tl.sum(value, 0), mask=place < columns)


# y[i] = x[i * stride] * scale + offset, each scalar of another type.
@triton.jit(do_not_specialize=["length"])
def scaled(y, x, length, stride, scale, offset, wide: tl.int64, BLOCK: tl.constexpr, KIND: tl.constexpr,
           DOUBLED: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < length
    if KIND == "compile_error":
        tl.static_assert(False, "this config is meant to be refused")
    value = tl.load(x + place * stride, mask=inside, other=0.0) * scale + offset + (wide - wide).to(tl.float32)
    if DOUBLED:
        value = value * 2 * 0.5
    if KIND == "wrong":
        value += 1.0
    if KIND == "outside":
        tl.store(y + length + tl.arange(0, BLOCK), value)
    if KIND == "short":
        inside = inside & (place < length - ONE)
    if KIND == "crash":
        tl.store(y + (place.to(tl.int64) + (1 << 40)), value, mask=inside)
    if KIND == "hang":
        while tl.load(x, volatile=True) > -1e30:
            pass
    tl.store(y + place, value, mask=inside)
    if KIND == "race":
        # Of the next program's elements the later store stays.
        tl.store(y + (place + BLOCK) % length, value, mask=inside)


@triton.jit
def scaled_plain(y, x, length, stride, scale, offset):
    place = tl.program_id(0) * 32 + tl.arange(0, 32)
    value = tl.load(x + place * stride, mask=place < length, other=0.0) * scale + offset
    tl.store(y + place, value, mask=place < length)


# Each program has descriptors of its own rows and columns, which lie in its part of the scratch memory.
@triton.jit
def transposed(y, x, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.program_id(0) * ROWS
    column = tl.program_id(1) * COLUMNS
    source = tl.make_tensor_descriptor(x + row * columns, [ROWS, columns], [columns, 1], [ROWS, COLUMNS])
    target = tl.make_tensor_descriptor(y + column * rows, [COLUMNS, rows], [rows, 1], [COLUMNS, ROWS])
    target.store([0, row], source.load([0, column]).T)


@triton.jit
def transposed_plain(y, x, rows, columns):
    place = tl.arange(0, 16)
    row = tl.program_id(0) * 16 + place
    column = tl.program_id(1) * 16 + place
    tl.store(y + column[:, None] * rows + row[None, :], tl.load(x + row[None, :] * columns + column[:, None]))


# Its arguments are tensor descriptors that the host makes.
@triton.jit
def product(c, a, b, n, k, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr):
    row = tl.program_id(0) * ROWS
    column = tl.program_id(1) * COLUMNS
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for begin in range(0, k, DEPTH):
        total += tl.dot(a.load([row, begin]), b.load([begin, column]))
    c.store([row, column], total.to(tl.float16))


@triton.jit
def product_plain(c, a, b, m, n, k):
    row = tl.program_id(0) * 16 + tl.arange(0, 16)
    column = tl.program_id(1) * 16 + tl.arange(0, 16)
    total = tl.zeros((16, 16), dtype=tl.float32)
    for begin in range(0, k, 16):
        term = begin + tl.arange(0, 16)
        left = tl.load(a + row[:, None] * k + term[None, :], mask=(row < m)[:, None] & (term < k)[None, :], other=0.0)
        right = tl.load(b + term[:, None] * n + column[None, :], mask=(term < k)[:, None] & (column < n)[None, :], other=0.0)
        total += tl.dot(left, right)
    tl.store(c + row[:, None] * n + column[None, :], total.to(tl.float16), mask=(row < m)[:, None] & (column < n)[None, :])


# What is read outside is NaN, and becomes -1. Planes of 3 dimensions, each with a row less than lies in memory.
@triton.jit
def padded(y, x, rows, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    plane = tl.program_id(0)
    value = x.load([plane, 0, 0]).reshape(ROWS, COLUMNS)
    value = tl.where(value == value, value, -1.0)
    place = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    tl.store(y + plane * 128 * COLUMNS + place, value)
    if ROWS < 128:
        tl.store(y + plane * 128 * COLUMNS + ROWS * COLUMNS + place, tl.zeros_like(value) - 1.0)


@triton.jit
def padded_plain(y, x, rows, COLUMNS: tl.constexpr):
    plane = tl.program_id(0)
    row = tl.arange(0, 128)[:, None]
    column = tl.arange(0, COLUMNS)[None, :]
    value = tl.load(x + plane * (rows + 1) * COLUMNS + row * COLUMNS + column, mask=(row < rows) & (column >= 0), other=-1.0)
    tl.store(y + plane * 128 * COLUMNS + row * COLUMNS + column, value)


# Stages of its loop wait in shared memory.
@triton.jit
def heavy(y, x, n, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows = tl.arange(0, ROWS)
    columns = tl.arange(0, COLUMNS)
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for begin in range(0, n, 64):
        terms = begin + tl.arange(0, 64)
        left = tl.load(x + rows[:, None] * n + terms[None, :])
        right = tl.load(x + terms[:, None] + columns[None, :] * n)
        total += tl.dot(left, right)
    tl.store(y + rows[:, None] * COLUMNS + columns[None, :], total)
"""

SOFTMAX = """
display_name: "softmax" language: TRITON
sources { path: "kernels.py" } sources { path: "numbers_of.py" }
dims { name: "ROWS" default_value: 512 } dims { name: "COLUMNS" default_value: 781 }
parameters { name: "num_warps" values: [1, 4, 8] }
parameters { name: "BLOCK" values: [1024, 2048] }
constraints { expression: "BLOCK >= COLUMNS" }
arguments { name: "y" buffer { data_type: F32 length: "ROWS * COLUMNS" access: OUT } }
arguments { name: "x" buffer { data_type: F32 length: "ROWS * COLUMNS" access: IN } }
arguments { name: "rows" scalar { data_type: I32 value: "ROWS" } }
arguments { name: "columns" scalar { data_type: I32 value: "COLUMNS" } }
launches { kernel { entry: "softmax" grid: "ROWS" arguments: ["y", "x", "rows", "columns"] } }
reference { steps { kernel { entry: "softmax_plain" grid: "ROWS" arguments: ["y", "x", "rows", "columns"] } } }
tolerance { atol: 1e-6 rtol: 1e-4 }
"""

SCALED = """
display_name: "scaled" language: TRITON
sources { path: "kernels.py" } sources { path: "numbers_of.py" }
dims { name: "LENGTH" default_value: 4096 } dims { name: "STRIDE" default_value: 1 max: 64 }
parameters { name: "KIND" values: ["none", "compile_error", "wrong", "outside", "short", "crash", "hang", "race"] }
parameters { name: "DOUBLED" values: [false, true] }
parameters { name: "BLOCK" values: [128, 256] }
arguments { name: "y" buffer { data_type: F32 length: "LENGTH" access: OUT } }
arguments { name: "x" buffer { data_type: F32 length: "LENGTH * STRIDE" access: IN } }
arguments { name: "length" scalar { data_type: I32 value: "LENGTH" } }
arguments { name: "stride" scalar { data_type: I32 value: "STRIDE" } }
arguments { name: "scale" scalar { data_type: F32 value: "2.5" } }
arguments { name: "offset" scalar { data_type: F32 value: "-0.75" } }
arguments { name: "wide" scalar { data_type: I64 value: "LENGTH * 1024" } }
launches { kernel { entry: "scaled" grid: "ceil_div(LENGTH, BLOCK)"
                    arguments: ["y", "x", "length", "stride", "scale", "offset", "wide"] } }
reference { steps { kernel { entry: "scaled_plain" grid: "ceil_div(LENGTH, 32)"
                             arguments: ["y", "x", "length", "stride", "scale", "offset"] } } }
"""
SCALED_OUTCOMES = {"none": "OK", "compile_error": "COMPILE_ERROR", "wrong": "WRONG_RESULT", "outside": "OUT_OF_BOUNDS",
                   "short": "WRONG_RESULT", "crash": "RUN_CRASH", "hang": "RUN_TIMEOUT", "race": "WRONG_RESULT"}

TRANSPOSED = """
display_name: "transposed" language: TRITON
sources { path: "kernels.py" } sources { path: "numbers_of.py" }
dims { name: "M" default_value: 512 } dims { name: "N" default_value: 1024 }
parameters { name: "ROWS" values: [16, 64] }
parameters { name: "COLUMNS" values: [32, 64] }
parameters { name: "launch_pdl" values: [false, true] }
arguments { name: "y" buffer { data_type: F32 length: "M * N" access: OUT } }
arguments { name: "x" buffer { data_type: F32 length: "M * N" access: IN } }
arguments { name: "rows" scalar { data_type: I32 value: "M" } }
arguments { name: "columns" scalar { data_type: I32 value: "N" } }
launches { kernel { entry: "transposed" grid: ["M // ROWS", "N // COLUMNS"] arguments: ["y", "x", "rows", "columns"] } }
reference { steps { kernel { entry: "transposed_plain" grid: ["M // 16", "N // 16"]
                             arguments: ["y", "x", "rows", "columns"] } } }
tolerance { atol: 0 rtol: 0 }
"""

PRODUCT = """
display_name: "product_of_descriptors" language: TRITON
sources { path: "kernels.py" } sources { path: "numbers_of.py" }
dims { name: "M" default_value: 500 } dims { name: "N" default_value: 328 } dims { name: "K" default_value: 136 }
parameters { name: "ROWS" values: [64, 128] }
parameters { name: "COLUMNS" values: [32, 128] }
parameters { name: "DEPTH" values: [32, 64] }
arguments { name: "c_data" buffer { data_type: F16 length: "M * N" access: OUT } }
arguments { name: "a_data" buffer { data_type: F16 length: "M * K" access: IN } }
arguments { name: "b_data" buffer { data_type: F16 length: "K * N" access: IN } }
arguments { name: "c" tensor_descriptor { buffer: "c_data" shape: ["M", "N"] block_shape: ["ROWS", "COLUMNS"] } }
arguments { name: "a" tensor_descriptor { buffer: "a_data" shape: ["M", "K"] block_shape: ["ROWS", "DEPTH"] } }
arguments { name: "b" tensor_descriptor { buffer: "b_data" shape: ["K", "N"] strides: "N" block_shape: ["DEPTH", "COLUMNS"] } }
arguments { name: "m" scalar { data_type: I32 value: "M" } }
arguments { name: "n" scalar { data_type: I32 value: "N" } }
arguments { name: "k" scalar { data_type: I32 value: "K" } }
launches { kernel { entry: "product" grid: ["ceil_div(M, ROWS)", "ceil_div(N, COLUMNS)"] arguments: ["c", "a", "b", "n", "k"] } }
reference { steps { kernel { entry: "product_plain" grid: ["ceil_div(M, 16)", "ceil_div(N, 16)"]
                             arguments: ["c_data", "a_data", "b_data", "m", "n", "k"] } } }
tolerance { atol: 1e-2 rtol: 1e-2 }
"""

PADDED = """
display_name: "padded" language: TRITON
sources { path: "kernels.py" } sources { path: "numbers_of.py" }
dims { name: "COLUMNS" default_value: 32 bind: COMPILE }
parameters { name: "ROWS" values: [64, 128] }
arguments { name: "y" buffer { data_type: F32 length: "6 * 128 * COLUMNS" access: OUT } }
arguments { name: "x_data" buffer { data_type: F32 length: "6 * 51 * COLUMNS" access: IN } }
arguments { name: "x" tensor_descriptor { buffer: "x_data" shape: ["6", "50", "COLUMNS"] strides: ["51 * COLUMNS", "COLUMNS"]
                                          block_shape: ["1", "ROWS", "COLUMNS"] oob_fill_nan: true } }
arguments { name: "rows" scalar { data_type: I32 value: "50" } }
launches { kernel { entry: "padded" grid: "6" arguments: ["y", "x", "rows"] } }
reference { steps { kernel { entry: "padded_plain" grid: "6" arguments: ["y", "x_data", "rows"] } } }
tolerance { atol: 0 rtol: 0 }
"""

HEAVY = """
display_name: "heavy" language: TRITON
sources { path: "kernels.py" } sources { path: "numbers_of.py" }
parameters { name: "ROWS" values: [64, 128] }
parameters { name: "num_stages" values: [2, 16] }
derived { name: "COLUMNS" expression: "ROWS" bind: COMPILE }
arguments { name: "y" buffer { data_type: F32 length: "128 * 128" access: OUT } }
arguments { name: "x" buffer { data_type: F16 length: "128 * 2048" access: IN } }
arguments { name: "n" scalar { data_type: I32 value: "2048" } }
launches { kernel { entry: "heavy" grid: "1" arguments: ["y", "x", "n"] } }
unverified_reason: "whether it is launched is what matters"
"""


@unittest.skipUnless("TUNEFARM_TEST_TRITON" in os.environ or importlib.util.find_spec("triton"), "there is no triton")
class TritonCapture(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="tunefarm-capture."))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.farm = Farm("--python-interpreter", INTERPRETER, "--launch-timeout-ms", LAUNCH_TIMEOUT_MS)
        cls.farm.devices = []
        cls.farm.__enter__()
        cls.addClassCleanup(cls.farm.__exit__, None, None, None)
        cls.farm.start()
        print(cls.farm.cli("doctor", check=False).stdout)

    def kernel(self, definition):
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        (folder / "kernel.pbtxt").write_text(definition)
        (folder / "kernels.py").write_text(SOURCE)
        (folder / "numbers_of.py").write_text("import triton.language as tl\nONE = tl.constexpr(1)\n")
        return folder

    def tuned(self, kernel, *options):
        """The trials of every config of the space."""
        done = self.farm.cli("tune", kernel, *options, *BRIEF, "--strategy", "exhaustive")
        trials = search(self.farm.trials(re.search(r"[Jj]ob (\d+)", done.stdout + done.stderr).group(1)))
        for trial in trials:
            if outcome(trial) != "OK":
                print(config(trial), outcome(trial), trial.get("message", ""))
        return trials

    def test_matmul(self):
        pins = ("--pin", "GROUP_M=8", "--pin", "BLOCK_K=64", "--pin", "num_warps=8")
        for shape in ((1024, 1024, 1024), (1000, 520, 776), (1, 33, 16)):
            dims = [word for name, value in zip("MNK", shape) for word in ("--dim", f"{name}={value}")]
            trials = self.tuned(MATMUL, *dims, *pins)
            self.assertGreater(len(trials), 10)
            self.assertLessEqual({outcome(trial) for trial in trials}, {"OK", "INFEASIBLE_LAUNCH"})
            self.assertGreater(sum(outcome(trial) == "OK" for trial in trials), 4)

    def test_softmax_with_reductions(self):
        trials = self.tuned(self.kernel(SOFTMAX))
        self.assertEqual(len(trials), 6)
        self.assertEqual({outcome(trial) for trial in trials}, {"OK"})

    def test_scalars_that_are_1_divisible_by_16_and_neither(self):
        kernel = self.kernel(SCALED)
        for length, stride in ((4096, 1), (4096, 16), (4095, 3), (1, 1)):
            trials = self.tuned(kernel, "--dim", f"LENGTH={length}", "--dim", f"STRIDE={stride}", "--pin", "KIND=none")
            self.assertEqual({outcome(trial) for trial in trials}, {"OK"}, (length, stride))

    def test_programs_of_several_blocks(self):
        kernel = self.kernel(SCALED.replace('"scaled"', '"clusters"', 1).replace(
            "arguments {", 'parameters { name: "num_ctas" values: [1, 2, 16] }\narguments {', 1))
        trials = self.tuned(kernel, "--pin", "KIND=none", "--pin", "DOUBLED=false")
        self.assertEqual(len(trials), 6)
        self.assertEqual({outcome(trial) for trial in trials}, {"OK"})

    def test_launches_that_may_overlap(self):
        kernel = self.kernel(SCALED.replace('"scaled"', '"overlapping"', 1).replace(
            "arguments {", 'parameters { name: "launch_pdl" values: [false, true] }\narguments {', 1))
        trials = self.tuned(kernel, "--pin", "KIND=none", "--pin", "DOUBLED=false")
        self.assertEqual(len(trials), 4)
        self.assertEqual({outcome(trial) for trial in trials}, {"OK"})

    def test_tensor_descriptors_that_the_kernel_makes(self):
        trials = self.tuned(self.kernel(TRANSPOSED))
        self.assertEqual(len(trials), 8)
        for trial in trials:
            # Launches that overlap would share the descriptors' memory.
            overlaps = config(trial)["launch_pdl"] in (True, "true")
            self.assertEqual(outcome(trial), "INFEASIBLE_LAUNCH" if overlaps else "OK", trial)
            if overlaps:
                self.assertIn("bytes of scratch memory", trial["message"])

    def test_tensor_descriptors_that_are_passed(self):
        trials = self.tuned(self.kernel(PRODUCT))
        self.assertEqual(len(trials), 8)
        self.assertEqual({outcome(trial) for trial in trials}, {"OK"})
        trials = self.tuned(self.kernel(PADDED))
        self.assertEqual(len(trials), 2)
        self.assertEqual({outcome(trial) for trial in trials}, {"OK"})

    def test_every_fault_has_its_outcome_and_the_winner_is_right(self):
        trials = self.tuned(self.kernel(SCALED))
        self.assertEqual(len(trials), 32)
        for trial in trials:
            self.assertEqual(outcome(trial), SCALED_OUTCOMES[config(trial)["KIND"]], trial)
        refused = next(trial for trial in trials if outcome(trial) == "COMPILE_ERROR")
        self.assertIn("this config is meant to be refused", refused["message"])
        self.assertNotIn("/kernel-", refused["message"])
        best = self.farm.json("best", "scaled", "--exact")
        self.assertEqual(best["best"]["config"]["KIND"], "none")

    def test_the_reference_does_not_need_the_default_config(self):
        kernel = self.kernel(re.sub('values: .*"none".*]', 'values: ["compile_error", "none"]', SCALED.replace(
            '"scaled"', '"default_is_refused"', 1), count=1))
        trials = self.tuned(kernel)
        self.assertEqual(len(trials), 8)
        for trial in trials:
            self.assertEqual(outcome(trial), SCALED_OUTCOMES[config(trial)["KIND"]], trial)

    def test_shared_memory_beyond_the_device(self):
        trials = self.tuned(self.kernel(HEAVY))
        found = {(int(config(trial)["ROWS"]), int(config(trial)["num_stages"])): trial for trial in trials}
        self.assertEqual(outcome(found[64, 2]), "OK")
        self.assertEqual(outcome(found[128, 16]), "INFEASIBLE_LAUNCH", found[128, 16])
        self.assertIn("bytes of shared memory per block", found[128, 16]["message"])

    def test_a_second_job_compiles_nothing(self):
        kernel = self.kernel(SOFTMAX.replace('"softmax" language', '"softmax_again" language'))
        self.tuned(kernel)
        trials = self.tuned(kernel, "--dim", "ROWS=528", "--measure", "no_reuse=true")
        self.assertTrue(all(trial.get("cached_binary") for trial in trials))


if __name__ == "__main__":
    unittest.main(verbosity=2)
