// A process that has loaded a binary on the buffers of a problem, with all that belongs to it: the one that a runner
// keeps between trials where they may share a process, and the one that it forks ahead where each gets its own.
//
// One thread. A kept process has run trials that ended well, and nothing else; who keeps it vouches for that. One that
// was forked ahead has run nothing foreign at all: it is as clean as the runner.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/base/unique_fd.h"
#include "server/worker/host/trial_process.h"

namespace tunefarm {

struct LoadedTrial {
  // What the process has since its fork and cannot change.
  std::string artifact;
  uint64_t input_seed = 0;
  UniqueFd library;
  TrialProgram program;
  std::unique_ptr<TrialProcess> process;  // after what it points to
  std::unique_ptr<TrialProcess> next;     // forked ahead from the same program; may be null

  int trials = 0;  // in a row with this binary, on these buffers and inputs

  // Ends both processes.
  void Drop() {
    process = nullptr;
    next = nullptr;
  }

  // Whether its processes can serve a trial of another config with this binary on these buffers and inputs.
  bool Serves(const std::string& wanted_artifact, const std::map<std::string, std::string>& lowered_names,
              uint64_t seed, const BufferViews& buffers) const;
};

// Trials of one process before it is replaced although nothing is wrong with it: bounds what they leave behind.
inline constexpr int kTrialsPerProcessMax = 1000;

}  // namespace tunefarm
