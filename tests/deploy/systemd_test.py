"""The systemd units: accepted by systemd's own checker, and with what the daemon and its workers need."""

import re
import shutil
import subprocess
import tempfile
import pathlib
import unittest

from deploy_files import BIN, DEPLOY, DRAIN_SECONDS, FLAG, daemon_flags

UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
WITH_WORKERS = ("tunefarmd.service", "tunefarmd-agent.service")
# What makes the kernel or systemd refuse workers their namespaces, their /proc, their devices or code that drivers make.
BREAKS_WORKERS = ("RestrictNamespaces", "SystemCallFilter", "ProtectProc", "ProcSubset", "ProtectKernelTunables",
                  "ProtectKernelLogs", "ProtectControlGroups", "ProtectClock", "ProtectHostname", "PrivateDevices",
                  "DevicePolicy", "PrivateTmp", "MemoryDenyWriteExecute", "PrivateUsers")


def settings(unit):
    """The lines of [Service]; a list for each name, since some may be given twice."""
    found = {}
    text = unit.read_text().split("[Service]")[1].split("[Install]")[0]
    for name, value in re.findall(r"^([A-Za-z]+)=(.*)$", text, re.MULTILINE):
        found.setdefault(name, []).append(value)
    return found


class Units(unittest.TestCase):
    def test_the_three_roles_have_one_each(self):
        self.assertEqual([unit.name for unit in UNITS],
                         ["tunefarmd-agent.service", "tunefarmd-control.service", "tunefarmd.service"])
        for unit, role in zip(UNITS, ("agent", "control", None)):
            (start,) = settings(unit)["ExecStart"]
            self.assertEqual(re.findall(r"--role (\w+)", start), [role] if role else [], unit)

    def test_systemd_accepts_them(self):
        # The checker wants the program to be there: the one that was built stands in for the installed one.
        with tempfile.TemporaryDirectory() as folder:
            copies = []
            for unit in UNITS:
                copy = pathlib.Path(folder) / unit.name
                copy.write_text(unit.read_text().replace("/usr/bin/tunefarmd", str(BIN / "tunefarmd")))
                copies.append(str(copy))
            done = subprocess.run(["systemd-analyze", "verify", "--man=no", *copies], capture_output=True, text=True)
            ours = [line for line in done.stderr.splitlines() if "tunefarmd" in line]
            self.assertEqual((done.returncode, ours), (0, []), done.stderr)

    def test_a_wrong_unit_is_noticed(self):
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder) / "tunefarmd.service"
            copy.write_text(UNITS[2].read_text().replace("KillMode=", "KilMode="))
            done = subprocess.run(["systemd-analyze", "verify", "--man=no", copy], capture_output=True, text=True)
            self.assertIn("KilMode", done.stderr)

    def test_their_flags_are_the_daemons(self):
        known = daemon_flags()
        for unit in UNITS:
            used = set(FLAG.findall(settings(unit)["ExecStart"][0]))
            self.assertLessEqual(used, known, f"{unit.name} uses flags that tunefarmd --help does not list")

    def test_they_end_and_restart_as_the_daemon_does(self):
        for unit in UNITS:
            of = settings(unit)
            for name, value in {"Type": "notify", "KillMode": "mixed", "Restart": "on-failure", "WatchdogSec": "60"}.items():
                self.assertEqual(of[name], [value], f"{unit.name}: {name}")
            self.assertGreater(int(of["TimeoutStopSec"][0]), DRAIN_SECONDS if unit.name in WITH_WORKERS else 30, unit.name)
            self.assertEqual(of["User"], ["tunefarm"])
            self.assertEqual((of["NoNewPrivileges"], of["CapabilityBoundingSet"], of["ProtectSystem"]), (["yes"], [""], ["strict"]))

    def test_workers_keep_what_their_sandbox_is_made_of(self):
        for name in WITH_WORKERS:
            of = settings(DEPLOY / "systemd" / name)
            self.assertEqual(of["Delegate"], ["yes"])
            self.assertEqual([key for key in BREAKS_WORKERS if key in of], [], name)
        of = settings(DEPLOY / "systemd" / "tunefarmd-control.service")
        self.assertEqual((of["RestrictNamespaces"], of["PrivateDevices"]), (["yes"], ["yes"]))

    def test_exposure_is_reported(self):
        # For information: what systemd itself thinks of them. Not judged, since workers need what it counts against them.
        for unit in UNITS:
            done = subprocess.run(["systemd-analyze", "security", "--offline=true", "--no-pager", unit],
                                  capture_output=True, text=True)
            found = re.search(r"Overall exposure level.*?: ([\d.]+)", done.stdout)
            self.assertIsNotNone(found, done.stdout + done.stderr)
            print(f"{unit.name}: exposure {found.group(1)} of 10")


if __name__ == "__main__":
    assert shutil.which("systemd-analyze"), "systemd-analyze is missing; install Debian's systemd"
    unittest.main()
