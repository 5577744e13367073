#include "client/cli/studies/study_trials.h"

#include <fmt/core.h>

#include <algorithm>

#include "client/cli/studies/job_names.h"
#include "client/cli/studies/trial_pages.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/definition/value_proto.h"

namespace tunefarm::cli {
namespace {

using Kernels = v1::KernelService::StubInterface;

std::string StudyList(const v1::Job& job) {
  constexpr int kShownMax = 20;
  std::string list;
  for (int i = 0; i < job.studies_size() && i < kShownMax; ++i) {
    list += fmt::format("\n  {}  {} on {}", i + 1, job.studies(i).problem().key(), job.studies(i).device_class_name());
  }
  if (job.studies_size() > kShownMax) list += fmt::format("\n  ... and {} more", job.studies_size() - kShownMax);
  return list;
}

bool IsOfSearch(const v1::Trial& trial) {
  return trial.purpose() != v1::TRIAL_PURPOSE_BASELINE && trial.purpose() != v1::TRIAL_PURPOSE_FINALIST;
}

// A study that is not the job's only one begins with its first trial, the others' time is not its own.
int64_t StartOf(const v1::Job& job, int64_t first_began_ms) {
  const bool has_start = job.started_at_ms() > 0 && job.started_at_ms() <= first_began_ms;
  return has_start && job.studies_size() == 1 ? job.started_at_ms() : first_began_ms;
}

}  // namespace

absl::StatusOr<std::vector<v1::Study>> ChooseStudies(const v1::Job& job, int number) {
  if (number == 0) return std::vector<v1::Study>(job.studies().begin(), job.studies().end());
  if (number <= job.studies_size()) return std::vector<v1::Study>{job.studies(number - 1)};
  return NotFound("job {} has no study {}:{}", JobNumber(job.name()), number, StudyList(job));
}

absl::StatusOr<v1::Study> ChooseStudy(const v1::Job& job, int number) {
  ASSIGN_OR_RETURN(const std::vector<v1::Study> studies, ChooseStudies(job, number));
  if (studies.size() == 1) return studies[0];
  return InvalidArgument("job {} has {} studies; choose one with --study:{}", JobNumber(job.name()), studies.size(),
                         StudyList(job));
}

absl::StatusOr<Config> ConfigOf(const v1::Config& proto) {
  Config config;
  for (const auto& [name, value] : proto.values()) {
    const absl::StatusOr<Value> read = definition::FromProto(value);
    if (!read.ok()) return DataLoss("parameter {} of a trial: {}", name, MessageOf(read.status()));
    config.Set(name, *read);
  }
  return config;
}

absl::StatusOr<StudyTrials> FetchStudyTrials(Connection* connection, const v1::Job& job, const v1::Study& study) {
  StudyTrials result;
  result.study = study;
  v1::ListTrialsRequest request;
  request.set_parent(study.name());
  int64_t first_began_ms = INT64_MAX;
  RETURN_IF_ERROR(ForEachTrial(connection, request, [&](v1::Trial* trial) -> absl::StatusOr<bool> {
    const bool is_ok = trial->outcome() == v1::OUTCOME_OK;
    const double median_ns = trial->measurement().median_ns();
    if (trial->purpose() == v1::TRIAL_PURPOSE_FINALIST && is_ok && median_ns > 0) {
      result.final_ns = result.final_ns > 0 ? std::min(result.final_ns, median_ns) : median_ns;
    }
    if (!IsOfSearch(*trial)) return true;
    if (trial->outcome() == v1::OUTCOME_UNSPECIFIED || trial->outcome() == v1::OUTCOME_LOST) return true;
    if (result.history.size() == kStudyTrialsMax) {
      result.is_cut = true;
      return false;
    }
    ASSIGN_OR_RETURN(const Config config, ConfigOf(trial->config()));
    RETURN_IF_ERROR(result.history.Add(trial->ordinal(), trial->ended_at_ms(), static_cast<int>(trial->outcome()),
                                       config, is_ok ? std::optional<double>(median_ns) : std::nullopt));
    if (!is_ok) result.reasons.Add(static_cast<int>(trial->outcome()), trial->message(), trial->ordinal());
    const auto took_ms = static_cast<int64_t>(trial->compile_ms() + trial->run_ms());
    first_began_ms = std::min(first_began_ms, trial->ended_at_ms() - took_ms);
    return true;
  }));
  result.history.Settle();
  if (result.history.size() > 0) result.start_ms = StartOf(job, first_began_ms);
  return result;
}

std::optional<v1::Kernel> KernelOf(Connection* connection, const v1::Job& job) {
  v1::GetKernelRequest request;
  request.set_name(job.kernel());
  const auto response = Connection::Call(connection->kernels(), &Kernels::GetKernel, request);
  if (!response.ok()) return std::nullopt;
  return response->kernel();
}

std::vector<size_t> ParametersInOrder(const std::optional<v1::Kernel>& kernel, const StudyHistory& history) {
  std::vector<size_t> order;
  const auto add = [&](const std::string& name) {
    for (size_t p = 0; p < history.parameter_count(); ++p) {
      if (history.parameter_name(p) == name && std::find(order.begin(), order.end(), p) == order.end())
        order.push_back(p);
    }
  };
  if (kernel.has_value()) {
    for (const v1::Parameter& parameter : kernel->parameters()) add(parameter.name());
  }
  for (size_t p = 0; p < history.parameter_count(); ++p) add(history.parameter_name(p));
  return order;
}

std::optional<Config> DefaultConfigOf(const std::optional<v1::Kernel>& kernel, const v1::Problem& problem) {
  if (!kernel.has_value() || kernel->parameters().empty()) return std::nullopt;
  v1::Config defaults;
  for (const v1::Parameter& parameter : kernel->parameters()) {
    const auto pinned = problem.pinned().find(parameter.name());
    if (pinned != problem.pinned().end()) {
      (*defaults.mutable_values())[parameter.name()] = pinned->second;
    } else if (parameter.has_default_value()) {
      (*defaults.mutable_values())[parameter.name()] = parameter.default_value();
    } else {
      return std::nullopt;
    }
  }
  absl::StatusOr<Config> config = ConfigOf(defaults);
  if (!config.ok()) return std::nullopt;
  return *std::move(config);
}

}  // namespace tunefarm::cli
