"""server/cmake/man_page.py: the manual pages say what the help texts say, and read as roff as it was meant."""

import gzip
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"])
BIN = pathlib.Path(os.environ["TUNEFARM_BIN_DIR"])
SCRIPT = SOURCE / "server" / "cmake" / "man_page.py"
HANG_SECONDS = 600
ODD = """#!/bin/sh
case "$*" in
  --version) echo "odd 1.2" ;;
  --help) cat <<'TEXT'
odd does things: it does them.

Usage: odd [OPTIONS]

Options:
  -x, --exact NAME="VALUE"
                            A back\\\\slash,
                            'quoted', ~home and x^2.
  --hidden                  .gitignore counts.

Examples:
  odd -x
  .odd

More text.
TEXT
  ;;
  *) exit 1 ;;
esac
"""


def page(program, section, folder, **environment):
    """The page as roff, without its escapes of single characters."""
    file = pathlib.Path(folder) / "page.gz"
    subprocess.run([sys.executable, SCRIPT, program, str(section), file], check=True, timeout=HANG_SECONDS,
                   env={**os.environ, **environment})
    text = gzip.decompress(file.read_bytes()).decode()
    for escape, character in (("\\-", "-"), ("\\(aq", "'"), ("\\(dq", '"'), ("\\(ti", "~"), ("\\(ha", "^")):
        text = text.replace(escape, character)
    return text


class ManPage(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def help_of(self, program, *words):
        return subprocess.run([BIN / program, *words], check=True, capture_output=True, text=True, timeout=HANG_SECONDS).stdout

    def test_every_command_and_option_of_the_programs_is_there(self):
        text = page(BIN / "tunefarm", 1, self.folder)
        self.assertRegex(text, r"\n\.SH NAME\ntunefarm - \w.*\n\.SH SYNOPSIS\n\.B tunefarm COMMAND")
        listed = self.help_of("tunefarm", "--help").split("Commands:\n", 1)[1].split("\n\n", 1)[0]
        commands = re.findall(r"(?m)^  (\w+)", listed)
        self.assertGreater(len(commands), 20)
        for command in commands:
            if command != "help":
                self.assertIn(f"\n.SS tunefarm {command}\n", text)
        for below in ("kernels new", "jobs pause", "best history", "certs issue"):
            self.assertIn(f"\n.SS tunefarm {below}\n", text)
        self.assertIn("\n.SH EXIT CODES\n", text)
        daemon = page(BIN / "tunefarmd", 8, self.folder)
        self.assertIn("\n.SH NAME\ntunefarmd - ", daemon)
        for option in re.findall(r"(?m)^  (--[\w-]+)", self.help_of("tunefarmd", "--help")):
            self.assertRegex(daemon, rf"\n\.B {option}\b")

    def test_texts_are_read_as_they_are_written_and_equal_each_time(self):
        program = self.folder / "odd"
        program.write_text(ODD)
        program.chmod(0o755)
        text = page(program, 1, self.folder, SOURCE_DATE_EPOCH="86400")
        self.assertEqual(text.split("\n")[:5], ['.TH ODD 1 1970-01-02 "odd 1.2"', ".SH NAME", "odd - does things", ".SH SYNOPSIS",
                                                ".B odd [OPTIONS]"])
        self.assertIn('\n.TP\n.B -x, --exact NAME="VALUE"\nA back\\e\\eslash, \'quoted\', ~home and x^2.\n', text)
        self.assertIn("\n.B --hidden\n\\&.gitignore counts.\n", text)
        self.assertIn("\n.SH EXAMPLES\n.nf\n  odd -x\n  .odd\n.fi\n.PP\nMore text.\n", text)
        self.assertEqual(page(program, 1, self.folder, SOURCE_DATE_EPOCH="86400"), text)

    def test_a_program_that_fails_makes_no_page(self):
        program = self.folder / "odd"
        program.write_text("#!/bin/sh\necho broken >&2\nexit 3\n")
        program.chmod(0o755)
        done = subprocess.run([sys.executable, SCRIPT, program, "1", self.folder / "page"], capture_output=True, text=True,
                              timeout=HANG_SECONDS)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"^man_page\.py: \S+ --help ends with 3: broken$")
        self.assertFalse((self.folder / "page").exists())


if __name__ == "__main__":
    unittest.main()
