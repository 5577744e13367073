#include "client/cli/studies/job_rows.h"

#include <fmt/core.h>

#include <algorithm>
#include <ctime>
#include <map>

#include "client/cli/studies/job_names.h"
#include "client/cli/studies/study_trials.h"
#include "client/cli/studies/trial_pages.h"
#include "server/base/status_macros.h"

namespace tunefarm::cli {
namespace {

using Tuning = v1::TuningService::StubInterface;
using interchange::Invalidity;
using interchange::T4Row;

constexpr size_t kTrialsMax = 1'000'000;
constexpr double kMsPerNs = 1e-6;

Invalidity InvalidityOf(v1::Outcome outcome) {
  switch (outcome) {
    case v1::OUTCOME_OK:
    case v1::OUTCOME_NOISY:
      return Invalidity::kCorrect;
    case v1::OUTCOME_PRUNED:
      return Invalidity::kConstraints;
    case v1::OUTCOME_COMPILE_ERROR:
    case v1::OUTCOME_COMPILE_CRASH:
      return Invalidity::kCompile;
    case v1::OUTCOME_COMPILE_TIMEOUT:
    case v1::OUTCOME_RUN_TIMEOUT:
      return Invalidity::kTimeout;
    case v1::OUTCOME_WRONG_RESULT:
    case v1::OUTCOME_OUT_OF_BOUNDS:
      return Invalidity::kCorrectness;
    default:
      return Invalidity::kRuntime;
  }
}

// "2026-11-21 09:54:05.123000+00:00", as Python writes it.
std::string TimestampOf(int64_t wall_ms) {
  const time_t seconds = wall_ms / 1000;
  tm parts{};
  if (gmtime_r(&seconds, &parts) == nullptr) return "";
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02}.{:03}000+00:00", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, wall_ms % 1000);
}

// Of a finalist; nothing where it was not measured.
void AddEnergy(const v1::Energy& energy, T4Row* row) {
  if (energy.millijoules() <= 0) return;
  // A final may have begun again: its last one counts.
  std::erase_if(row->measurements, [](const auto& measurement) {
    return measurement.name.starts_with("energy") || measurement.name == "power" || measurement.name == "idle_power";
  });
  row->measurements.push_back({"energy", energy.millijoules(), "mJ"});
  row->measurements.push_back({"energy_ci_low", energy.ci_low_millijoules(), "mJ"});
  row->measurements.push_back({"energy_ci_high", energy.ci_high_millijoules(), "mJ"});
  row->measurements.push_back({"power", energy.power_watts(), "W"});
  row->measurements.push_back({"idle_power", energy.idle_power_watts(), "W"});
}

absl::StatusOr<T4Row> RowOf(const v1::Trial& trial) {
  T4Row row;
  row.timestamp = TimestampOf(trial.ended_at_ms());
  ASSIGN_OR_RETURN(row.config, ConfigOf(trial.config()));
  row.invalidity = InvalidityOf(trial.outcome());
  const v1::Verification& check = trial.verification();
  row.correctness = row.invalidity == Invalidity::kCorrect ? 1 : 0;
  if (row.invalidity == Invalidity::kCorrectness && check.elements() > 0) {
    row.correctness = 1 - static_cast<double>(check.mismatches()) / static_cast<double>(check.elements());
  }
  row.compile_ms = trial.compile_ms();
  row.framework_ms = trial.run_ms();
  const v1::Measurement& measured = trial.measurement();
  for (const float sample : measured.sample_ns()) row.runtimes_ms.push_back(static_cast<double>(sample) * kMsPerNs);
  if (row.invalidity == Invalidity::kCorrect && trial.has_measurement()) {
    // Where the samples were not kept their median stands for them.
    if (row.runtimes_ms.empty()) row.runtimes_ms.push_back(measured.median_ns() * kMsPerNs);
    row.measurements = {{"time", measured.median_ns() * kMsPerNs, "ms"},
                        {"time_ci_low", measured.ci_low_ns() * kMsPerNs, "ms"},
                        {"time_ci_high", measured.ci_high_ns() * kMsPerNs, "ms"},
                        {"time_mean", measured.mean_ns() * kMsPerNs, "ms"},
                        {"time_stdev", measured.stdev_ns() * kMsPerNs, "ms"},
                        {"samples", static_cast<double>(measured.samples()), ""}};
    if (measured.clock_mhz() > 0)
      row.measurements.push_back({"clock", static_cast<double>(measured.clock_mhz()), "MHz"});
    AddEnergy(measured.energy(), &row);
  }
  if (trial.has_resources() && trial.resources().registers() > 0) {
    row.measurements.push_back({"registers", static_cast<double>(trial.resources().registers()), ""});
  }
  // What the run took besides the runtimes, which T4 counts apart.
  for (const double runtime : row.runtimes_ms) row.framework_ms = std::max(0.0, row.framework_ms - runtime);
  return row;
}

// The order of the definition; that of the names where it cannot be had.
std::vector<std::string> ParameterOrder(Connection* connection, const v1::Job& job, const std::vector<T4Row>& rows) {
  std::vector<std::string> names;
  if (const std::optional<v1::Kernel> kernel = KernelOf(connection, job)) {
    for (const v1::Parameter& parameter : kernel->parameters()) names.push_back(parameter.name());
  } else if (!rows.empty()) {
    for (const auto& [name, value] : rows[0].config) names.push_back(name);
  }
  return names;
}

}  // namespace

absl::StatusOr<JobRows> FetchJobRows(Session* session, const std::string& job_text, int number, bool finals) {
  ASSIGN_OR_RETURN(const std::string name, JobName(job_text));
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  v1::GetJobRequest get;
  get.set_name(name);
  ASSIGN_OR_RETURN(const v1::GetJobResponse job, Connection::Call(connection->tuning(), &Tuning::GetJob, get));
  ASSIGN_OR_RETURN(const v1::Study study, ChooseStudy(job.job(), number));
  v1::ListTrialsRequest list;
  list.set_parent(study.name());
  // One row for a config: its final where it had one and that is asked for, else its search with the energy of its
  // final, which nothing else measures.
  std::vector<T4Row> rows;
  std::map<std::string, size_t> row_of;
  RETURN_IF_ERROR(ForEachTrial(session, list, [&](v1::Trial* trial) -> absl::StatusOr<bool> {
    const bool is_final = trial->purpose() == v1::TRIAL_PURPOSE_FINALIST;
    if (trial->purpose() == v1::TRIAL_PURPOSE_BASELINE) return true;
    if (is_final && !finals) {
      if (trial->outcome() != v1::OUTCOME_OK || trial->measurement().energy().millijoules() <= 0) return true;
      ASSIGN_OR_RETURN(const Config config, ConfigOf(trial->config()));
      const auto searched = row_of.find(config.ToText());
      if (searched != row_of.end()) AddEnergy(trial->measurement().energy(), &rows[searched->second]);
      return true;
    }
    if (trial->outcome() == v1::OUTCOME_UNSPECIFIED || trial->outcome() == v1::OUTCOME_LOST) return true;
    ASSIGN_OR_RETURN(T4Row row, RowOf(*trial));
    const auto [at, is_new] = row_of.emplace(row.config.ToText(), rows.size());
    if (is_new) {
      rows.push_back(std::move(row));
    } else {
      rows[at->second] = std::move(row);
    }
    return rows.size() < kTrialsMax;
  }));
  return JobRows{job.job(), study, ParameterOrder(connection, job.job(), rows), std::move(rows)};
}

}  // namespace tunefarm::cli
