"""tunefarm.triton.tune without a daemon and without Triton: the definitions that functions become, sources that are
collected, results, and what is refused."""

import difflib
import importlib
import itertools
import math
import os
import pathlib
import random
import re
import runpy
import subprocess
import sys
import tempfile
import textwrap
import types
import unittest
import unittest.mock
import warnings

import float8_tensors
import numpy

DATA = pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"]) / "tests" / "data"
sys.path[:0] = [str(DATA / "fake_triton"), str(DATA / "triton")]

import kernels  # noqa: E402
import triton  # noqa: E402
import triton.language as tl  # noqa: E402
from triton.tools.tensor_descriptor import TensorDescriptor  # noqa: E402
import tunefarm  # noqa: E402
from tunefarm import _definitions  # noqa: E402
from tunefarm.inline import _expressions, _space, _tune  # noqa: E402
from tunefarm.triton import _descriptors, _source, tune  # noqa: E402
from tune_kernel_test import FakeClient, Submitted  # noqa: E402

FACTOR = tl.constexpr(3)
THRESHOLD = 0.5
SETTINGS = {"a": 1}
doubled = lambda x: 2 * x  # noqa: E731
FIRST = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 8}


@triton.jit
def outside(x):
    return x * FACTOR


@triton.jit
def reads_a_dict(x_ptr, BLOCK: tl.constexpr):
    return SETTINGS[x_ptr]


@triton.jit
def reads_nothing_known(x_ptr, BLOCK: tl.constexpr):
    return nowhere(x_ptr)  # noqa: F821


def matmul_arguments(m=64, n=48, k=32):
    numbers = numpy.random.default_rng(k)
    return [numbers.random((m, k)).astype("f2"), numbers.random((k, n)).astype("f2"), numpy.zeros((m, n), "f4"), m, n, k, k, n, n]


def product(a_ptr, b_ptr):
    return {"c_ptr": a_ptr.astype("f4") @ b_ptr.astype("f4")}


def matmul_grid(META):
    return (triton.cdiv(META["M"], META["BLOCK_M"]) * triton.cdiv(META["N"], META["BLOCK_N"]),)


def axpy_arguments(count=1000):
    return {"y": numpy.zeros(count, "f4"), "x": numpy.arange(count, dtype="f4"), "a": 0.1, "n": numpy.int32(count)}


def submitted(*arguments, **options):
    """The client to which tune submitted its job."""
    client = FakeClient()
    with unittest.TestCase().assertRaises(Submitted):
        tune(*arguments, client=client, **options)
    return client


def axpy(**options):
    given = {"space": {"BLOCK": [64, 128]}, "grid": "cdiv(n, BLOCK)", "outputs": ["y"], **options}
    arguments = given.pop("args", None) or axpy_arguments()
    return submitted(kernels.axpy, arguments, **given).definition


class Golden(unittest.TestCase):
    """golden/NAME.pbtxt has what the daemon is asked for, golden/NAME.py a source that was collected."""

    def check(self, text, golden):
        text = re.sub(r'digest: "[0-9a-f]{64}"', 'digest: "..."', text)
        file = DATA / "triton" / "golden" / golden
        expected = file.read_text()
        self.assertEqual(text, expected, "\n" + "".join(difflib.unified_diff(
            expected.splitlines(True), text.splitlines(True), "expected", "found")))

    def test_configs_of_a_kernel_in_a_file(self):
        configs = [triton.Config(FIRST), triton.Config({**FIRST, "BLOCK_M": 128}, num_warps=8, num_stages=4),
                   {**FIRST, "BLOCK_M": 128, "GROUP_M": 1, "num_warps": 8}]
        client = submitted(kernels.matmul, matmul_arguments(), configs, grid=matmul_grid, reference=product)
        self.check(client.text, "matmul.pbtxt")
        self.assertEqual([source.content.decode() for source in client.definition.sources],
                         [(DATA / "triton" / name).read_text() for name in ("kernels.py", "rows.py")])
        self.assertEqual((client.submitted["strategy"], client.submitted["promote_given"]), ("exhaustive", True))

    def test_a_space_and_texts(self):
        client = submitted(kernels.axpy, axpy_arguments(), space={"BLOCK": [64, 128], "num_warps": [1, 2]}, outputs=["y"],
                           restrictions=["BLOCK >= num_warps * 64"], grid="triton.cdiv(n, BLOCK)", constexprs={"num_stages": 2},
                           max_trials=3)
        self.check(client.text, "axpy.pbtxt")
        self.assertEqual((client.submitted.get("strategy"), client.submitted["max_trials"]), (None, 3))

    def test_a_function_of_main(self):
        client = FakeClient()
        with unittest.mock.patch.object(_tune, "Client", lambda: client), self.assertRaises(Submitted):
            runpy.run_path(str(DATA / "triton" / "softmax_main.py"), run_name="__main__")
        self.check(client.text, "softmax.pbtxt")
        self.check(client.definition.sources[0].content.decode(), "softmax.py")


    def test_what_the_command_line_writes(self):
        written = DATA.parent / "golden" / "expected" / "kernels_new_triton.pbtxt"
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("kernel.pbtxt", written.read_text()), ("matmul.py", "# the kernel\n")):
                pathlib.Path(folder, name).write_text(text)
            made = _definitions.load(pathlib.Path(folder, "kernel.pbtxt"))
        self.assertEqual((made.language, made.reference.steps[0]), (tunefarm.Language.TRITON, made.launches[0]))


