#pragma once

// The processes and namespaces around a worker:
//
//   stub (spawned by the daemon, in its pid namespace) ── init (pid 1 of the new one) ── worker (drops to its uid)
//
// The stub dies with the daemon's supervisor thread, init dies with the stub, and with init everything inside. Init
// reaps orphans; the stub ends as the worker did, by the same exit code or signal. Without a pid namespace there is no
// init. For a process with one thread; whatever would let a process escape the daemon's death ends it with
// kWorkerExitSandbox and a line on stderr.

#include "server/worker/sandbox/sandbox_level.h"

namespace tunefarm {

// Bound to the thread that spawned us, the daemon's supervisor: this process dies with it. 0: unknown.
void DieWithParent(int parent_pid);

struct Namespaces {
  bool pid = false;
  bool mount = false;  // and what is mounted in it does not show outside
  bool user = false;   // nobody else's processes count as this uid's
};

// Gives this process and its children namespaces of their own, a user namespace first unless it is root's.
Namespaces UnshareNamespaces(SandboxLevel* level);

// Forks stub and init away and returns in the worker. `alive_fd` is to be handed to DieWithStub after every change of
// uid, which makes the kernel forget.
int ForkWorker(const Namespaces& namespaces);
void DieWithStub(int alive_fd);

}  // namespace tunefarm
