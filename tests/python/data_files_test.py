"""The users' own data as the Python client reads and uploads it, against a service that plays the daemon's."""

import concurrent.futures
import contextlib
import hashlib
import io
import os
import pathlib
import struct
import tempfile
import threading
import unittest

import grpc
import numpy
import tunefarm
import float8_tensors
from tunefarm import _npy
from tunefarm.v1 import (data_file_service_pb2, data_file_service_pb2_grpc, error_pb2, job_pb2, kernel_pb2, kernel_service_pb2,
                         kernel_service_pb2_grpc, tuning_service_pb2, tuning_service_pb2_grpc)

MIB = 1 << 20


def refuse(context, code, message, reason, **metadata):
    detail = error_pb2.ErrorDetail(reason=reason, metadata=metadata)
    context.set_trailing_metadata((("grpc-status-details-bin", detail.SerializeToString()),))
    context.abort(code, message)


class Store(data_file_service_pb2_grpc.DataFileServiceServicer):
    """The contract of data_file_service.proto in memory."""

    def __init__(self):
        self.lock = threading.Lock()
        self.whole = {}
        self.begun = {}
        self.parts = 0
        self.before_part = lambda request, context: None  # called with each part, for what a test does in between

    def GetDataFile(self, request, context):
        with self.lock:
            return data_file_service_pb2.GetDataFileResponse(
                is_whole=request.digest in self.whole, received_bytes=len(self.begun.get(request.digest, b"")))

    def UploadDataFile(self, request, context):
        self.before_part(request, context)
        with self.lock:
            self.parts += 1
            assert 0 < len(request.part) <= MIB and 0 < request.total_bytes <= 2 << 30
            have = self.begun.setdefault(request.digest, bytearray())
            if request.offset <= len(have):
                have[request.offset:request.offset + len(request.part)] = request.part
            if len(have) < request.total_bytes:
                return data_file_service_pb2.UploadDataFileResponse(received_bytes=len(have))
            content = bytes(self.begun.pop(request.digest))
            if hashlib.sha256(content).hexdigest() != request.digest:
                refuse(context, grpc.StatusCode.INVALID_ARGUMENT, "another digest", "DATA_FILE_INVALID")
            self.whole[request.digest] = content
            return data_file_service_pb2.UploadDataFileResponse(is_whole=True, received_bytes=len(content))


class Taker(tuning_service_pb2_grpc.TuningServiceServicer, kernel_service_pb2_grpc.KernelServiceServicer):
    """Takes jobs and kernels whose data files are whole."""

    def __init__(self, store):
        self.store = store
        self.drops = 0  # how many calls find that the daemon has dropped everything since it was uploaded
        self.requests = []

    def _check(self, kernel, request, context):
        self.requests.append(request)
        if self.drops > 0:
            self.drops -= 1
            self.store.whole.clear()
        if any(one.buffer.fill.file.digest not in self.store.whole for one in kernel.arguments if one.buffer.fill.HasField("file")):
            refuse(context, grpc.StatusCode.FAILED_PRECONDITION, "is not on this daemon", "DATA_FILE_NOT_FOUND")

    def CreateJob(self, request, context):
        self._check(request.kernel_definition, request, context)
        return tuning_service_pb2.CreateJobResponse(job=job_pb2.Job(name="jobs/1"))

    def CreateKernel(self, request, context):
        self._check(request.kernel, request, context)
        return kernel_service_pb2.CreateKernelResponse(kernel=kernel_pb2.Kernel(name="kernels/k"))


