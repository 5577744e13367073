"""How tests of the client have their trials measured: all configs of noop_host share one binary, and caches stay warm, so
that a trial costs next to nothing. Times are not judged."""

MEASURE = {"noisy_relative_half_width": -1, "warm_cache": True, "first_look_samples": 1, "min_samples": 1, "max_samples": 2,
           "finalists": 2, "final_rounds": 1}
QUICK = dict(strategy="random", policy="fast", measure=MEASURE)
