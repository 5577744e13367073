"""SIGKILL of the daemon at every failpoint and at random moments, and of its workers. After restarts every job completes;
every ordinal has exactly one final outcome; nothing that was stored is run again; no process stays."""

import os
import pathlib
import shutil
import signal
import tempfile
import time
import unittest

import fault_case
import invariants
from farm import KERNELS, outcome
from fault_case import HANG_SECONDS, NIGHTLY, QUICK, FaultFarm, failpoints, generator, wait_until

# Cheap trials of configs that share one binary, and trials that each need a compiler.
RUN_BOUND = ["submit", "--quiet", "noop_host", "--max-trials", "24"]
COMPILE_BOUND = ["submit", "--quiet", "matmul_host", "--dim", "M=32,48", "--dim", "N=32", "--dim", "K=32",
                 "--strategy", "random", "--max-trials", "6"]

# Passed outside of a job; each has a test of its own.
MIGRATION_POINTS = ["store.migrate.before", "store.migrate.after"]
BACKUP_POINTS = ["store.backup.copied", "store.backup.linked"]
SPOOL_POINTS = ["agent.spool.before", "agent.spool.after"]  # tests/e2e/farm_test.py
# Passed once or twice in a job of this size; the others many times.
RARE_POINTS = ["jobs.submit.stored", "jobs.promote.after", "jobs.end.before", "exec.spawn.before", "exec.spawn.after"]

ROUNDS = 14 if NIGHTLY else 1           # of all failpoints
RANDOM_KILLS = 260 if NIGHTLY else 22
WORKER_KILLS = 60 if NIGHTLY else 10    # of each role


def stored(farm):
    """(study, ordinal) to what is stored, from the database of a dead daemon."""
    with invariants.open_copy(farm.directory / "tunefarm.db") as database:
        return {(row[0], row[1]): tuple(row[2:]) for row in
                database.execute("SELECT study_id, ordinal, attempt, outcome, ended_at_ms FROM trial_result")}


class KilledFarm(FaultFarm):
    """A farm that is killed again and again, always with a job under way."""

    def __init__(self, **options):
        super().__init__(**options)
        self.jobs = []  # acknowledged
        self.known = {}
        self.kills = 0

    def submit(self, command):
        done = self.cli(*command, *QUICK, check=False)
        if done.returncode == 0:
            self.jobs.append(done.stdout.strip())

    def keep_busy(self, random, new_source=False):
        """Submits a job if none is active; the daemon may die meanwhile."""
        listed = self.cli("--output", "json", "jobs", "list", check=False)
        if listed.returncode != 0:
            return
        if '"JOB_STATE_QUEUED"' not in listed.stdout and '"JOB_STATE_RUNNING"' not in listed.stdout:
            if new_source:
                return self.submit_new_source(random)
            # Another seed every time: what was compiled before would not be compiled again.
            seed = str(random.randint(1, 1 << 30))
            self.submit(random.choice([RUN_BOUND, RUN_BOUND, COMPILE_BOUND]) + ["--seed", seed])

    def submit_new_source(self, random):
        """A job with nothing in the cache: once all binaries of a kernel are there, nobody starts a compiler."""
        with tempfile.TemporaryDirectory() as folder:
            kernel = pathlib.Path(shutil.copytree(KERNELS / "matmul_host", pathlib.Path(folder) / "matmul_host"))
            for source in kernel.glob("*.cc"):
                source.write_text(source.read_text() + f"// {random.random()}\n")
            self.submit([kernel if word == "matmul_host" else word for word in COMPILE_BOUND])

    def after_kill(self, what):
        self.kills += 1
        self.check()
        now = stored(self)
        for key, row in self.known.items():
            assert now.get(key) == row, f"trial {key} was lost or run again after {what}"
        self.known = now

    def complete(self):
        """All jobs end well without further faults, the acknowledged ones among them."""
        if self.process.poll() is not None:
            self.start()
        listed = {job["name"].removeprefix("jobs/") for job in self.json("jobs", "list", "--limit", "1000")["jobs"]}
        assert set(self.jobs) <= listed, f"acknowledged jobs {set(self.jobs) - listed} are lost"
        for job in sorted(listed, key=int):
            assert self.watch_to_end(job) == "SUCCEEDED", job


