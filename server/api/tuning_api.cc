#include "server/api/tuning_api.h"

#include <fmt/core.h>

#include <optional>
#include <utility>
#include <vector>

#include "server/api/data_file_api.h"
#include "server/api/response_of.h"
#include "server/base/failpoint.h"
#include "server/base/hash.h"
#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/definition/kernel_plan.h"
#include "server/jobs/job_view.h"
#include "server/jobs/submission.h"
#include "server/records/resource_names.h"
#include "server/records/trial_rows.h"
#include "server/store/job_store.h"
#include "server/store/trial_store.h"

namespace tunefarm {
namespace {

// Studies whose times are looked up for a list of jobs: some 5 ms on SQLite, 50 ms on PostgreSQL. Few need it: those of
// cancelled jobs, and of jobs that other daemons drive.
constexpr int kStudiesLookedUpMax = 64;

// Under what the store keeps a request_id: two principals may choose the same one, and neither learns of the other's
// job by it.
std::string RequestKey(const Principal& principal, const std::string& request_id) {
  if (request_id.empty()) return "";
  return Sha256(fmt::format("{}\n{}\n{}", PrincipalKindName(principal.kind), principal.name, request_id)).Hex();
}

}  // namespace

TuningApi::TuningApi(const Dependencies& dependencies, WorkerAbilities abilities, const JobLimits& limits)
    : deps_(dependencies),
      abilities_(std::move(abilities)),
      kernel_quota_(limits.kernels),
      quota_(deps_.store, deps_.scheduler, limits, deps_.clock) {}

absl::StatusOr<v1::Job> TuningApi::Find(int64_t job_id) const {
  return FindJob(deps_.store, deps_.kernels, *deps_.scheduler, job_id);
}

absl::Status TuningApi::CheckLanguage(const KernelPlan& plan) const {
  if (!NeedsInterpreter(plan.language()) || abilities_.runs_python) return absl::OkStatus();
  return WithReason(FailedPrecondition(
                        "kernel '{}' is written in {}, which this daemon does not run: for a private daemon run "
                        "tunefarm stop, then tunefarm tune KERNEL --python /usr/bin/python3; else write "
                        "python_interpreter = \"/usr/bin/python3\" into the file of tunefarmd --config and restart it. "
                        "tunefarm doctor reports why an interpreter is not used",
                        plan.display_name(), plan.language() == v1::LANGUAGE_TRITON ? "Triton" : "Python"),
                    "PYTHON_DISABLED");
}

absl::Status TuningApi::CheckTriton(const KernelPlan& plan, const std::string& class_id,
                                    const std::string& name) const {
  if (plan.language() != v1::LANGUAGE_TRITON || !deps_.devices->LacksTriton(class_id, name)) return absl::OkStatus();
  return WithReason(
      FailedPrecondition("kernel '{}' needs Triton, and where {} takes work no interpreter has a release of it that is "
                         "known: install one for the interpreter, and restart the daemon or agent there; tunefarm "
                         "doctor and the agent's log name the release",
                         plan.display_name(), class_id.empty() ? "a GPU" : "a device of " + class_id),
      "TRITON_MISSING");
}

absl::Status TuningApi::CheckMayRun(const v1::Job& job) const {
  RETURN_IF_ERROR(CheckIsolation(abilities_.isolation, job.required_isolation()));
  if (abilities_.runs_python && !deps_.devices->LacksTriton("", "")) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::shared_ptr<const KernelPlan> plan, deps_.kernels->Get(job.kernel()));
  RETURN_IF_ERROR(CheckLanguage(*plan));
  return CheckTriton(*plan, "", "");
}

