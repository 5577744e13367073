"""What must hold after every round of a farm's life, in its store and around it.

The rules of one daemon are in tests/fault/invariants.py (each ordinal has one final outcome and none is missing, the
decision log has no gap, no unit is held by an epoch that has ended, bests are the fastest of their final, ...). Here
they are asked of a farm's store too, together with what only a farm can break:

    history = invariants.History()
    with invariants.read_postgres(["psql", "postgres://..."]) as store:        # or read_sqlite(path of a backup)
        problems = invariants.check_store(store, history, drained=True)

PostgreSQL is read by psql in one snapshot, while everything runs, into a database in memory with SQLite's names: so the
same rules read both. SQLite is read as a copy of a file that nobody has open, or of a backup.
"""

import contextlib
import importlib.util
import json
import pathlib
import sqlite3
import subprocess
import time

_spec = importlib.util.spec_from_file_location(
    "invariants_of_one_daemon", pathlib.Path(__file__).resolve().parents[1] / "fault" / "invariants.py")
one_daemon = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(one_daemon)

READY, CLAIMED, DONE, TOLD = 1, 2, 3, 4
TERMINAL = (5, 6, 7)

# What is read of each table: what the rules ask for, without the large parts of it. The two stores have these in common.
BEST = "program_digest problem_key class_id config median_ns job_id study_id ordinal revision pinned"
COLUMNS = {
    "catalog_rev": "revision",
    "kernel": "kernel_id program_digest",
    "job": "job_id kernel_id state state_reason driver driver_epoch",
    "study": "study_id job_id number problem_key class_id state next_ordinal",
    "study_event": "study_id sequence kind unit_id",
    "work_unit": "unit_id study_id kind state first_ordinal trial_count rounds token attempt agent_id agent_epoch",
    "trial_result": "study_id ordinal attempt outcome purpose config median_ns device_uuid",
    "trial_samples": "study_id ordinal samples",
    "config_poison": "program_digest class_id config problem_key",
    "best_config": BEST,
    "best_change": "revision kind program_digest problem_key class_id config",
}
# And what they write differently: PostgreSQL's expressions, then SQLite's.
LEASES = {
    "agent": ("agent_id host epoch draining registered_at_ms released_at_ms lease_left_ms",
              "agent_id, host, epoch, draining::int, registered_at_ms, released_at_ms, "
              "extract(epoch FROM lease_until - clock_timestamp()) * 1000 AS lease_left_ms",
              "agent_id, host, epoch, draining, registered_at_ms, released_at_ms, lease_until_ms - {now_ms} AS lease_left_ms"),
    "lease": ("name holder epoch left_ms",
              "name, holder, epoch, extract(epoch FROM lease_until - clock_timestamp()) * 1000 AS left_ms",
              "name, holder, epoch, until_ms - {now_ms} AS left_ms"),
}
POSTGRES_NAMES = {"study": "study_now"}


def _value(value):
    if isinstance(value, str) and value.startswith("\\x"):
        return bytes.fromhex(value[2:])
    return int(value) if isinstance(value, bool) else value


def _memory():
    connection = sqlite3.connect(":memory:")
    connection.row_factory = sqlite3.Row
    for table, columns in {**COLUMNS, **{name: of[0] for name, of in LEASES.items()}}.items():
        connection.execute(f"CREATE TABLE {table} ({', '.join(columns.split())})")
    for table, columns in (("trial_result", "study_id, ordinal"), ("trial_samples", "study_id, ordinal"),
                           ("work_unit", "study_id"), ("study_event", "study_id"), ("config_poison", "config")):
        connection.execute(f"CREATE INDEX {table}_by ON {table} ({columns})")
    return connection


def _insert(connection, table, rows):
    rows = [tuple(row) for row in rows]
    if rows:
        connection.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)


