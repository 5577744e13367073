"""tune_kernel without a daemon: the definitions that scripts become, formulas, arguments, and what is refused."""

import contextlib
import difflib
import hashlib
import io
import json
import math
import os
import pathlib
import pickle
import re
import runpy
import tempfile
import unittest
import unittest.mock
import warnings

import numpy

import tunefarm
from tunefarm import _definitions, _launch_abi, model
from tunefarm.inline import _arguments, _definition, _expressions, _launching, _options, _results, _source, _space, _tune
from tunefarm.v1 import kernel_pb2

DATA = pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"]) / "tests" / "data" / "tune_kernel"
VECTOR_ADD = """
__global__ void vector_add(float *c, const float *a, const float *b, int n) {
    int i = blockIdx.x * block_size_x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
"""


class Submitted(BaseException):
    """Ends a script where it would wait for the daemon."""


class FakeClient:
    """Keeps what it is told."""

    def __init__(self):
        self.definition = None
        self.submitted = None
        self.uploads = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def upload_array(self, array, data_type, progress):
        content = array.tobytes()
        digest = hashlib.sha256(content).hexdigest()
        self.uploads[digest] = content
        return kernel_pb2.DataFile(digest=digest, bytes=len(content),
                                   data_type=kernel_pb2.DataType.Value("DATA_TYPE_" + data_type.upper()))

    def devices(self):
        return []

    def tune(self, path, **options):
        self.definition = _definitions.load(path)
        self.text = path.read_text()
        self.submitted = options
        raise Submitted


def submitted(*arguments, **options):
    """The client to which tune_kernel submitted its job."""
    client = FakeClient()
    with unittest.TestCase().assertRaises(Submitted):
        tunefarm.tune_kernel(*arguments, client=client, **options)
    return client


def vectors(count=1000):
    a, b = numpy.random.default_rng(count).random((2, count), "f4")
    return [numpy.zeros_like(a), a, b, numpy.int32(count)]


class Scripts(unittest.TestCase):
    """Scripts in Kernel Tuner's style, and what they ask the daemon for; golden/NAME.pbtxt has it."""

    def check(self, script, golden):
        client = FakeClient()
        folder = os.getcwd()
        self.addCleanup(os.chdir, folder)
        unchanged = unittest.mock.patch.object(_launching.Program, "outputs",
                                               lambda program, _: [argument.given for argument in program.arguments])
        library = unittest.mock.patch.object(_launch_abi, "library")
        with unittest.mock.patch.object(_tune, "Client", lambda: client), unchanged, library, contextlib.redirect_stdout(io.StringIO()):
            with self.assertRaises(Submitted):
                runpy.run_path(str(DATA / script), run_name="__main__")
        text = re.sub(r'digest: "[0-9a-f]{64}"', 'digest: "..."', client.text)
        expected = (DATA / "golden" / golden).read_text()
        self.assertEqual(text, expected, "\n" + "".join(difflib.unified_diff(
            expected.splitlines(True), text.splitlines(True), "expected", "found")))

    def test_in_cxx(self):
        for name in ("vector_add", "matmul", "convolution", "reduction", "sparse"):
            with self.subTest(name):
                self.check(f"{name}.py", f"{name}.pbtxt")

    def test_in_cuda(self):
        for name in ("vector_add", "matmul", "convolution", "reduction", "expressions"):
            with self.subTest(name):
                self.check(f"cuda/{name}.py", f"{name}_cuda.pbtxt")


