// The studies of a job that a command is about, and what is read of their trials.
#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/connection.h"
#include "server/expression/config.h"
#include "tunefarm/v1/job.pb.h"
#include "tunefarm/v1/kernel.pb.h"
#include "tunefarm/v1/study_service.pb.h"

namespace tunefarm::cli {

// The studies that are meant: that of `number`, from 1, or with 0 all. NotFound, with a list, for a number that there
// is not.
absl::StatusOr<std::vector<v1::Study>> ChooseStudies(const v1::Job& job, int number);
// Where only one can be: InvalidArgument, with a list, where there are several and none is named.
absl::StatusOr<v1::Study> ChooseStudy(const v1::Job& job, int number);

// Returns when the daemon has read all trials of a study that are stored, or as many as it keeps.
absl::StatusOr<v1::StudyCoverage> AwaitTrials(Connection* connection, const v1::Study& study);

// DataLoss where a value is none.
absl::StatusOr<Config> ConfigOf(const v1::Config& proto);

// The kernel of a job, without its sources; absent where it cannot be had.
std::optional<v1::Kernel> KernelOf(Connection* connection, const v1::Job& job);

}  // namespace tunefarm::cli
