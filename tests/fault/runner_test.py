"""Kernels that attack the process they run in, and what it is connected to. Each gets an outcome of its own, the good
configs theirs, and a config that has taken its runner down is not run again. More of them: kernels/examples/faulty_host
(tests/e2e/tuning_test.py) and hostile_host (sandbox_test.py)."""

import unittest

import fault_case
from fault_case import QUICK, FaultFarm
from farm import assert_ordinals_complete, config, outcome, search
from rogue_kernel import RogueKernel

LAUNCH_TIMEOUT_MS = 3000
RESIDENT_GROWTH_MAX = 32 << 20

BEFORE = """
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
static volatile int zero = 0;
static char block[1 << 20];
static void SpinForever() { while (zero == 0) { } }
"""

# The entry's code, and the outcomes that the trial may have: where the sandbox forbids the act itself, that is said.
ENDS = {"RUN_CRASH", "SANDBOX_VIOLATION"}
HANGS = {"RUN_TIMEOUT", "SANDBOX_VIOLATION"}
FAULTS = {
    # 10 GiB; whoever reads it must neither keep it nor wait for its end.
    "stdout_flood": ("memset(block, 'x', sizeof block);\n"
                     "for (int i = 0; i < 10240; ++i) if (write(1, block, sizeof block) < 0) break;",
                     {"OK", "RUN_TIMEOUT", "RUN_CRASH", "SANDBOX_VIOLATION"}),
    "garbage_on_descriptors": ("memset(block, 0xa5, 4096);\n"
                               "for (int fd = 3; fd < 256; ++fd) {\n"
                               "  fcntl(fd, F_SETFL, O_NONBLOCK);\n"
                               "  for (int i = 0; i < 64; ++i) (void)!write(fd, block, 1 + i * 61);\n"
                               "}", {"OK", "RUN_CRASH", "RUN_TIMEOUT", "WRONG_RESULT", "SANDBOX_VIOLATION"}),
    "closed_descriptors": ("for (int fd = 0; fd < 1024; ++fd) close(fd);", {"OK"} | ENDS | HANGS),
    "stopped": ("raise(SIGSTOP);", HANGS),
    "deaf": ("sigset_t all; sigfillset(&all); sigprocmask(SIG_SETMASK, &all, 0);\n"
             "for (int i = 1; i < 65; ++i) signal(i, SIG_IGN);\nSpinForever();", HANGS),
    "alarm": ("alarm(1); SpinForever();", ENDS | HANGS),
    "kill_all": ("kill(-1, SIGKILL);", ENDS | {"OK"}),
    "kill_parent": ("kill(getppid(), SIGKILL); SpinForever();", ENDS | HANGS),
    "kill_group": ("kill(0, SIGKILL); SpinForever();", ENDS),
    "own_limits": ("struct rlimit none = {0, 0};\n"
                   "for (int i = 0; i < RLIM_NLIMITS; ++i) setrlimit((__rlimit_resource)i, &none);",
                   {"OK", "OUT_OF_MEMORY"} | ENDS | HANGS),
    "unmapped_output": ("munmap((void*)((unsigned long)y & ~4095ul), 1 << 14);", ENDS),
    "read_only_output": ("mprotect((void*)((unsigned long)y & ~4095ul), 1 << 14, PROT_READ);", ENDS),
}
# They end the runner or its trial process, whatever the sandbox lets them do: known to be dangerous after one crash.
DEADLY = ["unmapped_output", "kill_group", "deaf"]


class Runner(unittest.TestCase):
    def test_attacks_on_the_runner(self):
        code = {name: text for name, (text, _) in FAULTS.items()}
        with RogueKernel("rogue_runner", code, BEFORE) as kernel, FaultFarm("--launch-timeout-ms",
                                                                            LAUNCH_TIMEOUT_MS) as farm:
            farm.start()
            before = int(farm.info()["resident_bytes"])
            first = farm.cli("submit", "--quiet", kernel, *QUICK).stdout.strip()
            self.assertEqual(farm.watch_to_end(first), "SUCCEEDED")
            trials = farm.trials(first)
            assert_ordinals_complete(trials)
            seen = {config(t)["FAULT"]: t for t in search(trials)}
            self.assertEqual(set(seen), {"none", *FAULTS})
            for name, (_, allowed) in FAULTS.items():
                with self.subTest(fault=name):
                    self.assertIn(outcome(seen[name]), allowed, seen[name].get("message"))
                    if outcome(seen[name]) != "OK":
                        self.assertTrue(seen[name].get("message"))
            self.assertEqual(outcome(seen["none"]), "OK")
            self.assertLess(int(farm.info()["resident_bytes"]) - before, RESIDENT_GROWTH_MAX)
            print({name: outcome(trial) for name, trial in seen.items()})
            # The next job: what was deadly is not run again, the others are, and their trials end as before.
            second = farm.cli("submit", "--quiet", kernel, *QUICK).stdout.strip()
            self.assertEqual(farm.watch_to_end(second), "SUCCEEDED")
            again = {config(t)["FAULT"]: outcome(t) for t in search(farm.trials(second))}
            self.assertEqual({again[name] for name in DEADLY}, {"POISONED"}, again)
            self.assertEqual(again["none"], "OK")
            best = farm.json("best", "rogue_runner")
            self.assertEqual(best["match"], "MATCH_EXACT")


if __name__ == "__main__":
    fault_case.main()
