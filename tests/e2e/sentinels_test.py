"""Machines of one class that are not alike: sentinels are measured by real agents, and control keeps their times apart."""

import os
import pathlib
import tempfile
import unittest

from farm import wait_until
from machines import Machines

QUICK = ("--policy", "fast", "--max-trials", "20", "--measure", "no_reuse=true")


def devices(machines):
    return {device["agent"]: device for device in machines.control.json("devices").get("devices", [])}


class SentinelsTest(unittest.TestCase):
    def test_a_machine_that_measures_otherwise_gets_no_work_until_it_is_released(self):
        with tempfile.TemporaryDirectory() as directory:
            # A compiler that says it is the same one, and makes slower programs: no machine is as different by chance.
            compiler = pathlib.Path(directory) / "bin" / "c++"
            compiler.parent.mkdir()
            compiler.write_text('#!/bin/sh\nexec /usr/bin/c++ "$@" -O0\n')
            for path in (compiler, compiler.parent, pathlib.Path(directory)):
                os.chmod(path, 0o755)
            with Machines(agents=1, control_flags=("--sentinel-tolerance", "100"), agent_flags=("--sentinels", "all")) as machines:
                machines.agents.append(machines.new_agent("slow", "--sentinels", "all", "--host-compiler", compiler))
                machines.agents[1].spawn()
                machines.wait_for_agents(2)
                self.check(machines)

    def check(self, machines):
        usual, slow = devices(machines)["agent-1"], devices(machines)["slow"]
        self.assertEqual(usual["device_class"]["id"], slow["device_class"]["id"])
        self.assertEqual(usual["state"], "DEVICE_STATE_READY")
        self.assertEqual(slow["state"], "DEVICE_STATE_QUARANTINED")
        self.assertRegex(slow["state_reason"], r"^the sentinel (stream|arithmetic)-[0-9a-f]{8} takes .* more than usual on the 2 "
                                               r"devices of its class \(100 % is allowed\)")
        self.assertEqual([time["name"] for time in usual["sentinels"]], [time["name"] for time in slow["sentinels"]])
        self.assertIn("QUARANTINED", machines.control.cli("devices").stdout)
        self.assertIn("more than usual", machines.control.cli("doctor", "--farm", check=False).stdout)
        self.assertEqual(self.devices_of_a_job(machines, 1), {usual["uuid"]})
        machines.control.cli("devices", "release", slow["uuid"])
        self.assertEqual(devices(machines)["slow"]["state"], "DEVICE_STATE_READY")
        machines.agents[0].stop()
        wait_until(lambda: len(machines.remote()) == 1, "the end of the other agent")
        self.assertEqual(self.devices_of_a_job(machines, 2), {slow["uuid"]})

    def devices_of_a_job(self, machines, seed):
        job = machines.control.cli("submit", "--quiet", "noop_host", *QUICK, "--seed", seed).stdout.strip()
        wait_until(lambda: machines.state_of(job) == "SUCCEEDED", "the job's end")
        return {trial["device_uuid"] for trial in machines.control.trials(job)}

    def test_alike_machines_work_together(self):
        with Machines(agents=2, control_flags=("--sentinel-tolerance", "1000"), agent_flags=("--sentinels", "all")) as machines:
            self.assertEqual({device["state"] for device in devices(machines).values()}, {"DEVICE_STATE_READY"})
            for device in devices(machines).values():
                self.assertEqual(len(device["sentinels"]), 2)
                for time in device["sentinels"]:
                    self.assertGreater(time["median_ns"], 0)

    def test_cpus_are_not_compared_unless_asked_for(self):
        with Machines(agents=2) as machines:
            for device in devices(machines).values():
                self.assertEqual(device["sentinels"], [])


if __name__ == "__main__":
    unittest.main()
