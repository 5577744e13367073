"""What `tunefarm best` gives a build: a header that the tuned source compiles with, all that its binary was made of, and
the binary itself."""

import ctypes
import hashlib
import json
import pathlib
import subprocess
import tempfile
import unittest

from farm import KERNELS, SharedFarm

BRIEF = ["--policy", "fast"]
DEFINITION = """display_name: "defs"
language: LANGUAGE_HOST_CXX
sources { path: "k.cc" }
sources { path: "detail.h" }
compile_options: ["-DOFFSET=3", "-O1"]
dims { name: "N" default_value { int_value: 64 } }
dims { name: "ELEM" default_value { int_value: 4 } bind: BIND_COMPILE }
parameters { name: "TILE" values { ints: [8, 16] } }
parameters { name: "ORDER" values { strings: ["row", "col_major", "128.0"] } }
parameters { name: "FAST" values { bools: [true, false] } }
parameters { name: "ROUNDS" values { ints: [1, 2] } bind: BIND_RUN }
derived { name: "TILE_AREA" expression: "TILE * TILE * ELEM" bind: BIND_COMPILE }
derived { name: "KIND" expression: "'small' if TILE == 8 else 'large'" bind: BIND_COMPILE }
derived { name: "tiles" expression: "ceil_div(N, TILE)" }
arguments { name: "o" buffer { data_type: DATA_TYPE_F32 length: "N" access: ACCESS_OUT } }
arguments { name: "n" scalar { data_type: DATA_TYPE_I64 value: "N" } }
arguments { name: "rounds" scalar { data_type: DATA_TYPE_I32 value: "ROUNDS" } }
launches { kernel { entry: "f" arguments: ["o", "n", "rounds"] } }
reference { steps { kernel { entry: "f" arguments: ["o", "n", "rounds"] } } }
"""
SOURCE = """#include <vector>
#include "detail.h"
#if !defined(ORDER_row) && !defined(ORDER_col_major) && !defined(ORDER_128_0)
#error no order
#endif
static_assert(TILE_AREA == TILE * TILE * ELEM && OFFSET == 3 && (FAST == 0 || FAST == 1));
extern "C" void f(float* o, long long n, int rounds) {
  for (int r = 0; r < rounds; ++r) for (long long i = 0; i < n; ++i) o[i] = 1.0f + 0 * kind(KIND) + 0 * int(TILE_AREA);
}
"""
HEADER = """enum Kind { small, large };
inline int kind(Kind k) { return k; }
"""


def compiles(folder, source, *options):
    return subprocess.run(["g++", "-std=c++20", "-fsyntax-only", "-I.", *map(str, options), source], cwd=folder,
                          capture_output=True, text=True)