class Sources(unittest.TestCase):
    def test_it_stands_alone(self):
        """The collected source is a module that can be imported where there is nothing else."""
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "softmax.py"
            file.write_text((DATA / "triton" / "golden" / "softmax.py").read_text())
            code = "import softmax; print(softmax.softmax.arg_names, softmax.factor.value)"
            done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True,
                                  env={**os.environ, "PYTHONPATH": str(DATA / "fake_triton")})
            self.assertEqual(done.stdout, "['out_ptr', 'x_ptr', 'columns', 'BLOCK', 'SHIFT'] 1\n", done.stderr)

    def test_what_functions_use(self):
        renamed = outside
        scale, shape = 2.5, (1, "two", float("inf"))

        @triton.jit
        def inner(x_ptr, n, BLOCK: tl.constexpr, MODE: tl.constexpr = None):
            values = [renamed(item) * scale for item in shape]
            return outside(values) + math.pi + THRESHOLD + range(n) + inner

        text = _source.of(inner, inner)["inner.py"]
        self.assertEqual(text, textwrap.dedent("""\
            import math
            import triton
            import triton.language
            import triton.language as tl

            scale = 2.5
            shape = (1, 'two', float('inf'))
            FACTOR = triton.language.constexpr(3)
            THRESHOLD = 0.5

            @triton.jit
            def outside(x):
                return x * FACTOR

            @triton.jit
            def inner(x_ptr, n, BLOCK: tl.constexpr, MODE: tl.constexpr=None):
                values = [renamed(item) * scale for item in shape]
                return outside(values) + math.pi + THRESHOLD + range(n) + inner

            renamed = outside
            """))

    def test_a_file_of_a_package_is_not_taken_whole(self):
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.object(sys, "path", [folder, *sys.path]):
            package = pathlib.Path(folder) / "a_package"
            package.mkdir()
            (package / "__init__.py").write_text("")
            (package / "one.py").write_text("import triton\n@triton.jit\ndef helper(x):\n    return x\n")
            (package / "two.py").write_text("import triton\nfrom .one import helper\n@triton.jit\ndef f(x):\n    return helper(x)\n"
                                            "@triton.jit\ndef g(x):\n    return one.helper(x)\nfrom a_package import one\n")
            import a_package.two as two

            self.assertEqual(_source.of(two.f, two.f)["f.py"], "import triton\n\n@triton.jit\ndef helper(x):\n    return x\n\n"
                                                        "@triton.jit\ndef f(x):\n    return helper(x)\n")
            with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "'one', which g uses, is the module a_package.one of your program"):
                _source.of(two.g, two.g)

    def test_a_file_that_calls_functions_when_it_is_imported_is_not_taken_whole(self):
        kernel = "import triton\nimport triton.language as tl\nFACTOR = tl.constexpr(3)\n@triton.jit\ndef f(x):\n    return x * {}\n"
        for name, call, used, whole in (("alone", "", "FACTOR", True), ("main_only", "if __name__ == '__main__':\n    print(f)\n", 2, True),
                                        ("tutorial", "DEVICE = str(1)\n", "FACTOR", False), ("shown", "str(1)\n", 2, False),
                                        ("needed", "LOG = dict()\n", "LOG", True)):
            with self.subTest(name), tempfile.TemporaryDirectory() as folder, \
                    unittest.mock.patch.object(sys, "path", [folder, *sys.path]):
                pathlib.Path(folder, f"{name}.py").write_text(kernel.format(used) + call)
                module = importlib.import_module(name)
                self.assertEqual(list(_source.of(module.f, module.f)), [f"{name}.py" if whole else "f.py"])

    def test_functions_of_installed_packages_are_written_where_they_can_be(self):
        text = ("import triton\nTABLE = {}\nSCALE = 2\n@triton.jit\ndef plain(x):\n    return x * SCALE\n"
                "@triton.jit\ndef bound(x):\n    return plain(x) + TABLE\n")
        user = "import triton\nfrom a_release import bound, plain\n@triton.jit\ndef f(x):\n    return bound(x) + plain(x)\n"
        with tempfile.TemporaryDirectory() as folder:
            packages = pathlib.Path(folder, "site-packages")
            packages.mkdir()
            (packages / "a_release.py").write_text(text)
            pathlib.Path(folder, "uses_a_release.py").write_text(user)
            with unittest.mock.patch.object(sys, "path", [folder, str(packages), *sys.path]):
                module = importlib.import_module("uses_a_release")
            self.assertEqual(_source.alone(module.f)["f.py"], textwrap.dedent("""\
                from a_release import bound
                import triton

                SCALE = 2

                @triton.jit
                def plain(x):
                    return x * SCALE

                @triton.jit
                def f(x):
                    return bound(x) + plain(x)
                """))

    def test_a_file_that_has_changed_since_it_was_imported(self):
        text = "import triton\n@triton.jit\ndef changed(x):\n    return x * {}\n"
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.object(sys, "path", [folder, *sys.path]):
            file = pathlib.Path(folder, "changed_later.py")
            file.write_text(text.format(2))
            module = importlib.import_module("changed_later")
            file.write_text("# one line more\n" + text.format(3))
            self.assertEqual(_source.alone(module.changed)["changed.py"], text.format(2).replace("@", "\n@"))

    def test_what_becomes_a_constant(self):
        @triton.jit(repr=lambda _: "named", do_not_specialize=["n"])
        def f(x_ptr, bias_ptr, n, scaled, BLOCK: tl.constexpr, TYPE: tl.constexpr, *, more=1, most: tl.constexpr = 2):
            return bias_ptr

        text = _source.alone(f, {"bias_ptr": None, "scaled": True, "TYPE": tl.float16, "most": "a b"})["f.py"]
        self.assertEqual(text, textwrap.dedent("""\
            import triton
            import triton.language
            import triton.language as tl

            @triton.jit(do_not_specialize=['n'])
            def f(x_ptr, bias_ptr: triton.language.constexpr=None, n=None, scaled: triton.language.constexpr=True, \
BLOCK: tl.constexpr=None, TYPE: triton.language.constexpr=triton.language.float16, *, more=1, \
most: triton.language.constexpr='a b'):
                return bias_ptr
            """))
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "the constant 'TYPE' is of type object"):
            _source.alone(f, {"TYPE": object()})

    def test_a_file_in_which_it_is_decorated_further(self):
        autotuned = triton.autotune(configs=[], key=[])(kernels.axpy)
        with unittest.mock.patch.object(kernels, "axpy", autotuned):
            self.assertEqual(list(_source.of(autotuned.fn, autotuned)), ["kernels.py", "rows.py"])
            self.assertEqual(list(_source.of(autotuned.fn, autotuned.fn)), ["axpy.py"])

    def test_what_cannot_be_collected(self):
        def clashing():
            FACTOR = 4

            @triton.jit
            def f(x):
                return outside(x) + FACTOR

            return f

        with unittest.mock.patch.object(sys.modules[__name__], "__name__", "__main__"):
            for function, reason in ((reads_a_dict, "'SETTINGS', which reads_a_dict uses, is of type dict"),
                                     (reads_nothing_known, "'nowhere', which reads_nothing_known uses, is defined nowhere"),
                                     (clashing(), "the name 'FACTOR' means different things"),
                                     (triton.jit(doubled), "no function that a def statement makes")):
                with self.assertRaisesRegex(tunefarm.InvalidArgumentError, reason):
                    _source.of(function, function)
            made = {}
            exec("def f(x):\n    return x\n", made)
            with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "the source of f cannot be read"):
                _source.of(triton.jit(made["f"]), None)


