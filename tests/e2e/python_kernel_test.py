"""Kernels in Python through the daemon: good configs among those that crash, hang, raise, fork and lie."""

import os
import pathlib
import subprocess
import tempfile
import unittest

from farm import BIN, KERNELS, WORKER_UIDS, Farm, assert_ordinals_complete, config, outcome, search

INTERPRETER = "/usr/bin/python3"
FAULTY = KERNELS / "examples" / "faulty_python"

OUTCOMES = {
    "none": "OK",
    "compile_error": "COMPILE_ERROR",
    "missing_module": "COMPILE_ERROR",
    "syntax_error": "COMPILE_ERROR",
    "compile_crash": "COMPILE_CRASH",
    "compile_hang": "COMPILE_TIMEOUT",
    "no_ground_truth": "LOAD_ERROR",
    "make_raises": "RUN_CRASH",
    "raise": "RUN_CRASH",
    "sys_exit": "RUN_CRASH",
    "abort": "RUN_CRASH",
    "segfault": "RUN_CRASH",
    "exit_silently": "RUN_CRASH",
    "infinite_loop": "RUN_TIMEOUT",
    "sleep": "RUN_TIMEOUT",
    "memory_exhaustion": "OUT_OF_MEMORY",
    "memory_file": "RUN_CRASH",
    "wrong_result": "WRONG_RESULT",
    "nan_output": "WRONG_RESULT",
    "unwritten_output": "WRONG_RESULT",
    "wrong_shape": "WRONG_RESULT",
    "wrong_later": "WRONG_RESULT",
    "stale_output": "WRONG_RESULT",
    "child_left_behind": "OK",
    "fork_bomb": "RUN_CRASH",
    "socket": "RUN_CRASH",
}
WORDS = {
    "compile_error": "this config cannot be compiled",
    "missing_module": "a_module_that_nobody_has",
    "raise": "RuntimeError: the run failed",
    "segfault": "Segmentation fault",
    "memory_file": "PermissionError",
    "no_ground_truth": "what each of its outputs must be",
    "wrong_later": "after it was timed",
    "wrong_shape": "shape",
    "fork_bomb": "BlockingIOError",
}
BRIEF = ("--policy", "fast", "--measure", "finalists=2", "--measure", "final_rounds=1")


def interpreters_at_work():
    """Workers of this test's daemon that are interpreters: as root they run under its own users."""
    found = []
    first = int(WORKER_UIDS[1])
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and first <= entry.stat().st_uid < first + 1024:
                found.append((entry / "cmdline").read_bytes())
        except OSError:
            continue
    return [command for command in found if b"tunefarm_worker" in command]


