#pragma once

// THE table: how a worker's end becomes the Outcome of the trial that it ran. Nothing else in the project draws
// conclusions from signals, exit codes and timeouts of workers; server/worker/README.md shows it in words. Pure.

#include <string>
#include <string_view>

#include "server/base/memory_kills.h"
#include "server/base/pidfd.h"
#include "tunefarm/v1/trial.pb.h"

namespace tunefarm {

enum class WorkerRole { kCompile, kRun, kProbe };
// "compile", "run", "probe".
std::string_view NameOf(WorkerRole role);

enum class WorkerEndCause {
  kExited,       // by itself: `status` says how
  kDeadline,     // killed: the phase took longer than deadline_ms
  kProtocol,     // killed: it sent what no honest worker sends; `detail` continues "the worker ..."
  kCancelled,    // killed because the caller no longer wants the result
  kShutdown,     // killed because the daemon ends
  kStartFailed,  // there was no process, or it never got as far as taking work; `detail` is a sentence
};

struct WorkerEnd {
  WorkerRole role = WorkerRole::kRun;
  WorkerEndCause cause = WorkerEndCause::kExited;
  ExitStatus status;       // kExited only
  bool preparing = false;  // it was building inputs and reference, not yet evaluating
  tunefarm::v1::Phase phase = tunefarm::v1::PHASE_UNSPECIFIED;  // the last one announced
  int deadline_ms = 0;
  std::string detail;
  bool unkillable = false;  // SIGKILL did not end it in time
  bool was_killed = false;  // by a SIGKILL that the daemon did not send, also before it took work
  // Of such a SIGKILL: whether the kernel's out-of-memory killer may have sent it.
  MemoryKills memory_kills = MemoryKills::kUnknown;
};

struct Verdict {
  tunefarm::v1::Outcome outcome;
  std::string message;  // one sentence
};

Verdict VerdictFor(const WorkerEnd& end);

// Whether it died of a SIGKILL that, as far as is known, neither the daemon nor the out-of-memory killer sent: a person
// or another program may have, which says nothing about the config. VerdictFor is right only if it happens again.
bool IsKilledFromOutside(const WorkerEnd& end);

}  // namespace tunefarm
