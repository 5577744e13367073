"""A farm of several machines: a control daemon and agents as processes of their own, over loopback TCP, and what happens
when they die, stop, and come back."""

import contextlib
import pathlib
import re
import shutil
import signal
import sqlite3
import tempfile
import time
import unittest

import twins
from farm import assert_ordinals_complete, config, outcome, search, wait_until
from machines import Machines

DIMS = ["--dim", "M=64", "--dim", "N=64", "--dim", "K=64"]
TRIALS = 144


def submit(machines, *flags):
    """A job of many short trials."""
    machines.control.cli("submit", "matmul_host", "--policy", "fast", "--strategy", "exhaustive", "--max-trials", TRIALS,
                         *DIMS, "--measure", "no_reuse=true", *flags)
    return "1"


def finish(machines, job):
    wait_until(lambda: machines.state_of(job) in ("SUCCEEDED", "FAILED", "CANCELLED"), "the end of the job")
    return machines.control.trials(job)


class FarmOfMachines(unittest.TestCase):
    def check(self, machines, job, expected=None):
        self.assertEqual(machines.state_of(job), "SUCCEEDED")
        trials = machines.control.trials(job)
        assert_ordinals_complete(trials)
        self.assertEqual({outcome(t) for t in trials}, {"OK"})
        configs = [tuple(sorted(config(t).items())) for t in search(trials)]
        self.assertEqual(len(configs), len(set(configs)), "a config was proposed twice")
        self.assertEqual(len(configs), TRIALS)
        return trials

    @staticmethod
    def ended_units(directory):
        """Those that a control daemon which is down has stored as done."""
        with contextlib.closing(sqlite3.connect(f"file:{directory}/tunefarm.db?mode=ro", uri=True)) as database:
            return {unit for unit, in database.execute("SELECT unit_id FROM work_unit WHERE state >= 3")}

    def test_two_agents_share_a_job(self):
        with Machines(agents=2) as machines:
            job = submit(machines)
            finish(machines, job)
            trials = self.check(machines, job)
            by_device = {}
            for trial in search(trials):
                by_device[trial["device_uuid"]] = by_device.get(trial["device_uuid"], 0) + 1
            self.assertEqual(len(by_device), 2, by_device)
            self.assertGreater(min(by_device.values()), TRIALS // 12, by_device)
            names = {device["agent"] for device in machines.control.json("devices")["devices"]}
            self.assertEqual(names, {"agent-1", "agent-2"})

    def test_what_configs_do_is_measured_once_in_the_whole_farm(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="tunefarm-e2e."))
        self.addCleanup(shutil.rmtree, folder)
        twins.write(folder)
        with Machines(agents=2) as machines:
            machines.control.cli("submit", folder, "--policy", "fast", "--strategy", "exhaustive")
            trials = finish(machines, "1")
            self.assertEqual(machines.state_of("1"), "SUCCEEDED")
            twins.check(self, trials)
            # Both had configs of each kind to compile.
            for agent in machines.agents:
                self.assertGreater(len(list((agent.directory / "cache").glob("*.bin"))), 8)

    def test_a_job_chooses_its_devices(self):
        with Machines(agents=0, start=False) as machines:
            machines.agents = [machines.new_agent("agent-1", "--labels", "rack=3,room=b"), machines.new_agent("agent-2")]
            machines.control.start()
            for agent in machines.agents:
                agent.spawn()
            machines.wait_for_agents(2)
            uuid_of = {d["agent"]: d["uuid"] for d in machines.control.json("devices")["devices"]}
            for number, (selector, agent) in enumerate([("label:rack=3", "agent-1"), ("agent:agent-2", "agent-2")], 1):
                machines.control.cli("submit", "matmul_host", "--policy", "fast", "--strategy", "random", "--max-trials",
                                     40, "--device", selector, "--measure", "no_reuse=true", *DIMS)
                trials = finish(machines, str(number))
                self.assertEqual({t["device_uuid"] for t in trials}, {uuid_of[agent]})
                shown = machines.control.cli("jobs", "show", number).stdout
                self.assertIn(f"only     on {selector}", shown)
                self.assertIn(f"final    on {uuid_of[agent]}", shown)
            machines.control.cli("submit", "matmul_host", "--policy", "fast", "--max-trials", 4, "--device", "all-classes",
                                 *DIMS)
            classes = {d["device_class"]["id"] for d in machines.control.json("devices")["devices"]}
            self.assertEqual(len(machines.control.json("jobs", "show", "3")["studies"]), len(classes))
            refused = machines.control.cli("submit", "matmul_host", "--device", "label:rack=4", *DIMS, check=False)
            self.assertEqual(refused.returncode, 3, refused.stderr)
            self.assertIn("there are: label:rack=3, label:room=b", refused.stderr)
            refused = machines.control.cli("submit", "matmul_host", "--device", "rack:3", *DIMS, check=False)
            self.assertIn("label:KEY=VALUE and agent:NAME", refused.stderr)
            words = machines.control.cli("__complete", "tune", "--device", "").stdout.split()
            self.assertLessEqual({"all-classes", "label:rack=3", "agent:agent-2", uuid_of["agent-1"]}, set(words))

    def begun(self, machines, job, count=20):
        """Until so many trials are stored, and not all of them."""
        wait_until(lambda: machines.trial_count(job) >= count, f"{count} trials")
        self.assertEqual(machines.state_of(job), "RUNNING")

    def test_an_agent_is_killed(self):
        with Machines(agents=2, lease=5) as machines:
            job = submit(machines)
            self.begun(machines, job)
            machines.agents[0].kill()
            wait_until(lambda: len(machines.remote()) == 1, "the end of the dead agent's lease")
            finish(machines, job)
            self.check(machines, job)
            states = {device["agent"]: device["state"] for device in machines.control.json("devices")["devices"]}
            self.assertEqual(states, {"agent-1": "DEVICE_STATE_OFFLINE", "agent-2": "DEVICE_STATE_READY"})
            # Its successor is the same device, and gets work.
            machines.agents[0].spawn()
            machines.wait_for_agents(2)
            states = {device["agent"]: device["state"] for device in machines.control.json("devices")["devices"]}
            self.assertEqual(set(states.values()), {"DEVICE_STATE_READY"})

    def test_a_killed_agent_that_comes_back_at_once_takes_its_own_place(self):
        with Machines(agents=1, lease=3600) as machines:
            (before,) = machines.remote().values()
            job = submit(machines)
            self.begun(machines, job)
            machines.agents[0].kill()
            machines.agents[0].spawn()
            # No lease has run out: the new process ends the old one's epoch.
            wait_until(lambda: [a["name"] for a in machines.remote().values()] not in ([], [before["name"]]),
                       "the registration of the new process")
            finish(machines, job)
            self.check(machines, job)
            self.assertEqual(len(machines.remote()), 1)

    def test_an_agent_sleeps_past_its_lease(self):
        with Machines(agents=2, lease=5) as machines:
            job = submit(machines)
            self.begun(machines, job)
            sleeper = machines.agents[0]
            before = machines.remote()["agent-1"]["name"]
            sleeper.process.send_signal(signal.SIGSTOP)
            wait_until(lambda: "agent-1" not in machines.remote(), "the end of the sleeping agent's lease")
            sleeper.process.send_signal(signal.SIGCONT)
            wait_until(lambda: machines.remote().get("agent-1", {}).get("name") == before, "its registration")
            finish(machines, job)
            # A result of before would be a second one of its ordinal, or of a config that others have run meanwhile.
            self.check(machines, job)
            self.assertIn("does not know this agent", sleeper.log.read_text())

    def test_control_is_killed_and_comes_back(self):
        with Machines(agents=2) as machines:
            job = submit(machines)
            self.begun(machines, job)
            agents = {name: agent["name"] for name, agent in machines.remote().items()}
            machines.control.kill()
            ended = self.ended_units(machines.control.directory)
            # They go on with what they have, and keep what they find out.
            for agent in machines.agents:
                wait_until(lambda: int(agent.info().get("spooled_bytes", 0)) > 0, "results in the spool")
            machines.control.start()
            machines.wait_for_agents(2)
            self.assertEqual({name: agent["name"] for name, agent in machines.remote().items()}, agents)
            finish(machines, job)
            self.check(machines, job)
            for agent in machines.agents:
                log = agent.log.read_text()
                self.assertEqual(log.count("registered with control"), 1, log[-3000:])
                # Of a unit whose end was stored but not confirmed the results come twice; no other changes hands.
                dropped = {int(unit) for unit in re.findall(r"unit (\d+) has another owner", log)}
                self.assertLessEqual(dropped, ended, log[-3000:])
                wait_until(lambda: int(agent.info().get("spooled_bytes", 0)) == 0, "an empty spool")

    def test_an_agent_is_killed_while_control_is_away(self):
        with Machines(agents=1) as machines:
            job = submit(machines)
            self.begun(machines, job)
            agent = machines.agents[0]
            machines.control.kill()
            wait_until(lambda: int(agent.info().get("spooled_bytes", 0)) > 0, "results in the spool")
            stored = None
            agent.kill()
            machines.control.start()
            stored = machines.trial_count(job)
            agent.spawn()
            # What the process before had found out is stored, under its identity, before the new one gets work.
            machines.wait_for_agents(1)
            wait_until(lambda: machines.trial_count(job) > stored, "the results of the spool")
            finish(machines, job)
            self.check(machines, job)

    def test_an_agent_ends_in_order_and_another_is_drained(self):
        with Machines(agents=3, lease=3600) as machines:
            job = submit(machines)
            self.begun(machines, job)
            self.assertIn("receives no new ones", machines.control.cli("drain", "agent-2").stdout)
            self.assertTrue(machines.remote()["agent-2"]["draining"])
            self.assertEqual(machines.agents[0].stop(), 0)
            # At once: no lease has run out.
            self.assertEqual(set(machines.remote()), {"agent-2", "agent-3"})
            finish(machines, job)
            self.check(machines, job)
            machines.control.cli("drain", "--undo", "agent-2")
            self.assertFalse(machines.remote()["agent-2"]["draining"])
            missing = machines.control.cli("drain", "nobody", check=False)
            self.assertEqual(missing.returncode, 3)

    def test_a_device_is_taken_out_and_a_second_agent_with_it_is_refused(self):
        with Machines(agents=1) as machines:
            (device,) = machines.control.json("devices")["devices"]
            machines.control.cli("quarantine", device["uuid"], "--reason", "somebody works on it")
            self.assertIn("somebody works on it", machines.control.cli("devices").stdout)
            refused = machines.control.cli("submit", "matmul_host", *DIMS, check=False)
            self.assertIn("takes no work: somebody works on it", refused.stderr)
            twin = machines.new_agent("twin")
            machines.agents.append(twin)
            (twin.directory / "host_device_uuid").write_text(device["uuid"])
            twin.spawn()
            wait_until(lambda: "belongs to agent agent-1" in twin.log.read_text(), "the refusal")
            self.assertEqual(set(machines.remote()), {"agent-1"})
            machines.control.kill()
            machines.control.start()
            machines.wait_for_agents(1)
            self.assertIn("somebody works on it", machines.control.cli("devices").stdout, "it outlives the daemon")
            machines.control.cli("devices", "release", device["uuid"])
            job = submit(machines)
            finish(machines, job)
            self.check(machines, job)


if __name__ == "__main__":
    unittest.main()
