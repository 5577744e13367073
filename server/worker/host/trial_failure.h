// What it says of a kernel that its process did not do what it was told, as outcome and sentence. One thread: the
// runner's.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "server/worker/host/host_problem.h"
#include "server/worker/host/trial/trial_process.h"
#include "server/worker/verify/failure.h"

namespace tunefarm {

// Nothing for a reply that says that it was done. `what` begins the sentence: "The kernel". An address that is known is
// named as a place in the problem's buffers.
Failure FailureOf(const TrialReply& reply, const std::string& what, const HostProblem& problem);
// The same for a kernel that is tried: a crash also names damage to the buffers, of which it may be the consequence.
Failure KernelFailureOf(const TrialReply& reply, const HostProblem& problem);

// No process could be made for a trial: LOST, and the runner is to be replaced.
Failure TrialNotStarted(const absl::Status& status);

}  // namespace tunefarm
