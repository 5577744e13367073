"""Compiled binaries outlive the daemon, and nothing that happens to them costs a trial. What they were made of counts."""

import os
import pathlib
import random
import tempfile
import unittest

from farm import Farm, assert_ordinals_complete, outcome, search, wait_until

# A strategy that does not look at results tries the same configs in every job; what an earlier one measured is
# measured again.
TUNE = ("matmul_host", "--policy", "fast", "--strategy", "random", "--max-trials", "12", "--measure", "no_reuse=true",
        "--dim", "M=64", "--dim", "N=64", "--dim", "K=64")


def binaries(farm):
    return sorted((farm.directory / "cache").glob("*.bin"))


class Cache(unittest.TestCase):
    def tune(self, farm, job):
        farm.cli("tune", *TUNE)
        trials = farm.trials(job)
        self.assertEqual(len(search(trials)), 12)
        self.assertEqual({outcome(t) for t in trials}, {"OK"})
        assert_ordinals_complete(trials)
        return search(trials)

    def test_a_warm_cache_compiles_nothing(self):
        with Farm() as farm:
            farm.start()
            cold = self.tune(farm, 1)
            # Not all: the default config's binary is made for the reference first, and configs may share one.
            self.assertTrue(any(not t.get("cached_binary", False) for t in cold))
            self.assertEqual(farm.stop(), 0)
            kept = binaries(farm)
            self.assertGreaterEqual(len(kept), 2)
            self.assertEqual([p.name for p in (farm.directory / "cache").iterdir() if p not in kept], [])
            farm.start()
            info = farm.info()
            self.assertEqual(int(info["binary_cache_bytes_max"]), 4 << 30)
            self.assertIn("of compiled binaries", farm.cli("status").stdout)
            warm = self.tune(farm, 2)
            self.assertEqual([t for t in warm if not t.get("cached_binary", False)], [])
            self.assertGreater(int(farm.info()["binary_cache_bytes"]), 0)
            self.assertEqual(binaries(farm), kept)

    def test_damaged_binaries_are_compiled_again(self):
        seed = 7
        chance = random.Random(seed)
        with Farm() as farm:
            farm.start()
            self.tune(farm, 1)
            farm.stop()
            for path in binaries(farm):
                content = bytearray(path.read_bytes())
                at = chance.randrange(len(content))
                if chance.random() < 0.5:
                    content = content[:at]
                else:
                    content[at] ^= 1 << chance.randrange(8)
                path.write_bytes(content)
            farm.start()
            again = self.tune(farm, 2)
            self.assertTrue(any(not t.get("cached_binary", False) for t in again), f"seed {seed}")
            farm.stop()
            farm.start()
            self.assertEqual([t for t in self.tune(farm, 3) if not t.get("cached_binary", False)], [])

    def test_a_kill_while_binaries_are_written_leaves_a_good_cache(self):
        with Farm() as farm:
            farm.start()
            farm.cli("submit", *TUNE)
            wait_until(lambda: len(binaries(farm)) >= 2, "the first binaries")
            farm.kill()
            (farm.directory / "cache" / ("0" * 64 + ".bin.tmp-of-a-dead-writer")).write_bytes(b"half")
            farm.start()
            wait_until(lambda: farm.json("jobs", "show", "1").get("state") == "JOB_STATE_SUCCEEDED", "the job's end")
            assert_ordinals_complete(farm.trials(1))
            self.assertEqual([p for p in (farm.directory / "cache").iterdir() if not p.name.endswith(".bin")], [])

    def test_without_a_cache_everything_works(self):
        with Farm("--max-cache-bytes", "0") as farm:
            farm.start()
            self.tune(farm, 1)
            self.assertEqual(binaries(farm), [])
            self.assertIn("no compiled binaries on disk", farm.cli("status").stdout)


DEFINITION = """
display_name: "scaled"
language: LANGUAGE_HOST_CXX
sources { path: "scaled.cc" }
dims { name: "N" default_value { int_value: 64 } }
parameters { name: "WIDTH" values { ints: [1, 2, 4] } }
arguments { name: "y" buffer { data_type: DATA_TYPE_F32 length: "N" access: ACCESS_OUT } }
arguments { name: "n" scalar { data_type: DATA_TYPE_I32 value: "N" } }
launches { kernel { entry: "fill" arguments: ["y", "n"] } }
reference { steps { kernel { entry: "fill_reference" arguments: ["y", "n"] } } }
"""
SOURCE = """
#include <factor.h>
extern "C" const int width = WIDTH;
extern "C" void fill(float* y, int n) { for (int i = 0; i < n; ++i) y[i] = FACTOR * (i % 8); }
extern "C" void fill_reference(float* y, int n) { for (int i = 0; i < n; ++i) y[i] = FACTOR * (i % 8); }
"""


class OutsideHeaders(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="tunefarm-toolkit.")
        self.addCleanup(directory.cleanup)
        self.toolkit = pathlib.Path(directory.name)
        self.compiler = self.toolkit / "bin" / "c++"
        self.header = self.toolkit / "include" / "factor.h"
        for path in (self.compiler, self.header):
            path.parent.mkdir()
        self.compiler.write_text(f'#!/bin/sh\nexec /usr/bin/c++ -isystem {self.toolkit}/include "$@"\n')
        self.write_header(2)
        for path in (self.toolkit, self.compiler.parent, self.compiler, self.header.parent):
            os.chmod(path, 0o755)

    def write_header(self, factor):
        self.header.write_text(f"#define FACTOR {factor}\n")
        os.chmod(self.header, 0o644)

    def test_a_best_is_stale_once_a_header_outside_of_its_definition_has_changed(self):
        with Farm("--host-compiler", self.compiler) as farm:
            folder = pathlib.Path(tempfile.mkdtemp(dir=farm.directory))
            (folder / "kernel.pbtxt").write_text(DEFINITION)
            (folder / "scaled.cc").write_text(SOURCE)
            farm.start()
            farm.cli("tune", folder, "--policy", "fast")
            best = farm.json("best", folder)
            self.assertEqual(best["match"], "MATCH_EXACT")
            self.assertNotEqual(best["best"]["headers"], 0)

            def match_becomes(wanted):
                wait_until(lambda: farm.json("best", folder)["match"] == wanted, f"the match {wanted}")

            # The daemon looks at most once in a second.
            self.write_header(3)
            match_becomes("MATCH_STALE")
            self.assertEqual(farm.json("best", "scaled")["match"], "MATCH_STALE")
            self.assertIn("with headers that have changed", farm.cli("best", folder).stdout)
            self.assertEqual(farm.cli("best", folder, "--exact", check=False).returncode, 3)
            farm.stop()
            farm.start()
            self.assertEqual(farm.json("best", folder)["match"], "MATCH_STALE")
            self.write_header(2)
            match_becomes("MATCH_EXACT")
            self.assertEqual(farm.json("best", folder)["best"]["revision"], best["best"]["revision"])

            self.write_header(3)
            match_becomes("MATCH_STALE")
            farm.cli("tune", folder, "--policy", "fast")
            again = farm.json("best", folder)
            self.assertEqual(again["match"], "MATCH_EXACT")
            self.assertNotEqual(again["best"]["headers"], best["best"]["headers"])
            self.assertEqual([t for t in search(farm.trials(2)) if t.get("reused_trial")], [])
            # The reference follows, too, and what the runner has kept of it.
            self.write_header(4)
            farm.cli("tune", folder, "--policy", "fast")
            trials = farm.trials(3)
            self.assertEqual({outcome(t) for t in trials}, {"OK"}, [t.get("message") for t in trials])


if __name__ == "__main__":
    unittest.main()
