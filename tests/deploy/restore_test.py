"""An old backup restored as server/daemon/OPERATING.md says: the daemon continues from it, and watchers, which know of
more than it does, start anew instead of mixing two pasts."""

import os
import pathlib
import shutil
import sys
import unittest

TESTS = pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"]) / "tests"
sys.path[:0] = [str(TESTS / "e2e"), str(TESTS / "fault")]
import invariants  # noqa: E402
from catalog_test import TUNE, Watcher, history, listed, problem  # noqa: E402
from farm import Farm, assert_ordinals_complete, wait_until  # noqa: E402

LONG = ("noop_host", "--dim", "N=4096", "--policy", "fast", "--strategy", "random", "--max-trials", "400", "--measure",
        "no_reuse=true")


def catalog_id(database):
    with invariants.open_copy(database) as copy:
        row = copy.execute("SELECT value FROM setting WHERE name = 'catalog.id'").fetchone()
        return row and row[0]


class Restore(unittest.TestCase):
    def test_a_backup_from_the_middle_of_a_job(self):
        with Farm() as farm:
            farm.start()
            farm.server = next(address for address in farm.info()["addresses"] if "admin" in address)
            farm.cli("tune", *TUNE)
            farm.cli("submit", *LONG)
            wait_until(lambda: len(farm.trials(2)) >= 20, "20 trials of the long job")
            farm.cli("db", "backup", "hourly.db")
            known = listed(farm)
            with Watcher(farm) as watcher:
                # What happens in the hour after it: a best goes, others change, jobs come.
                farm.cli("best", "retire", "matmul_host", *problem(64))
                farm.cli("best", "note", "matmul_host", "written after the backup", *problem(96))
                farm.cli("best", "pin", "matmul_host", *problem(128))
                farm.cli("jobs", "cancel", "2")
                farm.cli("tune", "noop_host", "--dim", "N=64", "--policy", "fast", "--max-trials", "5")
                newest = int(history(farm)[0]["revision"])
                wait_until(lambda: watcher.has_reached(newest), f"revision {newest} at the watcher")
                self.assertEqual((watcher.resets, watcher.bests), (1, listed(farm)))

                farm.kill()
                before = catalog_id(farm.directory / "tunefarm.db")
                self.restore(farm, "hourly.db")
                farm.start()

                wait_until(lambda: watcher.apply().resets == 2, "the watcher's new beginning")
                wait_until(lambda: farm.json("jobs", "show", 2)["state"] == "JOB_STATE_SUCCEEDED", "the end of the long job")
                wait_until(lambda: watcher.apply().bests == listed(farm), "the watcher's agreement")
                for key, best in known.items():
                    self.assertEqual(watcher.bests[key], best, "as it was at the time of the backup")
                self.assertNotIn("written after the backup", str(watcher.bests))
            trials = farm.trials(2)
            assert_ordinals_complete(trials)
            self.assertGreaterEqual(len(trials), 400)
            self.assertEqual(farm.cli("jobs", "show", 3, check=False).returncode != 0, True, "job 3 is of the lost hour")
            self.assertEqual(farm.stop(), 0)
            after = catalog_id(farm.directory / "tunefarm.db")
            self.assertTrue(before and after)
            self.assertNotEqual(before, after, "what is restored is another catalog")
            invariants.check(farm, clean=True)

    def restore(self, farm, name):
        """The steps of the README."""
        backup = farm.directory / "backups" / name
        self.assertIsNone(catalog_id(backup))
        for suffix in ("", "-wal", "-shm"):
            (farm.directory / f"tunefarm.db{suffix}").unlink(missing_ok=True)
        shutil.copyfile(backup, farm.directory / "tunefarm.db")
        (farm.directory / "tunefarm.db").chmod(0o600)


if __name__ == "__main__":
    unittest.main()