class Formulas(unittest.TestCase):
    DOMAINS = {"a": [1, 2, 4, 8], "b": [16, 32, 64], "s": ["x", "y"], "f": [0.5, 1.5]}

    def formula(self, given, truth=False):
        return _expressions.Formula(given, "here", self.DOMAINS, truth)

    def text(self, given):
        return _expressions.text_of(self.formula(given).tree(self.DOMAINS))

    def rule(self, given):
        return self.formula(given, True).constraints(self.DOMAINS)

    def test_strings_of_the_language_stay_as_they_are(self):
        for text in ("a * b", "b // a", "b / a", "-a", "min(a, b) + max(a, 2, b)", "int(b / 3)", "a if b > 16 else 2", "f * 2",
                     "b % a == 0 and a != 2", "s == 'x'", "a in (1, 2)", "1 < a <= 4", "all((a > 1, b > 2))"):
            self.assertEqual(self.text(text), text)

    def test_functions_are_traced(self):
        for function, text in (
                (lambda p: p["a"] * p["b"], "a * b"), (lambda p: numpy.int32(3) * p["a"], "3 * a"),
                (lambda p: p["b"] / p["a"], "b / a"), (lambda p: 5, "5"), (lambda p: -p["a"] + abs(p["f"]), "-a + abs(f)"),
                (lambda p: 32 if p["a"] > 2 else p["b"], "32 if a > 2 else b"), (lambda p: math.ceil(p["b"] / 3), "int(-(-(b / 3) // 1))"),
                (lambda p: max(p["a"], p["b"]), "b if b > a else a")):
            self.assertEqual(self.text(function), text)

    def test_conditions_are_followed_both_ways(self):
        for function, text in (
                (lambda p: p["a"] * p["b"] <= 64 and p["a"] != 2, "a * b <= 64 and a != 2"),
                (lambda p: p["a"] == 1 or p["b"] > 16, "a == 1 or b > 16"), (lambda p: not p["a"] > 1, "a <= 1"),
                (lambda p: 1 < p["a"] < 8, "a > 1 and a < 8"), (lambda p: p["s"] == "x", "s == 'x'"),
                (lambda p: p["a"] in (2, 4), "a == 2 or a == 4")):
            self.assertEqual(self.rule(function), [text])

    def test_what_cannot_be_traced_becomes_a_table(self):
        self.assertEqual(self.text(lambda p: int(p["b"] / 3)), "5 if b == 16 else 10 if b == 32 else 21")
        self.assertEqual(self.text("math.ceil(b / 3)"), "6 if b == 16 else 11 if b == 32 else 22")
        self.assertEqual(self.text(lambda p: f"v{p['s']}"), "'vx' if s == 'x' else 'vy'")
        self.assertEqual(self.text(lambda p: sum(range(p["a"]))), "(0 if a == 1 else 1) if a in (1, 2) else 6 if a == 4 else 28")
        # Symbols are no ints, so that the trace is another function.
        self.assertEqual(self.rule(lambda p: isinstance(p["a"], int) and p["b"] > 16), ["b != 16"])

    def test_what_the_language_cannot_do_with_strings_becomes_a_table(self):
        domains = {"a": [1, 2, 4], "s": ["row", "col"]}
        for given, text in (("a > 2 and s", "a not in (1, 2)"), ("s", "True"), ("s + 'x' == 'rowx'", "s == 'row'"),
                            (lambda p: p["s"] if p["a"] > 2 else p["a"] - 1, "a != 1"), ("s == 'row' or a == 1", "s == 'row' or a == 1"),
                            (lambda p: p["s"] in ("row", "x"), "s == 'row' or s == 'x'"), ("s in ('row', 'x')", "s in ('row', 'x')")):
            formula = _expressions.Formula(given, "rule", domains, is_condition=True)
            self.assertEqual(formula.constraints(domains), [text])
        chosen = _expressions.Formula("s if a > 1 else 'none'", "value", domains)
        self.assertEqual(_expressions.text_of(chosen.tree(domains)), "s if a > 1 else 'none'")

    def test_a_function_without_a_value_is_false(self):
        def even(p):
            if p["a"] % 2 == 0:
                return True

        space = _space.Space({"a": [1, 2, 3, 4]}, [even, lambda p: None if math.sqrt(p["a"]) < 2 else 1])
        self.assertEqual(space.constraints(), ["a % 2 == 0", "a not in (1, 2, 3)"])
        self.assertEqual(list(space.configs()), [{"a": 4}])

    def test_a_division_by_zero_is_false(self):
        self.assertEqual(self.rule("b % (a - 1) == 0"), ["a not in (1, 4, 8)"])
        self.assertEqual(self.rule("b % a == 0"), ["b % a == 0"])

    def test_rules_that_are_too_long_are_split(self):
        domains = {"a": list(range(40)), "b": list(range(40)), "c": [1, 2]}
        chosen = numpy.random.default_rng(1).random((40, 40)) < 0.5
        rules = _expressions.Formula(lambda p: bool(chosen[int(p["a"]), int(p["b"])]), "here", domains, True).constraints(domains)
        self.assertGreater(len(rules), 10)
        for rule in rules:
            self.assertLessEqual(len(rule), _expressions.TEXT_BYTES_MAX)
        for a, b in ((0, 0), (3, 17), (39, 39), (20, 1), (1, 20)):
            self.assertEqual(all(eval(rule, {}, {"a": a, "b": b, "c": 1}) for rule in rules), bool(chosen[a, b]), (a, b))

    def test_errors_name_what_is_wrong(self):
        for given, reason in (("a*c", "here: 'a[*]c' has the unknown name 'c'; parameters are a, b, s, f"), ("a*", "no Python expression"),
                              (lambda p: p["q"], "here reads the unknown parameter 'q'"), ([1], "here is a list"), (math.nan, "finite"),
                              (1 << 70, "64 bits"), (lambda p: p["s"] - 1, "here fails for .*TypeError")):
            with self.assertRaisesRegex(tunefarm.InvalidArgumentError, reason):
                self.text(given)

    def test_a_table_is_bounded(self):
        domains = {f"p{number}": list(range(100)) for number in range(4)}
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "100000000 combinations of p0, p1, p2, p3, more than 1000000"):
            _expressions.Formula(lambda p: int(p["p0"] + p["p1"] + p["p2"] + p["p3"]), "here", domains).tree(domains)


class Spaces(unittest.TestCase):
    def test_restrictions_in_all_forms(self):
        space = _space.Space({"x": [8, 16, 32, 64], "y": [1, 2, 4], "t": [1, 2]}, [
            "x == y * t * 8", lambda p: p["x"] > 8, lambda x, y: x * y >= 32, lambda **p: p["t"] < 3, (lambda y: y < 4, ["y"])])
        self.assertEqual(space.constraints(), ["x == y * t * 8", "x > 8", "x * y >= 32", "t < 3", "y < 4"])
        self.assertEqual(list(space.configs()), [{"x": 16, "y": 2, "t": 1}, {"x": 32, "y": 2, "t": 2}])
        self.assertEqual((space.first(), space.count()), ({"x": 16, "y": 2, "t": 1}, 2))
        self.assertEqual(_space.Space({"x": [1]}, "x > 0").count(), 1)
        self.assertEqual(_space.Space({"x": [1, 2]}, lambda p: p["x"] > 1).first(), {"x": 2})

    def test_values_have_one_type(self):
        space = _space.Space({"i": numpy.arange(3), "f": [0, 0.5], "b": [True, False], "m": [True, 2], "r": range(2), "s": ["a"]}, None)
        self.assertEqual(space.domains, {"i": [0, 1, 2], "f": [0.0, 0.5], "b": [True, False], "m": [1, 2], "r": [0, 1], "s": ["a"]})
        self.assertEqual({name: type(values[0]) for name, values in space.domains.items()},
                         {"i": int, "f": float, "b": bool, "m": int, "r": int, "s": str})

    def test_large_spaces_need_no_listing(self):
        space = _space.Space({f"p{number}": list(range(64)) for number in range(10)}, ["p0 == 63", "p9 * p8 == 62 * 63"])
        self.assertEqual(space.first()["p0"], 63)
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "1000000 combinations .* max_fevals"):
            space.count()

    def test_what_is_no_space(self):
        for params, restrictions, reason in (
                ([1], None, "dict of lists"), ({"a b": [1]}, None, "no name of a macro"), ({"a": 5}, None, "no list"), ({"a": []}, None, "no value"),
                ({"a": [1, "x"]}, None, "strings and numbers"), ({"a": [[1]]}, None, "is a list"), ({"a": [1]}, 5, "restrictions is a int"),
                ({"a": [1]}, [5], r"restrictions\[0\] is a int"), ({"a": [1]}, ["b > 1"], r"restrictions\[0\].*'b'"),
                ({"a": [1]}, [(len, ["b"])], "unknown parameter 'b'")):
            with self.assertRaisesRegex(tunefarm.InvalidArgumentError, reason):
                _space.Space(params, restrictions)
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "no config keeps all restrictions"):
            _space.Space({"a": [1]}, "a > 1").first()


