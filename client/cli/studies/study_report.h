// What the trials of a study say, as text: results --analyze.
#pragma once

#include <string>

#include "client/cli/output.h"
#include "tunefarm/v1/study_analysis.pb.h"

namespace tunefarm::cli {

// For people, at most 80 columns wide where the names allow it.
std::string AnalysisText(const v1::StudyAnalysis& analysis);

// All numbers, one a row: study, table, row, column, value.
Table AnalysisRows(const v1::JobAnalysis& analysis);

}  // namespace tunefarm::cli
