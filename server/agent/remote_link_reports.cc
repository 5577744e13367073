// How a RemoteLink sends reports: many in one call, in their order, through the spool while control is away.

#include <algorithm>
#include <chrono>
#include <utility>

#include "server/agent/remote_link.h"
#include "server/base/format.h"
#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/measure/kept_samples.h"

namespace tunefarm {

namespace wire = tunefarm::agent::v1;

namespace {

constexpr int kReportsPerCallMax = 64;
constexpr uint64_t kBytesPerCallMax = 1 << 20;
// Results on their way: beyond, they go through the disk.
constexpr uint64_t kPendingBytesMax = 8 << 20;
// Control takes no more in one report; also what is sent without waiting for more.
constexpr int kTrialsPerReportMax = 64;
constexpr uint64_t kGatheredBytesMax = 256 << 10;

// Control knows what a trial was to run, and keeps of one that was measured well while searching the summary alone.
void DropUnwanted(wire::ReportTrialsRequest* report) {
  for (tunefarm::v1::Trial& trial : *report->mutable_trials()) {
    trial.clear_config();
    const bool unwanted =
        trial.purpose() == tunefarm::v1::TRIAL_PURPOSE_SEARCH && trial.outcome() == tunefarm::v1::OUTCOME_OK;
    if (unwanted && trial.measurement().sample_ns_size() > 0) DropSamples(trial.mutable_measurement());
  }
}

}  // namespace

RemoteLink::Pending* RemoteLink::GatheredOf(const ReportTrialsRequest& report) {
  for (size_t i = pending_.size(); i > pending_in_use_; --i) {
    Pending& pending = pending_[i - 1];
    if (pending.report.unit_id() != report.unit_id()) continue;
    const bool fits = pending.report.token() == report.token() && pending.report.epoch() == report.epoch() &&
                      pending.report.agent_id() == report.agent_id() && !pending.report.unit_done() &&
                      !pending.report.unit_returned() &&
                      pending.report.trials_size() + report.trials_size() <= kTrialsPerReportMax &&
                      pending.bytes < kBytesPerCallMax / 2;
    return fits ? &pending : nullptr;  // nothing overtakes what its unit reported before
  }
  return nullptr;
}

bool RemoteLink::Gather(const ReportTrialsRequest& report) {
  Pending* pending = GatheredOf(report);
  if (pending == nullptr) {
    pending = &pending_.emplace_back();
    pending->report = report;
    pending->since = Now();
    DropUnwanted(&pending->report);
    pending->bytes = pending->report.ByteSizeLong();
    pending_bytes_ += pending->bytes;
  } else {
    ReportTrialsRequest more = report;
    DropUnwanted(&more);
    // A little more than it adds.
    const uint64_t bytes = more.ByteSizeLong();
    pending->bytes += bytes;
    pending_bytes_ += bytes;
    for (tunefarm::v1::Trial& trial : *more.mutable_trials()) {
      *pending->report.add_trials() = std::move(trial);
    }
    pending->report.set_unit_done(report.unit_done());
    pending->report.set_unit_returned(report.unit_returned());
    ++pending->reports;
  }
  pending_trials_ += report.trials_size();
  // Away: what is known is on disk at once.
  return !spool_is_empty_ || IsDue();
}

const RemoteLink::Pending* RemoteLink::FirstWaiting() const {
  return pending_in_use_ < pending_.size() ? &pending_[pending_in_use_] : nullptr;
}

bool RemoteLink::IsDue() const {
  const Pending* const first = FirstWaiting();
  if (first == nullptr) return false;
  return !connected_ || pending_trials_ - trials_in_use_ >= kTrialsPerReportMax ||
         pending_bytes_ - bytes_in_use_ >= kGatheredBytesMax || first->since + gather_ <= Now() || !when_sent_.empty();
}

void RemoteLink::SetInUse(size_t reports) {
  pending_in_use_ = reports;
  trials_in_use_ = 0;
  bytes_in_use_ = 0;
  for (size_t i = 0; i < reports; ++i) {
    trials_in_use_ += pending_[i].report.trials_size();
    bytes_in_use_ += pending_[i].bytes;
  }
}

void RemoteLink::SendGathered() {
  {
    MutexLock lock(&mutex_);
    if (FirstWaiting() == nullptr) return;
  }
  SendSoon();
}

void RemoteLink::SendGatheredIn(Duration delay) {
  reports_->PostAfter(delay, [this] {
    Duration rest = Duration::zero();
    {
      MutexLock lock(&mutex_);
      // What it was posted for may have been sent since, with all that there were.
      const Pending* const first = FirstWaiting();
      if (first != nullptr) rest = first->since + gather_ - Now();
      gather_posted_ = rest > Duration::zero();
    }
    if (rest > Duration::zero()) return SendGatheredIn(rest);
    SendGathered();
  });
}

void RemoteLink::PopPending() {
  pending_bytes_ -= pending_.front().bytes;
  pending_trials_ -= pending_.front().report.trials_size();
  pending_.pop_front();
}

absl::StatusOr<wire::ReportTrialsResponse> RemoteLink::ReportTrials(const ReportTrialsRequest& request) {
  bool must_be_sent = false;
  bool must_be_timed = false;
  Duration gather{};
  {
    MutexLock lock(&mutex_);
    gather = gather_;
    const bool away = !connected_ || !spool_is_empty_;
    if (away && spool_is_full_) {
      return Unavailable(
          "control does not answer and the spool of results is full: no trial starts until control answers");
    }
    if (pending_bytes_ > kPendingBytesMax) return Unavailable("control accepts results more slowly than trials end");
    must_be_sent = Gather(request);
    must_be_timed = !must_be_sent && !std::exchange(gather_posted_, true);
    Unsent& unsent = unsent_[request.unit_id()];
    unsent.token = request.token();
    if (request.trials_size() > 0) unsent.device_uuid = request.trials(0).device_uuid();
    ++unsent.reports;
  }
  if (must_be_sent) SendSoon();
  if (must_be_timed) SendGatheredIn(gather);
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
  bool is_rest_due = false;
  Duration wait{};  // of what came while this was sent
  std::vector<std::function<void()>> done;
  {
    MutexLock spool_lock(&spool_mutex_);
    bool was_all = true;
    sent = spool_->empty() ? SendPending(&was_all) : SendSpooled();
    MutexLock lock(&mutex_);
    if (cancelled_) return false;
    if (spool_->empty() && pending_.empty()) {
      done = std::exchange(when_sent_, {});
    } else {
      is_rest_due = !sent || !was_all || !spool_->empty() || IsDue();
      if (!is_rest_due && !std::exchange(gather_posted_, true)) wait = pending_.front().since + gather_ - Now();
    }
  }
  for (const auto& callback : done) callback();
  if (wait > Duration::zero()) SendGatheredIn(wait);
  if (!is_rest_due) return false;
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
      SetInUse(1);
      bytes = pending_.front().report.SerializeAsString();
    }
    const absl::Status appended = spool_->Append(bytes);
    MutexLock lock(&mutex_);
    SetInUse(0);
    if (!appended.ok()) {
      spool_is_full_ = true;  // also for a disk that takes nothing: the same has to be done about it
      LogWarn("agent", "{} cannot be spooled: {}", FormatCount(static_cast<int64_t>(pending_.size()), "result"),
              MessageOf(appended));
      break;
    }
    const Pending& spooled = pending_.front();
    const auto unsent = unsent_.find(spooled.report.unit_id());
    // From the disk it comes back as one report.
    if (unsent != unsent_.end() && unsent->second.token == spooled.report.token()) {
      unsent->second.reports -= spooled.reports - 1;
    }
    PopPending();
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
      for (size_t i = 0; i < *ended; ++i) Ended(request.reports(static_cast<int>(i)), 1);
    }
  }
  MutexLock lock(&mutex_);
  spool_is_empty_ = spool_->empty();
  spool_is_full_ = spool_->full();
  spool_bytes_ = spool_->bytes();
  return sent;
}

