"""The command line of a bundle or build with a daemon of its own, in a folder that goes with it, for the benches beside this
file."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile


def clean_up_when_terminated():
    """SIGTERM, which `timeout` sends, raises SystemExit, so that blocks of `with` and `finally` stop their daemons: one that is
    left goes on with its job, and keeps the device from what is measured next."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


class DaemonOfItsOwn:
    """with DaemonOfItsOwn(bin_directory) as call: call("tune", ...) -> stdout. Ends the script where a command fails. The daemon
    starts with the first command and has the environment's settings and `settings`, TUNEFARM_LOG_LEVEL="exec=debug" for example."""

    def __init__(self, bin_directory, **settings):
        self.program = str(pathlib.Path(bin_directory) / "tunefarm")
        self._folder = tempfile.TemporaryDirectory(prefix="tunefarm-bench.")
        self.data = pathlib.Path(self._folder.name)
        self.environment = dict(os.environ, TUNEFARM_DATA_DIR=self._folder.name, **settings)
        self.environment.pop("TUNEFARM_SERVER", None)

    def __enter__(self):
        clean_up_when_terminated()
        return self

    def __exit__(self, *_):
        subprocess.run([self.program, "stop", "--now"], capture_output=True, env=self.environment)
        self._folder.cleanup()

    def __call__(self, *words):
        done = subprocess.run([self.program, *map(str, words)], capture_output=True, text=True, env=self.environment,
                              stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            sys.exit(f"tunefarm {' '.join(map(str, words))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def json(self, *words):
        return json.loads(self("--output", "json", *words))

    def log(self):
        return (self.data / "log/tunefarmd.log").read_text(errors="replace")
