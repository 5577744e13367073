#include "tests/bench/search/recording_file.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/interchange/recorded_file.h"

namespace tunefarm {

absl::StatusOr<std::vector<RecordedTrial>> ReadRecordedTrials(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  if (!file) return NotFound("{} cannot be read", path);
  ASSIGN_OR_RETURN(const interchange::RecordedFile recorded, interchange::ReadRecordedFile(bytes.str(), path));
  std::vector<RecordedTrial> trials;
  for (const interchange::RecordedRow& row : recorded.rows) {
    RecordedTrial trial;
    trial.config = row.config;
    trial.result.cost_seconds = row.CostMs() / 1e3;
    if (row.invalidity == interchange::Invalidity::kCorrect && row.objective.has_value()) {
      trial.result.outcome = ToldOutcome::kOk;
      trial.result.objective_ns = *row.objective * 1e6;
    }
    trials.push_back(std::move(trial));
  }
  return trials;
}

absl::StatusOr<Recording> ReadRecording(const std::string& path) {
  ASSIGN_OR_RETURN(const std::vector<RecordedTrial> trials, ReadRecordedTrials(path));
  std::string name = std::filesystem::path(path).filename().string();
  for (const std::string suffix : {".gz", ".json", "_T4"}) {
    if (name.ends_with(suffix)) name.resize(name.size() - suffix.size());
  }
  return Recording::Make(name, trials);
}

}  // namespace tunefarm
