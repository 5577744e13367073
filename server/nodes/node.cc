#include "server/nodes/node.h"

#include <fmt/core.h>

#include <charconv>
#include <chrono>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "server/base/check.h"
#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/agent_store.h"
#include "server/store/lease_store.h"

namespace tunefarm {
namespace {

constexpr std::string_view kMark = "\nrenewal ";

// 0: none.
int64_t MarkIn(std::string_view detail) {
  const size_t at = detail.rfind(kMark);
  int64_t mark = 0;
  if (at != std::string_view::npos) {
    const std::string_view digits = detail.substr(at + kMark.size());
    std::from_chars(digits.data(), digits.data() + digits.size(), mark);
  }
  return mark;
}

}  // namespace

NodeOptions PermanentNode(std::string id) {
  NodeOptions options;
  options.id = std::move(id);
  options.lease = std::chrono::hours(24 * 365 * 100);  // far below what 64 bits of nanoseconds hold
  options.poll = options.idle_poll = NodeOptions::kNever;
  options.adopted_at_once = std::numeric_limits<int>::max();
  options.step_pause = Duration::zero();
  options.open_trials_per_device = 80;  // above the agent's look-ahead, so that it never waits for a transaction
  return options;
}

absl::StatusOr<int64_t> ReleaseEarlierProcess(Store* store, Clock* clock) {
  ASSIGN_OR_RETURN(const std::vector<LeaseRow> leases, store->leases()->ListLeases(kNodeLeasePrefix));
  for (const LeaseRow& lease : leases) RETURN_IF_ERROR(store->leases()->ReleaseLease(lease.name, lease.holder));
  return store->agents()->ReleaseOtherAgents({}, clock->WallMs());
}

Node::Node(Store* store, Clock* clock, NodeOptions options)
    : store_(store), clock_(clock), options_(std::move(options)), of_store_(store->Replacements()) {
  TUNEFARM_CHECK(!options_.id.empty());
}

absl::StatusOr<bool> Node::TakeLease(Duration lease, Mark* mark) {
  LeaseRequest request;
  request.name = kNodeLeasePrefix + mark->name;
  request.holder = mark->name;
  request.detail = fmt::format("{}{}{}", options_.detail, kMark, ++mark->tried);
  request.lease_ms = std::chrono::duration_cast<std::chrono::milliseconds>(lease).count();
  ASSIGN_OR_RETURN(const LeaseRow row, store_->leases()->TakeLease(request));
  if (row.holder != request.holder) return Aborted("the lease {} is held by {}", row.name, row.holder);
  const int64_t before = MarkIn(row.detail_before);
  const bool is_there = mark->known <= before && before < mark->tried;
  mark->known = mark->tried;
  return is_there;
}

absl::Status Node::CheckOldName(const std::string& name) {
  if (mark_.name.empty() || mark_.name == name) return absl::OkStatus();
  ASSIGN_OR_RETURN(const bool is_there, TakeLease(std::chrono::milliseconds(1), &mark_));
  store_->leases()->ReleaseLease(kNodeLeasePrefix + mark_.name, mark_.name).IgnoreError();
  mark_ = Mark();
  if (!is_there) NoteReplacement();
  return absl::OkStatus();
}

void Node::CheckStore() {
  const int64_t found = store_->Replacements();
  {
    MutexLock lock(&mutex_);
    if (found == of_store_) return;
    of_store_ = found;
  }
  NoteReplacement();
}

void Node::NoteReplacement() {
  LogWarn("jobs", "the database was restored to an older state: everything cached from it is read again");
  mark_ = Mark();
  MutexLock lock(&mutex_);
  ++replacements_;
  until_ = MonotonicTime{};
}

absl::Status Node::Renew() {
  CheckStore();
  const int64_t before = replacements();
  const absl::Status renewed = RenewOnce();
  CheckStore();
  return replacements() == before ? renewed : Renew();
}

absl::Status Node::RenewOnce() {
  std::string late, lost, name;
  const MonotonicTime now = clock_->Now();
  {
    MutexLock lock(&mutex_);
    if (left_) return Unavailable("the daemon is stopping");
    if (now >= until_) {
      lost = std::move(name_);
      if (until_ != MonotonicTime{}) late = lost;
      ++names_;
      name_ = names_ == 1 ? options_.id : fmt::format("{}.{}", options_.id, names_);
    }
    name = name_;
  }
  if (!late.empty()) {
    LogWarn("jobs", "node {} could not renew its lease in time: other nodes may adopt its jobs", late);
  }
  // It ends by itself a little later otherwise.
  if (!lost.empty()) store_->leases()->ReleaseLease(kNodeLeasePrefix + lost, lost).IgnoreError();
  RETURN_IF_ERROR(CheckOldName(name));
  mark_.name = name;
  ASSIGN_OR_RETURN(const bool is_there, TakeLease(options_.lease, &mark_));
  if (!is_there) {
    NoteReplacement();
    return absl::OkStatus();
  }
  MutexLock lock(&mutex_);
  until_ = now + options_.lease / 6 * 5;
  return absl::OkStatus();
}

int64_t Node::replacements() const {
  MutexLock lock(&mutex_);
  return replacements_;
}

std::string Node::Name() const {
  MutexLock lock(&mutex_);
  const bool may_drive = !left_ && clock_->Now() < until_ && store_->Replacements() == of_store_;
  return may_drive ? name_ : std::string();
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
  const absl::Status released = store_->leases()->ReleaseLease(kNodeLeasePrefix + name, name);
  if (!released.ok())
    LogWarn("jobs", "the lease of {} could not be returned, and other nodes wait until it expires: {}", name,
            MessageOf(released));
}

}  // namespace tunefarm
