"""What some tests need and not every machine permits: mounts, network namespaces, namespaces for workers.

A test that needs what is not permitted is skipped with a sentence. main() is unittest.main() for files with such tests: the
program prints the sentences at its end and exits with 77, which CTest reports as skipped, unless something failed.
TUNEFARM_REQUIRE_NAMESPACES=1, which .ci/run sets, turns such skips into failures.
"""

import os
import subprocess
import sys
import unittest

_not_tested = set()


def skip(reason):
    """Skips the running test, because of what this machine does not permit."""
    if os.environ.get("TUNEFARM_REQUIRE_NAMESPACES") == "1":
        raise AssertionError(f"{reason}, but TUNEFARM_REQUIRE_NAMESPACES=1 is set")
    _not_tested.add(reason)
    raise unittest.SkipTest(reason)


def _run(what, *command):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    if done.returncode != 0:
        # "mount: PATH: permission denied.": without the path, so that each reason is printed once.
        why = (done.stderr.strip().splitlines() or ["no reason given"])[0].split(": ")[-1].rstrip(".")
        skip(f"{what} not permitted here ({why})")


def mount(*arguments):
    _run("mounts are", "mount", *arguments)


def require_mount_namespace():
    _run("mount namespaces are", "unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/tmp")


def require_worker_namespaces():
    """For workers that reach isolation level L1."""
    user = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    _run("the namespaces of isolation level L1 are", "unshare", *user, "--pid", "--fork", "--mount", "--net", "--ipc", "--uts",
         "--mount-proc", "true")


def main(**options):
    result = unittest.main(exit=False, **options).result
    for reason in sorted(_not_tested):
        print(f"NOT TESTED: {reason}", flush=True)
    sys.exit(1 if not result.wasSuccessful() else 77 if _not_tested else 0)
