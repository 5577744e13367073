// What the calls about studies answer, worked out from what has been read. Pure.
//
// Each is INVALID_ARGUMENT (FILTER_INVALID) for a filter that ConditionsOf refuses, and for what it says itself. Where
// nothing has changed since known_revision, only the coverage is answered.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/analysis/importance.h"
#include "server/results/study_data.h"
#include "tunefarm/v1/study_service.pb.h"

namespace tunefarm {

// A study at one time: what has been read of its trials, and what else is known of it.
struct StudyView {
  const StudyData* data = nullptr;  // settled
  // As in v1::StudyCoverage.
  int64_t revision = 0;
  int64_t stored = 0;
  bool is_open = false;
  bool is_cut = false;
  bool is_behind = false;

  std::string name;  // "jobs/{id}/studies/{number}"
  std::string problem_key;
  std::string device_class_name;
  double floor_ns = 0;                       // 0: not known
  std::string baseline_label;                // empty: it has none
  std::vector<std::string> parameter_order;  // of the definition; those that it lacks come last
  int64_t job_started_ms = 0;                // as StudyData::StartMs takes it
};

// InvalidArgument (CHART_SIZE_INVALID) for a number of columns or rows that there cannot be.
absl::StatusOr<v1::GetStudyChartResponse> ChartAnswer(const StudyView& study, const v1::GetStudyChartRequest& request);

// An analysis without the importance of parameters, and what that needs of the study, which may change or go meanwhile.
struct StartedAnalysis {
  v1::AnalyzeStudyResponse response;
  std::optional<ImportanceSample> importance;  // none: it is not asked for
  std::vector<std::string> parameters;         // as Importance counts them
};
absl::StatusOr<StartedAnalysis> StartAnalysis(const StudyView& study, const v1::AnalyzeStudyRequest& request);
// Takes up to a second.
v1::AnalyzeStudyResponse FinishAnalysis(StartedAnalysis analysis);
// Both steps.
absl::StatusOr<v1::AnalyzeStudyResponse> AnalysisAnswer(const StudyView& study, const v1::AnalyzeStudyRequest& request);

// InvalidArgument (FILTER_INVALID) also unless both parameters are known, differ, and have at most 1,000 values
// and 100,000 pairs of them.
absl::StatusOr<v1::GetParameterGridResponse> GridAnswer(const StudyView& study,
                                                        const v1::GetParameterGridRequest& request);

}  // namespace tunefarm