class Definitions(unittest.TestCase):
    def test_grids(self):
        for grid, wanted in ((8, ["8"]), ((8, "BLOCK * 2"), ["8", "BLOCK * 2"]),
                             (["tl.cdiv(n, BLOCK)", 2, 3], ["ceil_div(1000, BLOCK)", "2", "3"]),
                             (lambda META: triton.cdiv(META["n"], META["BLOCK"]), ["(1000 + BLOCK - 1) // BLOCK"]),
                             (lambda META: (META["y"].shape[0], META.get("BLOCK")), ["1000", "BLOCK"]),
                             (lambda META: (int(str(META["BLOCK"])),), ["64 if BLOCK == 64 else 128"])):
            self.assertEqual(list(axpy(grid=grid).launches[0].kernel.grid), wanted)

    def test_scalars_have_the_types_that_triton_gives_them(self):
        for value, kind, text in ((7, "I32", "7"), (1 << 31, "I64", "2147483648"), (numpy.int64(5), "I32", "5"), (0.1, "F32", "0.1"),
                                  (-1, "I32", "-1")):
            made = axpy(args={**axpy_arguments(), "n": value}, grid=1).arguments[3].scalar
            self.assertEqual((tunefarm.v1.kernel_pb2.DataType.Name(made.data_type), made.value), (f"DATA_TYPE_{kind}", text))
        made = axpy(args={**axpy_arguments(), "a": numpy.float32(0.5), "n": numpy.int64(1000)})
        self.assertEqual([item.scalar.value for item in made.arguments[2:]], ["0.5", "1000"])
        annotated = unittest.mock.patch.object(kernels.axpy.params[3], "annotation_type", "i64", create=True)
        with annotated:
            self.assertEqual(axpy().arguments[3].scalar.data_type, tunefarm.v1.kernel_pb2.DATA_TYPE_I64)

    def test_references(self):
        arguments = axpy_arguments()
        wanted = (arguments["y"] + 0.1 * arguments["x"]).astype("f4")
        for reference, outputs in ((lambda y, x, a: y + a * x, ["y"]), (lambda **given: {"y": given["a"] * given["x"]}, None),
                                   ({"y": wanted}, None), (wanted, ["y"]), ([wanted], ["y"])):
            client = submitted(kernels.axpy, arguments, space={"BLOCK": [64]}, grid=1, outputs=outputs, reference=reference, atol=0.5)
            made = client.definition
            found = numpy.frombuffer(client.uploads[made.reference.files[0].file.digest], "f4")
            numpy.testing.assert_allclose(found, wanted, rtol=1e-6)
            self.assertEqual((made.tolerance.atol, made.tolerance.rtol), (0.5, 1e-3))
        made = axpy()
        self.assertEqual((made.reference.steps[0], made.tolerance.atol), (made.launches[0], 1e-3))

    def test_tensors_of_float8(self):
        bits = numpy.arange(1000, dtype="u2").astype("u1") & 0x77
        with float8_tensors.installed() as tensor:
            given = {**axpy_arguments(), "x": tensor("float8_e4m3fn", bits), "y": tensor("float8_e4m3fn", bits.copy())}
            made = axpy(args=given)
            for argument in made.arguments[:2]:
                self.assertEqual(argument.buffer.data_type, tunefarm.v1.kernel_pb2.DATA_TYPE_F8E4M3)
            self.assertEqual((made.tolerance.atol, made.tolerance.rtol), (0.125, 0.125))
            for name in ("float8_e5m2", "float8_e4m3fnuz"):
                with self.assertRaisesRegex(tunefarm.InvalidArgumentError, f"has elements of type torch.{name}, which a"):
                    axpy(args={**given, "x": tensor(name, bits)})

    def test_constexprs_and_defaults(self):
        arguments = dict(zip(kernels.matmul.arg_names, matmul_arguments()), GROUP_M=4)
        made = submitted(kernels.matmul, arguments, space={"BLOCK_M": [16, 32], "BLOCK_N": [16]}, grid=1, outputs=["c_ptr"],
                         constexprs={"BLOCK_K": tl.constexpr(16), "maxnreg": 128}).definition
        self.assertEqual({item.name: item.expression for item in made.derived},
                         {"GROUP_M": "4", "BLOCK_K": "16", "EVEN_K": "False", "maxnreg": "128"})
        self.assertEqual({item.bind for item in made.derived}, {tunefarm.v1.kernel_pb2.BIND_COMPILE})

    def test_the_default_of_a_constexpr_named_like_an_option_is_the_function_s_own(self):
        @triton.jit
        def scale(y, BLOCK: tl.constexpr, num_warps: tl.constexpr = 8, num_stages: tl.constexpr = 2):
            return y * FACTOR

        made = submitted(scale, [numpy.zeros(8, "f4")], space={"BLOCK": [64]}, grid=1, outputs=["y"],
                         constexprs={"num_stages": 4}).definition
        self.assertEqual({item.name: item.expression for item in made.derived}, {"num_stages": "4"})

    def test_none_and_truth_values_are_constants_of_the_source(self):
        made = axpy(args={**axpy_arguments(), "x": None, "a": True}, grid=1)
        self.assertEqual([argument.name for argument in made.arguments], ["y", "n"])
        self.assertEqual(list(made.launches[0].kernel.arguments), ["y", "n"])
        self.assertIn("x: triton.language.constexpr=None, a: triton.language.constexpr=True, n=None",
                      made.sources[0].content.decode())

    def test_constexprs_that_a_definition_cannot_have_are_constants_of_the_source(self):
        @triton.jit
        def scale(y, BLOCK: tl.constexpr, TYPE: tl.constexpr, ACTIVATION: tl.constexpr, BIAS: tl.constexpr,
                  LOW: tl.constexpr = float("-inf"), MODE: tl.constexpr = "", OUT: tl.constexpr = tl.float16):
            return y

        given = {"TYPE": tl.constexpr(tl.float16), "ACTIVATION": "", "BIAS": None, "MODE": ""}
        made = submitted(scale, [numpy.zeros(8, "f4")], space={"BLOCK": [64]}, outputs=["y"], constexprs=given,
                         grid=lambda META: (1 if META["ACTIVATION"] == "" else 2,)).definition
        self.assertEqual((list(made.derived), list(made.launches[0].kernel.grid)), ([], ["1"]))
        text = " ".join(made.sources[0].content.decode().split())
        for wanted in ("TYPE: triton.language.constexpr=triton.language.float16", "ACTIVATION: triton.language.constexpr=''",
                       "BIAS: triton.language.constexpr=None", "LOW: tl.constexpr=float('-inf')", "MODE: tl.constexpr=''",
                       "OUT: tl.constexpr=tl.float16"):
            self.assertIn(wanted, text)

    def test_lists_of_configs_are_exact(self):
        chooser = random.Random(7)
        for count in (1, 5, 60, 400):
            configs = list({tuple(chooser.choice((16, 32, 64, 128)) for _ in range(5)): None for _ in range(count)})
            space = _space.Space.of_configs([dict(zip("ABCDE", row)) for row in configs])
            texts = space.constraints()
            self.assertTrue(all(len(text) <= _expressions.TEXT_BYTES_MAX for text in texts))
            rules = [compile(text, "", "eval") for text in texts]
            allowed = {row for row in itertools.product(*space.domains.values())
                       if all(eval(rule, dict(zip("ABCDE", row))) for rule in rules)}
            self.assertEqual(allowed, set(configs))
            self.assertEqual(tuple(space.first().values()), configs[0])
        whole = _space.Space.of_configs([{"A": a, "B": b} for a in (1, 2, 3) for b in (4, 5)])
        self.assertEqual(whole.constraints(), [])

    def test_an_autotuned_kernel(self):
        configs = [triton.Config({"BLOCK": 64}, num_warps=2), triton.Config({"BLOCK": 32}, num_ctas=2, maxnreg=64)]
        autotuned = triton.autotune(configs=configs, key=["n"])(kernels.axpy)
        made = submitted(autotuned, axpy_arguments(), grid=1, outputs=["y"]).definition
        self.assertEqual({item.name: list(item.values.ints) for item in made.parameters},
                         {"BLOCK": [64, 32], "num_warps": [2, 4], "num_stages": [3], "num_ctas": [1, 2], "maxnreg": [0, 64]})
        self.assertEqual([source.path for source in made.sources], ["kernels.py", "rows.py"])


