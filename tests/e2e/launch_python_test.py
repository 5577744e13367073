"""tunefarm.launch and the C example on a package of vector_add_host: tuned, exported, and launched on the CPU."""

import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import numpy

import tunefarm
import tunefarm.launch
from farm import HANG_SECONDS, Farm

SOURCE = pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"])
sys.path.insert(0, str(SOURCE / "tests" / "install"))
from launch_examples_test import compile_vector_add  # noqa: E402

TUNED = 4096


def vectors(count, data_type="f4"):
    a, b = numpy.random.default_rng(count).random((2, count), data_type)
    return {"a": a, "b": b, "c": numpy.full_like(a, numpy.nan)}


class LaunchPython(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.path = cls.folder / "vector_add_host.tfpack"
        with Farm() as farm:
            farm.start()
            farm.cli("tune", "vector_add_host", "--policy", "fast", "--strategy", "random", "--max-trials", "2", "--dim", f"N={TUNED}")
            farm.cli("export", "package", cls.path, "--kernel", "vector_add_host")
            farm.cli("tune", "vector_add_host", "--policy", "fast", "--strategy", "random", "--max-trials", "2", "--dim", f"N={2 * TUNED}")
            farm.cli("export", "package", cls.folder / "newer.tfpack", "--kernel", "vector_add_host")
            with tunefarm.Client(data_directory=farm.directory, start=False) as client:
                cls.fetched = client.package("vector_add_host", dims={"N": [TUNED, 5]})
                cls.unknown = cls._error(client, "vector_add_host", dims={"N": 5})
            kernel, before, after = cls.fetched.kernel("vector_add_host"), vectors(TUNED), vectors(77)
            kernel(N=TUNED, **before)
            farm.kill()
            kernel(N=77, **after)
            cls.around_a_kill = before, after
        # The daemon has ended: all that follows goes on without it.
        cls.package = tunefarm.launch.open(cls.path)
        cls.kernel = cls.package.kernel("vector_add_host")

    @staticmethod
    def _error(client, *arguments, **named):
        try:
            client.package(*arguments, **named)
        except tunefarm.TunefarmError as error:
            return error

    def test_a_package_from_the_daemon_outlives_it(self):
        self.assertEqual(self.fetched.kernels, ("vector_add_host",))
        self.assertEqual(self.fetched.left_out, ())
        for given in self.around_a_kill:
            numpy.testing.assert_array_equal(given["c"], given["a"] + given["b"])
        self.assertIsInstance(self.unknown, tunefarm.NotFoundError)
        self.assertEqual(self.unknown.reason, "BEST_NOT_FOUND")

    def test_packages_in_memory(self):
        content = self.path.read_bytes()
        for held in (content, bytearray(content), memoryview(content)):
            kernel = tunefarm.launch.open_bytes(held).kernel("vector_add_host")
            given = vectors(50)
            kernel(N=50, **given)
            numpy.testing.assert_array_equal(given["c"], given["a"] + given["b"])
        for bad in (b"", content[:-1], "text", 5):
            with self.assertRaises(tunefarm.InvalidArgumentError):
                tunefarm.launch.open_bytes(bad)

    def test_what_a_package_says(self):
        self.assertEqual(self.package.kernels, ("vector_add_host",))
        self.assertEqual(repr(self.package), "<tunefarm.launch.Package of vector_add_host>")
        self.assertEqual((self.kernel.name, self.kernel.dims, self.kernel.device), ("vector_add_host", ("N",), -1))
        self.assertEqual(self.kernel.arguments, (("a", "f32", "IN"), ("b", "f32", "IN"), ("c", "f32", "OUT")))
        self.assertEqual(repr(self.kernel), "<tunefarm.launch.Kernel vector_add_host(a, b, c, N) on the CPU>")

    def test_launches_for_any_length(self):
        for count in (1, 3, TUNED - 1, TUNED, TUNED + 1, 100_003):
            given = vectors(count)
            self.assertIsNone(self.kernel(N=count, **given))
            numpy.testing.assert_array_equal(given["c"], given["a"] + given["b"])

    def test_a_launch_writes_no_more_than_it_was_asked_to(self):
        given = vectors(1000)
        self.kernel(N=900, **given)
        numpy.testing.assert_array_equal(given["c"][:900], (given["a"] + given["b"])[:900])
        self.assertTrue(numpy.isnan(given["c"][900:]).all())

    def test_plans(self):
        exact = self.kernel.plan(N=TUNED)
        self.assertEqual((exact.match, exact.distance, exact.workspace_bytes, exact.needs_prepare), ("EXACT", 0, 0, False))
        self.assertGreater(exact.generation, 0)
        self.assertGreater(exact.median_ns, 0)
        self.assertRegex(exact.config, r"UNROLL=\d+.*VECTOR_BYTES=\d+")
        near = self.kernel.plan(N=TUNED * 2)
        self.assertEqual((near.match, near.config), ("NEAREST", exact.config))
        self.assertGreater(near.distance, 0)
        given = vectors(TUNED)
        self.assertEqual(self.kernel.prepare(N=TUNED, **given), exact)  # there is nothing to prepare
        self.assertTrue(numpy.isnan(given["c"]).all())
        self.kernel(N=TUNED, generation=exact.generation, **given)
        numpy.testing.assert_array_equal(given["c"], given["a"] + given["b"])

    def test_launches_of_arrays_that_were_checked_elsewhere(self):
        # Among launches that are checked, which use the same structures, and with other numbers of elements.
        for count in (100, 200, 200, 100):
            given, other = vectors(count), vectors(150)
            pointers = tuple(given[name].ctypes.data for name in ("a", "b", "c"))
            self.kernel._launch_checked(self.kernel._look_up((count,)), pointers, 0)
            self.kernel(N=150, **other)
            for each in (given, other):
                numpy.testing.assert_array_equal(each["c"], each["a"] + each["b"])
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "NULL or not aligned"):
            self.kernel._launch_checked(self.kernel._look_up((100,)), (0, 0, 0), 0)

    def test_every_wrong_use_is_one_sentence(self):
        good = dict(vectors(100), N=100)
        read_only = numpy.zeros(100, "f4")
        read_only.flags.writeable = False
        self.kernel(**dict(good, a=read_only))
        for change, reason in (
                ({"a": numpy.zeros(100)}, "argument 'a' .* type float64; the kernel takes f32"),
                ({"a": numpy.zeros(100, ">f4")}, "argument 'a' .* takes f32"),
                ({"b": numpy.zeros(99, "f4")}, "argument 'b' has 396 bytes, but needs 400 .100 elements of f32"),
                ({"b": numpy.zeros(200, "f4")[::2]}, "argument 'b' .* not contiguous"),
                ({"c": read_only}, "argument 'c' .* is read-only"),
                ({"c": [0.0] * 100}, "argument 'c' .* is a list, which is no array"),
                ({"c": None}, "argument 'c' .* is a NoneType"),
                ({"N": 100.5}, "the dim 'N' is an integer, not a float"),
                ({"N": 100.0}, "the dim 'N' is an integer, not a float"),  # though 100 has been launched
                ({"N": [100]}, "the dim 'N' is an integer, not a list"),
                ({"N": 1 << 63}, "the dim 'N' .* 64 bits"),
                ({"N": 0}, "N"),
                ({"N": -1}, "N"),
                ({"d": numpy.zeros(100, "f4")}, "does not take 'd' here; it takes a, b, c, N"),
                ({"stream": "0"}, "argument 'stream' .* is a str"),
                ({"stream": -1}, "argument 'stream'"),
                ({"generation": self.kernel.plan(N=100)}, "`generation` is .* not a Plan"),
                ({"generation": 1 << 64}, "`generation` is .* 18446744073709551616 is none"),
                ({"generation": -1}, "`generation` is .* -1 is none"),
                ({"stream": True}, "argument 'stream' .* is a bool"),
                ({"workspace": "x"}, "argument 'workspace' .* is a str")):
            with self.assertRaisesRegex(tunefarm.InvalidArgumentError, reason) as raised:
                self.kernel(**dict(good, **change))
            self.assertNotIn("\n", str(raised.exception))
        for name in good:
            with self.assertRaisesRegex(tunefarm.InvalidArgumentError, f"needs the (argument|dim) '{name}'"):
                self.kernel(**{key: value for key, value in good.items() if key != name})
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "does not take 'M' here; it takes N"):
            self.kernel.plan(N=1, M=1)
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "argument 'a' .* is read-only"):
            self.kernel.prepare(**dict(good, a=read_only))
        with self.assertRaises(tunefarm.LaunchError) as raised:
            self.kernel(**dict(good, generation=(1 << 64) - 1))
        self.assertEqual(raised.exception.code, "STALE")

    def test_an_array_that_launches_the_kernel_when_it_is_read(self):
        outer, inner = vectors(100), vectors(50)

        class Workspace:
            @property
            def __array_interface__(own):
                self.kernel(N=50, **inner)
                return dict(numpy.zeros(0, "u1").__array_interface__, data=(256, False))

        self.kernel(N=100, workspace=Workspace(), **outer)
        for given in (outer, inner):
            numpy.testing.assert_array_equal(given["c"], given["a"] + given["b"])

    def test_loading(self):
        fixed = self.package.kernel("vector_add_host", N=500)
        self.assertEqual(fixed.dims, ())
        given = vectors(500)
        fixed(**given)
        numpy.testing.assert_array_equal(given["c"], given["a"] + given["b"])
        for error, name, dims in ((tunefarm.NotFoundError, "vector_add", {}), (tunefarm.InvalidArgumentError, "vector_add_host", {"M": 1}),
                                  (tunefarm.InvalidArgumentError, "vector_add_host", {"N": "many"}),
                                  (tunefarm.InvalidArgumentError, "vector_add_host", {"N": None}), (tunefarm.InvalidArgumentError, 5, {})):
            with self.assertRaises(error):
                self.package.kernel(name, **dims)

    def test_files_that_are_no_packages(self):
        with self.assertRaisesRegex(tunefarm.NotFoundError, "nowhere"):
            tunefarm.launch.open(self.folder / "nowhere.tfpack")
        content = self.path.read_bytes()
        for number, bad in enumerate((b"", content[:100], content[:-1], content[:1000] + b"\1" + content[1001:] + b"\1")):
            path = self.folder / f"{number}.tfpack"
            path.write_bytes(bad)
            with self.assertRaises(tunefarm.InvalidArgumentError) as raised:
                tunefarm.launch.open(path)
            self.assertEqual(raised.exception.code, "BAD_PACKAGE")

    def test_a_kernel_outlives_its_package(self):
        kernel = tunefarm.launch.open(str(self.path)).kernel("vector_add_host")
        given = vectors(50)
        kernel(N=50, **given)
        numpy.testing.assert_array_equal(given["c"], given["a"] + given["b"])

    def test_an_update(self):
        kernel = self.package.kernel("vector_add_host")
        known, near = kernel.plan(N=TUNED), kernel.plan(N=2 * TUNED)
        self.assertEqual((known.match, near.match), ("EXACT", "NEAREST"))
        kernel.update(tunefarm.launch.open(self.folder / "newer.tfpack"))
        self.assertEqual((kernel.plan(N=TUNED), kernel.plan(N=2 * TUNED).match), (known, "EXACT"))
        for generation in (0, near.generation, kernel.plan(N=2 * TUNED).generation):
            given = vectors(2 * TUNED)
            kernel(N=2 * TUNED, generation=generation, **given)
            numpy.testing.assert_array_equal(given["c"], given["a"] + given["b"])
        kernel.update(self.package)
        self.assertEqual(kernel.plan(N=2 * TUNED), near)
        fixed = self.package.kernel("vector_add_host", N=2 * TUNED)
        fixed.update(tunefarm.launch.open(self.folder / "newer.tfpack"))
        self.assertEqual((fixed.dims, fixed.plan().match), ((), "EXACT"))

    def test_threads_share_a_kernel(self):
        wrong = []

        def work(number):
            for turn in range(100):
                given = vectors(1 + number * 100 + turn)
                self.kernel(N=len(given["a"]), **given)
                if not (given["c"] == given["a"] + given["b"]).all():
                    wrong.append((number, turn))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_without_grpc_and_without_numpy(self):
        code = """
import sys
sys.modules.update(dict.fromkeys(("grpc", "google", "numpy", "torch", "cupy")))
import ctypes, tunefarm.launch
class Floats:
    def __init__(self, values):
        self.memory = (ctypes.c_float * len(values))(*values)
    @property
    def __array_interface__(self):
        return {"version": 3, "shape": (len(self.memory),), "typestr": "<f4", "data": (ctypes.addressof(self.memory), False)}
a, b, c = Floats([1, 2, 3]), Floats([10, 20, 30]), Floats([0, 0, 0])
tunefarm.launch.open(sys.argv[1]).kernel("vector_add_host")(a=a, b=b, c=c, N=3)
assert list(c.memory) == [11, 22, 33], list(c.memory)
"""
        subprocess.run([sys.executable, "-c", code, self.path], check=True, timeout=HANG_SECONDS)

    def test_the_c_example(self):
        program = compile_vector_add(self.folder)
        done = subprocess.run([program, self.path, "cpu"], capture_output=True, text=True, timeout=HANG_SECONDS)
        self.assertEqual((done.returncode, done.stdout), (0, "c = a + b for 1000003 elements\n"), done.stderr)

    def test_what_a_launch_costs(self):
        """Printed, not judged."""
        given, turns = vectors(1), 20_000
        kernel = self.kernel
        begin = time.perf_counter()
        for _ in range(turns):
            kernel(N=1, **given)
        print(f"a launch of three NumPy arrays: {(time.perf_counter() - begin) / turns * 1e6:.2f} µs")


if __name__ == "__main__":
    unittest.main()
