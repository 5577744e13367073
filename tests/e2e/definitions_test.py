"""Several definitions of one name: whose best config a lookup answers with, through edits, edits that are taken back, and
folders that share a name. And what becomes of stored definitions: diagnostic runs, deletion, quotas, links."""

import os
import pathlib
import shutil
import tempfile
import unittest

from farm import Farm, search

# In FIRST a large X is slow, in SECOND a small one.
FIRST = """extern "C" void f(float* o, long long n) {
  for (int r = 0; r < X * 400; ++r) for (long long i = 0; i < n; ++i) ((volatile float*)o)[i] = 1.0f;
}
"""
SECOND = """extern "C" void f(float* o, long long n) {
  for (int r = 0; r < 4000 / X; ++r) for (long long i = 0; i < n; ++i) ((volatile float*)o)[i] = 1.0f;
}
"""
DEFINITION = """display_name: "revert"
language: LANGUAGE_HOST_CXX
sources { path: "k.cc" }
dims { name: "N" default_value { int_value: 64 } }
parameters { name: "X" values { ints: [1, 10] } }
arguments { name: "o" buffer { data_type: DATA_TYPE_F32 length: "N" access: ACCESS_OUT } }
arguments { name: "n" scalar { data_type: DATA_TYPE_I64 value: "N" } }
launches { kernel { entry: "f" arguments: ["o", "n"] } }
reference { steps { kernel { entry: "f" arguments: ["o", "n"] } } }
"""
# How `order` is drawn is nothing that a binary knows: as a macro `law` would break the source.
DRAWN = """#if defined(law) || defined(law_even) || defined(law_skew)
#error "the tuned source depends on what only describes inputs"
#endif
extern "C" void draw(int* order, long long n, int reversed) {
  for (long long i = 0; i < n; ++i) order[i] = int(reversed ? n - 1 - i : i);
}
extern "C" void f(const float* x, const int* order, float* o, long long n) {
  for (int r = 0; r < X * 400; ++r) for (long long i = 0; i < n; ++i) ((volatile float*)o)[i] = x[order[i]];
}
"""
DRAWN_DEFINITION = """display_name: "drawn"
language: LANGUAGE_HOST_CXX
sources { path: "k.cc" }
dims { name: "N" default_value { int_value: 64 } }
dims { name: "law" values: ["even", "skew"] default_value: "even" inputs_only: true }
parameters { name: "X" values { ints: [1, 10] } }
arguments { name: "x" buffer { data_type: DATA_TYPE_F32 length: "N" access: ACCESS_IN } }
arguments { name: "order" buffer { data_type: DATA_TYPE_I32 length: "N" access: ACCESS_IN
                                   fill { prepare_step: "draw" } } }
arguments { name: "o" buffer { data_type: DATA_TYPE_F32 length: "N" access: ACCESS_OUT } }
arguments { name: "n" scalar { data_type: DATA_TYPE_I64 value: "N" } }
arguments { name: "reversed" scalar { data_type: DATA_TYPE_I32 value: "1 if law == 'skew' else 0" } }
prepare { step { name: "draw" kernel { entry: "draw" arguments: ["order", "n", "reversed"] } } }
launches { kernel { entry: "f" arguments: ["x", "order", "o", "n"] } }
reference { steps { kernel { entry: "f" arguments: ["x", "order", "o", "n"] } } }
"""
BRIEF = ["--policy", "fast"]


