#include "server/nodes/node_watch.h"

#include <algorithm>
#include <utility>

#include "server/base/log.h"
#include "server/base/status.h"

namespace tunefarm {
namespace {

// After a lease that could not be renewed.
constexpr Duration kRenewAgain = std::chrono::seconds(1);

}  // namespace

NodeWatch::NodeWatch(Node* node, Executor* poll, Executor* lease, Questions questions)
    : node_(node),
      poll_(poll),
      lease_(lease),
      questions_(std::move(questions)),
      agreed_ns_(poll->clock()->Now().time_since_epoch().count()) {}

absl::Status NodeWatch::Start() {
  absl::Status first = Renew();
  // Nothing is posted to the poll executor before this: questions are asked on one thread at a time.
  const absl::Status asked = Ask();
  if (!asked.ok()) AskNow();
  first.Update(asked);
  PollAgain();
  RenewAgain(first);
  return first;
}

void NodeWatch::Stop() {
  MutexLock lock(&mutex_);
  stopped_ = true;
  poll_->Cancel(poll_timer_);
  poll_->Cancel(ask_timer_);
  lease_->Cancel(lease_timer_);
}

void NodeWatch::AskNow() {
  poll_->Post([weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    self->refreshed_ = MonotonicTime{};
    if (self->Ask().ok()) return;
    // A job that was just stored must be adopted, also where nothing is polled.
    MutexLock lock(&self->mutex_);
    if (self->stopped_ || self->ask_timer_ != 0) return;
    self->ask_timer_ = self->poll_->PostAfter(kRefresh, [weak] {
      const auto again = weak.lock();
      if (again == nullptr) return;
      {
        MutexLock again_lock(&again->mutex_);
        again->ask_timer_ = 0;
        if (again->stopped_) return;
      }
      again->AskNow();
    });
  });
}

absl::Status NodeWatch::Ask() {
  {
    MutexLock lock(&mutex_);
    if (stopped_) return absl::OkStatus();
  }
  const MonotonicTime now = poll_->clock()->Now();
  absl::Status status;
  const bool is_due = now - refreshed_ >= kRefresh;
  if (is_due) {
    refreshed_ = now;
    status = questions_.refresh();
  }
  const absl::Status followed = questions_.follow();
  status.Update(followed);
  if (is_due || !status.ok()) Note(status);
  if (is_due && status.ok()) agreed_ns_.store(now.time_since_epoch().count());
  return status;
}

void NodeWatch::PollAgain() {
  const Duration pause = questions_.is_busy() ? node_->options().poll : node_->options().idle_poll;
  if (pause == NodeOptions::kNever) return;
  MutexLock lock(&mutex_);
  if (stopped_) return;
  poll_timer_ = poll_->PostAfter(pause, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    self->Ask().IgnoreError();  // noted
    self->PollAgain();
  });
}

void NodeWatch::Note(const absl::Status& status) {
  MutexLock lock(&mutex_);
  if (!status.ok() && last_.ok()) {
    LogWarn("jobs", "changes of other daemons cannot be read: {}", MessageOf(status));
  } else if (status.ok() && !last_.ok()) {
    LogInfo("jobs", "changes of other daemons can be read again");
  }
  last_ = status;
}

absl::Status NodeWatch::Renew() {
  {
    MutexLock lock(&mutex_);
    if (stopped_) return absl::OkStatus();
  }
  const absl::Status renewed = node_->Renew();
  if (questions_.on_lease) questions_.on_lease();
  return renewed;
}

void NodeWatch::RenewAgain(const absl::Status& last) {
  const Duration third = node_->options().lease / 3;
  MutexLock lock(&mutex_);
  if (stopped_) return;
  lease_timer_ = lease_->PostAfter(last.ok() ? third : std::min(kRenewAgain, third), [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    const bool had_name = !self->node_->Name().empty();
    const absl::Status renewed = self->Renew();
    if (!renewed.ok() && had_name) LogWarn("jobs", "the node's lease is not renewed: {}", MessageOf(renewed));
    // A name of its own is what jobs are adopted under.
    if (renewed.ok() && !had_name) self->AskNow();
    self->RenewAgain(renewed);
  });
}

int64_t NodeWatch::AgeMs() const {
  if (node_->options().poll == NodeOptions::kNever) return 0;  // nobody else changes the store
  const Duration age = poll_->clock()->Now() - MonotonicTime(Duration(agreed_ns_.load()));
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::max(age, Duration::zero())).count();
}

void NodeWatch::SetAge(Duration age) { agreed_ns_.store((poll_->clock()->Now() - age).time_since_epoch().count()); }

absl::Status NodeWatch::LastStatus() const {
  MutexLock lock(&mutex_);
  return last_;
}

}  // namespace tunefarm
