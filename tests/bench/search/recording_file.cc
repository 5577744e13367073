#include "tests/bench/search/recording_file.h"

#include <zlib.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm {
namespace {

using nlohmann::json;

absl::StatusOr<std::string> ReadAll(const std::string& path) {
  gzFile file = gzopen(path.c_str(), "rb");  // reads plain files too
  if (file == nullptr) return NotFound("{} cannot be opened", path);
  std::string text;
  std::string part(1 << 20, '\0');
  int count = 0;
  while ((count = gzread(file, part.data(), static_cast<unsigned>(part.size()))) > 0) {
    text.append(part.data(), static_cast<size_t>(count));
  }
  gzclose(file);
  if (count < 0) return DataLoss("{} is damaged", path);
  return text;
}

Value ValueOf(const json& value) {
  if (value.is_boolean()) return Value(value.get<bool>());
  if (value.is_number_integer()) return Value(value.get<int64_t>());
  if (value.is_number()) return Value(value.get<double>());
  return Value(value.is_string() ? value.get<std::string>() : value.dump());
}

double NumberAt(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}

double SumAt(const json& object, const char* name) {
  const auto found = object.find(name);
  double sum = 0;
  if (found == object.end() || !found->is_array()) return sum;
  for (const json& value : *found) sum += value.is_number() ? value.get<double>() : 0;
  return sum;
}

RecordedTrial OfT4(const json& row) {
  RecordedTrial trial;
  for (const auto& [name, value] : row.at("configuration").items()) trial.config.Set(name, ValueOf(value));
  const json& times = row.at("times");
  double cost_ms = SumAt(times, "runtimes");
  for (const char* name :
       {"compilation", "compilation_time", "benchmark", "framework", "search_algorithm", "validation"}) {
    cost_ms += NumberAt(times, name);
  }
  trial.result.cost_seconds = cost_ms / 1e3;
  if (row.at("invalidity") != "correct") return trial;
  for (const json& measurement : row.at("measurements")) {
    if (measurement.at("name") != "time" || !measurement.at("value").is_number()) continue;
    trial.result.outcome = ToldOutcome::kOk;
    trial.result.objective_ns = measurement.at("value").get<double>() * 1e6;
  }
  return trial;
}

RecordedTrial OfCache(const json& row, const json& names) {
  RecordedTrial trial;
  for (const json& name : names) trial.config.Set(name.get<std::string>(), ValueOf(row.at(name.get<std::string>())));
  double cost_ms = 0;
  for (const char* name : {"compile_time", "benchmark_time", "verification_time", "framework_time", "strategy_time"}) {
    cost_ms += NumberAt(row, name);
  }
  trial.result.cost_seconds = cost_ms / 1e3;
  // Old files write 1e20 for what failed.
  const double time_ms = NumberAt(row, "time");
  if (time_ms <= 0 || time_ms >= 1e19) return trial;
  trial.result.outcome = ToldOutcome::kOk;
  trial.result.objective_ns = time_ms * 1e6;
  return trial;
}

}  // namespace

absl::StatusOr<std::vector<RecordedTrial>> ReadRecordedTrials(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadAll(path));
  std::vector<RecordedTrial> trials;
  try {
    const json file = json::parse(text);
    if (file.contains("results")) {
      for (const json& row : file.at("results")) trials.push_back(OfT4(row));
    } else {
      for (const auto& [key, row] : file.at("cache").items())
        trials.push_back(OfCache(row, file.at("tune_params_keys")));
    }
  } catch (const json::exception& error) {
    return InvalidArgument("{}: {}", path, error.what());
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