class Sigkill(unittest.TestCase):
    def test_at_every_failpoint(self):
        random = generator("failpoints")
        begin = time.monotonic()
        with KilledFarm() as farm:
            for _ in range(ROUNDS):
                points = [name for name in failpoints() if name not in MIGRATION_POINTS + BACKUP_POINTS + SPOOL_POINTS]
                random.shuffle(points)
                for name in points:
                    hit = random.randint(1, 2 if name in RARE_POINTS else 12)
                    self.kill_at(farm, random, name, hit)
            farm.complete()
        print(f"{farm.kills} kills at failpoints in {fault_case.elapsed(begin)}")

    def kill_at(self, farm, random, name, hit):
        farm.spawn(TUNEFARM_FAILPOINTS=f"{name}=crash@{hit}")

        def dead():
            farm.keep_busy(random)
            return farm.process.poll() is not None

        wait_until(dead, f"hit {hit} of failpoint {name}")
        self.assertEqual(farm.process.returncode, -signal.SIGKILL, f"{name}@{hit}: {farm.log.read_text()[-500:]}")
        farm.after_kill(f"{name}@{hit}")

    def test_during_a_backup(self):
        with KilledFarm() as farm:
            for name in BACKUP_POINTS:
                farm.start(TUNEFARM_FAILPOINTS=f"{name}=crash")
                farm.keep_busy(generator("backup"))
                self.assertNotEqual(farm.cli("db", "backup", "copy.db", check=False).returncode, 0)
                farm.process.wait(HANG_SECONDS)
                farm.after_kill(name)
            # What the dead daemons left is neither in the way nor taken for a backup.
            farm.start()
            self.assertEqual([path.name for path in (farm.directory / "backups").iterdir()], ["copy.db"])
            farm.complete()
            farm.cli("db", "backup", "again.db")
            for backup in (farm.directory / "backups").glob("*.db"):
                with invariants.open_copy(backup) as database:
                    self.assertEqual(database.execute("PRAGMA integrity_check").fetchone()[0], "ok", backup)

    def test_during_a_migration(self):
        migrations = len(list((fault_case.SOURCE / "migrations/sqlite").glob("0*.sql")))
        for name in MIGRATION_POINTS:
            for number in range(1, migrations + 1):
                with FaultFarm() as farm:
                    farm.spawn(TUNEFARM_FAILPOINTS=f"{name}=crash@{number}")
                    farm.process.wait(HANG_SECONDS)
                    self.assertEqual(farm.process.returncode, -signal.SIGKILL)
                    with invariants.open_copy(farm.directory / "tunefarm.db") as database:
                        version = database.execute("PRAGMA user_version").fetchone()[0]
                        self.assertEqual(version, number if name.endswith("after") else number - 1)
                        tables = database.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
                        self.assertEqual(tables > 0, version > 0)
                    farm.start()
                    with self.subTest(name=name, number=number):
                        self.assertEqual(farm.json("db", "status")["schema_version"], migrations)

    def test_at_random_moments(self):
        random = generator("moments")
        begin = time.monotonic()
        with KilledFarm() as farm:
            for kill in range(RANDOM_KILLS):
                farm.start()
                farm.keep_busy(random)
                # Between nothing and a few dozen trials: the time is the random moment, not a wait for something.
                time.sleep(random.uniform(0.0, 0.5))
                farm.kill()
                farm.after_kill(f"kill {kill}")
            farm.complete()
        print(f"{farm.kills} kills at random moments in {fault_case.elapsed(begin)}")

    def test_of_workers(self):
        random = generator("workers")
        begin = time.monotonic()
        kills = {"run": 0, "compile": 0}
        with KilledFarm(lost=True) as farm:
            farm.start()
            while min(kills.values()) < WORKER_KILLS:
                role = min(kills, key=kills.get)
                wait_until(lambda: self.kill_worker(farm, random, role), f"a worker of role {role}")
                kills[role] += 1
            # A config whose worker was killed has its outcome; the others and the daemon do not notice.
            self.assertIsNone(farm.process.poll())
            farm.complete()
        print(f"{kills} worker kills in {fault_case.elapsed(begin)}")

    def test_one_kill_blames_no_config(self):
        for role in ("run", "compile"):
            random = generator("one kill " + role)
            with self.subTest(role), KilledFarm(lost=True) as farm:
                farm.start()
                wait_until(lambda: self.kill_worker(farm, random, role) and "is tried again" in farm.log.read_text(),
                           "a kill that an evaluation noticed")
                farm.complete()
                for job in farm.jobs:
                    for trial in farm.trials(job):
                        self.assertNotIn(outcome(trial), {"RUN_CRASH", "COMPILE_CRASH", "OUT_OF_MEMORY"}, trial.get("message"))

    def kill_worker(self, farm, random, role):
        farm.keep_busy(random, new_source=role == "compile" and not farm.workers(role))
        time.sleep(random.uniform(0.0, 0.1))
        pids = farm.workers(role)  # stub, init, the worker, and what it has started
        if not pids:
            return False
        try:
            os.kill(random.choice(pids), signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True


if __name__ == "__main__":
    fault_case.main()
