// How a RemoteLink sends reports: many in one call, in their order, through the spool while control is away.

#include <algorithm>
#include <chrono>
#include <utility>

#include "server/agent/remote_link.h"
#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm {

namespace wire = tunefarm::agent::v1;

namespace {

constexpr int kReportsPerCallMax = 64;
constexpr uint64_t kBytesPerCallMax = 1 << 20;
// Results on their way: beyond, they go through the disk.
constexpr uint64_t kPendingBytesMax = 8 << 20;

}  // namespace

absl::StatusOr<wire::ReportTrialsResponse> RemoteLink::ReportTrials(const ReportTrialsRequest& request) {
  {
    MutexLock lock(&mutex_);
    const bool away = !connected_ || !spool_is_empty_;
    if (away && spool_is_full_) {
      return Unavailable("control is away and the spool of results is full: nothing more is run until it is back");
    }
    if (pending_bytes_ > kPendingBytesMax) return Unavailable("control takes results slower than they come");
    pending_.push_back(request);
    pending_bytes_ += request.ByteSizeLong();
    Unsent& unsent = unsent_[request.unit_id()];
    unsent.token = request.token();
    if (request.trials_size() > 0) unsent.device_uuid = request.trials(0).device_uuid();
    ++unsent.reports;
  }
  SendSoon();
  wire::ReportTrialsResponse response;
  response.set_verdict(wire::REPORT_VERDICT_ACCEPTED);
  return response;
}

void RemoteLink::SendSoon(Duration delay) {
  {
    MutexLock lock(&mutex_);
    if (cancelled_ || (delay == Duration::zero() && send_posted_)) return;
    if (delay == Duration::zero()) send_posted_ = true;
  }
  const auto send = [this] {
    {
      MutexLock lock(&mutex_);
      send_posted_ = false;
    }
    if (controls_->WaitBeforeNext() > Duration::zero()) {
      Spool();
      return SendSoon(controls_->WaitBeforeNext());
    }
    if (SendSome()) SendSoon();
  };
  if (delay == Duration::zero()) {
    reports_->Post(send);
  } else {
    reports_->PostAfter(delay, send);
  }
}

bool RemoteLink::SendSome() {
  bool sent = false;
  bool more = false;
  {
    MutexLock spool_lock(&spool_mutex_);
    sent = spool_->empty() ? SendPending() : SendSpooled();
    MutexLock lock(&mutex_);
    if (cancelled_) return false;
    more = !spool_->empty() || !pending_.empty();
  }
  if (!more) {
    std::vector<std::function<void()>> done;
    {
      MutexLock lock(&mutex_);
      done = std::exchange(when_sent_, {});
    }
    for (const auto& callback : done) callback();
    return false;
  }
  if (sent) return true;
  Spool();
  SendSoon(std::max(kRepeatDelay, controls_->WaitBeforeNext()));
  return false;
}

void RemoteLink::Spool() {
  MutexLock spool_lock(&spool_mutex_);
  while (true) {
    std::string bytes;
    {
      MutexLock lock(&mutex_);
      if (pending_.empty()) break;
      bytes = pending_.front().SerializeAsString();
    }
    const absl::Status appended = spool_->Append(bytes);
    MutexLock lock(&mutex_);
    if (!appended.ok()) {
      spool_is_full_ = true;  // also for a disk that takes nothing: the same has to be done about it
      LogWarn("agent", "{} results cannot be spooled: {}", pending_.size(), MessageOf(appended));
      break;
    }
    pending_bytes_ -= pending_.front().ByteSizeLong();
    pending_.pop_front();
    ++spooled_;
  }
  MutexLock lock(&mutex_);
  spool_is_empty_ = spool_->empty();
  spool_bytes_ = spool_->bytes();
}

bool RemoteLink::SendSpooled() {
  absl::StatusOr<std::vector<std::string>> front = spool_->Front(kReportsPerCallMax, kBytesPerCallMax);
  bool sent = true;
  if (!front.ok()) {
    LogError("agent", "{}", MessageOf(front.status()));
    MutexLock lock(&mutex_);
    unsent_.clear();
  } else {
    wire::ReportUnitsRequest request;
    for (const std::string& bytes : *front) {
      if (!request.add_reports()->ParseFromString(bytes)) LogError("agent", "a spooled report cannot be read");
    }
    const absl::StatusOr<size_t> ended = Send(request);
    sent = ended.ok() && *ended > 0;
    if (ended.ok()) {
      const absl::Status popped = spool_->Pop(*ended);
      if (!popped.ok()) LogWarn("agent", "what was sent stays in the spool: {}", MessageOf(popped));
      for (size_t i = 0; i < *ended; ++i) Ended(request.reports(static_cast<int>(i)));
    }
  }
  MutexLock lock(&mutex_);
  spool_is_empty_ = spool_->empty();
  spool_is_full_ = spool_->full();
  spool_bytes_ = spool_->bytes();
  return sent;
}

