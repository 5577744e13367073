#include "server/agent/control_list.h"

#include <algorithm>

#include "server/base/check.h"
#include "server/base/log.h"
#include "server/base/status.h"

namespace tunefarm {

bool IsAway(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kUnimplemented:    // it is no control daemon, or one of before there were agents
    case absl::StatusCode::kUnauthenticated:  // its certificates, or ours, are being changed
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnknown:  // the transport's own
      return true;
    default:
      return false;
  }
}

ControlList::ControlList(ControlDialer dial, std::vector<std::string> addresses, Clock* clock, EntropySource* entropy)
    : dial_(std::move(dial)), addresses_(std::move(addresses)), clock_(clock), entropy_(entropy) {
  TUNEFARM_CHECK(!addresses_.empty());
  uint32_t random = 0;
  entropy_->Fill(&random, sizeof(random));
  at_ = random % addresses_.size();
}

ControlList::~ControlList() { Cancel(); }

absl::StatusOr<ControlList::Turn> ControlList::Current() {
  MutexLock lock(&mutex_);
  if (cancelled_) return Cancelled("the agent is ending");
  if (clock_->Now() < not_before_) return Unavailable("no control daemon answers; the next attempt is due soon");
  if (channel_ == nullptr) channel_ = dial_(addresses_[at_]);
  return Turn{channel_, turn_};
}

Duration ControlList::Jittered(Duration whole) {
  uint32_t random = 0;
  entropy_->Fill(&random, sizeof(random));
  return whole / 2 + Duration(static_cast<int64_t>(static_cast<double>(whole.count()) / 2 * (random / 4294967296.0)));
}

void ControlList::Note(const Turn& turn, const absl::Status& status) {
  MutexLock lock(&mutex_);
  if (turn.number != turn_ || cancelled_) return;  // another call has noted it
  if (!IsAway(status)) {
    failed_ = 0;
    back_off_ = kBackOffFirst;
    return;
  }
  LogWarn("agent", "control at {} does not answer: {}", addresses_[at_], MessageOf(status));
  TakeNext();
  if (++failed_ < addresses_.size()) return;
  failed_ = 0;
  not_before_ = clock_->Now() + Jittered(back_off_);
  back_off_ = std::min(back_off_ * 2, kBackOffMax);
}

void ControlList::TakeNext() {
  // Calls that the one in use may be about to answer keep their channel.
  channel_ = nullptr;
  ++turn_;
  at_ = (at_ + 1) % addresses_.size();
}

void ControlList::Skip() {
  MutexLock lock(&mutex_);
  TakeNext();
}

Duration ControlList::WaitBeforeNext() const {
  MutexLock lock(&mutex_);
  return std::max(Duration::zero(), not_before_ - clock_->Now());
}

std::string ControlList::address() const {
  MutexLock lock(&mutex_);
  return addresses_[at_];
}

void ControlList::Cancel() {
  std::shared_ptr<ControlChannel> channel;
  {
    MutexLock lock(&mutex_);
    cancelled_ = true;
    channel = channel_;
  }
  if (channel != nullptr) channel->Cancel();
}

}  // namespace tunefarm
