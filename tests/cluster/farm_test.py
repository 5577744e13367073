"""A farm of two control daemons, four agents and PostgreSQL, each on a host of its own: what it finds, and that nothing is
lost, doubled or stale whatever dies.

TUNEFARM_FARM_SEED and TUNEFARM_FARM_ROUNDS repeat and lengthen the random test (8 rounds; 200 with TUNEFARM_NIGHTLY=1).
"""

import os
import pathlib
import random
import unittest

import network
import permitted
from cluster import BOUND_SECONDS, Cluster
from farm import BIN, KERNELS, Farm, config, wait_until

VALLEY = pathlib.Path(__file__).resolve().parent / "valley_host"
ENDED = ("JOB_STATE_SUCCEEDED", "JOB_STATE_FAILED", "JOB_STATE_CANCELLED")


class Network(unittest.TestCase):
    """What stands without the daemons: hosts, and PostgreSQL among them."""

    @classmethod
    def setUpClass(cls):
        network.require()

    def test_postgresql_is_reached_killed_frozen_and_cut(self):
        with Cluster(controls=1, agents=1) as farm:
            client = farm.controls[0].host
            command = ["timeout", "3", "psql", farm.database.url, "-At", "-c", "SELECT 6 * 7"]

            def answer():
                return client.run(command, check=False).stdout.strip()

            wait_until(lambda: answer() == "42", "PostgreSQL's answer")
            for harm, repair in ((farm.database.cut, farm.database.heal), (farm.database.freeze, farm.database.thaw),
                                 (farm.database.kill, farm.database.start)):
                harm()
                self.assertEqual(answer(), "", harm.__name__)
                repair()
                wait_until(lambda: answer() == "42", f"PostgreSQL's answer after {harm.__name__}")
            farm.database.impair(delay_ms=5, loss=0.02)
            wait_until(lambda: answer() == "42", "PostgreSQL's answer through delay and loss")


class WholeFarm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        network.require()

    def ended(self, farm, job):
        """By any control daemon that can be asked."""
        return any(control.runs() and not control.is_frozen and control.state(job) in ENDED for control in farm.controls)

    def test_a_job_of_5000_trials_has_the_best_of_one_machine(self):
        tune = (VALLEY, "--policy", "fast", "--strategy", "exhaustive", "--host-isolation", "shared", "--dim", "N=64",
                "--max-trials", 5000)
        with Farm() as one:
            one.start()
            one.cli("tune", *tune)
            best = config(one.json("best", "valley_host", "--dim", "N=64")["best"])
        self.assertEqual(best, {"X": 31, "Y": 72})
        with Cluster() as farm:
            farm.start()
            farm.controls[0].cli("tune", *tune)
            for control in farm.controls:
                wait_until(lambda control=control: self.best_of(control) == best, f"the best at {control.name}", BOUND_SECONDS)
            farm.check(drained=True, settled=True)
            with farm.store() as store:
                self.assertGreaterEqual(store.execute("SELECT count(*) FROM trial_result").fetchone()[0], 5000)
                devices = store.execute("SELECT count(DISTINCT device_uuid) FROM trial_result").fetchone()[0]
                self.assertEqual(devices, len(farm.agents), "every agent has had its share")

    def test_an_agent_finds_a_data_file_on_another_control_daemon_than_its_own(self):
        with Cluster(agents=1) as farm:
            (first, second), (agent,) = farm.controls, farm.agents
            second.start()
            wait_until(second.answers, "an answer of the second control daemon")
            agent.start()
            wait_until(lambda: second.json("devices").get("devices"), "the agent at the second control daemon")
            first.start()
            farm.wait_for_devices()
            first.cli("tune", KERNELS / "examples" / "spmv" / "spmv_host.pbtxt", "--policy", "fast", "--max-trials", 6)
            held = {machine.name: len(list((machine.directory / "data" / "data_files").glob("[0-9a-f]" * 64)))
                    for machine in (first, second, agent)}
            self.assertEqual(held, {"control1": 3, "control2": 0, "agent1": 3})

    def best_of(self, control):
        return config(control.json("best", "valley_host", "--dim", "N=64", check=False).get("best", {}))

    def test_whatever_dies(self):
        seed = int(os.environ.get("TUNEFARM_FARM_SEED", "1"))
        rounds = int(os.environ.get("TUNEFARM_FARM_ROUNDS", "200" if os.environ.get("TUNEFARM_NIGHTLY") == "1" else "8"))
        chance = random.Random(seed)
        with Cluster() as farm:
            farm.start()
            for number in range(rounds):
                with self.subTest(seed=seed, round=number):
                    self.one_round(farm, chance, number)

    def one_round(self, farm, chance, number):
        """A job; harm while it runs; everything repaired; the job ends, and the invariants hold."""
        farm.wait_for_devices()
        job = farm.controls[0].submit(64 + number, trials=200)
        harms = [(machine, chance.choice(("kill", "freeze", "cut", "impair")), chance.randint(1, 60))
                 for machine in chance.sample(farm.machines, chance.randint(1, 3))]
        print(f"round {number}: {', '.join(f'{how} {machine.name} at {at}' for machine, how, at in harms)}", flush=True)
        try:
            self.harm(farm, job, harms, chance)
        finally:  # the next round begins with all of them
            for machine in farm.machines:
                machine.thaw()
                machine.heal()
                if not machine.runs():
                    machine.start()
        wait_until(lambda: self.ended(farm, job), f"the end of job {job}", BOUND_SECONDS)
        farm.check(drained=True)

    def harm(self, farm, job, harms, chance):
        for machine, how, at in sorted(harms, key=lambda harm: harm[2]):
            # A farm without its database, or with no agent left, stands still: what is to come comes at once.
            wait_until(lambda at=at: farm.progress(job) >= at or self.ended(farm, job) or farm.stands_still(), f"{at} trials")
            getattr(machine, how)(**({"delay_ms": 20, "loss": 0.05} if how == "impair" else {}))
        if farm.database.runs() and not farm.database.is_frozen:
            farm.check()
            if chance.random() < 0.5:  # longer than a lease, or not
                wait_until(lambda: self.ended(farm, job) or farm.has_reaped(), "the end of all leases", BOUND_SECONDS)


if __name__ == "__main__":
    assert (BIN / "tunefarmd").exists(), "build tunefarmd first"
    permitted.main()
