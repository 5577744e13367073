"""Configs that do the same are measured once, whatever happens to the daemons and agents meanwhile."""

import contextlib
import pathlib
import shutil
import tempfile
import unittest

import twins
from farm import Farm, wait_until
from machines import free_port
from postgres import Postgres, programs


class Works(unittest.TestCase):
    def setUp(self):
        self.folder = twins.write(pathlib.Path(tempfile.mkdtemp(prefix="tunefarm-e2e.")))
        self.addCleanup(shutil.rmtree, self.folder)

    def submit(self, farm):
        farm.cli("submit", self.folder, "--policy", "fast", "--strategy", "exhaustive")

    @staticmethod
    def wait_for_trials(farm, count):
        wait_until(lambda: len(farm.trials(1)) >= count, f"{count} trials")

    def finish(self, farm):
        ended = ("JOB_STATE_SUCCEEDED", "JOB_STATE_FAILED", "JOB_STATE_CANCELLED")
        wait_until(lambda: farm.json("jobs", "show", 1)["state"] in ended, "the end of the job")
        self.assertEqual(farm.json("jobs", "show", 1)["state"], "JOB_STATE_SUCCEEDED")
        return farm.trials(1)

    def test_a_daemon_that_is_killed_measures_nothing_again(self):
        # With one compiler the job lasts long enough to be killed in its middle.
        with Farm("--compile-workers", "1") as farm:
            farm.start()
            self.submit(farm)
            for count in (10, 40):
                self.wait_for_trials(farm, count)
                farm.kill()
                farm.start()
                self.assertEqual(farm.json("jobs", "show", 1)["state"], "JOB_STATE_RUNNING")
            twins.check(self, self.finish(farm))

    @contextlib.contextmanager
    def two_controls(self, addresses_of_agents):
        """Two control daemons on one PostgreSQL, and an agent for each list of their numbers."""
        with Postgres() as server, contextlib.ExitStack() as stack:
            addresses = [f"127.0.0.1:{free_port()}" for _ in range(2)]
            controls = [Farm("--role", "control", "--listen", address, "--insecure", "--agent-lease", "30")
                        for address in addresses]
            agents = [Farm("--role", "agent", "--control", ",".join(addresses[i] for i in numbers), "--agent-name",
                           f"agent-{k}", "--compile-workers", "1") for k, numbers in enumerate(addresses_of_agents)]
            for farm in [*controls, *agents]:
                stack.enter_context(farm)
            self.store = server.url("works")
            for control in controls:
                control.start(TUNEFARM_STORE=self.store)
            for agent in agents:
                agent.spawn()
            for control in controls:
                wait_until(lambda: len(control.json("devices").get("devices", [])) == len(agents), "the agents")
            yield controls
            # Both had configs to compile.
            for agent in agents:
                self.assertGreater(len(list((agent.directory / "cache").glob("*.bin"))), 8)

    @unittest.skipIf(programs() is None, "no PostgreSQL server is installed (Debian's package postgresql)")
    def test_agents_of_two_daemons_measure_nothing_twice(self):
        with self.two_controls([[0], [1]]) as (one, other):
            self.submit(one)
            self.wait_for_trials(one, 20)
            other.kill()
            other.start(TUNEFARM_STORE=self.store)
            twins.check(self, self.finish(one))

    @unittest.skipIf(programs() is None, "no PostgreSQL server is installed (Debian's package postgresql)")
    def test_an_agent_that_moves_to_another_daemon_measures_nothing_again(self):
        with self.two_controls([[0, 1], [1, 0]]) as (one, other):
            self.submit(other)
            self.wait_for_trials(other, 20)
            one.kill()
            twins.check(self, self.finish(other))


if __name__ == "__main__":
    unittest.main()