class BestFormats(SharedFarm):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = cls.write(DEFINITION)
        cls.farm.cli("tune", cls.folder, *BRIEF)
        cls.matmul = ("matmul_host", "--dim", "M=48", "--dim", "N=48", "--dim", "K=48")
        cls.farm.cli("tune", *cls.matmul, "--max-trials", "4", *BRIEF)

    @classmethod
    def write(cls, definition):
        folder = pathlib.Path(tempfile.mkdtemp(dir=cls.farm.directory))
        (folder / "kernel.pbtxt").write_text(definition)
        (folder / "k.cc").write_text(SOURCE)
        (folder / "detail.h").write_text(HEADER)
        return folder

    def test_the_tuned_source_compiles_with_the_defines(self):
        header = self.farm.directory / "defs_config.h"
        header.write_text(self.farm.cli("best", self.folder, "--format", "defines").stdout)
        self.assertNotEqual(compiles(self.folder, "k.cc").returncode, 0)
        done = compiles(self.folder, "k.cc", "-include", header)
        self.assertEqual(done.returncode, 0, done.stderr + header.read_text())
        text = header.read_text()
        self.assertIn("#define ELEM 4\n", text)
        self.assertRegex(text, r"(?m)^//   N = 64$")
        self.assertRegex(text, r"(?m)^//   ROUNDS = [12]$")
        self.assertNotRegex(text, r"(?m)^#define (N|ROUNDS|tiles) ")
        # By name, too, and for the tuned source of a built-in kernel.
        self.assertEqual(self.farm.cli("best", "defs", "--format", "defines").stdout, text)
        header.write_text(self.farm.cli("best", *self.matmul, "--format", "defines").stdout)
        source = KERNELS / "matmul_host" / "matmul.cc"
        self.assertNotEqual(compiles(KERNELS, source, "-march=native").returncode, 0)
        done = compiles(KERNELS, source, "-march=native", "-include", header)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_another_problem_has_its_own_baked_dims(self):
        other = self.farm.cli("best", self.folder, "--dim", "ELEM=8", "--format", "defines")
        self.assertIn("#define ELEM 8\n", other.stdout)

    def test_json_says_what_a_binary_is_made_of(self):
        answer = self.farm.json("best", self.folder)
        self.assertEqual(answer["match"], "MATCH_EXACT")
        self.assertEqual(answer["device_class"]["kind"], "DEVICE_KIND_HOST")
        macros = {macro["name"]: macro["value"] for macro in answer["macros"]}
        config = answer["best"]["config"]
        self.assertEqual(macros["OFFSET"], "3")
        self.assertEqual(macros["TILE"], str(config["TILE"]))
        self.assertEqual(macros["FAST"], "1" if config["FAST"] else "0")
        self.assertEqual(macros["TILE_AREA"], str(config["TILE"] ** 2 * 4))
        self.assertEqual(macros["ORDER_" + config["ORDER"].replace(".", "_")], "1")
        (launch,) = answer["launches"]
        self.assertEqual((launch["kind"], launch["entry"], launch["grid"]), ("kernel", "f", []))
        scalars = {one["name"]: one["scalar"] and one["scalar"]["value"] for one in launch["arguments"]}
        self.assertEqual(scalars, {"o": None, "n": 64, "rounds": config["ROUNDS"]})
        self.assertIsNone(answer["binary"])
        whole = json.loads(self.farm.cli("best", self.folder, "--format", "json").stdout)
        self.assertEqual({**whole, "binary": None, "compile_options": None, "age_ms": 0},
                         {**answer, "compile_options": None, "age_ms": 0})
        self.assertIn("-DOFFSET=3", whole["compile_options"])
        self.assertIn("-shared", whole["compile_options"])
        self.assertEqual(whole["binary"]["entries"], {"f": "f"})
        self.assertEqual(whole["binary"]["format"], "BINARY_FORMAT_SHARED_OBJECT")

    def test_the_binary_is_the_one_of_the_cache(self):
        file = self.farm.directory / "matmul.so"
        self.assertIn(f"Wrote {file}: ", self.farm.cli("best", *self.matmul, "--so", file).stderr)
        first = file.read_bytes()
        self.assertEqual(first[:4], b"\x7fELF")
        self.farm.cli("best", *self.matmul, "--so", file)
        self.assertEqual(file.read_bytes(), first)
        whole = json.loads(self.farm.cli("best", *self.matmul, "--format", "json").stdout)
        self.assertEqual(whole["binary"]["bytes"], len(first))
        self.assertEqual(whole["binary"]["sha256"], hashlib.sha256(first).hexdigest())
        library = ctypes.CDLL(str(file))
        self.assertTrue(library[whole["launches"][0]["entry"]])

    def test_a_binary_of_another_language_is_refused(self):
        file = self.farm.directory / "none"
        for option in ("--cubin", "--ptx"):
            done = self.farm.cli("best", self.folder, option, file, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertEqual(done.stderr, "tunefarm: defs is in C++ for the CPU; its binary is written by --so\n")
        self.assertFalse(file.exists())

    def test_texts_that_cannot_be_macros_are_refused_with_their_place(self):
        line = 'parameters { name: "LAYOUT" values { strings: ["row", "col-major"] } }'
        folder = self.write(DEFINITION + line + "\n")
        done = self.farm.cli("kernels", "check", folder, check=False)
        self.assertEqual(done.returncode, 2)
        row, column = len(DEFINITION.splitlines()) + 1, line.index('"col-major') + 1
        self.assertIn(f"kernel.pbtxt:{row}:{column}: ", done.stderr)
        self.assertIn("'col-major' cannot be the value of a macro", done.stderr)
        self.assertIn("write 'col_major'", done.stderr)
        # Where no compiler reads it, it is a value like any other.
        self.farm.cli("kernels", "check", self.write(DEFINITION + line[:-1] + "bind: BIND_RUN }\n"))


if __name__ == "__main__":
    unittest.main()
