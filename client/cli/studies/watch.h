// Following a job to its end.
#pragma once

#include "absl/status/statusor.h"
#include "client/cli/session.h"
#include "tunefarm/v1/job.pb.h"

namespace tunefarm::cli {

struct WatchOutcome {
  v1::Job job;            // as it is at the end, or when detached
  bool detached = false;  // Ctrl-C: the job goes on, or was cancelled by a second one; either has been said
};

// Streams the job's events into a progress line until the job ends or the user presses Ctrl-C, and then says how to
// come back; a second Ctrl-C, for which a terminal waits some seconds, cancels the job. Resumes the stream when it
// breaks, for as long as the daemon comes back within 30 s.
absl::StatusOr<WatchOutcome> WatchJob(Session* session, const std::string& job_name);

// Says how the job ended, on stderr, and what exit code that is.
ExitCode ExplainEnd(const Session& session, const v1::Job& job);

}  // namespace tunefarm::cli
