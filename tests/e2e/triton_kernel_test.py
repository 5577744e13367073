"""Kernels in Triton without a GPU and without Triton: from the definition to the binary, by a real daemon whose
interpreter has a stand-in (tests/data/fake_triton)."""

import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

from farm import KERNELS, Farm, wait_until

SYSTEM = "/usr/bin/python3"
SOURCES = pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"])
FAKE = SOURCES / "tests" / "data" / "fake_triton"
# Kernels with the interfaces of the frameworks', in modules that cannot be imported here.
MOE_KERNELS = {reader: SOURCES / "tests" / "data" / "fused_moe" / f"{reader}_interface.py" for reader in ("vllm", "sglang")}

DEFINITION = """
display_name: "scaled"
language: TRITON
sources: [{ path: "scaled.py" }, { path: "factors.py" }]
dims { name: "M" default_value: 64 }
dims { name: "dtype" values: ["f32", "bf16"] default_value: "f32" }
parameters { name: "BLOCK" values: [64, 128] }
parameters { name: "num_warps" values: [4, 8] }
%s
arguments { name: "x" buffer { data_type_dim: "dtype" length: "M" access: IN } }
arguments { name: "y" buffer { data_type_dim: "dtype" length: "M" access: OUT } }
arguments { name: "m" scalar { data_type: I32 value: "M" } }
launches { kernel { entry: "scale" grid: "ceil_div(M, BLOCK)" arguments: ["x", "y", "m"] } }
reference { steps { kernel { entry: "plain" grid: "1" arguments: ["x", "y", "m"] } } }
"""
SOURCE = """
import triton
import triton.language as tl
from factors import FACTOR


@triton.jit
def scale(x, y, m, BLOCK: tl.constexpr, FAULT: tl.constexpr = "none"):
    pass


@triton.jit
def plain(x, y, m, FACTOR: tl.constexpr = FACTOR):
    pass
"""
FAULT = 'parameters { name: "FAULT" values: ["none", "error", "resources"] }'


def virtual_environment(folder, with_triton):
    """An interpreter of its own packages; as `python3 -m venv` makes one."""
    version = subprocess.run([SYSTEM, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], check=True,
                             capture_output=True, text=True).stdout.strip()
    packages = folder / "lib" / f"python{version}" / "site-packages"
    packages.mkdir(parents=True)
    (folder / "bin").mkdir()
    (folder / "bin" / "python3").symlink_to(os.path.realpath(SYSTEM))
    (folder / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = false\n")
    if with_triton:
        for name in ("triton", "triton-3.6.0.dist-info"):
            shutil.copytree(FAKE / name, packages / name)
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() else 0o644)
    return folder / "bin" / "python3"


