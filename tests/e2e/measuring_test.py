"""How the daemon measures, through whole jobs on the CPU: the race, the policy's knobs, the second input set, the A/A test."""

import json
import pathlib
import tempfile
import unittest

from farm import Farm, config, outcome, search

# Right wherever the x that the config looks at is above -0.6: for about four of five configs on one input set, and then
# for four of five of those on another, so that some are right on all of several. A config that may win is launched on
# other inputs in the search already; the final's second input set finds the rest.
CAREFUL = """
display_name: "careful_host"
language: LANGUAGE_HOST_CXX
sources { path: "careful.cc" }
dims { name: "N" default_value { int_value: 4096 } }
parameters { name: "LOOKS_AT" range { first: 0 last: 31 } bind: BIND_RUN }
arguments {
  name: "x"
  buffer { data_type: DATA_TYPE_F32 length: "N" access: ACCESS_IN fill { uniform { low: -1 high: 1 } } }
}
arguments { name: "y" buffer { data_type: DATA_TYPE_F32 length: "N" access: ACCESS_OUT } }
arguments { name: "n" scalar { data_type: DATA_TYPE_I64 value: "N" } }
arguments { name: "at" scalar { data_type: DATA_TYPE_I64 value: "LOOKS_AT" } }
launches { kernel { entry: "careful" arguments: ["x", "y", "n", "at"] } }
reference { steps { kernel { entry: "doubled" arguments: ["x", "y", "n"] } } }
tolerance { atol: 0 rtol: 0 }
"""
CAREFUL_SOURCE = """
#include <cstdint>
extern "C" void doubled(const float* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = 2 * x[i];
}
extern "C" void careful(const float* x, float* y, int64_t n, int64_t at) {
  doubled(x, y, n);
  if (x[at] < -0.6f) y[at] = 1;
}
"""

# All configs but the default take a hundred times as long, so that none of them can win. They sleep: on a busy machine a
# loop's time is anybody's guess, and a sleep is never shorter than that.
SLOW = """
display_name: "slow_host"
language: LANGUAGE_HOST_CXX
sources { path: "slow.cc" }
parameters { name: "DELAY" values { ints: [2, 200, 201, 202, 203] } bind: BIND_RUN }
arguments { name: "y" buffer { data_type: DATA_TYPE_F32 length: "64" access: ACCESS_OUT } }
arguments { name: "delay" scalar { data_type: DATA_TYPE_I64 value: "DELAY" } }
launches { kernel { entry: "slow" arguments: ["y", "delay"] } }
reference { steps { kernel { entry: "quick" arguments: ["y"] } } }
tolerance { atol: 0 rtol: 0 }
"""
SLOW_SOURCE = """
#include <cstdint>
#include <ctime>
extern "C" void quick(float* y) { for (int i = 0; i < 64; ++i) y[i] = i; }
extern "C" void slow(float* y, int64_t delay) {
  timespec left = {0, delay * 1000000};
  while (nanosleep(&left, &left) != 0) {}
  quick(y);
}
"""


