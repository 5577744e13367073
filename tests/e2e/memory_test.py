"""Jobs that start from what earlier ones have found, through the real daemon, its workers and the CLI, on the CPU."""

import pathlib
import shutil
import tempfile
import unittest

from farm import KERNELS, Farm, assert_ordinals_complete, config, outcome, search, wait_until

BRIEF = ["--policy", "fast", "--max-samples", "3"]
FIRST = ["--dim", "M=64", "--dim", "N=64", "--dim", "K=64", *BRIEF]
SECOND = ["--dim", "M=64", "--dim", "N=128", "--dim", "K=64", *BRIEF]


def key(trial):
    return tuple(sorted(config(trial).items()))


def proposals(trials):
    return [(int(t.get("ordinal", 0)), key(t)) for t in sorted(search(trials), key=lambda t: int(t.get("ordinal", 0)))]


class Memory(unittest.TestCase):
    def test_a_job_starts_from_another_problem_and_keeps_to_it(self):
        with Farm() as farm:
            farm.start()
            done = farm.cli("tune", "matmul_host", *FIRST, "--strategy", "default", "--max-trials", "40")
            self.assertNotIn("earlier", done.stderr)
            first = [t for t in search(farm.trials(1)) if outcome(t) == "OK"]
            fifth_ns = sorted(t["measurement"]["median_ns"] for t in first)[4]
            best = {key(t) for t in first if t["measurement"]["median_ns"] <= fifth_ns}
            job = farm.cli("submit", "--quiet", "matmul_host", *SECOND, "--strategy", "default", "--max-trials", "60").stdout.strip()
            wait_until(lambda: len(search(farm.trials(job))) >= 10, "ten trials")
            farm.kill()  # in the middle
            farm.start()
            farm.cli("jobs", "delete", "1")
            before = farm.json("jobs", "show", job)["studies"][0]["priors"]
            early = proposals(farm.trials(job))
            farm.kill()
            farm.start()
            farm.cli("jobs", "watch", job)
            study = farm.json("jobs", "show", job)["studies"][0]
            self.assertEqual(study["priors"], before)
            self.assertEqual(len(before), 1)
            self.assertEqual(before[0]["difference"], "N=64 instead of 128")
            self.assertEqual(before[0]["measured"], len(first))
            trials = farm.trials(job)
            assert_ordinals_complete(trials)
            after = proposals(trials)
            self.assertEqual(len(after), 60)
            self.assertEqual(len({config for _, config in after}), 60)
            self.assertEqual([p for p in after if p in early], early)
            # After the default config come the five best of the other problem, less the default if it is one.
            self.assertLessEqual({config for _, config in after[1:5]}, best)
            shown = farm.cli("jobs", "show", job).stdout
            self.assertIn(f"starts   from earlier results: N=64 instead of 128 ({len(first)} configs)", shown)

    def test_tune_says_from_where_it_starts(self):
        with Farm() as farm:
            farm.start()
            farm.cli("tune", "matmul_host", *FIRST, "--strategy", "default", "--max-trials", "30")
            warm = farm.cli("tune", "matmul_host", *SECOND, "--strategy", "default", "--max-trials", "10")
            self.assertIn("starts from earlier results: N=64 instead of 128 (30 configs", warm.stderr)
            cold = farm.cli("tune", "matmul_host", *SECOND, "--strategy", "default", "--max-trials", "10", "--no-memory")
            self.assertNotIn("starts from", cold.stderr)
            # The default config at least was measured by the job before.
            self.assertIn("measured by earlier jobs and not run again", cold.stderr)

    def test_a_grown_space_or_another_strategy_pays_for_what_is_new(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="tunefarm-e2e."))
        self.addCleanup(shutil.rmtree, folder)
        small = folder / "small"
        shutil.copytree(KERNELS / "matmul_host", small)
        text = (small / "kernel.pbtxt").read_text()
        for name, values, fewer in (("MR", "[4, 6, 8]", "[4, 8]"), ("UNROLL", "[1, 4]", "[4]"), ("TILE_K", "[64, 256]", "[64]")):
            line = next(line for line in text.split("\n") if f'name: "{name}"' in line)
            self.assertIn(values, line)
            text = text.replace(line, line.replace(values, fewer))
        (small / "kernel.pbtxt").write_text(text)
        with Farm() as farm:
            farm.start()
            farm.cli("tune", small, *FIRST, "--strategy", "exhaustive")
            known = {key(t) for t in search(farm.trials(1))}
            done = farm.cli("tune", "matmul_host", *FIRST, "--strategy", "random")
            trials = search(farm.trials(2))
            assert_ordinals_complete(farm.trials(2))
            reused = [t for t in trials if t.get("reused_trial")]
            self.assertEqual({key(t) for t in reused}, known)
            self.assertGreater(len(trials), len(known))
            self.assertIn(f"{len(reused)} configs were measured by earlier jobs and not run again", done.stderr)
            for trial in reused:
                self.assertTrue(trial["reused_trial"].startswith("jobs/1/studies/1/trials/"))
                self.assertEqual(trial.get("run_ms", 0), 0)
            finalists = [t for t in farm.trials(2) if t.get("purpose") == "TRIAL_PURPOSE_FINALIST"]
            self.assertFalse([t for t in finalists if t.get("reused")])
            # A third strategy finds everything known, and the same results once.
            farm.cli("tune", "matmul_host", *FIRST, "--strategy", "default", "--max-trials", "40")
            study = farm.json("jobs", "show", 3)["studies"][0]
            self.assertEqual(len(study["priors"]), 1)
            self.assertEqual(study["priors"][0]["measured"], len([t for t in trials if outcome(t) == "OK"]))
            self.assertGreater(int(study["reused_from_earlier"]), 20)
            farm.cli("tune", "matmul_host", *FIRST, "--strategy", "default", "--max-trials", "40", "--measure", "no_reuse=true")
            self.assertFalse([t for t in farm.trials(4) if t.get("reused")])


if __name__ == "__main__":
    unittest.main(verbosity=2)
