"""A PostgreSQL server of a test's own, from Debian's package: on a Unix socket, without rights when the test is root."""

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


class Postgres:
    """`with Postgres() as server:` makes a cluster and starts it; server.url("name") creates a database."""

    def __enter__(self):
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

    def sql(self, database, text):
        return subprocess.run([programs() / "psql", "--host", self.directory, "--username", "tunefarm", "--no-psqlrc", "--quiet",
                               "--tuples-only", "--no-align", "--dbname", database, "--command", text],
                              check=True, capture_output=True, text=True).stdout.strip()

    def url(self, database):
        """Of a new, empty database."""
        self.sql("postgres", f"CREATE DATABASE {database}")
        return f"postgres://tunefarm@{urllib.parse.quote(str(self.directory), safe='')}/{database}"