bool RemoteLink::SendPending() {
  wire::ReportUnitsRequest request;
  {
    MutexLock lock(&mutex_);
    uint64_t bytes = 0;
    for (const ReportTrialsRequest& report : pending_) {
      bytes += report.ByteSizeLong();
      if (request.reports_size() == kReportsPerCallMax || (request.reports_size() > 0 && bytes > kBytesPerCallMax)) {
        break;
      }
      *request.add_reports() = report;
    }
  }
  if (request.reports_size() == 0) return true;
  const absl::StatusOr<size_t> ended = Send(request);
  if (!ended.ok()) return false;
  {
    MutexLock lock(&mutex_);
    for (size_t i = 0; i < *ended; ++i) {
      pending_bytes_ -= pending_.front().ByteSizeLong();
      pending_.pop_front();
    }
  }
  for (size_t i = 0; i < *ended; ++i) Ended(request.reports(static_cast<int>(i)));
  return *ended > 0;
}

absl::StatusOr<size_t> RemoteLink::Send(const wire::ReportUnitsRequest& request) {
  auto response = controls_->Do([&](ControlChannel& channel) { return channel.ReportUnits(request, kCallDeadline); });
  if (!response.ok()) {
    // Only what says that these very results are wrong ends them.
    if (!absl::IsInvalidArgument(response.status())) return response.status();
    // Refused as a whole: one at a time, so that only the bad one goes.
    if (request.reports_size() > 1) {
      wire::ReportUnitsRequest first;
      *first.add_reports() = request.reports(0);
      return Send(first);
    }
    LogError("agent", "control refuses the results of unit {}, which are dropped: {}", request.reports(0).unit_id(),
             MessageOf(response.status()));
    return size_t{1};
  }
  for (int i = 0; i < std::min(response->results_size(), request.reports_size()); ++i) {
    const wire::ReportResult& result = response->results(i);
    if (result.verdict() == wire::REPORT_VERDICT_STALE) {
      LogInfo("agent", "unit {} has another owner: {} results are dropped", request.reports(i).unit_id(),
              request.reports(i).trials_size());
    } else if (result.verdict() != wire::REPORT_VERDICT_ACCEPTED) {
      LogError("agent", "control refuses the results of unit {}, which are dropped: {}", request.reports(i).unit_id(),
               result.error());
    }
  }
  if (!response->stopped_because().empty()) {
    LogWarn("agent", "control cannot take results now: {}", response->stopped_because());
  }
  return static_cast<size_t>(std::min(response->results_size(), request.reports_size()));
}

void RemoteLink::Ended(const ReportTrialsRequest& report) {
  MutexLock lock(&mutex_);
  ++sent_;
  const auto found = unsent_.find(report.unit_id());
  if (found == unsent_.end() || found->second.token != report.token()) return;
  if (--found->second.reports <= 0) unsent_.erase(found);
}

void RemoteLink::Finish(Duration patience) {
  const auto sent = std::make_shared<Notification>();  // shared: it may come after this call has given up
  wire::DeregisterRequest request;
  {
    MutexLock lock(&mutex_);
    when_sent_.push_back([sent] { sent->Notify(); });
    request.set_agent_id(agent_id_);
    request.set_epoch(epoch_);
  }
  SendSoon();
  if (!sent->WaitFor(patience)) {
    LogWarn("agent", "control has not taken all results; the next start sends them");
    return;
  }
  if (request.epoch() == 0) return;
  const auto ended =
      controls_->Do([&](ControlChannel& channel) { return channel.Deregister(request, std::chrono::seconds(5)); });
  if (!ended.ok()) {
    LogWarn("agent", "units in hand go back when the lease has run out: {}", MessageOf(ended.status()));
    return;
  }
  MutexLock spool_lock(&spool_mutex_);
  const absl::Status cleared = spool_->SetIdentity("");
  if (!cleared.ok()) LogWarn("agent", "{}", MessageOf(cleared));
}

// ---- Wait ----

}  // namespace tunefarm
