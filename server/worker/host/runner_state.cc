#include "server/worker/host/runner_state.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>

namespace tunefarm {
namespace {

constexpr int kIoprioWhoProcess = 1;  // linux/ioprio.h

// The kernel's first version of struct sched_attr, which the C library has no header for.
struct SchedAttr {
  uint32_t size;
  uint32_t policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime;
  uint64_t deadline;
  uint64_t period;
};

std::string_view NameOfLimit(size_t resource) {
  switch (resource) {
    case RLIMIT_CPU:
      return "limit on processor time";
    case RLIMIT_NPROC:
      return "limit on processes";
    case RLIMIT_NOFILE:
      return "limit on descriptors";
    case RLIMIT_AS:
    case RLIMIT_DATA:
    case RLIMIT_STACK:
    case RLIMIT_RSS:
    case RLIMIT_MEMLOCK:
      return "limit on memory";
    case RLIMIT_FSIZE:
      return "limit on files";
    default:
      return "resource limit";
  }
}

}  // namespace

RunnerState RunnerState::Now() {
  RunnerState state;
  for (size_t i = 0; i < state.limits_.size(); ++i) {
    (void)getrlimit(static_cast<__rlimit_resource>(i), &state.limits_[i]);
  }
  (void)syscall(SYS_sched_getaffinity, 0, sizeof(state.cores_), state.cores_.data());
  SchedAttr attributes = {};
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) == 0) {
    state.scheduling_ = {attributes.policy, attributes.flags, attributes.nice, attributes.priority};
  }
  state.io_priority_ = syscall(SYS_ioprio_get, kIoprioWhoProcess, 0);
  state.timer_slack_ns_ = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
  state.is_dumpable_ = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0);
  state.standard_error_flags_ = fcntl(STDERR_FILENO, F_GETFL);
  return state;
}

std::string_view RunnerState::FirstDifference(const RunnerState& other) const {
  for (size_t i = 0; i < limits_.size(); ++i) {
    const bool same =
        limits_[i].rlim_cur == other.limits_[i].rlim_cur && limits_[i].rlim_max == other.limits_[i].rlim_max;
    if (!same) return NameOfLimit(i);
  }
  if (cores_ != other.cores_) return "processor affinity";
  if (scheduling_ != other.scheduling_) return "scheduling policy or priority";
  if (io_priority_ != other.io_priority_) return "I/O priority";
  if (timer_slack_ns_ != other.timer_slack_ns_) return "timer slack";
  if (is_dumpable_ != other.is_dumpable_) return "protection against inspection";
  if (standard_error_flags_ != other.standard_error_flags_) return "mode of standard error";
  return "";
}

}  // namespace tunefarm