class WithStore(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.store = Store()
        server = grpc.server(concurrent.futures.ThreadPoolExecutor(4))
        data_file_service_pb2_grpc.add_DataFileServiceServicer_to_server(self.store, server)
        self.taker = Taker(self.store)
        tuning_service_pb2_grpc.add_TuningServiceServicer_to_server(self.taker, server)
        kernel_service_pb2_grpc.add_KernelServiceServicer_to_server(self.taker, server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        self.addCleanup(lambda: server.stop(None).wait())
        self.client = tunefarm.Client(f"127.0.0.1:{port}", start=False)
        self.addCleanup(self.client.close)

    def saved(self, array, name="x.npy"):
        numpy.save(self.folder / name, array)
        return self.folder / name

    def held(self, file):
        return self.store.whole[file.digest]


class Uploading(WithStore):
    def test_files_and_arrays_of_the_same_elements_are_one(self):
        array = numpy.arange(600_000, dtype="f4")
        from_file = self.client.upload_file(self.saved(array))
        self.assertEqual((from_file.path, from_file.bytes, from_file.data_type),
                         ("x.npy", array.nbytes, kernel_pb2.DATA_TYPE_F32))
        self.assertEqual(self.held(from_file), array.tobytes())
        self.assertEqual(self.store.parts, 3)
        from_array = self.client.upload_array(array)
        self.assertEqual((from_array.path, from_array.digest, from_array.data_type),
                         ("", from_file.digest, kernel_pb2.DATA_TYPE_F32))
        (self.folder / "x.bin").write_bytes(array.tobytes())
        raw = self.client.upload_file(self.folder / "x.bin")
        self.assertEqual((raw.digest, raw.data_type), (from_file.digest, kernel_pb2.DATA_TYPE_UNSPECIFIED))
        self.assertEqual(self.store.parts, 3)  # nothing was sent again

    def test_large_uploads_show_how_far_they_are(self):
        content = numpy.zeros(9 * MIB, dtype="u1")
        for progress, expected in ((True, ["uploading the array: 0 B of 9 MiB"]), (False, [])):
            self.store.whole.clear()
            with contextlib.redirect_stderr(io.StringIO()) as said:
                self.client.upload_array(content, progress=progress)
                self.client.upload_array(content, progress=progress)  # nothing is sent
                self.client.upload_array(content[:MIB], progress=progress)
            self.assertEqual(said.getvalue().splitlines(), expected)

    def test_an_upload_is_continued(self):
        content = os.urandom(3 * MIB + 5)
        digest = hashlib.sha256(content).hexdigest()
        (self.folder / "x.bin").write_bytes(content)
        self.store.begun[digest] = bytearray(content[:2 * MIB])
        offsets = []
        self.store.before_part = lambda request, context: offsets.append(request.offset)
        self.client.upload_file(self.folder / "x.bin")
        self.assertEqual(offsets, [2 * MIB, 3 * MIB])
        self.assertEqual(self.store.whole[digest], content)

    def test_what_others_began_with_other_bytes_is_sent_anew(self):
        content = os.urandom(2 * MIB)
        digest = hashlib.sha256(content).hexdigest()
        self.store.begun[digest] = bytearray(MIB)
        self.assertEqual(self.client.upload_array(numpy.frombuffer(content, dtype="u1")).digest, digest)
        self.assertEqual(self.store.whole[digest], content)

    def test_what_the_daemon_dropped_is_sent_again(self):
        content = os.urandom(3 * MIB)
        digest = hashlib.sha256(content).hexdigest()
        dropped = []

        def drop_once(request, context):
            if request.offset == 2 * MIB and not dropped:
                dropped.append(self.store.begun.pop(digest))

        self.store.before_part = drop_once
        self.client.upload_array(numpy.frombuffer(content, dtype="u1"))
        self.assertEqual(self.store.whole[digest], content)
        self.assertEqual(len(dropped), 1)

    def test_a_daemon_that_keeps_nothing_is_given_up(self):
        self.store.before_part = lambda request, context: self.store.begun.clear()
        with self.assertRaisesRegex(tunefarm.AbortedError, "dropped"):
            self.client.upload_array(numpy.zeros(2 * MIB, dtype="u1"))

    def test_rates_are_waited_for_and_quotas_are_errors(self):
        asked = []

        def limit(request, context):
            asked.append(request.offset)
            if len(asked) == 1:
                refuse(context, grpc.StatusCode.RESOURCE_EXHAUSTED, "slower", "RATE_LIMIT", retry_after_ms="1")

        self.store.before_part = limit
        self.client.upload_array(numpy.ones(4))
        self.assertEqual(asked, [0, 0])
        self.store.before_part = lambda request, context: refuse(
            context, grpc.StatusCode.RESOURCE_EXHAUSTED, "full of files in use", "DATA_FILE_QUOTA")
        with self.assertRaisesRegex(tunefarm.ResourceExhaustedError, "the array: full of files in use .*DATA_FILE_QUOTA"):
            self.client.upload_array(numpy.ones(5))

    def test_files_that_change_while_they_are_read_are_refused(self):
        file = self.saved(numpy.zeros(3 * MIB, dtype="u1"))
        status = file.stat()

        def write(keep_time):
            def write_once(request, context):
                if request.offset == MIB:
                    with open(file, "r+b") as other:
                        other.seek(-1, os.SEEK_END)
                        other.write(b"\x01")
                    if keep_time:
                        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
            return write_once

        for keep_time in (False, True):  # seen by the time, and where that tells nothing by the daemon
            os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
            self.store.before_part = write(keep_time)
            with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "x.npy changed while it was read"):
                self.client.upload_file(file)
            self.store.begun.clear()
            self.saved(numpy.zeros(3 * MIB, dtype="u1"))
        self.store.before_part = lambda request, context: os.truncate(file, 2 * MIB)
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "x.npy changed while it was read"):
            self.client.upload_file(file)
        self.assertEqual(self.store.whole, {})


