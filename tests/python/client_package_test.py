"""Client.package against a service that plays the daemon's: what is asked, and what comes of it."""

import concurrent.futures
import contextlib
import pathlib
import tempfile
import unittest
from unittest import mock

import grpc
import tunefarm
from tunefarm import launch
from tunefarm.v1 import error_pb2, package_service_pb2, package_service_pb2_grpc

DEFINITION = """display_name: "scale" language: HOST sources { path: "scale.cc" }
parameters { name: "A" values: [1, 2] } arguments { name: "y" buffer { data_type: F32 length: 4 access: OUT } }
launches { kernel { entry: "scale" arguments: "y" } } unverified_reason: "a test"
"""


class Packages(package_service_pb2_grpc.PackageServiceServicer):
    def __init__(self):
        self.asked = []
        self.file_bytes = 9
        self.breaks = 0  # how many calls break off after the first part

    def ExportPackage(self, request, context):
        self.asked.append(request)
        if request.kernel == "absent":
            detail = error_pb2.ErrorDetail(reason="BEST_NOT_FOUND")
            context.set_trailing_metadata((("grpc-status-details-bin", detail.SerializeToString()),))
            context.abort(grpc.StatusCode.NOT_FOUND, "no best of absent is known")
        contents = package_service_pb2.PackageContents(file_bytes=self.file_bytes, bests=2, left_out=["one: why"], left_out_count=1)
        yield package_service_pb2.ExportPackageResponse(contents=contents)
        yield package_service_pb2.ExportPackageResponse(data=b"a pac")
        if self.breaks > 0:
            self.breaks -= 1
            context.abort(grpc.StatusCode.UNAVAILABLE, "going away")
        yield package_service_pb2.ExportPackageResponse(data=b"kage")


class ClientPackage(unittest.TestCase):
    def setUp(self):
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        self.folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self.packages = Packages()
        server = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
        package_service_pb2_grpc.add_PackageServiceServicer_to_server(self.packages, server)
        address = f"unix:{self.folder}/socket"
        server.add_insecure_port(address)
        server.start()
        stack.callback(server.stop, None)
        self.client = stack.enter_context(tunefarm.Client(address))
        self.opened = stack.enter_context(mock.patch.object(launch, "open_bytes", return_value=mock.Mock()))

    def test_filters_and_parts(self):
        package = self.client.package("matmul", "H100", {"M": [64, 128], "dtype": "bf16", "causal": True})
        self.opened.assert_called_once_with(b"a package")
        self.assertIs(package, self.opened.return_value)
        self.assertEqual(package.left_out, ("one: why",))
        (request,) = self.packages.asked
        self.assertEqual((request.kernel, request.device_class, len(request.definitions)), ("matmul", "H100", 0))
        self.assertEqual([(dim.dim, list(dim.values)) for dim in request.dims],
                         [("M", ["64", "128"]), ("dtype", ["bf16"]), ("causal", ["true"])])

    def test_a_path_goes_with_its_definition(self):
        (self.folder / "scale.cc").write_text('extern "C" void scale(float*) {}\n')
        path = self.folder / "scale.pbtxt"
        path.write_text(DEFINITION)
        self.client.package(path)
        (request,) = self.packages.asked
        self.assertEqual(request.kernel, "scale")
        self.assertEqual([source.content for source in request.definitions[0].sources], [b'extern "C" void scale(float*) {}\n'])

    def test_a_stream_that_breaks_is_asked_for_again(self):
        self.packages.breaks = 1
        self.client.package()
        self.opened.assert_called_once_with(b"a package")
        self.assertEqual(len(self.packages.asked), 2)

    def test_errors(self):
        with self.assertRaisesRegex(tunefarm.NotFoundError, "no best of absent") as raised:
            self.client.package("absent")
        self.assertEqual(raised.exception.reason, "BEST_NOT_FOUND")
        self.packages.file_bytes = 10
        with self.assertRaisesRegex(tunefarm.InternalError, "9 bytes of a package of 10"):
            self.client.package()
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "dim M"):
            self.client.package(dims={"M": None})
        self.opened.assert_not_called()


if __name__ == "__main__":
    unittest.main()
