"""The examples of client/examples: the C program compiles without a warning against the header and the library alone, and
without a GPU each says in one sentence why it does not go on. tests/e2e/launch_python_test.py runs them."""

import ast
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"])
LIBRARY = pathlib.Path(os.environ["TUNEFARM_LAUNCH_LIBRARY"])
EXAMPLES = SOURCE / "client" / "examples"
LINES_MAX = 60
HANG_SECONDS = 600


def compile_vector_add(folder):
    """The program's path."""
    program = pathlib.Path(folder) / "vector_add"
    subprocess.run(["cc", "-std=c99", "-Wall", "-Werror", "-O2", f"-I{SOURCE / 'client' / 'launch' / 'include'}",
                    EXAMPLES / "vector_add.c", LIBRARY, f"-Wl,-rpath,{LIBRARY.parent}", "-ldl", "-o", program], check=True,
                   timeout=HANG_SECONDS)
    return program


class Examples(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def failure(self, *command, **environment):
        """What a command that must fail prints."""
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=HANG_SECONDS,
                              env=dict(os.environ, **environment), stdin=subprocess.DEVNULL)
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        return done.stderr

    def test_the_c_program_without_a_gpu_or_a_package(self):
        program = compile_vector_add(self.folder)
        self.assertRegex(self.failure(program, "vector_add.tfpack", CUDA_VISIBLE_DEVICES=""), r"^vector_add: this machine has no CUDA")
        self.assertIn("nowhere.tfpack", self.failure(program, "nowhere.tfpack", "cpu"))
        (self.folder / "text.tfpack").write_text("no package\n" * 100)
        self.assertRegex(self.failure(program, "text.tfpack", "cpu"), r"^vector_add: \S")
        self.assertIn("PACKAGE [cpu]", self.failure(program))

    def test_the_cupy_script_without_cupy(self):
        script = EXAMPLES / "vector_add_cupy.py"
        ast.parse(script.read_text(encoding="utf-8"), str(script), feature_version=(3, 9))
        code = f"import runpy, sys; sys.modules['cupy'] = None; sys.argv = ['x', 'y']; runpy.run_path({str(script)!r}, run_name='__main__')"
        self.assertIn("CuPy is not installed", self.failure(sys.executable, "-c", code))

    def test_the_torch_script_without_torch(self):
        script = EXAMPLES / "moe_layer_torch.py"
        ast.parse(script.read_text(encoding="utf-8"), str(script), feature_version=(3, 9))
        code = f"import runpy, sys; sys.modules['torch'] = None; sys.argv = ['x']; runpy.run_path({str(script)!r}, run_name='__main__')"
        self.assertRegex(self.failure(sys.executable, "-c", code), "^moe_layer_torch.py: .*torch")

    def test_each_is_short(self):
        for file in EXAMPLES.iterdir():
            self.assertLess(len(file.read_text(encoding="utf-8").splitlines()), LINES_MAX, file)


if __name__ == "__main__":
    unittest.main()
