// The results of a job as rows that other tools and simulations read.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/session.h"
#include "server/interchange/recorded_file.h"
#include "tunefarm/v1/job.pb.h"

namespace tunefarm::cli {

struct JobRows {
  v1::Job job;
  v1::Study study;
  std::vector<std::string> parameters;   // in the order of the definition
  std::vector<interchange::T4Row> rows;  // one a config
};

// Of study `number` (from 1; 0: the only one). With `finals`, finalists have the times of the final instead of the
// search's; energies are of the final in any case. InvalidArgument, with a list, where the job has several studies and
// none is named.
absl::StatusOr<JobRows> FetchJobRows(Session* session, const std::string& job, int number, bool finals);

}  // namespace tunefarm::cli
