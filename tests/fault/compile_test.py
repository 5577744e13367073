"""Compilers that crash, hang, flood, hoard, lie or leave processes behind, and sources that make a good compiler do so.
Each config gets its outcome within the compile limit, the others compile, and nothing stays. The CUDA compiler's own
faults: kernels/examples/hostile_cuda and tests/unit/worker_cuda."""

import os
import pathlib
import shutil
import tempfile
import time
import unittest

import fault_case
from fault_case import QUICK, FaultFarm
from farm import assert_ordinals_complete, config, outcome, search
from rogue_kernel import RogueKernel

# Well above what the good configs need, even where everything takes ten times as long.
COMPILE_TIMEOUT_MS = 8000
LOG_BYTES_MAX = 64 << 10
RESIDENT_GROWTH_MAX = 64 << 20

# A stand-in for the host's compiler that does one wrong thing, if the config asks for it, before or instead of its work.
COMPILER = """#!/bin/bash
# What is asked for without a config, such as its version, is answered well.
output=; config=
for argument in "$@"; do
  [ "$previous" = -o ] && output=$argument
  previous=$argument
done
config=$(cat tunefarm_config.h */tunefarm_config.h "$(dirname "${output:-/none/none}")"/tunefarm_config.h 2>/dev/null |
  grep -o 'FAULT_[a-z_]*' | head -1)
case $config in
  FAULT_crash) kill -SEGV $$ ;;
  FAULT_killed) kill -KILL $$ ;;
  FAULT_hang) trap '' TERM INT HUP; while :; do sleep 1000; done ;;
  FAULT_flood) head -c 300000000 /dev/zero | tr '\\0' 'x' >&2; exit 1 ;;
  FAULT_hoard) exec tail /dev/zero ;;
  FAULT_silent) exit 0 ;;
  FAULT_garbage) echo "this is no library" >"$output"; exit 0 ;;
  FAULT_truncated) c++ "$@"; head -c 100 "$output" >"$output.cut"; mv "$output.cut" "$output"; exit 0 ;;
  FAULT_fill) while head -c 100000000 /dev/zero; do :; done >"$output.fill"; exit 1 ;;
  FAULT_leaves_a_process) (setsid sleep 1000 &) ;;
esac
exec c++ "$@"
"""
COMPILER_FAULTS = {
    "crash": {"COMPILE_CRASH"},
    "killed": {"COMPILE_CRASH", "OUT_OF_MEMORY"},  # the second where the out-of-memory killer cannot be told apart
    "hang": {"COMPILE_TIMEOUT"},
    "flood": {"COMPILE_ERROR", "COMPILE_TIMEOUT"},  # as fast as it is read
    "hoard": {"OUT_OF_MEMORY", "COMPILE_CRASH", "COMPILE_ERROR", "COMPILE_TIMEOUT", "SANDBOX_VIOLATION"},
    "silent": {"COMPILE_ERROR", "COMPILE_CRASH"},
    "garbage": {"LOAD_ERROR", "COMPILE_ERROR"},
    "truncated": {"LOAD_ERROR", "COMPILE_ERROR"},
    "fill": {"COMPILE_ERROR", "COMPILE_CRASH", "COMPILE_TIMEOUT", "SANDBOX_VIOLATION"},
    "leaves_a_process": {"OK", "COMPILE_TIMEOUT"},  # it holds the compiler's output open
}

# What a source can do to a compiler that works: lines for before the entry, each under its own #ifdef.
SOURCES = {
    "errors": "#define A(x) x x x x x x x x x x x x x x x x\n#define B A(A(A(A(int 5;))))\nB",
    "macros": "#define A(x) x x x x x x x x x x x x x x x x\nint many[] = {A(A(A(A(A(A(A(A(1,))))))))};",
    "templates": "template <int N, int M> struct T { static constexpr long v = T<N - 1, 2 * M>::v + T<N - 1, 2 * M + 1>::v; };\n"
                 "template <int M> struct T<0, M> { static constexpr long v = M; };\nlong years = T<28, 0>::v;",
    "constant": "constexpr long Spin() { long n = 0; for (;;) ++n; return n; }\nconstexpr long never = Spin();",
    "itself": '#include "rogue.cc"',
    "device": '#include "/dev/zero"',
    "parent": '#include "../../../../../../../../etc/shadow"',
    "assembler": 'asm(".rept 2000000000\\n.quad 1\\n.endr");',
    "large": 'extern "C" __attribute__((visibility("default"))) char large[80l << 20];\nchar large[80l << 20] = {1};',
    "nested": "int deep = " + "(" * 200_000 + "1" + ")" * 200_000 + ";",
}
SOURCE_OUTCOMES = {"COMPILE_ERROR", "COMPILE_TIMEOUT", "COMPILE_CRASH", "OUT_OF_MEMORY", "SANDBOX_VIOLATION"}


class Compile(unittest.TestCase):
    def run_job(self, farm, kernel, faults):
        """One job over all faults; the trials by fault."""
        farm.start()
        before = int(farm.info()["resident_bytes"])
        begin = time.monotonic()
        job = farm.cli("submit", "--quiet", kernel, *QUICK).stdout.strip()
        self.assertEqual(farm.watch_to_end(job), "SUCCEEDED")
        took = time.monotonic() - begin
        trials = farm.trials(job)
        assert_ordinals_complete(trials)
        seen = {config(t)["FAULT"]: t for t in search(trials)}
        self.assertEqual(set(seen), {"none", *faults})
        self.assertEqual(outcome(seen["none"]), "OK", seen["none"].get("message"))
        self.assertLess(int(farm.info()["resident_bytes"]) - before, RESIDENT_GROWTH_MAX)
        for name, trial in seen.items():
            self.assertLessEqual(len(trial.get("log", "")), LOG_BYTES_MAX, name)
            if outcome(trial) != "OK":
                self.assertTrue(trial.get("message"), name)
        print(f"{took:.1f} s:", {name: outcome(trial) for name, trial in seen.items()})
        return seen

    def test_compilers_that_misbehave(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="tunefarm-compiler."))
        folder.chmod(0o755)
        compiler = folder / "compiler"
        compiler.write_text(COMPILER)
        compiler.chmod(0o755)
        try:
            with RogueKernel("rogue_compiler", dict.fromkeys(COMPILER_FAULTS, "")) as kernel, FaultFarm(
                    "--host-compiler", compiler, "--compile-timeout-ms", COMPILE_TIMEOUT_MS) as farm:
                seen = self.run_job(farm, kernel, COMPILER_FAULTS)
                for name, allowed in COMPILER_FAULTS.items():
                    with self.subTest(fault=name):
                        self.assertIn(outcome(seen[name]), allowed, seen[name].get("message"))
        finally:
            shutil.rmtree(folder)

    def test_sources_that_explode(self):
        before = "\n".join(f"#ifdef FAULT_{name}\n{text}\n#endif" for name, text in SOURCES.items())
        with RogueKernel("rogue_source", dict.fromkeys(SOURCES, ""), before) as kernel, FaultFarm(
                "--compile-timeout-ms", COMPILE_TIMEOUT_MS) as farm:
            seen = self.run_job(farm, kernel, SOURCES)
            for name in SOURCES:
                with self.subTest(fault=name):
                    self.assertIn(outcome(seen[name]), SOURCE_OUTCOMES, seen[name].get("message"))
            secret = pathlib.Path("/etc/shadow")
            if os.access(secret, os.R_OK):
                for line in secret.read_text().splitlines()[:3]:
                    self.assertNotIn(line, str(seen["parent"]))


if __name__ == "__main__":
    fault_case.main()