class Launches(unittest.TestCase):
    def launch(self, size, *divisors, names=None, shared=None, **parameters):
        space = _space.Space(parameters, None)
        return _definition.Launch(size, (*divisors, *(None,) * (3 - len(divisors))), names, shared, space)

    def test_grids(self):
        both = {"block_size_x": [32, 64], "block_size_y": [1, 2], "tile": [1, 2], "half": [0.5, 1.5]}
        for size, divisors, grid in (
                (1000, (), ["ceil_div(1000, block_size_x)", "ceil_div(1, block_size_y)", "1"]),
                ((1000, 20), ([], []), ["1000", "20", "1"]),
                (numpy.int32(7), (["block_size_x", "tile"], []), ["ceil_div(7, block_size_x * tile)", "1", "1"]),
                ("tile * 8", (["block_size_x/tile"], []), ["ceil_div(tile * 8, int(block_size_x / tile))", "1", "1"]),
                (("tile", 4), (lambda p: p["tile"] * 3, [lambda p: 2]), ["ceil_div(tile, tile * 3)", "ceil_div(4, 2)", "1"]),
                (lambda p: (p["tile"] * 2, 3), ([], []), ["tile * 2", "3", "1"]),
                (100, (lambda p: p["half"], []), ["int(-(-100 / half // 1))", "1", "1"]),
                (100, ([4, "tile"], []), ["ceil_div(100, 4 * tile)", "1", "1"])):
            self.assertEqual(self.launch(size, *divisors, **both).grid, grid)
            for text in grid:
                self.assertIsInstance(eval(text, {"ceil_div": lambda a, b: -(-a // b)},
                                           {"block_size_x": 32, "block_size_y": 1, "tile": 2, "half": 0.5}), int)

    def test_blocks(self):
        self.assertEqual(self.launch(1, block_size_x=[32], block_size_y=[2]).block, ["block_size_x", "block_size_y", "1"])
        self.assertEqual(self.launch(1, tile=[1]).block, ["256", "1", "1"])
        self.assertEqual(self.launch(1, BLOCK_SIZE_X=[32]).block, ["BLOCK_SIZE_X", "1", "1"])
        own = self.launch(100, names=["tx", "ty"], tx=[32, 64], ty=[1])
        self.assertEqual((own.block, own.grid), (["tx", "ty", "1"], ["ceil_div(100, tx)", "ceil_div(1, ty)", "1"]))

    def test_dynamic_shared_memory(self):
        for shared, text in (({"size": 64}, "64"), ({"size": "tile * 4"}, "tile * 4"), ({"size": lambda p: p["tile"] / 2}, "int(tile / 2)"),
                             (lambda p: {"size": p["tile"] * 8}, "tile * 8"), (None, "")):
            self.assertEqual(self.launch(1, shared=shared, tile=[1, 2]).dynamic_shared_bytes, text)
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "other keys"):
            self.launch(1, shared={"size": 1, "config": 2}, tile=[1])

    def test_wrong_sizes(self):
        for size, reason in (((1, 2, 3, 4), "4 extents"), ((), "0 extents"), ("nothing", "unknown name"), (None, "NoneType"), (0, "problem_size is 0; give a number above 0"),
                             ((4, -1), "problem_size is -1")):
            with self.assertRaisesRegex(tunefarm.InvalidArgumentError, reason):
                self.launch(size, tile=[1])
        for divisor in (0, [4, 0], "0", lambda p: -2.5):
            with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "grid_div_x is (0|-2.5); give a number above 0"):
                self.launch(1, divisor, tile=[1])
        self.assertEqual(self.launch("-(-3)", "~(-5)", tile=[1]).grid[0], "ceil_div(--3, ~-5)")
        with self.assertWarnsRegex(UserWarning, "block_size_names: 'ty' is no tunable parameter"):
            self.launch(1, names=["tx", "ty"], tx=[32])


