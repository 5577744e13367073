// Where simulations take their recorded results from: files of other tools and the trials of jobs. Both come out the
// same: the same results give the same simulation.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/session.h"
#include "server/interchange/recorded_file.h"
#include "server/search/recording.h"
#include "tunefarm/v1/job.pb.h"

namespace tunefarm::cli {

struct RecordedSource {
  std::string name;
  std::vector<RecordedTrial> trials;
  // One line for people: what part of a space this is, and what was assumed. May be empty.
  std::string note;
};

// A T4 or Kernel Tuner cache file of this machine. Results of an objective that is maximised come out as its
// reciprocals, which is noted.
absl::StatusOr<RecordedSource> FromFile(Session* session, const std::string& path,
                                        const interchange::RecordedObjective& objective);

// What --recorded-objective says; empty: nothing.
absl::StatusOr<interchange::RecordedObjective> RecordedObjectiveOption(const std::string& text);
void AddRecordedObjectiveOption(CLI::App* command, std::string* text);

// The search trials of one or more jobs of one kernel, problem and device class, as one recording. Of a config that
// several have measured the newest result counts. `study`: which one of each job; 0: the only one.
absl::StatusOr<RecordedSource> FromJobs(Session* session, const std::vector<std::string>& jobs, int study);

// One line for people: how much of a space `measured` configs of it are.
std::string CoverageNote(const std::string& name, size_t measured, const v1::SpaceSize& space);

}  // namespace tunefarm::cli