bool RemoteLink::SendPending(bool* was_all) {
  wire::ReportUnitsRequest request;
  {
    MutexLock lock(&mutex_);
    uint64_t bytes = 0;
    for (const Pending& pending : pending_) {
      bytes += pending.bytes;
      if (request.reports_size() == kReportsPerCallMax || (request.reports_size() > 0 && bytes > kBytesPerCallMax)) {
        break;
      }
      *request.add_reports() = pending.report;
    }
    SetInUse(static_cast<size_t>(request.reports_size()));
    *was_all = pending_in_use_ == pending_.size();
  }
  if (request.reports_size() == 0) return true;
  const absl::StatusOr<size_t> ended = Send(request);
  std::vector<int64_t> reports;
  {
    MutexLock lock(&mutex_);
    SetInUse(0);
    if (!ended.ok()) return false;
    for (size_t i = 0; i < *ended; ++i) {
      reports.push_back(pending_.front().reports);
      PopPending();
    }
  }
  for (size_t i = 0; i < *ended; ++i) Ended(request.reports(static_cast<int>(i)), reports[i]);
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
      LogInfo("agent", "unit {} has another owner: {} dropped", request.reports(i).unit_id(),
              FormatCount(request.reports(i).trials_size(), "result is", "results are"));
    } else if (result.verdict() != wire::REPORT_VERDICT_ACCEPTED) {
      LogError("agent", "control refuses the results of unit {}, which are dropped: {}", request.reports(i).unit_id(),
               result.error());
    }
  }
  if (!response->stopped_because().empty()) {
    LogWarn("agent", "control cannot accept results now: {}", response->stopped_because());
  }
  return static_cast<size_t>(std::min(response->results_size(), request.reports_size()));
}

void RemoteLink::Ended(const ReportTrialsRequest& report, int64_t reports) {
  MutexLock lock(&mutex_);
  sent_ += reports;
  const auto found = unsent_.find(report.unit_id());
  if (found == unsent_.end() || found->second.token != report.token()) return;
  found->second.reports -= reports;
  if (found->second.reports <= 0) unsent_.erase(found);
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
    LogWarn("agent", "claimed units return to the queue when the lease expires: {}", MessageOf(ended.status()));
    return;
  }
  MutexLock spool_lock(&spool_mutex_);
  const absl::Status cleared = spool_->SetIdentity("");
  if (!cleared.ok()) LogWarn("agent", "{}", MessageOf(cleared));
}

}  // namespace tunefarm
