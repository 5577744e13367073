"""`tunefarm kernels check`: what is found without running anything, by compiling, and by running one config."""

import pathlib
import re
import tempfile
import unittest

from farm import SharedFarm, search

DEFINITION = """
display_name: "checked"
language: LANGUAGE_{language}
sources {{ path: "{source}" }}
dims {{ name: "N" default_value {{ int_value: 64 }} }}
parameters {{ name: "ORDER" values {{ strings: ["xy", "yx"] }} }}
parameters {{ name: "WIDTH" values {{ ints: [1, 2, 4] }} }}
{more}
arguments {{ name: "y" buffer {{ data_type: DATA_TYPE_F32 length: "N" access: ACCESS_OUT }} }}
arguments {{ name: "n" scalar {{ data_type: DATA_TYPE_I32 value: "N" }} }}
launches {{ kernel {{ entry: "fill" {launch} arguments: ["y", "n"] }} }}
unverified_reason: "only compiled"
"""

# In an #if a name that is no macro is 0: both sides are, whatever ORDER is.
HOST = """
#if ORDER == yx
extern "C" void fill(float* y, int n) { for (int i = 0; i < n; ++i) y[i] = WIDTH; }
#endif
"""

# The reference's values are 0 to 7, so that 3.5 passes everywhere with atol 4.
JUDGED = """
display_name: "judged"
language: LANGUAGE_HOST_CXX
sources {{ path: "fill.cc" }}
dims {{ name: "N" default_value {{ int_value: 64 }} }}
parameters {{ name: "WIDTH" values {{ ints: [{widths}] }} }}
arguments {{ name: "y" buffer {{ data_type: DATA_TYPE_F32 length: "N" access: ACCESS_OUT }} }}
arguments {{ name: "n" scalar {{ data_type: DATA_TYPE_I32 value: "N" }} }}
launches {{ kernel {{ entry: "fill" arguments: ["y", "n"] }} }}
reference {{ steps {{ kernel {{ entry: "fill_reference" arguments: ["y", "n"] }} }} }}
{tolerance}
"""
JUDGED_SOURCE = """
extern "C" void fill(float* y, int n) { for (int i = 0; i < n; ++i) y[i] = i % 8 + (i == 7 ? ERROR : 0); }
extern "C" void fill_reference(float* y, int n) { for (int i = 0; i < n; ++i) y[i] = i % 8; }
"""