class Sources(unittest.TestCase):
    def test_parameters(self):
        found = _source.parameters_of("f", """
            void f(int); // void f(float *q) {
            int g() { return f(1); }
            void f(float *__restrict__ out, const float* a, double const *b, float *const c, int n, unsigned, int *e = nullptr,
                   std::pair<int, int> *h, float t[4]) {
                for (;;) { out[g()] += a[1] == 2; c[e[0]]++; *(h + 1) = {}; }
                if (b[0] == 1 && t[0] <= 2) return;
            }""")
        self.assertEqual([parameter.name for parameter in found], ["out", "a", "b", "c", "n", "", "e", "h", "t"])
        self.assertEqual([parameter.name for parameter in found if parameter.is_const], ["a", "b"])
        self.assertEqual([parameter.name for parameter in found if parameter.is_written], ["out", "c", "h"])
        self.assertIsNone(_source.parameters_of("other", "void f(int n) {}"))
        self.assertEqual(len(_source.parameters_of("k<float, 2>", "template <class T, int N> __global__ void k(T *x) { x[0] = N; }")), 1)
        self.assertTrue(_source.parameters_of("k", "__global__ void k(int *x) { atomicAdd(&x[1], 2); }")[0].is_written)

    def test_c_gets_the_linkage_of_c(self):
        text = "#include <cmath>\nvoid f(float *x) { x[0] = 1; }\n"
        source = _source.read("f", text, None)
        self.assertEqual(source.files, {"kernel.cc": '#include <cmath>\nextern "C" void f(float *x) { x[0] = 1; }\n'})
        for before in ("", "template <class T> T g(T v) { return v; }\n", "// void f(float *x) {\n", "#define A(f) \\\n  f\n", "#define A(f) \\\r\n  f\r\n",
                       "int k = 0;  /* ; */ ", 'const char *t = "};f(";\n'):
            self.assertEqual(_source.read("f", before + "unsigned\n f (float *x) {}", "C").files,
                             {"kernel.cc": before + 'extern "C" unsigned\n f (float *x) {}'})
        for declared in ("void f(float *);\nvoid f(float *x) { x[0] = 1; }\n", "static void f(float *x) {}\n"):
            self.assertEqual(_source.read("f", declared, "C").files, {"kernel.cc": 'extern "C" {\n#line 1\n' + declared + "}\n"})
        own = 'extern "C" void f(float *x) { x[0] = 1; }'
        self.assertEqual(_source.read("f", own, "C").files, {"kernel.cc": own})

    def test_openmp_may_be_optional(self):
        text = "#ifdef _OPENMP\n#include <omp.h>\n#endif\nvoid f(float *x) { x[0] = 1; }\n"
        self.assertEqual(_source.read("f", text, "C").language, "HOST_CXX")

    def test_unroll_factors_are_constants(self):
        loop = "#pragma unroll loop_unroll_factor_1\nfor (;;) x[0]++;\n}\n"
        constant = """\
#if loop_unroll_factor_1 && !defined(tunefarm_has_loop_unroll_factor_1)
#define tunefarm_has_loop_unroll_factor_1
constexpr int tunefarm_loop_unroll_factor_1 = loop_unroll_factor_1;
#endif
"""
        begin = "__global__ void f(int *x) {\n"
        changed = """\
#if loop_unroll_factor_1
#pragma unroll tunefarm_loop_unroll_factor_1
#endif
#line %d
for (;;) x[0]++;
}
"""
        # A name without a value is 0 in #if, and so no pragma is left for another kernel of the same file.
        self.assertEqual(_source.read("f", begin + loop, None).files["kernel.cu"], constant + "#line 1\n" + begin + changed % 3)
        own = "#include <a>\n#ifndef loop_unroll_factor_1\n#define loop_unroll_factor_1 2\n#endif\n"
        self.assertEqual(_source.read("f", own + begin + loop, None).files["kernel.cu"], own + constant + "#line 5\n" + begin + changed % 7)
        declared = "template <int loop_unroll_factor_1> "
        text = _source.read("f", declared + begin + loop, None).files["kernel.cu"]
        self.assertIn("#elif !defined(loop_unroll_factor_1)\n#pragma unroll loop_unroll_factor_1\n#endif\n#line 3\n", text)
        with tempfile.TemporaryDirectory() as name:
            (pathlib.Path(name) / "loop.h").write_text("#pragma once\n" + loop)
            (pathlib.Path(name) / "f.cu").write_text('#include "loop.h"\n' + begin + loop)
            files = _source.read("f", pathlib.Path(name) / "f.cu", None).files
        self.assertEqual(files["loop.h"], constant + "#line 1\n#pragma once\n" + changed % 3)
        self.assertIn(constant, files["f.cu"])

    def test_files_and_their_headers(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "sub").mkdir()
            (folder / "sub" / "b.h").write_text('#include "c.h"\n#include "../../outside.h"\n')
            (folder / "sub" / "c.h").write_text("#define C\n")
            (folder / "my kernel.cu").write_text('#include <a>\n#include "sub/b.h"\n#include "missing.h"\n__global__ void f(int *x) {}\n')
            for given in (folder / "my kernel.cu", str(folder / "my kernel.cu")):
                source = _source.read("f", given, None)
                self.assertEqual(list(source.files), ["my_kernel.cu", "sub/b.h", "sub/c.h"])
            listed = _source.read("f", [folder / "my kernel.cu", folder / "sub" / "c.h"], None)
            self.assertIn("c.h", listed.files)
            with self.assertRaises(tunefarm.TunefarmError):
                _source.read("f", str(folder / "nothing.cu"), None)

    def test_what_is_refused(self):
        for name, code, lang, reason in (("f", lambda p: "", None, "functions that generate code"), ("", "x;", None, "kernel_name"),
                                         ("f", "__kernel void f() {}", None, "OpenCL"), ("f", "void f() {}", "HIP", "lang='HIP'"),
                                         ("f", "#include <omp.h>\nvoid f() {}", "C", "includes omp.h, and OpenMP is not supported"),
                                         ("f", "void f() {}", "fortran", "lang='fortran'"), ("f", 5, None, "kernel_source is a int")):
            with self.assertRaisesRegex(tunefarm.InvalidArgumentError, reason):
                _source.read(name, code, lang)


