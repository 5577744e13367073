"""A study of many trials that were never run, written to the database of a daemon that is not running.

Of a study that has ended or is paused, a daemon reads its row and those of trial_result: so rows like those of a short real
job, whose study they join, and that study's counts are all that has to be written. Further trials of a paused study may be
added while the daemon runs.
"""

import collections
import contextlib
import itertools
import os
import pathlib
import random
import sqlite3
import subprocess

PARAMETERS, VALUES = 8, 6


def _varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


# Generated trials start at the first ordinal without a result. Each time the daemon updates a study it reads all rows from
# that ordinal on, so a gap before them would make it read every row again.
FIRST_OPEN = ("SELECT min(ordinal) + 1 FROM trial_result ended WHERE study_id = 1 AND NOT EXISTS (SELECT 1 FROM trial_result "
              "WHERE study_id = 1 AND ordinal = ended.ordinal + 1)")


class Trials:
    """Rows (ordinal, ended_at_ms, median_ns or None, outcome, config, detail) of trials of the search, ended 5 ms after
    each other: configs in a random order of one seed. Values multiply the time of `like`; some 5 % fail."""

    def __init__(self, first_ordinal, count, like):
        """`like`: a trial that was run, as the daemon stored it (bytes)."""
        from tunefarm.v1 import trial_pb2
        self.first_ordinal, self.count = first_ordinal, count
        self.trial = trial_pb2.Trial.FromString(like)
        self.trial.ClearField("config")
        self.start_ns = self.trial.measurement.median_ns
        self.random = random.Random(1)
        self.factors = [[self.random.uniform(1, 1 + 0.5 / (1 + p)) for _ in range(VALUES)] for p in range(PARAMETERS)]
        # An entry of the map Config.values in the wire format; made once, as protobuf for Python is slow with maps.
        self.entries = [[self._entry(f"P{p}", v) for v in range(VALUES)] for p in range(PARAMETERS)]
        self.best_ns, self.best = float("inf"), None
        self.outcomes = collections.Counter()

    @staticmethod
    def _entry(name, value):
        from tunefarm.v1 import problem_pb2
        config = problem_pb2.Config()
        config.values[name].int_value = value
        return config.SerializeToString()

    def __iter__(self):
        from tunefarm.v1 import trial_pb2
        trial, draw = self.trial, self.random
        step_ms, began_ms = 5, trial.ended_at_ms
        for i, point in enumerate(draw.sample(range(VALUES ** PARAMETERS), self.count)):
            values = [point // VALUES ** p % VALUES for p in range(PARAMETERS)]
            trial.ordinal = self.first_ordinal + i
            trial.ended_at_ms = began_ms + step_ms * (i + 1)
            median_ns, outcome, message = self.start_ns, trial_pb2.OUTCOME_OK, ""
            if values[0] == VALUES - 1 and values[1] == VALUES - 1:
                outcome, message = trial_pb2.OUTCOME_WRONG_RESULT, f"out[{i % 16}] is {i}, not {i % 16}"
            elif draw.random() < 0.02:
                outcome, message = trial_pb2.OUTCOME_COMPILE_ERROR, f"noop.cc:{i % 7}: error: made up"
            trial.outcome, trial.message = outcome, message
            self.outcomes[outcome] += 1
            if outcome == trial_pb2.OUTCOME_OK:
                for p, value in enumerate(values):
                    median_ns *= self.factors[p][value]
                median_ns *= draw.uniform(1, 1.05)
                measurement = trial.measurement
                measurement.median_ns = measurement.mean_ns = median_ns
                measurement.min_ns = measurement.ci_low_ns = median_ns * 0.99
                measurement.max_ns = measurement.ci_high_ns = median_ns * 1.01
                measurement.samples = 20
            else:
                median_ns = None
                trial.ClearField("measurement")
            config = b"".join(self.entries[p][value] for p, value in enumerate(values))
            detail = trial.SerializeToString() + b"\x1a" + _varint(len(config)) + config  # field 3: the config
            if median_ns is not None and median_ns < self.best_ns:
                self.best_ns, self.best = median_ns, detail
            yield (trial.ordinal, trial.ended_at_ms, median_ns, outcome,
                   ",".join(f"P{p}={value}" for p, value in enumerate(values)), detail)


def _ended(detail, trials):
    """The study's stored form with the trials counted in, as its last step would have stored it."""
    from tunefarm.v1 import job_pb2, trial_pb2
    study = job_pb2.Study.FromString(detail)
    study.incumbent.CopyFrom(trial_pb2.Trial.FromString(trials.best))
    counts = trials.outcomes + collections.Counter({slot.outcome: slot.count for slot in study.progress.outcomes})
    study.progress.done = study.progress.total = counts.total()
    del study.progress.outcomes[:]
    for outcome, count in sorted(counts.items()):
        study.progress.outcomes.add(outcome=outcome, count=count)
    return study.SerializeToString()


def write_sqlite(path, count, more=0):
    """Returns an iterator over `more` further trials, for add_sqlite()."""
    with contextlib.closing(sqlite3.connect(path)) as database:
        ordinal, device, like, detail = database.execute(
            f"SELECT ({FIRST_OPEN}), t.device_uuid, t.detail, s.detail FROM study s JOIN trial_result t ON t.study_id = "
            "s.study_id WHERE s.study_id = 1 AND t.ordinal = 0").fetchone()
        database.execute("DELETE FROM trial_result WHERE study_id = 1 AND ordinal > ?", (ordinal,))
        trials = Trials(ordinal, count + more, like)
        rows = ((o, outcome, config, ns, device, ended, row) for o, ended, ns, outcome, config, row in trials)
        with database:
            _insert(database, itertools.islice(rows, count))
            database.execute("UPDATE study SET next_ordinal = ?, detail = ? WHERE study_id = 1",
                             (ordinal + count, _ended(detail, trials)))
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return rows


def add_sqlite(path, rows):
    """Further trials of a study that is paused; the daemon may run."""
    with contextlib.closing(sqlite3.connect(path, timeout=60)) as database, database:
        _insert(database, rows)


def _insert(database, rows):
    database.executemany(
        "INSERT INTO trial_result (study_id, ordinal, attempt, outcome, purpose, config, median_ns, device_uuid, "
        "ended_at_ms, detail) VALUES (1, ?, 1, ?, 1, ?, ?, ?, ?, ?)", rows)


def write_postgres(server, name, count):
    line = server.sql(name, f"SELECT ({FIRST_OPEN}) || ' ' || t.device_uuid || ' ' || encode(t.detail, 'hex') || ' ' || "
                            "encode(s.detail, 'hex') FROM study_now s JOIN trial_result t ON t.study_id = s.study_id "
                            "WHERE s.study_id = 1 AND t.ordinal = 0")
    ordinal, device, like, detail = line.split(" ")
    server.sql(name, f"DELETE FROM trial_result WHERE study_id = 1 AND ordinal > {ordinal}")
    trials = Trials(int(ordinal), count, bytes.fromhex(like))
    copy = ("COPY trial_result (study_id, ordinal, attempt, outcome, purpose, config, median_ns, device_uuid, ended_at_ms, "
            "detail) FROM STDIN")
    with subprocess.Popen(["psql", *server.client(name), "--no-psqlrc", "--quiet", "-v", "ON_ERROR_STOP=1", "--command", copy],
                          stdin=subprocess.PIPE, text=True) as psql:
        for o, ended, ns, outcome, config, row in trials:
            time = "\\N" if ns is None else repr(ns)
            psql.stdin.write(f"1\t{o}\t1\t{outcome}\t1\t{config}\t{time}\t{device}\t{ended}\t\\\\x{row.hex()}\n")
        psql.stdin.close()
        assert psql.wait() == 0
    study = _ended(bytes.fromhex(detail), trials).hex()
    end = int(ordinal) + count
    server.sql(name, f"UPDATE study SET detail = '\\x{study}', next_ordinal = {end} WHERE study_id = 1; "
                     f"UPDATE study_step SET next_ordinal = {end} WHERE study_id = 1; ANALYZE trial_result")


def forget_pages(directory):
    """The kernel's copies of the files below are dropped, so that the next reads come from the disk."""
    os.sync()
    for file in pathlib.Path(directory).rglob("*"):
        if file.is_file() and not file.is_symlink():
            with open(file, "rb") as opened:
                os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