class Check(SharedFarm):
    def write(self, source, language="HOST_CXX", more="", launch=""):
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.farm.directory))
        name = "fill.cu" if language == "CUDA" else "fill.cc"
        (folder / name).write_text(source)
        (folder / "kernel.pbtxt").write_text(DEFINITION.format(language=language, source=name, more=more, launch=launch))
        return folder

    def check(self, folder, *options):
        return self.farm.cli("kernels", "check", folder, *options, check=False)

    def test_configs_are_compiled_and_parameters_without_effect_named(self):
        folder = self.write(HOST)
        self.assertNotIn("compiled", self.check(folder).stdout)
        done = self.check(folder, "--compile")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"compiled (\d) of \1 configs? for ")
        self.assertIn("parameter ORDER changes neither binary nor launch", done.stdout)
        self.assertNotIn("parameter WIDTH", done.stdout)
        found = self.farm.json("kernels", "check", folder, "--compile")
        self.assertEqual(found["compile"]["parameters_without_effect"], ["ORDER"])
        self.assertIn("parameter ORDER changes neither binary nor launch", found["warnings"][0])

    def test_errors_of_some_configs_are_shown(self):
        done = self.check(self.write(HOST + "#if WIDTH == 4\n#error \"four is too wide\"\n#endif\n"), "--compile")
        self.assertEqual(done.returncode, 1)
        self.assertIn("COMPILE_ERROR  ORDER=xy WIDTH=4", done.stdout)
        self.assertIn("four is too wide", done.stdout)

    def test_a_missing_entry_is_named(self):
        done = self.check(self.write(HOST.replace('extern "C" ', "")), "--compile")
        self.assertEqual(done.returncode, 1)
        self.assertIn("launches[0]: the binary has no function 'fill'", done.stdout)

    def test_what_no_config_can_pass_is_refused(self):
        done = self.check(self.write(HOST), "--dim", "N=4294967296")
        self.assertEqual(done.returncode, 2)
        self.assertIn("argument 'n': 4294967296 is out of the range of i32", done.stderr)
        done = self.check(self.write(HOST, more='constraints { expression: "N % (WIDTH - 4) == 0" }'))
        self.assertEqual(done.returncode, 2)
        self.assertIn("division by zero", done.stderr)

    def write_judged(self, error=0, tolerance="", widths="1, 2"):
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.farm.directory))
        (folder / "fill.cc").write_text(JUDGED_SOURCE.replace("ERROR", str(error)))
        (folder / "kernel.pbtxt").write_text(JUDGED.format(tolerance=tolerance, widths=widths))
        return folder

    def test_one_config_is_run(self):
        # The whole space, which is a search for other jobs.
        folder = self.write_judged(widths="1")
        done = self.check(folder, "--run")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"outcome +OK\n")
        self.assertRegex(done.stdout, r"check +0 of 64 elements differ")
        self.assertRegex(done.stdout, r"time +\d")
        self.assertNotIn("warning", done.stdout)
        self.assertNotIn("compiled 1 of 1", done.stdout)
        self.assertEqual(self.farm.cli("best", folder, "--exact", check=False).returncode, 3)
        self.assertRegex(self.check(self.write_judged(), "--run", "--pin", "WIDTH=2").stdout, r"config +WIDTH=2\n")

    def test_a_comparison_that_says_little_is_a_warning(self):
        folder = self.write_judged(tolerance="tolerance { atol: 4 }")
        done = self.check(folder, "--run")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"warning +The comparison says little: 3.5 in every element of y would pass")
        # It does not hide what is wrong with less.
        done = self.check(self.write_judged(error=5, tolerance="tolerance { atol: 4 }"), "--run")
        self.assertEqual(done.returncode, 5)
        self.assertIn("warning: The comparison says little: 3.5",
                      self.farm.cli("tune", folder, "--policy", "fast").stdout)
        done = self.check(self.write(HOST), "--run")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"warning +No output was compared with a reference")

    def test_a_wrong_config_is_shown(self):
        done = self.check(self.write_judged(error=1), "--run")
        self.assertEqual(done.returncode, 5)
        self.assertRegex(done.stdout, r"outcome +WRONG_RESULT\n")
        self.assertIn("y[7] is 8, expected 7", done.stdout)
        self.assertIn("no valid config", done.stderr)

    def test_json_is_one_object_with_all_that_was_found(self):
        folder = self.write_judged(tolerance="tolerance { atol: 4 }")
        found = self.farm.json("kernels", "check", folder)
        self.assertEqual(set(found), {"file", "kernel", "warnings"})
        self.assertEqual(found["file"], str(folder / "kernel.pbtxt"))
        self.assertEqual(found["kernel"]["display_name"], "judged")
        found = self.farm.json("kernels", "check", folder, "--compile", "--run")
        self.assertEqual(set(found), {"file", "kernel", "compile", "job", "trials", "warnings"})
        self.assertEqual({c["outcome"] for c in found["compile"]["configs"]}, {"OUTCOME_OK"})
        self.assertEqual([t["outcome"] for t in found["trials"]], ["OUTCOME_OK"])
        self.assertEqual(found["trials"][0]["name"].split("/studies/")[0], found["job"])
        self.assertTrue(any("would pass" in warning for warning in found["warnings"]), found["warnings"])
        wrong = self.farm.json("kernels", "check", self.write_judged(error=1), "--run", check=False)
        self.assertEqual([t["outcome"] for t in wrong["trials"]], ["OUTCOME_WRONG_RESULT"])
        self.assertEqual(wrong["trials"][0]["verification"]["mismatches"], 1)
        self.assertEqual(wrong["warnings"], [])

    def tune(self, folder, *options, check=True):
        """The number of the job."""
        done = self.farm.cli("tune", folder, *options, check=check)
        return re.search(r"[Jj]ob (\d+)", done.stdout + done.stderr).group(1)

    def test_a_study_names_parameters_without_effect(self):
        job = self.tune(self.write(HOST))
        self.assertIn("parameter ORDER changes neither binary nor launch", self.farm.cli("results", job).stdout)
        self.assertIn("parameter ORDER changes neither binary nor launch", self.farm.cli("jobs", "show", job).stdout)
        trials = search(self.farm.trials(job))
        self.assertEqual(len(trials), 6)
        self.assertEqual(len({t["work"] for t in trials}), 3)

    def test_a_search_ends_when_nothing_compiles(self):
        folder = self.write("#error never\n", more='parameters { name: "P" range { first: 1 last: 100 } }')
        job = self.tune(folder, "--strategy", "random", check=False)
        shown = self.farm.cli("jobs", "show", job).stdout
        self.assertIn("configs fail to compile alike", shown)
        self.assertIn("never", shown)
        self.assertLess(len(self.farm.trials(job)), 600)

    def test_cuda_kernels_need_no_gpu(self):
        source = 'extern "C" __global__ void fill(float* y, int n) { y[0] = WIDTH + n; }\n'
        folder = self.write(source, "CUDA", launch='grid: "1" block: "32"')
        self.assertEqual(self.check(folder).returncode, 0)
        done = self.check(folder, "--compile")
        self.assertEqual(done.returncode, 3)
        self.assertIn("name a known class instead, for example A100", done.stderr)
        done = self.check(folder, "--compile", "--device", "H100")
        if "cannot compile the kernel" in done.stderr and ("NVRTC is needed" in done.stderr or "Toolkit" in done.stderr):
            self.skipTest(done.stderr)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("configs for NVIDIA H100", done.stdout)
        folder = self.write(source.replace("int n", "int n, int m"), "CUDA", launch='grid: "1" block: "32"')
        done = self.check(folder, "--compile", "--device", "H100")
        self.assertEqual(done.returncode, 1)
        self.assertIn("launches[0]: 'fill' takes 3 parameters, but 2 arguments are passed", done.stdout)


if __name__ == "__main__":
    unittest.main()
