"""Budgets, bounds of disk, log and descriptors, and the pages for monitoring, with the real daemon."""

import ctypes
import http.client
import os
import pathlib
import re
import resource
import socket
import subprocess
import tempfile
import unittest

import permitted
from farm import BIN, HANG_SECONDS, Farm, outcome, search, wait_until

DIMS = ["--dim", "M=64", "--dim", "N=64", "--dim", "K=64"]
SMALL = ["--policy", "fast", "--measure", "no_reuse=true", *DIMS]


def job(farm, number):
    return farm.json("jobs", "show", number)


def get(address, path, host=None, method="GET"):
    connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=HANG_SECONDS)
    connection.request(method, path, headers={"Host": host} if host else {})
    response = connection.getresponse()
    return response.status, response.read().decode()


def metrics(address):
    """Values by name with labels, as written on the page: 'tunefarm_jobs{state="queued"}'."""
    status, page = get(address, "/metrics")
    assert status == 200, page
    values = {}
    for line in page.splitlines():
        if line and not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            values[name] = float(value)
    return values


class SmallDisk:
    """A file system of its own, which can be filled."""

    def __init__(self, megabytes):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="tunefarm-disk."))
        # Workers drop to other users and must be able to pass through.
        self.path.chmod(0o755)
        self.options = f"size={megabytes}m,mode=0755".encode()
        self.libc = ctypes.CDLL(None, use_errno=True)

    def __enter__(self):
        if self.libc.mount(b"tmpfs", str(self.path).encode(), b"tmpfs", 0, self.options) != 0:
            error = ctypes.get_errno()
            self.path.rmdir()
            permitted.skip(f"mounts are not permitted here ({os.strerror(error)})")
        return self

    def __exit__(self, *_):
        self.libc.umount2(str(self.path).encode(), 2)
        self.path.rmdir()

    def fill_to(self, free_bytes):
        info = os.statvfs(self.path)
        with open(self.path / "ballast", "wb") as file:
            os.posix_fallocate(file.fileno(), 0, info.f_bavail * info.f_frsize - free_bytes)

    def empty(self):
        (self.path / "ballast").unlink()


class Budgets(unittest.TestCase):
    def test_each_budget_ends_the_search_and_says_so(self):
        with Farm() as farm:
            farm.start()
            # Long enough for the first result, short enough for the space.
            large = ["--policy", "rigorous", "--dim", "M=512", "--dim", "N=512", "--dim", "K=512", "--measure", "finalists=2",
                     "--measure", "final_rounds=1"]
            cases = [([*SMALL, "--patience", "5"], "5 trials without a better one"),
                     ([*SMALL, "--max-device-time", "0.2s"], "devices have worked for 200 ms"),
                     ([*SMALL, "--max-trials", "7"], "7 trials, as many as were asked for"),
                     ([*large, "--max-time", "12s"], "the time is up (12.0 s)")]
            for number, (flags, because) in enumerate(cases, 1):
                done = farm.cli("tune", "matmul_host", *flags)
                self.assertIn("search complete: " + because, done.stdout)
                study = job(farm, number)["studies"][0]
                self.assertEqual(study["search_ended_because"], because)
                # The final follows all the same.
                self.assertIn("best", study)
                self.assertIn(because, farm.cli("jobs", "show", number).stdout)
            self.assertEqual(len(search(farm.trials(3))), 7)
            self.assertGreaterEqual(job(farm, 2)["device_busy_ms"], 200)
            self.assertLess(len(search(farm.trials(2))), 200)

    def test_what_cannot_be_is_refused_with_a_sentence(self):
        with Farm() as farm:
            farm.start()
            for flags, sentence in [
                    (["--max-time", "soon"], "--max-time: 'soon' is not a time; write 90s, 10m, 1h30m or 2d"),
                    (["--max-time", "10"], None),
                    (["--max-device-time", "-3s"], "is not a time"),
                    (["--within-floor", "five"], "--within-floor: 'five' is not a share; write 5% or 0.05"),
                    (["--within-floor", "2000%"], "budget.stop_within_floor is 20, it must be between 0 and 10"),
                    (["--max-device-time", "400d"], "budget.max_device_seconds is 3.456e+07, it must be between 0 and")]:
                done = farm.cli("submit", "matmul_host", *SMALL, *flags, check=False)
                if sentence is None:
                    self.assertEqual(done.returncode, 0, done.stderr)
                else:
                    self.assertNotEqual(done.returncode, 0)
                    self.assertIn(sentence, done.stderr)

    def test_a_cancel_under_load_stops_the_device_within_a_phase(self):
        with Farm("--launch-timeout-ms", "2000") as farm:
            farm.start()
            farm.cli("submit", "faulty_host", "--policy", "fast", "--retry-poisoned")
            wait_until(lambda: farm.trials(1), "the first trial")
            for number in range(2, 6):
                farm.cli("submit", "matmul_host", *SMALL, "--max-trials", 5)
            farm.cli("jobs", "cancel", 1, "--yes")
            # At most one phase may still be under way: nothing else is begun, which the count of trials shows.
            wait_until(lambda: job(farm, 1)["state"] == "JOB_STATE_CANCELLED", "the end of the cancelled job")
            ended = len(farm.trials(1))
            for number in range(2, 6):
                wait_until(lambda: job(farm, number)["state"] == "JOB_STATE_SUCCEEDED", "the end of the others")
            self.assertEqual(len(farm.trials(1)), ended)


