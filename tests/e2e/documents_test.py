"""The commands of the README files: what can run here runs, in the order of the page; of the rest every flag must exist.

A fenced block without a language holds commands. A line that cannot run here says why in a comment, or below a comment
line that says it for the rest of the block (MARKS), or by a prompt with the name of a host ("farm-1$ ").
"""

import gzip
import os
import pathlib
import re
import shlex
import shutil
import socket
import subprocess
import unittest
import urllib.request

from farm import BIN, HANG_SECONDS, KERNELS, Farm

SOURCE = KERNELS.parent
MARKS = ("needs a GPU", "several machines", "as root", "needs PostgreSQL", "needs Slurm", "needs Kubernetes")
PROMPT = re.compile(r"([\w-]*)\$ ")
# Exit codes that are no failure of the page (tunefarm help exit-codes): a config that crashes is no valid one.
EXIT_CODES = {"tunefarm run faulty_host FAULT=segfault": 5}
# Where the page's address of /metrics is that of the daemon here.
METRICS = "127.0.0.1:7071"
# The lines of the page are run as they stand, but with three configs a job, and times that a busy machine cannot spoil.
SHIM = """#!/bin/sh
case $1 in tune | submit) set -- "$@" --policy fast --measure noisy_relative_half_width=-1 --warm-cache ;; esac
case "$*" in *--max-trials*) ;; tune* | submit*) set -- "$@" --max-trials 3 ;; esac
exec "$TUNEFARM_BIN_DIR/tunefarm" "$@"
"""


def pages():
    for page in sorted(SOURCE.rglob("*.md")):
        name = page.relative_to(SOURCE)
        if name.parts[0] not in ("build", "shared") and "results" not in name.parts and not name.parts[0].startswith("."):
            yield str(name), page.read_text()


def comment_of(line):
    """What follows a # outside of quotes, and the line without it."""
    end = 0
    for word in re.finditer(r"""(?:[^\s"']|"[^"]*"|'[^']*')+""", line):
        if word.group().startswith("#"):
            return line[:end].rstrip(), line[word.start():]
        end = word.end()
    return line.rstrip(), ""


def commands(text):
    """(line number, command, whether it is marked) of each command of a page."""
    language, marked, has_prompt = None, False, False
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith("```"):
            language = line.strip()[3:] if language is None else None
            marked = False
            has_prompt = language == "" and PROMPT.match(lines[number]) is not None
            continue
        if language != "" or not line.strip():
            continue
        prompt = PROMPT.match(line)
        if has_prompt and prompt is None:
            continue  # what a command prints
        command, comment = comment_of(line[prompt.end():] if prompt else line)
        is_marked = any(mark in comment for mark in MARKS)
        if not command:
            marked = marked or is_marked
            continue
        yield number, command, marked or is_marked or bool(prompt and prompt.group(1))


def run(*words, **options):
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=HANG_SECONDS,
                          stdin=subprocess.DEVNULL, **options)


def help_of(program, words):
    """The help of the command that `words` name, and the options of every command."""
    if program == "tunefarmd":
        return run(BIN / program, "--help").stdout
    text = run(BIN / program, "--help").stdout
    names = re.findall(r"(?m)^  ([a-z]+) ", text[text.index("\nCommands:"):text.index("\nOptions:")])
    start = next((at for at, word in enumerate(words) if word in names), None)
    assert start is not None, f"'{program} {' '.join(words)}' names no command"
    for end in range(start + 1, len(words) + 1):
        done = run(BIN / program, "help", *words[start:end])
        if words[end - 1].startswith("-") or done.returncode != 0:
            break
        text += done.stdout
    return text


