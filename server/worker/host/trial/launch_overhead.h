// What a launch takes that is commanded and timed from outside of its process, beside the work itself: two processes
// wake up, and perhaps the cores that they run on, and where caches are cold the page tables of the memory are cold as
// well. Measured on processes that have loaded nothing foreign.
//
// One thread: the runner's.
#pragma once

#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "server/worker/host/trial/trial_process.h"
#include "server/worker/verify/witness.h"

namespace tunefarm {

// A frozen process whose launches only read memory and compute for a given time.
class NothingProcess {
 public:
  // With so many threads (at least 1), or fewer where no more can be had: all but one sleep, and are continued and
  // stopped like it. Launches read a byte of each cache line of `memory.flush_memory`, which samples find flushed if
  // there are flush_bytes; nothing else of `memory` is used. What TrialProcess::Start fails with, or Unavailable if the
  // process has ended.
  static absl::StatusOr<std::unique_ptr<NothingProcess>> Start(int threads, const TrialProgram& memory);

  // The number that Start was asked for.
  int wanted_threads() const { return wanted_threads_; }

  // Has its launches on this processor from now on. Unavailable if the process has ended.
  absl::Status MoveTo(int processor);

  // One launch that works for so many nanoseconds, at most 100 ms, or as long as samples of the reads take if that is
  // more: its time without those. Unavailable if the process has ended.
  absl::StatusOr<WitnessedTime> Launch(double busy_ns);

 private:
  explicit NothingProcess(int wanted_threads) : wanted_threads_(wanted_threads) {}

  absl::Status MeasureReads(bool is_cold);

  const int wanted_threads_;
  double reads_ns_ = 0;  // of the memory, by samples
  std::unique_ptr<TrialProcess> process_;
};

class LaunchOverhead {
 public:
  // Of a process with one thread, in nanoseconds: the shortest of several launches of nothing, measured once. Fails as
  // NothingProcess does.
  absl::StatusOr<double> Idle();

 private:
  std::optional<double> idle_ns_;
};

}  // namespace tunefarm
