"""A kernel whose configs do few different things, and what must be true of its trials."""

from farm import assert_ordinals_complete, config, outcome, search

# No binary depends on IDLE: the 96 configs do 4 things, and 2 of those are wrong.
DEFINITION = """
display_name: "twins_host"
language: LANGUAGE_HOST_CXX
sources { path: "twins.cc" }
dims { name: "N" default_value { int_value: 4096 } }
parameters { name: "STEP" values { ints: [1, 2, 3, 4] } }
parameters { name: "IDLE" range { first: 1 last: 24 } }
arguments {
  name: "x"
  buffer { data_type: DATA_TYPE_F32 length: "N" access: ACCESS_IN fill { uniform { low: 1 high: 2 } } }
}
arguments { name: "y" buffer { data_type: DATA_TYPE_F32 length: "N" access: ACCESS_OUT } }
arguments { name: "n" scalar { data_type: DATA_TYPE_I64 value: "N" } }
launches { kernel { entry: "twins" arguments: ["x", "y", "n"] } }
reference { steps { kernel { entry: "doubled" arguments: ["x", "y", "n"] } } }
tolerance { atol: 0 rtol: 0 }
"""
SOURCE = """
#include <cstdint>
extern "C" void doubled(const float* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = 2 * x[i];
}
extern "C" void twins(const float* x, float* y, int64_t n) {
  for (int64_t first = 0; first < STEP; ++first) {
    for (int64_t i = first; i < n; i += STEP) y[i] = STEP < 3 ? 2 * x[i] : STEP * x[i];
  }
}
"""
CONFIGS, WORKS = 96, 4


def write(folder):
    """The kernel's folder, for the command line."""
    (folder / "kernel.pbtxt").write_text(DEFINITION)
    (folder / "twins.cc").write_text(SOURCE)
    return folder


def check(test, trials):
    """Each of the works was measured once, and all other configs have taken over what it came to."""
    assert_ordinals_complete(trials)
    by_work = {}
    for trial in search(trials):
        test.assertEqual(outcome(trial), "OK" if config(trial)["STEP"] < 3 else "WRONG_RESULT")
        by_work.setdefault(trial["work"], []).append(trial)
    test.assertEqual([len({config(t)["STEP"] for t in alike}) for alike in by_work.values()], [1] * WORKS)
    test.assertEqual([len(alike) for alike in by_work.values()], [CONFIGS // WORKS] * WORKS)
    for alike in by_work.values():
        ran = [t for t in alike if not t.get("reused")]
        test.assertEqual(len(ran), 1, f"measured more than once: {[t.get('ordinal', 0) for t in ran]}")
        test.assertEqual({t.get("reused_ordinal", 0) for t in alike if t.get("reused")}, {ran[0].get("ordinal", 0)})
    test.assertEqual(len([t for t in search(trials) if t.get("reused")]), CONFIGS - WORKS)
