"""Search spaces that cost very much: sampled or refused with a sentence, while everybody else's calls and jobs go on."""

import pathlib
import random
import re
import subprocess
import tempfile
import unittest

import permitted
from farm import BIN, Farm, wait_until

HEAD = '''
display_name: "{name}"
language: LANGUAGE_HOST_CXX
sources {{ path: "tiny.cc" }}
dims {{ name: "SIZE" default_value {{ int_value: 64 }} }}
arguments {{ name: "y" buffer {{ data_type: DATA_TYPE_F32 length: "SIZE" access: ACCESS_OUT }} }}
arguments {{ name: "n" scalar {{ data_type: DATA_TYPE_I32 value: "SIZE" }} }}
launches {{ kernel {{ entry: "tiny" arguments: "y" arguments: "n" }} }}
reference {{ steps {{ kernel {{ entry: "tiny" arguments: "y" arguments: "n" }} }} }}
'''
SOURCE = 'extern "C" void tiny(float* y, int n) { for (int i = 0; i < n; ++i) y[i] = i; }\n'
DIMS = ["--dim", "M=64", "--dim", "N=64", "--dim", "K=64"]
NAMES = "abcdefgh"


def parameters(values):
    return "".join(f'parameters {{ name: "{name}" {values(name)} }}\n' for name in NAMES)


def floats(name):
    chosen = random.Random(name)
    return "values { " + " ".join(f"doubles: {chosen.random():.9f}" for _ in range(18)) + " }"


def strings(_):
    return "values { " + " ".join(f'strings: "s{i}"' for i in range(40)) + " }"


def ints(_):
    return "range { first: 1 last: 4096 }"


def rule(text):
    return f'constraints {{ expression: "{text}" }}\n'


SUM = "a * b + c * d - e * f + g * h"
BRANCHES = "a"
for divisor in range(2, 22):
    BRANCHES = f"(({BRANCHES}) if b % {divisor} == c % {divisor} else d * e - f)"
HOSTILE = {
    # No two prefixes lead to the same number, and some per cent of all points are valid.
    "sums": parameters(floats) + rule(f"{SUM} > 0.1 and {SUM} < 0.2"),
    # One in 10^5, and nothing is known before the last parameter.
    "remainders": parameters(ints) + rule("(a * b + c * d * e + f * g * h) % 104729 == 17"),
    # Almost none.
    "rare": parameters(ints) + rule("(a * b * c + d * e * f) % 1000003 == 17") + rule("(a * g + b * h + c) % 1000033 == 3"),
    "strings": parameters(strings)
    + rule("not (a == b and c == d) and (a != e or f != g) and (b != h or c == g) and ((a == f) != (h == e))"),
    "branches": parameters(ints) + rule(f"({BRANCHES}) % 7919 == 17"),
    "derived": parameters(ints)
    + "".join(f'derived {{ name: "v{i}" expression: "{f"v{i - 1}" if i else "a"} * {NAMES[i % 8]} % 104729 + 1" }}\n'
              for i in range(40))
    + rule("v39 % 17 == 3"),
    # Each rule is long, and they are many: to prepare the search takes long.
    "many_rules": parameters(ints) + "".join(
        rule("True" + "".join(f" and (a * {i + 2} + b * c + d * {j + 3} + e * f) % {i + j + 5} != g * h" for j in range(55)))
        for i in range(60)),
}
BUILDING = "building the space of"


def definition(farm, name):
    folder = pathlib.Path(tempfile.mkdtemp(dir=farm.directory))
    (folder / "kernel.pbtxt").write_text(HEAD.format(name=name) + HOSTILE[name])
    (folder / "tiny.cc").write_text(SOURCE)
    return folder


def submit(farm, name):
    """The number of the job; none: it was refused, with one sentence."""
    done = farm.cli("submit", definition(farm, name), "--policy", "fast", check=False)
    if done.returncode == 0:
        return int(done.stdout)
    message = [line for line in done.stderr.splitlines() if line.startswith("tunefarm: ")]
    assert len(message) == 1 and "fewer" in message[0], (name, done.stderr)
    return None


def job(farm, number):
    return farm.json("jobs", "show", number)


def begun_or_failed(seen):
    return seen.get("started_at_ms") or "FAILED" in seen["state"]


class Spaces(unittest.TestCase):
    def test_each_is_tried_or_refused_while_others_work(self):
        with Farm() as farm:
            farm.start()
            # Some seconds of a processor each; tests/unit/space has the other kinds.
            jobs = {name: submit(farm, name) for name in ("sums", "remainders", "strings")}
            self.assertIsNotNone(jobs["sums"], "most draws find a valid config of it soon")
            # All of them are in work, and nobody else waits for them.
            farm.cli("tune", "matmul_host", *DIMS, "--policy", "fast", "--max-trials", 3)
            self.assertEqual(farm.json("best", "matmul_host", "--exact", *DIMS)["match"], "MATCH_EXACT")
            for name, number in jobs.items():
                if number is None:
                    continue
                # Each begins, or fails with a sentence that says what to do.
                wait_until(lambda: begun_or_failed(job(farm, number)), f"the beginning of {name}")
                seen = job(farm, number)
                if "FAILED" in seen["state"]:
                    self.assertIn("fewer", seen.get("error") or seen.get("state_reason", ""))
                    continue
                farm.cli("jobs", "cancel", number, "--yes", check=False)  # it may have ended by itself
                wait_until(lambda: re.search("CANCELLED|SUCCEEDED", job(farm, number)["state"]), f"the end of {name}")
            self.assertEqual(farm.stop(), 0)

    def test_a_job_says_that_it_builds_its_space_and_is_cancelled_in_it(self):
        with Farm() as farm:
            farm.start()
            number = submit(farm, "remainders")
            wait_until(lambda: BUILDING in job(farm, number).get("state_reason", ""), "the word that the space is built")
            farm.cli("jobs", "cancel", number, "--yes")
            wait_until(lambda: "CANCELLED" in job(farm, number)["state"], "the job's end")
            # The next one has the threads.
            second = submit(farm, "remainders")
            wait_until(lambda: BUILDING in job(farm, second).get("state_reason", ""), "the next job's turn")
            # The daemon ends while the space is built, and takes the job up again.
            self.assertEqual(farm.stop(), 0)
            farm.start()
            wait_until(lambda: BUILDING in job(farm, second).get("state_reason", ""), "the same after a restart")
            self.assertEqual(farm.stop(), 0)

    def test_a_daemon_ends_while_spaces_are_counted(self):
        with Farm() as farm:
            farm.start()
            # Named, so that a call which comes late starts no daemon.
            environment = {"TUNEFARM_SERVER": f"unix:{farm.directory}/run/admin.sock", "PATH": "/usr/bin:/bin"}
            calls = [subprocess.Popen([BIN / "tunefarm", "submit", definition(farm, name)], env=environment,
                                      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                     for name in HOSTILE]

            def is_counting():
                tasks = pathlib.Path(f"/proc/{farm.process.pid}/task").iterdir()
                states = [(task / "stat").read_text().split("(", 1)[1].rsplit(")", 1) for task in tasks]
                return any(re.match("rpc-(space|large)", name) and fields.split()[0] == "R" for name, fields in states)

            wait_until(is_counting, "a call that counts")
            self.assertEqual(farm.stop(), 0)
            for call in calls:
                call.communicate()


if __name__ == "__main__":
    permitted.main()
