// What the system keeps of a process that others with its user id could change, and that its children inherit: limits,
// cores, scheduling, priorities. A runner that finds another state than it began with ends, so that none of its later
// trials runs under it.
#pragma once

#include <sys/resource.h>

#include <array>
#include <cstdint>
#include <string_view>

namespace tunefarm {

class RunnerState {
 public:
  // Of the calling process, which has one thread. Takes some 20 system calls: 3 µs, and up to ten times as much under
  // the filters of a sandbox.
  static RunnerState Now();

  // "limit on processes", "processor affinity"; empty: nothing differs.
  std::string_view FirstDifference(const RunnerState& other) const;

 private:
  // Of sched_getattr; what it says of deadlines only depends on the kernel where the policy does not use them.
  struct Scheduling {
    uint32_t policy = 0;
    uint64_t flags = 0;
    int32_t nice = 0;
    uint32_t priority = 0;
    bool operator==(const Scheduling&) const = default;
  };

  std::array<rlimit, RLIM_NLIMITS> limits_ = {};
  std::array<uint64_t, 128> cores_ = {};  // a bit each: 8192, the most that Linux is built for
  Scheduling scheduling_;
  long io_priority_ = 0;
  int timer_slack_ns_ = 0;
  int is_dumpable_ = 0;
  int standard_error_flags_ = 0;  // of the open file, which trials share
};

}  // namespace tunefarm