class Elements(WithStore):
    def test_types(self):
        for dtype, data_type in (("i1", "I8"), ("u1", "U8"), ("i2", "I16"), ("u2", "U16"), ("i4", "I32"), ("u4", "U32"),
                                 ("i8", "I64"), ("u8", "U64"), ("f2", "F16"), ("f4", "F32"), ("f8", "F64"), ("?", "U8")):
            array = numpy.array([0, 1, 1, 0]).astype(dtype)
            number = kernel_pb2.DataType.Value("DATA_TYPE_" + data_type)
            self.assertEqual(self.client.upload_array(array).data_type, number, dtype)
            self.assertEqual(self.client.upload_file(self.saved(array)).data_type, number, dtype)

    def test_raw_types_are_what_the_caller_says(self):
        bits = numpy.arange(6, dtype="u2")
        for array in (bits, bits.view("V2"), bits.view("i2")):
            for file in (self.client.upload_array(array, "bf16"), self.client.upload_file(self.saved(array), "bf16")):
                self.assertEqual((file.data_type, self.held(file)), (kernel_pb2.DATA_TYPE_BF16, bits.tobytes()))
        self.assertEqual(self.client.upload_array(bits.view("V2")).data_type, kernel_pb2.DATA_TYPE_UNSPECIFIED)
        (self.folder / "raw").write_bytes(bits.tobytes())
        self.assertEqual(self.client.upload_file(self.folder / "raw", "bf16").data_type, kernel_pb2.DATA_TYPE_BF16)
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "elements of type f32, not bf16"):
            self.client.upload_array(numpy.ones(3, dtype="f4"), "bf16")
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "raw elements of 16 bits, not f32"):
            self.client.upload_array(bits.view("V2"), "f32")
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "12 bytes, which is no multiple of the 8"):
            self.client.upload_file(self.folder / "raw", "f64")
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "'float'; write one of i8, "):
            self.client.upload_array(bits, "float")

    def test_bytes_are_the_bits_of_f8e4m3(self):
        bits = numpy.arange(6, dtype="u1")
        (self.folder / "raw").write_bytes(bits.tobytes())
        files = [self.client.upload_file(self.folder / "raw", "f8e4m3")]
        for array in (bits, bits.view("V1")):
            files += self.client.upload_array(array, "f8e4m3"), self.client.upload_file(self.saved(array), "f8e4m3")
        for file in files:
            self.assertEqual((file.data_type, self.held(file)), (kernel_pb2.DATA_TYPE_F8E4M3, bits.tobytes()))
        for array, shown in ((bits.view("i1"), "i8"), (bits < 3, "truth values"), (bits.astype("f4"), "f32")):
            with self.assertRaisesRegex(tunefarm.InvalidArgumentError, f"elements of type {shown}, not f8e4m3"):
                self.client.upload_array(array, "f8e4m3")
        # As ml_dtypes writes float8_e5m2.
        header = "{'descr': '<f1', 'fortran_order': False, 'shape': (6,), }\n"
        (self.folder / "f1.npy").write_bytes(npy(header, bits.tobytes()))
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError, r"elements of type float8_e5m2 \(dtype f1\), not f8e4m3"):
            self.client.upload_file(self.folder / "f1.npy", "f8e4m3")
        self.assertEqual(self.client.upload_file(self.folder / "f1.npy", "u8").data_type, kernel_pb2.DATA_TYPE_U8)

    def test_tensors_of_float8(self):
        bits = numpy.arange(6, dtype="u1")
        with float8_tensors.installed() as tensor:
            file = self.client.upload_array(tensor("float8_e4m3fn", bits))
            self.assertEqual((file.data_type, self.held(file)), (kernel_pb2.DATA_TYPE_F8E4M3, bits.tobytes()))
            self.assertEqual(self.client.upload_array(tensor("float8_e4m3fn", bits), "u8").data_type, kernel_pb2.DATA_TYPE_U8)
            self.assertEqual(self.client.upload_array(tensor("float8_e5m2", bits)).data_type, kernel_pb2.DATA_TYPE_U8)
            with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "elements of type float8_e5m2, not f8e4m3"):
                self.client.upload_array(tensor("float8_e5m2", bits), "f8e4m3")

    def test_arrays_are_taken_in_row_major_order(self):
        array = numpy.arange(6, dtype="i4").reshape(2, 3)
        for given in (numpy.asfortranarray(array), array.astype(">i4"), numpy.repeat(array, 2, axis=1)[:, ::2]):
            self.assertEqual(self.held(self.client.upload_array(given)), array.tobytes())
        self.assertEqual(self.held(self.client.upload_array(numpy.float32(2))), numpy.float32(2).tobytes())

        class Convertible:
            def __array__(self, dtype=None, copy=None):
                return array

        self.assertEqual(self.held(self.client.upload_array(Convertible())), array.tobytes())

    def test_arrays_that_are_none(self):
        for given, why in ((numpy.array([None]), "pickled Python objects"), (numpy.zeros(2, "i4,f4"), "structured"),
                           (numpy.zeros(0), "no elements"), (numpy.array(["a"]), "dtype '<U1'"),
                           (numpy.zeros(2, "c8"), "dtype '<c8'"), ([1, 2], "the array is a list; give an array"),
                           (numpy.ma.masked_array([1, 2], [0, 1]), "mask")):
            with self.assertRaisesRegex(tunefarm.InvalidArgumentError, why):
                self.client.upload_array(given)


