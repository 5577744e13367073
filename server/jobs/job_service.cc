#include "server/jobs/job_service.h"

#include <algorithm>
#include <utility>

#include "server/base/failpoint.h"
#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/jobs/job_service_impl.h"
#include "server/jobs/submission.h"
#include "server/records/trial_rows.h"

namespace tunefarm {

using tunefarm::v1::Job;
using tunefarm::v1::Kernel;

JobService::JobService(const JobServiceOptions& options) : impl_(std::make_unique<Impl>(options)) {
  impl_->devices.SetSentinelTolerance(options.sentinel_tolerance, impl_->now_ms());
}
JobService::~JobService() = default;

void JobService::SetIsolation(Isolation isolation) { impl_->isolation = std::move(isolation); }
void JobService::AllowPython() { impl_->runs_python = true; }
void JobService::SetReleaseDevice(std::function<void(const std::string&)> release) {
  impl_->release_own = std::move(release);
}

absl::Status JobService::SetDevices(const std::vector<tunefarm::v1::Device>& devices) {
  RETURN_IF_ERROR(impl_->devices.Set(devices));
  const absl::Status recorded = impl_->follower.RecordDevices();
  if (!absl::IsUnavailable(recorded)) return recorded;
  impl_->follower.RecordDevicesLater();
  return absl::OkStatus();
}

absl::Status JobService::Start() {
  const absl::Status loaded = impl_->follower.Load();
  if (loaded.ok()) {
    RETURN_IF_ERROR(impl_->farm.Load());
  } else {
    if (!absl::IsUnavailable(loaded)) return loaded;
    const absl::StatusOr<Duration> age = impl_->follower.LoadCopy();
    if (!age.ok()) {
      LogWarn("jobs", "there is no copy of the catalog to begin with: {}", MessageOf(age.status()));
      return loaded;
    }
    impl_->node_watch->SetAge(*age);
  }
  const absl::Status begun = impl_->node_watch->Start();
  if (!begun.ok() && !absl::IsUnavailable(begun)) return begun;
  impl_->farm.Start();
  return absl::OkStatus();
}

absl::Status JobService::PauseWhatCannotRun() {
  if (CheckIsolation(impl_->isolation, "L1").ok() && impl_->runs_python) return absl::OkStatus();
  std::string page;
  do {
    ASSIGN_OR_RETURN(const Listing<Job> jobs,
                     ListJobs({tunefarm::v1::JOB_STATE_QUEUED, tunefarm::v1::JOB_STATE_RUNNING}, 1000, page));
    for (const Job& job : jobs.items) {
      const absl::Status may_run = impl_->CheckMayRun(job);
      if (may_run.ok()) continue;
      LogWarn("jobs", "{} is paused: {}", job.name(), MessageOf(may_run));
      RETURN_IF_ERROR(Pause(job.name()).status());
    }
    page = jobs.next_page_token;
  } while (!page.empty());
  return absl::OkStatus();
}

void JobService::Stop() {
  impl_->farm.Stop();
  impl_->node_watch->Stop();
  impl_->driver->Stop();
  impl_->node.Leave();
  impl_->link.Close();
  impl_->events->Close(Unavailable("the daemon is stopping"));
  impl_->watch->Close(Unavailable("the daemon is stopping"));
}

ControlLink* JobService::control_link() { return &impl_->link; }

AgentLink* JobService::agent_link() { return &impl_->link; }

// ---- Kernels ----

absl::StatusOr<Kernel> JobService::CreateKernel(const Kernel& kernel, bool validate_only) {
  ASSIGN_OR_RETURN(const auto plan, KernelPlan::Compile(kernel));
  Kernel answer = WithoutSources(plan->kernel());
  answer.set_name(KernelName(plan->kernel_id()));
  if (validate_only) return answer;
  RETURN_IF_ERROR(impl_->options.store->PutKernel(KernelRegistry::RowOf(*plan, impl_->now_ms())));
  impl_->kernels.Stored(plan);
  return answer;
}

absl::StatusOr<Kernel> JobService::GetKernel(std::string_view name, bool include_sources) {
  ASSIGN_OR_RETURN(const auto plan, impl_->kernels.Get(name));
  Kernel kernel = plan->kernel();
  kernel.set_name(KernelName(plan->kernel_id()));
  return include_sources ? kernel : WithoutSources(std::move(kernel));
}

absl::StatusOr<Listing<Kernel>> JobService::ListKernels(int page_size, const std::string& page_token) {
  ASSIGN_OR_RETURN(const int size, PageSize(page_size));
  ASSIGN_OR_RETURN(const Page<KernelRow> page, impl_->options.store->ListKernels({size, page_token}));
  Listing<Kernel> listing;
  for (const KernelRow& row : page.rows) {
    ASSIGN_OR_RETURN(Kernel kernel, KernelRegistry::KernelOf(row));
    listing.items.push_back(WithoutSources(std::move(kernel)));
  }
  listing.next_page_token = page.next_page_token;
  return listing;
}

absl::StatusOr<tunefarm::v1::CountSpaceResponse> JobService::CountSpace(
    const tunefarm::v1::CountSpaceRequest& request) {
  if (request.has_kernel() == !request.name().empty()) {
    return WithReason(InvalidArgument("give either the name of a stored kernel or a definition"), "KERNEL_NOT_FOUND");
  }
  std::shared_ptr<const KernelPlan> plan;
  if (request.has_kernel()) {
    ASSIGN_OR_RETURN(plan, KernelPlan::Compile(request.kernel()));
  } else {
    ASSIGN_OR_RETURN(plan, impl_->kernels.Get(request.name()));
  }
  ASSIGN_OR_RETURN(const SelectedDevice device, impl_->devices.Resolve(request.device_selector(), *plan, true));
  ASSIGN_OR_RETURN(const ResolvedProblem problem, plan->ResolveProblem(request.problem()));
  ASSIGN_OR_RETURN(const Space space, plan->BuildSpace(problem, device.device_class));
  tunefarm::v1::CountSpaceResponse response;
  ASSIGN_OR_RETURN(*response.mutable_space(), SizeOfSpace(space));
  response.set_device_class_name(device.device_class.display_name);
  return response;
}

// ---- Jobs ----

absl::StatusOr<Job> JobService::Submit(const Job& job, const std::optional<Kernel>& definition,
                                       const std::string& request_id, bool validate_only,
                                       const std::string& submitted_by) {
  if (request_id.size() > 64) {
    return WithReason(InvalidArgument("the request_id has {} bytes, at most 64 are allowed", request_id.size()),
                      "JOB_INVALID");
  }
  RETURN_IF_ERROR(CheckIsolation(impl_->isolation, job.required_isolation()));
  if (!job.kernel().empty() && job.kernel().rfind("kernels/", 0) != 0) {
    RETURN_IF_ERROR(impl_->kernels.FollowName(job.kernel()));
  }
  ASSIGN_OR_RETURN(Submission submission, CheckSubmission(job, definition, &impl_->kernels, impl_->devices));
  RETURN_IF_ERROR(impl_->CheckLanguage(*submission.plan));
  submission.spec.set_submitted_by(submitted_by);
  if (impl_->driver->active_jobs() >= impl_->options.active_jobs_max) {
    return WithReason(
        ResourceExhausted("{} jobs are active, no more are taken until one ends", impl_->driver->active_jobs()),
        "TOO_MANY_JOBS");
  }
  if (const std::string reason = impl_->driver->suspended(); !reason.empty()) {
    return WithReason(ResourceExhausted("no new jobs are taken: {}", reason), "LOW_SPACE");
  }
  if (validate_only) {
    for (const StudyRow& row : submission.studies) submission.spec.add_studies()->ParseFromString(row.space_summary);
    return std::move(submission.spec);
  }
  SubmitRequest request;
  request.job.uid = NewUuid(impl_->options.entropy);
  request.job.kernel_id = submission.plan->kernel_id();
  request.job.spec = submission.spec.SerializeAsString();
  request.job.priority = submission.spec.priority();
  request.job.created_at_ms = impl_->now_ms();
  request.job.studies = std::move(submission.studies);
  if (submission.stores_kernel) request.kernel = KernelRegistry::RowOf(*submission.plan, impl_->now_ms());
  request.request_id = request_id;
  request.body_digest = SubmissionDigest(job, definition);
  request.now_ms = impl_->now_ms();
  ASSIGN_OR_RETURN(const SubmitResult result, impl_->options.store->SubmitJob(request));
  PassFailpoint("jobs.submit.stored");
  if (submission.stores_kernel) impl_->kernels.Stored(submission.plan);
  impl_->node_watch->AskNow();  // adopts it
  return impl_->Find(result.job_id);
}

absl::StatusOr<Job> JobService::GetJob(std::string_view name) {
  ASSIGN_OR_RETURN(const int64_t job_id, ParseJobName(name));
  return impl_->Find(job_id);
}

absl::StatusOr<Listing<Job>> JobService::ListJobs(const std::vector<tunefarm::v1::JobState>& states, int page_size,
                                                  const std::string& page_token) {
  ASSIGN_OR_RETURN(const int size, PageSize(page_size));
  std::vector<JobState> own;
  for (tunefarm::v1::JobState state : states) {
    ASSIGN_OR_RETURN(const JobState known, FromProto(state));
    own.push_back(known);
  }
  ASSIGN_OR_RETURN(const Page<JobRow> page, impl_->options.store->ListJobs(own, {size, page_token}));
  Listing<Job> listing;
  for (const JobRow& row : page.rows) {
    if (auto active = impl_->driver->FindSummary(row.job_id)) {
      listing.items.push_back(*std::move(active));
      continue;
    }
    ASSIGN_OR_RETURN(Job job, StoredJobSummary(impl_->options.store, row));
    listing.items.push_back(std::move(job));
  }
  listing.next_page_token = page.next_page_token;
  return listing;
}

absl::StatusOr<Job> JobService::Cancel(std::string_view name) {
  ASSIGN_OR_RETURN(const int64_t job_id, ParseJobName(name));
  RETURN_IF_ERROR(WithJobName(impl_->driver->Cancel(job_id), name));
  // One that was left to newer daemons may be cancelled by any.
  if (!impl_->driver->Drives(job_id)) impl_->node_watch->AskNow();
  return impl_->Find(job_id);
}

absl::StatusOr<Job> JobService::Pause(std::string_view name) {
  ASSIGN_OR_RETURN(const int64_t job_id, ParseJobName(name));
  RETURN_IF_ERROR(WithJobName(impl_->driver->Pause(job_id), name));
  return impl_->Find(job_id);
}

absl::StatusOr<Job> JobService::Resume(std::string_view name) {
  ASSIGN_OR_RETURN(const int64_t job_id, ParseJobName(name));
  ASSIGN_OR_RETURN(const Job job, impl_->Find(job_id));
  RETURN_IF_ERROR(impl_->CheckMayRun(job));
  RETURN_IF_ERROR(WithJobName(impl_->driver->Resume(job_id), name));
  return impl_->Find(job_id);
}

absl::Status JobService::Delete(std::string_view name) {
  ASSIGN_OR_RETURN(const int64_t job_id, ParseJobName(name));
  const absl::Status deleted = impl_->options.store->DeleteJob(job_id);
  if (absl::IsFailedPrecondition(deleted)) {
    return WithReason(FailedPrecondition("{} has not ended; cancel it first", name), "JOB_STATE");
  }
  return WithJobName(deleted, name);
}

absl::StatusOr<std::unique_ptr<WatchSubscription>> JobService::Watch(
    std::string_view name, int64_t after_event_id, std::function<void(const tunefarm::v1::JobEvent&)> sink,
    std::function<void(absl::Status)> end) {
  ASSIGN_OR_RETURN(const int64_t job_id, ParseJobName(name));
  const auto row = impl_->options.store->GetJob(job_id);
  if (!row.ok()) return WithJobName(row.status(), name);
  return impl_->events->Watch(job_id, after_event_id, IsTerminal(row->state), std::move(sink), std::move(end));
}

// ---- Trials ----

absl::StatusOr<tunefarm::v1::ListTrialsResponse> JobService::ListTrials(
    const tunefarm::v1::ListTrialsRequest& request) {
  ASSIGN_OR_RETURN(const StudyName parent, ParseJobOrStudyName(request.parent()));
  TrialQuery query;
  query.job_id = parent.job_id;
  query.study_number = parent.number;
  query.order_by_time = request.order_by_time();
  query.outcomes.assign(request.outcomes().begin(), request.outcomes().end());
  query.purpose = request.purpose();
  ASSIGN_OR_RETURN(query.page.page_size, PageSize(request.page_size()));
  query.page.page_token = request.page_token();
  const auto job = impl_->options.store->GetJob(parent.job_id);
  if (!job.ok()) return WithJobName(job.status(), JobName(parent.job_id));
  ASSIGN_OR_RETURN(const Page<TrialRow> page, impl_->options.store->ListTrials(query));
  tunefarm::v1::ListTrialsResponse response;
  for (const TrialRow& row : page.rows) {
    ASSIGN_OR_RETURN(tunefarm::v1::Trial trial, TrialOfRow(row));
    for (const StudyRow& study : job->studies) {
      if (study.study_id == row.study_id) trial.set_name(TrialNameOf(parent.job_id, study.number, row.ordinal));
    }
    *response.add_trials() = std::move(trial);
  }
  response.set_next_page_token(page.next_page_token);
  return response;
}

absl::StatusOr<tunefarm::v1::Trial> JobService::GetTrial(std::string_view name) {
  ASSIGN_OR_RETURN(const TrialName parsed, ParseTrialName(name));
  const auto row = impl_->options.store->GetTrial(parsed.job_id, parsed.study_number, parsed.ordinal);
  if (absl::IsNotFound(row.status())) {
    return WithReason(NotFound("there is no trial '{}', or it has not ended", name), "TRIAL_NOT_FOUND");
  }
  RETURN_IF_ERROR(row.status());
  ASSIGN_OR_RETURN(tunefarm::v1::Trial trial, TrialOfRow(*row));
  trial.set_name(std::string(name));
  return trial;
}

void JobService::Suspend(const std::string& reason) { impl_->driver->Suspend(reason); }

void JobService::Unsuspend() { impl_->driver->Unsuspend(); }

bool JobService::is_suspended() const { return !impl_->driver->suspended().empty(); }

absl::Status JobService::CheckAlive(Duration timeout) {
  // Shared: the task may come after this call has given up.
  const auto taken = std::make_shared<Notification>();
  impl_->options.control->Post([taken] { taken->Notify(); });
  if (!taken->WaitFor(timeout)) {
    return Unavailable("the driver has taken no task for {} ms",
                       std::chrono::duration_cast<std::chrono::milliseconds>(timeout).count());
  }
  if (impl_->options.has_own_agent && !impl_->link.HasAgent()) return Unavailable("no agent has registered");
  return absl::OkStatus();
}

}  // namespace tunefarm