class Measuring(unittest.TestCase):
    def kernel(self, text, source, name):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="tunefarm-kernel."))
        self.addCleanup(lambda: [file.unlink() for file in folder.iterdir()] and folder.rmdir())
        (folder / "kernel.pbtxt").write_text(text)
        (folder / name).write_text(source)
        return folder

    def test_configs_that_cannot_win_are_left_early_and_are_ok(self):
        slow = self.kernel(SLOW, SLOW_SOURCE, "slow.cc")
        with Farm("--share-host") as farm:
            farm.start()
            brief = ("--policy", "fast", "--measure", "finalists=1", "--measure", "final_rounds=1")
            done = farm.cli("tune", slow, *brief, "--measure", "time_budget_ms=4000")
            self.assertIn("stopped early (could not win)", done.stdout)
            trials = search(farm.trials(1))
            self.assertEqual({outcome(t) for t in trials}, {"OK"})
            # The default comes first, when there is nothing to lose against.
            early = {config(t)["DELAY"]: t for t in trials if t.get("stopped_early")}
            self.assertEqual(set(early), {200, 201, 202, 203})
            for trial in early.values():
                self.assertEqual(trial["measurement"]["stop_reason"], "STOP_REASON_LOSING")
                self.assertLess(trial["measurement"]["samples"], 20)
                self.assertFalse(trial["measurement"].get("converged", False))
            farm.cli("tune", slow, *brief, "--measure", "no_early_stop=true", "--max-samples", "4")
            self.assertFalse([t for t in search(farm.trials(2)) if t.get("stopped_early")])

    def test_a_finalist_that_is_wrong_on_a_second_input_set_is_not_promoted(self):
        careful = self.kernel(CAREFUL, CAREFUL_SOURCE, "careful.cc")
        with Farm("--share-host") as farm:
            farm.start()
            farm.cli("tune", careful, "--policy", "fast", "--measure", "finalists=32", "--measure", "no_reuse=true")
            trials = farm.trials(1)
            right = {config(t)["LOOKS_AT"] for t in search(trials) if outcome(t) == "OK"}
            finalists = [t for t in trials if t.get("purpose") == "TRIAL_PURPOSE_FINALIST"]
            judged = {config(t)["LOOKS_AT"]: t for t in finalists}
            self.assertEqual(set(judged) - {0}, right - {0})
            late = {at for at, t in judged.items() if outcome(t) == "WRONG_RESULT"}
            kept = {at for at, t in judged.items() if outcome(t) == "OK"}
            witnessed = [t for t in search(trials) if "On other inputs than before" in t.get("message", "")]
            self.assertTrue((late or witnessed) and kept, f"{late}, {witnessed} and {kept}")
            for at in late & right:
                self.assertRegex(judged[at]["message"], "On a second set of random inputs|On other inputs than before")
            best = farm.json("best", "careful_host", "--exact")["best"]["config"]["LOOKS_AT"]
            self.assertIn(int(best), kept)

    def test_every_knob_and_what_it_may_not_be(self):
        with Farm("--share-host") as farm:
            farm.start()
            for setting, words in (("final_round=3", "did you mean 'final_rounds'"), ("method=laser", "cuda_graph"),
                                   ("max_samples=many", "whole number"), ("no_reuse=1", "true or false"),
                                   ("input_copies=17", "must be between 0 and 16"), ("min_clock_share=2", "at most 1"),
                                   ("locked_clock_mhz=50", "between 100 and 10000"),
                                   ("locked_clock_mhz=1410", "is no CUDA GPU")):
                done = farm.cli("submit", "vector_add_host", "--measure", setting, check=False)
                self.assertNotEqual(done.returncode, 0, setting)
                self.assertIn(words, done.stderr)
            done = farm.cli("run", "vector_add_host", "--dim", "N=4096", "--measure", "min_samples=7", "--measure",
                            "max_samples=7", "--measure", "warm_cache=true")
            self.assertIn("7 samples", done.stdout)
            self.assertIn("steady clock, warm caches", done.stdout)

    def test_energy_is_refused_where_it_is_not_measured(self):
        with Farm("--share-host") as farm:
            farm.start()
            for command in (("tune", "--objective", "energy"), ("submit", "--objective", "energy_delay"),
                            ("submit", "--measure", "measure_energy=true")):
                done = farm.cli(command[0], "vector_add_host", *command[1:], check=False)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn("the job needs the energy of vector_add_host, which is measured only of kernels in CUDA C++ "
                              "and Triton on NVIDIA GPUs; ", done.stderr)
                self.assertIn(" is no such device", done.stderr)
            self.assertEqual(farm.json("jobs", "list").get("jobs", []), [])
            self.assertEqual(farm.cli("tune", "vector_add_host", "--objective", "power", check=False).returncode, 2)
            done = farm.json("submit", "vector_add_host", "--dim", "N=4096", "--max-trials", "2", "--objective", "time")
            self.assertEqual(done["objective"], "OBJECTIVE_TIME")

    def test_the_same_config_twice(self):
        with Farm("--share-host") as farm:
            farm.start()
            done = farm.cli("doctor", "--repeatability", "--kernel", "vector_add_host", "--dim", "N=65536", "--pairs", "18",
                            "--rounds", "6", "--measure", "max_samples=40", "--measure", "warm_cache=true", "--measure",
                            "noisy_relative_half_width=-1", "--output", "json", check=False)
            report = json.loads(done.stdout)
            self.assertEqual((report["pairs"], report["failed_pairs"], report["rounds"]), (18, 0, 6))
            self.assertEqual(len(report["ratios"]), report["pairs"])
            for ratio, low, high in report["ratios"]:
                self.assertLessEqual(low, ratio)
                self.assertLessEqual(ratio, high)
            outside = sum(1 for _, low, high in report["ratios"] if low > 1 or high < 1)
            self.assertEqual(report["excluding_one"], outside)
            self.assertEqual(done.returncode, 0 if report["honest"] else 1)
            self.assertGreater(report["median_ns"], 0)
            # The jobs are gone, they leave no best behind, and the kernel's own bests were not touched.
            self.assertEqual(farm.json("best", "aa_vector_add_host")["match"], "MATCH_DEFAULT")
            self.assertEqual(farm.json("jobs", "list").get("jobs", []), [])
            self.assertEqual(farm.cli("best", "vector_add_host", "--exact", check=False).returncode, 3)

    def test_problems_of_several_lengths(self):
        with Farm("--share-host") as farm:
            farm.start()
            arguments = ["doctor", "--repeatability", "--pairs", "6", "--rounds", "2", "--measure", "max_samples=2", "--measure",
                         "warm_cache=true", "--measure", "noisy_relative_half_width=-1"]
            done = farm.cli(*arguments, "--output", "json", check=False)
            reports = json.loads(done.stdout)
            self.assertEqual({report["bound"] for report in reports}, {"compute", "memory"})
            self.assertEqual([report["failure"] for report in reports], [""] * len(reports))
            self.assertEqual([report["pairs"] + report["failed_pairs"] for report in reports], [1] * len(reports))
            times = {report["problem"]: report["median_ns"] for report in reports}
            self.assertGreater(min(times.values()), 0)
            self.assertLess(times["matmul_host M=64 N=64 K=64"], times["matmul_host M=640 N=640 K=640"])
            self.assertEqual(farm.json("jobs", "list").get("jobs", []), [])
            done = farm.cli("doctor", "--repeatability", "--dim", "N=64", check=False)
            self.assertIn("name it with --kernel", done.stderr)


if __name__ == "__main__":
    unittest.main()
