"""Private daemons of several data directories, as commands start and find them."""

import fcntl
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import threading
import unittest

from farm import BIN, HANG_SECONDS, wait_until


class DataDirectories(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tunefarm-dirs."))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        (self.folder / "runtime").mkdir(mode=0o700)

    def environment(self, home):
        own = {name: value for name, value in os.environ.items() if not name.startswith("TUNEFARM_")}
        return {**own, "XDG_DATA_HOME": str(self.folder / home), "XDG_RUNTIME_DIR": str(self.folder / "runtime")}

    def cli(self, home, *arguments):
        done = subprocess.run([BIN / "tunefarm", *arguments], env=self.environment(home), capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=HANG_SECONDS)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def status(self, home):
        return json.loads(self.cli(home, "--output", "json", "status"))

    def start(self, home):
        self.cli(home, "devices")
        pid = int(self.status(home)["pid"])
        self.addCleanup(wait_until, lambda: not pathlib.Path(f"/proc/{pid}").exists(), "the daemon's end")
        self.addCleanup(self.cli, home, "stop", "--now")

    def test_default_ones_with_one_runtime_directory(self):
        for home in ("a", "b"):
            self.start(home)
        for home, sockets in (("a", "runtime/tunefarm"), ("b", "b/tunefarm/run")):
            status = self.status(home)
            self.assertEqual(status["data_directory"], str(self.folder / home / "tunefarm"))
            self.assertIn(f"unix:{self.folder}/{sockets}/admin.sock", status["addresses"])

    def test_a_start_while_another_daemon_is_about_to_end(self):
        data = self.folder / "c" / "tunefarm"
        (data / "log").mkdir(parents=True, mode=0o700)
        data.chmod(0o700)
        log = data / "log/tunefarmd.log"
        log.touch(mode=0o600)
        holds, over = threading.Event(), threading.Event()
        self.addCleanup(over.set)

        def end_slowly():
            # As a daemon that ends: it holds the directory and still writes to the log. The daemon that is started
            # meanwhile is refused, and lines of the other one follow what it says.
            with open(data / "tunefarmd.lock", "w") as lock, open(log, "ab", buffering=0) as out:
                fcntl.flock(lock, fcntl.LOCK_EX)
                holds.set()
                while "another daemon serves" not in log.read_text() and not over.wait(0.001):
                    pass
                for _ in range(3):
                    out.write(b"2026-01-01T00:00:00.000Z info daemon ended\n")

        ending = threading.Thread(target=end_slowly)
        ending.start()
        holds.wait(HANG_SECONDS)
        self.start("c")
        ending.join(HANG_SECONDS)
        self.assertIn("another daemon serves", log.read_text())


if __name__ == "__main__":
    unittest.main()