class Definitions(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.base = pathlib.Path(folder.name)

    def folder(self, name, source):
        folder = self.base / name
        folder.mkdir()
        (folder / "kernel.pbtxt").write_text(DEFINITION)
        (folder / "k.cc").write_text(source)
        return folder

    def answer(self, farm, kernel, *arguments):
        """X and the match of `best`."""
        found = farm.json("best", kernel, *arguments)
        return found["best"]["config"]["X"], found["match"].removeprefix("MATCH_")

    def test_an_edit_and_an_edit_that_is_taken_back(self):
        with Farm() as farm:
            farm.start()
            folder = self.folder("mine", FIRST)
            self.assertIn("was never tuned here", farm.cli("best", folder, check=False).stderr)
            farm.cli("tune", folder, *BRIEF)
            self.assertEqual(self.answer(farm, folder), (1, "EXACT"))
            (folder / "k.cc").write_text(SECOND)
            self.assertEqual(self.answer(farm, folder), (1, "STALE_SOURCE"))
            self.assertRegex(farm.cli("best", folder).stderr,
                             r"This version was not tuned .*the newest tuned version of revert is revert@[0-9a-f]{12}")
            self.assertEqual(farm.cli("best", folder, "--exact", check=False).returncode, 3)
            self.assertEqual(farm.cli("best", "pin", folder, check=False).returncode, 3)
            self.assertEqual(farm.json("best", "list", folder).get("bests", []), [])
            self.assertEqual(farm.cli("export", "csv", "--kernel", folder, check=False).returncode, 3)
            # The edited source lacks a best, and the batch does not skip it.
            self.assertNotIn("nothing to do", farm.cli("tune", folder, "--missing-only", *BRIEF).stderr)
            self.assertEqual(self.answer(farm, folder), (10, "EXACT"))
            self.assertIn("nothing to do", farm.cli("tune", folder, "--missing-only", *BRIEF).stderr)
            # Back to the first: its best is still there, and nothing is to be tuned.
            (folder / "k.cc").write_text(FIRST)
            self.assertEqual(self.answer(farm, folder), (1, "EXACT"))
            self.assertIn("nothing to do", farm.cli("tune", folder, "--missing-only", *BRIEF).stderr)
            # What was submitted last is the newest of the name.
            self.assertEqual(self.answer(farm, "revert"), (1, "EXACT"))
            self.assertIn("revert stands for several definitions: 1 other is tuned", farm.cli("best", "revert").stderr)
            (row,) = farm.cli("export", "csv", "--kernel", "revert").stdout.splitlines()[1:]
            self.assertIn("EXACT", row)
            self.assertNotIn("STALE_SOURCE", row)

    def test_dims_that_only_describe_inputs(self):
        folder = self.folder("drawn", DRAWN)
        (folder / "kernel.pbtxt").write_text(DRAWN_DEFINITION)
        skew = ("--dim", "law=skew")
        with Farm() as farm:
            farm.start()
            farm.cli("tune", folder, *skew, *BRIEF)
            self.assertEqual(self.answer(farm, folder, *skew), (1, "EXACT"))
            # No question has to name them, and any value answers.
            self.assertEqual(self.answer(farm, folder), (1, "NEAREST_SHAPE"))
            self.assertEqual(farm.json("best", folder).get("distance", 0), 0)
            # Results are of one problem each: other inputs are tuned, too.
            self.assertNotIn("nothing to do", farm.cli("tune", folder, "--missing-only", *BRIEF).stderr)
            self.assertEqual(self.answer(farm, folder), (1, "EXACT"))
            self.assertEqual(self.answer(farm, folder, *skew), (1, "EXACT"))
            header = farm.cli("export", "header", "--kernel", folder).stdout
            self.assertIn("std::int64_t N{};", header)
            self.assertNotIn("law", header)
            self.assertEqual(header.count('    {"'), 1, header)
            refused = DRAWN_DEFINITION.replace('"order", "o", "n"]', '"order", "o", "reversed"]', 1)
            (folder / "kernel.pbtxt").write_text(refused)
            checked = farm.cli("kernels", "check", folder, check=False)
            self.assertNotEqual(checked.returncode, 0)
            self.assertIn("launches[0].kernel.arguments[3]: 'reversed' uses the dim 'law', which has inputs_only",
                          checked.stderr)

    def test_two_folders_that_share_a_name(self):
        with Farm() as farm:
            farm.start()
            first, second = self.folder("first", FIRST), self.folder("second", SECOND)
            farm.cli("tune", first, *BRIEF)
            farm.cli("tune", second, *BRIEF)
            self.assertEqual(self.answer(farm, first), (1, "EXACT"))
            self.assertEqual(self.answer(farm, second), (10, "EXACT"))
            self.assertEqual(self.answer(farm, "revert"), (10, "EXACT"))
            (own,) = farm.json("best", "list", first)["bests"]
            self.assertEqual(self.answer(farm, f"kernels/{own['kernel_id']}"), (1, "EXACT"))
            self.assertEqual(len(farm.json("best", "list", "revert")["bests"]), 2)
            for folder, x in ((first, 1), (second, 10)):
                self.assertIn(f"#define X {x}\n", farm.cli("best", folder, "--format", "defines").stdout)
                lines = farm.cli("export", "csv", "--kernel", folder).stdout.splitlines()
                self.assertEqual(len(lines), 2, lines)
                self.assertIn("EXACT", lines[1])
                self.assertEqual(len(farm.json("best", "history", folder)["changes"]), 1)
            farm.cli("best", "retire", first)
            self.assertEqual(self.answer(farm, second), (10, "EXACT"))
            self.assertEqual(self.answer(farm, first), (10, "STALE_SOURCE"))

    def test_a_run_makes_no_problem_tuned_unless_that_is_wanted(self):
        with Farm() as farm:
            farm.start()
            folder = self.folder("mine", FIRST)
            for settings in ((), ("X=10",)):
                farm.cli("run", folder, *settings, *BRIEF)
            self.assertEqual(farm.json("best", "list").get("bests", []), [])
            tuned = farm.cli("tune", folder, "--missing-only", *BRIEF)
            self.assertNotIn("nothing to do", tuned.stderr)
            self.assertEqual(self.answer(farm, folder), (1, "EXACT"))
            # One trial is a measurement and no search.
            farm.cli("tune", folder, "--dim", "N=65", "--max-trials", "1", *BRIEF)
            self.assertEqual(farm.cli("best", folder, "--dim", "N=65", "--exact", check=False).returncode, 3)
            farm.cli("run", folder, "--dim", "N=66", "--promote", *BRIEF)
            self.assertEqual(self.answer(farm, folder, "--dim", "N=66")[1], "EXACT")

    def test_kernels_are_deleted_and_what_they_found_stays(self):
        with Farm() as farm:
            farm.start()
            folder = self.folder("mine", FIRST)
            farm.cli("tune", folder, *BRIEF)
            (folder / "k.cc").write_text(SECOND)
            farm.cli("tune", folder, *BRIEF)
            versions = [kernel["name"] for kernel in farm.json("kernels", "list")["kernels"]]
            self.assertEqual(len(versions), 2)
            farm.cli("kernels", "delete", "revert@" + versions[0].removeprefix("kernels/")[:12])
            self.assertEqual([kernel["name"] for kernel in farm.json("kernels", "list")["kernels"]], versions[1:])
            self.assertEqual(self.answer(farm, "revert"), (1, "EXACT"))
            self.assertEqual(len(search(farm.trials(2))), 2)
            self.assertIn("was deleted", farm.cli("kernels", "show", versions[0], check=False).stderr)
            farm.cli("results", 2)
            farm.kill()
            farm.start()
            farm.cli("jobs", "show", 2)
            farm.cli("kernels", "delete", "revert")
            self.assertEqual(farm.json("kernels", "list").get("kernels", []), [])
            self.assertEqual(len(farm.json("best", "list", "revert")["bests"]), 2)
            # Submitting it restores it.
            self.assertIn("nothing to do", farm.cli("tune", folder, "--missing-only", *BRIEF).stderr)
            self.assertEqual(self.answer(farm, folder), (10, "EXACT"))
            self.assertEqual(farm.cli("kernels", "delete", "no_such_kernel", check=False).returncode, 3)

    def test_a_full_quota_says_what_to_delete(self):
        with Farm("--max-kernels-per-principal", "1") as farm:
            farm.start()
            folder = self.folder("mine", FIRST)
            farm.cli("tune", folder, *BRIEF)
            (folder / "k.cc").write_text(SECOND)
            refused = farm.cli("tune", folder, *BRIEF, check=False)
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn("tunefarm kernels delete", refused.stderr)
            self.assertIn("revert@", refused.stderr)
            farm.cli("kernels", "delete", "revert")
            farm.cli("tune", folder, *BRIEF)

    def test_a_source_that_leads_out_of_the_folder_is_refused(self):
        with Farm() as farm:
            farm.start()
            folder = self.folder("mine", FIRST)
            (self.base / "private_key").write_text("the key")
            (folder / "k.cc").unlink()
            (folder / "k.cc").symlink_to("../private_key")
            for command in ("tune", "submit", "run", "best"):
                refused = farm.cli(command, folder, check=False)
                self.assertNotEqual(refused.returncode, 0)
                self.assertIn("k.cc", refused.stderr)
                self.assertIn("outside of its folder", refused.stderr)
            (folder / "k.cc").unlink()
            os.mkfifo(folder / "k.cc")
            self.assertIn("is not a regular file", farm.cli("tune", folder, check=False).stderr)
            self.assertEqual(farm.json("kernels", "list").get("kernels", []), [])
            # A folder that is reached by a link is read.
            (folder / "k.cc").unlink()
            shutil.copy(self.folder("other", FIRST) / "k.cc", folder)
            (self.base / "link").symlink_to(folder)
            farm.cli("tune", self.base / "link", *BRIEF)


if __name__ == "__main__":
    unittest.main(verbosity=2)
