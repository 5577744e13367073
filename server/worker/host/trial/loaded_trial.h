// A process that has loaded a binary on the buffers of a problem, with all that belongs to it: the one that a runner
// keeps between trials where they may share a process, and those that it forks ahead where each gets its own.
//
// One thread. A kept process has run trials that ended well, and nothing else; who keeps it vouches for that. One that
// was forked ahead has run nothing foreign at all, nor has the template that it was forked from: it is as clean as the
// runner.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "server/base/unique_fd.h"
#include "server/worker/host/kernel_calls.h"
#include "server/worker/host/trial/launch_overhead.h"
#include "server/worker/host/trial/trial_process.h"
#include "server/worker/host/trial/trial_template.h"

namespace tunefarm {

struct LoadedTrial {
  // What the process has since its fork and cannot change.
  std::string artifact;
  std::map<std::string, std::string> lowered_names;
  uint64_t input_seed = 0;
  BufferViews buffers;
  UniqueFd library;
  TrialProgram program;
  std::unique_ptr<TrialTemplate> source;  // from the second trial on; after what it points to
  std::unique_ptr<TrialProcess> process;
  std::unique_ptr<TrialProcess> next;  // forked ahead; may be null
  // For witnessed launches of trials whose time is in doubt; may be null. Foreign code never runs in it.
  std::unique_ptr<NothingProcess> nothing;

  bool keeps_process = false;  // for the trial after
  int trials = 0;              // in a row with this binary, on these buffers and inputs

  // Ends all processes.
  void Drop() {
    process = nullptr;
    next = nullptr;
    source = nullptr;
    nothing = nullptr;
  }

  // Whether its processes can serve a trial of another config with this binary on these buffers and inputs.
  bool Serves(const std::string& wanted_artifact, const std::map<std::string, std::string>& wanted_names, uint64_t seed,
              const BufferViews& wanted_buffers) const;
};

// Trials of one process before it is replaced although nothing is wrong with it: bounds what they leave behind.
inline constexpr int kTrialsPerProcessMax = 1000;

}  // namespace tunefarm
