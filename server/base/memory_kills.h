#pragma once

// The kernel's out-of-memory killer, which ends processes by the same signal as a person with `kill -9` does.

#include <cstdint>
#include <optional>

#include "server/base/clock.h"

namespace tunefarm {

// Processes of this machine that it has ended since the start of the machine, for whatever limit: of the machine or of
// a cgroup. Empty where the kernel does not count them (before Linux 4.13) or /proc is not to be seen. Thread-safe.
std::optional<int64_t> CountMemoryKills();

enum class MemoryKills {
  kUnknown,  // the kernel does not count them
  kNone,
  kSome,  // at least one, of whichever process
};

// Whether there were any while something went on. Not thread-safe.
class MemoryKillWatch {
 public:
  // Something begins. The count is read at most once a second, so that short tasks do not pay for it: what happened up
  // to a second before counts too.
  void Begin(MonotonicTime now);
  // Since then.
  MemoryKills Look() const;

 private:
  std::optional<int64_t> before_;
  std::optional<MonotonicTime> read_at_;
};

}  // namespace tunefarm
