"""What must hold after every fault, whatever it was: one checker for the database and for the world around the daemon.

The live database is never opened: a copy of it and of its write-ahead log is, taken while no daemon runs, or a backup
that the daemon made. `check(farm)` raises AssertionError with every violation it found.
"""

import contextlib
import math
import pathlib
import re
import shutil
import sqlite3
import statistics
import struct
import tempfile

# Numbers of migrations/sqlite/0001_initial.sql and tunefarm/v1/trial.proto.
QUEUED, RUNNING, PAUSED, CANCELLING, SUCCEEDED, FAILED, CANCELLED = range(1, 8)
SEARCHING, FINALS, ENDED = 1, 2, 3
READY, CLAIMED, DONE, TOLD = 1, 2, 3, 4
FINALS_UNIT = 3
PROPOSE, TELL = 1, 2
OUTCOME_OK, OUTCOME_POISONED, OUTCOME_LOST = 1, 15, 16
FINALIST = 3
RETIRED = 4

CLAIM_LINE = re.compile(r"claimed unit=(\d+) token=(\d+) epoch=(\d+)")
ACCEPT_LINE = re.compile(r"accepted unit=(\d+) token=(\d+) epoch=(\d+)")


@contextlib.contextmanager
def open_copy(database):
    """A connection to a copy of a database that nobody has open, with what its write-ahead log holds."""
    database = pathlib.Path(database)
    with tempfile.TemporaryDirectory(prefix="tunefarm-check.") as folder:
        copy = pathlib.Path(folder) / "copy.db"
        shutil.copyfile(database, copy)
        wal = database.with_name(database.name + "-wal")
        if wal.exists():
            shutil.copyfile(wal, copy.with_name("copy.db-wal"))
        connection = sqlite3.connect(copy)
        connection.row_factory = sqlite3.Row
        try:
            yield connection
        finally:
            connection.close()


def round_medians(samples, rounds):
    """One time for each round of a final, of the stored samples: a Measurement of nothing but sample_ns, packed."""
    assert samples[:2] == b"\x8a\x01", samples[:8]
    size, shift, at = 0, 0, 2
    while True:
        byte = samples[at]
        size |= (byte & 0x7f) << shift
        shift, at = shift + 7, at + 1
        if byte < 0x80:
            break
    times = struct.unpack(f"<{size // 4}f", samples[at:at + size])
    each = len(times) // max(rounds, 1)
    return [statistics.median(times[i * each:(i + 1) * each]) for i in range(max(rounds, 1))] if each else [times[0]]


def paired_ratio(a, b):
    """As ComparePaired of server/measure/compare.h."""
    logs = [math.log(x / y) for x, y in zip(a, b)]
    if len(logs) < 6:
        return math.exp(statistics.mean(logs))
    return math.exp(statistics.median((logs[i] + logs[j]) / 2 for i in range(len(logs)) for j in range(i, len(logs))))


