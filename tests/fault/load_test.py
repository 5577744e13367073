"""Clients that are slow, many, or change their mind at the worst moment."""

import concurrent.futures
import os
import sqlite3
import subprocess
import time
import unittest

import fault_case
import invariants
from fault_case import HANG_SECONDS, NIGHTLY, QUICK, FaultFarm, SuspendedProcess, generator, wait_until
from farm import assert_ordinals_complete, outcome

WATCHED_TRIALS = 5000 if NIGHTLY else 400
FLOOD_CLIENTS = 4
LOOKUPS_PER_CLIENT = 400 if NIGHTLY else 15
CANCELS = 60 if NIGHTLY else 8
DRAINS = 30 if NIGHTLY else 3
QUEUED_JOBS = 10_000 if NIGHTLY else 150
RESIDENT_GROWTH_MAX = 32 << 20
RESIDENT_PER_JOB_MAX = 32 << 10

# Of job 1 with its only study.
COPY_JOBS = """
WITH RECURSIVE numbers (n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM numbers WHERE n < {jobs})
INSERT INTO job (job_id, uid, kernel_id, state, priority, state_reason, created_at_ms)
SELECT n, uid || '-' || n, kernel_id, state, priority, state_reason, created_at_ms FROM job, numbers WHERE job_id = 1;
INSERT INTO job_spec (job_id, spec) SELECT j.job_id, p.spec FROM job j, job_spec p WHERE j.job_id > 1 AND p.job_id = 1;
INSERT INTO study (job_id, number, problem_key, problem, class_id, device_selector, detail, state, next_ordinal)
SELECT j.job_id, s.number, s.problem_key, s.problem, s.class_id, s.device_selector, s.detail, s.state, s.next_ordinal
FROM job j, study s WHERE j.job_id > 1 AND s.job_id = 1;
"""


def resident_bytes(farm):
    return int(farm.info()["resident_bytes"])


def active_jobs(farm):
    return int(farm.info().get("active_jobs", 0))


