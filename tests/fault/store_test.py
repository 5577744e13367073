"""The disk under the database fails, lies and ends; other programs touch it. Acknowledged jobs and results survive, the
daemon says what is wrong in one sentence, and goes on by itself once the fault is gone."""

import errno
import hashlib
import os
import pathlib
import shutil
import signal
import sqlite3
import struct
import subprocess
import tempfile
import unittest

import fault_case
import invariants
import permitted
from fault_case import HANG_SECONDS, NIGHTLY, QUICK, FaultFarm, generator, wait_until

JOB = ["submit", "--quiet", "noop_host", "--max-trials", "40", *QUICK]
LONGER_JOB = ["submit", "--quiet", "noop_host", "--max-trials", "400", *QUICK]
TORN_WRITES = 40 if NIGHTLY else 5
CUT_LOGS = 40 if NIGHTLY else 4
INTERRUPTED_CHECKPOINTS = 30 if NIGHTLY else 4
LOG_HEADER_BYTES, FRAME_HEADER_BYTES = 32, 24


class FaultyDisk(FaultFarm):
    """A farm whose daemon's writes and syncs can be made to fail while it runs."""

    def __init__(self, *flags, **options):
        super().__init__(*flags, **options)
        self.fault = self.directory.parent / (self.directory.name + ".fault")

    def __exit__(self, kind, value, traceback):
        self.fault.unlink(missing_ok=True)
        super().__exit__(kind, value, traceback)

    def spawn(self, **environment):
        super().spawn(LD_PRELOAD=str(fault_case.BIN / "libtunefarm_io_fault.so"), TUNEFARM_IO_FAULT=str(self.fault),
                      **environment)

    def break_disk(self, line):
        """The file appears whole: the daemon may be reading it at any time."""
        fresh = self.fault.with_suffix(".new")
        fresh.write_text(line)
        os.replace(fresh, self.fault)

    def repair_disk(self):
        self.fault.unlink()


def stored(farm):
    with invariants.open_copy(farm.directory / "tunefarm.db") as database:
        return {(row[0], row[1]): tuple(row[2:]) for row in
                database.execute("SELECT study_id, ordinal, attempt, outcome, ended_at_ms FROM trial_result")}


def uncopied_part(log):
    """From where to where the log holds what only it has: a checkpoint that has begun to copy frames has synced them
    before, and no log may lose them. As the index of the log says (sqlite.org/walformat.html, "WAL-Index Header")."""
    index = log.with_name(log.name.replace("-wal", "-shm")).read_bytes()
    page_bytes, frames = struct.unpack_from("=HI", index, 14)
    (copied,) = struct.unpack_from("=I", index, 128)  # or begun to be
    return [LOG_HEADER_BYTES + count * (FRAME_HEADER_BYTES + page_bytes) for count in (copied, frames)]


def progress(farm, job):
    return int(farm.json("jobs", "show", job).get("progress", {}).get("done", 0))


