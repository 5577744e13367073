"""The package itself: what is in it, what it needs, what its public names promise."""

import ast
import importlib
import importlib.util
import inspect
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

import tunefarm

SOURCE = pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"]) / "client" / "python"


class Package(unittest.TestCase):
    def test_the_assembled_package_is_the_source_and_the_stubs(self):
        assembled = pathlib.Path(tunefarm.__file__).parent
        for file in (SOURCE / "tunefarm").rglob("*.py"):
            copy = assembled / file.relative_to(SOURCE / "tunefarm")
            self.assertEqual(copy.read_text(), file.read_text(), f"{copy}: is it listed in client/python/CMakeLists.txt?")
        for proto in (SOURCE.parents[1] / "proto" / "tunefarm" / "v1").glob("*.proto"):
            for suffix in ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py"):
                self.assertTrue((assembled / "v1" / (proto.stem + suffix)).exists(), proto)

    def test_newer_runtimes_of_protobuf_take_the_stubs(self):
        for file in (pathlib.Path(tunefarm.__file__).parent / "v1").glob("*_pb2*.py"):
            text = file.read_text()
            # What protoc from 5.26 on generates demands a runtime at least as new.
            self.assertNotIn("ValidateProtobufRuntimeVersion", text, file)
            # From 3.20 on the runtime's builder makes the classes; what older ones do themselves, 4 and later refuse.
            imported = set(re.findall(r"^(?:from (google[\w.]*) )?import (\w+)(?: as \w+)?$", text, re.MULTILINE))
            self.assertLessEqual(imported, {("", "grpc"), ("google.protobuf", "descriptor"), ("google.protobuf", "descriptor_pool"),
                                            ("google.protobuf", "symbol_database"), ("google.protobuf.internal", "builder")}, file)
            if file.name.endswith("_pb2.py"):
                self.assertIn("_builder.BuildTopDescriptorsAndMessages(", text, file)

    def test_the_client_keeps_to_what_every_runtime_of_protobuf_has(self):
        # Gone in 5, 6 or 7: classes by factory and symbol database, generic services, labels of fields.
        gone = re.compile(r"message_factory|symbol_database|reflection|GetPrototype|including_default_value_fields|float_precision|"
                          r"\.label\b.*descriptor|service_reflection")
        for file in (SOURCE / "tunefarm").rglob("*.py"):
            for line in file.read_text().splitlines():
                if "google" in line or "_pb2" in line or "DESCRIPTOR" in line:
                    self.assertIsNone(gone.search(line), f"{file}: {line}")
            imported = re.findall(r"^from google\.protobuf import (.*)$", file.read_text(), re.MULTILINE)
            self.assertLessEqual(set(imported), {"text_format"}, file)

    def test_python_3_9_can_read_it(self):
        for folder in ("tunefarm", "examples"):
            for file in (SOURCE / folder).rglob("*.py"):
                ast.parse(file.read_text(), str(file), feature_version=(3, 9))

    def test_tuning_scripts_need_neither_grpc_nor_anything_else(self):
        blocked = ("grpc", "google", "numpy", "pandas", "torch", "triton", "cupy", "tqdm")
        code = f"import sys; sys.modules.update(dict.fromkeys({blocked!r})); import tunefarm.grouped_gemm.tuning, tunefarm.tune.utils"
        subprocess.run([sys.executable, "-c", code], check=True, timeout=600)

    def test_a_build_demands_a_generator_where_none_is_installed(self):
        if importlib.util.find_spec("setuptools") is None:
            self.skipTest("setuptools is not installed")
        code = "from setuptools import build_meta; print('demands', *build_meta.get_requires_for_build_wheel())"
        with tempfile.TemporaryDirectory() as folder:
            tree, tools = pathlib.Path(folder) / "tree", pathlib.Path(folder) / "tools"
            shutil.copytree(SOURCE, tree)
            tools.mkdir()
            for installed in ([], ["protoc"], ["protoc", "grpc_python_plugin"]):
                for name in installed:
                    (tools / name).touch(mode=0o755)
                done = subprocess.run([sys.executable, "-c", code], cwd=tree, env={"PATH": str(tools)}, check=True, timeout=600,
                                      capture_output=True, text=True)
                (line,) = [line for line in done.stdout.splitlines() if line.startswith("demands")]
                self.assertEqual("grpcio-tools" in line, len(installed) < 2, done.stdout)

    def test_the_version_is_the_projects(self):
        text = (SOURCE.parents[1] / "CMakeLists.txt").read_text()
        self.assertEqual(re.search(r"project\(tunefarm VERSION (\S+)", text).group(1), tunefarm.__version__)

    def test_public_names(self):
        for name in tunefarm.__all__:
            thing = getattr(tunefarm, name)
            self.assertTrue(inspect.getdoc(thing), name)
            self.assertNotIn("_pb2", thing.__module__)
        for name, call in vars(tunefarm.Client).items():
            if not name.startswith("_"):
                self.assertTrue(inspect.getdoc(call), name)
                self.assertNotIn("_pb2", str(inspect.signature(call)))
        with self.assertRaises(AttributeError):
            tunefarm.no_such_name

    def test_tune_is_a_package_and_a_function(self):
        for first in ("import tunefarm.tune.utils", "from tunefarm import tune", "tunefarm.Client", ""):
            code = f"""import tunefarm
{first}
import unittest.mock, tunefarm.client
with unittest.mock.patch("tunefarm.client.tune_job") as tune_job:
    assert tunefarm.tune("k", server="unix:/s", dims={{"N": 5}}) is tune_job.return_value
tune_job.assert_called_once_with("k", server="unix:/s", dims={{"N": 5}})
from tunefarm.tune.utils import tune_kernel
"""
            subprocess.run([sys.executable, "-c", code], check=True, timeout=600)
        self.assertTrue(callable(tunefarm.tune))
        self.assertIn("kernel", inspect.signature(tunefarm.tune).parameters)

    def test_the_wheel_installs_without_network_and_tools(self):
        sys.path.insert(0, str(SOURCE))
        try:
            make_wheel = importlib.import_module("make_wheel").make_wheel
        finally:
            sys.path.remove(str(SOURCE))
        with tempfile.TemporaryDirectory() as folder:
            wheel = make_wheel(pathlib.Path(tunefarm.__file__).parent, folder)
            first = wheel.read_bytes()
            self.assertEqual(make_wheel(pathlib.Path(tunefarm.__file__).parent, folder).read_bytes(), first)
            with zipfile.ZipFile(wheel) as archive:
                names = archive.namelist()
                metadata = archive.read(f"tunefarm-{tunefarm.__version__}.dist-info/METADATA").decode()
            for needed in ("Requires-Python: >=3.9", "Requires-Dist: grpcio>=1.51", "Requires-Dist: protobuf>=4.21",
                           'Requires-Dist: pandas; extra == "frames"', "License: MIT"):
                self.assertIn(needed + "\n", metadata)
            self.assertIn("tunefarm/py.typed", names)
            self.assertIn(f"tunefarm-{tunefarm.__version__}.dist-info/LICENSE", names)
            self.assertIn("tunefarm/v1/kernel_pb2.py", names)
            where = pathlib.Path(folder) / "installed"
            # A wheel of Python alone may be imported as it is; pip checks its lists and digests too.
            if importlib.util.find_spec("pip") is None:
                where = wheel
            else:
                subprocess.run([sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--quiet", "--target",
                                str(where), str(wheel)], check=True, timeout=600)
            code = "import tunefarm; tunefarm.Client; print(tunefarm.__file__)"
            done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(where)}, check=True,
                                  timeout=600, capture_output=True, text=True)
            self.assertTrue(done.stdout.startswith(str(where)), done.stdout)


if __name__ == "__main__":
    unittest.main()