absl::Status TuningApi::PauseWhatCannotRun() {
  if (CheckIsolation(abilities_.isolation, "L1").ok() && abilities_.runs_python &&
      !deps_.devices->LacksTriton("", "")) {
    return absl::OkStatus();
  }
  v1::ListJobsRequest request;
  request.add_states(v1::JOB_STATE_QUEUED);
  request.add_states(v1::JOB_STATE_RUNNING);
  request.set_page_size(1000);
  do {
    ASSIGN_OR_RETURN(const v1::ListJobsResponse jobs, ListJobs(request));
    for (const v1::Job& job : jobs.jobs()) {
      const absl::Status may_run = CheckMayRun(job);
      if (may_run.ok()) continue;
      LogWarn("jobs", "{} is paused: {}", job.name(), MessageOf(may_run));
      v1::PauseJobRequest pause;
      pause.set_name(job.name());
      RETURN_IF_ERROR(PauseJob(pause).status());
    }
    request.set_page_token(jobs.next_page_token());
  } while (!request.page_token().empty());
  return absl::OkStatus();
}

// ---- Jobs ----

absl::StatusOr<v1::CreateJobResponse> TuningApi::CreateJob(const Principal& principal,
                                                           const v1::CreateJobRequest& request,
                                                           const WorkGrant& grant) {
  RETURN_IF_ERROR(deps_.calls->CheckNotEnding());
  if (request.has_kernel_definition()) {
    // A definition is code that is compiled and run.
    RETURN_IF_ERROR(CheckRight(principal, Right::kKernels, "submit a kernel with a job"));
  }
  const bool is_local_socket = principal.IsOfSocket();
  const bool counts = !is_local_socket && !request.validate_only();
  ASSIGN_OR_RETURN(JobQuota::Place place, quota_.Take(counts ? &principal : nullptr));
  v1::CreateJobResponse response;
  ASSIGN_OR_RETURN(*response.mutable_job(), Submit(request, principal, &place, grant));
  return response;
}

absl::StatusOr<v1::Job> TuningApi::Submit(const v1::CreateJobRequest& request, const Principal& principal,
                                          JobQuota::Place* place, const WorkGrant& grant) {
  const v1::Job& job = request.job();
  if (request.request_id().size() > 64) {
    return WithReason(
        InvalidArgument("the request_id has {} bytes, at most 64 are allowed", request.request_id().size()),
        "JOB_INVALID");
  }
  RETURN_IF_ERROR(CheckIsolation(abilities_.isolation, job.required_isolation()));
  if (!job.kernel().empty() && job.kernel().rfind("kernels/", 0) != 0) {
    RETURN_IF_ERROR(deps_.kernels->FollowName(job.kernel()));
  }
  std::optional<v1::Kernel> definition;
  if (request.has_kernel_definition()) definition = request.kernel_definition();
  ASSIGN_OR_RETURN(Submission submission, CheckSubmission(job, definition, deps_.kernels, *deps_.devices, grant));
  RETURN_IF_ERROR(CheckLanguage(*submission.plan));
  for (const StudyRow& study : submission.studies) {
    RETURN_IF_ERROR(CheckTriton(*submission.plan, study.class_id, study.device_selector));
  }
  if (!principal.IsOfSocket()) submission.spec.set_submitted_by(principal.name);
  if (const std::string reason = deps_.scheduler->suspended(); !reason.empty()) {
    return WithReason(ResourceExhausted("no new jobs are taken: {}", reason), "LOW_SPACE");
  }
  if (request.validate_only()) {
    for (const StudyRow& row : submission.studies) submission.spec.add_studies()->ParseFromString(row.detail);
    return std::move(submission.spec);
  }
  RETURN_IF_ERROR(CheckDataFiles(submission.plan->kernel(), deps_.data_files));
  SubmitRequest submit;
  submit.now_ms = deps_.clock->WallMs();
  submit.job.uid = NewUuid(deps_.entropy);
  submit.job.kernel_id = submission.plan->kernel_id();
  submit.job.spec = submission.spec.SerializeAsString();
  submit.job.label = submission.spec.label();
  submit.job.submitted_by = submission.spec.submitted_by();
  submit.job.priority = submission.spec.priority();
  submit.job.created_at_ms = submit.now_ms;
  submit.job.studies = std::move(submission.studies);
  if (submission.stores_kernel) {
    submit.kernel = OwnedKernel(*submission.plan, KernelOwner(principal), kernel_quota_, submit.now_ms);
  }
  submit.request_id = RequestKey(principal, request.request_id());
  submit.body_digest = SubmissionDigest(job, definition);
  ASSIGN_OR_RETURN(const SubmitResult result, deps_.store->jobs()->SubmitJob(submit));
  if (!result.was_duplicate) place->Stored(result.job_id);
  PassFailpoint("jobs.submit.stored");
  if (submission.stores_kernel) deps_.kernels->Stored(submission.plan);
  deps_.node_watch->AskNow();  // adopts it
  return Find(result.job_id);
}

