"""How the worker of kernels in Python (server/worker/python) takes times."""

import unittest

import python_worker_source  # noqa: F401, which makes tunefarm_worker importable
from tunefarm_worker import messages, timing


class Times(unittest.TestCase):
    def test_the_interval_is_that_of_order_statistics(self):
        # Known ranks of the 95 % interval of a median.
        for count, low, high in ((6, 1, 6), (9, 2, 8), (10, 2, 9), (20, 6, 15), (100, 40, 61)):
            interval = timing.median_interval([float(i) for i in range(1, count + 1)])
            self.assertEqual((interval.low, interval.high), (low, high), count)
            self.assertGreaterEqual(interval.coverage, 0.95)
        self.assertLess(timing.median_interval([1.0, 2.0, 3.0]).coverage, 0.95)

    def measure(self, samples, race_limit_ns=0.0, **policy):
        class Scripted(timing.Timer):
            def __init__(self):
                self.left = list(samples)

            def sample(self, run, launches, cold):
                run()
                return float(self.left.pop(0) if len(self.left) > 1 else self.left[0]) * launches

        policy = dict({"warmup_launches": 1, "time_budget_ms": 60_000}, **policy)
        return timing.measure(lambda: None, Scripted(), policy, race_limit_ns, True)

    def test_it_stops_when_it_knows_enough(self):
        found = self.measure([7e6] * 50, min_samples=10, max_samples=100, target_relative_half_width=0.01)
        self.assertEqual((found["samples"], found["stop_reason"]), (10, messages.STOP_CONVERGED))
        self.assertEqual((found["median_ns"], len(found["sample_ns"])), (7e6, 10))
        found = self.measure([1, 1e6, 9e6] * 99, min_samples=10, max_samples=30, target_relative_half_width=0.01)
        self.assertEqual((found["samples"], found["stop_reason"]), (30, messages.STOP_SAMPLE_BUDGET))
        self.assertTrue(timing.is_noisy(found, {"noisy_relative_half_width": 0.5}))
        self.assertFalse(timing.is_noisy(found, {"noisy_relative_half_width": -1.0}))

    def test_what_cannot_win_is_left(self):
        policy = {"min_samples": 50, "max_samples": 100, "first_look_samples": 6, "target_relative_half_width": 1e-9}
        lost = self.measure([9e6 + i for i in range(100)], 1e6, **policy)
        self.assertEqual((lost["samples"], lost["stop_reason"]), (6, messages.STOP_LOSING))
        kept = self.measure([9e6 + i for i in range(100)], 1e6, no_early_stop=True, **policy)
        self.assertEqual(kept["samples"], 100)


if __name__ == "__main__":
    unittest.main(verbosity=2)
