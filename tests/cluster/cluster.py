"""A farm of several hosts on one machine: db, control1, control2, agent1, ... Each is a network namespace, a data
directory and the processes of one daemon (or of PostgreSQL). `with Cluster() as farm:` makes the hosts and PostgreSQL;
start() the daemons; the end kills everything and shows the logs if something went wrong.

Commands go to a control daemon's admin socket, which is a file and needs no network.
"""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"]) / "tests" / "e2e"))
import invariants  # noqa: E402
from farm import BIN, HANG_SECONDS, KERNELS, CliError, wait_until  # noqa: E402
from network import Network  # noqa: E402

PORT = 7070
# Events that cannot come on their own, on the slowest machine.
BOUND_SECONDS = 900
TUNE = ("noop_host", "--policy", "fast", "--strategy", "random", "--seed", "1", "--measure", "no_reuse=true",
        "--host-isolation", "shared")
POSTGRES_USER = "postgres"  # of the system: initdb refuses root


def progress_query(job):
    return f"SELECT count(*) FROM trial_result JOIN study USING (study_id) WHERE job_id = {job}"


def postgres_programs():
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    assert found, "PostgreSQL is missing; install Debian's postgresql"
    return found[-1].parent


class Machine:
    """A host and the one program that it is there for."""

    def __init__(self, cluster, name):
        self.cluster, self.name = cluster, name
        self.host = cluster.network.host(name)
        self.address = self.host.address
        self.directory = cluster.directory / name
        self.directory.mkdir(mode=0o711)
        self.log = cluster.directory / f"{name}.log"
        self.process = None
        self.is_frozen = False

    def command(self):
        raise NotImplementedError

    def start(self):
        assert not self.runs(), f"{self.name} runs already"
        with open(self.log, "ab") as log:
            self.process = self.host.popen(self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                           env=dict(os.environ, TUNEFARM_SHARE_HOST="1", TUNEFARM_LOG_LEVEL="info",
                                                    XDG_RUNTIME_DIR=str(self.directory / "run")))
        return self

    def runs(self):
        return self.process is not None and self.process.poll() is None

    def stop(self):
        """As a service manager does; the exit status."""
        self.thaw()
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(HANG_SECONDS)

    def kill(self):
        """The machine loses power: all its processes, at once."""
        if self.runs():
            self.process.kill()
            self.process.wait()
        for pid in self.host.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.is_frozen = False

    def freeze(self):
        """The machine stands still, with its connections open."""
        self.is_frozen = True
        for pid in self.host.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)

    def thaw(self):
        if self.is_frozen:
            self.is_frozen = False
            for pid in self.host.processes():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def cut(self):
        self.cluster.network.cut(self.host)

    def heal(self):
        self.cluster.network.heal(self.host)

    def impair(self, **how):
        self.cluster.network.impair(self.host, **how)


