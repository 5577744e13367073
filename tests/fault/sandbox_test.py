"""Hostile kernels are contained and named, at the level of isolation that the machine allows, and the daemon goes on.

kernels/examples/hostile_host tries everything; its README says what must come of it at level L1. A hole in the sandbox
shows as WRONG_RESULT.
"""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import fault_case
import farm as farm_module
import invariants
import permitted
from fault_case import QUICK, FaultFarm, wait_until
from farm import KERNELS, assert_ordinals_complete, config, outcome, search

COMPILE_TIMEOUT_MS = 10_000
# Outcome, and what the sentence must name.
FORBIDDEN = "forbidden system call: "
EXPECTED = {
    "nothing": ("OK", ""),
    "include_secret": ("COMPILE_ERROR", "No such file"), "include_database": ("COMPILE_ERROR", "/proc/1/environ"),
    "assemble_secret": ("COMPILE_ERROR", "/etc/shadow"), "explode_templates": ("COMPILE_TIMEOUT", "10.0 s"),
    "fill_compiler": ("SANDBOX_VIOLATION", "File size limit"),
    "internet_socket": ("SANDBOX_VIOLATION", FORBIDDEN + "socket"), "local_socket": ("SANDBOX_VIOLATION", FORBIDDEN + "socket"),
    "fork": ("SANDBOX_VIOLATION", FORBIDDEN + "clone"), "thread_and_fork": ("SANDBOX_VIOLATION", FORBIDDEN + "clone"),
    "fork_bomb": ("SANDBOX_VIOLATION", FORBIDDEN + "clone"), "run_program": ("SANDBOX_VIOLATION", FORBIDDEN + "execve"),
    "kill_runner": ("SANDBOX_VIOLATION", FORBIDDEN + "kill"), "trace_runner": ("SANDBOX_VIOLATION", FORBIDDEN + "ptrace"),
    "mount": ("SANDBOX_VIOLATION", FORBIDDEN + "mount"), "new_namespace": ("SANDBOX_VIOLATION", FORBIDDEN + "unshare"),
    "read_kernel_log": ("SANDBOX_VIOLATION", FORBIDDEN + "syslog"),
    "io_uring": ("SANDBOX_VIOLATION", FORBIDDEN + "io_uring_setup"),
    "read_secret": ("OK", ""), "find_database": ("OK", ""), "write_system": ("OK", ""), "write_elsewhere": ("OK", ""),
    "write_runner_memory": ("OK", ""), "fill_scratch": ("OK", ""), "lock_scratch": ("OK", ""), "large_file": ("SANDBOX_VIOLATION", "64 MiB"),
    "list_processes": ("OK", ""),
    "limit_runner": ("SANDBOX_VIOLATION", FORBIDDEN + "prlimit64"),
    "pin_runner": ("SANDBOX_VIOLATION", FORBIDDEN + "sched_setaffinity"),
    "idle_runner": ("SANDBOX_VIOLATION", FORBIDDEN + "sched_setscheduler"),
    "slow_runner": ("SANDBOX_VIOLATION", FORBIDDEN + "setpriority"),
    "slow_everybody": ("SANDBOX_VIOLATION", FORBIDDEN + "setpriority"),
    "slow_files": ("SANDBOX_VIOLATION", FORBIDDEN + "ioprio_set"), "slow_session": ("OK", ""),
    "signal_by_descriptor": ("SANDBOX_VIOLATION", FORBIDDEN + "fcntl"),
    "signal_by_socket": ("SANDBOX_VIOLATION", FORBIDDEN + "ioctl"),
    "hint_file": ("SANDBOX_VIOLATION", FORBIDDEN + "fcntl"), "flag_file": ("SANDBOX_VIOLATION", FORBIDDEN + "ioctl"),
    "join_runner": ("SANDBOX_VIOLATION", FORBIDDEN + "setpgid"),
    "share_cores_with_runner": ("SANDBOX_VIOLATION", FORBIDDEN + "prctl"),
    "outlive_runner": ("SANDBOX_VIOLATION", FORBIDDEN + "prctl"),
    "shared_memory": ("SANDBOX_VIOLATION", FORBIDDEN + "shmget"),
    "message_queue": ("SANDBOX_VIOLATION", FORBIDDEN + "msgget"),
    "semaphores": ("SANDBOX_VIOLATION", FORBIDDEN + "semget"),
    "named_queue": ("SANDBOX_VIOLATION", FORBIDDEN + "mq_open"),
    "file_in_memory": ("SANDBOX_VIOLATION", FORBIDDEN + "memfd_create"),
    "pages_in_pipe": ("SANDBOX_VIOLATION", FORBIDDEN + "vmsplice"),
    "newer_call": ("OK", ""), "pin_itself": ("OK", ""),
}
# What only the view of the machine prevents: at L0 these find or write what the uid may.
NEED_THE_VIEW = {"include_secret", "include_database", "assemble_secret", "read_secret", "find_database", "write_system",
                 "write_elsewhere", "fill_scratch", "list_processes"}