class Load(unittest.TestCase):
    def submit(self, farm, trials, *options):
        return farm.cli("submit", "--quiet", "noop_host", "--max-trials", trials, *QUICK, *options).stdout.strip()

    def test_a_watcher_that_does_not_read(self):
        """What it misses is bounded in the daemon; when it reads again, it learns how the job ended."""
        with FaultFarm() as farm:
            farm.start()
            job = self.submit(farm, WATCHED_TRIALS)
            environment = dict(os.environ, TUNEFARM_SERVER=farm.server)
            watchers = [subprocess.Popen([fault_case.BIN / "tunefarm", "--output", "json", "jobs", "watch", job],
                                         env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                        for _ in range(4)]
            wait_until(lambda: farm.trials(job), "the first results")
            before = resident_bytes(farm)
            suspended = [SuspendedProcess(watcher.pid).__enter__() for watcher in watchers]
            try:
                self.assertEqual(farm.watch_to_end(job), "SUCCEEDED")
                self.assertLess(resident_bytes(farm) - before, RESIDENT_GROWTH_MAX)
            finally:
                for process in suspended:
                    process.__exit__(None, None, None)
            for watcher in watchers:
                out, err = watcher.communicate(timeout=HANG_SECONDS)
                self.assertEqual(watcher.returncode, 0, err)
                self.assertIn("Done.", out + err)

    def test_lookups_while_tuning(self):
        """A flood of look-ups: every one is answered, the job goes on, the daemon does not grow."""
        with FaultFarm() as farm:
            farm.start()
            self.assertEqual(farm.watch_to_end(self.submit(farm, 8)), "SUCCEEDED")
            before = resident_bytes(farm)
            job = self.submit(farm, 300, "--seed", "2")

            def ask(_):
                for _ in range(LOOKUPS_PER_CLIENT):
                    best = farm.json("best", "noop_host")
                    assert best["match"] == "MATCH_EXACT", best

            begin = time.monotonic()
            with concurrent.futures.ThreadPoolExecutor(FLOOD_CLIENTS) as clients:
                list(clients.map(ask, range(FLOOD_CLIENTS)))
            print(f"{FLOOD_CLIENTS * LOOKUPS_PER_CLIENT} look-ups in {fault_case.elapsed(begin)}")
            self.assertEqual(farm.watch_to_end(job), "SUCCEEDED")
            self.assertLess(resident_bytes(farm) - before, RESIDENT_GROWTH_MAX)

    def test_a_cancel_that_races_with_the_end(self):
        random = generator("cancel")
        ends = []
        with FaultFarm() as farm:
            farm.start()
            usual = 0
            for _ in range(2):  # the first one starts workers and compiles
                begin = time.monotonic()
                self.assertEqual(farm.watch_to_end(self.submit(farm, 12)), "SUCCEEDED")
                usual = time.monotonic() - begin
            for number in range(CANCELS):
                job = self.submit(farm, 12, "--seed", number + 2)
                # Before, at or after the moment at which it would end by itself: the time is the random moment.
                time.sleep(random.uniform(0.0, 1.0) * usual)
                cancelled = farm.cli("jobs", "cancel", job, check=False)
                end = farm.watch_to_end(job)
                ends.append(end)
                self.assertIn(end, ("SUCCEEDED", "CANCELLED"))
                if cancelled.returncode == 0:
                    self.assertEqual(end, "CANCELLED")
                else:
                    self.assertEqual(end, "SUCCEEDED", cancelled.stderr)
                self.assertEqual(len({t["name"] for t in farm.trials(job)}), len(farm.trials(job)))
            # Nothing of a cancelled job is in the way of the next one.
            self.assertEqual(farm.watch_to_end(self.submit(farm, 12, "--seed", "999")), "SUCCEEDED")
        print(f"{ends.count('CANCELLED')} of {len(ends)} were cancelled in time")

    def test_a_long_queue(self):
        """Thousands of queued jobs: the daemon starts, answers, cancels and ends; what a job costs in memory is bounded."""
        with FaultFarm() as farm:
            farm.start()
            before = resident_bytes(farm)
            self.assertEqual(farm.stop(), 0)
            # One job that is stored and never begun, and copies of it: nobody waits for thousands of submits.
            farm.start(TUNEFARM_FAILPOINTS="jobs.submit.stored=crash")
            farm.cli("submit", "vector_add_host", "--max-trials", "1", "--promote", "--dim", "N=4096", *QUICK,
                     check=False)
            farm.process.wait(HANG_SECONDS)
            database = sqlite3.connect(farm.directory / "tunefarm.db")
            database.executescript(COPY_JOBS.format(jobs=QUEUED_JOBS))
            database.close()
            farm.start()
            grown = resident_bytes(farm) - before
            print(f"{QUEUED_JOBS} queued jobs: {grown >> 20} MiB")
            self.assertLess(grown, RESIDENT_GROWTH_MAX + QUEUED_JOBS * RESIDENT_PER_JOB_MAX)
            page = farm.json("jobs", "list", "--limit", "100")["jobs"]
            self.assertEqual(page[0]["name"], f"jobs/{QUEUED_JOBS}")
            farm.cli("jobs", "cancel", QUEUED_JOBS)
            self.assertEqual(farm.watch_to_end(QUEUED_JOBS), "CANCELLED")
            # The others all have their turn.
            self.assertGreater(active_jobs(farm), 0)
            wait_until(lambda: active_jobs(farm) == 0, "the end of the queue", HANG_SECONDS + QUEUED_JOBS)

    def test_an_end_during_a_measurement(self):
        """SIGTERM: the trials in hand are finished and stored; the rest goes on after the next start, once each."""
        random = generator("drain")
        with FaultFarm() as farm:
            farm.start()
            jobs, known = [], {}
            for drain in range(DRAINS):
                # A new one each time: on a fast machine the one before has ended meanwhile.
                jobs.append(farm.cli("submit", "--quiet", "noop_host", "--max-trials", "40", "--policy", "fast",
                                     "--min-samples", "3", "--time-budget-ms", "40", "--seed", drain + 1).stdout.strip())
                wait_until(lambda: farm.trials(jobs[-1]), "the first results")
                time.sleep(random.uniform(0.0, 0.1))
                self.assertEqual(farm.stop(), 0)
                farm.check(clean=True)
                with invariants.open_copy(farm.directory / "tunefarm.db") as database:
                    now = {tuple(row[:2]): tuple(row) for row in database.execute(
                        "SELECT study_id, ordinal, attempt, outcome, ended_at_ms FROM trial_result")}
                for key, row in known.items():
                    self.assertEqual(now.get(key), row, "a stored trial was run again")
                known = now
                farm.start()
            for job in jobs:
                self.assertEqual(farm.watch_to_end(job), "SUCCEEDED")
                trials = farm.trials(job)
                assert_ordinals_complete(trials)
                self.assertEqual({outcome(t) for t in trials}, {"OK"})


if __name__ == "__main__":
    fault_case.main()