absl::StatusOr<v1::GetJobResponse> TuningApi::GetJob(const v1::GetJobRequest& request) {
  ASSIGN_OR_RETURN(const int64_t job_id, ParseJobName(request.name()));
  return ResponseOf(Find(job_id), &v1::GetJobResponse::mutable_job);
}

std::optional<v1::GetJobResponse> TuningApi::GetDrivenJob(const v1::GetJobRequest& request) const {
  const absl::StatusOr<int64_t> job_id = ParseJobName(request.name());
  if (!job_id.ok()) return std::nullopt;
  std::optional<v1::Job> driven = deps_.scheduler->Find(*job_id);
  if (!driven.has_value()) return std::nullopt;
  v1::GetJobResponse response;
  *response.mutable_job() = *std::move(driven);
  return response;
}

absl::StatusOr<v1::ListJobsResponse> TuningApi::ListJobs(const v1::ListJobsRequest& request) {
  ASSIGN_OR_RETURN(const int size, PageSize(request.page_size()));
  std::vector<JobState> states;
  for (const int state : request.states()) {
    ASSIGN_OR_RETURN(const JobState known, FromProto(static_cast<v1::JobState>(state)));
    states.push_back(known);
  }
  ASSIGN_OR_RETURN(const Page<JobRow> page,
                   deps_.store->jobs()->ListJobs(
                       states, {size, request.page_token()},
                       {request.kernel_name(), request.label(), request.submitted_by(), request.device_class_id()}));
  v1::ListJobsResponse response;
  int look_ups_left = kStudiesLookedUpMax;
  for (const JobRow& row : page.rows) {
    if (auto active = deps_.scheduler->FindSummary(row.job_id)) {
      *response.add_jobs() = *std::move(active);
      continue;
    }
    ASSIGN_OR_RETURN(*response.add_jobs(), StoredJobSummary(deps_.store, deps_.kernels, row, &look_ups_left));
  }
  response.set_next_page_token(page.next_page_token);
  return response;
}

absl::StatusOr<v1::CancelJobResponse> TuningApi::CancelJob(const v1::CancelJobRequest& request) {
  ASSIGN_OR_RETURN(const int64_t job_id, ParseJobName(request.name()));
  RETURN_IF_ERROR(WithJobName(deps_.scheduler->Cancel(job_id), request.name()));
  // A job that was left to newer daemons may be cancelled by any.
  if (!deps_.scheduler->Drives(job_id)) deps_.node_watch->AskNow();
  return ResponseOf(Find(job_id), &v1::CancelJobResponse::mutable_job);
}

absl::StatusOr<v1::PauseJobResponse> TuningApi::PauseJob(const v1::PauseJobRequest& request) {
  ASSIGN_OR_RETURN(const int64_t job_id, ParseJobName(request.name()));
  RETURN_IF_ERROR(WithJobName(deps_.scheduler->Pause(job_id), request.name()));
  return ResponseOf(Find(job_id), &v1::PauseJobResponse::mutable_job);
}