class PythonKernels(unittest.TestCase):
    def kernel(self, text, **sources):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="tunefarm-kernel."))
        self.addCleanup(lambda: [file.unlink() for file in folder.iterdir()] and folder.rmdir())
        (folder / "kernel.pbtxt").write_text(text)
        for name, source in sources.items():
            (folder / f"{name}.py").write_text(source)
        return folder

    def test_every_fault_costs_one_config_and_has_its_outcome(self):
        with Farm("--python-interpreter", INTERPRETER, "--launch-timeout-ms", "4000", "--compile-timeout-ms",
                  "20000") as farm:
            farm.start()
            farm.cli("tune", FAULTY, *BRIEF)
            trials = search(farm.trials(1))
            assert_ordinals_complete(farm.trials(1))
            self.assertEqual(len(trials), 30)
            filtered = "L1" in farm.info().get("sandbox_level", "")
            for trial in trials:
                fault = config(trial)["FAULT"]
                if fault == "mount":
                    # Below L1 the filter may be there, or only the missing right.
                    refusals = ["SANDBOX_VIOLATION"] if filtered else ["SANDBOX_VIOLATION", "RUN_CRASH"]
                    self.assertIn(outcome(trial), refusals, trial)
                    continue
                if fault == "memory_file" and not filtered and outcome(trial) == "OK":
                    continue  # below L1 nothing may forbid it
                if fault == "fork_bomb" and outcome(trial) == "RUN_TIMEOUT":
                    continue  # a slow machine makes fewer processes in the time of a launch than are allowed
                self.assertEqual(outcome(trial), OUTCOMES[fault], trial)
                self.assertIn(WORDS.get(fault, ""), trial.get("message", ""), trial)
            best = farm.json("best", "faulty_python", "--exact")["best"]["config"]
            self.assertIn(best["FAULT"], ("none", "child_left_behind"))
            # The daemon is as good as new.
            farm.cli("run", "vector_add_host", "--dim", "N=4096", "--policy", "fast")
            again = farm.cli("run", FAULTY, "--dim", "N=1024", "FAULT=none", "CHUNK=64", "--policy", "fast")
            self.assertEqual(again.returncode, 0)
        self.assertEqual(interpreters_at_work(), [])

    def test_without_an_interpreter_the_refusal_says_what_to_set(self):
        with Farm() as farm:
            farm.start()
            done = farm.cli("submit", FAULTY, check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("python_interpreter", done.stderr)
            self.assertIn("Python kernels are off", farm.cli("doctor", check=False).stdout)

    def test_a_job_waits_paused_where_python_is_off(self):
        with Farm("--python-interpreter", INTERPRETER) as farm:
            farm.start()
            farm.cli("submit", FAULTY, "--pin", "FAULT=none", "--policy", "rigorous")
            farm.kill()
            flags, farm.flags = farm.flags, []
            farm.start()
            self.assertIn(farm.json("jobs", "show", 1)["state"], ("JOB_STATE_PAUSED", "PAUSED"))
            self.assertIn("python_interpreter", farm.cli("jobs", "resume", 1, check=False).stderr)
            farm.kill()
            farm.flags = flags
            farm.start()
            farm.cli("jobs", "resume", 1)
            farm.cli("jobs", "watch", 1)
            self.assertEqual({outcome(t) for t in search(farm.trials(1))}, {"OK"})

    def test_doctor_measures_python_too(self):
        with Farm("--python-interpreter", INTERPRETER) as farm:
            farm.start()
            done = farm.cli("doctor", "--repeatability", "--kernel", FAULTY, "--dim", "N=4096", "--pairs", "2", "--rounds",
                            "2", "--policy", "fast", "--measure", "noisy_relative_half_width=-1", check=False)
            self.assertIn("2 of 2 rounds", done.stdout)

    def test_an_interpreter_that_does_not_work_is_none(self):
        with Farm("--python-interpreter", "/bin/false") as farm:
            farm.start()
            found = farm.cli("doctor", check=False).stdout
            self.assertIn("Python kernels are off, /bin/false does not work", found)
            self.assertIn("python_interpreter", farm.cli("submit", FAULTY, check=False).stderr)
            farm.cli("run", "vector_add_host", "--dim", "N=4096", "--policy", "fast")

    def test_doctor_names_interpreter_and_packages(self):
        with Farm("--python-interpreter", INTERPRETER) as farm:
            farm.start()
            found = farm.cli("doctor", check=False).stdout
            self.assertIn(f"({INTERPRETER})", found)
            self.assertIn("numpy", found)

    def test_a_private_daemon_takes_the_interpreter_of_the_command_line(self):
        with tempfile.TemporaryDirectory(prefix="tunefarm-private.", ignore_cleanup_errors=True) as folder:
            environment = {**os.environ, "TUNEFARM_DATA_DIR": folder}
            environment.pop("TUNEFARM_SERVER", None)

            def cli(*words):
                return subprocess.run([BIN / "tunefarm", *map(str, words)], env=environment, capture_output=True, text=True,
                                      timeout=600)

            # Whether it is noisy depends on what else the machine does.
            run = ("run", FAULTY, "--dim", "N=1024", "--policy", "fast", "--measure", "noisy_relative_half_width=-1", "CHUNK=64")
            refused = cli(*run, "FAULT=none", "--python", "/no/such/python3")
            self.assertEqual(refused.returncode, 2, refused.stderr)
            self.assertIn("/no/such/python3 is no executable file", refused.stderr)
            try:
                done = cli(*run, "FAULT=none", "--python", INTERPRETER)
                self.assertEqual(done.returncode, 0, done.stderr)
                again = cli(*run, "FAULT=none", "--python", INTERPRETER)
                self.assertEqual(again.returncode, 1, again.stderr)
                self.assertIn("tunefarm stop", again.stderr)
                missing = cli(*run[:-1], "CHUNK=1024", "FAULT=missing_module")
                self.assertEqual(missing.returncode, 5, missing.stderr)
                self.assertIn(f"in {INTERPRETER}", missing.stdout)
                self.assertIn("--python", missing.stdout)
            finally:
                cli("stop", "--now")

    def test_the_second_input_set_and_values_of_every_type(self):
        folder = self.kernel(
            """
            display_name: "typed" language: LANGUAGE_PYTHON
            python { module: "typed" device: DEVICE_KIND_HOST }
            sources { path: "helper.py" } sources { path: "typed.py" }
            dims {
              name: "kind" type: VALUE_TYPE_STRING default_value { string_value: "f" } values { string_value: "f" }
            }
            parameters { name: "SCALE" values { doubles: [0.5, 2.5] } }
            parameters { name: "FLAG" values { bools: [true, false] } }
            parameters { name: "PLACE" values { ints: [-3, 4] } }
            derived { name: "half" expression: "SCALE / 2" }
            derived { name: "text" expression: "'a' if FLAG else 'b'" }
            tolerance { atol: 1e-6 }
            """,
            helper="def twice(value):\n    return 2 * value\n",
            typed="""
import numpy
from helper import twice

def make_run_and_gt(config):
    assert config["kind"] == "f" and twice(config["half"]) == config["SCALE"], dict(config)
    assert config["text"] == ("a" if config["FLAG"] is True else "b") and config["PLACE"] in (-3, 4)
    assert config.device["sm_count"] >= 1 and set(config.parameters) == {"SCALE", "FLAG", "PLACE"}
    x = numpy.random.default_rng(config.seed).standard_normal(1000)
    # Right on the first input set alone, where the flag is set.
    late = config["FLAG"] and config.seed != 1
    return (lambda: {"y": x * config["SCALE"] + late, "n": len(x)}), {"y": x * config["SCALE"], "n": 1000}
""")
        with Farm("--python-interpreter", INTERPRETER) as farm:
            farm.start()
            farm.cli("tune", folder, "--policy", "fast", "--measure", "finalists=8", "--measure", "final_rounds=1")
            trials = farm.trials(1)
            self.assertEqual({outcome(t) for t in search(trials)}, {"OK"})
            finalists = [t for t in trials if t.get("purpose") == "TRIAL_PURPOSE_FINALIST"]
            self.assertEqual({config(t)["FLAG"]: outcome(t) for t in finalists}, {True: "WRONG_RESULT", False: "OK"})


if __name__ == "__main__":
    os.environ.setdefault("TUNEFARM_SOURCE_DIR", str(KERNELS.parent))
    unittest.main(verbosity=2)
