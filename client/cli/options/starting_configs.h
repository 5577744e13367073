// What a job tries first, from recorded results in the store: --from-recording.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/session.h"
#include "server/expression/config.h"
#include "tunefarm/v1/job.pb.h"
#include "tunefarm/v1/kernel.pb.h"

namespace tunefarm::cli {

// A recording as a source of configs. Of imported bests each row has the dims of its problem; of other recordings none
// has any.
struct RecordedStarts {
  std::string name;
  std::vector<std::pair<Config, Config>> rows;  // dims and config; of other recordings the fastest first

  // The problems of imported bests, each once, in the order of the recording; none of other recordings.
  std::vector<v1::Problem> Problems() const;
};

// A number or name. The daemon's errors; NotFound for a recording in which nothing has a time.
absl::StatusOr<RecordedStarts> FetchStarts(Session* session, const std::string& recording);

// How many configs a problem gets that the recording does not have: of imported bests those of other problems, of other
// recordings the fastest.
inline constexpr size_t kForeignStartsMax = 16;

// Gives each problem of the job its own recorded configs, else kForeignStartsMax of others, and says so. Dims that a
// problem leaves out have the default of `kernel`.
void AddStartingConfigs(const Session& session, const RecordedStarts& starts, const v1::Kernel& kernel, v1::Job* job);

}  // namespace tunefarm::cli
