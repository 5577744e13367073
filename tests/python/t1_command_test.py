"""`tunefarm import t1` without a daemon: what it makes, and what it says of bad files and of bad interpreters."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"])
DATA = ROOT / "tests" / "data" / "t1"
PROGRAM = pathlib.Path(os.environ["TUNEFARM_BIN_DIR"]) / "tunefarm"
PUBLISHED = {"convolution_milo": "4,362", "dedispersion_milo": "11,130", "hotspot_milo": "82,984", "CoulombSum3d": "210"}


class Command(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        for file in DATA.iterdir():
            if file.is_file():
                shutil.copy(file, self.folder)

    def run_import(self, *arguments, path=None, code=0):
        # The interpreter of this test comes first on PATH, so that each that runs the test is tested.
        environment = {**os.environ, "PATH": path or f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"}
        command = [PROGRAM, "import", "t1", *arguments]
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def refused(self, text, *words, code=2, path=None):
        (self.folder / "bad.json").write_bytes(text if isinstance(text, bytes) else text.encode())
        done = self.run_import("bad.json", "--language", "host", "--to", "bad", code=code, path=path)
        self.assertEqual(done.stdout, "")
        self.assertTrue(done.stderr.startswith("tunefarm: "), done.stderr)
        self.assertFalse((self.folder / "bad").exists())
        for word in words:
            self.assertIn(word, done.stderr)

    def interpreter(self, script):
        folder = self.folder / "bin"
        folder.mkdir(exist_ok=True)
        (folder / "python3").write_text("#!/bin/sh\n" + script)
        (folder / "python3").chmod(0o755)
        return f"{folder}:/usr/bin:/bin"

    def test_what_is_made_is_what_is_expected(self):
        for name, language in (("stencil", "cuda"), ("running_sum", "host")):
            done = self.run_import(f"{name}.json", "--language", language)
            self.assertIn("valid configs of", done.stdout)
            for file in (DATA / "expected" / name).iterdir():
                made = self.folder / name / file.name.replace(".expected", "")
                self.assertEqual(made.read_text(), file.read_text(), file)
            for file in (self.folder / name).iterdir():
                original = DATA / file.name
                self.assertTrue(file.name in ("kernel.pbtxt", "imported.cu", "imported.cc") or file.read_bytes() == original.read_bytes())

    def test_published_files_have_their_published_counts(self):
        if "TUNEFARM_TEST_DATA" not in os.environ:
            self.assertNotIn("TUNEFARM_REQUIRE_TEST_DATA", os.environ, "TUNEFARM_TEST_DATA is not set")
            self.skipTest("TUNEFARM_TEST_DATA is not set")
        for name, count in PUBLISHED.items():
            text = (pathlib.Path(os.environ["TUNEFARM_TEST_DATA"]) / "t1" / f"{name}.json").read_text()
            (self.folder / f"{name}.json").write_text(text)
            (self.folder / "source.cu").write_text("// not compiled\n")
            for i, limit in enumerate(([], ["--thread-limit", "1024"])):  # which their conditions bound already
                done = self.run_import(f"{name}.json", "--source", "source.cu", "--to", f"{name}{i}", *limit)
                self.assertIn(f"space: {count} valid configs of", done.stdout)
        # The paper's space has one parameter and one condition more (registers and shared memory of resident blocks).
        text = (self.folder / "hotspot_milo.json").read_text()
        parameter = '{"Name": "blocks_per_sm", "Type": "int", "Values": "[i for i in range(5)]"},'
        tile = ("(block_size_x*tile_size_x + temporal_tiling_factor*2) * (block_size_y*tile_size_y + temporal_tiling_factor*2)"
                " * (2+sh_power) * 4")  # fmt: skip
        condition = f'{{"Parameters": [], "Expression": "blocks_per_sm == 0 or {tile} * blocks_per_sm <= 102400"}},'
        text = text.replace('"TuningParameters": [', f'"TuningParameters": [{parameter}', 1)
        text = text.replace('"Conditions": [', f'"Conditions": [{condition}', 1)
        (self.folder / "paper.json").write_text(text)
        self.assertIn("349,853 valid configs of", self.run_import("paper.json", "--source", "source.cu", "--to", "paper").stdout)

    def test_bad_files_are_refused_with_their_place(self):
        whole = (DATA / "running_sum.json").read_text()
        values = "/ConfigurationSpace/TuningParameters/0/Values: "
        for text, words in (
            ("", ("bad.json:1:1: this is not valid JSON",)),
            ("[" * 100_000, ("bad.json:1:33: values are nested more than 32 deep",)),
            (whole.encode().replace(b"CHUNK", b"\xff"), ("bad.json:4:17: this is not valid JSON: byte 0xff is not UTF-8",)),
            (whole.replace("{", '{"Budget": 1,', 1), ("bad.json:13:3: the key \"Budget\" stands here twice",)),
            (whole.replace("4**i", "4**(i*40)"), ("bad.json:4:", values, "64 bits")),
            (whole.replace("range(3)", "range(10**9)"), ("bad.json:4:", values, "more than 65536")),
            (whole.replace("range(3)", "(" * 5000), ("bad.json:4:", values, "levels of nesting")),
            (whole.replace("CHUNK // UNROLL", "CHUNK // UNROL"), ("bad.json:9:", "unknown name 'UNROL'")),
            (whole.replace("CHUNK // UNROLL >= 16", "CHUNK // (UNROLL - 1) >= 16"),
             ("bad.json:9:", "this fails for some values", "division by zero", "\n  CHUNK // (UNROLL - 1)", "^")),
            (whole.replace("CHUNK // UNROLL >= 16", "CHUNK >= 1600000"), ("no config satisfies the conditions",)),
            (whole.replace("running_sum.cc", "../running_sum.cc"), ("/KernelSpecification/KernelFile: ",)),
            (whole.replace('"FUSED", "Type"', '"while", "Type"'), ("bad.json:6:7: /ConfigurationSpace/TuningParameters/2: ",)),
        ):  # fmt: skip
            self.refused(text, *words)
        self.refused(whole + " " * (1 << 20), "1048576", code=1)

    def test_without_a_good_interpreter_one_sentence_says_so(self):
        whole = (DATA / "running_sum.json").read_text()
        empty = self.folder / "empty"
        empty.mkdir()
        self.refused(whole, "T1 files are read by python3 from version 3.9 on, but there is no python3 on PATH", path=str(empty), code=1)
        for script, words, code in (
            ("exit 3\n", "reading bad.json: python3 ended with exit code 3", 1),
            ("kill -SEGV $$\n", "reading bad.json: python3 ended with signal 11", 1),
            ("exec yes\n", "reading bad.json: python3 wrote more than 33554432 bytes", 1),
            ("echo hello\n", "bad.json: python3's answer:1:1: this is not valid JSON", 1),
            ("", "bad.json: python3's answer:1:1: this is not valid JSON", 1),
            ("echo '{\"error\": \"T1 files are read by python3 from version 3.9 on\"}'\n", "from version 3.9 on", 2),
        ):
            self.refused(whole, words, path=self.interpreter(script), code=code)

    def test_options(self):
        self.run_import("stencil.json", "--to", "compared", "--reference", "stencil.cu:stencil_reference", "--reference-grid",
                        "1200", "--reference-block", "256", "--atol", "1e-6")  # fmt: skip
        text = (self.folder / "compared" / "kernel.pbtxt").read_text()
        self.assertIn('entry: "stencil_reference"', text)
        self.assertIn("atol: 1e-06", text)
        self.assertIn("exists", self.run_import("stencil.json", "--to", "compared", code=1).stderr)
        self.run_import("stencil.json", "--to", "compared", "--force", "--unverified")
        self.assertIn("unverified_reason", (self.folder / "compared" / "kernel.pbtxt").read_text())
        self.assertIn("nowhere", self.run_import("nowhere.json", code=3).stderr)
        self.assertIn("there is no file none.cu", self.run_import("stencil.json", "--source", "none.cu", code=3).stderr)
        self.assertIn("is not FILE:FUNCTION", self.run_import("stencil.json", "--reference", "stencil.cu", code=2).stderr)


if __name__ == "__main__":
    unittest.main()