MADE_OUTSIDE = [f"{folder}/hostile" for folder in ("/usr/lib", "/etc", "/dev", "", "/var/tmp", "/dev/shm", "/home", "/run")]


class Programs:
    """A folder with the programs, in which the daemon is started through `prefix` (a command that ends in exec).

    The daemon's are copies: what another user runs must not lie below a folder that is closed to it, such as a home.
    """

    def __init__(self, *prefix):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tunefarm-programs."))
        self.folder.chmod(0o755)
        self.real = farm_module.BIN
        (self.folder / "tunefarm").symlink_to(self.real / "tunefarm")
        daemon = self.folder / "tunefarmd"
        copies = self.folder / "copies"
        copies.mkdir(0o755)
        for program in ("tunefarmd", "tunefarm-worker"):
            shutil.copy2(self.real / program, copies)
        daemon.write_text(f'#!/bin/sh\nexec {" ".join(prefix)} "{copies}/tunefarmd" "$@"\n')
        daemon.chmod(0o755)

    def __enter__(self):
        farm_module.BIN = self.folder
        return self

    def __exit__(self, kind, value, traceback):
        farm_module.BIN = self.real
        shutil.rmtree(self.folder)


def works(*command):
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def farm_stored(farm):
    """The rows of results of a daemon that has ended."""
    with invariants.open_copy(farm.directory / "tunefarm.db") as database:
        return database.execute("SELECT study_id, ordinal FROM trial_result").fetchall()


def secrets():
    found = []
    for path in ("/etc/shadow", "/etc/passwd"):
        if os.access(path, os.R_OK):
            found += [line for line in pathlib.Path(path).read_text(errors="replace").splitlines() if len(line) > 10]
    return found


class Sandbox(unittest.TestCase):
    def setUp(self):
        for path in filter(os.path.exists, MADE_OUTSIDE):
            self.fail(f"{path} is there before the test")

    def level(self, farm):
        level = farm.info()["sandbox_level"]
        print(f"\n{self.id().split('.')[-1]}: {level}", flush=True)
        return level

    def tune_hostile(self, farm, complete):
        """The job over all attempts. `complete`: the level is L1."""
        farm.cli("tune", "hostile_host", *QUICK)
        trials = farm.trials("jobs/1")
        assert_ordinals_complete(trials)
        found = {config(trial)["ATTEMPT"]: trial for trial in search(trials)}
        self.assertEqual(set(found), set(EXPECTED))
        wrong = []
        for attempt, (expected, words) in EXPECTED.items():
            trial = found[attempt]
            if not complete and attempt in NEED_THE_VIEW:
                continue
            if outcome(trial) != expected or words not in trial.get("message", "") + trial.get("log", ""):
                wrong.append(f"{attempt}: {outcome(trial)} {trial.get('message', '')} {trial.get('log', '')[:300]}")
        self.assertEqual(wrong, [])
        if not complete:
            # Nothing else ends what a compiler leaves behind where there is no pid namespace than its processor time.
            wait_until(lambda: not [line for _, line in farm.orphans() if "hostile.cc" in line], "the end of the compilers")
            self.assertEqual([path for path in MADE_OUTSIDE if os.path.exists(path) and os.stat(path).st_uid == 0], [])
            for path in filter(os.path.exists, MADE_OUTSIDE):
                os.unlink(path)
        else:
            everything = farm.cli("--output", "json", "results", "jobs/1", "--all").stdout
            self.assertEqual([line for line in secrets() if line in everything], [])
            self.assertEqual([path for path in MADE_OUTSIDE if os.path.exists(path)], [])
        # Nothing of it harms the next one.
        done = farm.cli("tune", "vector_add_host", *QUICK)
        self.assertIn("OK", done.stdout)
        self.assertNotIn("LOST", done.stdout)

    def test_as_it_is(self):
        with FaultFarm("--compile-timeout-ms", COMPILE_TIMEOUT_MS) as farm:
            farm.start()
            level = self.level(farm)
            if os.geteuid() == 0 and works("unshare", "-pfmniu", "true"):
                self.assertTrue(level.startswith("L1:"), level)
            self.tune_hostile(farm, level.startswith("L1:"))

    @unittest.skipUnless(os.geteuid() == 0, "takes another user id")
    def test_without_root(self):
        drop = ("setpriv", "--reuid=65533", "--regid=65533", "--clear-groups")
        with Programs(*drop), FaultFarm("--compile-timeout-ms", COMPILE_TIMEOUT_MS) as farm:
            os.chown(farm.directory, 65533, 65533)
            farm.start(TUNEFARM_REQUIRED_ISOLATION="")
            level = self.level(farm)
            if works(*drop, "unshare", "-Urpfmniu", "--mount-proc", "true"):
                self.assertTrue(level.startswith("L1: user namespace"), level)
            self.tune_hostile(farm, level.startswith("L1:"))

    @unittest.skipUnless(os.geteuid() == 0, "gives up rights of root")
    def test_where_namespaces_are_forbidden(self):
        with Programs("setpriv", "--bounding-set=-sys_admin"), FaultFarm("--compile-timeout-ms", COMPILE_TIMEOUT_MS) as farm:
            farm.start()
            level = self.level(farm)
            self.assertRegex(level, r"^L0: .*seccomp.*; without .*pid namespace \(Operation not permitted\)")
            # Asked for more than there is, a clear refusal; otherwise the work is done.
            for command in ("tune", "submit"):
                refused = farm.cli(command, "vector_add_host", "--required-isolation", "L1", check=False)
                self.assertNotEqual(refused.returncode, 0)
                self.assertRegex(refused.stderr, r"the job requires isolation L1, but workers here reach only L0: .*Operation not permitted")
            self.assertIn("isolation", farm.cli("doctor", check=False).stdout)
            self.tune_hostile(farm, False)

    @unittest.skipUnless(os.geteuid() == 0, "gives up rights of root")
    def test_a_daemon_that_requires_more_than_there_is(self):
        with Programs("setpriv", "--bounding-set=-sys_admin"), FaultFarm("--required-isolation", "L1") as farm:
            farm.start()
            refused = farm.cli("submit", "vector_add_host", check=False)
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn("this daemon requires isolation L1", refused.stderr)
            # A job may not ask for less than the daemon's owner.
            refused = farm.cli("submit", "vector_add_host", "--required-isolation", "L0", check=False)
            self.assertIn("this daemon requires isolation L1", refused.stderr)

    @unittest.skipUnless(os.geteuid() == 0, "gives up rights of root")
    def test_a_job_of_before_gets_no_less_than_it_requires(self):
        permitted.require_worker_namespaces()
        with FaultFarm() as farm:
            farm.start()
            self.assertRegex(self.level(farm), "^L1:")
            job = farm.cli("submit", "--quiet", "matmul_host", *QUICK, "--required-isolation", "L1", "--dim", "M=32",
                           "--dim", "N=32", "--dim", "K=32", "--max-trials", 60).stdout.strip()
            self.assertEqual(farm.stop(), 0)
            done = len(farm_stored(farm))
            with Programs("setpriv", "--bounding-set=-sys_admin"):
                farm.start()
                self.assertEqual(farm.state(job), "PAUSED")
                refused = farm.cli("jobs", "resume", job, check=False)
                self.assertIn("the job requires isolation L1", refused.stderr)
                self.assertEqual(farm.stop(), 0)
            self.assertEqual(len(farm_stored(farm)), done, "trials were run at less than the required level")
            farm.start()
            farm.cli("jobs", "resume", job)
            self.assertEqual(farm.watch_to_end(job), "SUCCEEDED")

    def test_a_required_level_that_there_is(self):
        permitted.require_worker_namespaces()
        with FaultFarm("--required-isolation", "L1") as farm:
            farm.start()
            self.assertRegex(self.level(farm), "^L1:")
            self.assertIn("OK", farm.cli("tune", "vector_add_host", *QUICK, "--required-isolation", "L1").stdout)
            refused = farm.cli("submit", "vector_add_host", "--required-isolation", "L2", check=False)
            self.assertIn("'L2' is no level of isolation", refused.stderr)