@contextlib.contextmanager
def read_postgres(psql):
    """`psql`: the command line with the address of the database, such as ["psql", "postgres://..."]."""
    selects = {table: ", ".join(columns.split()) for table, columns in COLUMNS.items()}
    selects.update({table: of[1] for table, of in LEASES.items()})
    script = ["BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;"]
    for table, columns in selects.items():
        script.append(f"SELECT '{table}', row_to_json(t) FROM (SELECT {columns} FROM {POSTGRES_NAMES.get(table, table)}) t;")
    done = subprocess.run([*psql, "--no-psqlrc", "-At", "-F", "\t", "-v", "ON_ERROR_STOP=1"], input="\n".join(script),
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"the store cannot be read: {done.stderr.strip()}")
    rows = {}
    for line in done.stdout.split("\n"):
        table, tab, row = line.partition("\t")
        if tab:
            rows.setdefault(table, []).append([_value(value) for value in json.loads(row).values()])
    with contextlib.closing(_memory()) as connection:
        for table, of_table in rows.items():
            _insert(connection, table, of_table)
        yield connection


@contextlib.contextmanager
def read_sqlite(path):
    """Of a database that nobody has open."""
    now_ms = int(time.time() * 1000)
    with one_daemon.open_copy(path) as copy, contextlib.closing(_memory()) as connection:
        problem = copy.execute("PRAGMA integrity_check").fetchone()[0]
        if problem != "ok":
            raise AssertionError(f"{path} is damaged: {problem}")
        for table, columns in COLUMNS.items():
            _insert(connection, table, copy.execute(f"SELECT {', '.join(columns.split())} FROM {table}"))
        for table, of in LEASES.items():
            _insert(connection, table, copy.execute(f"SELECT {of[2].format(now_ms=now_ms)} FROM {table}"))
        yield connection


class FarmChecker(one_daemon.DatabaseChecker):
    """`drained`: all work has ended. `settled`: leases that have run out have been seen to."""

    def __init__(self, store, incomplete=(), lost=False, drained=False, settled=False):
        super().__init__(store, incomplete, lost)
        self.drained, self.settled = drained, settled

    def run(self):
        super().run()
        self.check_attempts()
        self.check_results()
        self.check_drivers()
        if self.drained:
            self.check_drained()
        return self.problems

    def check_attempts(self):
        for unit in self.rows("SELECT * FROM work_unit"):
            name = f"unit {unit['unit_id']}"
            if unit["attempt"] > unit["token"]:
                self.fail(f"{name} was tried {unit['attempt']} times and claimed {unit['token']} times")
            if unit["state"] in (CLAIMED, DONE, TOLD) and unit["token"] < 1:
                self.fail(f"{name} is in state {unit['state']} and was never claimed")
            if (unit["state"] == CLAIMED) != (unit["agent_id"] is not None):
                self.fail(f"{name} is in state {unit['state']}, its owner is {unit['agent_id']}")

    def check_results(self):
        for row in self.rows("SELECT study_id, ordinal, count(*) AS n FROM trial_result GROUP BY 1, 2 HAVING count(*) > 1"):
            self.fail(f"ordinal {row['ordinal']} of study {row['study_id']} has {row['n']} results")
        for row in self.rows("SELECT t.study_id, t.ordinal FROM trial_result t LEFT JOIN study s USING (study_id) "
                             "WHERE s.study_id IS NULL"):
            self.fail(f"ordinal {row['ordinal']} belongs to study {row['study_id']}, which does not exist")
        # A unit that nobody has been given has no results.
        for row in self.rows("SELECT u.unit_id, t.ordinal FROM work_unit u JOIN trial_result t ON t.study_id = u.study_id "
                             "AND t.ordinal >= u.first_ordinal AND t.ordinal < u.first_ordinal + u.trial_count "
                             "WHERE u.token = 0"):
            self.fail(f"unit {row['unit_id']} was never claimed and has a result for ordinal {row['ordinal']}")

    def check_drivers(self):
        for job in self.rows("SELECT * FROM job WHERE driver <> ''"):
            if job["driver_epoch"] < 1:
                self.fail(f"job {job['job_id']} is driven by {job['driver']} under no epoch")
            if self.settled and job["state"] not in TERMINAL and not self.rows(
                    "SELECT 1 FROM lease WHERE name = ? AND left_ms > 0", f"node/{job['driver']}"):
                self.fail(f"job {job['job_id']} waits for its driver {job['driver']}, whose lease has run out")
        if not self.settled:
            return
        for agent in self.rows("SELECT * FROM agent WHERE released_at_ms IS NULL AND lease_left_ms < 0"):
            self.fail(f"agent {agent['agent_id']} is not reaped {-agent['lease_left_ms'] / 1000:.1f} s after its lease")

    def check_drained(self):
        for job in self.rows("SELECT job_id, state FROM job"):
            if job["state"] not in TERMINAL:
                self.fail(f"job {job['job_id']} has not ended (state {job['state']})")
        for row in self.rows("SELECT unit_id, state FROM work_unit WHERE state IN (1, 2)"):
            self.fail(f"unit {row['unit_id']} is left in the queue (state {row['state']})")