class Arguments(unittest.TestCase):
    def read(self, code, arguments, answer=None, verify=None):
        return _arguments.read(arguments, answer, verify, _source.read("f", code, "CUDA"))

    def accesses(self, *given, **options):
        return [argument.access for argument in self.read(*given, **options) if argument.array is not None]

    def test_accesses(self):
        x = numpy.ones(4, "f4")
        code = "__global__ void f(float *out, float *in, const float *fixed, float *temporary) { out[0] = in[0]; temporary[1] = 2; }"
        self.assertEqual(self.accesses(code, [x] * 4), ["INOUT", "INOUT", "IN", "INOUT"])
        self.assertEqual(self.accesses(code, [x, x, x, x * 0], [x, None, None, None]), ["INOUT", "IN", "IN", "SCRATCH"])
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError, r"arguments\[3\] \('temporary'\) is written .* no answer"):
            self.read(code, [x] * 4, [x, None, None, None])
        self.assertEqual(self.accesses(code, [x] * 4, [x, None, None, None], verify=all), ["INOUT", "INOUT", "IN", "INOUT"])
        self.assertEqual(self.accesses("int f;", [x] * 4, [x, None, None, None]), ["INOUT", "IN", "IN", "IN"])
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "no output"):
            self.read("__global__ void f(const float *x) {}", [x])

    def test_types(self):
        code = "int f;"
        for name, data_type in (("bool", "u8"), ("int8", "i8"), ("uint16", "u16"), ("int64", "i64"), ("float16", "f16"), ("float64", "f64"),
                                (">f4", "f32")):
            (argument,) = self.read(code, [numpy.ones((2, 3), name)])
            self.assertEqual((argument.data_type, argument.array.shape), (data_type, (6,)))
            self.assertEqual(argument.array[0], 1)
        (argument,) = self.read(code, [numpy.full(3, 1 + 2j, "complex64")])
        self.assertEqual((argument.data_type, argument.array.tolist()), ("f32", [1, 2, 1, 2, 1, 2]))
        scalars = self.read(code, [numpy.ones(1), numpy.float32(0.1), numpy.int8(-3), numpy.bool_(True), numpy.uint64(2**63)])[1:]
        self.assertEqual([(scalar.data_type, scalar.value) for scalar in scalars],
                         [("f32", "0.10000000149011612"), ("i8", "-3"), ("u8", "1"), ("u64", "9223372036854775808")])
        strided = self.read(code, [numpy.arange(8)[::2], numpy.arange(12).reshape(2, 6)[:, ::2]])
        self.assertEqual([argument.array.tolist() for argument in strided], [[0, 2, 4, 6], [0, 2, 4, 6, 8, 10]])

    def test_types_are_those_of_the_kernel(self):
        def read(parameter, given):
            self.read(f"void f(double *out, {parameter}) {{ out[0] = 1; }}", [numpy.ones(1), given])

        array, one = numpy.ones(4, "f4"), numpy.float32
        for parameter, given in (
                ("const float *__restrict__ x", array), ("float x[4]", array), ("unsigned x", numpy.int32(1)), ("unsigned long long x", numpy.uint64(1)),
                ("std::size_t x", numpy.int64(1)), ("short int x", numpy.int16(1)), ("bool x", numpy.bool_(True)), ("double", numpy.float64(1)),
                ("float4 *x", array), ("T *x", numpy.ones(1)), ("unsigned char *x", array), ("void *x", array), ("float **x", numpy.ones(1)),
                ("const float &x", array), ("real x", numpy.float64(1)), ("float *x", numpy.ones(2, "complex64")), ("vec x", array)):
            with self.subTest(parameter):
                read(parameter, given)
        for parameter, given, reason in (
                ("const float *x", numpy.ones(4), r"^arguments\[1\] is of type f64, and the kernel's parameter is 'const float \*x'; give it as numpy.float32$"),
                ("int n", numpy.int64(2**31), "is 2147483648, which the kernel's parameter 'int n' cannot hold"),
                ("int *n", array, r"type f32.*'int \*n'.*numpy.int32"), ("double x", numpy.int64(1), "type i64.*float64"),
                ("std::uint16_t *n", numpy.ones(1, "i4"), "numpy.uint16"), ("float x", array, r"is an array, and the kernel's parameter 'float x' is a scalar; give numpy.float32\(...\)"),
                ("int n", numpy.array(3), "is an array.*numpy.int32"), ("int *n", numpy.ones(1, bool), "type u8")):
            with self.subTest(parameter), self.assertRaisesRegex(tunefarm.InvalidArgumentError, reason):
                read(parameter, given)
        self.read("int f;", [array, one(1)])  # no definition is found

    def test_scalars_become_what_the_kernel_takes(self):
        for parameter, given, data_type in (("int n", numpy.int64(7), "i32"), ("size_t n", numpy.int32(7), "u64"), ("float a", numpy.float64(0.5), "f32"),
                                            ("const unsigned char n", numpy.int32(255), "u8"), ("T n", numpy.int64(7), "i64"), ("unsigned n", numpy.int32(7), "i32")):
            with self.subTest(parameter):
                found = self.read(f"void f(double *out, {parameter}) {{ out[0] = 1; }}", [numpy.ones(1), given])[1]
                self.assertEqual((found.data_type, found.value), (data_type, repr(given.item())))

    def test_answers_have_the_type_of_the_argument(self):
        x = numpy.zeros((2, 2), "f4")
        (argument,) = self.read("int f;", [x], [[[1, 2], [3, 4]] @ numpy.eye(2)])
        self.assertEqual((argument.expected.dtype, argument.expected.tolist()), (numpy.dtype("f4"), [1, 2, 3, 4]))
        (argument,) = self.read("int f;", [numpy.zeros(2, "u1")], [numpy.array([1.0, 255.0])])
        self.assertEqual((argument.expected.dtype, argument.expected.tolist()), (numpy.dtype("u1"), [1, 255]))
        for answer in ([0.5, 1], [-1, 1], [256, 1], [math.nan, 1]):
            with self.subTest(str(answer)), self.assertRaisesRegex(tunefarm.InvalidArgumentError, r"answer\[0\] has values that u8"):
                self.read("int f;", [numpy.zeros(2, "u1")], [numpy.array(answer)])

    def test_what_is_refused(self):
        x, code = numpy.ones(4, "f4"), "__global__ void f(float *x, int n) { x[0] = n; }"
        for arguments, answer, reason in (
                ([x], None, "2 parameters, and 1 arguments"), ([x, 5], None, r"arguments\[1\] is a int; give numpy.int32"),
                ([[1.0], numpy.int32(1)], None, r"arguments\[0\] is a list; give an array"), ([numpy.float32(1), numpy.int32(1)], None, "a pointer; give an array"),
                ([x, numpy.float32("nan")], None, "finite"), ([x, numpy.complex64(1)], None, "complex scalar"), ("x", None, "arguments is a list"),
                ([x[:0], numpy.int32(1)], None, "no elements"), ([x, numpy.int32(1)], [x], "an item for each of the 2 arguments"),
                ([x, numpy.int32(1)], [x, 5], r"answer\[1\] belongs to a scalar"), ([x, numpy.int32(1)], [x[:2], None], "2 elements, and its argument has 4"),
                ([x.reshape(2, 2).T, numpy.int32(1)], None, r"arguments\[0\] is in Fortran order"),
                ([numpy.ma.array(x, mask=x > 2), numpy.int32(1)], None, r"arguments\[0\] has a mask"),
                ([x, numpy.int32(1)], [[1.0] * 4, None], r"answer\[0\] is a list; give an array"),
                ([numpy.array(["a"]), numpy.int32(1)], None, r"type <U1, .* give its bytes: array.view\(numpy.uint8\)")):
            with self.assertRaisesRegex(tunefarm.InvalidArgumentError, reason):
                self.read(code, arguments, answer)
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "cmem_args are variables in constant memory"):
            _arguments.constants({"c": x}, _source.read("f", "void f(float *x) {}", None), [])


