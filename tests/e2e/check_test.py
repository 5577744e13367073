"""`tunefarm kernels check`: what is found without running anything."""

import pathlib
import re
import tempfile
import unittest

from farm import Farm, search

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


class Check(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.farm = Farm()
        cls.farm.start()

    @classmethod
    def tearDownClass(cls):
        cls.farm.__exit__(None, None, None)

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
        self.assertRegex(done.stdout, r"compiled (\d) of \1 configs for ")
        self.assertIn("parameter ORDER changes neither binary nor launch", done.stdout)
        self.assertNotIn("parameter WIDTH", done.stdout)
        self.assertEqual(self.farm.json("kernels", "check", folder, "--compile")["parameters_without_effect"], ["ORDER"])

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