class Database(Machine):
    """PostgreSQL. Of what it has acknowledged nothing is lost when it is killed: that needs no fsync, only a power cut
    of the real machine does."""

    # Shared memory in files of its own: a killed one leaves what is in /dev/shm.
    SETTINGS = {"fsync": "off", "dynamic_shared_memory_type": "mmap", "max_connections": "200", "log_min_messages": "warning", "shared_buffers": "256MB"}

    def __init__(self, cluster, name):
        super().__init__(cluster, name)
        self.data = self.directory / "data"
        shutil.chown(self.directory, POSTGRES_USER)
        self.host.run([*self.as_user(), postgres_programs() / "initdb", "-D", self.data, "-U", "tunefarm", "--auth=trust",
                       "--no-sync", "--no-instructions", "-E", "UTF8", "--locale=C"])
        with open(self.data / "pg_hba.conf", "a", encoding="utf-8") as rules:
            rules.write("host all all 10.77.0.0/24 trust\n")
        self.url = f"postgres://tunefarm@{self.address}:5432/tunefarm"

    def as_user(self):
        return ["setpriv", f"--reuid={POSTGRES_USER}", f"--regid={POSTGRES_USER}", "--clear-groups"]

    def command(self):
        settings = {**self.SETTINGS, "listen_addresses": self.address, "unix_socket_directories": self.directory}
        return [*self.as_user(), postgres_programs() / "postgres", "-D", self.data,
                *(f"-c{key}={value}" for key, value in settings.items())]

    def start(self):
        # What a killed one leaves, and its processes' end, which shared memory waits for.
        wait_until(lambda: not self.host.processes(), "the end of the last PostgreSQL")
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        super().start()
        wait_until(lambda: self.psql("-c", "SELECT 1", database="postgres", check=False).returncode == 0,
                   "PostgreSQL's answer")
        if self.psql("-c", "SELECT 1", check=False).returncode != 0:
            self.psql("-c", "CREATE DATABASE tunefarm", database="postgres")
        return self

    def stop(self):
        self.thaw()
        self.process.send_signal(signal.SIGINT)  # fast: connections are ended
        return self.process.wait(HANG_SECONDS)

    def psql_command(self, database="tunefarm"):
        """By its socket: it answers also when the host's cable is cut."""
        return ["psql", "-h", str(self.directory), "-U", "tunefarm", "-d", database]

    def psql(self, *arguments, database="tunefarm", check=True):
        assert not self.is_frozen, "a frozen database answers nobody"
        done = subprocess.run([*self.psql_command(database), "--no-psqlrc", "-At", *arguments], capture_output=True, text=True)
        assert not check or done.returncode == 0, done.stderr
        return done

    def dump(self):
        """A copy of the database as it is now, for put_back()."""
        copy = self.directory / "copy.dump"
        self.host.run(["pg_dump", "-h", self.directory, "-U", "tunefarm", "--format=custom", "--file", copy, "tunefarm"])
        return copy

    def put_back(self, copy, query):
        """The database becomes what it was when the copy was made, under whoever uses it. What `query` finds in the copy."""
        self.psql("-c", "CREATE DATABASE restored", database="postgres")
        self.host.run(["pg_restore", "-h", self.directory, "-U", "tunefarm", "--exit-on-error", "--dbname=restored", copy])
        found = self.psql("-c", query, database="restored").stdout.strip()
        for statement in ("ALTER DATABASE tunefarm ALLOW_CONNECTIONS false",
                          "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = 'tunefarm'",
                          "ALTER DATABASE tunefarm RENAME TO lost", "ALTER DATABASE restored RENAME TO tunefarm",
                          "DROP DATABASE lost"):
            self.psql("-c", statement, database="postgres")
        return found


class Daemon(Machine):
    role = None

    def flags(self):
        return []

    def command(self):
        (self.directory / "run").mkdir(mode=0o700, exist_ok=True)
        return [BIN / "tunefarmd", "--role", self.role, "--data-dir", self.directory / "data", *self.flags(),
                *self.cluster.flags.get(self.role, ())]

    def orphans(self):
        return invariants.orphans(self.directory)


class Control(Daemon):
    role = "control"

    def flags(self):
        return ["--store", self.cluster.database.url, "--listen", f"{self.address}:{PORT}"]

    def socket(self):
        found = list(self.directory.rglob("admin.sock"))
        return f"unix:{found[0]}" if found else None

    def cli(self, *arguments, check=True):
        if {"tune", "submit", "run"} & set(map(str, arguments[:3])):
            # As in tests/e2e: no test judges times.
            arguments += ("--measure", "noisy_relative_half_width=-1", "--warm-cache")
        if {"tune", "submit"} & set(map(str, arguments[:3])):
            # Agents are killed for no fault of a config.
            arguments += ("--agent-losses-max", "1000000")
        environment = dict(os.environ, TUNEFARM_SERVER=self.socket() or "unix:/nonexistent", TUNEFARM_KERNELS=str(KERNELS))
        done = subprocess.run([BIN / "tunefarm", *map(str, arguments)], capture_output=True, text=True, env=environment,
                              timeout=HANG_SECONDS, stdin=subprocess.DEVNULL)
        if check and done.returncode != 0:
            raise CliError(f"tunefarm {' '.join(map(str, arguments))} at {self.name} ended with {done.returncode}:\n"
                           f"{done.stdout}{done.stderr}")
        return done

    def json(self, *arguments, **options):
        return json.loads(self.cli("--output", "json", *arguments, **options).stdout or "{}")

    def submit(self, size, trials):
        """The number of a job. Numbers have gaps: PostgreSQL gives some up when it is killed."""
        job = self.json("submit", *TUNE, "--dim", f"N={size}", "--max-trials", trials)
        return int(job["name"].removeprefix("jobs/"))

    def state(self, job):
        """None: there is no such job here, or no answer."""
        done = self.cli("--output", "json", "jobs", "show", job, check=False)
        return json.loads(done.stdout)["state"] if done.returncode == 0 else None

    def answers(self):
        assert self.runs(), f"{self.name} ended with {self.process.returncode}: {self.log.read_text()[-2000:]}"
        return self.socket() is not None and self.cli("status", check=False).returncode == 0


