"""The fused mixture-of-experts kernel on a GPU, and the tables that tune-moe makes with it. Needs a GPU, and an interpreter
with Triton 3.6: the one that runs this file, unless TUNEFARM_TEST_TRITON names another. Run it by hand, after a build:

    TUNEFARM_SOURCE_DIR=$PWD TUNEFARM_BIN_DIR=$PWD/build/release/bin python3 tests/gpu/fused_moe_test.py
"""

import importlib.util
import json
import os
import pathlib
import re
import shutil
import struct
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"]) / "tests" / "e2e"))
from farm import Farm, config, outcome, search  # noqa: E402

INTERPRETER = os.environ.get("TUNEFARM_TEST_TRITON", sys.executable)
LAYER = {"E": 8, "topk": 2, "hidden": 256, "intermediate": 384}
# Kernels with the interfaces of the frameworks'.
MOE_KERNELS = pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"]) / "tests" / "data" / "fused_moe"


@unittest.skipUnless("TUNEFARM_TEST_TRITON" in os.environ or importlib.util.find_spec("triton"), "there is no triton")
class FusedMoe(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="tunefarm-moe."))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.farm = Farm("--python-interpreter", INTERPRETER)
        cls.farm.devices = []
        cls.farm.__enter__()
        cls.addClassCleanup(cls.farm.__exit__, None, None, None)
        cls.farm.start()
        print(cls.farm.cli("doctor", check=False).stdout)

    def tuned(self, dims, *options):
        words = [word for name, value in {**LAYER, **dims}.items() for word in ("--dim", f"{name}={value}")]
        done = self.farm.cli("tune", "fused_moe", *words, "--policy", "fast", *options, check=False)
        text = done.stdout + done.stderr
        trials = search(self.farm.trials(re.search(r"[Jj]ob (\d+)", text).group(1)))
        for trial in trials:
            if outcome(trial) != "OK":
                print(config(trial), outcome(trial), trial.get("message", ""), trial.get("verification", ""))
        self.assertEqual(done.returncode, 0, text)
        return trials

    def check(self, dims, *options):
        trials = self.tuned(dims, "--strategy", "random", "--max-trials", "16", *options)
        self.assertLessEqual({outcome(trial) for trial in trials}, {"OK", "INFEASIBLE_LAUNCH"}, dims)
        self.assertGreaterEqual(sum(outcome(trial) == "OK" for trial in trials), 8, dims)

    def test_products_of_bf16(self):
        for tokens in (1, 5, 64, 300):
            for product in ("up", "down", "both"):
                self.check({"M": tokens, "product": product})

    def test_products_of_fp8_with_scales(self):
        for tokens in (1, 64, 300):
            self.check({"M": tokens, "product": "both", "operands": "u8"})
        self.check({"M": 33, "product": "down", "operands": "u8"})

    def test_sizes_that_no_tile_divides(self):
        self.check({"M": 37, "E": 5, "topk": 3, "hidden": 200, "intermediate": 72, "product": "both"})
        self.check({"M": 37, "E": 5, "topk": 3, "hidden": 208, "intermediate": 144, "product": "both", "operands": "u8"})

    def test_many_experts_and_few(self):
        self.check({"M": 512, "E": 128, "topk": 8})
        self.check({"M": 64, "E": 1024, "topk": 1})
        self.check({"M": 64, "E": 1, "topk": 1})

    def test_routings(self):
        self.check({"M": 100, "routing": "balanced"})
        # One expert gets a row of each token, two get none.
        counts = self.folder / "counts.f32"
        counts.write_bytes(struct.pack("<8f", 1e6, 1, 1, 1, 0, 0, 1, 1))
        self.check({"M": 100}, "--input", f"expert_weights={counts}")

    def test_experts_of_other_ranks(self):
        for tokens, ranks in ((1, 4), (64, 2), (300, 8)):
            self.check({"M": tokens, "ranks": ranks, "product": "both"})
        self.check({"M": 64, "ranks": 4, "product": "both", "operands": "u8"})
        # All tokens go to the experts of the other rank: this one writes zeros alone.
        counts = self.folder / "other_rank.f32"
        counts.write_bytes(struct.pack("<16f", *(0,) * 8, *(1,) * 8))
        self.check({"M": 100, "ranks": 2}, "--input", f"expert_weights={counts}")

    def test_the_whole_space_of_one_height(self):
        pins = ("--pin", "BLOCK_SIZE_M=64", "--pin", "GROUP_SIZE_M=16", "--strategy", "exhaustive")
        for operands in ("bf16", "u8"):
            trials = self.tuned({"M": 200, "product": "both", "operands": operands}, *pins)
            self.assertGreater(len(trials), 40)
            self.assertLessEqual({outcome(trial) for trial in trials}, {"OK", "INFEASIBLE_LAUNCH"})

    def test_one_binary_serves_all_batch_sizes(self):
        pins = ("--pin", "BLOCK_SIZE_M=16", "--pin", "BLOCK_SIZE_N=64", "--pin", "BLOCK_SIZE_K=64", "--pin", "num_warps=4")
        first = self.tuned({"M": 16}, *pins)
        self.assertGreater(len(first), 4)
        for tokens in (1, 17, 4096):
            trials = self.tuned({"M": tokens}, *pins)
            self.assertTrue(all(trial.get("cached_binary") for trial in trials), tokens)

    def tune_moe(self, folder, *options):
        return self.farm.cli("tune-moe", "--experts", "8", "--intermediate", "384", "--hidden", "256", "--topk", "2",
                             "--batch-size", "1", "--batch-size", "64", "--max-trials", "12", "--policy", "fast",
                             "--dir", folder, *options)

    def table(self, path):
        """By number of tokens; as vLLM and SGLang read it."""
        rows = json.loads(path.read_text())
        rows.pop("triton_version", None)
        rows = {int(tokens): row for tokens, row in rows.items()}
        self.assertEqual(sorted(rows), [1, 64])
        for row in rows.values():
            self.assertEqual(set(row), {"BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M", "num_warps",
                                        "num_stages"})
        self.assertIn("| tokens |", path.with_name(path.name[:-len(".json")] + ".md").read_text())
        return rows

    def test_tables_for_vllm(self):
        for name, options in (("bf16", ()), ("fp8", ("--dtype", "fp8_w8a8", "--block-shape", "128,128"))):
            folder = self.folder / ("vllm_" + name)
            print(self.tune_moe(folder, "--for", "vllm", *options).stderr)
            (path,) = folder.glob("E=8,N=384,device_name=*.json")
            self.assertEqual(path.name.endswith(",dtype=fp8_w8a8,block_shape=[128,128].json"), name == "fp8", path)
            self.table(path)
            print(path.with_name(path.name[:-len(".json")] + ".md").read_text())
            # What is tuned is not tuned again.
            again = self.tune_moe(folder, "--for", "vllm", "--force", *options)
            self.assertNotIn("batch sizes are searched", again.stderr)
            self.assertIn("2 of 2 batch sizes have a best already", again.stderr)

    def test_tables_for_sglang(self):
        folder = self.folder / "sglang"
        done = self.tune_moe(folder, "--for", "sglang", "--triton", "3.6.0", "--ranks", "2")
        self.assertIn("2 of 2 batch sizes are searched", done.stderr)
        names = sorted(path.name for path in (folder / "configs" / "triton_3_6_0").glob("*.json"))
        self.assertEqual(len(names), 2, names)
        up, down = (self.table(folder / "configs" / "triton_3_6_0" / name)
                    for name in sorted(names, key=lambda name: name.endswith("_down.json")))
        for tokens, row in up.items():
            self.assertEqual(row["BLOCK_SIZE_M"], down[tokens]["BLOCK_SIZE_M"])

    def test_kernels_of_installed_files(self):
        fp8 = ("--dtype", "fp8_w8a8", "--block-shape", "128,128")
        for reader, name, options in (("vllm", "bf16", ()), ("vllm", "fp8", fp8), ("sglang", "bf16", ()),
                                      ("sglang", "fp8", (*fp8, "--ranks", "4"))):
            folder = self.folder / f"file_{reader}_{name}"
            file = MOE_KERNELS / f"{reader}_interface.py"
            done = self.tune_moe(folder, "--for", reader, "--kernel-file", file, *options)
            print(done.stderr)
            self.assertRegex(done.stderr, r"[1-9]\d* of \d+ trials compiled their config")
            for job in re.findall(r"Job (\d+) queued", done.stderr):
                outcomes = {outcome(trial) for trial in search(self.farm.trials(job))}
                self.assertLessEqual(outcomes, {"OK", "NOISY", "INFEASIBLE_LAUNCH"}, (reader, name))
            tables = list(folder.rglob("*.json"))
            self.assertEqual(len(tables), 1 if reader == "vllm" else 2)
            for path in tables:
                self.table(path)
                self.assertIn(f"fused_moe_kernel of {file}", path.with_name(path.name[:-len(".json")] + ".md").read_text())


if __name__ == "__main__":
    unittest.main(verbosity=2)