class Bounds(unittest.TestCase):
    def test_below_the_floor_jobs_pause_and_go_on_by_themselves(self):
        megabyte = 1 << 20
        with SmallDisk(600) as disk, \
                Farm("--min-free-disk-bytes", 100 * megabyte, directory=disk.path / "data") as farm:
            farm.start()
            farm.cli("submit", "matmul_host", "--policy", "default")
            wait_until(lambda: len(farm.trials(1)) >= 3, "the first trials")
            disk.fill_to(50 * megabyte)
            paused = wait_until(lambda: job(farm, 1)["state"] == "JOB_STATE_PAUSED" and job(farm, 1), "the pause")
            self.assertRegex(paused["state_reason"], r"^\d.* free where .* is, the floor is .*B: free space, or lower")
            refused = farm.cli("submit", "matmul_host", check=False)
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn("no new jobs are taken", refused.stderr)
            self.assertIn("the floor is", refused.stderr)
            self.assertIn("jobs are paused", farm.cli("status").stdout)
            diagnosis = farm.cli("doctor", check=False)
            self.assertEqual(diagnosis.returncode, 1)
            self.assertRegex(diagnosis.stdout, r"(?m)^FAIL +jobs are paused: .* free where .* is, the floor is ")
            self.assertNotEqual(farm.cli("jobs", "resume", 1, check=False).returncode, 0)
            # Also across a restart: it is not taken for a pause that somebody asked for.
            self.assertEqual(farm.stop(), 0)
            farm.start()
            self.assertEqual(job(farm, 1)["state"], "JOB_STATE_PAUSED")
            done = len(farm.trials(1))
            disk.empty()
            wait_until(lambda: job(farm, 1)["state"] == "JOB_STATE_RUNNING", "the job's going on")
            wait_until(lambda: len(farm.trials(1)) > done, "the next trial")
            self.assertEqual(job(farm, 1)["state_reason"], "")
            farm.cli("jobs", "cancel", 1, "--yes")

    def test_a_deleted_job_leaves_its_best(self):
        with Farm() as farm:
            farm.start()
            farm.cli("tune", "matmul_host", *SMALL, "--max-trials", "5")
            best = farm.json("best", "matmul_host", "--exact", *DIMS)
            farm.cli("jobs", "delete", 1)
            self.assertNotEqual(farm.cli("jobs", "show", 1, check=False).returncode, 0)
            after = farm.json("best", "matmul_host", "--exact", *DIMS)
            self.assertEqual(best["best"], after["best"])

    def test_the_log_is_bounded(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "tunefarmd.log"
            with Farm("--log-file", path, "--log-file-max-bytes", 4096, "--log-files", 3) as farm:
                farm.start(TUNEFARM_LOG_LEVEL="debug")
                # How much is logged of a job depends on how fast the machine is.
                for seed in range(40):
                    farm.cli("tune", "matmul_host", *SMALL, "--max-trials", "20", "--seed", seed)
                    if (pathlib.Path(folder) / "tunefarmd.1.log").exists():
                        break
                self.assertEqual(farm.stop(), 0)
            logs = sorted(p.name for p in pathlib.Path(folder).iterdir())
            self.assertIn("tunefarmd.1.log", logs)
            self.assertLessEqual(set(logs), {"tunefarmd.1.log", "tunefarmd.2.log", "tunefarmd.log"})
            for log in pathlib.Path(folder).iterdir():
                self.assertLessEqual(log.stat().st_size, 4096)
            self.assertIn("daemon ended", path.read_text())


class LookupsFirst(unittest.TestCase):
    def test_what_works_for_jobs_yields_and_what_answers_does_not(self):
        def yielding(farm):
            """By name of thread: whether the kernel runs it with what is left over (field 41 of stat: SCHED_IDLE is 5)."""
            found = {}
            for task in pathlib.Path(f"/proc/{farm.process.pid}/task").iterdir():
                name, fields = (task / "stat").read_text().split("(", 1)[1].rsplit(")", 1)
                found[name] = fields.split()[41 - 3] == "5"
            return found

        jobs = {"supervisor", "agent", "control", *(f"search-{i}" for i in range(6)),
                *(f"search-slow-{i}" for i in range(6))}
        for flags, expected in ([], set()), (["--lookups-first"], jobs):
            with Farm(*flags) as farm:
                farm.start()
                wait_until(lambda: {name for name, yields in yielding(farm).items() if yields} == expected,
                           f"{sorted(expected)} to be the threads that yield ({yielding(farm)})")
                self.assertLess(jobs, set(yielding(farm)))


class Monitoring(unittest.TestCase):
    def test_metrics_and_health(self):
        with Farm("--http-listen", "127.0.0.1:0") as farm:
            farm.start()
            address = farm.info()["http_address"]
            self.assertRegex(address, r"^http://127\.0\.0\.1:\d+$")
            self.assertIn(address + "/metrics", farm.cli("status").stdout)
            wait_until(lambda: get(address, "/healthz")[0] == 200, "health")
            self.assertEqual(get(address, "/healthz"), (200, "ok\n"))
            farm.cli("tune", "matmul_host", *SMALL, "--max-trials", "6")
            farm.cli("best", "matmul_host", *DIMS)
            values = metrics(address)
            trials = farm.trials(1)
            self.assertEqual(values['tunefarm_trials_total{outcome="ok"}'], len([t for t in trials if outcome(t) == "OK"]))
            self.assertEqual(values['tunefarm_trials_total{outcome="run_crash"}'], 0)
            self.assertEqual(values['tunefarm_jobs{state="succeeded"}'], 1)
            self.assertEqual(values['tunefarm_jobs{state="running"}'], 0)
            self.assertEqual(values['tunefarm_work_units{state="ready"}'], 0)
            self.assertEqual(values["tunefarm_stored_trials"], len(trials))
            self.assertEqual(values["tunefarm_lookups_total"], 1)
            self.assertEqual(values['tunefarm_lookup_answers_total{match="exact"}'], 1)
            self.assertGreater(values["tunefarm_compile_seconds_total"], 0)
            busy = [v for k, v in values.items() if k.startswith("tunefarm_device_busy_seconds_total{")]
            self.assertEqual(len(busy), 1)
            self.assertGreater(busy[0], 0)
            self.assertGreater(values["tunefarm_store_commit_seconds_count"], 0)
            self.assertEqual(values['tunefarm_store_commit_seconds_bucket{le="+Inf"}'],
                             values["tunefarm_store_commit_seconds_count"])
            self.assertEqual(values["tunefarm_store_commit_failures_total"], 0)
            self.assertEqual(values["tunefarm_suspended"], 0)
            self.assertGreater(values["tunefarm_runners_started_total"], 0)
            # The audit log has a thread of its own.
            wait_until(lambda: metrics(address)["tunefarm_audit_lines_total"] > 0, "the line of the job in the audit log")
            self.assertGreater(values["process_resident_memory_bytes"], 1 << 20)
            self.assertLess(values["process_open_fds"], 200)
            # Every family has its help and its type, and no name is written twice.
            page = get(address, "/metrics")[1]
            helps = re.findall(r"^# HELP (\S+) \S", page, re.M)
            types = re.findall(r"^# TYPE (\S+) (?:counter|gauge|histogram)$", page, re.M)
            self.assertEqual(helps, types)
            self.assertEqual(len(helps), len(set(helps)))
            for name in helps:
                self.assertRegex(name, r"^(tunefarm|process)_[a-z_]+$")

    def test_a_database_that_cannot_be_written_is_not_healthy(self):
        with Farm("--http-listen", "127.0.0.1:0") as farm:
            farm.start(TUNEFARM_FAILPOINTS="store.commit.before=error@150+")
            address = farm.info()["http_address"]
            wait_until(lambda: get(address, "/healthz")[0] == 200, "health")

            def unhealthy():
                farm.cli("submit", "matmul_host", *SMALL, "--max-trials", 2, check=False)
                status, text = get(address, "/healthz")
                return status == 503 and text

            self.assertIn("the database cannot be written", wait_until(unhealthy, "the failing check"))
            # What was counted can still be read, the failures among it.
            self.assertGreater(metrics(address)["tunefarm_store_commit_failures_total"], 0)

    def test_only_loopback_is_served(self):
        with Farm("--http-listen", "127.0.0.1:0") as farm:
            farm.start()
            address = farm.info()["http_address"]
            self.assertEqual(get(address, "/metrics", host="evil.example:80")[0], 403)
            self.assertEqual(get(address, "/metrics", host="localhost:80")[0], 200)
            self.assertEqual(get(address, "/", host="localhost")[0], 404)
            self.assertEqual(get(address, "/healthz", method="HEAD"), (200, ""))
            self.assertIn(get(address, "/metrics", method="POST")[0], (400, 404, 405))
            # The port is taken: a second daemon says so and ends.
            second = subprocess.run([BIN / "tunefarmd", "--data-dir", farm.directory / "second", "--no-gpu", "--http-listen",
                                     address.removeprefix("http://")], capture_output=True, text=True, timeout=HANG_SECONDS)
            self.assertEqual(second.returncode, 1)
            self.assertIn("cannot listen for HTTP on " + address.removeprefix("http://"), second.stderr)
        for listen in ("0.0.0.0:7071", "192.168.1.1:7071", "127.0.0.1"):
            done = subprocess.run([BIN / "tunefarmd", "--http-listen", listen], capture_output=True, text=True, timeout=HANG_SECONDS)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(f"http_listen address '{listen}'", done.stderr)

    def test_idle_connections_do_not_keep_the_pages_busy_for_long(self):
        with Farm("--http-listen", "127.0.0.1:0") as farm:
            farm.start()
            address = farm.info()["http_address"]
            idle = []
            for _ in range(8):
                connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=HANG_SECONDS)
                connection.connect()
                idle.append(connection)
            self.assertEqual(get(address, "/metrics")[0], 200)
            self.assertEqual(farm.stop(), 0)
            for connection in idle:
                connection.close()


