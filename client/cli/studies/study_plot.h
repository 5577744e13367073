// The picture of a study's search: every trial, the best so far, and what it is held against.
#pragma once

#include "absl/status/statusor.h"
#include "client/cli/connection.h"
#include "client/cli/studies/chart_svg.h"
#include "tunefarm/v1/job.pb.h"

namespace tunefarm::cli {

// Two panels over one axis of times: against evaluations and against the time since the study began. Failed trials are
// ticks at the upper edge, a row for each outcome. Where there are more than 5,000 measured trials, dots stand for the
// cells of a fine grid in which some lie.
absl::StatusOr<Chart> FetchStudyChart(Connection* connection, const v1::Job& job, const v1::Study& study);

}  // namespace tunefarm::cli