def set_tiles(nargs):
    """A pre_hook of configs, as Triton's tutorials have it."""
    width = nargs["BLOCK_N"] // 2 if nargs.get("HALVED", False) else nargs["BLOCK_N"]
    nargs["a_desc"].block_shape = [nargs["BLOCK_M"], nargs["BLOCK_K"]]
    nargs["c_desc"].block_shape = [nargs["BLOCK_M"], width]


class Descriptors(unittest.TestCase):
    TILES = {"a_desc": ["BLOCK_M", "BLOCK_K"], "c_desc": lambda META: (META["BLOCK_M"], META["BLOCK_N"])}

    def arguments(self, m=64, n=48, k=32):
        a, b, c = matmul_arguments(m, n, k)[:3]
        return [TensorDescriptor.from_tensor(a, [1, 1]), TensorDescriptor.from_tensor(b, [32, 16], "nan"),
                TensorDescriptor.from_tensor(c, [1, 1]), n, k]

    def made(self, arguments=None, configs=None, function=kernels.matmul_of_tiles, **options):
        configs = configs or [{"BLOCK_M": rows, "BLOCK_N": 16, "BLOCK_K": 32} for rows in (16, 32)]
        given = {"grid": lambda META: (META["a_desc"].shape[0] // META["BLOCK_M"] * (META["N"] // META["BLOCK_N"]),),
                 "reference": lambda a_desc, b_desc: {"c_desc": a_desc.astype("f4") @ b_desc.astype("f4")}, **options}
        return submitted(function, arguments or self.arguments(), configs, **given).definition

    def described(self, definition):
        return {item.name: (item.tensor_descriptor.buffer, list(item.tensor_descriptor.shape),
                            list(item.tensor_descriptor.block_shape), item.tensor_descriptor.oob_fill_nan)
                for item in definition.arguments if item.HasField("tensor_descriptor")}

    EXPECTED = {"a_desc_descriptor": ("a_desc", ["64", "32"], ["BLOCK_M", "BLOCK_K"], False),
                "b_desc_descriptor": ("b_desc", ["32", "48"], ["32", "16"], True),
                "c_desc_descriptor": ("c_desc", ["64", "48"], ["BLOCK_M", "BLOCK_N"], False)}

    def test_arrays_are_buffers_and_descriptors_are_passed(self):
        made = self.made(block_shapes=self.TILES)
        self.assertEqual(self.described(made), self.EXPECTED)
        step = made.launches[0].kernel
        self.assertEqual(list(step.arguments), ["a_desc_descriptor", "b_desc_descriptor", "c_desc_descriptor", "N", "K"])
        self.assertEqual(list(step.grid), ["64 // BLOCK_M * (48 // BLOCK_N)"])
        buffers = {item.name: (item.buffer.length, item.buffer.access) for item in made.arguments if item.HasField("buffer")}
        self.assertEqual(buffers, {"a_desc": ("2048", 1), "b_desc": ("1536", 1), "c_desc": ("3072", 3)})
        self.assertEqual([file.buffer for file in made.reference.files], ["c_desc"])

    def test_the_pre_hook_of_configs_sets_blocks(self):
        configs = [triton.Config({"BLOCK_M": rows, "BLOCK_N": 16, "BLOCK_K": 32}, pre_hook=set_tiles) for rows in (16, 32)]
        arguments = self.arguments()
        self.assertEqual(self.described(self.made(arguments, configs)), self.EXPECTED)
        self.assertEqual(arguments[0].block_shape, [1, 1])  # it was called with stand-ins
        self.refused("block_shapes is given, and configs have a pre_hook; give one of them", arguments, configs,
                     block_shapes={"c_desc": [16, "BLOCK_N // 2"]})

    def test_names_are_unique(self):
        names = ["a" * 60, "a" * 45 + "_descriptor"]
        self.assertEqual(_descriptors.name_of(names[0], names), "a" * 45 + "_descriptor_")

    def refused(self, reason, arguments=None, configs=None, **options):
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError, reason) as raised:
            self.made(arguments, configs, **options)
        self.assertNotIn("\n", str(raised.exception))

    def test_refusals(self):
        a, b, c, n, k = self.arguments()
        self.refused(r"args\['a_desc'\] is a TensorDescriptor of the shape \[64, 32\] with the strides \[64, 1\], which is not "
                     r"supported; give one of a contiguous array, whose strides are \[32, 1\]",
                     [TensorDescriptor(a.base, [64, 32], [64, 1], [1, 1]), b, c, n, k])
        self.refused(r"args\['a_desc'\] is not contiguous", [TensorDescriptor(a.base.T, [64, 32], [32, 1], [1, 1]), b, c, n, k],
                     reference=None, outputs=["c_desc"])
        self.refused("4096 elements over an array of 2048", [TensorDescriptor(a.base, [128, 32], [32, 1], [1, 1]), b, c, n, k])
        self.refused("with 6 dimensions; 1 to 5", [TensorDescriptor(a.base, [1] * 6, [1] * 6, [1] * 6), b, c, n, k])
        self.refused(r"args\['a_desc'\] and args\['c_desc'\] share memory", [a, b, a, n, k])
        self.refused("block_shapes: 'N' is no tensor descriptor among the arguments; there are a_desc, b_desc, c_desc",
                     block_shapes={"N": [1]})
        self.refused(r"block_shapes\['a_desc'\] has 1 extents, and the descriptor has 2 dim", block_shapes={"a_desc": ["BLOCK_M"]})
        self.refused(r"block_shapes\['a_desc'\]: 'BLOCK' has the unknown name 'BLOCK'", block_shapes={"a_desc": ["BLOCK", 1]})
        self.refused(r"block_shapes\['a_desc'\]\[?.* is 0; give a number above 0", block_shapes={"a_desc": [0, 1]})
        tile = {"BLOCK_M": 16, "BLOCK_N": 16, "BLOCK_K": 32}
        self.refused("the configs have different pre_hooks", configs=[tile, triton.Config(tile, pre_hook=set_tiles)])
        self.refused("the pre_hook of the configs gives 'a_desc' fails for .*'types.SimpleNamespace' object has no attribute 'base'",
                     configs=[triton.Config(tile, pre_hook=lambda nargs: nargs["a_desc"].base.fill(0))])
        self.refused("a pre_hook, which is supported only where", configs=[triton.Config({"BLOCK": 64}, pre_hook=set_tiles), {"BLOCK": 32}],
                     function=kernels.axpy, arguments=axpy_arguments(), reference=None, outputs=["y"], grid=1)
        self.refused("the pre_hook of the configs gives 'a_desc' reads the unknown parameter 'x'",
                     configs=[triton.Config(tile, pre_hook=lambda nargs: nargs["x"].zero_())])
        a.layout = "a layout of Gluon"
        self.refused("TensorDescriptor with layout, which is not supported; give a triton.tools", [a, b, c, n, k])