def open_files(pid):
    """Soft and hard limit of a process."""
    line = re.search(r"^Max open files +(\d+) +(\d+)", pathlib.Path(f"/proc/{pid}/limits").read_text(), re.M)
    return int(line.group(1)), int(line.group(2))


class Descriptors(unittest.TestCase):
    HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])  # with empty SETTINGS

    def flood(self, path, count):
        """Connections that speak HTTP/2 and never call, as many as stay open of `count`."""
        kept = []
        for _ in range(count):
            connection = socket.socket(socket.AF_UNIX)
            connection.settimeout(HANG_SECONDS)
            try:
                connection.connect(str(path))
                connection.sendall(self.HTTP2_PREFACE)
                is_taken = connection.recv(1) != b""
            except ConnectionError:
                is_taken = False
            if is_taken:
                kept.append(connection)
            else:
                connection.close()
        return kept

    def test_the_daemon_takes_what_it_may_and_workers_get_what_it_found(self):
        with Farm() as farm:
            hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            farm.wrapper = ["prlimit", f"--nofile=200:{hard}"]
            farm.start()
            farm.cli("tune", "matmul_host", *SMALL, "--max-trials", "2")
            self.assertEqual(open_files(farm.process.pid), (hard, hard))

            def stubs():
                """Of workers that have begun to work: those processes of theirs that keep the daemon's hard limit."""
                limits = []
                for pid, _ in farm.orphans():
                    try:
                        limits.append(open_files(pid))
                    except (OSError, AttributeError):
                        pass  # it ended
                return [soft for soft, own_hard in limits if own_hard == hard]

            wait_until(lambda: stubs() and all(soft == 200 for soft in stubs()), "stubs with the limit of the daemon's start")

    def test_connections_of_this_machine_leave_descriptors_for_the_daemon(self):
        with Farm("--compile-workers", "2") as farm:
            farm.wrapper = ["prlimit", "--nofile=800:800"]
            farm.start()
            kept = self.flood(farm.directory / "run" / "client.sock", 800)
            self.assertGreater(len(kept), 100)
            self.assertLess(len(kept), 500)
            # The admin socket answers still, files are opened, and workers start.
            self.assertEqual(farm.cli("status").returncode, 0)
            farm.cli("tune", "matmul_host", *SMALL, "--max-trials", "2")
            kept += self.flood(farm.directory / "run" / "admin.sock", 800)
            self.assertLess(len(kept), 600)
            self.assertLess(len(os.listdir(f"/proc/{farm.process.pid}/fd")), 800)
            for connection in kept:
                connection.close()
            wait_until(lambda: farm.cli("status", check=False).returncode == 0, "an answer once they are gone")
            farm.cli("tune", "matmul_host", *SMALL, "--max-trials", "2")


if __name__ == "__main__":
    permitted.main(verbosity=2)