class TritonKernels(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tunefarm-triton."))
        self.folder.chmod(0o755)
        self.addCleanup(shutil.rmtree, self.folder)

    def kernel(self, more="", source=SOURCE, definition=DEFINITION):
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        (folder / "kernel.pbtxt").write_text(definition % more)
        (folder / "scaled.py").write_text(source)
        (folder / "factors.py").write_text("FACTOR = 3\n")
        return folder

    def farm(self, with_triton=True):
        interpreter = virtual_environment(self.folder / "venv", with_triton)
        farm = self.enterContext(Farm("--python-interpreter", interpreter))
        farm.start()
        return farm

    def enterContext(self, context):  # of unittest since Python 3.11
        entered = context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)
        return entered

    def compile(self, farm, folder, *options):
        return farm.cli("kernels", "check", folder, "--compile", "--device", "H100", *options, check=False)

    def test_configs_compile_and_share_binaries_by_what_they_are_specialised_on(self):
        farm, folder = self.farm(), self.kernel()
        self.assertIn("triton 3.6.0", farm.cli("doctor", check=False).stdout)
        done = self.compile(farm, folder)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("compiled 4 of 4 configs for NVIDIA H100", done.stdout)

        def binaries():
            return len([path for path in (farm.directory / "cache").rglob("*.bin") if path.stat().st_size])

        wait_until(lambda: binaries() == 4, "the binaries of four configs")
        # Divisible by 16 as well, one more that is not, and 1.
        self.assertEqual(self.compile(farm, folder, "--dim", "M=4096").returncode, 0)
        self.assertEqual(self.compile(farm, folder, "--dim", "M=77").returncode, 0)
        wait_until(lambda: binaries() == 8, "those of another specialisation")
        self.assertEqual(self.compile(farm, folder, "--dim", "M=79").returncode, 0)
        self.assertEqual(self.compile(farm, folder, "--dim", "M=1").returncode, 0)
        wait_until(lambda: binaries() == 12, "those of the third")
        self.assertEqual(self.compile(farm, folder, "--dim", "M=77", "--dim", "dtype=bf16").returncode, 0)
        wait_until(lambda: binaries() == 16, "those of other pointers")

    def test_every_fault_has_its_outcome(self):
        farm = self.farm()
        done = self.compile(farm, self.kernel(FAULT), "--pin", "BLOCK=64", "--pin", "num_warps=4")
        self.assertEqual(done.returncode, 1)
        self.assertIn("compiled 1 of 3 configs", done.stdout)
        self.assertIn("COMPILE_ERROR", done.stdout)
        self.assertIn("scale: at 7:4: module has no attribute nothing", done.stdout)
        self.assertIn("INFEASIBLE_LAUNCH", done.stdout)
        self.assertIn("Required: 300000", done.stdout)
        done = self.compile(farm, self.kernel('parameters { name: "BLOCKS" values: [64, 128] }'))
        self.assertIn("'BLOCKS' is bound to the compiler, but neither", done.stdout)
        done = self.compile(farm, self.kernel(source=SOURCE.replace("import FACTOR", "import FACTORS")))
        self.assertIn("cannot import name 'FACTORS'", done.stdout)
        # The worker is as good as new.
        self.assertEqual(self.compile(farm, self.kernel()).returncode, 0)

    def test_without_triton_or_an_interpreter_one_sentence_says_so(self):
        farm = self.farm(with_triton=False)
        done = self.compile(farm, self.kernel())
        self.assertEqual(done.returncode, 1)
        self.assertIn("Triton cannot be imported", done.stderr)
        with Farm() as other:
            other.start()
            refused = other.cli("submit", self.kernel(), "--device", "H100", check=False)
            self.assertNotEqual(refused.returncode, 0)

    def test_the_fused_moe_kernel_compiles_and_one_binary_serves_all_batch_sizes(self):
        farm = self.farm()

        def compiled(*dims):
            words = [word for dim in dims for word in ("--dim", dim)]
            done = self.compile(farm, KERNELS / "fused_moe", *words, "--pin", "BLOCK_SIZE_M=64", "--pin", "BLOCK_SIZE_K=64",
                                "--pin", "BLOCK_SIZE_N=64", "--pin", "GROUP_SIZE_M=1")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("compiled 8 of 8 configs", done.stdout)
            return {path.name for path in (farm.directory / "cache").rglob("*.bin") if path.stat().st_size}

        wait_until(lambda: len(compiled("M=64")) == 8, "the binaries of eight configs")
        for tokens in ("M=1", "M=77", "M=4096"):
            self.assertEqual(len(compiled(tokens)), 8, tokens)
        wait_until(lambda: len(compiled("product=both")) == 16, "those of both products")
        wait_until(lambda: len(compiled("product=both", "operands=u8")) == 24, "those of bytes")
        # The kernel looks for experts of other ranks only where there are any.
        wait_until(lambda: len(compiled("ranks=4")) == 32, "those of several ranks")
        self.assertEqual(len(compiled("ranks=2")), 32)

    def kernel_of_file(self, farm, reader):
        """A folder with the definition that tune-moe makes of a user's file. No device here runs it."""
        done = farm.cli("tune-moe", "--experts", "8", "--intermediate", "384", "--hidden", "256", "--topk", "2", "--for",
                        reader, "--dir", self.folder, "--kernel-file", MOE_KERNELS[reader], check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertNotIn("--kernel-file", done.stderr)
        stored = [kernel for kernel in farm.json("kernels", "list")["kernels"] if kernel["display_name"] == "fused_moe_file"]
        self.assertEqual(len(stored), 1, done.stderr)
        self.assertEqual([source["path"] for source in stored[0]["sources"]],
                         ["fused_moe.py", "fused_moe_data.py", "user_kernel.py"])
        folder = self.folder / f"{reader}_kernel"
        shutil.copytree(KERNELS / "fused_moe", folder)
        (folder / "kernel.pbtxt").write_text(farm.cli("kernels", "show", stored[0]["name"], "--definition").stdout)
        farm.cli("kernels", "delete", stored[0]["name"])
        with MOE_KERNELS[reader].open() as file:
            read = json.loads(subprocess.run([SYSTEM, "-I", "-S", SOURCES / "client/cli/moe/kernel_file.py"], stdin=file,
                                             check=True, capture_output=True, text=True).stdout)
        (folder / "fused_moe.py").write_text(read["products"])
        (folder / "user_kernel.py").write_text(read["kernel"])
        return folder

    def test_tune_moe_tunes_the_kernel_of_an_installed_file(self):
        farm = self.farm()
        seen = set()
        for reader in MOE_KERNELS:
            folder = self.kernel_of_file(farm, reader)

            def compiled(*dims):
                words = [word for dim in dims for word in ("--dim", dim)]
                done = self.compile(farm, folder, *words, "--pin", "BLOCK_SIZE_M=64", "--pin", "BLOCK_SIZE_K=64", "--pin",
                                    "BLOCK_SIZE_N=64", "--pin", "GROUP_SIZE_M=1")
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertIn("compiled 8 of 8 configs", done.stdout)
                return {path.name for path in (farm.directory / "cache").rglob("*.bin") if path.stat().st_size} - seen

            # As the framework launches it, it is specialised on the number of rows: here 512, 24 and 1.
            wait_until(lambda: len(compiled("M=64")) == 8, "the binaries of eight configs")
            self.assertEqual(len(compiled("M=4096")), 8)
            wait_until(lambda: len(compiled("M=3")) == 16, "those of a number that 16 does not divide")
            self.assertEqual(len(compiled("M=77")), 16)
            wait_until(lambda: len(compiled("M=1", "topk=1")) == 24, "those of one row")
            wait_until(lambda: len(compiled("product=both", "operands=u8", "ranks=2")) == 32, "those of fp8")
            seen = seen | compiled()

    def test_tune_moe_refuses_a_file_whose_kernel_it_cannot_launch(self):
        farm = self.farm()
        text = MOE_KERNELS["vllm"].read_text()
        for changed, message in ((text.replace("def fused_moe_kernel(", "def another("), "it defines no function fused_moe_kernel"),
                                 (text + "(", "it is no source of Python"),
                                 (text.replace("HAS_BIAS: tl.constexpr", "HAS_MORE: tl.constexpr"),
                                  "'HAS_MORE' of fused_moe_kernel is unknown and has no default"),
                                 (text.replace(" EM,", " EM: tl.constexpr,"), "'EM' of fused_moe_kernel is a tl.constexpr"),
                                 (text.replace("GROUP_SIZE_M", "GROUP"), "has no parameter 'GROUP_SIZE_M'"),
                                 (text.replace("tile = tl", "tile = has_deep_gemm() + tl"),
                                  "'has_deep_gemm', which fused_moe_kernel uses, is imported by line"),
                                 (text.replace("tile = tl", "tile = DEVICES + tl"), "'DEVICES', which fused_moe_kernel uses, gets"),
                                 (text.replace("tile = tl", "tile = nothing + tl"), "is defined nowhere in it"),
                                 (text.replace("@triton.jit", "@triton.heuristics({})"), "is decorated by @heuristics"),
                                 (text.replace("def fused_moe_kernel(", "def fused_moe_kernel(*more, "),
                                  "cannot be passed by name")):
            self.assertNotEqual(changed, text, message)
            file = self.folder / "changed.py"
            file.write_text(changed)
            done = farm.cli("tune-moe", "--experts", "8", "--intermediate", "384", "--hidden", "256", "--topk", "2", "--for",
                            "vllm", "--kernel-file", file, check=False)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(message, done.stderr)

    def test_tune_moe_refuses_what_it_does_not_tune(self):
        farm = self.farm()
        layer = ("tune-moe", "--experts", "8", "--intermediate", "384", "--hidden", "256", "--for", "vllm")
        for options, message in ((("--topk", "2", "--dtype", "fp8_w8a8"), "goes with 128,128"),
                                 (("--topk", "2", "--block-shape", "128,128"), "goes with 128,128"),
                                 (("--topk", "2", "--dtype", "fp8_w8a8", "--block-shape", "64,64"), "goes with 128,128"),
                                 (("--topk", "9"), "at most all 8 experts"),
                                 (("--topk", "17", "--ranks", "2"), "at most all 16 experts"),
                                 (("--topk", "2", "--ranks", "129"), "all ranks have at most 1024 experts"),
                                 (("--topk", "2", "--triton", "3.6"), "--triton 3.6: give three numbers"),
                                 (("--topk", "2", "--triton", "../3.6.0"), "give three numbers"),
                                 (("--topk", "2", "--triton", "3.6.0.1"), "give three numbers"),
                                 (("--topk", "2", "--batch-size", "0"), "--batch-size")):
            done = farm.cli(*layer, *options, check=False)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(message, done.stderr)
        histogram = self.folder / "counts.f32"
        for counts, message in (((1,) * 7, "it has 28 bytes, and 8 experts take 32"),
                                ((1,) + (0,) * 7, "1 of 8 experts have a count above 0, and each token has 2"),
                                ((1,) * 7 + (-1,), "the count of expert 7 is -1"),
                                ((1, float("nan")) + (1,) * 6, "the count of expert 1 is nan")):
            histogram.write_bytes(struct.pack(f"<{len(counts)}f", *counts))
            done = farm.cli(*layer, "--topk", "2", "--histogram", histogram, check=False)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(message, done.stderr)
        # No device of this machine runs it.
        self.assertNotEqual(farm.cli(*layer, "--topk", "2", check=False).returncode, 0)

    def test_tune_moe_finds_existing_files_before_it_tunes(self):
        farm = self.farm()
        sizes = ("--experts", "8", "--intermediate", "384", "--hidden", "256", "--topk", "2", "--device", "H100")
        stem = "E=8,N=384,device_name=NVIDIA_H100_80GB_HBM3"
        for reader, name in (("vllm", stem + ".json"), ("sglang", f"configs/triton_3_6_0/{stem}_down.md")):
            folder = self.folder / reader
            (folder / name).parent.mkdir(parents=True)
            (folder / name).write_text("mine")
            done = farm.cli("tune-moe", *sizes, "--for", reader, "--dir", folder, check=False)
            self.assertIn(f"{name} exists; nothing was written", done.stderr)
            # Without that file it would tune, for which there is no device here.
            done = farm.cli("tune-moe", *sizes, "--for", reader, "--dir", folder, "--force", check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertNotIn("exists", done.stderr)
            self.assertEqual((folder / name).read_text(), "mine")

    def test_what_has_no_meaning_is_refused_before_anything_compiles(self):
        with Farm() as farm:
            farm.start()
            self.assertEqual(farm.cli("kernels", "check", self.kernel()).returncode, 0)
            wrong = self.kernel(definition=DEFINITION.replace('grid: "1"', 'grid: "1" block: "32"'))
            done = farm.cli("kernels", "check", wrong, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertIn("a parameter named num_warps sets it", done.stderr)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