def npy(header, data=b"", version=b"\x01\x00", length=None):
    text = header.encode()
    length = len(text) if length is None else length
    return _npy.MAGIC + version + struct.pack("<H" if version == b"\x01\x00" else "<I", length) + text + data


DEFINITION = """
display_name: "k" language: HOST
sources { path: "k.cc" content: "x" }
dims { name: "N" default_value: 4 }
dims { name: "dtype" values: ["f32", "bf16"] default_value: "f32" }
arguments { name: "rows" buffer { data_type: I32 length: "N" access: IN fill { file: "data/rows.npy" } } }
arguments { name: "x" buffer { data_type_dim: "dtype" length: "N" access: IN fill { prepare_step: "draw" } } }
arguments { name: "w" buffer { data_type: F32 length: "N" access: INOUT fill { prepare_step: "draw" } } }
arguments { name: "y" buffer { data_type: F32 length: "N" access: OUT } }
prepare { step { name: "draw" kernel { entry: "draw" arguments: ["x", "w"] } } }
launches { kernel { entry: "k" arguments: ["rows", "x", "w", "y"] } }
reference { steps { kernel { entry: "reference" arguments: ["rows", "x", "w", "y"] } } }
"""


class Definitions(WithStore):
    def setUp(self):
        super().setUp()
        (self.folder / "data").mkdir()
        (self.folder / "kernel.pbtxt").write_text(DEFINITION)
        self.rows = numpy.arange(4, dtype="i4")
        self.saved(self.rows, "data/rows.npy")

    def filled(self, inputs=None, expected=None, upload=True):
        return self.client._definition(self.folder, inputs, expected, self.client._data_link(None, False) if upload else None, None)[1]

    def fill_of(self, definition, name):
        return next(one.buffer.fill for one in definition.arguments if one.name == name)

    def test_files_of_the_definition_are_named_by_digest(self):
        definition = self.filled()
        file = self.fill_of(definition, "rows").file
        self.assertEqual((file.path, file.bytes, file.data_type, file.digest),
                         ("data/rows.npy", 16, kernel_pb2.DATA_TYPE_I32, hashlib.sha256(self.rows.tobytes()).hexdigest()))
        self.assertEqual(self.held(file), self.rows.tobytes())
        self.assertFalse(self.fill_of(definition, "x").HasField("file"))
        y = next(one.buffer for one in definition.arguments if one.name == "y")
        self.assertFalse(y.HasField("fill"))  # an output has none
        self.store.whole.clear()
        self.assertEqual(self.filled(upload=False), definition)
        self.assertEqual(self.store.whole, {})

    def test_what_the_daemon_has_dropped_is_uploaded_once_more(self):
        for send in (self.client.submit, self.client.create_kernel):
            self.taker.requests.clear()
            self.taker.drops = 1
            send(self.folder)
            first, second = self.taker.requests
            self.assertEqual(first, second)  # the same request_id among all else
            self.assertEqual(list(self.store.whole.values()), [self.rows.tobytes()])
            self.taker.requests.clear()
            self.taker.drops = 2
            with self.assertRaisesRegex(tunefarm.FailedPreconditionError, "not on this daemon .*DATA_FILE_NOT_FOUND"):
                send(self.folder)
            self.assertEqual(len(self.taker.requests), 2)

    def test_files_lie_below_the_definition(self):
        with tempfile.NamedTemporaryFile(suffix=".npy") as other:
            (self.folder / "data" / "rows.npy").unlink()
            (self.folder / "data" / "rows.npy").symlink_to(other.name)
            with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "outside of its folder"):
                self.filled()
        for path in ("../rows.npy", "/etc/passwd", ""):
            (self.folder / "kernel.pbtxt").write_text(DEFINITION.replace("data/rows.npy", path))
            with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "argument 'rows': .*not a path below"):
                self.filled()
        self.filled({"rows": self.rows})  # what is replaced is not read

    def test_inputs_and_expected_take_the_place_of_the_definition(self):
        bits = numpy.arange(4, dtype="u2")
        floats = numpy.ones(4, dtype="f4")
        y = self.client.upload_array(floats)
        definition = self.filled({"x": bits, "w": str(self.saved(floats, "w.npy"))}, {"y": y, "w": floats})
        x = self.fill_of(definition, "x").file
        self.assertEqual((self.held(x), x.data_type), (bits.tobytes(), kernel_pb2.DATA_TYPE_UNSPECIFIED))
        # For people, in errors of the daemon: the file's name, an array's buffer.
        self.assertEqual((self.fill_of(definition, "w").file.path, x.path), ("w.npy", "x"))
        self.assertEqual(len(definition.prepare), 0)  # it would write over the data
        self.assertEqual(len(definition.reference.steps), 0)
        self.assertEqual([(one.buffer, one.file.digest) for one in definition.reference.files],
                         [("y", y.digest), ("w", y.digest)])

    def test_a_dim_of_fp8_is_f8e4m3(self):
        (self.folder / "kernel.pbtxt").write_text(DEFINITION.replace('"bf16"', '"fp8"'))
        bits, floats = numpy.arange(4, dtype="u1"), numpy.ones(4, dtype="f4")
        for array in (bits, bits.view("V1")):
            x = self.fill_of(self.filled({"x": array, "w": floats}), "x").file
            self.assertEqual((self.held(x), x.data_type), (bits.tobytes(), kernel_pb2.DATA_TYPE_UNSPECIFIED))
        with float8_tensors.installed() as tensor:
            x = self.fill_of(self.filled({"x": tensor("float8_e4m3fn", bits), "w": floats}), "x").file
            self.assertEqual((self.held(x), x.data_type), (bits.tobytes(), kernel_pb2.DATA_TYPE_F8E4M3))
            with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "holds float8_e5m2, and 'x' is f32 or f8e4m3; convert"):
                self.filled({"x": tensor("float8_e5m2", bits), "w": floats})
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "holds i8, and 'x' is f32 or f8e4m3; convert it"):
            self.filled({"x": bits.view("i1"), "w": floats})
        (self.folder / "kernel.pbtxt").write_text(DEFINITION.replace('data_type_dim: "dtype"', "data_type: F8E4M3"))
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "save the bits of its f8e4m3 elements as numpy.uint8"):
            self.filled({"x": bits < 2, "w": floats})
        # A kernel that takes bytes is given those of any tensor.
        (self.folder / "kernel.pbtxt").write_text(DEFINITION.replace('data_type_dim: "dtype"', "data_type: U8"))
        with float8_tensors.installed() as tensor:
            for name in ("float8_e4m3fn", "float8_e5m2"):
                x = self.fill_of(self.filled({"x": tensor(name, bits), "w": floats}), "x").file
                self.assertEqual(self.held(x), bits.tobytes())

    def test_what_does_not_fit_is_refused_before_anything_is_sent(self):
        self.saved(numpy.zeros(4, dtype="f8"), "data/rows.npy")
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError,
                                    r"rows.npy holds f64, and 'rows' is i32; save array.astype\(numpy.int32\) instead"):
            self.filled()
        floats = numpy.ones(4, dtype="f4")
        for inputs, expected, why in (
                ({"z": floats}, {}, "no buffer 'z'; its buffers are rows, x, w, y"),
                ({"y": floats}, {}, "does not read buffer 'y'"),
                ({}, {"x": floats}, "does not write 'x'"),
                ({"rows": self.rows, "x": floats}, {}, "prepare step 'draw' fills w too"),
                ({"x": floats.astype("c8")}, {}, "the array for 'x' has elements of dtype '<c8'"),
                ({"rows": self.rows.view("V2")}, {}, "raw elements of 16 bits, and 'rows' is i32"),
                ({"x": self.rows, "rows": self.rows}, {}, "holds i32, and 'x' is f32 or bf16; convert it"),
                ([floats], {}, "inputs is a value of type list; write a dict"),
                ({}, floats, "expected is a value of type ndarray; write a dict")):
            with self.assertRaisesRegex(tunefarm.InvalidArgumentError, why):
                self.filled(inputs, expected)
        (self.folder / "kernel.pbtxt").write_text(DEFINITION.replace("access: OUT", "access: SCRATCH"))
        for arguments in (({"y": floats}, None), (None, {"y": floats})):
            with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "buffer 'y' is scratch space"):
                self.filled(*arguments)


