#include "server/exec/outcome_table.h"

#include <fmt/core.h>
#include <signal.h>

#include "server/base/format.h"
#include "server/exec/frame_limits.h"

namespace tunefarm {
namespace {

using namespace tunefarm::v1;  // NOLINT(google-build-using-namespace): the enumerators carry their own prefixes

std::string_view WorkOf(const WorkerEnd& end) {
  if (end.role == WorkerRole::kCompile) return "compiling";
  if (end.preparing) return "building the inputs and the reference output";
  switch (end.phase) {
    case PHASE_COMPILE:
      return "compiling";
    case PHASE_LOAD:
      return "loading the binary";
    case PHASE_FIRST_LAUNCH:
      return "the first launch";
    case PHASE_VERIFY:
      return "checking the outputs";
    case PHASE_MEASURE:
      return "measuring";
    default:
      return "starting the evaluation";
  }
}

// Compiling happens in compile workers, and in run workers of languages that compile themselves.
bool IsCompiling(const WorkerEnd& end) { return end.role == WorkerRole::kCompile || end.phase == PHASE_COMPILE; }

// Which setting of the daemon the deadline comes from; empty where none raises it.
std::string_view LimitOf(const WorkerEnd& end) {
  if (end.preparing) return " (prepare_timeout_ms of the daemon raises this)";
  if (IsCompiling(end)) return " (compile_timeout_ms of the daemon raises this)";
  switch (end.phase) {
    case PHASE_FIRST_LAUNCH:
    case PHASE_VERIFY:
    case PHASE_MEASURE:
      return " (launch_timeout_ms of the daemon raises this)";
    default:
      return "";
  }
}

Outcome CrashOf(const WorkerEnd& end) { return IsCompiling(end) ? OUTCOME_COMPILE_CRASH : OUTCOME_RUN_CRASH; }

Verdict VerdictForKill(const WorkerEnd& end) {
  switch (end.memory_kills) {
    case MemoryKills::kNone:
      return {CrashOf(end), fmt::format("the worker was killed during {} by a SIGKILL that neither the daemon nor the "
                                        "kernel's out-of-memory killer sent",
                                        WorkOf(end))};
    case MemoryKills::kSome:
      return {OUTCOME_OUT_OF_MEMORY,
              fmt::format("the system killed the worker during {} because memory ran out", WorkOf(end))};
    case MemoryKills::kUnknown:
      break;
  }
  return {OUTCOME_OUT_OF_MEMORY,
          fmt::format("the system killed the worker during {}, most likely because memory ran out", WorkOf(end))};
}

Verdict VerdictForSignal(const WorkerEnd& end) {
  const std::string how = end.status.ToString();
  switch (end.status.signal) {
    case SIGKILL:  // The daemon did not send it.
      return VerdictForKill(end);
    case SIGSYS:
      return {OUTCOME_SANDBOX_VIOLATION, fmt::format("a forbidden system call was made during {}", WorkOf(end))};
    case SIGXFSZ:
      return {OUTCOME_SANDBOX_VIOLATION, fmt::format("a file grew beyond its limit during {}", WorkOf(end))};
    case SIGXCPU:
      return {IsCompiling(end) ? OUTCOME_COMPILE_TIMEOUT : OUTCOME_RUN_TIMEOUT,
              fmt::format("the limit on processor time was reached during {}", WorkOf(end))};
    default:
      return {CrashOf(end), fmt::format("the worker died of {} during {}", how, WorkOf(end))};
  }
}

Verdict VerdictForExitCode(const WorkerEnd& end) {
  switch (end.status.exit_code) {
    case kWorkerExitOutOfMemory:
      return {OUTCOME_OUT_OF_MEMORY, fmt::format("the worker could not allocate host memory during {}", WorkOf(end))};
    case kWorkerExitSandbox:
    case kWorkerExitUsage:
    case kWorkerExitProtocol:
      // Only our own code ends so, unless the kernel's code calls exit() with this number: then it is run again, and
      // the limit on LOST attempts ends that.
      return {OUTCOME_LOST, fmt::format("the worker gave up with {}", end.status.ToString())};
    case 0:
      return {CrashOf(end), fmt::format("the worker ended silently during {}: something called exit(0)", WorkOf(end))};
    default:
      return {CrashOf(end), fmt::format("the worker ended with {} during {}", end.status.ToString(), WorkOf(end))};
  }
}

Verdict VerdictForCause(const WorkerEnd& end) {
  switch (end.cause) {
    case WorkerEndCause::kExited:
      return end.status.exited ? VerdictForExitCode(end) : VerdictForSignal(end);
    case WorkerEndCause::kDeadline:
      return {IsCompiling(end) ? OUTCOME_COMPILE_TIMEOUT : OUTCOME_RUN_TIMEOUT,
              fmt::format("{} did not finish within {}{}", WorkOf(end), FormatDuration(end.deadline_ms * 1e6),
                          LimitOf(end))};
    case WorkerEndCause::kProtocol:
      return {CrashOf(end), fmt::format("the worker was damaged during {}: {}", WorkOf(end), end.detail)};
    case WorkerEndCause::kCancelled:
      return {OUTCOME_LOST, "the evaluation was cancelled"};
    case WorkerEndCause::kShutdown:
      return {OUTCOME_LOST, "the daemon ended during the evaluation"};
    case WorkerEndCause::kStartFailed:
      return {OUTCOME_LOST, end.detail};
  }
  return {OUTCOME_LOST, "the worker ended for an unknown reason"};
}

}  // namespace

std::string_view NameOf(WorkerRole role) {
  switch (role) {
    case WorkerRole::kCompile:
      return "compile";
    case WorkerRole::kRun:
      return "run";
    case WorkerRole::kProbe:
      return "probe";
  }
  return "unknown";
}

Verdict VerdictFor(const WorkerEnd& end) {
  Verdict verdict = VerdictForCause(end);
  if (end.unkillable) verdict.message += "; the worker does not end after SIGKILL, so its device is out of service";
  return verdict;
}

bool IsKilledFromOutside(const WorkerEnd& end) {
  return end.cause == WorkerEndCause::kExited && !end.status.exited && end.status.signal == SIGKILL &&
         end.memory_kills != MemoryKills::kSome;
}

}  // namespace tunefarm
