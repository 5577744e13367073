"""See sandbox_probe.sh."""

import glob
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

# What each attempt of hostile_cuda must come to.
HOSTILE = {
    "nothing": "OK", "include_passwd": "COMPILE_ERROR", "include_secret": "COMPILE_ERROR",
    "include_environment": "COMPILE_ERROR", "explode_templates": "COMPILE_TIMEOUT",
}
STARTS = 7
# The frame that a run worker waits for before it greets: an empty WarmStart, field 21 of Frame.
WARM_START = b"\xaa\x01\x00"


class Probe:
    def __init__(self, bundle, out):
        self.bundle = pathlib.Path(bundle).resolve()
        self.out = pathlib.Path(out)
        self.out.mkdir(parents=True, exist_ok=True)
        self.data = tempfile.mkdtemp(prefix="tunefarm-probe.")
        self.rows = []
        self.failed = False

    def row(self, what, value, ok=None):
        self.failed |= ok is False
        self.rows.append((what, str(value), "" if ok is None else "ok" if ok else "WRONG"))

    def cli(self, *arguments, timeout=300):
        environment = dict(os.environ, TUNEFARM_DATA_DIR=self.data, TUNEFARM_COMPILE_TIMEOUT_MS="10000")
        done = subprocess.run([self.bundle / "bin/tunefarm", *arguments], env=environment, capture_output=True, text=True,
                              timeout=timeout, stdin=subprocess.DEVNULL)
        with open(self.out / "commands.txt", "a", encoding="utf-8") as log:
            log.write(f"$ tunefarm {' '.join(arguments)}\n{done.stdout}{done.stderr}-> {done.returncode}\n\n")
        return done

    def json(self, *arguments):
        done = self.cli("--output", "json", *arguments)
        return json.loads(done.stdout) if done.stdout else {}

    def tune(self, kernel, *arguments):
        """The trials of a new job."""
        self.cli("tune", kernel, "--device", "cuda", "--policy", "fast", *arguments)
        newest = self.json("jobs", "list")["jobs"][0]["name"]
        trials = self.json("results", newest, "--all").get("trials", [])
        (self.out / f"{kernel}.json").write_text(json.dumps(trials, indent=1))
        return trials

    def check_level(self):
        self.cli("doctor")
        status = self.json("status")
        level = status.get("sandbox_level", "")
        self.row("level", level, level.startswith("L1:"))
        for note in status.get("toolchains", []):
            self.row("note", note)

    def check_kernels(self):
        trials = self.tune("vector_add")
        outcomes = [t.get("outcome") for t in trials]
        self.row("vector_add", f"{outcomes.count('OUTCOME_OK')} of {len(outcomes)} trials OK", bool(outcomes) and
                 outcomes.count("OUTCOME_OK") >= len(outcomes) // 2)
        for outcome in sorted(set(map(str, outcomes)) - {"OUTCOME_OK"}):
            example = next(t for t in trials if t.get("outcome") == outcome)
            self.row(f"  {outcome}", example.get("message", ""))
        trials = self.tune("hostile_cuda")
        for trial in trials:
            if trial.get("purpose") != "TRIAL_PURPOSE_SEARCH":
                continue
            attempt = trial["config"]["ATTEMPT"]
            outcome = trial.get("outcome", "").removeprefix("OUTCOME_")
            self.row(f"hostile_cuda {attempt}", f"{outcome} {trial.get('message', '')[:90]}", outcome == HOSTILE[attempt])
        text = json.dumps(trials)
        secrets = [line for path in ("/etc/passwd", "/etc/shadow") if os.access(path, os.R_OK)
                   for line in pathlib.Path(path).read_text(encoding="utf-8", errors="replace").splitlines()[:3] if line]
        leaked = [line for line in secrets if line in text]
        self.row("secrets in results", len(leaked), not leaked)

    def workers(self, role):
        """Pids of the innermost processes of this daemon's workers."""
        found = []
        for entry in glob.glob("/proc/[0-9]*"):
            try:
                command = pathlib.Path(entry, "cmdline").read_bytes().decode(errors="replace").split("\0")
                status = pathlib.Path(entry, "status").read_text()
            except OSError:
                continue
            if f"--role={role}" not in command or "--backend=cuda" not in command or self.data not in " ".join(command):
                continue
            namespaces = re.search(r"^NSpid:\s+(.*)$", status, re.M).group(1).split()
            if namespaces[-1] not in ("1", namespaces[0]):
                found.append((int(pathlib.Path(entry).name), status))
        return found

    def check_processes(self):
        for role in ("compile", "run"):
            workers = self.workers(role)
            self.row(f"{role} workers seen", len(workers), bool(workers))
            for pid, status in workers[:1]:
                field = dict(re.findall(r"^(\w+):\s+(.*)$", status, re.M))
                self.row(f"{role} worker Seccomp", field["Seccomp"], field["Seccomp"] == "2")
                self.row(f"{role} worker CapEff, Uid", f"{field['CapEff']}, {field['Uid'].split()[0]}",
                         int(field["CapEff"], 16) == 0 and not field["Uid"].startswith("0"))
                root = f"/proc/{pid}/root"
                gpus = [name for name in os.listdir(root + "/dev") if re.fullmatch(r"nvidia\d+", name)]
                self.row(f"{role} worker's GPU nodes", " ".join(gpus) or "none", len(gpus) == (1 if role == "run" else 0))
                self.row(f"{role} worker's /dev", " ".join(sorted(os.listdir(root + "/dev"))))
                self.row(f"{role} worker's /", " ".join(sorted(os.listdir(root))),
                         not {"home", "root", "var", "work"} & set(os.listdir(root)))
                self.row(f"{role} worker's /etc", " ".join(sorted(os.listdir(root + "/etc"))))

    def start(self, role, sandbox, uuid):
        """Milliseconds until a worker greets, and its words."""
        scratch = tempfile.mkdtemp(prefix="tunefarm-start.")
        os.chmod(scratch, 0o711)
        inner = os.path.join(scratch, "scratch", "worker")
        os.makedirs(inner)
        arguments = [f"--role={role}", "--backend=cuda", f"--scratch={inner}", f"--device={uuid}", f"--sandbox={sandbox}"]
        if sandbox == "on" and os.geteuid() == 0:
            os.chown(inner, 64999, 64999)
            arguments.append("--uid=64999")
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        begin = time.monotonic()
        process = subprocess.Popen([self.bundle / "bin/tunefarm-worker", *arguments, f"--channel-fd={theirs.fileno()}"],
                                   pass_fds=[theirs.fileno()], env=dict(os.environ, CUDA_CACHE_DISABLE="1"),
                                   stderr=subprocess.PIPE)
        theirs.close()
        ours.settimeout(60)
        if role == "run":
            ours.send(WARM_START)
        hello = ours.recv(65536)
        elapsed = (time.monotonic() - begin) * 1e3
        ours.close()
        error = process.communicate(timeout=60)[1].decode(errors="replace")
        shutil.rmtree(scratch, ignore_errors=True)
        return elapsed, hello.decode(errors="replace") + error

    def check_start(self):
        devices = [d for d in self.json("devices").get("devices", []) if d.get("uuid", "").startswith(("GPU-", "MIG-"))]
        if not devices:
            self.row("GPU of the daemon", "none", False)
            return
        for role in ("compile", "run"):
            median = {}
            for sandbox in ("off", "on"):
                starts = [self.start(role, sandbox, devices[0]["uuid"]) for _ in range(STARTS)]
                median[sandbox] = statistics.median(elapsed for elapsed, _ in starts)
                (self.out / f"start_{role}_{sandbox}.txt").write_text(f"{starts}\n")
            difference = median["on"] - median["off"]
            self.row(f"{role} worker starts in", f"{median['on']:.1f} ms, {median['off']:.1f} ms without the sandbox",
                     difference <= 10 + 0.1 * median["off"])

    def run(self):
        try:
            for check in (self.check_level, self.check_kernels, self.check_processes, self.check_start):
                try:
                    check()
                except Exception as error:  # pylint: disable=broad-except
                    self.row(check.__name__, f"{type(error).__name__}: {error}", False)
        finally:
            self.cli("stop", "--now")
            log = pathlib.Path(self.data, "log/tunefarmd.log")
            if log.exists():
                shutil.copy(log, self.out / "tunefarmd.log")
        table = "\n".join(f"{what:34} {value}  {ok}" for what, value, ok in self.rows)
        (self.out / "table.txt").write_text(table + "\n")
        print(table)
        return 1 if self.failed else 0


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    if len(sys.argv) != 3:
        sys.exit("usage: sandbox_probe.sh BUNDLE_DIRECTORY OUT_DIRECTORY")
    sys.exit(Probe(sys.argv[1], sys.argv[2]).run())
