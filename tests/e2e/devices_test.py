"""Devices and what makes them or their jobs useless, through the real daemon, its workers and the CLI."""

import pathlib
import shutil
import tempfile
import unittest

from farm import KERNELS, Farm, outcome, search


class Devices(unittest.TestCase):
    def test_a_reference_that_crashes_ends_the_job_and_poisons_no_config(self):
        # A device with many compile workers claims the whole space at once.
        with Farm("--compile-workers", "1") as farm, tempfile.TemporaryDirectory() as folder:
            broken = pathlib.Path(folder) / "vector_add_host"
            shutil.copytree(KERNELS / "examples/vector_add_host", broken)
            source = broken / "vector_add.cc"
            text = source.read_text()
            at = text.index("{", text.index("vector_add_reference(")) + 1
            source.write_text(text[:at] + "\n  __builtin_trap();\n" + text[at:])
            farm.start()
            farm.cli("submit", broken, "--dim", "N=1024")
            farm.cli("jobs", "watch", "1", check=False)
            trials = search(farm.trials(1))
            self.assertTrue(trials)
            self.assertEqual({outcome(t) for t in trials}, {"RUN_CRASH"})
            ran = [t for t in trials if not t["message"].startswith("not run")]
            self.assertLessEqual(len(ran), 2, "a reference that crashed twice was run again")
            job = farm.json("jobs", "show", "1")
            self.assertIn("the reference or the inputs crash or hang", str(job))
            self.assertLess(len(trials), 20, "the whole space was gone through")
            # The same sources again: nothing is remembered of the configs.
            farm.cli("submit", broken, "--dim", "N=1024")
            farm.cli("jobs", "watch", "2", check=False)
            self.assertNotIn("POISONED", {outcome(t) for t in search(farm.trials(2))})

    def test_release_of_a_device(self):
        with Farm() as farm:
            farm.start()
            (device,) = farm.json("devices")["devices"]
            released = farm.cli("devices", "release", device["uuid"])
            self.assertIn("takes work", released.stdout)
            self.assertEqual(farm.cli("devices", "release", "GPU-unknown", check=False).returncode, 3)
            farm.cli("tune", "vector_add_host", "--policy", "fast", "--dim", "N=4096")

    def test_two_daemons_take_turns_on_the_cores(self):
        with Farm() as one, Farm() as other:
            for farm in (one, other):
                farm.start(TUNEFARM_SHARE_HOST="0")
                farm.cli("submit", "vector_add_host", "--policy", "fast", "--dim", "N=4096")
            for farm in (one, other):
                farm.cli("jobs", "watch", "1")
                self.assertEqual({outcome(t) for t in farm.trials(1)}, {"OK"})


if __name__ == "__main__":
    unittest.main()
