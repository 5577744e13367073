// A process whose only work is to be forked: made once for the trials of one binary on the same buffers and inputs,
// each of which then is a child of its.
//
// It has what every trial needs and none may change for the next (signal handlers, limits, few descriptors, the larger
// part of the system call filter) and it loads and runs nothing foreign: a trial loads the binary itself, under the
// whole filter. So a trial inherits from it what it would inherit from the runner, and nothing from the trials before.
// Against forks of the runner it saves what they make again for every trial, and the copies of all pages that the
// runner writes while a fork lives.
//
// Trials are the runner's children (CLONE_PARENT): only the runner waits for them and only its death kills them.
//
// One thread. The processes that come from here share one page with it: one of them may be at work at a time.
#pragma once

#include <sys/types.h>

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/base/unique_fd.h"
#include "server/worker/host/trial/trial_process.h"

namespace tunefarm {

class TrialTemplate {
 public:
  // `program` as for TrialProcess, but nothing is loaded at start. Unimplemented where the system lacks something.
  static absl::StatusOr<std::unique_ptr<TrialTemplate>> Start(const TrialProgram& program);

  // Ends it; its trials live on.
  ~TrialTemplate();
  TrialTemplate(const TrialTemplate&) = delete;
  TrialTemplate& operator=(const TrialTemplate&) = delete;

  // Asks for the process of one trial, which Take waits for. Between the two another processor may be at work on it.
  absl::Status Ask();
  // A process that waits for SendConfig. Unavailable if the template is gone.
  absl::StatusOr<std::unique_ptr<TrialProcess>> Take();

 private:
  TrialTemplate() = default;

  pid_t pid_ = -1;
  UniqueFd socket_;
  std::shared_ptr<TrialPage> page_;
  bool is_filtered_ = false;
  std::unique_ptr<TrialProcess> asked_;  // without its pid
};

}  // namespace tunefarm