class Headers(WithStore):
    def assert_refused(self, content, why, name="x.npy"):
        (self.folder / name).write_bytes(content)
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError, f"{name} .*{why}") as caught:
            self.client.upload_file(self.folder / name)
        self.assertNotIn("\n", str(caught.exception))
        self.assertEqual(self.store.parts, 0)

    def test_versions_orders_and_spellings_that_are_read(self):
        data = struct.pack("<4f", 1, 2, 3, 4)
        for content in (
                npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }      \n", data),
                npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }\n", data, b"\x02\x00"),
                npy("{'shape': (2,2), \"fortran_order\" : False,'descr':'<f4'}", data, b"\x03\x00"),
                npy("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 4, 1), }\n", data)):
            (self.folder / "x.npy").write_bytes(content)
            self.assertEqual(self.held(self.client.upload_file(self.folder / "x.npy")), data)

    def test_what_is_refused(self):
        good = "{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }\n"
        data = bytes(16)
        for header, why in (
                (good.replace("False", "True").replace("(4,)", "(2, 2)"), r"Fortran order; save numpy.ascontiguousarray"),
                (good.replace("<f4", ">f4"), r"big-endian .*newbyteorder"),
                (good.replace("<f4", "|O"), "pickled Python objects"),
                (good.replace("'<f4'", "[('x', '<f4')]"), "structured dtype"),
                (good.replace("<f4", "<U1"), "dtype '<U1'"), (good.replace("<f4", "<c8"), "dtype '<c8'"),
                (good.replace("<f4", "<M8[ns]"), "dtype '<M8"), (good.replace("(4,)", "(4, 0)"), "no elements"),
                (good.replace("(4,)", "(5,)"), "truncated: .*20 bytes of elements, and 16 follow"),
                (good.replace("(4,)", "(3,)"), "4 bytes behind its elements"),
                (good.replace("(4,)", "(99999999999999, 99999999999999)"), "truncated"),
                (good.replace("(4,)", "(-4,)"), "damaged"), (good.replace("(4,)", "4"), "damaged"),
                (good.replace("False", "0"), "damaged"), (good.replace("'shape'", "'shop'"), "damaged"),
                (good.replace("(4,)", "(" * 3000), "damaged"), ("", "damaged"), ("{}", "damaged")):
            self.assert_refused(npy(header, data), why)
        self.assert_refused(npy(good, data)[:40], "truncated: its header is incomplete")
        self.assert_refused(npy(good, data)[:9], "truncated: its header is incomplete")
        self.assert_refused(npy(good, data, b"\x04\x00"), "version 4.0")
        self.assert_refused(npy(good, data, b"\x02\x00", 65537), "header of 65537 bytes")
        self.assert_refused(b"\x80\x04pickle", "is no .npy file")
        self.assert_refused(b"", "is no .npy file")
        self.assert_refused(b"PK\x03\x04", "archive", "x.npz")
        self.assert_refused(npy(good, data), "name that ends in .npy", "x.bin")
        self.assert_refused(b"", "no elements", "x.bin")

    def test_any_damage_is_a_sentence_or_read(self):
        whole = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }\n", bytes(16))
        file = self.folder / "x.npy"
        for place in range(len(whole)):
            for content in (whole[:place], whole[:place] + b"\xff" + whole[place + 1:]):
                file.write_bytes(content)
                try:
                    self.client.upload_file(file)
                except tunefarm.InvalidArgumentError:
                    pass

    def test_more_than_2_gib_is_refused(self):
        with open(self.folder / "x.bin", "wb") as file:
            file.truncate((2 << 30) + 1)
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "2147483649 bytes; a data file has at most"):
            self.client.upload_file(self.folder / "x.bin")

    def test_what_is_no_regular_file(self):
        os.mkfifo(self.folder / "pipe.npy")
        for name in ("pipe.npy", "."):
            with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "regular file"):
                self.client.upload_file(self.folder / name)
        with self.assertRaises(tunefarm.NotFoundError):
            self.client.upload_file(self.folder / "none.npy")


if __name__ == "__main__":
    unittest.main()
