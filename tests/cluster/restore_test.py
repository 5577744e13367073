"""PostgreSQL is put back to an older state under a farm that lives: what was known then is kept, what came later is gone, and
all work ends.
"""

import unittest

import invariants
import network
import permitted
from cluster import BOUND_SECONDS, Cluster, progress_query
from farm import BIN, wait_until

# Leases that end soon: an agent of the copy that is no more holds units until then.
FLAGS = {"control": ["--insecure", "--agent-lease", 6], "agent": ["--insecure"]}
# More than a fast machine ends while a copy is made.
TRIALS = 3000


class Restore(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        network.require()

    def test_control_daemons_and_agents_go_on(self):
        self.put_back(stop_controls=False)

    def test_agents_go_on_without_control(self):
        self.put_back(stop_controls=True)

    def test_a_copy_of_a_moment_ago(self):
        """The marks that control daemons leave now and then are in it."""
        self.put_back(stop_controls=False, lost_hour=False)

    def put_back(self, stop_controls, lost_hour=True):
        with Cluster(agents=3, flags=FLAGS) as farm:
            farm.start()
            first, second = farm.controls
            job = first.submit(64, TRIALS)
            wait_until(lambda: farm.progress(job) >= 40, "40 trials")
            copy = farm.database.dump()
            lost = self.lost_hour(farm) if lost_hour else []
            wait_until(lambda: farm.progress(job) >= (120 if lost_hour else 41), "trials that the copy has not")

            if stop_controls:
                for control in farm.controls:
                    control.kill()
            self.assertLess(int(farm.database.put_back(copy, progress_query(job))), TRIALS)
            # Numbers go back to those of the copy, once; from then on none does.
            farm.history = invariants.History()
            farm.check()
            if stop_controls:
                farm.database.psql("-c", "DELETE FROM setting WHERE name = 'catalog.id'")
                farm.database.psql("-c", "DELETE FROM agreed_run")
                for control in farm.controls:
                    control.start()
                for control in farm.controls:
                    wait_until(control.answers, f"an answer of {control.name}")

            for control in farm.controls:
                wait_until(lambda control=control: control.state(job) == "JOB_STATE_SUCCEEDED",
                           f"the end of job {job} at {control.name}", BOUND_SECONDS)
                for size in lost:
                    wait_until(lambda control=control, size=size: self.match(control, size) != "MATCH_EXACT",
                               f"{control.name} has no best of N={size} any more")
            self.assertGreaterEqual(farm.progress(job), TRIALS)
            # Numbers of jobs are given again: to a job that nobody has paused.
            again = [second.submit(80 + number, 20) for number in range(2)]
            for number in again:
                wait_until(lambda number=number: first.state(number) == "JOB_STATE_SUCCEEDED", f"the end of job {number}",
                           BOUND_SECONDS)
            for control in farm.controls:
                wait_until(lambda control=control: self.match(control, 80) == "MATCH_EXACT", f"the new best at {control.name}")
            farm.check(drained=True)

    def lost_hour(self, farm):
        """Jobs that end and one that stops half way, and an agent that is another one afterwards; sizes with a best."""
        first, second = farm.controls
        ended = first.submit(65, 20)
        paused = second.submit(66, TRIALS)
        wait_until(lambda: farm.progress(paused) >= 10, "10 trials of the job that is paused")
        second.cli("jobs", "pause", paused)
        farm.agents[2].kill()
        farm.agents[2].start()
        wait_until(lambda: first.state(ended) == "JOB_STATE_SUCCEEDED", f"the end of job {ended}", BOUND_SECONDS)
        for control in farm.controls:
            wait_until(lambda control=control: self.match(control, 65) == "MATCH_EXACT", f"the best at {control.name}")
        farm.wait_for_devices()
        return [65]

    def match(self, control, size):
        return control.json("best", "noop_host", "--dim", f"N={size}", check=False).get("match")


if __name__ == "__main__":
    assert (BIN / "tunefarmd").exists(), "build tunefarmd first"
    permitted.main()
