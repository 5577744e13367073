#include "server/worker/host/trial_failure.h"

#include <fmt/core.h>
#include <signal.h>
#include <string.h>

#include <optional>
#include <string_view>

#include "server/base/status.h"
#include "server/worker/sandbox/seccomp_filter.h"

namespace tunefarm {
namespace {

std::string SignalName(int signal) {
  const char* const name = sigabbrev_np(signal);
  return name == nullptr ? fmt::format("signal {}", signal) : fmt::format("SIG{}", name);
}

}  // namespace

Failure TrialNotStarted(const absl::Status& status) {
  return {v1::OUTCOME_LOST, std::string(MessageOf(status)) + ".", true};
}

Failure FailureOf(const TrialReply& reply, const std::string& what, const HostProblem& problem) {
  switch (reply.kind) {
    case TrialReply::kDone:
      return {};
    case TrialReply::kLoadError:
      return {v1::OUTCOME_LOAD_ERROR, fmt::format("{} could not be loaded: {}.", what, reply.text)};
    case TrialReply::kThrew:
      return {v1::OUTCOME_RUN_CRASH, fmt::format("{} threw an exception: {}.", what, reply.text)};
    case TrialReply::kOutOfMemory:
      return {v1::OUTCOME_OUT_OF_MEMORY,
              fmt::format("{} ran out of memory; beside its buffers a host kernel may use 1 GiB.", what)};
    case TrialReply::kContinued:
      return {v1::OUTCOME_RUN_CRASH, fmt::format("{} continued its process while that was stopped.", what)};
    case TrialReply::kNonsense:
      return {v1::OUTCOME_RUN_CRASH, fmt::format("{} broke the connection to its runner.", what)};
    case TrialReply::kDied:
      break;
  }
  if (reply.exit.exited) {
    return {v1::OUTCOME_RUN_CRASH,
            fmt::format("{} ended its process: it exited with code {}.", what, reply.exit.exit_code)};
  }
  if (reply.exit.signal == SIGSYS) {
    const std::string_view name = ForbiddenSyscallName(reply.forbidden_syscall);
    return {v1::OUTCOME_SANDBOX_VIOLATION,
            fmt::format("{} made a forbidden system call{}{}.", what, name.empty() ? "" : ": ", name)};
  }
  if (reply.exit.signal == SIGXFSZ) {
    return {v1::OUTCOME_SANDBOX_VIOLATION, fmt::format("{} wrote a file beyond the limit of 64 MiB.", what)};
  }
  if (reply.exit.signal == SIGXCPU) {
    return {v1::OUTCOME_RUN_TIMEOUT, fmt::format("{} used an hour of processor time.", what)};
  }
  if (reply.exit.signal == SIGKILL && !reply.killed_by_runner) {
    return {v1::OUTCOME_RUN_CRASH, fmt::format("{} was ended by SIGKILL.", what), false, true};
  }
  std::string message = fmt::format("{} crashed with {}", what, SignalName(reply.exit.signal));
  if (reply.fault_address_known) {
    const std::optional<std::string> place = problem.Locate(reply.fault_address);
    message += place ? fmt::format(", {}", *place) : fmt::format(" at address {:#x}", reply.fault_address);
  }
  return {v1::OUTCOME_RUN_CRASH, message + "."};
}

Failure KernelFailureOf(const TrialReply& reply, const HostProblem& problem) {
  Failure failure = FailureOf(reply, "The kernel", problem);
  // A stray write is often the cause, and the crash only its consequence.
  if (failure.outcome == v1::OUTCOME_RUN_CRASH) {
    if (const Failure damage = problem.FindDamage()) failure.message += " " + damage.message;
  }
  return failure;
}

}  // namespace tunefarm
