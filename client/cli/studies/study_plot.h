// The picture of a study's search: every trial, the best so far, and what it is held against.
#pragma once

#include <optional>

#include "client/cli/studies/chart_svg.h"
#include "client/cli/studies/study_trials.h"

namespace tunefarm::cli {

// Two panels over one axis of times: against evaluations and against the time since the study began. Failed trials are
// ticks at the upper edge, a row for each outcome. `defaults` is the config whose time is drawn as a line where it was
// tried.
Chart StudyChart(const v1::Job& job, const StudyTrials& trials, const std::optional<Config>& defaults);

}  // namespace tunefarm::cli
