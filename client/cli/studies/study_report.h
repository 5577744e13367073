// What the trials of a study say, worked out and as text: results --analyze.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "client/cli/output.h"
#include "client/cli/studies/study_trials.h"
#include "tunefarm/v1/study_analysis.pb.h"

namespace tunefarm::cli {

// A function of the trials and the seed.
v1::StudyAnalysis Analyze(const StudyTrials& trials, const std::optional<v1::Kernel>& kernel, uint64_t seed);

// For people, at most 80 columns wide where the names allow it.
std::string AnalysisText(const v1::StudyAnalysis& analysis);

// All numbers, one a row: study, table, row, column, value.
Table AnalysisRows(const v1::JobAnalysis& analysis);

}  // namespace tunefarm::cli
