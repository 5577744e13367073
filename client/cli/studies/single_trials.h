// Jobs that try one config in each study, and what was found of it.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/session.h"
#include "tunefarm/v1/job.pb.h"
#include "tunefarm/v1/trial.pb.h"

namespace tunefarm::cli {

struct TriedConfigs {
  v1::Job job;                    // as it is at its end, or when detached
  std::vector<v1::Trial> trials;  // of the search, with their logs: one of each study
  bool detached = false;          // Ctrl-C: the job goes on, or was cancelled by a second one; either has been said
};

// Follows a job with a budget of one trial, as WatchJob does, and fetches what it found. NotFound where no config was
// run.
absl::StatusOr<TriedConfigs> FollowTrials(Session* session, const std::string& job_name);

// What is to be known of a trial that is OK, a sentence each: that a constant would pass the comparison, or that
// nothing was compared.
std::vector<std::string> WarningsOf(const v1::Trial& trial);

// The report of one trial: config, outcome and why, resources, comparison, time, log.
std::string TrialText(const v1::Trial& trial);

}  // namespace tunefarm::cli
