// What a launch takes that is commanded and timed from outside of its process, beside the work itself: two processes
// wake up, and perhaps the cores that they run on, and where caches are cold the page tables of the memory are cold as
// well. Measured on processes that have loaded nothing foreign.
//
// One thread: the runner's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "server/worker/host/trial/trial_process.h"
#include "server/worker/verify/witness.h"

namespace tunefarm {

// What launches of nothing are like.
struct NothingOptions {
  // At least 1, or fewer where no more can be had: all but one sleep, and are continued and stopped like it.
  int threads = 1;
  int processor = -1;  // the number of that on which the first thread stays; -1: any
  // Launches read a byte of each cache line, which must be there as long as the process.
  std::vector<std::span<const std::byte>> memory = {};
  // Of a CacheFlush over the memory that samples are preceded by. 0: none.
  size_t flush_bytes = 0;

  bool operator==(const NothingOptions& other) const;
};

// A frozen process whose launches only read memory and compute for a given time.
class NothingProcess {
 public:
  // What TrialProcess::Start fails with, or Unavailable if the process has ended.
  static absl::StatusOr<std::unique_ptr<NothingProcess>> Start(const NothingOptions& options);

  const NothingOptions& options() const { return options_; }

  // Makes one launch that works for busy_ns, at most 100 ms, and returns its time without that work. The launch first
  // reads memory: at most the fraction `share`, and at most what samples read in busy_ns; then it computes. Unavailable
  // if the process has ended.
  absl::StatusOr<WitnessedTime> Launch(double busy_ns, double share = 1);

  // Reads all memory. Unavailable if the process has ended.
  absl::Status Read();

 private:
  explicit NothingProcess(const NothingOptions& options) : options_(options) {}

  absl::Status Prepare();
  absl::Status MeasureReads();
  // `ns`: of the reads.
  absl::StatusOr<WitnessedTime> Obey(const TrialCommand& command, double* ns = nullptr);

  const NothingOptions options_;
  uint64_t bytes_ = 0;   // of the memory
  double reads_ns_ = 0;  // of all of it, by samples
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
