#include "client/cli/studies/recorded_source.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "client/cli/space_text.h"
#include "client/cli/studies/job_names.h"
#include "client/cli/studies/job_rows.h"
#include "server/base/file.h"
#include "server/base/format.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/definition/value_proto.h"
#include "server/interchange/recorded_file.h"

namespace tunefarm::cli {
namespace {

using Service = v1::RecordingService::StubInterface;

constexpr double kNsPerMs = 1e6;
// What cost nothing: time must pass all the same.
constexpr double kCostSecondsMin = 1e-6;

RecordedTrial TrialOf(Config config, std::optional<double> objective_ms, double cost_ms) {
  RecordedTrial trial;
  trial.config = std::move(config);
  trial.result.cost_seconds = std::max(0.0, cost_ms / 1e3);
  if (objective_ms.has_value() && *objective_ms > 0) {
    trial.result.outcome = ToldOutcome::kOk;
    trial.result.objective_ns = *objective_ms * kNsPerMs;
  }
  return trial;
}

// No valid result is free: one that carries no cost was taken over from another (or its file says nothing), and gets
// the median of the others.
void FillCosts(std::vector<RecordedTrial>* trials) {
  std::vector<double> costs;
  for (const RecordedTrial& trial : *trials) {
    if (trial.result.outcome == ToldOutcome::kOk && trial.result.cost_seconds > 0)
      costs.push_back(trial.result.cost_seconds);
  }
  const auto middle = costs.begin() + static_cast<int64_t>(costs.size() / 2);
  if (!costs.empty()) std::nth_element(costs.begin(), middle, costs.end());
  const double median = costs.empty() ? 0 : *middle;
  for (RecordedTrial& trial : *trials) {
    double& cost = trial.result.cost_seconds;
    if (trial.result.outcome == ToldOutcome::kOk && cost <= 0) cost = median;
    cost = std::max(kCostSecondsMin, cost);
  }
}

using ParameterValues = std::vector<std::pair<std::string, std::vector<Value>>>;

absl::StatusOr<ParameterValues> ValuesOf(const v1::Recording& recording) {
  ParameterValues parameters;
  for (const v1::RecordedParameter& parameter : recording.parameters()) {
    std::vector<Value> values;
    for (const v1::Value& proto : parameter.values()) {
      ASSIGN_OR_RETURN(Value value, definition::FromProto(proto));
      values.push_back(std::move(value));
    }
    parameters.emplace_back(parameter.name(), std::move(values));
  }
  return parameters;
}

absl::Status AddResults(const ParameterValues& parameters, const v1::RecordedResults& results,
                        std::vector<RecordedTrial>* trials) {
  const int count = results.outcomes_size();
  if (results.objectives_size() != count || results.cost_ms_size() != count ||
      static_cast<size_t>(results.value_indexes_size()) != static_cast<size_t>(count) * parameters.size()) {
    return DataLoss("a page of recorded results has columns of different lengths");
  }
  int at = 0;
  for (int i = 0; i < count; ++i) {
    Config config;
    for (const auto& [name, values] : parameters) {
      const uint32_t index = results.value_indexes(at++);
      if (index >= values.size()) return DataLoss("a recorded result has value {} of {}", index, name);
      config.Set(name, values[index]);
    }
    std::optional<double> objective;
    if (results.outcomes(i) == v1::RECORDED_OUTCOME_CORRECT) objective = results.objectives(i);
    trials->push_back(TrialOf(std::move(config), objective, results.cost_ms(i)));
  }
  return absl::OkStatus();
}

// What is joined must be comparable.
absl::Status CheckSameQuestion(const JobRows& first, const JobRows& other) {
  const auto refuse = [&](const char* what, const std::string& a, const std::string& b) {
    return InvalidArgument("jobs {} and {} are of different {} and cannot be joined: {} and {}",
                           JobNumber(first.job.name()), JobNumber(other.job.name()), what, a, b);
  };
  if (first.job.kernel_name() != other.job.kernel_name())
    return refuse("kernels", first.job.kernel_name(), other.job.kernel_name());
  if (first.study.problem().key() != other.study.problem().key())
    return refuse("problems", first.study.problem().key(), other.study.problem().key());
  if (first.study.device_class_id() != other.study.device_class_id())
    return refuse("device classes", first.study.device_class_name(), other.study.device_class_name());
  return absl::OkStatus();
}

// As a file of the row would be read: a T4 file and the job that it was exported of are one recording.
RecordedTrial TrialOf(interchange::T4Row row) {
  interchange::RecordedRow recorded;
  recorded.compile_ms = row.compile_ms;
  recorded.framework_ms = row.framework_ms;
  recorded.validation_ms = row.validation_ms;
  recorded.runtimes_ms = std::move(row.runtimes_ms);
  std::optional<double> objective;
  if (row.invalidity == interchange::Invalidity::kCorrect) {
    for (const auto& measurement : row.measurements) {
      if (measurement.name == "time") objective = measurement.value;
    }
  }
  return TrialOf(std::move(row.config), objective, recorded.CostMs());
}

}  // namespace

std::string CoverageNote(const std::string& name, size_t measured, const v1::SpaceSize& space) {
  const std::string count = FormatCount(static_cast<int64_t>(measured));
  if (!space.approximate() && space.valid() == static_cast<int64_t>(measured))
    return fmt::format("{}: all {} valid configs were measured.", name, count);
  return fmt::format(
      "{}: {} of {} valid configs were measured, those that its search chose; the strategies choose among these "
      "alone, so the scores say nothing about the rest of the space.",
      name, count, ValidText(space));
}

absl::StatusOr<RecordedSource> FromFile(Session* session, const std::string& path) {
  ASSIGN_OR_RETURN(std::string bytes, ReadFile(path, interchange::kRecordedBytesMax));
  ASSIGN_OR_RETURN(interchange::RecordedFile file, interchange::ReadRecordedFile(std::move(bytes), path));
  for (const std::string& note : file.notes) session->Note(path + ": " + note);
  RecordedSource source;
  source.name = std::filesystem::path(path).filename().string();
  for (const std::string_view ending : {std::string_view(".gz"), std::string_view(".json")}) {
    if (source.name.size() > ending.size() && source.name.ends_with(ending))
      source.name.resize(source.name.size() - ending.size());
  }
  for (interchange::RecordedRow& row : file.rows) {
    const double cost_ms = row.CostMs();
    source.trials.push_back(TrialOf(std::move(row.config), row.objective, cost_ms));
  }
  FillCosts(&source.trials);
  return source;
}

std::string RecordingName(const std::string& text) {
  const bool is_number = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  return is_number ? "recordings/" + text : text;
}

absl::StatusOr<v1::Recording> FetchRecording(Session* session, const std::string& text) {
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  v1::GetRecordingRequest request;
  request.set_name(RecordingName(text));
  ASSIGN_OR_RETURN(v1::GetRecordingResponse response,
                   Connection::Call(connection->recordings(), &Service::GetRecording, request));
  return std::move(*response.mutable_recording());
}

absl::StatusOr<RecordedSource> FromRecording(Session* session, const std::string& text) {
  ASSIGN_OR_RETURN(const v1::Recording recording, FetchRecording(session, text));
  for (const std::string& note : recording.notes()) session->Note(recording.display_name() + ": " + note);
  ASSIGN_OR_RETURN(const ParameterValues parameters, ValuesOf(recording));
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  RecordedSource source;
  source.name = recording.display_name();
  v1::ListRecordedResultsRequest request;
  request.set_parent(recording.name());
  do {
    ASSIGN_OR_RETURN(const v1::ListRecordedResultsResponse page,
                     Connection::Call(connection->recordings(), &Service::ListRecordedResults, request));
    RETURN_IF_ERROR(AddResults(parameters, page.results(), &source.trials));
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  FillCosts(&source.trials);
  return source;
}

absl::StatusOr<RecordedSource> FromJobs(Session* session, const std::vector<std::string>& jobs, int study) {
  std::vector<JobRows> all;
  for (const std::string& job : jobs) {
    ASSIGN_OR_RETURN(JobRows rows, FetchJobRows(session, job, study, /*finals=*/false));
    if (!all.empty()) RETURN_IF_ERROR(CheckSameQuestion(all.front(), rows));
    all.push_back(std::move(rows));
  }
  RecordedSource source;
  source.name = fmt::format("{} {}", all.front().job.kernel_name(), all.front().study.problem().key());
  const v1::SpaceSize* widest = &all.front().study.space();
  std::map<std::string, size_t> place_of;
  std::vector<std::string> stamps;  // by place; they sort as their times do
  for (JobRows& one : all) {
    if (one.study.space().valid() > widest->valid()) widest = &one.study.space();
    for (interchange::T4Row& row : one.rows) {
      std::string stamp = row.timestamp;
      RecordedTrial trial = TrialOf(std::move(row));
      const auto [at, is_new] = place_of.emplace(trial.config.ToText(), source.trials.size());
      if (is_new) {
        stamps.push_back(std::move(stamp));
        source.trials.push_back(std::move(trial));
      } else if (stamp > stamps[at->second] && trial.result.cost_seconds > 0) {
        // (Without a cost it repeats what an earlier job has measured.)
        stamps[at->second] = std::move(stamp);
        source.trials[at->second] = std::move(trial);
      }
    }
  }
  FillCosts(&source.trials);
  std::string names;
  for (const JobRows& one : all) names += (names.empty() ? "" : ", ") + JobNumber(one.job.name());
  source.note = CoverageNote((all.size() == 1 ? "job " : "jobs ") + names, source.trials.size(), *widest);
  return source;
}

}  // namespace tunefarm::cli