class Refusals(unittest.TestCase):
    def refused(self, reason, fn=kernels.axpy, **changed):
        options = {"args": axpy_arguments(), "space": {"BLOCK": [64]}, "grid": 1, "outputs": ["y"], **changed}
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError, reason) as raised:
            tune(fn, options.pop("args"), client=FakeClient(), **options)
        self.assertNotIn("\n", str(raised.exception))

    def test_functions(self):
        self.refused("fn is a function; give a function that is decorated by @triton.jit", fn=product)
        self.refused("with reset_to_zero, which is not supported", fn=triton.autotune([], [], reset_to_zero=["y"])(kernels.axpy))
        self.refused("fn is a Heuristics", fn=triton.heuristics({})(kernels.axpy))

    def test_arguments(self):
        given = axpy_arguments()
        square = numpy.zeros((8, 8), "f4")
        self.refused("args has 5 values, and the kernel has 4", args=[1] * 5)
        self.refused("the parameter 'a' has no value; give it in args", args=[given["y"], given["x"]])
        self.refused("the kernel has no parameter 'z'", args={**given, "z": 1})
        self.refused("args is a list of arrays", args=5)
        self.refused(r"args\['a'\] is a bool_?; declare the parameter tl.constexpr", args={**given, "a": numpy.bool_(True)})
        self.refused("outputs: 'y' is None, which a kernel cannot change", args={**given, "y": None})
        self.refused(r"args\['x'\] is not contiguous", args={**given, "x": square.T})
        self.refused(r"args\['x'\] is not contiguous", args={**given, "x": square[:, ::2]})
        self.refused(r"args\['y'\] and args\['x'\] share memory", args={**given, "y": square, "x": square[4:]})
        self.refused(r"args\['x'\] has elements of type bool", args={**given, "x": square > 0})
        self.refused(r"args\['x'\] has elements of type complex64", args={**given, "x": square.astype("c8")})
        self.refused("which has more than 64 bits", args={**given, "n": 1 << 64})

    def test_constexprs(self):
        self.refused("'TILE' is neither a constexpr parameter of the kernel nor one of", space={"TILE": [1]})
        self.refused("the parameter 'BLOCK' has no value; give it in constexprs", space={"num_warps": [1]})
        self.refused("'BLOCK' is given twice", constexprs={"BLOCK": 64})
        self.refused("the constexpr 'num_warps' is None; a definition has ints", constexprs={"num_warps": None})
        self.refused("the constant 'BLOCK' is of type object", space={"num_warps": [1]}, constexprs={"BLOCK": object()})
        self.refused("the constexpr 'BLOCK' is 'a b'; a string has", space={"BLOCK": ["a b"]})

    def test_configs(self):
        self.refused("configs and space are both given", configs=[{"BLOCK": 64}])
        self.refused("give configs, a list of dicts", space=None)
        self.refused("restrictions belong to space", space=None, configs=[{"BLOCK": 64}], restrictions=["BLOCK > 1"])
        self.refused(r"configs\[1\] is an int", space=None, configs=[{"BLOCK": 64}, 5])
        self.refused(r"configs\[1\] has no BLOCK, which others have", space=None, configs=[{"BLOCK": 64}, {"num_warps": 4}])
        self.refused("configs have a pre_hook, which is supported only where it sets the block_shape of Tensor", space=None, configs=[triton.Config({"BLOCK": 64}, pre_hook=print)])
        self.refused("space: BLOCK has no value", space={"BLOCK": []})
        self.refused("space is a dict of lists", space=[1])

    def test_grids(self):
        self.refused("grid: 'cdiv\\(n' is no Python expression", grid="cdiv(n")
        self.refused("grid: 'm' has the unknown name 'm'", grid="m")
        self.refused("grid reads the unknown parameter 'TILE'", grid=lambda META: (META["TILE"],))
        self.refused("grid has 4 extents", grid=(1, 2, 3, 4))
        self.refused("grid is 0; give a number above 0", grid=0)
        self.refused("grid is no formula that the daemon can evaluate", space={"BLOCK": list(range(1, 3000))},
                     grid=lambda META: (int(str(META["BLOCK"])) ** 2 % 997 + 1,))

    def test_outputs_and_references(self):
        self.refused("outputs: name the arrays that the kernel writes", outputs=None)
        self.refused("outputs: 'z' is none of the kernel's parameters y, x, a, n", outputs=["z"])
        self.refused("outputs is a list of names", outputs="y")
        self.refused("outputs: 'n' is a number", outputs=["n"])
        self.refused("reference gives arrays without names", outputs=None, reference=lambda x: x)
        self.refused("reference gives 2 arrays for 1 outputs", reference=lambda x: (x, x))
        self.refused("reference gives 0 arrays for 1 outputs", reference=lambda x: None)
        self.refused("reference has the parameter 'z', which the kernel does not have", reference=lambda z: z)
        self.refused("reference: 'x' is no output", reference=lambda x: {"y": x, "x": x})
        self.refused("reference: 'y' is missing", reference=lambda x: {"x": x}, outputs=["x", "y"])
        self.refused("reference of 'y' has 3 elements, and its argument has 1000", reference={"y": numpy.zeros(3, "f4")})
        self.refused("atol is -1; give a number of at least 0", reference={"y": numpy.zeros(1000, "f4")}, atol=-1)