absl::StatusOr<v1::ResumeJobResponse> TuningApi::ResumeJob(const v1::ResumeJobRequest& request) {
  ASSIGN_OR_RETURN(const int64_t job_id, ParseJobName(request.name()));
  ASSIGN_OR_RETURN(const v1::Job job, Find(job_id));
  RETURN_IF_ERROR(CheckMayRun(job));
  RETURN_IF_ERROR(WithJobName(deps_.scheduler->Resume(job_id), request.name()));
  return ResponseOf(Find(job_id), &v1::ResumeJobResponse::mutable_job);
}

absl::StatusOr<v1::DeleteJobResponse> TuningApi::DeleteJob(const v1::DeleteJobRequest& request) {
  ASSIGN_OR_RETURN(const int64_t job_id, ParseJobName(request.name()));
  const absl::Status deleted = deps_.store->jobs()->DeleteJob(job_id);
  if (absl::IsFailedPrecondition(deleted)) {
    return WithReason(FailedPrecondition("{} has not ended; cancel it first", request.name()), "JOB_STATE");
  }
  RETURN_IF_ERROR(WithJobName(deleted, request.name()));
  return v1::DeleteJobResponse();
}

absl::StatusOr<std::unique_ptr<WatchSubscription>> TuningApi::WatchJob(const v1::WatchJobRequest& request,
                                                                       std::function<void(const v1::JobEvent&)> sink,
                                                                       std::function<void(absl::Status)> end) {
  RETURN_IF_ERROR(deps_.calls->CheckNotEnding());
  ASSIGN_OR_RETURN(const int64_t job_id, ParseJobName(request.name()));
  const absl::StatusOr<JobRow> row = deps_.store->jobs()->GetJob(job_id);
  if (!row.ok()) return WithJobName(row.status(), request.name());
  return deps_.events->Watch(job_id, request.after_event_id(), IsTerminal(row->state), std::move(sink), std::move(end));
}

// ---- Trials ----

absl::StatusOr<v1::ListTrialsResponse> TuningApi::ListTrials(const v1::ListTrialsRequest& request) {
  if (request.has_filter()) return deps_.studies->ListTrials(request);
  ASSIGN_OR_RETURN(const StudyName parent, ParseJobOrStudyName(request.parent()));
  TrialQuery query;
  query.job_id = parent.job_id;
  query.study_number = parent.number;
  query.order_by_time = request.order_by_time();
  query.outcomes.assign(request.outcomes().begin(), request.outcomes().end());
  query.purpose = request.purpose();
  ASSIGN_OR_RETURN(query.page.page_size, PageSize(request.page_size()));
  query.page.page_token = request.page_token();
  const absl::StatusOr<JobRow> job = deps_.store->jobs()->GetJob(parent.job_id);
  if (!job.ok()) return WithJobName(job.status(), JobName(parent.job_id));
  ASSIGN_OR_RETURN(const Page<TrialRow> page, deps_.store->trials()->ListTrials(query));
  v1::ListTrialsResponse response;
  for (const TrialRow& row : page.rows) {
    std::string name;
    for (const StudyRow& study : job->studies) {
      if (study.study_id == row.study_id) name = TrialNameOf(parent.job_id, study.number, row.ordinal);
    }
    AddToPage(row, std::move(name), &response);
  }
  response.set_next_page_token(page.next_page_token);
  return response;
}

absl::StatusOr<v1::GetTrialResponse> TuningApi::GetTrial(const v1::GetTrialRequest& request) {
  ASSIGN_OR_RETURN(const TrialName parsed, ParseTrialName(request.name()));
  const absl::StatusOr<TrialRow> row =
      deps_.store->trials()->GetTrial(parsed.job_id, parsed.study_number, parsed.ordinal);
  if (absl::IsNotFound(row.status())) {
    return WithReason(NotFound("there is no trial '{}', or it has not ended", request.name()), "TRIAL_NOT_FOUND");
  }
  RETURN_IF_ERROR(row.status());
  v1::GetTrialResponse response;
  ASSIGN_OR_RETURN(*response.mutable_trial(), TrialOfRow(*row));
  response.mutable_trial()->set_name(request.name());
  return response;
}

}  // namespace tunefarm
