#include "server/jobs/job_service.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <map>
#include <utility>

#include "server/base/failpoint.h"
#include "server/base/hash.h"
#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/catalog/catalog.h"
#include "server/cost/cost_guide.h"
#include "server/jobs/batch_lookup.h"
#include "server/jobs/best_changes.h"
#include "server/jobs/control_link.h"
#include "server/jobs/device_directory.h"
#include "server/jobs/driver.h"
#include "server/jobs/event_hub.h"
#include "server/jobs/job_view.h"
#include "server/jobs/kernel_registry.h"
#include "server/jobs/lookups.h"
#include "server/jobs/misses.h"
#include "server/jobs/node_watch.h"
#include "server/jobs/poison_index.h"
#include "server/jobs/resource_names.h"
#include "server/jobs/submission.h"
#include "server/jobs/trial_rows.h"

namespace tunefarm {

using tunefarm::v1::Job;
using tunefarm::v1::Kernel;

namespace {

// The same for the same job, however its maps lie in memory.
uint64_t DigestOf(const Job& job) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  {
    google::protobuf::io::CodedOutputStream out(&stream);
    out.SetSerializationDeterministic(true);
    job.SerializeToCodedStream(&out);
  }
  return Xxh3(bytes);
}

// The store's NotFound, with the name that the client used.
absl::Status WithJobName(const absl::Status& status, std::string_view name) {
  if (!absl::IsNotFound(status)) return status;
  return WithReason(NotFound("there is no job '{}'; it may have been deleted", name), "JOB_NOT_FOUND");
}

}  // namespace

struct JobService::Impl {
  explicit Impl(const JobServiceOptions& given)
      : options(given),
        node(given.node.id.empty() ? nullptr : std::make_unique<Node>(given.store, given.control->clock(), given.node)),
        misses(given.store),
        kernels(given.store),
        poison(given.store),
        events(std::make_shared<EventHub>(
            given.control, given.events_per_job_max, given.jobs_with_events_max,
            [this](int64_t job_id) { return Find(job_id); }, SaltOf(given.node))),
        watch(std::make_shared<CatalogWatch>(given.watchers != nullptr ? given.watchers : given.control, &catalog,
                                             given.catalog_watchers_max)),
        bests(given.store, &catalog, misses.table(), watch.get(), given.control->clock(), node != nullptr),
        link(given.store, given.control->clock(), &kernels, &poison, &devices,
             {[this](int64_t study_id, int64_t unit_id, std::vector<tunefarm::v1::Trial> trials, bool done) {
                tally.Add(trials);
                driver->Reported(study_id, unit_id, std::move(trials), done);
              },
              [this](int64_t job_id) { driver->Claimed(job_id); }, [this](int64_t job_id) { driver->Gone(job_id); }}),
        driver(std::make_shared<Driver>(Driver::Dependencies{given.store, given.control, &kernels, &devices, &catalog,
                                                             events.get(), &bests, &link, node.get()})) {
    if (node == nullptr) return;
    Executor* const lease = given.lease != nullptr      ? given.lease
                            : given.watchers != nullptr ? given.watchers
                                                        : given.control;
    node_watch = std::make_shared<NodeWatch>(
        node.get(), given.control, lease,
        NodeWatch::Questions{[this] { return driver->Follow(); }, [this] { return Refresh(); },
                             [this] { return driver->is_busy(); }, nullptr});
  }

  // Once a second, in a farm.
  absl::Status Refresh() {
    RETURN_IF_ERROR(driver->AdoptOrphans(kAdoptedAtOnce));
    RETURN_IF_ERROR(driver->FollowSearches());
    RETURN_IF_ERROR(bests.Follow());
    return FollowWatched();
  }