class History:
    """What one look at the store said, held against the next: what was acknowledged stays, and no number goes back."""

    def __init__(self):
        self.results, self.tokens, self.epochs, self.jobs, self.log = {}, {}, {}, {}, {}
        self.revision = 0

    def compare(self, store):
        problems = []

        def ask(sql):
            return store.execute(sql).fetchall()

        kept = {row["study_id"] for row in ask("SELECT study_id FROM study")}
        results = {tuple(row)[:2]: tuple(row)[2:] for row in ask(
            "SELECT study_id, ordinal, attempt, outcome, config, median_ns, device_uuid FROM trial_result")}
        for key, result in self.results.items():
            if key[0] in kept and results.get(key) != result:
                problems.append(f"the result of ordinal {key[1]} of study {key[0]} was {result} and is {results.get(key)}")
        log = {tuple(row)[:2]: tuple(row)[2:] for row in ask("SELECT study_id, sequence, kind, unit_id FROM study_event")}
        for key, event in self.log.items():
            if key[0] in kept and log.get(key) != event:
                problems.append(f"event {key[1]} of study {key[0]} was {event} and is {log.get(key)}")
        tokens = {row["unit_id"]: (row["token"], row["state"] == TOLD) for row in ask("SELECT * FROM work_unit")}
        for unit, before in self.tokens.items():
            if unit in tokens and tokens[unit] < before:
                problems.append(f"unit {unit} went back from token and told {before} to {tokens[unit]}")
        epochs = {("agent", row["agent_id"]): row["epoch"] for row in ask("SELECT * FROM agent")}
        epochs.update({("lease", row["name"]): row["epoch"] for row in ask("SELECT * FROM lease")})
        epochs.update({("job", row["job_id"]): row["driver_epoch"] for row in ask("SELECT * FROM job")})
        for key, epoch in self.epochs.items():
            if epochs.get(key, epoch) < epoch:
                problems.append(f"the epoch of {key[0]} {key[1]} went back from {epoch} to {epochs[key]}")
        jobs = {row["job_id"]: row["state"] for row in ask("SELECT job_id, state FROM job")}
        for job, state in self.jobs.items():
            if state in TERMINAL and jobs.get(job, state) != state:
                problems.append(f"job {job} had ended in state {state} and is in {jobs[job]}")
        revision = ask("SELECT revision FROM catalog_rev")[0][0]
        if revision < self.revision:
            problems.append(f"the catalog went back from revision {self.revision} to {revision}")
        self.results, self.log, self.tokens, self.epochs = results, log, tokens, epochs
        self.jobs, self.revision = jobs, revision
        return problems


def check_store(store, history=None, **options):
    """All rules; what is broken, a sentence each. `options`: FarmChecker's."""
    problems = FarmChecker(store, **options).run()
    return problems + (history.compare(store) if history else [])


def processes_of(directory):
    """Processes that name the directory on their command line."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(directory) in command:
            found[int(entry.name)] = command
    return found


def orphans(directory):
    """Workers of a daemon that is dead: none may live on."""
    found = processes_of(directory)
    if any("tunefarmd " in command or command.endswith("tunefarmd") for command in found.values()):
        return {}
    return {pid: command for pid, command in found.items() if "tunefarm-worker" in command}
