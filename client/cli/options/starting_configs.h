// What a job tries first, read from a file: --starting-configs.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/session.h"
#include "server/definition/kernel_plan.h"
#include "server/expression/config.h"
#include "server/interchange/recorded_file.h"
#include "tunefarm/v1/job.pb.h"

namespace tunefarm::cli {

// How many configs a problem gets. With the 256 problems that a job may have they are as many as a job takes.
inline constexpr size_t kStartsPerProblemMax = 16;

// The configs of a file that fit a kernel.
struct StartingConfigs {
  std::string file;  // its path, for messages
  bool is_of_bests = false;
  // Dims and config. Of bests by device class and dims, the newest first; else without dims, the best first.
  std::vector<std::pair<Config, Config>> rows;

  // Of bests: their problems, each once.
  std::vector<v1::Problem> Problems() const;
};

// Reads a file that `export bests` wrote, a T4 file or a cache file of Kernel Tuner, each plain or .gz. How many
// configs do not fit the kernel, and why the first does not, is noted. InvalidArgument where none fits, or where the
// bests are of other kernels.
absl::StatusOr<StartingConfigs> ReadStartingConfigs(const Session& session, const std::string& path,
                                                    const interchange::RecordedObjective& objective,
                                                    const KernelPlan& plan);

// Gives each problem of the job its own configs of the file, else those of others, at most kStartsPerProblemMax, and
// notes how many have which. Dims that a problem leaves out have the kernel's default.
void AddStartingConfigs(const Session& session, const StartingConfigs& starts, const KernelPlan& plan, v1::Job* job);

}  // namespace tunefarm::cli