class DatabaseChecker:
    """Collects what is wrong with one database. `incomplete`: ids of jobs that may have ended with ordinals that were
    never run (a budget ended their search); `lost`: the machinery may have given up on trials."""

    def __init__(self, database, incomplete=(), lost=False):
        self.database = database
        self.incomplete = set(incomplete)
        self.lost = lost
        self.problems = []

    def rows(self, sql, *parameters):
        return self.database.execute(sql, parameters).fetchall()

    def fail(self, text):
        self.problems.append(text)

    def run(self):
        verdict = self.rows("PRAGMA integrity_check")[0][0]
        if verdict != "ok":
            self.fail(f"the database is damaged: {verdict}")
            return self.problems
        for row in self.rows("PRAGMA foreign_key_check"):
            self.fail(f"a row of {row[0]} refers to nothing")
        studies = self.rows(
            "SELECT s.*, j.state AS job_state, k.program_digest FROM study s JOIN job j ON j.job_id = s.job_id "
            "JOIN kernel k ON k.kernel_id = j.kernel_id")
        for study in studies:
            self.check_units(study)
            self.check_decisions(study)
            self.check_outcomes(study)
            self.check_end(study)
        self.check_owners()
        self.check_bests(studies)
        self.check_poison()
        return self.problems

    def check_units(self, study):
        taken = 0
        for unit in self.rows("SELECT * FROM work_unit WHERE study_id = ? ORDER BY first_ordinal", study["study_id"]):
            if unit["first_ordinal"] < taken:
                self.fail(f"unit {unit['unit_id']} hands out ordinal {unit['first_ordinal']} a second time")
            taken = unit["first_ordinal"] + unit["trial_count"]
        if taken > study["next_ordinal"]:
            self.fail(f"study {study['study_id']} handed out ordinal {taken - 1} beyond its next, {study['next_ordinal']}")

    def check_decisions(self, study):
        """The log has no gaps, proposes a unit before it tells it, and does each once."""
        number = study["study_id"]
        units = {row["unit_id"]: row for row in self.rows("SELECT * FROM work_unit WHERE study_id = ?", number)}
        proposed, told = set(), set()
        events = self.rows("SELECT * FROM study_event WHERE study_id = ? ORDER BY sequence", number)
        for expected, event in enumerate(events, 1):
            if event["sequence"] != expected:
                self.fail(f"study {number}: event {expected} of the decision log is missing")
                return
            seen = proposed if event["kind"] == PROPOSE else told
            if event["unit_id"] in seen:
                self.fail(f"study {number}: unit {event['unit_id']} was {'proposed' if seen is proposed else 'told'} twice")
            if event["kind"] == TELL and event["unit_id"] not in proposed:
                self.fail(f"study {number}: unit {event['unit_id']} was told before it was proposed")
            seen.add(event["unit_id"])
        for unit_id, unit in units.items():
            if unit_id not in proposed:
                self.fail(f"study {number}: unit {unit_id} was never proposed")
            if (unit["state"] == TOLD) != (unit_id in told):
                self.fail(f"study {number}: unit {unit_id} is in state {unit['state']}, its log says otherwise")
        # Only the end of a study removes units, and only those that nobody had.
        for unit_id in (proposed - set(units)) if study["state"] != ENDED else told - set(units):
            self.fail(f"study {number}: unit {unit_id} is gone")

    def check_outcomes(self, study):
        number = study["study_id"]
        rows = self.rows("SELECT ordinal, outcome FROM trial_result WHERE study_id = ?", number)
        ordinals = [row["ordinal"] for row in rows]
        present = set(ordinals)  # once: a study may have 10^6
        if len(ordinals) != len(present):
            self.fail(f"study {number} has two results for one ordinal")
        void = self.void_finals(study)
        for row in rows:
            if row["ordinal"] >= study["next_ordinal"]:
                self.fail(f"study {number} has a result for ordinal {row['ordinal']}, which was never handed out")
            may_be_lost = self.lost or row["ordinal"] in void
            if row["outcome"] == 0 or (row["outcome"] == OUTCOME_LOST and not may_be_lost):
                self.fail(f"study {number}: ordinal {row['ordinal']} has outcome {row['outcome']}, which is none")
        complete = study["job_state"] == SUCCEEDED and study["job_id"] not in self.incomplete
        missing = set(range(study["next_ordinal"])) - present
        if complete and missing:
            self.fail(f"study {number} has ended without results for ordinals {sorted(missing)[:20]}")
        for unit in self.rows("SELECT * FROM work_unit WHERE study_id = ? AND state IN (3, 4)", number):
            wanted = set(range(unit["first_ordinal"], unit["first_ordinal"] + unit["trial_count"]))
            if study["job_id"] not in self.incomplete and study["job_state"] in (QUEUED, RUNNING, PAUSED, SUCCEEDED):
                for ordinal in sorted(wanted - present):
                    self.fail(f"unit {unit['unit_id']} is done without a result for its ordinal {ordinal}")

    def void_finals(self, study):
        """Ordinals of finals that lost their device; what a final decides rests on times of one device."""
        void, last = set(), None
        for unit in self.rows("SELECT * FROM work_unit WHERE study_id = ? AND kind = ? ORDER BY first_ordinal",
                              study["study_id"], FINALS_UNIT):
            trials = self.rows("SELECT ordinal, outcome, device_uuid FROM trial_result WHERE study_id = ? AND ordinal >= ? "
                               "AND ordinal < ?", study["study_id"], unit["first_ordinal"],
                               unit["first_ordinal"] + unit["trial_count"])
            if len({trial["device_uuid"] for trial in trials if trial["outcome"] not in (OUTCOME_LOST, OUTCOME_POISONED)}) > 1:
                self.fail(f"the final in unit {unit['unit_id']} was measured on several devices")
            last = unit["unit_id"] if len({trial["device_uuid"] for trial in trials}) > 1 else None
            if last is not None:
                void |= {trial["ordinal"] for trial in trials}
        if last is not None and study["job_state"] == SUCCEEDED:
            self.fail(f"the final in unit {last} lost its device, and nothing was measured again")
        return void

    def check_end(self, study):
        """A job's end ends its studies, and an ended study has nothing to hand out."""
        number = study["study_id"]
        if study["job_state"] in (SUCCEEDED, FAILED, CANCELLED) and study["state"] != ENDED:
            self.fail(f"study {number} goes on although its job has ended")
        if study["state"] == ENDED:
            waiting = self.rows("SELECT unit_id FROM work_unit WHERE study_id = ? AND state = 1", number)
            if waiting:
                self.fail(f"study {number} has ended, {len(waiting)} of its units wait")
        if study["job_state"] == SUCCEEDED and study["job_id"] not in self.incomplete:
            held = self.rows("SELECT unit_id FROM work_unit WHERE study_id = ? AND state IN (1, 2, 3)", number)
            if held:
                self.fail(f"study {number} has succeeded, {len(held)} of its units are not told")

    def check_owners(self):
        for unit in self.rows("SELECT u.*, a.epoch, a.released_at_ms FROM work_unit u LEFT JOIN agent a USING (agent_id) "
                              "WHERE u.state = 2"):
            if unit["epoch"] != unit["agent_epoch"] or unit["released_at_ms"] is not None:
                self.fail(f"unit {unit['unit_id']} is held by epoch {unit['agent_epoch']} of {unit['agent_id']}, "
                          "which has ended")

    def check_bests(self, studies):
        """The best of a key is the fastest verified trial of an interleaved final; one that was not is there because it
        had won an earlier final."""
        by_id = {study["study_id"]: study for study in studies}
        bests = {}
        for best in self.rows("SELECT * FROM best_config"):
            key = (best["program_digest"], best["problem_key"], best["class_id"])
            bests[key] = best
            study = by_id.get(best["study_id"])
            if study is not None:
                self.check_best(best, study, studies)
        for study in studies:
            if study["job_state"] != SUCCEEDED:
                continue
            key = (study["program_digest"], study["problem_key"], study["class_id"])
            if self.finalists(study["study_id"]) and key not in bests and not self.was_retired(key):
                self.fail(f"study {study['study_id']} has a winner, {study['problem_key']} has no best")
        revision = self.rows("SELECT revision FROM catalog_rev")[0][0]
        highest = max((best["revision"] for best in bests.values()), default=0)
        if revision < highest:
            self.fail(f"the catalog's revision is {revision}, a best has {highest}")
        self.check_history(bests, revision)

    def check_history(self, bests, revision):
        """Every revision of the catalog was recorded with the change that made it (but for the first and for what a
        long history has lost), and the newest record of a key is what the catalog has."""
        newest = {}
        for change in self.rows("SELECT * FROM best_change ORDER BY revision"):
            newest[(change["program_digest"], change["problem_key"], change["class_id"])] = change
        recorded = max((change["revision"] for change in newest.values()), default=1)
        if max(recorded, 1) not in (revision, revision - 1):
            self.fail(f"the catalog's revision is {revision}, its newest change {recorded}")
        for key, change in newest.items():
            best = bests.get(key)
            if (best is None) != (change["kind"] == RETIRED):
                self.fail(f"the newest change of {key} is of kind {change['kind']}, its best is {best and 'there'}")
            elif best is not None and (best["revision"], best["config"]) != (change["revision"], change["config"]):
                self.fail(f"the best of {key} has revision {best['revision']}, its newest change {change['revision']}")
        for key in bests.keys() - newest.keys():
            self.fail(f"the best of {key} has no history")

    def was_retired(self, key):
        return bool(self.rows("SELECT 1 FROM best_change WHERE program_digest = ? AND problem_key = ? AND class_id = ? "
                              "AND kind = ?", *key, RETIRED))

    def finalists(self, study_id):
        """Accepted, verified results of finals units: only these may win."""
        return self.rows(
            # CROSS JOIN: units first, of which few are finals; each trial by each unit takes hours where there are 10^6.
            "SELECT t.*, u.unit_id FROM work_unit u CROSS JOIN trial_result t ON u.study_id = t.study_id "
            "AND t.ordinal >= u.first_ordinal AND t.ordinal < u.first_ordinal + u.trial_count WHERE u.study_id = ? AND t.purpose = ? "
            "AND t.outcome = ? AND u.kind = ?", study_id, FINALIST, OUTCOME_OK, FINALS_UNIT)

    def check_best(self, best, study, studies):
        name = f"the best of {best['problem_key']}"
        final = self.finalists(study["study_id"])
        own = [trial for trial in final if trial["ordinal"] == best["ordinal"]]
        if not own:
            self.fail(f"{name} rests on ordinal {best['ordinal']} of study {study['study_id']}, no accepted finalist")
            return
        if own[0]["config"] != best["config"] or own[0]["median_ns"] != best["median_ns"]:
            self.fail(f"{name} is not what its trial measured")
        rivals = [trial for trial in final if trial["unit_id"] == own[0]["unit_id"]]
        if self.is_fastest(own[0], rivals) or self.has_beaten(own[0], rivals, self.incumbent(best)):
            return
        earlier = [other for other in studies if other["study_id"] != study["study_id"] and
                   other["problem_key"] == best["problem_key"] and other["class_id"] == best["class_id"] and
                   any(trial["config"] == best["config"] for trial in self.finalists(other["study_id"]))]
        if not earlier:
            self.fail(f"{name} is not the fastest of its final and had not won before")

    def round_times(self, trial):
        """One time for each round of the final."""
        rounds = self.rows("SELECT rounds FROM work_unit WHERE unit_id = ?", trial["unit_id"])[0]["rounds"]
        kept = self.rows("SELECT samples FROM trial_samples WHERE study_id = ? AND ordinal = ?", trial["study_id"],
                         trial["ordinal"])
        return round_medians(kept[0]["samples"], rounds) if kept else [trial["median_ns"]]

    def is_fastest(self, own, rivals):
        """By the rule of server/jobs/finals.h: no rival has a smaller median unless it is not ahead round by round."""
        times = self.round_times(own)
        # The estimate from many rounds need not be transitive to the last digit.
        return all(own["median_ns"] <= trial["median_ns"] or paired_ratio(times, self.round_times(trial)) <= 1.02
                   for trial in rivals)

    def incumbent(self, best):
        """The config that was the best before this one, or None."""
        found = self.rows("SELECT config FROM best_change WHERE program_digest = ? AND problem_key = ? AND class_id = ? "
                          "AND revision < ? AND kind != ? ORDER BY revision DESC LIMIT 1", best["program_digest"],
                          best["problem_key"], best["class_id"], best["revision"], RETIRED)
        return found[0]["config"] if found else None

    def has_beaten(self, own, rivals, incumbent):
        """Where there is an incumbent, only finalists that beat it beyond noise are compared: a rival with a smaller
        median may be too noisy to be one of them."""
        defender = next((trial for trial in rivals if trial["config"] == incumbent), None)
        return defender is not None and paired_ratio(self.round_times(own), self.round_times(defender)) < 0.99

    def check_poison(self):
        for trial in self.rows("SELECT t.study_id, t.ordinal FROM trial_result t WHERE t.outcome = ? AND NOT EXISTS "
                               "(SELECT 1 FROM config_poison p WHERE p.config = t.config)", OUTCOME_POISONED):
            self.fail(f"trial {trial['ordinal']} of study {trial['study_id']} is poisoned by nothing")


