// tune --misses: jobs of what was looked up and is not tuned.
#pragma once

#include <CLI/CLI.hpp>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/data/definition_data.h"
#include "client/cli/session.h"
#include "tunefarm/v1/tuning_service.pb.h"

namespace tunefarm::cli {

struct MissesOptions {
  bool is_chosen = false;
  int limit = 0;  // problems in all; 0: all

  // After --dim, --pin, --input-seed, --input, --expected, --rows, --missing-only and --starting-configs, which do not
  // go with it.
  void AddTo(CLI::App* tune);
};

// Submits a job for each kernel and device class that have misses, of at most 256 problems, what is asked most first,
// follows each to its end before the next, and prints what became of them. What the daemon does not accept (an unknown
// kernel, a class that is not here, a problem without a valid config) is skipped with a note. Ctrl-C leaves the job in
// hand running.
//
// `settings`: the job's, but for its problems, which are not looked at. Without a kernel: misses of all kernels.
// `files`: those that its definition names.
absl::StatusOr<ExitCode> TuneMisses(Session* session, const MissesOptions& options,
                                    const v1::CreateJobRequest& settings, const std::vector<DescribedFile>& files);

}  // namespace tunefarm::cli
