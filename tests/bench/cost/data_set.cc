#include "tests/bench/cost/data_set.h"

#include <fmt/core.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "server/base/file.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "tests/bench/search/recording_file.h"

namespace tunefarm {
namespace {

constexpr uint64_t kTextMax = 4 << 20;

std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) {
    const size_t first = part.find_first_not_of(" \t"), last = part.find_last_not_of(" \t");
    parts.push_back(first == std::string::npos ? "" : part.substr(first, last - first + 1));
  }
  return parts;
}

std::string Expanded(std::string path) {
  const size_t begin = path.find('{'), end = path.find('}');
  if (begin == std::string::npos || end == std::string::npos) return path;
  const char* value = std::getenv(path.substr(begin + 1, end - begin - 1).c_str());
  return path.replace(begin, end - begin + 1, value == nullptr ? "" : value);
}

// The GA102 boards that results are recorded on; compute capability 8.6 (CUDA C++ Programming Guide, "Compute
// Capabilities").
absl::StatusOr<DeviceClass> ClassNamed(const std::string& name) {
  const std::pair<std::string_view, int> boards[] = {{"A4000", 48}, {"A6000", 84}, {"RTX3090", 82}};
  for (const auto& [board, multiprocessors] : boards) {
    if (board != name) continue;
    ASSIGN_OR_RETURN(DeviceClass device, FindKnownClass("A100"));
    device.display_name = name;
    device.compute_capability = 86;
    device.sm_count = multiprocessors;
    device.threads_per_sm = 1536;
    device.blocks_per_sm = 16;
    device.shared_bytes_per_sm = 100 * 1024;
    device.shared_bytes_per_block_optin = 99 * 1024;
    return device;
  }
  return FindKnownClass(name);
}

absl::StatusOr<std::string> AnySource(const std::string&) { return std::string("// not looked at\n"); }

absl::StatusOr<std::shared_ptr<const KernelPlan>> PlanOf(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kTextMax));
  ASSIGN_OR_RETURN(const v1::Kernel kernel, LoadKernelText(text, path, AnySource));
  return KernelPlan::Compile(kernel);
}

absl::StatusOr<std::vector<RecordedTrial>> ReadCsv(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kTextMax));
  std::stringstream lines(text);
  std::vector<std::string> names;
  std::vector<RecordedTrial> trials;
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> cells = Split(line, ',');
    if (names.empty()) {
      names = cells;
      continue;
    }
    const auto cell = [&](std::string_view name) {
      for (size_t i = 0; i < names.size() && i < cells.size(); ++i) {
        if (names[i] == name) return cells[i];
      }
      return std::string();
    };
    if (cell("purpose") != "SEARCH") continue;
    std::string config = cell("config");
    for (char& c : config) {
      if (c == ' ') c = ',';
    }
    RecordedTrial trial;
    ASSIGN_OR_RETURN(trial.config, Config::FromText(config));
    if (cell("outcome") == "OK") trial.result.outcome = ToldOutcome::kOk;
    trial.result.objective_ns = std::strtod(cell("median_ns").c_str(), nullptr);
    trial.result.cost_seconds = 1;  // not in the file: all cost the same
    trials.push_back(std::move(trial));
  }
  return trials;
}

absl::StatusOr<v1::Problem> ProblemOf(const std::string& dims, const KernelPlan& plan) {
  v1::Problem problem;
  if (dims.empty()) return problem;
  for (const std::string& part : Split(dims, ',')) {
    const std::vector<std::string> sides = Split(part, '=');
    if (sides.size() != 2) return InvalidArgument("{} is not NAME=VALUE", part);
    v1::Value& value = (*problem.mutable_dims())[sides[0]];
    const bool is_number = sides[1].find_first_not_of("0123456789") == std::string::npos;
    if (is_number) {
      value.set_int_value(std::strtoll(sides[1].c_str(), nullptr, 10));
    } else {
      value.set_string_value(sides[1]);
    }
  }
  return plan.ResolveProblem(problem).ok() ? absl::StatusOr<v1::Problem>(problem)
                                           : plan.ResolveProblem(problem).status();
}

absl::StatusOr<DataSet> ReadDataSet(const std::vector<std::string>& cells) {
  ASSIGN_OR_RETURN(std::shared_ptr<const KernelPlan> plan, PlanOf(Expanded(cells[1])));
  ASSIGN_OR_RETURN(const v1::Problem problem, ProblemOf(cells.size() > 4 ? cells[4] : "", *plan));
  ASSIGN_OR_RETURN(ResolvedProblem resolved, plan->ResolveProblem(problem));
  ASSIGN_OR_RETURN(DeviceClass device, ClassNamed(cells[3]));
  const std::string results = Expanded(cells[2]);
  auto trials = results.ends_with(".csv") ? ReadCsv(results) : ReadRecordedTrials(results);
  RETURN_IF_ERROR(trials.status());
  // Some files record nothing of what finding out took.
  for (RecordedTrial& trial : *trials) {
    if (!(trial.result.cost_seconds > 0)) trial.result.cost_seconds = 1;
  }
  ASSIGN_OR_RETURN(Recording recording, Recording::Make(cells[0], *trials));
  return DataSet{cells[0], std::move(plan), std::move(resolved), std::move(device), std::move(recording)};
}

}  // namespace

absl::StatusOr<std::vector<DataSet>> ReadDataSets(const std::string& list) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(list, kTextMax));
  std::stringstream lines(text);
  std::vector<DataSet> sets;
  for (std::string line; std::getline(lines, line);) {
    line.resize(std::min(line.size(), line.find('#')));
    const std::vector<std::string> cells = Split(line, '|');
    if (cells.size() < 4) continue;
    std::error_code error;
    if (!std::filesystem::exists(Expanded(cells[2]), error)) {
      fmt::print(stderr, "{}: {} is not there\n", cells[0], cells[2]);
      continue;
    }
    auto set = ReadDataSet(cells);
    if (!set.ok()) return Annotate(set.status(), "{}", cells[0]);
    sets.push_back(*std::move(set));
  }
  return sets;
}

}  // namespace tunefarm