class Ended(unittest.TestCase):
    """What becomes of a job's trials."""

    def tuned(self, trials, winner=None, **options):
        class Client(FakeClient):
            def tune(self, path, **options):
                best = winner and types.SimpleNamespace(config=winner)
                return types.SimpleNamespace(kernel="kernels/k", name="jobs/7", best=best)

            def results(self, job):
                return types.SimpleNamespace(to_list=lambda: trials)

        with unittest.mock.patch("builtins.print") as said:
            self.results = tune(kernels.axpy, axpy_arguments(), [{"BLOCK": 64, "maxnreg": 0}, {"BLOCK": 128, "maxnreg": 32}], grid=1,
                                outputs=["y"], client=Client(), **options)
        self.said = [call.args[0] for call in said.call_args_list]
        return self.results

    @staticmethod
    def trial(block, milliseconds=None, message=""):
        outcome = tunefarm.Outcome.WRONG_RESULT if milliseconds is None else tunefarm.Outcome.OK
        measured = None if milliseconds is None else types.SimpleNamespace(median_ns=milliseconds * 1e6)
        config = {"BLOCK": block, "maxnreg": 0 if block == 64 else 32}
        return types.SimpleNamespace(purpose=tunefarm.TrialPurpose.SEARCH, config=config, outcome=outcome, measurement=measured,
                                     compile_ms=1.0, run_ms=2.0, message=message)

    def test_the_best(self):
        results = self.tuned([self.trial(128, 0.5), self.trial(64, 0.25)])
        self.assertEqual((dict(results.best), results.best_time, len(results)), ({"BLOCK": 64}, 0.25, 2))
        self.assertEqual((results.kernel, results.job, results.verified_against_first_config), ("kernels/k", "jobs/7", True))
        self.assertEqual(self.said, ["best: {'BLOCK': 64}: 0.25 ms"])
        config = results.triton_config()
        self.assertEqual((config.kwargs, config.num_warps), ({"BLOCK": 64}, 4))
        self.assertEqual(list(results.to_dataframe()["time"]), [0.25, 0.5])
        results = self.tuned([self.trial(128, 0.5), self.trial(64, 0.25)], winner={"BLOCK": 128, "maxnreg": 32}, quiet=True)
        self.assertEqual((dict(results.best), results.best_time), ({"BLOCK": 128, "maxnreg": 32}, 0.5))

    def test_none(self):
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            results = self.tuned([self.trial(64, message="y[3] is 0")], quiet=True)
        self.assertIn("the outputs of 1 config differ from those of the first config", str(warned[0].message))
        self.assertEqual((bool(results.best), results.best_time, self.said, len(results.failed)), (False, None, [], 1))
        with self.assertRaisesRegex(tunefarm.FailedPreconditionError, "WRONG_RESULT: y.3. is 0"):
            results.triton_config()
        self.assertEqual(len(results.to_dataframe()), 0)

    def test_with_a_reference_nothing_is_compared_with_the_first(self):
        self.assertFalse(self.tuned([self.trial(64, 1)], reference=lambda x: x, quiet=True).verified_against_first_config)


if __name__ == "__main__":
    unittest.main()
