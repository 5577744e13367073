"""client/cli/demo.sh: the commands with which it ends work in the shell of its reader."""

import os
import pathlib
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"])
BIN = pathlib.Path(os.environ["TUNEFARM_BIN_DIR"])
# The demo's own search takes minutes; what it prints does not depend on how long it is.
FEW_TRIALS = """#!/bin/sh
if [ "$1" = tune ]; then set -- "$@" --max-trials 3; fi
exec '{bin}/tunefarm' "$@"
"""


class Demo(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tunefarm-demo.")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.bin = self.folder / "b in"
        self.bin.mkdir()
        program = self.bin / "tunefarm"
        program.write_text(FEW_TRIALS.format(bin=BIN))
        program.chmod(0o755)
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith(("TUNEFARM_", "CUDA_"))}
        self.environment.update(TUNEFARM_DATA_DIR=str(self.folder / "data"), TUNEFARM_KERNELS=str(SOURCE / "kernels"),
                                CUDA_VISIBLE_DEVICES="")
        self.addCleanup(subprocess.run, [BIN / "tunefarm", "stop"], env=self.environment, capture_output=True)

    def demo(self):
        """The command lines that it prints for copying."""
        done = subprocess.run([SOURCE / "client/cli/demo.sh", self.bin], env=self.environment, cwd=self.folder,
                              capture_output=True, text=True, timeout=600)
        self.assertEqual(done.returncode, 0, done.stderr)
        offered = done.stderr.split("Next:\n\n", 1)[1].split("\n\n", 1)[0].splitlines()
        return [line.strip() for line in offered]

    def test_the_commands_that_it_ends_with_work(self):
        # The demo does not use a daemon that the reader's environment names, and its commands unset the variable.
        self.environment["TUNEFARM_SERVER"] = f"unix:{self.folder}/nobody.sock"
        lines = self.demo()
        self.assertTrue(lines[0].startswith("export PATH="), lines)
        self.assertTrue(lines[1].startswith("unset TUNEFARM_SERVER"), lines)
        self.assertEqual([line.split()[:2] for line in lines[2:]],
                         [["tunefarm", "best"], ["tunefarm", "results"], ["tunefarm", "kernels"]])
        done = subprocess.run(["bash", "-e"], input="\n".join(lines) + "\n", env=self.environment, cwd=self.folder,
                              capture_output=True, text=True, timeout=600)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("match    EXACT", done.stdout)
        self.assertTrue((self.folder / "kernel.pbtxt").exists())


if __name__ == "__main__":
    unittest.main()
