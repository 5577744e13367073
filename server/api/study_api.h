// StudyApi: the calls of StudyService, and filtered lists of trials. What the trials of a study show comes from columns
// that are kept in memory (results/study_results.h); calls wait up to 0.1 s for what is read meanwhile.
//
// Thread-safe.
//
// Errors: InvalidArgument (NAME_INVALID, FILTER_INVALID), NotFound (STUDY_NOT_FOUND), Unavailable when the store does
// not answer, DataLoss for a study or a problem that is stored and cannot be read, and what stands at the functions of
// results/study_answers.h.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/base/clock.h"
#include "server/records/kernel_registry.h"
#include "server/results/study_answers.h"
#include "server/results/study_results.h"
#include "server/store/store.h"
#include "tunefarm/v1/study_service.pb.h"
#include "tunefarm/v1/tuning_service.pb.h"

namespace tunefarm {

class StudyApi {
 public:
  // All outlive it.
  StudyApi(Store* store, KernelRegistry* kernels, Clock* clock)
      : store_(store), kernels_(kernels), results_(store, clock) {}

  absl::StatusOr<v1::GetStudyChartResponse> GetStudyChart(const v1::GetStudyChartRequest& request);
  absl::StatusOr<v1::AnalyzeStudyResponse> AnalyzeStudy(const v1::AnalyzeStudyRequest& request);
  absl::StatusOr<v1::GetParameterGridResponse> GetParameterGrid(const v1::GetParameterGridRequest& request);
  // TuningService/ListTrials with a filter. InvalidArgument also for PAGE_SIZE_INVALID and PAGE_TOKEN_INVALID.
  absl::StatusOr<v1::ListTrialsResponse> ListTrials(const v1::ListTrialsRequest& request);

 private:
  absl::Status Look(const std::string& name,
                    const std::function<absl::Status(int64_t study_id, const StudyView& study)>& answer);

  Store* const store_;
  KernelRegistry* const kernels_;
  StudyResults results_;
};

}  // namespace tunefarm
