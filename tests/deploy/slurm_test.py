"""The Slurm script under a stand-in for sbatch: what it starts, what it refuses, and that TERM drains the agent."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from deploy_files import DEPLOY, FLAG, SOURCE, daemon_flags

SCRIPT = DEPLOY / "slurm" / "tunefarm-agent.sbatch"
# Options of sbatch(1) that the script may use: sbatch itself would refuse others.
SBATCH_OPTIONS = {"job-name", "nodes", "ntasks", "gpus-per-node", "cpus-per-task", "mem", "time", "requeue", "open-mode",
                  "output", "signal"}

# In the agent's place: says how it was called, and ends some time after it has been told to, as a drain does.
AGENT = f"""#!{sys.executable}
import os, pathlib, signal, sys
record = pathlib.Path(os.environ["RECORD"])
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
(record / "arguments").write_text("\\n".join(sys.argv[1:]))
(record / "started").touch()
with open(record / "signals", "w") as signals:
    print(signal.Signals(signal.sigwait([signal.SIGTERM])).name, file=signals)
    # Half a second in which a second signal would show.
    again = signal.sigtimedwait([signal.SIGTERM], 0.5)
    print("drained" if again is None else "gave up", file=signals)
sys.exit(int(os.environ.get("AGENT_RESULT", "0")))
"""
SCONTROL = '#!/bin/bash\nprintf "%s\\n" "$*" >> "$RECORD/scontrol"\n'


def options():
    return re.findall(r"^#SBATCH --([a-z-]+)(?:=(\S+))?$", SCRIPT.read_text(), re.MULTILINE)


def wait_for(path, process):
    """The file is made below another process: there is nothing to wait on but itself."""
    while not path.exists():
        assert process.poll() is None, f"ended with {process.returncode}: {process.stdout.read()}"
        os.sched_yield()


class Slurm(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tunefarm-slurm."))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        for name in ("record", "bin", "tls", "scratch", "submit"):
            (self.folder / name).mkdir()
        self.record = self.folder / "record"
        for name, text in (("tunefarmd", AGENT), ("scontrol", SCONTROL)):
            (self.folder / "bin" / name).write_text(text)
            (self.folder / "bin" / name).chmod(0o755)
        for name in ("agent.crt", "agent.key", "ca.crt"):
            (self.folder / "tls" / name).touch()
        self.environment = {
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}", "RECORD": str(self.record), "SLURM_JOB_ID": "4711",
            "SLURM_SUBMIT_DIR": str(self.folder / "submit"), "SLURM_TMPDIR": str(self.folder / "scratch"),
            "TUNEFARM_CONTROL": "ctl1:7070,ctl2:7070", "TUNEFARM_TLS_DIR": str(self.folder / "tls")}

    def submit(self, **more):
        """As sbatch does: reads the options in the script's head, then runs a copy of it."""
        unknown = {name for name, _ in options()} - SBATCH_OPTIONS
        self.assertFalse(unknown)
        copy = self.folder / "slurm_script"
        shutil.copy(SCRIPT, copy)
        copy.chmod(0o755)
        environment = {name: value for name, value in {**self.environment, **more}.items() if value is not None}
        process = subprocess.Popen([copy], env=environment, cwd=self.folder / "submit", stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(process.stdout.close)
        return process

    def refused(self, **more):
        process = self.submit(**more)
        text = process.communicate(timeout=600)[0]
        self.assertEqual(process.returncode, 2, text)
        self.assertFalse((self.record / "arguments").exists())
        self.assertEqual(len(text.splitlines()), 1, text)
        return text

    def lines(self, name):
        path = self.record / name
        return path.read_text().splitlines() if path.exists() else []

    def drain(self, **more):
        process = self.submit(**more)
        wait_for(self.record / "started", process)
        process.send_signal(signal.SIGTERM)  # B: the script alone is told
        output = process.communicate(timeout=600)[0]
        return process.returncode, output

    def test_it_passes_shellcheck(self):
        subprocess.run(["shellcheck", SCRIPT], check=True)

    def test_what_it_asks_slurm_for(self):
        asked = dict(options())
        self.assertIn("requeue", asked)
        self.assertEqual(asked["signal"], "B:TERM@120")
        self.assertEqual((asked["nodes"], asked["ntasks"]), ("1", "1"))

    def test_its_flags_are_the_daemons(self):
        used = set(FLAG.findall("\n".join(line for line in SCRIPT.read_text().splitlines() if not line.startswith("#"))))
        self.assertLessEqual(used, daemon_flags(), "flags that tunefarmd --help does not list")

    def test_the_agent_is_started_in_node_local_scratch(self):
        result, output = self.drain(TUNEFARM_LABELS="pool=night")
        self.assertEqual(result, 0, output)
        arguments = self.lines("arguments")
        given = dict(zip(arguments[::2], arguments[1::2]))
        self.assertEqual((given["--role"], given["--control"], given["--labels"]), ("agent", "ctl1:7070,ctl2:7070", "pool=night"))
        self.assertRegex(given["--agent-name"], "^slurm-4711-.")
        self.assertTrue(given["--data-dir"].startswith(str(self.folder / "scratch" / "tunefarm-agent-4711.")))
        self.assertEqual(given["--tls-key"], str(self.folder / "tls" / "agent.key"))

    def test_term_drains_and_cleans_up(self):
        result, output = self.drain()
        self.assertEqual((result, self.lines("signals")), (0, ["SIGTERM", "drained"]), output)
        self.assertEqual(list((self.folder / "scratch").iterdir()), [])
        self.assertEqual(self.lines("scontrol"), [])

    def test_it_is_queued_again_when_asked_to(self):
        result, output = self.drain(TUNEFARM_REQUEUE="1")
        self.assertEqual((result, self.lines("scontrol")), (0, ["requeue 4711"]), output)

    def test_a_failed_agent_fails_the_job(self):
        result, output = self.drain(TUNEFARM_REQUEUE="1", AGENT_RESULT="3")
        self.assertEqual((result, self.lines("scontrol")), (3, []), output)
        self.assertEqual(list((self.folder / "scratch").iterdir()), [])

    def test_what_is_missing_is_named(self):
        self.assertIn("TUNEFARM_CONTROL is not set", self.refused(TUNEFARM_CONTROL=None))
        self.assertIn("TUNEFARM_TLS_DIR is not set", self.refused(TUNEFARM_TLS_DIR=None))
        self.assertIn("no folder can be made in /nonexistent", self.refused(TUNEFARM_SCRATCH="/nonexistent"))
        (self.folder / "tls" / "agent.key").unlink()
        self.assertIn("agent.key cannot be read on ", self.refused())

    def test_a_missing_daemon_is_named(self):
        self.assertIn("tunefarmd is no program on ", self.refused(TUNEFARM_BIN="/nonexistent"))
        (self.folder / "bin" / "tunefarmd").unlink()
        self.assertIn("there is no tunefarmd on the PATH of ", self.refused())


if __name__ == "__main__":
    assert shutil.which("shellcheck"), "shellcheck is missing; install Debian's shellcheck"
    assert SOURCE.is_dir()
    unittest.main()
