"""Kernels that attack the process they run in, and what it is connected to. Each gets an outcome of its own, the good
configs theirs, and a config that has taken its runner down is not run again. More of them: kernels/examples/faulty_host
(tests/e2e/tuning_test.py) and hostile_host (sandbox_test.py)."""

import contextlib
import os
import unittest

import fault_case
from fault_case import QUICK, FaultFarm
from farm import assert_ordinals_complete, config, outcome, search
from rogue_kernel import RogueKernel

LAUNCH_TIMEOUT_MS = 3000
RESIDENT_GROWTH_MAX = 32 << 20

RLIM_NLIMITS = 16  # asm-generic/resource.h

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
    # Each time: once would be taken for somebody else's doing. The second where the out-of-memory killer cannot be told apart.
    "kill_itself": ("kill(getpid(), SIGKILL); SpinForever();", ENDS | {"OUT_OF_MEMORY"}),
    "kill_group": ("kill(0, SIGKILL); SpinForever();", ENDS),
    "own_limits": ("struct rlimit none = {0, 0};\n"
                   "for (int i = 0; i < RLIM_NLIMITS; ++i) setrlimit((__rlimit_resource)i, &none);",
                   {"OK", "OUT_OF_MEMORY"} | ENDS | HANGS),
    "unmapped_output": ("munmap((void*)((unsigned long)y & ~4095ul), 1 << 14);", ENDS),
    "read_only_output": ("mprotect((void*)((unsigned long)y & ~4095ul), 1 << 14, PROT_READ);", ENDS),
}
# Changes to every other process that the trial can name, and objects that would outlive it. A refused call is made as if
# it had not been: the kernel goes on to the next. What is never refused ends the trial in a crash.
CONTAINED_BEFORE = """
#include <fcntl.h>
#include <linux/sockios.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
static volatile int refused = 0;
static void OnRefused(int, siginfo_t*, void*) { ++refused; }
static void SurviveRefusals() {
  struct sigaction action = {};
  action.sa_sigaction = OnRefused;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSYS, &action, nullptr);
}
static void MustHaveBeenRefused(int times) { if (refused < times) abort(); }
#define FOR_ALL_OTHERS(pid) for (int pid = 1; pid < 200; ++pid) if (pid != getpid())
"""
CONTAINED = {
    "limits": ("for (int what = 0; what < RLIM_NLIMITS; ++what) {\n"
               "  struct rlimit one = {1, 1};\n"
               "  FOR_ALL_OTHERS(pid) syscall(SYS_prlimit64, pid, what, &one, nullptr);\n"
               "}\n", RLIM_NLIMITS * 198),
    "cores": ("unsigned long first = 1;\nFOR_ALL_OTHERS(pid) syscall(SYS_sched_setaffinity, pid, sizeof first, &first);\n",
              198),
    "cores_by_a_thread": ("pthread_t thread;\n"
                          "if (pthread_create(&thread, nullptr, [](void*) -> void* {\n"
                          "  unsigned long first = 1;\n"
                          "  FOR_ALL_OTHERS(pid) syscall(SYS_sched_setaffinity, pid, sizeof first, &first);\n"
                          "  return nullptr;\n"
                          "}, nullptr) == 0) pthread_join(thread, nullptr);\n", 190),
    "scheduling": ("struct sched_param none = {};\nFOR_ALL_OTHERS(pid) syscall(SYS_sched_setscheduler, pid, SCHED_IDLE, &none);\n",
                   198),
    "attributes": ("unsigned idle[12] = {48, SCHED_IDLE};\nFOR_ALL_OTHERS(pid) syscall(SYS_sched_setattr, pid, idle, 0);\n", 198),
    "priorities": ("FOR_ALL_OTHERS(pid) setpriority(PRIO_PROCESS, pid, 19);\n"
                   "FOR_ALL_OTHERS(pid) setpriority(PRIO_PGRP, pid, 19);\n"
                   "setpriority(PRIO_PGRP, 0, 19); setpriority(PRIO_USER, 0, 19); setpriority(PRIO_USER, getuid(), 19);\n", 399),
    "io_priorities": ("FOR_ALL_OTHERS(pid) syscall(SYS_ioprio_set, 1, pid, (3 << 13) | 7);\n"
                      "syscall(SYS_ioprio_set, 2, 0, (3 << 13) | 7); syscall(SYS_ioprio_set, 3, getuid(), (3 << 13) | 7);\n", 200),
    "owners": ("int pair[2]; if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) abort();\n"
               "fcntl(pair[0], F_SETSIG, SIGKILL); fcntl(pair[0], F_SETFL, O_ASYNC | O_NONBLOCK);\n"
               "FOR_ALL_OTHERS(pid) {\n"
               "  struct { int type, pid; } owner = {1, pid};\n"
               "  fcntl(pair[0], F_SETOWN, pid); fcntl(pair[0], F_SETOWN, -pid); fcntl(pair[0], F_SETOWN_EX, &owner);\n"
               "  syscall(SYS_fcntl, pair[0], (1l << 32) | F_SETOWN, pid);\n"
               "  ioctl(pair[0], FIOSETOWN, &pid); syscall(SYS_ioctl, pair[0], (1l << 32) | SIOCSPGRP, &pid);\n"
               "  (void)!write(pair[1], \"x\", 1);\n"
               "}\n", 1 + 6 * 198),
    "signals": ("FOR_ALL_OTHERS(pid) {\n"
                "  siginfo_t info = {}; info.si_code = SI_QUEUE;\n"
                "  kill(pid, SIGSTOP); kill(-pid, SIGSTOP); syscall(SYS_tgkill, pid, pid, SIGSTOP);\n"
                "  syscall(SYS_tkill, pid, SIGSTOP); syscall(SYS_rt_sigqueueinfo, pid, SIGSTOP, &info);\n"
                "  syscall(SYS_pidfd_open, pid, 0);\n"
                "}\n", 6 * 198),
    "groups": ("FOR_ALL_OTHERS(pid) setpgid(0, pid);\n", 198),
    "cookies": ("FOR_ALL_OTHERS(pid) prctl(PR_SCHED_CORE, 2, pid, 1, 0);\n", 198),
    "pages": ("FOR_ALL_OTHERS(pid) {\n"
              "  syscall(SYS_move_pages, pid, 0, nullptr, nullptr, nullptr, 0);\n"
              "  syscall(SYS_migrate_pages, pid, 0, nullptr, nullptr);\n"
              "}\n"
              "madvise((void*)((unsigned long)x & ~4095ul), 4096, MADV_REMOVE);\n", 2 * 198 + 1),
    "objects": ("for (int i = 0; i < 64; ++i) {\n"
                "  syscall(SYS_shmget, 1 + i, 64 << 20, 01666); syscall(SYS_msgget, 1 + i, 01666);\n"
                "  syscall(SYS_semget, 1 + i, 8, 01666); syscall(SYS_mq_open, \"x\", O_RDWR | O_CREAT, 0666, nullptr);\n"
                "  syscall(SYS_memfd_create, \"x\", 0);\n"
                "}\n", 5 * 64),
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

    def test_nothing_reaches_the_trials_after_it(self):
        code = {name: f"SurviveRefusals();\n{text}MustHaveBeenRefused({times});" for name, (text, times) in CONTAINED.items()}
        with RogueKernel("contained", code, CONTAINED_BEFORE) as kernel, FaultFarm() as farm:
            farm.start()
            # Several times, for an order in which each comes before others.
            for _ in range(2):
                job = farm.cli("submit", "--quiet", kernel, *QUICK, "--strategy", "random").stdout.strip()
                self.assertEqual(farm.watch_to_end(job), "SUCCEEDED")
                trials = farm.trials(job)
                assert_ordinals_complete(trials)
                found = {config(trial)["FAULT"]: f"{outcome(trial)} {trial.get('message', '')}" for trial in search(trials)}
                self.assertEqual({name: text for name, text in found.items() if not text.startswith("OK")}, {})
                self.assertEqual(set(found), {"none", *CONTAINED})
            honest = farm.cli("submit", "--quiet", "vector_add_host", *QUICK).stdout.strip()
            self.assertEqual(farm.watch_to_end(honest), "SUCCEEDED")
            self.assertEqual({outcome(trial) for trial in farm.trials(honest)}, {"OK"})
            self.assertEqual({device["state"] for device in farm.json("devices")["devices"]}, {"DEVICE_STATE_READY"})

    @unittest.skipUnless(os.geteuid() == 0, "changes processes of another user")
    def test_a_runner_that_was_changed_is_replaced(self):
        for isolation in ("process", "shared"):
            with self.subTest(isolation=isolation), FaultFarm() as farm:
                options = ("vector_add_host", *QUICK, "--host-isolation", isolation)
                farm.start()
                farm.cli("tune", *options)
                before = farm.workers("run")
                self.assertTrue(before)
                for pid in before:
                    with contextlib.suppress(ProcessLookupError):  # A trial's, on its way out.
                        os.setpriority(os.PRIO_PROCESS, pid, 5)
                job = farm.cli("submit", "--quiet", *options).stdout.strip()
                self.assertEqual(farm.watch_to_end(job), "SUCCEEDED")
                self.assertEqual({outcome(trial) for trial in farm.trials(job)}, {"OK"})
                self.assertFalse(set(before) & set(farm.workers("run")))


if __name__ == "__main__":
    fault_case.main()
