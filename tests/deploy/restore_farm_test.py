"""A copy of the database put back under an agent that goes on: what it reports of the lost hour is refused, even where its
units, and their numbers, come again; jobs of before complete. On SQLite with control started anew, as it must be there; on
PostgreSQL with control going on too."""

import os
import pathlib
import shutil
import sys
import unittest

TESTS = pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"]) / "tests"
sys.path[:0] = [str(TESTS / "e2e"), str(TESTS / "cluster")]
import invariants  # noqa: E402
from catalog_test import Watcher, listed  # noqa: E402
from farm import assert_ordinals_complete, config, outcome, search, wait_until  # noqa: E402
from machines import Machines  # noqa: E402
from postgres import Postgres, programs  # noqa: E402

TRIALS = 900
LONG = ("noop_host", "--dim", "N=4096", "--policy", "fast", "--strategy", "random", "--max-trials", str(TRIALS), "--measure",
        "no_reuse=true")
# Trials that the agent may have in hand: what it reports so much later was claimed later.
IN_HAND = 130


class RestoreUnderAnAgent(unittest.TestCase):
    def begin(self, machines):
        """A best, and a job of which some is done."""
        machines.control.cli("tune", "noop_host", "--dim", "N=64", "--policy", "fast", "--max-trials", "5")
        machines.control.cli("submit", *LONG)
        wait_until(lambda: machines.trial_count(2) >= 10, "ten trials of the long job")

    def lose_an_hour(self, machines):
        """What will not have been: most of the job, another best, another job, whose numbers are given out again."""
        control = machines.control
        before = machines.trial_count(2)
        wait_until(lambda: machines.trial_count(2) >= before + IN_HAND, f"{IN_HAND} more trials")
        self.assertEqual(machines.state_of(2), "RUNNING")
        control.cli("submit", "noop_host", "--dim", "N=128", "--policy", "fast", "--max-trials", "20", "--measure", "no_reuse=true")

    def finish(self, machines):
        """The long job, and one that takes the lost one's numbers."""
        control = machines.control
        control.cli("submit", "noop_host", "--dim", "N=256", "--policy", "fast", "--max-trials", "20", "--measure", "no_reuse=true")
        for job in (2, 3):
            wait_until(lambda job=job: machines.state_of(job) in ("SUCCEEDED", "FAILED", "CANCELLED"), f"the end of job {job}")
            self.assertEqual(machines.state_of(job), "SUCCEEDED")
            trials = control.trials(job)
            assert_ordinals_complete(trials)
            self.assertEqual({outcome(trial) for trial in trials}, {"OK"})
            configs = [tuple(sorted(config(trial).items())) for trial in search(trials)]
            self.assertEqual(len(configs), len(set(configs)), "a config was proposed twice")
        self.assertEqual(len(search(control.trials(2))), TRIALS)
        problems = {best["problem"]["key"] for best in listed(control).values()}
        self.assertEqual({key.rpartition(",")[2] for key in problems}, {"N=64", "N=256", "N=4096"})

    def test_sqlite(self):
        with Machines(agents=1) as machines:
            control, (agent,) = machines.control, machines.agents
            self.begin(machines)
            control.cli("db", "backup", "hourly.db")
            self.lose_an_hour(machines)
            control.kill()
            wait_until(lambda: int(agent.info().get("spooled_bytes", 0)) > 0, "results in the spool")
            for suffix in ("", "-wal", "-shm"):
                (control.directory / f"tunefarm.db{suffix}").unlink(missing_ok=True)
            shutil.copyfile(control.directory / "backups" / "hourly.db", control.directory / "tunefarm.db")
            control.start()
            self.finish(machines)
            self.assertRegex(agent.log.read_text(), "has another owner|no longer knows this agent")
            self.assertEqual(agent.stop(), 0)
            self.assertEqual(control.stop(), 0)
            with invariants.read_sqlite(control.directory / "tunefarm.db") as store:
                self.assertEqual(invariants.check_store(store, drained=True), [])

    @unittest.skipIf(programs() is None, "no PostgreSQL server is installed (Debian's package postgresql)")
    def test_postgres(self):
        with Postgres() as server, Machines(agents=1, control_flags=("--store", server.url("farm"))) as machines:
            control, (agent,) = machines.control, machines.agents
            catalog_id = "SELECT value FROM setting WHERE name = 'catalog.id'"
            lease = "SELECT detail FROM named_lease WHERE name LIKE 'node/%'"
            self.begin(machines)
            copy = server.dump("farm")
            mark = server.sql("farm", lease)
            control.server = next(address for address in control.info()["addresses"] if "admin" in address)
            with Watcher(control) as watcher:
                wait_until(lambda: watcher.apply().bests == listed(control), "the watcher's agreement")
                self.lose_an_hour(machines)
                # What is younger than the last renewal cannot be told from it.
                wait_until(lambda: server.sql("farm", lease) != mark, "a renewal of the node's lease")
                before = server.sql("farm", catalog_id)
                server.put_back(copy, "farm")
                wait_until(lambda: server.sql("farm", catalog_id) != before, "another catalog")
                wait_until(lambda: watcher.apply().resets >= 2, "the watcher's new beginning")
                self.finish(machines)
                wait_until(lambda: watcher.apply().bests == listed(control), "the watcher's agreement")
            self.assertIn("was put back to an older state", control.log.read_text())
            self.assertEqual(agent.stop(), 0)
            self.assertEqual(control.stop(), 0)
            psql = ["psql", *map(str, server.client("farm"))]
            with invariants.read_postgres(psql) as store:
                self.assertEqual(invariants.check_store(store, drained=True), [])


if __name__ == "__main__":
    unittest.main()