class Agent(Daemon):
    role = "agent"

    def flags(self):
        # Each under users of its own: as root, processes of one user share limits.
        base = 100_000 + 1024 * ((os.getpid() * 16 + self.host.number) % 100_000)
        return ["--control", ",".join(f"{control.address}:{PORT}" for control in self.cluster.controls),
                "--agent-name", self.name, "--no-gpu", "--worker-uid-base", base]


class Cluster:
    """`flags`: more flags by role, such as {"control": ["--insecure"]}. Nothing runs but PostgreSQL until start()."""

    def __init__(self, controls=2, agents=4, flags=None):
        self.flags = flags or {"control": ["--insecure"], "agent": ["--insecure"]}
        self.counts = controls, agents
        self.history = invariants.History()

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            self.directory = pathlib.Path(tempfile.mkdtemp(prefix="tunefarm-farm."))
            self.directory.chmod(0o711)
            stack.callback(shutil.rmtree, self.directory, ignore_errors=True)
            self.network = stack.enter_context(Network())
            self.database = Database(self, "db")
            self.controls = [Control(self, f"control{i + 1}") for i in range(self.counts[0])]
            self.agents = [Agent(self, f"agent{i + 1}") for i in range(self.counts[1])]
            self.machines = [self.database, *self.controls, *self.agents]
            self.database.start()
            self.stack = stack.pop_all()
        return self

    def __exit__(self, kind, value, traceback):
        for machine in self.machines:
            machine.kill()
        if kind is not None:
            self.print_logs()
        self.stack.close()

    def print_logs(self):
        for machine in self.machines:
            if machine.log.exists():
                print(f"--- {machine.name} (end) ---\n{machine.log.read_text(errors='replace')[-3000:]}")

    def start(self):
        """All daemons; returns when every control daemon knows all agents."""
        for control in self.controls:
            control.start()
        for control in self.controls:
            wait_until(control.answers, f"an answer of {control.name}")
        for agent in self.agents:
            agent.start()
        self.wait_for_devices()
        return self

    def wait_for_devices(self):
        """Until every control daemon has its database and knows all agents: those of another one are read from the
        store, three times in a lease."""
        def ready(control):
            if not control.answers() or control.json("status").get("database_away"):
                return False
            devices = control.json("devices").get("devices", [])
            return sum(device["state"] == "DEVICE_STATE_READY" for device in devices) == len(self.agents)

        for control in self.controls:
            wait_until(lambda control=control: ready(control), f"the agents' devices at {control.name}")

    def machine(self, name):
        return next(machine for machine in self.machines if machine.name == name)

    def store(self):
        """`with farm.store() as rows:` what the database holds now, for queries with the names of SQLite's schema."""
        return invariants.read_postgres(self.database.psql_command())

    def progress(self, job):
        """Trials of a job that are in the database; 0 while it cannot be asked."""
        if self.database.is_frozen:
            return 0
        asked = self.database.psql("-c", progress_query(job), check=False)
        return int(asked.stdout) if asked.returncode == 0 else 0

    def stands_still(self):
        """Whether no trial can end before something is repaired."""
        def lives(machine):
            return machine.runs() and not machine.is_frozen and not machine.host.is_cut
        return not (lives(self.database) and any(map(lives, self.controls)) and any(map(lives, self.agents)))

    def has_reaped(self):
        """Whether there is no agent any more whose lease has run out."""
        asked = self.database.psql("-c", "SELECT count(*) FROM agent WHERE released_at_ms IS NULL AND "
                                         "lease_until < clock_timestamp()", check=False)
        return asked.returncode == 0 and int(asked.stdout) == 0

    def check(self, **options):
        """Raises with everything that is broken: in the store, and around it."""
        with self.store() as store:
            problems = invariants.check_store(store, self.history, **options)
        for daemon in (*self.controls, *self.agents):
            if not daemon.runs():
                problems += [f"{daemon.name} is dead, its process {pid} is not: {command}"
                             for pid, command in daemon.orphans().items()]
        assert not problems, "invariants broken:\n  " + "\n  ".join(problems[:40])
