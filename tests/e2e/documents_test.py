"""The commands that README.md and the pages of the folders show: each runs, in the order of its page, or says on its line
that it needs a GPU, or has the name of one of several machines before its prompt. Exit codes other than 0 are stated at
the end of the line. Of those that cannot run here every option must exist. Where the dashboard's page could not be built,
commands that need it are named and left out, unless TUNEFARM_REQUIRE_BROWSER is 1.
"""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile
import unittest

BIN = pathlib.Path(os.environ["TUNEFARM_BIN_DIR"])
ROOT = pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"])

OURS = ("tunefarm", "tunefarmd", "./dev")
GPU_MARK = "needs a GPU"
NO_PAGE = "built without the dashboard's page"
SECONDS_MAX = 1000  # of one command; a hang, not a judgement of speed
# A page's commands run in a folder with these files: name -> where it comes from.
FILES = {"kernel.json": "tests/data/t1/running_sum.json", "running_sum.cc": "tests/data/t1/running_sum.cc",
         "values.npy": "kernels/examples/spmv/matrix/values.npy", "x.npy": "kernels/examples/spmv/matrix/values.npy"}


def commands(page):
    """(line number, command, comment, whether the prompt names a machine) of each line of a page's code blocks that calls a
    program of ours."""
    found, inside = [], False
    for number, line in enumerate((ROOT / page).read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("```"):
            inside = not inside
            continue
        if not inside:
            continue
        prompt = re.match(r"([\w-]*)\$ ", line)
        host = bool(prompt and prompt.group(1))
        line = line[prompt.end():] if prompt else line
        command, _, comment = line.partition(" #")
        words = command.split()
        while words and re.match(r"[A-Z_]+=", words[0]):
            words = words[1:]
        if len(words) > 1 and words[0] in OURS and re.match(r"[a-z-]", words[1]):
            found.append((number, command.strip(), comment, host))
    return found


def pages():
    listed = subprocess.run(["git", "-c", "safe.directory=*", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True,
                            check=True).stdout.split()
    return [page for page in listed if not page.startswith("tests/bench/results/")]


def options_of(words):
    """The options that a command line uses, without their values."""
    return [re.match(r"--?[\w-]+", word).group(0) for word in words if re.match(r"--?[A-Za-z]", word)]


class Documents(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tunefarm-documents."))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        runtime = self.folder / "runtime"
        runtime.mkdir(mode=0o700)
        self.work = self.folder / "work"
        self.work.mkdir()
        for name, source in FILES.items():
            shutil.copy(ROOT / source, self.work / name)
        self.environment = {"PATH": f"{BIN}:/usr/bin:/bin", "HOME": str(self.folder), "XDG_RUNTIME_DIR": str(runtime),
                            "XDG_DATA_HOME": str(self.folder / "data"), "LANG": "C.UTF-8"}
        self.addCleanup(self.run_line, "tunefarm stop")

    def run_line(self, line):
        return subprocess.run(["bash", "-c", line], cwd=self.work, env=self.environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=SECONDS_MAX)

    def check_options(self, where, command):
        """Every option of the command is in the help of its program or of one of its subcommands."""
        words = shlex.split(command.split(" > ")[0].rstrip("& "))
        while re.match(r"[A-Z_]+=", words[0]):
            words = words[1:]
        help_text = self.run_line(f"{words[0]} --help").stdout
        if words[0] == "tunefarm":
            plain = [word for word in words[1:] if re.fullmatch(r"[a-z][a-z0-9-]*", word)]
            for depth in (1, 2):
                answer = self.run_line(shlex.join(["tunefarm", *plain[:depth], "--help"]))
                if answer.returncode == 0:
                    help_text += answer.stdout
        for option in options_of(words[1:]):
            self.assertRegex(help_text, rf"(^|[ ,]){re.escape(option)}\b", f"{where}: {option} is not in the help")

    def run_page(self, page):
        for number, command, comment, host in commands(page):
            where = f"{page}:{number}: {command}"
            if command.startswith("./dev"):
                continue  # tests/install/readme_commands.sh runs those of README.md, continuous integration ./dev test
            if host or GPU_MARK in comment:
                self.check_options(where, command)
                continue
            done = self.run_line(command)
            if NO_PAGE in done.stderr and os.environ.get("TUNEFARM_REQUIRE_BROWSER") != "1":
                print(f"NOT TESTED: {where}: the programs were {NO_PAGE}", flush=True)
                continue
            expected = re.search(r"exit code (\d)$", comment)
            self.assertEqual(done.returncode, int(expected.group(1)) if expected else 0,
                             f"{where}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")

    def test_every_page_with_commands_is_run(self):
        wanted = {page for page in pages() if any(not command.startswith("./dev") for _, command, _, _ in commands(page))}
        tested = {page for name in dir(self) if (page := getattr(getattr(self, name), "page", None))}
        self.assertEqual(wanted - tested, set(), "pages whose commands no test runs")
        self.assertEqual(tested - wanted, set(), "pages without commands")


def page_test(page):
    def test(self):
        self.run_page(page)
    test.page = page
    return test


for each in ("README.md", "client/cli/README.md", "kernels/fused_moe/README.md", "kernels/grouped_gemm/README.md", "server/access/README.md",
             "server/daemon/OPERATING.md", "server/web/README.md", "server/cmake/bundle_readme.md"):
    setattr(Documents, "test_" + re.sub(r"\W", "_", each), page_test(each))

if __name__ == "__main__":
    unittest.main()
