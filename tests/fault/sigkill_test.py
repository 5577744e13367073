"""The daemon is killed at random moments of a job. After restarts the job completes; every ordinal has exactly one final
outcome; nothing that was stored is run again; no process stays."""

import os
import pathlib
import random
import sqlite3
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "e2e"))
from farm import Farm, assert_ordinals_complete, search, wait_until  # noqa: E402

KILLS = 500 if os.environ.get("TUNEFARM_NIGHTLY") == "1" else 50
SEED = int(os.environ.get("TUNEFARM_SEED", "20"))


def stored(farm):
    """(study, ordinal) to what is stored, read from the database of a dead daemon."""
    database = sqlite3.connect(f"file:{farm.directory / 'tunefarm.db'}?mode=ro", uri=True)
    try:
        return {(row[0], row[1]): row[2:] for row in
                database.execute("SELECT study_id, ordinal, attempt, outcome, ended_at_ms FROM trial_result")}
    finally:
        database.close()


class Sigkill(unittest.TestCase):
    def test_kills_at_random_moments(self):
        generator = random.Random(SEED)
        print(f"seed {SEED}, {KILLS} kills")
        with Farm() as farm:
            farm.start()
            submit = ["submit", "--quiet", "matmul_host", "--policy", "fast", "--dim", "M=32,48", "--dim", "N=32", "--dim", "K=32"]
            jobs = [farm.cli(*submit).stdout.strip()]
            known = {}
            for kill in range(KILLS):
                # Between nothing and a few dozen trials: the time is the random moment, not a wait for something.
                time.sleep(generator.uniform(0.0, 0.35))
                farm.kill()
                farm.assert_no_orphans()
                now = stored(farm)
                for key, row in known.items():
                    self.assertEqual(now.get(key), row, f"trial {key} was lost or run again after kill {kill}")
                known = now
                farm.start()
                states = {job["name"]: job["state"] for job in farm.json("jobs", "list")["jobs"]}
                if all(state == "JOB_STATE_SUCCEEDED" for state in states.values()) and kill < KILLS - 1:
                    jobs.append(farm.cli(*submit).stdout.strip())
            for job in jobs:
                farm.cli("jobs", "watch", job, timeout=600)
                trials = farm.trials(job)
                assert_ordinals_complete(trials)
                self.assertEqual(len(search(trials)), 2 * 360)
                self.assertEqual(farm.json("jobs", "show", job)["state"], "JOB_STATE_SUCCEEDED")
            wait_until(lambda: True, 1, "the end")
            self.assertEqual(farm.stop(), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