class Definitions(unittest.TestCase):
    PARAMS = {"block_size_x": [32, 64, 128]}

    def definition(self, code=VECTOR_ADD, params=None, **options):
        return submitted("vector_add", code, 1000, vectors(), params or self.PARAMS, **options).definition

    def test_the_default_config_is_the_first_that_keeps_the_restrictions(self):
        made = self.definition(params={"block_size_x": [32, 64, 2048], "t": [1, 2]}, restrictions=["block_size_x * t >= 128"])
        self.assertEqual([parameter.default_value.int_value for parameter in made.parameters], [64, 2])
        large = self.definition(params={"block_size_x": [2048, 256]})
        self.assertEqual(large.parameters[0].default_value.int_value, 256)

    def test_without_an_answer_the_first_config_is_the_reference(self):
        made = self.definition()
        self.assertEqual(made.reference.steps[0], made.launches[0])
        self.assertEqual((made.tolerance.atol, made.tolerance.rtol), (1e-3, 1e-3))
        missing = tunefarm.LaunchError("no library", code="NO_LIBRARY")
        with unittest.mock.patch.object(_launch_abi, "library", side_effect=missing), self.assertRaises(tunefarm.LaunchError):
            self.definition(verify=lambda answer, outputs: True)  # before the search
        with unittest.mock.patch.object(_launch_abi, "library"):
            checked = self.definition(verify=lambda answer, outputs: True)
        self.assertFalse(checked.HasField("reference"))
        self.assertIn("caller's own function", checked.unverified_reason)

    def test_an_answer_is_uploaded_and_zeros_are_not(self):
        arguments = vectors()
        answer = [arguments[1] + arguments[2], None, None, None]
        client = submitted("vector_add", VECTOR_ADD, 1000, arguments, self.PARAMS, answer=answer, atol=0.25)
        made = client.definition
        self.assertEqual(client.uploads[made.reference.files[0].file.digest], answer[0].tobytes())
        self.assertEqual(client.uploads[made.arguments[1].buffer.fill.file.digest], arguments[1].tobytes())
        self.assertTrue(made.arguments[0].buffer.fill.HasField("zeros"))
        self.assertEqual(len(client.uploads), 3)
        self.assertEqual((made.tolerance.atol, made.tolerance.rtol), (0.25, 1e-5))

    def test_macros(self):
        made = self.definition(code=VECTOR_ADD + "// grid_size_x block_size_y kernel_tuner\n")
        self.assertEqual([(item.name, item.expression) for item in made.derived],
                         [("grid_size_x", "ceil_div(1000, block_size_x)"), ("block_size_y", "1"), ("kernel_tuner", "1")])
        self.assertEqual(len(self.definition().derived), 0)
        own = self.definition(params={"block_size_x": [32], "t": [1, 2], "w": ["float"]}, compiler_options=["-use_fast_math"], defines={
            "A": 3, "B": "t*2", "C": "float4", "D": lambda p: p["t"] + 1, "E": "8/t", "F": "1.0/t", "G": "", "H": lambda p: f"x{p['t']}", "t": "t",
            "I": "w"})
        self.assertEqual([(item.name, item.expression) for item in own.derived], [
            ("A", "3"), ("B", "t * 2"), ("D", "t + 1"), ("E", "8 // t"), ("F", "1.0 / t"), ("H", "'x1' if t == 1 else 'x2'"), ("I", "w")])
        self.assertEqual(list(own.compile_options), ["-use_fast_math", "-DC=float4", "-DG="])
        self.assertEqual([parameter.bind for parameter in own.parameters],
                         [kernel_pb2.BIND_RUN, kernel_pb2.BIND_COMPILE, kernel_pb2.BIND_RUN])
        for defines, reason in (({"a b": 1}, "no name of a macro"), ({"t": 5}, "the name of a parameter"), ({"A": "float *"}, "no spaces"), ([1], "a dict")):
            with self.assertRaisesRegex(tunefarm.InvalidArgumentError, reason):
                tunefarm.tune_kernel("vector_add", VECTOR_ADD, 1000, vectors(), {"t": [1]}, defines=defines, client=FakeClient())

    def test_names(self):
        for name, shown in (("vector_add", "vector_add"), ("MatMul<float, 2>", "matmul"), ("ns::K", "ns_k"), ("_f", "f"), ("2x", "kernel_2x")):
            self.assertEqual(_definition.display_name(name), shown)
        made = submitted("f", "void f(double *stream, double *x, double *) { stream[0] = x[0]; }", 1, [numpy.ones(2)] * 3, {"t": [1]}).definition
        self.assertEqual([argument.name for argument in made.arguments], ["stream_", "x", "argument2"])

    def test_one_config_of_it(self):
        made = self.definition(params={"block_size_x": [32, 64], "w": ["float"], "f": [0.5, 1.0]}, restrictions=["f < 1"])
        one = _definition.of_one_config(made, {"block_size_x": 64, "w": "float", "f": 0.5})
        self.assertEqual([list(getattr(item.values, field)) for item, field in zip(one.parameters, ("ints", "strings", "doubles"))],
                         [[64], ["float"], [0.5]])
        self.assertEqual((one.display_name, len(one.constraints), one.HasField("reference")), ("vector_add_config", 0, False))
        self.assertEqual(one.launches, made.launches)

    def test_what_is_written_without_an_answer_belongs_to_the_caller(self):
        code = "void f(float *y, float *t) { t[0] = 1; y[0] = t[0]; }"
        made = submitted("f", code, 1, [numpy.zeros(2, "f4")] * 2, {"n": [1]}, answer=[numpy.ones(2), None]).definition
        buffer = made.arguments[1].buffer
        self.assertEqual((buffer.access, buffer.init, buffer.HasField("fill")),
                         (kernel_pb2.ACCESS_SCRATCH, kernel_pb2.INIT_ZERO, False))
        buffer = _definition.of_one_config(made, {"n": 1}).arguments[1].buffer
        self.assertEqual((buffer.access, buffer.init), (kernel_pb2.ACCESS_INOUT, kernel_pb2.INIT_UNSPECIFIED))


class Data(unittest.TestCase):
    def test_what_the_daemon_has_dropped_is_uploaded_once_more(self):
        class Forgetful(FakeClient):
            left = 1

            def tune(self, path, **options):
                if self.left:
                    self.left -= 1
                    self.uploads.clear()
                    raise tunefarm.FailedPreconditionError("is not on this daemon", reason="DATA_FILE_NOT_FOUND")
                super().tune(path, **options)

        arguments = vectors()
        expected = arguments[1] + arguments[2]
        for times, raised in ((1, Submitted), (2, tunefarm.FailedPreconditionError)):
            client = Forgetful()
            client.left = times
            with self.assertRaises(raised):
                tunefarm.tune_kernel("vector_add", VECTOR_ADD, 1000, arguments, {"block_size_x": [32]}, client=client,
                                     answer=[expected, None, None, None])
        client = Forgetful()
        with self.assertRaises(Submitted):
            tunefarm.tune_kernel("vector_add", VECTOR_ADD, 1000, arguments, {"block_size_x": [32]}, client=client,
                                 answer=[expected, None, None, None])
        self.assertEqual(set(client.uploads.values()), {array.tobytes() for array in (arguments[1], arguments[2], expected)})

    def test_uploads_are_silent_where_all_is(self):
        for quiet in (True, False):
            with unittest.mock.patch.object(FakeClient, "upload_array", side_effect=Submitted) as upload, self.assertRaises(Submitted):
                tunefarm.tune_kernel("vector_add", VECTOR_ADD, 1000, vectors(), {"block_size_x": [32]}, client=FakeClient(), quiet=quiet)
            self.assertEqual(upload.call_args.kwargs, {"progress": not quiet})


