#pragma once

// Failpoints: named places at which the fault tests kill the process, make a call fail or hold it up. They do nothing
// unless ArmFailpoints was called, which the daemon does with what TUNEFARM_FAILPOINTS says, and only in builds with
// tests: a build without them (CMake option TUNEFARM_FAILPOINTS=OFF) refuses to arm any.
//
//   TUNEFARM_FAILPOINTS="store.commit.after=crash@3;agent.report.before=error@2+;exec.result=delay:200"
//
// Each entry is NAME=ACTION[@HITS]: the action happens at the first time that the place is passed, or at those that
// HITS tells: 3 for the third, 3-5 for the third to the fifth, 3+ for the third and every later one. Actions: `crash`
// kills this process with SIGKILL, `error` makes the place answer Unavailable, `delay:MS` holds up its thread for that
// many milliseconds (at most a minute).
//
// Threads: Failpoint may be called from any thread; ArmFailpoints before the threads that do.

#include <string_view>

#include "absl/status/status.h"

namespace tunefarm {

// Passes the place `name`, which must be one of kFailpoints. Unavailable if it is armed to fail there; OK otherwise.
// Costs one atomic load while nothing is armed.
absl::Status Failpoint(std::string_view name);

// For places that have no error to answer: only `crash` and `delay` have an effect.
inline void PassFailpoint(std::string_view name) { Failpoint(name).IgnoreError(); }

// Replaces what is armed; an empty text disarms. InvalidArgument for a name or action that does not exist;
// FailedPrecondition in a build without failpoints.
absl::Status ArmFailpoints(std::string_view text);

// All there are. The fault tests read this list and crash the daemon at each of them.
inline constexpr std::string_view kFailpoints[] = {
    "store.commit.before",   // a batch of writes is not durable yet
    "store.commit.after",    // it is, and nobody has been told
    "store.migrate.before",  // a migration has run and is not committed
    "store.migrate.after",   // it is committed
    "store.backup.copied",   // a backup is complete and not under its name yet
    "store.backup.linked",   // it is, and still under its temporary name too
    "jobs.submit.stored",    // a job is stored and not answered
    "jobs.step.before",      // what a study's driver decided is not stored yet
    "jobs.step.after",       // it is, and the driver does not know
    "jobs.promote.after",    // a best is stored, the step that led to it is not
    "jobs.end.before",       // every study has ended, the job has not
    "agent.claim.received",  // units are claimed and not taken up
    "agent.report.before",   // results are known and not sent
    "agent.report.after",    // they are stored, and the agent does not know
    "agent.spool.before",    // a report that control did not take is not on disk yet
    "agent.spool.after",     // it is
    "exec.spawn.before",     // a worker is about to be started
    "exec.spawn.after",      // it runs, and nobody has its pid
    "exec.result",           // a worker has answered
};

}  // namespace tunefarm
