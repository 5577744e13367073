"""tunefarm.launch, as far as it needs no package: arrays of other libraries, the C interface, what is said without the
library. tests/e2e/launch_python_test.py launches."""

import ctypes
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import numpy

from tunefarm import InvalidArgumentError, LaunchError, ResourceExhaustedError, _arrays, _launch_abi, launch

SOURCE = pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"])
HEADERS = SOURCE / "client" / "launch" / "include"


def read(value):
    return _arrays.library_of(type(value)).read(value, None)


class Interface:
    """An array of a library that has only that interface."""

    def __init__(self, **attributes):
        vars(self).update(attributes)


class Arrays(unittest.TestCase):
    def test_every_interface_says_the_same_of_an_array(self):
        for array in (numpy.zeros((3, 4), "f4"), numpy.zeros((3, 4), "i8")[::2], numpy.zeros((4, 3), "f8").T, numpy.zeros((1, 5), "u1"),
                      numpy.zeros((6, 1), "u4")[::3], numpy.zeros(4, "f2")[2:], numpy.zeros((), "i2"), numpy.zeros((0, 3), "i4")):
            expected = (array.ctypes.data, array.size, array.dtype.name, -1, array.flags.c_contiguous)
            views = [read(array), read(Interface(__array_interface__=array.__array_interface__)),
                     read(Interface(__dlpack__=array.__dlpack__, __dlpack_device__=array.__dlpack_device__)),
                     read(Interface(data_ptr=lambda: array.ctypes.data, numel=lambda: array.size, dtype=array.dtype,
                                    is_contiguous=lambda: array.flags.c_contiguous))]
            for pointer, elements, key, device, is_contiguous, is_writable in views:
                self.assertTrue(is_writable)
                self.assertEqual((pointer, elements, _arrays.type_name(key), device, is_contiguous), expected)
                self.assertEqual(_arrays.item_bytes(key), array.dtype.itemsize)

    def test_an_array_that_may_not_be_written(self):
        array = numpy.zeros(3)
        array.flags.writeable = False
        for value in (array, Interface(__array_interface__=array.__array_interface__)):
            self.assertFalse(read(value)[-1])

    def test_numbers_of_numpy_in_an_interface(self):
        array = numpy.zeros((3, 4), "f4")
        own = dict(array.__array_interface__, shape=(numpy.int32(3), numpy.int64(4)), data=(numpy.uint64(array.ctypes.data), False))
        scalars = Interface(data_ptr=lambda: numpy.uint64(array.ctypes.data), numel=lambda: numpy.array(12), dtype=array.dtype,
                            is_contiguous=lambda: True)
        for value in (Interface(__array_interface__=own), scalars):
            view = read(value)
            self.assertEqual((view[:2], type(view[0]), type(view[1])), ((array.ctypes.data, 12), int, int))

    def test_subclasses_are_read_as_what_they_are(self):
        with tempfile.TemporaryFile() as file:
            array = numpy.memmap(file, "f4", "w+", shape=(2, 3))
            self.assertEqual(read(array)[1:4], (6, numpy.dtype("f4"), -1))

    def test_what_dlpack_knows_beyond_numpy(self):
        memory = (ctypes.c_char * 64)()
        extents = (ctypes.c_int64 * 2)(4, 2)
        for code, bits, lanes, fitting in ((4, 16, 1, ["bf16"]), (10, 8, 1, ["u8", "f8e4m3"]), (6, 8, 1, ["u8"]),
                                           (2, 32, 2, []), (9, 8, 1, ["u8"])):
            tensor = _arrays._DLTensor(ctypes.addressof(memory), _arrays._DL_CPU, 0, 2, code, bits, lanes, extents, None, 8)
            make = ctypes.pythonapi.PyCapsule_New
            make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
            capsule = make(ctypes.addressof(tensor), b"dltensor", None)
            pointer, elements, key, _, is_contiguous, _ = read(Interface(__dlpack__=lambda: capsule, __dlpack_device__=lambda: (1, 0)))
            self.assertEqual((pointer, elements, is_contiguous), (ctypes.addressof(memory) + 8, 8, True))
            self.assertEqual([kind for kind in _arrays.ITEM_BYTES if _arrays.fits(kind, key)], fitting)

    def test_where_memory_lies(self):
        asked = []

        def capsule(**arguments):
            asked.append(arguments)
            raise BufferError("not now")

        for device, stream, expected in (((2, 1), None, {"stream": 1}), ((2, 0), 0x70, {"stream": 0x70}), ((3, 0), 5, {}), ((13, 0), 5, {})):
            value = Interface(__dlpack__=capsule, __dlpack_device__=lambda: device)
            with self.assertRaises(BufferError):
                _arrays.Other.read(value, stream)
            self.assertEqual(asked.pop(), expected)
        with self.assertRaisesRegex(_arrays.Unfit, "DLPack's type 10"):
            _arrays.Other.read(Interface(__dlpack__=capsule, __dlpack_device__=lambda: (10, 0)), None)

    def test_types_that_fit(self):
        for data_type, fitting in (("f32", ["f4"]), ("i64", ["i8"]), ("u8", ["u1", "?", "V1"]), ("bf16", ["u2", "V2"]),
                                   ("u32", ["u4", "i4"]), ("f8e4m3", ["u1", "V1"])):
            for name in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "V1", "V2", "V4", ">f4", ">i8", "O"):
                for key in (numpy.dtype(name), numpy.dtype(name).str):
                    self.assertEqual(_arrays.fits(data_type, key), name in fitting, (data_type, key))
        for name in ("torch.bfloat16", "bfloat16"):
            self.assertTrue(_arrays.fits("bf16", name))
        for name in ("torch.float8_e4m3fn", "float8_e5m2"):
            self.assertTrue(_arrays.fits("u8", name))
            self.assertEqual(_arrays.item_bytes(name), 1)
        self.assertTrue(_arrays.fits("f8e4m3", "torch.float8_e4m3fn"))
        for name in ("float8_e5m2", "float8_e4m3fnuz", "float8_e4m3", "float8"):
            self.assertFalse(_arrays.fits("f8e4m3", name))
        self.assertFalse(_arrays.fits("f8", "float64"))

    def test_every_type_of_a_kernel_is_known(self):
        proto = (SOURCE / "proto" / "tunefarm" / "v1" / "kernel.proto").read_text(encoding="utf-8")
        names = {name.lower() for name in re.findall(r"^  DATA_TYPE_(\w+) = [1-9]", proto, re.MULTILINE)}
        self.assertEqual(names, set(_arrays.ITEM_BYTES))
        for name, size in _arrays.ITEM_BYTES.items():
            self.assertEqual(size, int(re.match(r"[a-z]+(\d+)", name)[1]) // 8)

    def test_what_is_no_array(self):
        masked = dict(numpy.zeros(2).__array_interface__, mask=numpy.zeros(2, bool))
        negative = dict(numpy.zeros(6).__array_interface__, shape=(-2, -3))
        huge = [dict(numpy.zeros(6).__array_interface__, **change) for change in ({"shape": (1 << 40, 1 << 40)}, {"data": (1 << 64, False)})]
        for value, reason in (([1.0], "is a list, which is no array"), (None, "is a NoneType"), (1.5, "is a float"),
                              (Interface(__array_interface__={"data": b"abc", "shape": (3,), "typestr": "|u1"}), "has no address"),
                              (Interface(__array_interface__=masked), "has a mask"),
                              (numpy.ma.masked_array(numpy.zeros(2), mask=[0, 1]), "has a mask"),
                              (Interface(__array_interface__=negative), "has an extent of -2"),
                              *((Interface(__array_interface__=each), "elements at the address .* no memory has") for each in huge)):
            with self.assertRaisesRegex(_arrays.Unfit, reason):
                read(value)

    def test_streams(self):
        for stream in (0x7f00, Interface(cuda_stream=0x7f00), Interface(ptr=0x7f00), Interface(__cuda_stream__=lambda: (0, 0x7f00))):
            self.assertEqual(_arrays.stream_handle(stream), 0x7f00)
        for stream in ("0", 1.0, True, Interface(ptr="0"), object(), -1, 1 << 64, Interface(ptr=-1)):
            with self.assertRaisesRegex(_arrays.Unfit, "no address"):
                _arrays.stream_handle(stream)

    def test_tensors(self):
        try:
            import torch
        except ImportError:
            self.skipTest("PyTorch is not installed")
        for dtype, data_type in ((torch.bfloat16, "bf16"), (torch.float8_e4m3fn, "u8"), (torch.float8_e4m3fn, "f8e4m3"),
                                 (torch.float8_e5m2, "u8"), (torch.float32, "f32"), (torch.int64, "i64")):
            tensor = torch.zeros(3, 4, dtype=dtype)
            pointer, elements, key, device, is_contiguous, _ = read(tensor)
            self.assertEqual((pointer, elements, device, is_contiguous), (tensor.data_ptr(), 12, -1, True))
            self.assertTrue(_arrays.fits(data_type, key))
            self.assertFalse(read(tensor.t())[4])
            self.assertEqual(read(torch.nn.Parameter(torch.zeros(2)))[1], 2)
        with self.assertRaisesRegex(_arrays.Unfit, "is on meta"):
            read(torch.zeros(3, device="meta"))


class Tensor:
    """What launches read of PyTorch's."""

    def __init__(self, data_type="float32", place=1, elements=6, is_contiguous=True):
        self.dtype, self.is_cuda, self.is_cpu, self.device = f"torch.{data_type}", place >= 0, place == -1, f"device {place}"
        self.data_ptr, self.numel, self.nbytes = lambda: 4096, lambda: elements, 4 * elements
        self.get_device, self.is_contiguous = lambda: place, lambda: is_contiguous


class Arguments(unittest.TestCase):
    def setUp(self):
        for patch in (mock.patch.dict(sys.modules, torch=Interface(Tensor=Tensor)), mock.patch.dict(_arrays.LIBRARIES),
                      mock.patch.object(_arrays, "_tensors", set())):
            patch.start()
            self.addCleanup(patch.stop)
        self.taken = _arrays.Arguments("k", (("x", "f32", "IN"), ("y", "f32", "OUT")), 1)

    def read(self, *values, prepares=False):
        return self.taken.read(values, None, prepares)

    def test_tensors_like_the_last_ones_are_read_at_once(self):
        for _ in range(2):
            self.assertEqual(self.read(Tensor(), Tensor(elements=3)), ([4096, 4096, 24, 12], _arrays._Torch))
        with mock.patch.object(_arrays._Torch, "read", side_effect=AssertionError):
            self.assertEqual(self.read(Tensor(elements=5), Tensor()), ([4096, 4096, 20, 24], _arrays._Torch))
        for wrong, reason in ((Tensor("float64"), "type float64; the kernel takes f32"), (Tensor(place=0), "CUDA device 0; .* for CUDA device 1"),
                              (Tensor(place=-1), "is on the CPU"), (Tensor(place=-2), "is on device -2"),
                              (Tensor(is_contiguous=False), "is not contiguous"), (5, "is an int, which is no array")):
            for _ in range(2):
                for name, given in (("x", (wrong, Tensor())), ("y", (Tensor(), wrong))):
                    with self.assertRaisesRegex(InvalidArgumentError, f"^argument '{name}' of kernel 'k' .*{reason}"):
                        self.read(*given)
                self.read(Tensor(), Tensor())

    def test_tensors_before_they_knew_their_bytes(self):
        old = Tensor()
        del old.nbytes
        for _ in range(2):
            self.assertEqual(self.read(old, Tensor()), ([4096, 4096, 24, 24], _arrays._Torch))

    def test_arrays_of_two_libraries(self):
        self.taken = _arrays.Arguments("k", (("x", "f32", "IN"), ("y", "f32", "OUT")), -1)
        array = numpy.zeros(4, "f4")
        array.flags.writeable = False
        for _ in range(2):
            self.assertEqual(self.read(array, Tensor(place=-1)), ([array.ctypes.data, 4096, 16, 24], _arrays._Torch))
            with self.assertRaisesRegex(InvalidArgumentError, "argument 'x' of kernel 'k' is read-only"):
                self.read(array, Tensor(place=-1), prepares=True)
            with self.assertRaisesRegex(InvalidArgumentError, "argument 'y' of kernel 'k' is read-only"):
                self.read(Tensor(place=-1), array)

    def test_no_arguments(self):
        self.assertEqual(_arrays.Arguments("k", (), 1).read((), None, False), ([], _arrays.Other))


class Dims(unittest.TestCase):
    def test_values_by_their_type(self):
        for value, kind, field in ((True, _launch_abi.BOOL, "number"), (5, _launch_abi.INT, "number"), (numpy.int32(-5), _launch_abi.INT, "number"),
                                   (numpy.bool_(True), _launch_abi.BOOL, "number"), (numpy.float32(0.5), _launch_abi.FLOAT, "real"),
                                   (numpy.array(7), _launch_abi.INT, "number"), (numpy.str_("f8"), _launch_abi.STRING, "text"),
                                   (0.5, _launch_abi.FLOAT, "real"), ("bf16", _launch_abi.STRING, "text")):
            dim = launch._dim("E", value)
            self.assertEqual((dim.name, dim.type), (b"E", kind))
            held = getattr(dim.value, field)
            self.assertEqual(held.decode() if field == "text" else held, value)
        for value in (None, [1], numpy.array([1]), 1 << 63, "a\0b", "\ud800"):
            with self.assertRaises(InvalidArgumentError):
                launch._dim("E", value)

    def test_devices(self):
        self.assertEqual(launch._device_number(3), 3)
        self.assertEqual(launch._device_number(numpy.int64(0)), 0)
        self.assertEqual(launch._device_number(Interface(type="cuda", index=1)), 1)
        self.assertIsNone(launch._device_number(Interface(type="cuda", index=None)))
        for device in ("cuda:0", -1, 1 << 31, True, Interface(type="cpu", index=None)):
            with self.assertRaisesRegex(InvalidArgumentError, "`device` is"):
                launch._device_number(device)


class FakeLibrary:
    """Has the kernel "k", which takes x and the dim n. An update brings another plan."""

    def __init__(self):
        self.generation, self.workspace_bytes, self.needs_prepare, self.is_captured = 1, 256, 0, False
        self.launches, self.plans = [], 0

    def __getitem__(self, name):
        return getattr(self, name)

    def tunefarm_package_close(self, handle):
        pass

    tunefarm_kernel_close = tunefarm_package_close
    tunefarm_kernel_prepare = None  # not called

    def tunefarm_kernel_device(self, handle):
        return -1

    def tunefarm_kernel_dim_count(self, handle):
        return 1

    tunefarm_kernel_argument_count = tunefarm_kernel_dim_count

    def tunefarm_kernel_dim_name(self, handle, index):
        return b"n"

    def tunefarm_kernel_argument(self, handle, index, argument, error):
        argument._obj.name, argument._obj.data_type, argument._obj.access = b"x", b"f32", 3
        return 0

    def tunefarm_kernel_plan(self, handle, dims, count, plan, error):
        self.plans += 1
        plan._obj.generation, plan._obj.workspace_bytes = self.generation, self.workspace_bytes
        plan._obj.needs_prepare = self.needs_prepare
        return 0

    def tunefarm_kernel_launch(self, handle, launch, error):
        given = launch._obj
        fits = given.generation == self.generation or (not self.needs_prepare and given.workspace_bytes >= self.workspace_bytes)
        if not fits and not self.is_captured:
            error._obj.message = b"plan and prepare again"
            return _launch_abi.STATUSES.index("STALE")
        self.launches.append((given.generation, given.workspace_bytes))
        return 0

    def tunefarm_kernel_update(self, handle, package, error):
        if package.value is None:
            error._obj.message = b"other arguments"
            return _launch_abi.STATUSES.index("INCOMPATIBLE")
        self.generation += 1
        return 0


class Updates(unittest.TestCase):
    def setUp(self):
        self.library = FakeLibrary()
        patch = mock.patch.object(_launch_abi, "_library", self.library)
        patch.start()
        self.addCleanup(patch.stop)
        self.kernel = launch.Kernel(ctypes.c_void_p(1), "k")
        self.newer = launch.Package(ctypes.c_void_p(2))
        self.x = numpy.zeros(8, "f4")
        self.kernel(x=self.x, n=8)
        self.assertEqual(self.library.launches, [(1, 256)])

    def test_a_launch_takes_a_new_plan_where_the_old_one_is_stale(self):
        self.library.workspace_bytes = 1024
        self.kernel.update(self.newer)
        self.kernel(x=self.x, n=8)
        self.kernel(x=self.x, n=8)
        self.assertEqual(self.library.launches[1:], [(2, 1024), (2, 1024)])
        self.assertEqual(self.library.plans, 2)

    def test_a_launch_goes_on_with_its_plan_where_that_holds(self):
        self.kernel.update(self.newer)
        self.kernel(x=self.x, n=8)
        self.library.is_captured, self.library.workspace_bytes = True, 1024
        self.kernel(x=self.x, n=8)
        self.assertEqual(self.library.launches[1:], [(1, 256), (1, 256)])
        self.assertEqual(self.library.plans, 1)
        self.assertEqual(self.kernel.plan(n=8)[:2], (2, 1024))
        self.kernel(x=self.x, n=8)
        self.assertEqual(self.library.launches[-1], (2, 1024))

    def test_a_given_generation_is_stale_where_the_library_says_so(self):
        self.library.workspace_bytes = 1024
        self.kernel.update(self.newer)
        self.kernel(x=self.x, n=8, generation=1)  # in a larger workspace
        self.assertEqual(self.library.launches[-1], (1, 1024))
        self.library.needs_prepare = 1
        self.kernel.update(self.newer)
        with self.assertRaisesRegex(LaunchError, "plan and prepare again") as raised:
            self.kernel(x=self.x, n=8, generation=1)
        self.assertEqual(raised.exception.code, "STALE")
        with self.assertRaisesRegex(InvalidArgumentError, "needs its arguments prepared"):
            self.kernel(x=self.x, n=8)
        self.kernel(x=self.x, n=8, generation=3)
        self.assertEqual(self.library.launches[-1], (3, 1024))

    def test_what_is_refused(self):
        for package in (None, "x.tfpack", self.kernel):
            with self.assertRaisesRegex(InvalidArgumentError, "`package` is what tunefarm.launch.open returns"):
                self.kernel.update(package)
        with self.assertRaisesRegex(LaunchError, "other arguments") as raised:
            self.kernel.update(launch.Package(ctypes.c_void_p(None)))
        self.assertEqual(raised.exception.code, "INCOMPATIBLE")


class Library(unittest.TestCase):
    def test_launching_needs_nothing_else(self):
        blocked = ("grpc", "google", "numpy", "torch", "cupy", "jax", "pandas", "tqdm")
        code = f"import sys; sys.modules.update(dict.fromkeys({blocked!r})); import tunefarm; tunefarm.launch.open"
        subprocess.run([sys.executable, "-c", code], check=True, timeout=600)

    def test_without_the_library_one_sentence_says_so(self):
        for place, reason in (("/nowhere/libtunefarm-launch.so.1", "TUNEFARM_LAUNCH_LIBRARY names a library that cannot be loaded: .*nowhere"),
                              ("libc.so.6", "libc.so.6 has no tunefarm_package_open")):
            with mock.patch.dict(os.environ, TUNEFARM_LAUNCH_LIBRARY=place), mock.patch.object(_launch_abi, "_library", None):
                with self.assertRaisesRegex(LaunchError, reason) as raised:
                    launch.open("x.tfpack")
            self.assertEqual(raised.exception.code, "NO_LIBRARY")
            self.assertNotIn("\n", str(raised.exception))

    def test_the_library_of_a_bundle_and_of_a_build_tree_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            tree = pathlib.Path(folder).resolve()
            package = tree / "python" / "tunefarm"
            built = tree / "client" / "launch" / _launch_abi.SONAME
            for library in (built, package / _launch_abi.SONAME):  # the second one goes before the first
                library.parent.mkdir(parents=True)
                library.write_bytes(b"no library")
                environment = {name: value for name, value in os.environ.items() if name != "TUNEFARM_LAUNCH_LIBRARY"}
                with mock.patch.dict(os.environ, environment, clear=True), \
                        mock.patch.object(_launch_abi, "__file__", str(package / "_launch_abi.py")), \
                        mock.patch.object(_launch_abi, "_library", None):
                    with self.assertRaisesRegex(LaunchError, re.escape(f"({library}: ")):
                        launch.open("x.tfpack")

    def test_what_is_no_path(self):
        with mock.patch.object(_launch_abi, "_library", object()):
            for path in (5, None, "\ud800", "a\0b"):
                with self.assertRaisesRegex(InvalidArgumentError, "the path of a package"):
                    launch.open(path)

    def test_a_workspace_beyond_all_memory(self):
        kernel = launch.Kernel.__new__(launch.Kernel)
        kernel.name, kernel.device, kernel._frames = "k", -1, launch._Frames(0, 0, False)
        for size in (1 << 61, 1 << 64):
            with self.assertRaisesRegex(ResourceExhaustedError, f"kernel 'k' needs {size} bytes of work space"):
                kernel._own_workspace(size, _arrays.Other, 0)

    def test_without_a_device_every_address_is_the_cpus(self):
        code = """
from tunefarm import _cuda
assert _cuda.driver() is None and _cuda.current_device() is None and _cuda.device_of(4096) == -1
try:
    _cuda.on_device(0)
except LookupError as error:
    print(error)
"""
        done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "CUDA_VISIBLE_DEVICES": ""}, check=True, timeout=600,
                              capture_output=True, text=True)
        self.assertEqual(done.stdout, "there is no CUDA device 0 that this process can use\n")

    def test_statuses_become_exceptions(self):
        header = (HEADERS / "tunefarm" / "launch.h").read_text(encoding="utf-8")
        for prefix, names in (("STATUS", _launch_abi.STATUSES), ("MATCH", _launch_abi.MATCHES)):
            kind = re.search(rf"typedef enum tunefarm_{prefix.lower()} {{(.*?)}}", header, re.DOTALL).group(1)
            values = dict(re.findall(r"TUNEFARM_(?:MATCH_)?(\w+) = (\d+)", kind))
            self.assertEqual({name: int(value) for name, value in values.items()}, {name: number for number, name in enumerate(names)})
        error = _launch_abi.sized(_launch_abi.Error)
        for status, kind in ((1, ValueError), (2, LookupError), (3, ValueError), (5, LaunchError), (6, LaunchError), (99, LaunchError)):
            raised = _launch_abi.failure(status, error)
            self.assertIsInstance(raised, kind)
            self.assertIn("libtunefarm-launch answered", str(raised))
        error.message = b"no such kernel"
        self.assertEqual(str(_launch_abi.failure(2, error)), "no such kernel")

    @unittest.skipUnless(shutil.which("cc"), "there is no C compiler")
    def test_the_structures_are_those_of_the_header(self):
        structures = dict(_launch_abi.SIZED, tunefarm_dim=_launch_abi.Dim)
        lines, expected = [], []
        for name, structure in structures.items():
            lines.append(f'printf("%zu\\n", sizeof({name}));')
            expected.append(ctypes.sizeof(structure))
            for field, _ in structure._fields_:
                lines.append(f'printf("%zu\\n", offsetof({name}, {field}));')
                expected.append(getattr(structure, field).offset)
        for number, name in _launch_abi.ACCESSES.items():
            lines.append(f'printf("%d\\n", TUNEFARM_{name});')
            expected.append(number)
        for number, name in enumerate(("BOOL", "INT", "FLOAT", "STRING")):
            lines.append(f'printf("%d\\n", TUNEFARM_{name});')
            expected.append(number)
        # Each function is declared as something that ctypes calls with the same number of parameters.
        header = (HEADERS / "tunefarm" / "launch.h").read_text(encoding="utf-8")
        for name, (_, parameters) in _launch_abi.FUNCTIONS.items():
            declared = re.search(rf"\b{name}\(([^)]*)\);", header).group(1)
            self.assertEqual(len(parameters), declared.count(",") + 1, name)
        program = "#include <stdio.h>\n#include <tunefarm/launch.h>\nint main(void) {\n" + "\n".join(lines) + "\nreturn 0;\n}\n"
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder) / "layout.c"
            source.write_text(program)
            subprocess.run(["cc", "-std=c99", "-Wall", "-Werror", f"-I{HEADERS}", source, "-o", f"{folder}/layout"], check=True, timeout=600)
            printed = subprocess.run([f"{folder}/layout"], check=True, capture_output=True, text=True, timeout=600).stdout
        self.assertEqual([int(line) for line in printed.split()], expected)


if __name__ == "__main__":
    unittest.main()
