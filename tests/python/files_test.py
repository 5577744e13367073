"""Reading and writing files as the command line does."""

import os
import pathlib
import stat
import tempfile
import unittest

from tunefarm import _definitions, _files
from tunefarm.errors import InvalidArgumentError, NotFoundError


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_a_file_is_replaced_and_keeps_its_mode(self):
        file = self.folder / "file"
        _files.write(file, "é\n")
        self.assertEqual(file.read_bytes(), "é\n".encode())
        file.chmod(0o604)
        before = file.stat().st_ino
        _files.write(file, "new")
        self.assertEqual((file.read_text(), stat.S_IMODE(file.stat().st_mode)), ("new", 0o604))
        self.assertNotEqual(file.stat().st_ino, before)
        self.assertEqual(os.listdir(self.folder), ["file"])

    def test_links_are_followed(self):
        (self.folder / "target").write_text("old")
        (self.folder / "link").symlink_to("target")
        (self.folder / "chain").symlink_to(self.folder / "link")
        (self.folder / "dangling").symlink_to("fresh")
        (self.folder / "circle").symlink_to("circle")
        _files.write(self.folder / "chain", "new")
        _files.write(self.folder / "dangling", "fresh")
        self.assertEqual(((self.folder / "target").read_text(), (self.folder / "fresh").read_text()), ("new", "fresh"))
        self.assertTrue((self.folder / "link").is_symlink() and (self.folder / "dangling").is_symlink())
        with self.assertRaisesRegex(InvalidArgumentError, "symbolic links"):
            _files.write(self.folder / "circle", "x")

    def test_pipes_and_devices_are_written_into(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        _files.write(pipe, "text")
        self.assertEqual(os.read(reader, 10), b"text")
        self.assertTrue(stat.S_ISFIFO(pipe.stat().st_mode))
        (self.folder / "full").symlink_to("/dev/full")
        with self.assertRaises(OSError):
            _files.write(self.folder / "full", "x")
        with open(self.folder / "open", "w+b") as file:
            _files.write(f"/proc/self/fd/{file.fileno()}", "one ")
            _files.write(f"/proc/self/fd/{file.fileno()}", "two")
            self.assertEqual(file.read(), b"one two")

    def test_only_regular_files_are_read(self):
        os.mkfifo(self.folder / "kernel.pbtxt")
        with self.assertRaisesRegex(InvalidArgumentError, "not a regular file"):
            _definitions.load(self.folder / "kernel.pbtxt")
        with self.assertRaisesRegex(InvalidArgumentError, "not a regular file"):
            _files.read("/dev/zero", 10)
        with self.assertRaisesRegex(InvalidArgumentError, "a directory"):
            _files.read(self.folder, 10)
        with self.assertRaises(NotFoundError):
            _files.read(self.folder / "none", 10)
        (self.folder / "file").write_text("12345")
        self.assertEqual(_files.read(self.folder / "file", 5), b"12345")
        with self.assertRaisesRegex(InvalidArgumentError, "larger than 4"):
            _files.read(self.folder / "file", 4)


if __name__ == "__main__":
    unittest.main()