class Options(unittest.TestCase):
    def run_with(self, **options):
        return submitted("vector_add", VECTOR_ADD, 1000, vectors(), {"block_size_x": [32, 64], "t": list(range(10))}, **options).submitted

    def test_searches(self):
        for options, expected in (
                ({}, ("exhaustive", {}, 0, 0)), ({"strategy": "brute_force", "strategy_options": {"max_fevals": 7}}, ("exhaustive", {}, 7, 0)),
                ({"strategy": "random_sample"}, ("random", {}, 2, 0)), ({"strategy": "random_sample", "strategy_options": {"fraction": 0.5}}, ("random", {}, 10, 0)),
                ({"strategy": "bayes_opt"}, ("bayes", {}, 100, 0)), ({"strategy": "mls", "strategy_options": {"time_limit": 1.5}}, ("local", {}, 0, 2)),
                ({"strategy": "genetic_algorithm", "strategy_options": {"popsize": 5}}, ("genetic", {"population": 5}, 100, 0)),
                ({"strategy": "pso", "strategy_options": {"popsize": 5}}, ("pack", {"pack": 5}, 100, 0))):
            made = self.run_with(**options)
            self.assertEqual((made["strategy"], made["strategy_options"], made["max_trials"], made["max_seconds"]), expected)

    def test_measuring(self):
        made = self.run_with(iterations=32, seed=5)
        self.assertEqual((made["measure"]["min_samples"], made["measure"]["max_samples"], made["seed"]), (32, 32, 5))
        self.assertTrue(made["measure"]["no_reuse"] and made["no_memory"] and made["retry_poisoned"])
        with self.assertWarnsRegex(UserWarning, "cache='file.json': no file is written; the daemon keeps every measurement"):
            made = self.run_with(cache="file.json")
        self.assertFalse(made["measure"]["no_reuse"] or made["no_memory"] or made["retry_poisoned"])
        self.assertEqual(self.run_with(measure={"finalists": 2})["measure"]["finalists"], 2)

    def test_what_is_not_supported_is_refused_by_name(self):
        for options, reason in (
                ({"texmem_args": {"t": 1}}, "texmem_args=.* is not supported"), ({"simulation_mode": True}, "simulation_mode=True is not supported"),
                ({"observers": [1]}, "observers=.* is not supported"), ({"log": 10}, "log=10 is not supported"), ({"platform": 1}, "platform=1"),
                ({"parallel": 4}, "parallel=4 is not supported"), ({"compiler": "clang"}, "compiler='clang' is not supported"),
                ({"strategy": "annealing"}, "strategy='annealing' is not supported; write one of brute_force, "), ({"strategy": object()}, "strategy=.* is not supported"),
                ({"strategy": "mls", "strategy_options": {"neighbor": "Hamming"}}, "neighbor of mls is not supported; there are max_fevals, time_limit"),
                ({"strategy_options": {"max_fevals": 0}}, r"\['max_fevals'\] is 0"), ({"iterations": 0}, "iterations is 0"), ({"verify": True}, "verify is a function"),
                ({"objectives": {"time": False, "x": True}}, "several objectives"), ({"objective": ["time", "x"]}, "several objectives"),
                ({"objective": "energy"}, "neither time nor one of the metrics"), ({"objective": "x", "metrics": {"x": "time"}}, "say objective_higher_is_better"),
                ({"objective": "GFLOP/s", "metrics": {"GFLOP/s": "1"}, "strategy": "bayes_opt"}, "shortest time"), ({"metrics": [1]}, "metrics is a dict"),
                ({"metrics": {"x": 1}}, r"metrics\['x'\] is a int"), ({"device": 3}, "device=3: the daemon has 0 GPUs"), ({"lang": "OpenCL"}, "lang='OpenCL'"),
                ({"atol": -1, "answer": [vectors()[0], None, None, None]}, "atol is -1"), ({"block_size_names": "x"}, "block_size_names is a list"),
                ({"compiler_options": "-O3"}, "compiler_options is a list")):
            with self.subTest(str(options)), self.assertRaisesRegex(tunefarm.InvalidArgumentError, reason):
                self.run_with(**options)
        with self.assertRaises(TypeError):
            self.run_with(no_such_option=1)
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "smem_args is shared memory, which C"):
            tunefarm.tune_kernel("f", "void f(float *x) { x[0] = 1; }", 1, [numpy.ones(1)], {"t": [1]}, smem_args={"size": 4}, client=FakeClient())
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "params is a dict"):
            tunefarm.run_kernel("f", "void f(float *x) { x[0] = 1; }", 1, [numpy.ones(1)], [1], client=FakeClient())


def trial(config, time_ms, purpose=model.TrialPurpose.SEARCH, outcome=model.Outcome.OK, message=""):
    measured = unittest.mock.Mock(median_ns=time_ms * 1e6, sample_ns=())
    return unittest.mock.Mock(config=config, purpose=purpose, outcome=outcome, message=message, compile_ms=1.0, run_ms=2.0,
                              measurement=measured if outcome is model.Outcome.OK else None)


class FakeKernel:
    """A loaded kernel of a GPU: what was done with it, in order. Its binary holds what prepare copied last."""

    device = 0
    arguments = (tunefarm.launch.Argument("x", "f32", "INOUT"), tunefarm.launch.Argument("c", "f32", "IN"))

    def __init__(self, generation, binary, said):
        self.generation, self.binary, self.said = generation, binary, said

    def plan(self):
        return unittest.mock.Mock(needs_prepare=True, generation=self.generation)

    def prepare(self, stream, x, c):
        self.said.append("prepare")
        self.binary["c"] = c.array.tolist()

    def __call__(self, stream, generation, x, c):
        assert generation == self.generation
        self.said.append((stream, self.binary["c"]))


