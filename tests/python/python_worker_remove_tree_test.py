"""How the worker of kernels in Python (server/worker/python) removes what a config leaves."""

import os
import pathlib
import tempfile
import unittest

import python_worker_source  # noqa: F401, which makes tunefarm_worker importable
from tunefarm_worker.remove_tree import empty_directory, remove_tree


class RemoveTree(unittest.TestCase):
    def test_modes_depth_and_links_do_not_matter(self):
        with tempfile.TemporaryDirectory() as directory:
            top = f"{directory}/top"
            os.makedirs(f"{top}/a/b/c")
            pathlib.Path(f"{top}/a/b/c/file").write_text("x")
            pathlib.Path(f"{directory}/kept").write_text("x")
            os.symlink(directory, f"{top}/link")
            at = os.open(f"{top}/a", os.O_RDONLY)
            for _ in range(1500):
                os.mkdir("d", dir_fd=at)
                below = os.open("d", os.O_RDONLY, dir_fd=at)
                os.close(at)
                at = below
            os.close(at)
            for name in ("a/b/c", "a/b", "a", ""):
                os.chmod(f"{top}/{name}", 0)
            empty_directory(top)
            self.assertEqual(os.listdir(top), [])
            os.chmod(top, 0)
            remove_tree(top)
            remove_tree(top)
            self.assertEqual(os.listdir(directory), ["kept"])
            remove_tree(f"{directory}/kept")
            self.assertEqual(os.listdir(directory), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