class Documents(unittest.TestCase):
    def check_flags(self, command):
        """Every flag of a command of ours exists."""
        words = shlex.split(command.rstrip("& "))
        while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
            words.pop(0)
        if words[0] == "./dev":
            usage = run(SOURCE / "dev", "help").stdout
            self.assertRegex(usage, rf"(?m)^  {re.escape(words[1])}\b", command)
        elif words[0] in ("tunefarm", "tunefarmd"):
            usage = help_of(words[0], words[1:])
        else:
            return
        for word in words[1:]:
            if word.startswith("-"):
                flag = re.escape(word.split("=")[0])
                self.assertRegex(usage, rf"(?<![\w-]){flag}(?![\w-])", f"{command}: there is no {word}")

    def prepare_command_line(self, farm, folder):
        """The files and jobs that the page speaks of."""
        data = SOURCE / "tests" / "data" / "t1"
        shutil.copy(data / "running_sum.json", folder / "kernel.json")
        shutil.copy(data / "running_sum.cc", folder)
        for number in range(1, 19):
            farm.cli("submit", "matmul_host", "--max-trials", "3", "--policy", "fast")
            if number < 17:
                farm.cli("jobs", "cancel", number, "--yes")
            farm.cli("jobs", "watch", number, check=False)
        results = farm.cli("export", "t4", "17").stdout
        (folder / "results.json.gz").write_bytes(gzip.compress(results.encode()))

    PREPARE = {"client/cli/README.md": prepare_command_line}

    def run_page(self, name, page_commands):
        with Farm("--http-listen", "127.0.0.1:0") as farm:
            farm.start()
            folder = farm.directory / "pages"
            (folder / "bin").mkdir(parents=True)
            (folder / "bin" / "tunefarm").write_text(SHIM)
            (folder / "bin" / "tunefarm").chmod(0o755)
            here = folder / "here"
            here.mkdir()
            if name in self.PREPARE:
                self.PREPARE[name](self, farm, here)
            metrics = re.search(r"http://(\S+)/metrics", farm.cli("status").stdout).group(1)
            environment = dict(os.environ, TUNEFARM_DATA_DIR=str(farm.directory), TUNEFARM_KERNELS=str(KERNELS),
                               PATH=f"{folder / 'bin'}:{BIN}:{os.environ['PATH']}")
            for name_ in ("TUNEFARM_SERVER", "TUNEFARM_STORE"):
                environment.pop(name_, None)
            for number, command in page_commands:
                with self.subTest(page=name, line=number):
                    done = run("bash", "-euo", "pipefail", "-c", command.replace(METRICS, metrics), cwd=here, env=environment)
                    self.assertEqual(done.returncode, EXIT_CODES.get(command, 0), f"{command}\n{done.stdout}{done.stderr}")

    def test_commands_of_the_pages(self):
        seen = set()
        for name, text in pages():
            here = []
            for number, command, is_marked in commands(text):
                with self.subTest(page=name, line=number):
                    self.check_flags(command)
                    self.assertEqual(run("bash", "-n", "-c", command).returncode, 0, command)
                # ./dev and what it builds are run by the tests themselves, and by tests/install/readme_commands.sh.
                if re.match(r"([A-Z_]+=\S+ )*(./dev|ctest|build/release/bin/\w+_test) ", command):
                    continue
                if not is_marked:
                    here.append((number, command))
            if here:
                seen.add(name)
                self.run_page(name, here)
        self.assertLessEqual({"README.md", "client/cli/README.md", "server/daemon/OPERATING.md"}, seen)

    def test_a_flag_that_does_not_exist_is_found(self):
        for command in ("tunefarm tune matmul --from-recording bests", "tunefarm recordings list", "tunefarmd --no-such",
                        "./dev test --everything", "./dev fly"):
            with self.assertRaises(AssertionError, msg=command):
                self.check_flags(command)
        self.check_flags("tunefarm --server farm1:7070 jobs cancel 17 --yes")

    def test_marks_prompts_and_output(self):
        text = "```\n$ tunefarm status   # needs a GPU\nran\n```\n```\nfarm-1$ tunefarm stop\n```\n```text\nno\n```\n" \
               "```\na 'x # y' #z\n# as root\nb\n```\n```\nc\n```\n"
        self.assertEqual(list(commands(text)), [(2, "tunefarm status", True), (6, "tunefarm stop", True),
                                                (12, "a 'x # y'", False), (14, "b", True), (17, "c", False)])

    def test_links_lead_somewhere(self):
        for name, text in pages():
            if name == "server/cmake/bundle_readme.md":
                continue  # its links are those of a bundle (bundle.sh)
            prose = re.sub(r"(?ms)^```.*?^```", "", text)
            for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", prose):
                if "://" not in link:
                    self.assertTrue((SOURCE / name).parent.joinpath(link).exists(), f"{name}: {link}")

    def test_the_table_of_metrics_is_what_daemons_serve(self):
        """A row of the page for each metric: name, type, description."""
        rows = set()
        for flags in ((), ("--role", "agent", "--control", "127.0.0.1:1")):
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                address = f"127.0.0.1:{free.getsockname()[1]}"
            with Farm("--http-listen", address, *flags) as farm:
                farm.start()
                if not flags:
                    farm.cli("tune", "matmul_host", "--max-trials", "1", "--policy", "fast")
                with urllib.request.urlopen(f"http://{address}/metrics", timeout=HANG_SECONDS) as answer:
                    page = answer.read().decode()
            types = dict(re.findall(r"(?m)^# TYPE (\S+) (\S+)$", page))
            rows |= {f"| `{name}` | {types[name]} | {text} |" for name, text in re.findall(r"(?m)^# HELP (\S+) (.*)$", page)}
        text = (SOURCE / "server" / "daemon" / "OPERATING.md").read_text()
        written = {line for line in text.splitlines() if re.match(r"\| `(tunefarm|process)_", line)}
        self.assertEqual(sorted(written), sorted(rows), "\n".join(sorted(rows)))


if __name__ == "__main__":
    unittest.main()