class FaultyStore(unittest.TestCase):
    def check_refusal_and_recovery(self, line, words):
        """While writes fail: submits are refused with a sentence, look-ups answer, nothing ends; after it, all goes on."""
        with FaultyDisk() as farm:
            farm.start()
            first = self.break_disk_under_a_job(farm, line)
            refused = farm.cli(*JOB, check=False)
            self.assertNotEqual(refused.returncode, 0)
            self.assertRegex(refused.stderr, words)
            self.assertNotIn("Traceback", refused.stderr)
            self.assertEqual(farm.cli("best", "noop_host", check=False).returncode in (0, 3, 5), True)
            self.assertEqual(farm.state(first), "RUNNING")
            wait_until(lambda: "trying again" in farm.log.read_text() or "waits" in farm.log.read_text(),
                       "a report that is refused")
            farm.repair_disk()
            self.assertEqual(farm.watch_to_end(first), "SUCCEEDED")
            second = farm.cli(*JOB).stdout.strip()
            self.assertEqual(farm.watch_to_end(second), "SUCCEEDED")

    def break_disk_under_a_job(self, farm, line):
        """The job. One that was faster than this test has ended before: then it is another one's turn."""
        for _ in range(100):
            job = farm.cli(*LONGER_JOB).stdout.strip()
            wait_until(lambda: progress(farm, job) >= 4, "the first results")
            farm.break_disk(line)
            if farm.state(job) == "RUNNING":
                return job
            farm.repair_disk()
        self.fail("every job ended before the disk could be broken")

    def test_a_full_disk(self):
        self.check_refusal_and_recovery(f"write .db-wal {errno.ENOSPC}", "full")

    def test_a_disk_that_cannot_write(self):
        self.check_refusal_and_recovery(f"write .db-wal {errno.EIO}", "input/output error")

    def test_a_file_system_turned_read_only(self):
        self.check_refusal_and_recovery(f"write .db-wal {errno.EROFS}", "input/output error|read-only")

    def test_a_disk_that_cannot_sync(self):
        self.check_refusal_and_recovery(f"sync .db-wal {errno.EIO}", "input/output error")

    def test_a_write_torn_by_a_power_cut(self):
        """The process ends with half of a write to the log on disk: what was acknowledged before is there."""
        random = generator("torn")
        with FaultyDisk() as farm:
            known, jobs = {}, []
            for _ in range(TORN_WRITES):
                farm.start()
                jobs.append(farm.cli(*JOB).stdout.strip())
                farm.break_disk(f"write .db-wal torn {random.randint(1, 60)}")
                farm.process.wait(HANG_SECONDS)
                self.assertEqual(farm.process.returncode, -signal.SIGKILL)
                farm.repair_disk()
                farm.check()
                now = stored(farm)
                for key, row in known.items():
                    self.assertEqual(now.get(key), row, f"trial {key} was lost")
                known = now
            farm.start()
            for job in jobs:
                self.assertEqual(farm.watch_to_end(job), "SUCCEEDED")

    def test_a_checkpoint_cut_short(self):
        """The daemon's end copies the log into the database; it dies in the middle of that, page half written."""
        random = generator("checkpoint")
        with FaultyDisk() as farm:
            known = {}
            for _ in range(INTERRUPTED_CHECKPOINTS):
                farm.start()
                job = farm.cli(*JOB).stdout.strip()
                wait_until(lambda: progress(farm, job) >= 6, "some results")
                farm.break_disk(f"write /tunefarm.db torn {random.randint(1, 12)}")
                self.assertEqual(farm.stop(), -signal.SIGKILL)
                farm.repair_disk()
                farm.check()
                now = stored(farm)
                for key, row in known.items():
                    self.assertEqual(now.get(key), row, f"trial {key} was lost")
                known = now
            farm.start()
            for job in farm.json("jobs", "list", "--limit", "1000")["jobs"]:
                self.assertEqual(farm.watch_to_end(job["name"]), "SUCCEEDED")

    def test_a_log_that_lost_its_tail(self):
        """A disk that lied about its last syncs: the log ends anywhere, or in garbage. What is left is consistent, and
        the job completes from there."""
        random = generator("tail")
        with FaultFarm() as farm:
            farm.start()
            self.assertEqual(farm.stop(), 0)  # What the daemon and the checker need is then no longer in the log alone.
            farm.start()
            for number in range(CUT_LOGS):
                # The tail that is cut off may hold the submit itself, and end a job that had more: each time a new one.
                job = farm.cli(*LONGER_JOB).stdout.strip()
                wait_until(lambda: progress(farm, job) >= 8, "some results")
                farm.kill()
                farm.check()
                log = farm.directory / "tunefarm.db-wal"
                first, end = uncopied_part(log)
                with open(log, "r+b") as file:
                    at = random.randint(first, max(first, end - 1))
                    if number % 2:
                        file.seek(at)
                        file.write(random.randbytes(log.stat().st_size - at))
                    else:
                        file.truncate(at)
                farm.log.write_text("")  # reports that were lost with the tail are no longer accepted ones
                farm.check()
                farm.start()
            for job in farm.json("jobs", "list", "--limit", "1000").get("jobs", []):
                self.assertEqual(farm.watch_to_end(job["name"]), "SUCCEEDED")

    def test_a_second_daemon(self):
        with FaultFarm() as farm:
            farm.start()
            job = farm.cli(*JOB).stdout.strip()
            second = subprocess.run([fault_case.BIN / "tunefarmd", "--data-dir", farm.directory, "--no-gpu"],
                                    capture_output=True, text=True, timeout=HANG_SECONDS)
            self.assertEqual(second.returncode, 75, second.stderr)
            self.assertIn("another daemon serves", second.stderr)
            self.assertIn(str(farm.process.pid), second.stderr)
            self.assertEqual(farm.watch_to_end(job), "SUCCEEDED")

    def test_a_newer_schema(self):
        with FaultFarm() as farm:
            farm.start()
            self.assertEqual(farm.stop(), 0)
            path = farm.directory / "tunefarm.db"
            backup = farm.directory.parent / (farm.directory.name + ".saved")
            shutil.copyfile(path, backup)
            try:
                database = sqlite3.connect(path)
                database.execute("PRAGMA user_version = 999")
                database.commit()
                database.close()
                before = path.read_bytes()
                farm.spawn()
                self.assertEqual(farm.process.wait(HANG_SECONDS), 1)
                self.assertIn("a newer tunefarm wrote it", farm.log.read_text())
                self.assertEqual(path.read_bytes(), before)
                shutil.copyfile(backup, path)
            finally:
                backup.unlink()
            farm.start()

    def test_a_directory_on_a_read_only_mount(self):
        permitted.require_mount_namespace()
        with FaultFarm() as farm:
            farm.start()
            self.assertEqual(farm.stop(), 0)
            script = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$1" --data-dir "$0" --no-gpu'
            refused = subprocess.run(["unshare", "--mount", "sh", "-c", script, farm.directory,
                                      fault_case.BIN / "tunefarmd"], capture_output=True, text=True,
                                     timeout=HANG_SECONDS)
            self.assertEqual(refused.returncode, 1, refused.stderr)
            self.assertRegex(refused.stderr, "cannot be written|read-only|Read-only")
            farm.start()


