#include "client/cli/studies/study_trials.h"

#include <fmt/core.h>

#include <chrono>

#include "client/cli/studies/job_names.h"
#include "server/base/clock.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/definition/value_proto.h"

namespace tunefarm::cli {
namespace {

using Kernels = v1::KernelService::StubInterface;
using Studies = v1::StudyService::StubInterface;

// Of a study that goes on more may end while it is read: after this long what is read then is enough.
constexpr std::chrono::seconds kOpenWait{10};

std::string StudyList(const v1::Job& job) {
  constexpr int kShownMax = 20;
  std::string list;
  for (int i = 0; i < job.studies_size() && i < kShownMax; ++i) {
    list += fmt::format("\n  {}  {} on {}", i + 1, job.studies(i).problem().key(), job.studies(i).device_class_name());
  }
  if (job.studies_size() > kShownMax) list += fmt::format("\n  ... and {} more", job.studies_size() - kShownMax);
  return list;
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

absl::StatusOr<v1::StudyCoverage> AwaitTrials(Connection* connection, const v1::Study& study) {
  v1::GetStudyChartRequest request;
  request.set_study(study.name());
  request.set_columns(1);
  request.set_rows(1);
  const MonotonicTime until = Clock::Real()->Now() + kOpenWait;
  while (true) {
    // The daemon lets each call wait for what it reads.
    ASSIGN_OR_RETURN(const v1::GetStudyChartResponse response,
                     Connection::Call(connection->studies(), &Studies::GetStudyChart, request));
    const v1::StudyCoverage& coverage = response.coverage();
    const bool is_enough = coverage.is_open() && coverage.read() >= coverage.stored() && Clock::Real()->Now() >= until;
    if (coverage.is_cut() || !coverage.is_behind() || is_enough) return coverage;
  }
}

std::optional<v1::Kernel> KernelOf(Connection* connection, const v1::Job& job) {
  v1::GetKernelRequest request;
  request.set_name(job.kernel());
  const auto response = Connection::Call(connection->kernels(), &Kernels::GetKernel, request);
  if (!response.ok()) return std::nullopt;
  return response->kernel();
}

}  // namespace tunefarm::cli
