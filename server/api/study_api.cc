#include "server/api/study_api.h"

#include <fmt/core.h>

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/definition/kernel_plan.h"
#include "server/definition/value_proto.h"
#include "server/records/resource_names.h"
#include "server/records/trial_rows.h"
#include "server/results/trial_filter.h"
#include "server/results/trial_list.h"
#include "server/store/job_store.h"
#include "server/store/trial_store.h"

namespace tunefarm {
namespace {

absl::Status NoStudy(const std::string& name) {
  return WithReason(NotFound("there is no study '{}'; its job may have been deleted", name), "STUDY_NOT_FOUND");
}

// What the definition says, where there still is one.
absl::Status AddDefinition(KernelRegistry* kernels, const std::string& kernel_id, const v1::Problem& problem,
                           KnownStudy* known, StudyView* view) {
  const absl::StatusOr<std::shared_ptr<const KernelPlan>> plan = kernels->GetById(kernel_id);
  if (ReasonOf(plan.status()) == "KERNEL_DELETED") return absl::OkStatus();
  RETURN_IF_ERROR(plan.status());
  for (const v1::Parameter& parameter : (*plan)->kernel().parameters()) {
    view->parameter_order.push_back(parameter.name());
    known->types.emplace(parameter.name(), definition::FromProto(parameter.type()));
  }
  view->baseline_label = (*plan)->kernel().baseline().label();
  ASSIGN_OR_RETURN(const ResolvedProblem resolved, (*plan)->ResolveProblem(problem));
  known->default_config = (*plan)->DefaultConfig(resolved).ToText();
  return absl::OkStatus();
}

}  // namespace

absl::Status StudyApi::Look(const std::string& name,
                            const std::function<absl::Status(int64_t study_id, const StudyView& study)>& answer) {
  ASSIGN_OR_RETURN(const StudyName parsed, ParseJobOrStudyName(name));
  if (parsed.number == 0) {
    return WithReason(InvalidArgument("'{}' is a job, not a study; write {}", name, StudyNameOf(parsed.job_id, 1)),
                      "NAME_INVALID");
  }
  const absl::StatusOr<JobRow> job = store_->jobs()->GetJob(parsed.job_id);
  if (absl::IsNotFound(job.status())) return NoStudy(name);
  RETURN_IF_ERROR(job.status());
  for (const StudyRow& row : job->studies) {
    if (row.number != parsed.number) continue;
    v1::Study study;
    if (!study.ParseFromString(row.detail)) return DataLoss("{} cannot be read", name);
    v1::Problem problem;
    if (!problem.ParseFromString(row.problem)) return DataLoss("the problem of {} cannot be read", name);
    KnownStudy known;
    known.job_id = parsed.job_id;
    known.study_id = row.study_id;
    known.is_open = row.state != StudyState::kEnded && !IsTerminal(job->state);
    StudyView view;
    view.is_open = known.is_open;
    view.name = StudyNameOf(parsed.job_id, parsed.number);
    view.problem_key = row.problem_key;
    view.device_class_name = study.device_class_name();
    view.floor_ns = study.floor_ns();
    view.job_started_ms = job->studies.size() == 1 ? job->started_at_ms : 0;
    RETURN_IF_ERROR(AddDefinition(kernels_, job->kernel_id, problem, &known, &view));
    return results_.Read(known, [&](const StudyReading& reading) {
      view.data = reading.data;
      view.revision = reading.revision;
      view.stored = reading.stored;
      view.is_cut = reading.is_cut;
      view.is_behind = reading.is_behind;
      return answer(row.study_id, view);
    });
  }
  return NoStudy(name);
}

absl::StatusOr<v1::GetStudyChartResponse> StudyApi::GetStudyChart(const v1::GetStudyChartRequest& request) {
  v1::GetStudyChartResponse response;
  RETURN_IF_ERROR(Look(request.study(), [&](int64_t /*study_id*/, const StudyView& study) {
    ASSIGN_OR_RETURN(response, ChartAnswer(study, request));
    return absl::OkStatus();
  }));
  return response;
}

absl::StatusOr<v1::AnalyzeStudyResponse> StudyApi::AnalyzeStudy(const v1::AnalyzeStudyRequest& request) {
  StartedAnalysis started;
  RETURN_IF_ERROR(Look(request.study(), [&](int64_t /*study_id*/, const StudyView& study) {
    ASSIGN_OR_RETURN(started, StartAnalysis(study, request));
    return absl::OkStatus();
  }));
  // Not within Look, where nothing new of the study is read.
  return FinishAnalysis(std::move(started));
}

absl::StatusOr<v1::GetParameterGridResponse> StudyApi::GetParameterGrid(const v1::GetParameterGridRequest& request) {
  v1::GetParameterGridResponse response;
  RETURN_IF_ERROR(Look(request.study(), [&](int64_t /*study_id*/, const StudyView& study) {
    ASSIGN_OR_RETURN(response, GridAnswer(study, request));
    return absl::OkStatus();
  }));
  return response;
}

absl::StatusOr<v1::ListTrialsResponse> StudyApi::ListTrials(const v1::ListTrialsRequest& request) {
  if (request.outcomes_size() > 0 || request.purpose() != v1::TRIAL_PURPOSE_UNSPECIFIED) {
    return WithReason(InvalidArgument("beside a filter there can be no outcomes and no purpose; set filter.outcomes"),
                      "FILTER_INVALID");
  }
  PageRequest page;
  ASSIGN_OR_RETURN(page.page_size, PageSize(request.page_size()));
  page.page_token = request.page_token();
  const std::string identity = fmt::format("filtered trials {} {} {}", request.parent(), request.order_by_time(),
                                           request.filter().SerializeAsString());
  v1::ListTrialsResponse response;
  int64_t study_id = 0;
  std::string name;
  TrialPage trials;
  RETURN_IF_ERROR(Look(request.parent(), [&](int64_t id, const StudyView& study) {
    const StudyColumns& columns = study.data->columns();
    ASSIGN_OR_RETURN(const TrialConditions conditions,
                     ConditionsOf(request.filter(), columns, study.data->StartMs(study.job_started_ms)));
    const Selection selected(columns, conditions);
    response.set_matching(static_cast<int64_t>(selected.size()));
    ASSIGN_OR_RETURN(trials, PageOf(selected, request.order_by_time(), page, identity));
    study_id = id;
    name = study.name;
    return absl::OkStatus();
  }));
  ASSIGN_OR_RETURN(std::vector<TrialRow> rows, store_->trials()->GetTrials(study_id, trials.ordinals));
  std::map<int64_t, const TrialRow*> by_ordinal;
  for (const TrialRow& row : rows) by_ordinal.emplace(row.ordinal, &row);
  for (const int64_t ordinal : trials.ordinals) {
    const auto row = by_ordinal.find(ordinal);
    if (row == by_ordinal.end()) continue;  // its job was deleted just now
    AddToPage(*row->second, fmt::format("{}/trials/{}", name, ordinal), &response);
  }
  response.set_next_page_token(trials.next_page_token);
  return response;
}

}  // namespace tunefarm
