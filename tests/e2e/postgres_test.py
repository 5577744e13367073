"""The daemon on PostgreSQL: a job that goes on after the daemon and the server were killed, and moving to it from SQLite."""

import os
import subprocess
import time
import unittest

from farm import BIN, HANG_SECONDS, Farm, assert_ordinals_complete, outcome, search, wait_until
from postgres import Postgres, programs

# Promised are 4 s, without the client's start: a machine without a free core is given more.
ANSWER_SECONDS_MAX = 8
DIMS = ["--dim", "M=128", "--dim", "N=128", "--dim", "K=128"]


def best(farm):
    return farm.json("best", "matmul_host", "--exact", *DIMS)


def tunefarmd(*arguments):
    return subprocess.run([BIN / "tunefarmd", *map(str, arguments)], capture_output=True, text=True, timeout=HANG_SECONDS,
                          stdin=subprocess.DEVNULL)


@unittest.skipIf(programs() is None, "no PostgreSQL server is installed (Debian's package postgresql)")
class OnPostgres(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Postgres().__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__(None, None, None)

    def test_a_job_goes_on_after_the_daemon_was_killed_and_the_server_restarted(self):
        with Farm() as farm:
            store = self.server.url("killed")
            farm.start(TUNEFARM_STORE=store)
            farm.cli("submit", "matmul_host", "--policy", "fast", *DIMS)
            wait_until(lambda: len(farm.trials(1)) > 40, "forty trials")
            farm.kill()
            stored = int(self.server.sql("killed", "SELECT count(*) FROM trial_result"))
            self.assertGreater(stored, 40)
            farm.start(TUNEFARM_STORE=store)
            wait_until(lambda: len(farm.trials(1)) > stored, "another trial")
            self.server.stop()
            self.server.start()
            wait_until(lambda: farm.json("jobs", "show", 1)["state"] == "JOB_STATE_SUCCEEDED", "the job's end")
            trials = farm.trials(1)
            self.assertGreaterEqual(len(search(trials)), 200)
            self.assertEqual({outcome(t) for t in trials}, {"OK"})
            assert_ordinals_complete(trials)
            self.assertEqual(best(farm)["match"], "MATCH_EXACT")
            self.assertFalse((farm.directory / "tunefarm.db").exists())
            refused = farm.cli("db", "backup", "copy.db", check=False)
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn("pg_dump", refused.stderr)
            self.assertEqual(farm.stop(), 0)

    def test_a_database_that_stands_still_holds_nobody_up(self):
        with Farm() as farm:
            farm.start(TUNEFARM_STORE=self.server.url("frozen"), TUNEFARM_STORE_CONNECTIONS="4")
            farm.cli("tune", "matmul_host", "--policy", "fast", *DIMS)
            farm.cli("submit", "matmul_host", "--policy", "fast", "--measure", "no_reuse=true", *DIMS)
            self.assertEqual(best(farm)["match"], "MATCH_EXACT")
            wait_until(lambda: len(farm.trials(2)) > 10, "ten trials of the second job")
            self.server.freeze()
            try:
                # What is driven here is shown from memory, as long as this daemon's lease runs.
                self.assertEqual(farm.json("jobs", "show", 2)["state"], "JOB_STATE_RUNNING")
                # Each of them would wait for as long as the server does.
                for command in (["submit", "matmul_host", *DIMS], ["jobs", "list"], ["results", "1"], ["jobs", "cancel", "2"]):
                    begin = time.monotonic()
                    refused = farm.cli(*command, check=False)
                    self.assertLess(time.monotonic() - begin, ANSWER_SECONDS_MAX, command)
                    self.assertNotEqual(refused.returncode, 0, command)
                    self.assertIn("does not answer", refused.stderr, command)
                self.assertIn("does not answer", farm.info()["database_away"])
                self.assertEqual(best(farm)["match"], "MATCH_EXACT")
                self.assertNotEqual(farm.json("devices")["devices"], [])
            finally:
                self.server.thaw()
            wait_until(lambda: not farm.info().get("database_away"), "the database's return")
            wait_until(lambda: farm.json("jobs", "show", 2)["state"] == "JOB_STATE_SUCCEEDED", "the second job's end")
            trials = farm.trials(2)
            self.assertEqual({outcome(t) for t in trials}, {"OK"})
            assert_ordinals_complete(trials)
            farm.cli("tune", "matmul_host", "--policy", "fast", *DIMS)
            self.assertEqual(farm.stop(), 0)

    def test_a_database_moves_to_postgres_and_goes_on_there(self):
        with Farm() as farm:
            farm.start()
            farm.cli("tune", "matmul_host", "--policy", "fast", *DIMS)
            before = best(farm)["best"]["config"], farm.trials(1), farm.json("db", "status")
            store = self.server.url("moved")
            copy = ["copy-database", "--data-dir", farm.directory, "--to", store]
            running = tunefarmd(*copy)
            self.assertNotEqual(running.returncode, 0)
            self.assertIn("a daemon serves", running.stderr)
            self.assertEqual(farm.stop(), 0)
            copied = farm.cli("db", "copy", "--to", store)
            self.assertIn("trial_result", copied.stdout)
            again = tunefarmd(*copy)
            self.assertNotEqual(again.returncode, 0)
            self.assertIn("is not empty", again.stderr)
            farm.start(TUNEFARM_STORE=store)
            self.assertEqual((best(farm)["best"]["config"], farm.trials(1)), before[:2])
            farm.cli("tune", "matmul_host", "--policy", "fast", "--measure", "no_reuse=true", *DIMS)
            self.assertGreater(len(farm.trials(2)), 0)
            self.assertEqual(farm.stop(), 0)

    def test_what_cannot_be_the_store_is_refused_without_its_password(self):
        with Farm() as farm:
            for store in ("postgres://someone:s3cret@127.0.0.1:1/farm", "mysql://someone:s3cret@h/farm"):
                done = subprocess.run([BIN / "tunefarmd", "--data-dir", farm.directory], capture_output=True, text=True,
                                      env=dict(os.environ, TUNEFARM_STORE=store), timeout=HANG_SECONDS)
                self.assertNotEqual(done.returncode, 0)
                self.assertNotIn("s3cret", done.stdout + done.stderr)
                self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)


if __name__ == "__main__":
    unittest.main()