class FaultyUploads(unittest.TestCase):
    def test_what_could_not_be_synced_is_uploaded_again(self):
        """After a sync that failed nobody knows which pages are on the disk, and a later sync does not say."""
        content = os.urandom(2 << 20)
        with FaultyDisk() as farm, tempfile.TemporaryDirectory(prefix="tunefarm-data.") as name:
            folder = pathlib.Path(name)
            (folder / "x.bin").write_bytes(content)
            (folder / "first.cc").write_text(
                'extern "C" void first(const unsigned char* x, unsigned char* y) { y[0] = x[0 * STEP]; }\n')
            (folder / "kernel.pbtxt").write_text(f"""
display_name: "first" language: HOST sources {{ path: "first.cc" }}
parameters {{ name: "STEP" values: [1, 2] }}
arguments {{ name: "x" buffer {{ data_type: U8 length: {len(content)} access: IN fill {{ file: "x.bin" }} }} }}
arguments {{ name: "y" buffer {{ data_type: U8 length: 1 access: OUT }} }}
launches {{ kernel {{ entry: "first" arguments: ["x", "y"] }} }}
unverified_reason: "only the upload is tested"
""")
            farm.start()
            farm.break_disk(f"sync .part {errno.EIO}")
            refused = farm.cli("tune", folder, *QUICK, check=False)
            self.assertNotEqual(refused.returncode, 0)
            self.assertRegex(refused.stderr, "x.bin: cannot write .*: Input/output error")
            whole = farm.directory / "data_files" / hashlib.sha256(content).hexdigest()
            self.assertFalse(whole.exists())
            self.assertEqual(whole.with_name(whole.name + ".part").stat().st_size, 0)
            farm.repair_disk()
            farm.cli("tune", folder, *QUICK)
            self.assertEqual(whole.read_bytes(), content)


if __name__ == "__main__":
    fault_case.main()
