// The trials of a study as its plot and its analysis read them: fetched page by page and kept small, so that a million
// of them fit.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/connection.h"
#include "server/analysis/outcome_reasons.h"
#include "server/analysis/study_history.h"
#include "tunefarm/v1/job.pb.h"
#include "tunefarm/v1/kernel.pb.h"

namespace tunefarm::cli {

struct StudyTrials {
  v1::Study study;
  StudyHistory history;    // of the search; outcomes are v1::Outcome
  OutcomeReasons reasons;  // of those that are not OK
  int64_t start_ms = 0;    // when the study began, as far as the job and its trials tell
  double final_ns = 0;     // the smallest median of the final; 0: there was none
  bool is_cut = false;     // there were more than kStudyTrialsMax trials
};

inline constexpr size_t kStudyTrialsMax = 1'000'000;

// `job` is the one that the study is of.
absl::StatusOr<StudyTrials> FetchStudyTrials(Connection* connection, const v1::Job& job, const v1::Study& study);

// The studies that are meant: that of `number`, from 1, or with 0 all. NotFound, with a list, for a number that there
// is not.
absl::StatusOr<std::vector<v1::Study>> ChooseStudies(const v1::Job& job, int number);
// Where only one can be: InvalidArgument, with a list, where there are several and none is named.
absl::StatusOr<v1::Study> ChooseStudy(const v1::Job& job, int number);

// DataLoss where a value is none.
absl::StatusOr<Config> ConfigOf(const v1::Config& proto);

// The kernel of a job, without its sources; absent where it cannot be had.
std::optional<v1::Kernel> KernelOf(Connection* connection, const v1::Job& job);

// Parameters of the history in the order of the definition, or in its own where there is none.
std::vector<size_t> ParametersInOrder(const std::optional<v1::Kernel>& kernel, const StudyHistory& history);

// The config of the declared defaults and what the problem pins; absent where the definition leaves one open.
std::optional<Config> DefaultConfigOf(const std::optional<v1::Kernel>& kernel, const v1::Problem& problem);

}  // namespace tunefarm::cli
