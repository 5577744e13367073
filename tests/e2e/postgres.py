"""A PostgreSQL server of a test's own, from Debian's package: on a Unix socket, without rights when the test is root."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import urllib.parse

from farm import wait_until

NOBODY = 65534


def programs():
    """The folder of the newest server's programs; None: none is installed."""
    found = [path.parent for path in pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    return max(found, key=lambda path: int(path.parent.name), default=None)


def stat_of(pid):
    """State and parent of a process, as /proc has them; of one that is gone "Z" and nobody."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except (FileNotFoundError, ProcessLookupError):
        return ["Z", ""]


class Postgres:
    """`with Postgres() as server:` makes a cluster and starts it; server.url("name") creates a database."""

    def __enter__(self):
        self.frozen = []
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="tunefarm-postgres."))
        self.as_user = ["setpriv", "--pdeathsig", "KILL"]
        if os.geteuid() == 0:
            os.chown(self.directory, NOBODY, NOBODY)
            self.as_user += ["--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
        subprocess.run([*self.as_user, programs() / "initdb", "--pgdata", self.directory / "data", "--username", "tunefarm",
                        "--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions"],
                       check=True, stdout=subprocess.DEVNULL)
        self.start()
        return self

    def __exit__(self, *_):
        self.thaw()
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def start(self):
        with open(self.directory / "log", "ab") as log:
            self.process = subprocess.Popen([*self.as_user, programs() / "postgres", "-D", self.directory / "data", "-k",
                                             self.directory, "-c", "listen_addresses=", "-c", "timezone=UTC"],
                                            stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        wait_until(lambda: subprocess.run([programs() / "pg_isready", "--quiet", "--host", self.directory]).returncode == 0,
                   "the PostgreSQL server's start")

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait()

    def freeze(self):
        """All its processes stand still, with every connection open, until thaw()."""
        # The first makes no others from then on; those of its connections have sessions of their own.
        self.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: stat_of(self.process.pid)[0] == "T", "the server's stop")
        self.frozen = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if stat_of(pid)[1] == str(self.process.pid)]
        for pid in self.frozen:
            os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: all(stat_of(pid)[0] in "TZ" for pid in self.frozen), "its processes' stop")

    def thaw(self):
        for pid in [self.process.pid, *self.frozen]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self.frozen = []

    def dump(self, database):
        """A copy of it, with pg_dump's own consistency; the file."""
        path = self.directory / f"{database}.dump"
        subprocess.run([programs() / "pg_dump", "--format=custom", f"--file={path}", *self.client(database)], check=True)
        return path

    def put_back(self, path, database):
        """The copy takes the database's name, with its users connected and going on to ask for it."""
        self.sql("postgres", f"CREATE DATABASE {database}_restored")
        subprocess.run([programs() / "pg_restore", "--exit-on-error", *self.client(f"{database}_restored"), path], check=True)
        self.sql("postgres", f"ALTER DATABASE {database} ALLOW_CONNECTIONS false")

        def swapped():
            self.sql("postgres", f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}'")
            return self.psql("postgres", f"BEGIN; ALTER DATABASE {database} RENAME TO {database}_lost; "
                                         f"ALTER DATABASE {database}_restored RENAME TO {database}; COMMIT").returncode == 0

        wait_until(swapped, "the end of the last connection")

    def client(self, database):
        return ["--host", self.directory, "--username", "tunefarm", "--dbname", database]

    def psql(self, database, text):
        return subprocess.run([programs() / "psql", *self.client(database), "--no-psqlrc", "--quiet", "-v", "ON_ERROR_STOP=1",
                               "--tuples-only", "--no-align", "--command", text], capture_output=True, text=True)

    def sql(self, database, text):
        done = self.psql(database, text)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def url(self, database):
        """Of a new, empty database."""
        self.sql("postgres", f"CREATE DATABASE {database}")
        return f"postgres://tunefarm@{urllib.parse.quote(str(self.directory), safe='')}/{database}"
