"""How the worker of kernels in Python (server/worker/python) packs the caches of compilers."""

import io
import os
import pathlib
import shutil
import tarfile
import tempfile
import unittest

import python_worker_source  # noqa: F401, which makes tunefarm_worker importable
from tunefarm_worker import kernel_module


class Caches(unittest.TestCase):
    def test_what_is_packed_is_unpacked_and_nothing_leads_out(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        inside = pathlib.Path(folder, "one", "deep")
        inside.mkdir(parents=True)
        (inside / "a.so").write_bytes(b"\x7fELF")
        (inside / "link").symlink_to("/etc/passwd")
        packed = kernel_module.pack(os.path.join(folder, "one"))
        self.assertEqual(packed, kernel_module.pack(os.path.join(folder, "one")))
        kernel_module.unpack(packed, os.path.join(folder, "two"))
        self.assertEqual([p.name for p in pathlib.Path(folder, "two", "deep").iterdir()], ["a.so"])
        for name, kind in (("../a.so", tarfile.REGTYPE), ("/tmp/a.so", tarfile.REGTYPE), ("a.so", tarfile.SYMTYPE),
                           ("", tarfile.REGTYPE), ("a.so", tarfile.FIFOTYPE)):
            out = io.BytesIO()
            with tarfile.open(fileobj=out, mode="w") as archive:
                member = tarfile.TarInfo(name)
                member.type, member.linkname = kind, "/etc/passwd"
                archive.addfile(member)
            with self.assertRaises(ValueError, msg=name):
                kernel_module.unpack(out.getvalue(), os.path.join(folder, "three"))
            self.assertEqual(list(pathlib.Path(folder, "three").glob("**/*")), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
