"""tune_kernel's sources and arguments: what is read from them, what compilers get, and what is refused."""

import math
import pathlib
import tempfile
import unittest
import warnings

import numpy

import tunefarm
from tunefarm.inline import _arguments, _source


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

    def test_of_several_definitions_the_one_with_as_many_parameters(self):
        text = "#if A\nvoid f(int *x, int n) { x[0] = 1; }\n#else\nvoid f(int *y) { y[0] = 1; }\n#endif\n"
        for count, name in ((1, "y"), (2, "x"), (3, "x"), (None, "x")):
            self.assertEqual(_source.parameters_of("f", text, count)[0].name, name)
        self.assertEqual(_source.read("f", text, None, 1).parameters[0].name, "y")

    def test_parameters_in_a_macro_are_unknown(self):
        self.assertIsNone(_source.parameters_of("f", "#define ARGUMENTS float *x, int n\nvoid f(ARGUMENTS) { x[0] = n; }"))
        self.assertEqual(len(_source.parameters_of("f", "#define real float\nvoid f(real *x, real y, int) { x[0] = y; }")), 3)

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
        block = "#ifdef A\n#include <cmath>\n#endif\n"
        self.assertEqual(_source.read("f", block + declared, "C").files, {"kernel.cc": block + 'extern "C" {\n#line 4\n' + declared + "}\n"})
        own = 'extern "C" void f(float *x) { x[0] = 1; }'
        self.assertEqual(_source.read("f", own, "C").files, {"kernel.cc": own})

    def test_openmp_may_be_optional(self):
        text = "#ifdef _OPENMP\n#include <omp.h>\n#endif\nvoid f(float *x) { x[0] = 1; }\n"
        self.assertEqual(_source.read("f", text, "C").language, "HOST_CXX")

    def test_functions_that_launch_kernels(self):
        text = "__global__ void k(float *x) {}\nvoid f(float *x) { k<<<1, n>>>(x); }\n"
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "launches CUDA kernels, and lang='C' is C.. for the CPU"):
            _source.read("f", text, "C")
        for other in (f"#ifdef __CUDACC__\n{text}#endif\nvoid f(float *x) {{}}", "void f(float *x) {}  // k<<<1, 2>>>"):
            self.assertEqual(_source.read("f", other, "C").language, "HOST_CXX")
        self.assertEqual(_source.read("k", text, "PyCUDA").language, "CUDA")

    def test_all_of_cub_is_what_kernels_use_of_it(self):
        text = "#include <cub/cub.cuh>\n__global__ void f(float *x) { x[0] = 1; }\n"
        source = _source.read("f", text, None)
        self.assertEqual((list(source.files), source.files["kernel.cu"]), (["kernel.cu", "cub/cub.cuh"], text))
        for part in ("block/block_reduce", "block/block_scan", "warp/warp_reduce"):
            self.assertIn(f"#include <cub/{part}.cuh>\n", source.files["cub/cub.cuh"])
        self.assertEqual(len(_source.read("f", text.replace("cub/cub", "cub/block/block_reduce"), None).files), 1)

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
        for own in ("#ifdef A\n#include <a>\n#endif\n", "#if A\n#if B\n#include <a>\n#else\n#include <b>\n#endif\n#endif\n"):
            self.assertEqual(_source.read("f", own + begin + loop, None).files["kernel.cu"].partition(constant)[0], own)
        guard = "#ifndef G\n#define G\n#ifdef A\n#include <a>\n#endif\n"
        text = _source.read("f", guard + begin + loop + "#endif\n", None).files["kernel.cu"]
        self.assertEqual(text.partition(constant)[0], guard)
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
                                         ("f", "void f() {}", "fortran", "lang='fortran'"), ("f", 5, None, "kernel_source is an int")):
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
                ([x], None, "2 parameters, and 1 argument is"), ([x, 5], None, r"arguments\[1\] is an int; give numpy.int32"),
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


if __name__ == "__main__":
    warnings.simplefilter("error")
    unittest.main()
