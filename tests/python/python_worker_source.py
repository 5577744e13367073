"""The worker of kernels in Python, for its tests: its package, which is made importable, and the definitions of its
messages. Needs protobuf and protoc."""

import functools
import os
import pathlib
import subprocess
import sys
import tempfile

from google.protobuf import descriptor_pb2, message_factory

SOURCE = pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"])
PACKAGE = SOURCE / "server" / "worker" / "python" / "tunefarm_worker"
sys.path.insert(0, str(PACKAGE.parent))


@functools.lru_cache(None)
def files():
    """The definitions as protoc reads them."""
    with tempfile.NamedTemporaryFile() as out:
        subprocess.run(["protoc", f"-I{SOURCE / 'proto'}", "--include_imports", f"--descriptor_set_out={out.name}",
                        str(SOURCE / "proto" / "tunefarm" / "worker" / "v1" / "worker.proto")], check=True)
        return descriptor_pb2.FileDescriptorSet.FromString(pathlib.Path(out.name).read_bytes()).file


@functools.lru_cache(None)
def messages_by_name():
    """The classes of the messages, made from the definitions."""
    return message_factory.GetMessages(files())