class Constants(unittest.TestCase):
    """Constants of launches; a binary is one in the process, whoever loaded it."""

    def setUp(self):
        self.said = []
        self.context = 1
        for target, name, fake in (
                (_launching, "DeviceArray", lambda array, device: unittest.mock.Mock(array=array)), (_launching, "_held", {}),
                (_launching, "_finish_all", lambda device: self.said.append("wait")),
                (_launching._cuda, "context_of", lambda device: self.context)):
            self.enterContext(unittest.mock.patch.object(target, name, fake))

    def program(self, values, generation, binary):
        source = _source.read("f", "__constant__ float c[2]; __global__ void f(float *x) { x[0] = c[0]; }", None)
        arguments = _arguments.read([numpy.ones(2, "f4")], None, None, source)
        constants = _arguments.constants({"c": values}, source, arguments)
        program = _launching.Program(None, "CUDA", arguments, constants, None, "", 0)
        program.loaded = lambda config: FakeKernel(generation, binary, self.said)
        return lambda stream=None: program.launch({}, [None], stream)

    def take(self):
        said = list(self.said)
        self.said.clear()
        return said

    def test_they_are_copied_once(self):
        values = numpy.array([1, 2], "f4")
        launch = self.program(values, 7, {})
        values[:] = 0  # the caller's array is read when the kernel is tuned
        launch()
        self.assertEqual(self.take(), ["wait", "prepare", "wait", (None, [1, 2])])
        launch(1)
        launch(2)
        self.assertEqual(self.take(), [(1, [1, 2]), (2, [1, 2])])
        self.context = 2  # of another device: its binary has a memory of its own
        launch()
        self.assertEqual(self.take()[:3], ["wait", "prepare", "wait"])

    def test_kernels_may_share_a_binary(self):
        binary = {}
        first, second = self.program(numpy.array([1, 2], "f4"), 7, binary), self.program(numpy.array([3, 4], "f4"), 8, binary)
        for launch, held in ((first, [1, 2]), (second, [3, 4]), (first, [1, 2])):
            for stream in (1, 2):
                launch(stream)
            self.assertEqual(self.take(), ["wait", "prepare", "wait", (1, held), (2, held)])
        other = self.program(numpy.array([1, 2], "f4"), 9, {})  # another binary with the same constants
        other()
        self.take()
        first()
        other()
        self.assertEqual(self.take(), [(None, [1, 2]), (None, [1, 2])])

    def test_a_copy_that_fails_is_made_again(self):
        launch = self.program(numpy.array([1, 2], "f4"), 7, {})
        with unittest.mock.patch.object(FakeKernel, "prepare", side_effect=tunefarm.LaunchError("no")), self.assertRaises(tunefarm.LaunchError):
            launch()
        self.take()
        launch()
        self.assertEqual(self.take(), ["wait", "prepare", "wait", (None, [1, 2])])

    def test_names_that_launches_use_themselves(self):
        source = _source.read("f", "__constant__ float stream; __global__ void f(float *x) { x[0] = stream; }", None)
        (constant,) = _arguments.constants({"stream": numpy.float32(2)}, source, [])
        self.assertEqual((constant.name, constant.given, constant.array.tolist()), ("stream_constant", "stream", [2]))


class Results(unittest.TestCase):
    def test_trials_become_results(self):
        final = model.TrialPurpose.FINALIST
        found = _results.collect([trial({"x": 1}, 5), trial({"x": 2}, 3), trial({"x": 3}, 0, outcome=model.Outcome.WRONG_RESULT, message="off"),
                                  trial({"x": 4}, 1, purpose=model.TrialPurpose.BASELINE), trial({"x": 2}, 4, purpose=final)],
                                 ["x"], _options.metrics({"GFLOP/s": lambda p: 8 / p["time"], "twice": "GFLOP/s * 2 + x"}, ["x"]))
        self.assertEqual(list(found), [{"x": 1, "time": 5, "compile_time": 1, "benchmark_time": 2, "GFLOP/s": 1.6, "twice": 4.2},
                                       {"x": 2, "time": 4, "compile_time": 1, "benchmark_time": 4, "GFLOP/s": 2, "twice": 6}])
        self.assertEqual(found.failed, [{"x": 3, "outcome": "WRONG_RESULT", "message": "off"}])
        for name, higher, best in (("time", False, 2), ("time", True, 1), ("GFLOP/s", True, 2)):
            self.assertEqual(_results.by_objective(found, _options.Objective(name, higher))[0]["x"], best)
        for metric, reason in ((lambda p: p["nothing"], "KeyError: 'nothing'"), ("1 / (x - 1)", "ZeroDivisionError")):
            with self.assertRaisesRegex(tunefarm.InvalidArgumentError, rf"metrics\['m'\] fails for {{'x': 1, .*: {reason}"):
                _results.collect([trial({"x": 1}, 5)], ["x"], _options.metrics({"m": metric}, ["x"]))
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "objective='m' is 'fast' for .*, which is no number"):
            _results.by_objective([{"m": "fast"}], _options.Objective("m", True))

    def test_strings_of_metrics_are_checked_before_the_search(self):
        for text, reason in (("nothing / time", r"metrics\['m'\]: .*unknown name 'nothing'; there are x, time"), ("1 +", "no Python expression")):
            with self.assertRaisesRegex(tunefarm.InvalidArgumentError, reason):
                _options.metrics({"a": "x", "m": text}, ["x"])
        (_, metric), = _options.metrics({"m": "max(math.log2(x), sum(i for i in [x])) + time"}, ["x"])
        self.assertEqual(metric({"x": 4, "time": 1.5}), 5.5)

    def test_scalars_of_numpy_become_those_of_python(self):
        ((_, metric),) = _options.metrics({"m": lambda p: numpy.float32(p["time"])}, [])
        self.assertEqual(json.dumps(metric({"time": 1.5})), "1.5")

    def test_without_a_best_one_each_use_says_why(self):
        results = _results.Results()
        self.assertFalse(results.best)
        self.assertIsNone(results.best.get("time"))
        results.failed.append({"x": 1, "outcome": "COMPILE_ERROR", "message": "no such name"})
        results.best = _results.NoBest(_tune._no_config_text(results))
        pair = pickle.loads(pickle.dumps(_results.Tuning(results, {})))
        for best in (results.best, pair.best):
            for use in (lambda: best.launch(1, 2), lambda: best["time"], lambda: best.config):
                with self.assertRaisesRegex(tunefarm.FailedPreconditionError,
                                            "^there is no best config: no config ran and was right; the first: COMPILE_ERROR: no such name$"):
                    use()

    def test_a_tuning_is_a_pair(self):
        results = _results.Results()
        results.append({"x": 1, "time": 2.0})
        results.best = _results.Best(results[0], unittest.mock.Mock(), ["x"])
        pair = _results.Tuning(results, {"device_name": "d"})
        first, second = pair
        self.assertIs(first, results)
        self.assertEqual(json.loads(json.dumps(pair)), [[{"x": 1, "time": 2.0}], {"device_name": "d"}])
        again = pickle.loads(pickle.dumps(pair))
        self.assertEqual((again, type(again), again.best, type(again[0])), (pair, _results.Tuning, results[0], _results.Results))
        self.assertEqual((pair.best.config, pair.best["time"]), ({"x": 1}, 2.0))


if __name__ == "__main__":
    warnings.simplefilter("error")
    unittest.main()