def check_tokens(log):
    """No report was accepted but with the token and epoch of its unit's latest claim: the daemon's log, in order."""
    problems, owner, accepted = [], {}, 0
    for line in log.splitlines():
        claim = CLAIM_LINE.search(line)
        if claim:
            owner[claim.group(1)] = claim.group(2, 3)
            continue
        report = ACCEPT_LINE.search(line)
        if report:
            accepted += 1
            if owner.get(report.group(1)) != report.group(2, 3):
                problems.append(f"a report was accepted after a later claim: {line}")
    return problems, accepted


def holders(directory):
    """Processes that still see a file system of the directory in their mount namespace: what a command line hides."""
    found = []
    own = pathlib.Path("/proc/self/ns/mnt").readlink()
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if (entry / "ns/mnt").readlink() != own and str(directory) in (entry / "mountinfo").read_text():
                found.append(int(entry.name))
        except OSError:
            continue  # it has ended, or is not ours to look at
    return found


def leftovers(farm):
    """What a daemon that ended by itself may not leave: files of its workers, and files that are only half written."""
    scratch = farm.directory / "scratch"
    found = [path for path in scratch.rglob("*") if not path.is_dir()] if scratch.exists() else []
    found += [path for path in farm.directory.rglob("*") if path.is_file() and
              any(part in path.name for part in (".partial", ".tmp"))]
    return [str(path.relative_to(farm.directory)) for path in found]


def shared_memory():
    # PostgreSQL's own: servers of tests that run beside this one come and go.
    if not pathlib.Path("/dev/shm").is_dir():
        return set()
    return {path.name for path in pathlib.Path("/dev/shm").iterdir() if not path.name.startswith("PostgreSQL.")}


def check(farm, incomplete=(), lost=False, clean=False):
    """Everything, of a farm whose daemon does not run. `clean`: it ended by itself, not by a kill."""
    assert farm.process is None or farm.process.poll() is not None, "the daemon runs: stop or kill it first"
    farm.assert_no_orphans()
    with open_copy(farm.directory / "tunefarm.db") as database:
        problems = DatabaseChecker(database, incomplete, lost).run()
    if farm.log.exists():
        problems += check_tokens(farm.log.read_text(errors="replace"))[0]
    held = holders(farm.directory)
    if held:
        problems.append(f"processes {held} live on in a namespace of the daemon")
    if clean:
        problems += [f"left behind: {path}" for path in leftovers(farm)]
    if problems:
        raise AssertionError("invariants broken:\n  " + "\n  ".join(problems[:40]))
