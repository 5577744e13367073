"""What the tests of server/daemon/deploy share: where the files are, and which flags tunefarmd has."""

import os
import pathlib
import re
import subprocess

SOURCE = pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"])
BIN = pathlib.Path(os.environ["TUNEFARM_BIN_DIR"])
DEPLOY = SOURCE / "server" / "daemon" / "deploy"
DRAIN_SECONDS = 120  # the longest phase deadline; see TimeoutStopSec
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def daemon_flags():
    return set(FLAG.findall(subprocess.run([BIN / "tunefarmd", "--help"], capture_output=True, text=True, check=True).stdout))


def daemon_keys():
    """Keys of the configuration file; TUNEFARM_<KEY> sets one."""
    text = subprocess.run([BIN / "tunefarmd", "--print-example-config"], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"^#?\s*([a-z_]+) = ", text, re.MULTILINE))