  // Tells those who watch jobs that others drive.
  absl::Status FollowWatched() {
    int asked = 0;
    std::map<int64_t, uint64_t> told;
    for (const auto& [job_id, is_watched] : events->OpenJobs()) {
      if (driver->Drives(job_id)) continue;
      if (!is_watched) {
        events->Forget(job_id);
        continue;
      }
      const auto before = told_.find(job_id);
      if (before != told_.end()) told.insert(*before);
      // Each its turn.
      if (job_id <= watched_after_ || asked == kWatchedAtOnce) continue;
      ++asked;
      const auto row = options.store->GetJob(job_id);
      if (absl::IsNotFound(row.status())) {
        events->End(job_id);
        continue;
      }
      RETURN_IF_ERROR(row.status());
      ASSIGN_OR_RETURN(Job job, StoredJob(options.store, &kernels, *row));
      const uint64_t digest = DigestOf(job);
      if (before == told_.end() || before->second != digest) {
        tunefarm::v1::JobEvent event;
        *event.mutable_progress() = job.progress();
        *event.mutable_job() = std::move(job);
        events->Publish(job_id, std::move(event));
        told[job_id] = digest;
      }
      if (IsTerminal(row->state)) events->End(job_id);
      watched_after_ = job_id;
    }
    if (asked < kWatchedAtOnce) watched_after_ = 0;
    told_ = std::move(told);
    return absl::OkStatus();
  }

  static int64_t SaltOf(const NodeOptions& node) {
    return node.id.empty() ? 0 : 1 + static_cast<int64_t>(Xxh3(node.id) % (uint64_t{1} << 32));
  }

  // Few, so that what a dead node leaves is spread over those that live.
  static constexpr int kAdoptedAtOnce = 16;
  static constexpr int kWatchedAtOnce = 16;

  absl::StatusOr<Job> Find(int64_t job_id) {
    if (auto active = driver->Find(job_id)) return *std::move(active);
    const auto row = options.store->GetJob(job_id);
    if (!row.ok()) return WithJobName(row.status(), JobName(job_id));
    return StoredJob(options.store, &kernels, *row);
  }

  LookupContext lookup_context() { return {&kernels, &devices, &catalog, options.control->clock(), misses.table()}; }
  int64_t now_ms() const { return options.control->clock()->WallMs(); }

  absl::Status CheckLanguage(const KernelPlan& plan) const {
    if (plan.language() != tunefarm::v1::LANGUAGE_PYTHON || runs_python) return absl::OkStatus();
    return WithReason(
        FailedPrecondition(
            "kernel '{}' is written in Python, which this daemon does not run: name an interpreter in its "
            "configuration (python_interpreter = \"/usr/bin/python3\") and start it anew; tunefarm "
            "doctor says why one that is named is not taken",
            plan.display_name()),
        "PYTHON_DISABLED");
  }

  // Of a stored job.
  absl::Status CheckMayRun(const Job& job) {
    RETURN_IF_ERROR(CheckIsolation(isolation, job.required_isolation()));
    if (runs_python) return absl::OkStatus();
    ASSIGN_OR_RETURN(const std::shared_ptr<const KernelPlan> plan, kernels.Get(job.kernel()));
    return CheckLanguage(*plan);
  }

  const JobServiceOptions options;
  bool runs_python = false;    // constant once jobs are taken
  Isolation isolation;         // constant once jobs are taken
  std::unique_ptr<Node> node;  // null: alone on the store
  DeviceDirectory devices;
  Catalog catalog;
  Misses misses;
  KernelRegistry kernels;
  PoisonIndex poison;
  TrialTally tally;
  std::shared_ptr<EventHub> events;
  std::shared_ptr<CatalogWatch> watch;
  BestChanges bests;
  ControlLink link;
  std::shared_ptr<Driver> driver;
  std::shared_ptr<NodeWatch> node_watch;  // null: alone on the store
  // The control executor's.
  std::map<int64_t, uint64_t> told_;  // a digest of what watchers were told last, by job
  int64_t watched_after_ = 0;
};

JobService::JobService(const JobServiceOptions& options) : impl_(std::make_unique<Impl>(options)) {}
JobService::~JobService() = default;

void JobService::SetIsolation(Isolation isolation) { impl_->isolation = std::move(isolation); }
void JobService::AllowPython() { impl_->runs_python = true; }

