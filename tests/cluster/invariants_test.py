"""The farm's checker, itself: content with a store of a real daemon, and with nothing that was damaged on purpose."""

import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"]) / "tests" / "e2e"))
import invariants  # noqa: E402
from farm import Farm  # noqa: E402

TUNE = ("matmul_host", "--dim", "M=64", "--dim", "N=64", "--dim", "K=64", "--policy", "fast", "--strategy", "random",
        "--max-trials", "12")
# What is done to the store, and what the checker says of it.
DAMAGES = {
    "INSERT INTO trial_result SELECT * FROM trial_result WHERE ordinal = 3": "has 2 results",
    "DELETE FROM trial_result WHERE ordinal = 4": "without results for ordinals [4]",
    "UPDATE work_unit SET state = 2, agent_id = 'ghost', agent_epoch = 7 WHERE unit_id = 1": "which has ended",
    "UPDATE work_unit SET token = 1, attempt = 2 WHERE unit_id = 1": "was tried 2 times and claimed 1 times",
    "UPDATE work_unit SET token = 0, attempt = 0 WHERE unit_id = 1": "was never claimed",
    "DELETE FROM study_event WHERE sequence = 2": "event 2 of the decision log is missing",
    "UPDATE best_config SET ordinal = 0": "no accepted finalist",
    "UPDATE best_config SET median_ns = 1": "is not what its trial measured",
    "UPDATE job SET state = 2": "has not ended",
    "UPDATE job SET driver = 'n1', driver_epoch = 0": "under no epoch",
    "UPDATE catalog_rev SET revision = 0": "a best has",
}
CHANGES = {
    "UPDATE trial_result SET median_ns = median_ns + 1 WHERE ordinal = 3": "the result of ordinal 3 of study 1 was",
    "DELETE FROM trial_result WHERE ordinal = 3": "and is None",
    "UPDATE study_event SET unit_id = 99 WHERE sequence = 1": "event 1 of study 1 was",
    "UPDATE work_unit SET token = token - 1": "went back from token",
    "UPDATE agent SET epoch = 0": "the epoch of agent",
    "UPDATE job SET state = 2": "had ended in state 5 and is in 2",
    "UPDATE catalog_rev SET revision = 0": "the catalog went back",
}


class Checker(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.farm = cls.enterClassContext(Farm())
        cls.farm.start()
        cls.farm.cli("tune", *TUNE)
        cls.farm.stop()
        cls.database = cls.farm.directory / "tunefarm.db"

    def test_a_healthy_store(self):
        history = invariants.History()
        for _ in range(2):
            with invariants.read_sqlite(self.database) as store:
                self.assertEqual(invariants.check_store(store, history, drained=True, settled=True), [])
                self.assertGreater(store.execute("SELECT count(*) FROM trial_result").fetchone()[0], 12)
        self.assertGreater(len(history.results), 12)

    def test_every_damage_is_found(self):
        for damage, complaint in DAMAGES.items():
            with self.subTest(damage), invariants.read_sqlite(self.database) as store:
                store.execute(damage)
                self.assertIn(complaint, "\n".join(invariants.check_store(store, drained=True)))

    def test_what_may_not_change(self):
        for change, complaint in CHANGES.items():
            history = invariants.History()
            with self.subTest(change), invariants.read_sqlite(self.database) as store:
                self.assertEqual(history.compare(store), [])
                store.execute(change)
                self.assertIn(complaint, "\n".join(history.compare(store)))

    def test_leases(self):
        with invariants.read_sqlite(self.database) as store:
            store.execute("UPDATE agent SET released_at_ms = NULL, lease_left_ms = -5000")
            store.execute("UPDATE job SET state = 2, driver = 'n1', driver_epoch = 1")
            found = "\n".join(invariants.check_store(store, settled=True))
            self.assertIn("is not reaped 5.0 s after its lease", found)
            self.assertIn("waits for its driver n1", found)
            store.execute("INSERT INTO lease VALUES ('node/n1', 'n1', 1, 10000)")
            self.assertNotIn("waits for", "\n".join(invariants.check_store(store, settled=True)))


if __name__ == "__main__":
    unittest.main()
