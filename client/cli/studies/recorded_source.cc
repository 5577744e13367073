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
#include "server/interchange/recorded_file.h"

namespace tunefarm::cli {
namespace {

constexpr double kNsPerMs = 1e6;
// What cost nothing: time must pass all the same.
constexpr double kCostSecondsMin = 1e-6;

RecordedTrial TrialOf(Config config, std::optional<double> objective, double cost_ms) {
  RecordedTrial trial;
  trial.config = std::move(config);
  trial.result.cost_seconds = std::max(0.0, cost_ms / 1e3);
  if (objective.has_value() && *objective > 0) {
    trial.result.outcome = ToldOutcome::kOk;
    trial.result.objective_ns = *objective * kNsPerMs;
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
    return measured == 1 ? name + ": the only valid config was measured."
                         : fmt::format("{}: all {} valid configs were measured.", name, count);
  return fmt::format(
      "{}: {} of {} valid configs {} its search chose; the strategies choose among these "
      "alone, so the scores say nothing about the rest of the space.",
      name, count, ValidText(space), measured == 1 ? "was measured, the one that" : "were measured, those that");
}

absl::StatusOr<interchange::RecordedObjective> RecordedObjectiveOption(const std::string& text) {
  if (text.empty()) return interchange::RecordedObjective{};
  absl::StatusOr<interchange::RecordedObjective> objective = interchange::ParseRecordedObjective(text);
  if (!objective.ok()) return Annotate(objective.status(), "--recorded-objective {}", text);
  return objective;
}

void AddRecordedObjectiveOption(CLI::App* command, std::string* text) {
  command
      ->add_option(
          "--recorded-objective", *text,
          "The number of a T4 or cache file that counts, such as energy, with :min or :max where its name does "
          "not tell what is better (default: the file's objective, else time).")
      ->type_name("NAME");
}

absl::StatusOr<RecordedSource> FromFile(Session* session, const std::string& path,
                                        const interchange::RecordedObjective& objective) {
  ASSIGN_OR_RETURN(std::string bytes, ReadFile(path, interchange::kRecordedBytesMax));
  ASSIGN_OR_RETURN(interchange::RecordedFile file, interchange::ReadRecordedFile(std::move(bytes), path, objective));
  for (const std::string& note : file.notes) session->Note(path + ": " + note);
  if (file.is_maximised) {
    session->Note(
        fmt::format("{}: {} is maximised; the numbers of the simulation are its reciprocals.", path, file.objective));
  }
  RecordedSource source;
  source.name = std::filesystem::path(path).filename().string();
  for (const std::string_view ending : {std::string_view(".gz"), std::string_view(".json")}) {
    if (source.name.size() > ending.size() && source.name.ends_with(ending))
      source.name.resize(source.name.size() - ending.size());
  }
  for (interchange::RecordedRow& row : file.rows) {
    const double cost_ms = row.CostMs();
    const std::optional<double> minimised = file.Minimised(row);
    source.trials.push_back(TrialOf(std::move(row.config), minimised, cost_ms));
  }
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
