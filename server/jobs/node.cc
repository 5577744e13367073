#include "server/jobs/node.h"

#include <fmt/core.h>

#include <utility>

#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm {

Node::Node(Store* store, Clock* clock, NodeOptions options)
    : store_(store), clock_(clock), options_(std::move(options)) {}

absl::Status Node::Renew() {
  LeaseRequest request;
  std::string lost;
  const MonotonicTime now = clock_->Now();
  {
    MutexLock lock(&mutex_);
    if (left_) return Unavailable("the daemon is stopping");
    if (now >= until_) {
      lost = std::move(name_);
      ++names_;
      name_ = names_ == 1 ? options_.id : fmt::format("{}.{}", options_.id, names_);
    }
    request.holder = name_;
  }
  if (!lost.empty()) {
    LogWarn("jobs", "node {} could not renew its lease in time: what it drove is free for others", lost);
    // It ends by itself a little later otherwise.
    store_->ReleaseLease(kNodeLeasePrefix + lost, lost).IgnoreError();
  }
  request.name = kNodeLeasePrefix + request.holder;
  request.detail = options_.detail;
  request.lease_ms = std::chrono::duration_cast<std::chrono::milliseconds>(options_.lease).count();
  ASSIGN_OR_RETURN(const LeaseRow row, store_->TakeLease(request));
  if (row.holder != request.holder) return Aborted("the lease {} is held by {}", row.name, row.holder);
  MutexLock lock(&mutex_);
  until_ = now + options_.lease * 5 / 6;
  return absl::OkStatus();
}

std::string Node::Name() const {
  MutexLock lock(&mutex_);
  return !left_ && clock_->Now() < until_ ? name_ : std::string();
}

void Node::Leave() {
  std::string name;
  {
    MutexLock lock(&mutex_);
    if (left_) return;
    left_ = true;
    name = name_;
  }
  if (name.empty()) return;
  const absl::Status released = store_->ReleaseLease(kNodeLeasePrefix + name, name);
  if (!released.ok()) LogWarn("jobs", "others wait until the lease of {} has run out: {}", name, MessageOf(released));
}

}  // namespace tunefarm