absl::Status JobService::SetDevices(const std::vector<tunefarm::v1::Device>& devices) {
  RETURN_IF_ERROR(impl_->devices.Set(devices));
  for (const tunefarm::v1::Device& device : impl_->devices.List()) {
    ASSIGN_OR_RETURN(const DeviceClass device_class, DeviceClass::FromProto(device.device_class()));
    const std::string class_id = device.device_class().id();
    RETURN_IF_ERROR(impl_->options.store->PutDevice(
        {device.uuid(), class_id, device.SerializeAsString(), impl_->now_ms()},
        {class_id, device_class.display_name, device.device_class().SerializeAsString()}));
    impl_->catalog.AddClass(class_id, device_class);
  }
  return absl::OkStatus();
}

absl::Status JobService::Start() {
  RETURN_IF_ERROR(impl_->catalog.Load(impl_->options.store));
  ASSIGN_OR_RETURN(std::string catalog_id,
                   impl_->options.store->GetOrPutSetting(Store::kCatalogIdSetting, NewUuid(impl_->options.entropy)));
  impl_->watch->Open(std::move(catalog_id));
  RETURN_IF_ERROR(impl_->misses.Load(impl_->catalog));
  RETURN_IF_ERROR(impl_->driver->Recover());
  if (impl_->node_watch != nullptr) {
    impl_->node_watch->Start();
    return absl::OkStatus();  // other daemons' workers may reach what this one's do not
  }
  return PauseWhatCannotRun();
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
  if (impl_->node_watch != nullptr) impl_->node_watch->Stop();
  impl_->driver->Stop();
  if (impl_->node != nullptr) impl_->node->Leave();
  impl_->link.Close();
  impl_->events->Close(Unavailable("the daemon is stopping"));
  impl_->watch->Close(Unavailable("the daemon is stopping"));
}

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
  RETURN_IF_ERROR(AddPredictions(request.cost_model(), plan, problem, device.device_class, space, &response));
  return response;
}

// ---- Jobs ----

