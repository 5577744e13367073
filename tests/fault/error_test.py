"""Calls between the parts of the daemon fail or are answered late: it repeats what must not be lost, once each, and a job
that is under way succeeds without a restart."""

import unittest

import fault_case
from fault_case import NIGHTLY, QUICK, FaultFarm, generator
from farm import assert_ordinals_complete, outcome

ROUNDS = 10 if NIGHTLY else 1
# Places that can answer an error: the first time at which they do, and how often in a row. A worker that cannot be started
# is tried five times for a trial; a start opens the database with some commits, of which none may fail.
FAILING = {"agent.report.before": ((1, 3), 3), "agent.report.after": ((1, 3), 3), "jobs.step.before": ((1, 2), 2),
           "jobs.promote.after": ((1, 1), 2), "exec.spawn.before": ((3, 4), 3), "store.commit.before": ((13, 17), 3)}
LATE = ["store.commit.before", "store.commit.after", "jobs.step.before", "jobs.step.after", "jobs.promote.after",
        "jobs.end.before", "agent.claim.received", "agent.report.before", "agent.report.after", "exec.spawn.before",
        "exec.spawn.after", "exec.result"]
DELAY_MS = 300


class Errors(unittest.TestCase):
    def run_job(self, farm, failpoints):
        farm.start(TUNEFARM_FAILPOINTS=failpoints)
        # A submit that is refused is repeated by whoever made it.
        for _ in range(6):
            submitted = farm.cli("submit", "--quiet", "noop_host", "--max-trials", "24", *QUICK, check=False)
            if submitted.returncode == 0:
                break
            self.assertIn("store.commit.before", submitted.stderr)
        self.assertEqual(submitted.returncode, 0, submitted.stderr)
        job = submitted.stdout.strip()
        self.assertEqual(farm.watch_to_end(job), "SUCCEEDED", failpoints)
        trials = farm.trials(job)
        assert_ordinals_complete(trials)
        self.assertEqual({outcome(t) for t in trials}, {"OK"}, failpoints)
        self.assertIn("failpoint", farm.log.read_text(), f"{failpoints} was never passed")
        self.assertEqual(farm.stop(), 0)
        farm.check(clean=True)
        farm.log.write_text("")

    def test_calls_that_fail(self):
        random = generator("errors")
        with FaultFarm() as farm:
            for _ in range(ROUNDS):
                for name, (begin, times) in FAILING.items():
                    first = random.randint(*begin)
                    self.run_job(farm, f"{name}=error@{first}-{first + times - 1}")

    def test_calls_that_are_late(self):
        random = generator("delays")
        with FaultFarm() as farm:
            for _ in range(ROUNDS):
                places = random.sample(LATE, 4)
                self.run_job(farm, ";".join(f"{name}=delay:{DELAY_MS}@{random.randint(1, 2)}" for name in places))


if __name__ == "__main__":
    fault_case.main()
