"""Makes the wire's modules (tunefarm/v1/*_pb2*.py) while the wheel is built; all else stands in pyproject.toml.

protoc and grpc_python_plugin are taken from PATH (Debian: protobuf-compiler, protobuf-compiler-grpc), else the package
grpcio-tools, which pip then fetches for the build. What an old protoc generates runs with newer protobuf, not the other way round.
"""

import pathlib
import shutil
import subprocess
import sys

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = pathlib.Path(__file__).resolve().parent
PROTO = HERE.parents[1] / "proto"


def installed_generator():
    """protoc with its plugin as a command line, or None."""
    protoc, plugin = shutil.which("protoc"), shutil.which("grpc_python_plugin")
    return [protoc, f"--plugin=protoc-gen-grpc={plugin}"] if protoc and plugin else None


def generator():
    """The command line up to its options."""
    installed = installed_generator()
    if installed:
        return installed, "--grpc_out"
    try:
        import grpc_tools.protoc  # noqa: F401
    except ImportError:
        raise SystemExit("tunefarm: building needs protoc and grpc_python_plugin on PATH (Debian: protobuf-compiler, "
                         "protobuf-compiler-grpc), or the package grpcio-tools") from None
    return [sys.executable, "-m", "grpc_tools.protoc"], "--grpc_python_out"


class BuildWithStubs(build_py):
    def run(self):
        super().run()
        out = pathlib.Path(self.build_lib)
        if list((HERE / "tunefarm" / "v1").glob("*_pb2.py")):
            return  # an assembled tree has them
        files = sorted(str(file.relative_to(PROTO)) for file in PROTO.glob("tunefarm/v1/*.proto"))
        if not files:
            raise SystemExit(f"tunefarm: there are no definitions in {PROTO}; build from the whole source tree")
        command, grpc_flag = generator()
        subprocess.run([*command, f"-I{PROTO}", f"--python_out={out}", f"--pyi_out={out}", f"{grpc_flag}={out}", *files],
                       check=True)


# pip builds in an environment of its own, in which there is only what is named here.
setup(cmdclass={"build_py": BuildWithStubs}, setup_requires=[] if installed_generator() else ["grpcio-tools"])