class Options(unittest.TestCase):
    """Options that read or write files or run programs are refused where they stand, before any compiler sees them."""

    HOST = ["-fplugin=/tmp/x.so", "-wrapper", "-B/tmp", "@/etc/passwd", "-o", "-o/tmp/x", "-include", "-include/etc/passwd",
            "-imacros", "-specs=/tmp/x", "-save-temps", "-I/etc", "-Wp,-MD,/tmp/x", "-dumpdir", "-fdump-tree-all=/tmp/x",
            "-frecord-gcc-switches", "-Xlinker", "-T/tmp/x", "-fprofile-use=/tmp/x"]
    CUDA = ["-I/etc", "--include-path=/etc", "--pre-include=/etc/passwd", "-include=/etc/passwd", "--time=/tmp/x", "-time=/tmp/x",
            "--fdevice-time-trace=/tmp/x", "-o", "--output-file=/tmp/x", "--pch-dir=/tmp", "--create-pch=/tmp/x", "--use-pch=/tmp/x",
            "-Xptxas=-o", "--device-debug", "--minimal", "-dlto", "@/etc/passwd"]

    def refuse(self, kernel, options):
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder) / "kernel"
            shutil.copytree(KERNELS / kernel, copy)
            definition = copy / "kernel.pbtxt"
            text = re.sub(r"^compile_options:.*\n", "", definition.read_text(), flags=re.M)
            line = text.count("\n") + 1
            for option in options:
                definition.write_text(text + f'compile_options: ["{option}"]\n')
                done = subprocess.run([farm_module.BIN / "tunefarm", "kernels", "check", copy], capture_output=True, text=True,
                                      check=False, stdin=subprocess.DEVNULL)
                self.assertNotEqual(done.returncode, 0, option)
                self.assertRegex(done.stderr, rf"kernel\.pbtxt:{line}:\d+: .*compiler option '{re.escape(option)}' is not allowed")

    def test_host(self):
        self.refuse("examples/vector_add_host", self.HOST)

    def test_cuda(self):
        self.refuse("vector_add", self.CUDA)


if __name__ == "__main__":
    fault_case.main()
