// The client's calls about jobs.

#include <utility>

#include "client/cpp/client_impl.h"
#include "client/cpp/job_watch.h"
#include "server/base/random.h"
#include "server/base/thread.h"
#include "server/version.h"
#include "tunefarm/client/client.h"

namespace tunefarm::client {
namespace {

using Stub = v1::TuningService::StubInterface;

template <typename Response>
Result<Job> JobOf(const Result<Response>& response) {
  if (!response.ok()) return response.status();
  return FromWire(response->job());
}

}  // namespace

const char* Client::Version() { return TUNEFARM_VERSION; }

Result<Job> Client::Submit(const JobSpec& spec, std::chrono::milliseconds timeout) const {
  Result<v1::Job> job = ToWire(spec);
  if (!job.ok()) return job.status();
  v1::CreateJobRequest request;
  *request.mutable_job() = *std::move(job);
  // Makes it safe to repeat the call.
  request.set_request_id(spec.request_id.empty() ? NewUuid(EntropySource::Real()) : spec.request_id);
  return JobOf(impl_->Call(&Stub::CreateJob, request, timeout, /*may_repeat=*/true));
}

Result<Job> Client::GetJob(const std::string& name, std::chrono::milliseconds timeout) const {
  v1::GetJobRequest request;
  request.set_name(name);
  return JobOf(impl_->Call(&Stub::GetJob, request, timeout, /*may_repeat=*/true));
}

Result<JobList> Client::ListJobs(int page_size, const std::string& page_token,
                                 std::chrono::milliseconds timeout) const {
  v1::ListJobsRequest request;
  request.set_page_size(page_size);
  request.set_page_token(page_token);
  const auto response = impl_->Call(&Stub::ListJobs, request, timeout, /*may_repeat=*/true);
  if (!response.ok()) return response.status();
  JobList list;
  for (const v1::Job& job : response->jobs()) list.jobs.push_back(FromWire(job));
  list.next_page_token = response->next_page_token();
  return list;
}

Result<Job> Client::CancelJob(const std::string& name, std::chrono::milliseconds timeout) const {
  v1::CancelJobRequest request;
  request.set_name(name);
  return JobOf(impl_->Call(&Stub::CancelJob, request, timeout, /*may_repeat=*/false));
}

JobWatch Client::WatchJob(const std::string& name, EventCallback on_event, EndCallback on_end, int64_t after_event_id,
                          std::chrono::milliseconds reconnect_max_wait) const {
  return JobWatch(impl_->StartWatch(name, std::move(on_event), std::move(on_end), after_event_id, reconnect_max_wait));
}

Result<Job> Client::WaitForJob(const std::string& name, std::chrono::milliseconds timeout) const {
  struct Shared {
    Notification ended;
    Status status;
  };
  auto shared = std::make_shared<Shared>();
  const MonotonicTime end = Clock::Real()->Now() + timeout;
  const JobWatch watch = WatchJob(
      name, [](const JobEvent&) {},
      [shared](const Status& status) {
        shared->status = status;
        shared->ended.Notify();
      });
  if (timeout.count() == 0) {
    shared->ended.WaitForNotification();
  } else if (!shared->ended.WaitFor(timeout)) {
    return Status{Code::kDeadlineExceeded, name + " has not ended in time; it goes on", "JOB_RUNS"};
  }
  if (!shared->status.ok()) return shared->status;
  if (timeout.count() == 0) return GetJob(name);
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::Real()->Now());
  return GetJob(name, std::max(left, std::chrono::milliseconds(1)));
}

JobWatch::JobWatch(std::shared_ptr<JobWatchImpl> impl) : impl_(std::move(impl)) {}
JobWatch::JobWatch(JobWatch&&) noexcept = default;
JobWatch& JobWatch::operator=(JobWatch&& other) noexcept {
  if (this != &other) {
    Stop();
    impl_ = std::move(other.impl_);
  }
  return *this;
}
JobWatch::~JobWatch() { Stop(); }
void JobWatch::Stop() {
  if (impl_ != nullptr) impl_->Stop();
}

}  // namespace tunefarm::client