absl::StatusOr<Job> JobService::Submit(const Job& job, const std::optional<Kernel>& definition,
                                       const std::string& request_id, bool validate_only) {
  if (request_id.size() > 64) {
    return WithReason(InvalidArgument("the request_id has {} bytes, at most 64 are allowed", request_id.size()),
                      "JOB_INVALID");
  }
  RETURN_IF_ERROR(CheckIsolation(impl_->isolation, job.required_isolation()));
  ASSIGN_OR_RETURN(Submission submission, CheckSubmission(job, definition, &impl_->kernels, impl_->devices));
  RETURN_IF_ERROR(impl_->CheckLanguage(*submission.plan));
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
  if (impl_->node_watch != nullptr) {
    impl_->node_watch->AskNow();
  } else if (!result.was_duplicate) {
    impl_->driver->Adopt(result.job_id);
  }
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

// ---- Devices, look-ups, counts ----

std::vector<tunefarm::v1::Device> JobService::ListDevices() const { return impl_->devices.List(); }

absl::StatusOr<tunefarm::v1::Device> JobService::GetDevice(std::string_view name) const {
  for (tunefarm::v1::Device& device : impl_->devices.List()) {
    if (device.name() == name) return std::move(device);
  }
  return WithReason(NotFound("there is no device '{}'; tunefarm devices lists them", name.substr(0, 256)),
                    "DEVICE_NOT_FOUND");
}

void JobService::SetDeviceQuarantine(const std::string& uuid, const std::string& reason) {
  if (impl_->devices.SetQuarantine(uuid, reason, impl_->now_ms())) impl_->link.Wake();
}

void JobService::SetDeviceWaiting(const std::string& uuid, const std::string& reason) {
  impl_->devices.SetWaiting(uuid, reason, impl_->now_ms());
  impl_->driver->TellWaiting();
}

void JobService::SetDeviceHealth(const std::string& uuid, double baseline_ns, int foreign_processes) {
  impl_->devices.SetHealth(uuid, baseline_ns, foreign_processes);
}

absl::StatusOr<tunefarm::v1::LookupConfigResponse> JobService::Lookup(
    const tunefarm::v1::LookupConfigRequest& request) {
  auto response = LookupConfig(impl_->lookup_context(), request);
  if (response.ok()) {
    const int match = response->match();
    impl_->tally.AddLookups({&match, 1});
  } else {
    impl_->tally.AddBadLookup();
  }
  return response;
}

absl::StatusOr<tunefarm::v1::BatchLookupConfigsResponse> JobService::BatchLookup(
    const tunefarm::v1::BatchLookupConfigsRequest& request) {
  auto response = LookupConfigs(impl_->lookup_context(), request);
  if (response.ok()) {
    impl_->tally.AddLookups({response->matches().data(), static_cast<size_t>(response->matches_size())});
  }
  return response;
}

absl::StatusOr<Listing<tunefarm::v1::BestConfig>> JobService::ListBest(std::string_view kernel, int page_size,
                                                                       const std::string& page_token) {
  ASSIGN_OR_RETURN(const int size, PageSize(page_size));
  ASSIGN_OR_RETURN(const auto page, impl_->catalog.List(kernel, size, page_token));
  Listing<tunefarm::v1::BestConfig> listing;
  for (const auto& best : page.first) listing.items.push_back(*best);
  listing.next_page_token = page.second;
  return listing;
}

// ---- The catalog ----

absl::StatusOr<std::unique_ptr<CatalogStream>> JobService::WatchBests(
    const tunefarm::v1::WatchBestConfigsRequest& request, std::function<void()> wake,
    std::function<void(absl::Status)> end) {
  return impl_->watch->Watch(request, std::move(wake), std::move(end));
}

absl::StatusOr<tunefarm::v1::BestConfig> JobService::PinBest(const tunefarm::v1::PinBestConfigRequest& request) {
  return impl_->bests.Pin(request);
}

absl::StatusOr<tunefarm::v1::BestConfig> JobService::UnpinBest(const tunefarm::v1::UnpinBestConfigRequest& request) {
  return impl_->bests.Unpin(request);
}

absl::StatusOr<tunefarm::v1::BestConfig> JobService::AnnotateBest(
    const tunefarm::v1::AnnotateBestConfigRequest& request) {
  return impl_->bests.Annotate(request);
}

absl::StatusOr<int64_t> JobService::RetireBest(const tunefarm::v1::RetireBestConfigRequest& request) {
  return impl_->bests.Retire(request);
}

absl::StatusOr<tunefarm::v1::ListBestConfigChangesResponse> JobService::ListBestChanges(
    const tunefarm::v1::ListBestConfigChangesRequest& request) {
  return impl_->bests.List(request);
}

absl::StatusOr<tunefarm::v1::ListMissesResponse> JobService::ListMisses(
    const tunefarm::v1::ListMissesRequest& request) {
  return impl_->misses.List(request);
}

absl::StatusOr<tunefarm::v1::DeleteMissesResponse> JobService::DeleteMisses(
    const tunefarm::v1::DeleteMissesRequest& request) {
  return impl_->misses.Delete(request);
}

absl::Status JobService::WriteMisses() { return impl_->misses.Write(); }

absl::StatusOr<JobServiceStats> JobService::Stats() {
  ASSIGN_OR_RETURN(const StoreStatus status, impl_->options.store->Status());
  return JobServiceStats{status.active_jobs, status.stored_trials, status.schema_version, status.database_bytes,
                         impl_->catalog.revision()};
}

absl::StatusOr<JobServiceCounts> JobService::Counts() {
  JobServiceCounts counts;
  ASSIGN_OR_RETURN(counts.queue, impl_->options.store->CountQueue());
  counts.trials = impl_->tally.counts();
  counts.watchers = impl_->events->watchers();
  counts.catalog_watchers = impl_->watch->watchers();
  counts.missed_problems = impl_->misses.table()->size();
  counts.misses_not_counted = impl_->misses.table()->not_counted();
  counts.misses_unwritten = impl_->misses.unwritten();
  return counts;
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
  if (!impl_->link.HasAgent()) return Unavailable("no agent has registered");
  return absl::OkStatus();
}

}  // namespace tunefarm
