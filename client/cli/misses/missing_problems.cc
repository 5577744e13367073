#include "client/cli/misses/missing_problems.h"

#include <algorithm>
#include <map>

#include "client/cli/options/problem_options.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm::cli {
namespace {

using Lookup = v1::LookupService::StubInterface;

constexpr size_t kBatchMax = 10'000;  // BatchLookupConfigsRequest

bool IsColumn(const v1::Value& value) {
  return value.kind_case() == v1::Value::kIntValue || value.kind_case() == v1::Value::kStringValue;
}

std::map<std::string, v1::Value> Sorted(const v1::Problem& problem) {
  return {problem.dims().begin(), problem.dims().end()};
}

// Problems that one batch can ask for have this in common: the dims there are with their types, and the values of those
// that make no column.
std::string ShapeOf(const v1::Problem& problem) {
  std::string text;
  for (const auto& [name, value] : Sorted(problem)) {
    text += name + ":" + std::to_string(value.kind_case()) + (IsColumn(value) ? "" : "=" + ValueText(value)) + ",";
  }
  return text;
}

absl::Status AskOne(Connection* connection, const std::string& kernel, const std::string& device,
                    const v1::Problem& problem, bool* is_missing) {
  v1::LookupConfigRequest request;
  request.set_kernel(kernel);
  request.set_device_selector(device);
  *request.mutable_problem() = problem;
  request.set_worst_match(v1::MATCH_EXACT);
  ASSIGN_OR_RETURN(const v1::LookupConfigResponse response,
                   Connection::Call(connection->lookup(), &Lookup::LookupConfig, request));
  *is_missing = response.match() != v1::MATCH_EXACT;
  return absl::OkStatus();
}

// All of one shape, and at least one column.
absl::Status AskBatch(Connection* connection, const std::string& kernel, const std::string& device,
                      const std::vector<v1::Problem>& problems, const std::vector<size_t>& places,
                      std::vector<bool>* is_missing) {
  v1::BatchLookupConfigsRequest request;
  request.set_kernel(kernel);
  request.set_device_selector(device);
  request.set_worst_match(v1::MATCH_EXACT);
  request.set_configs_only(true);
  for (const auto& [name, value] : Sorted(problems[places[0]])) {
    if (!IsColumn(value)) {
      (*request.mutable_common_dims())[name] = value;
      continue;
    }
    v1::DimColumn* const column = request.add_columns();
    column->set_dim(name);
    std::map<std::string, uint32_t> indexes;
    for (const size_t place : places) {
      const v1::Value& own = problems[place].dims().at(name);
      if (own.kind_case() == v1::Value::kIntValue) {
        column->add_ints(own.int_value());
        continue;
      }
      const auto [at, is_new] = indexes.emplace(own.string_value(), static_cast<uint32_t>(column->strings_size()));
      if (is_new) column->add_strings(own.string_value());
      column->add_string_indexes(at->second);
    }
  }
  ASSIGN_OR_RETURN(const v1::BatchLookupConfigsResponse response,
                   Connection::Call(connection->lookup(), &Lookup::BatchLookupConfigs, request));
  if (static_cast<size_t>(response.matches_size()) != places.size()) {
    return Internal("the daemon answered {} of {} look-ups", response.matches_size(), places.size());
  }
  for (size_t i = 0; i < places.size(); ++i) {
    (*is_missing)[places[i]] = response.matches(static_cast<int>(i)) != v1::MATCH_EXACT;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<v1::Problem>> MissingProblems(Connection* connection, const std::string& kernel,
                                                         const std::string& device,
                                                         const std::vector<v1::Problem>& problems) {
  std::vector<bool> is_missing(problems.size(), true);
  std::map<std::string, std::vector<size_t>> batches;
  for (size_t i = 0; i < problems.size(); ++i) {
    const v1::Problem& problem = problems[i];
    const bool has_column =
        std::any_of(problem.dims().begin(), problem.dims().end(), [](const auto& dim) { return IsColumn(dim.second); });
    if (has_column && problem.pinned().empty() && problem.input_seeds().empty()) {
      std::vector<size_t>& places = batches[ShapeOf(problem)];
      places.push_back(i);
      if (places.size() < kBatchMax) continue;
      RETURN_IF_ERROR(AskBatch(connection, kernel, device, problems, places, &is_missing));
      places.clear();
    } else {
      bool missing = true;
      RETURN_IF_ERROR(AskOne(connection, kernel, device, problem, &missing));
      is_missing[i] = missing;
    }
  }
  for (const auto& [shape, places] : batches) {
    if (!places.empty()) RETURN_IF_ERROR(AskBatch(connection, kernel, device, problems, places, &is_missing));
  }
  std::vector<v1::Problem> missing;
  for (size_t i = 0; i < problems.size(); ++i) {
    if (is_missing[i]) missing.push_back(problems[i]);
  }
  return missing;
}

}  // namespace tunefarm::cli
