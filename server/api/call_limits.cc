#include "server/api/call_limits.h"

#include <deque>
#include <iterator>

#include "server/base/status.h"

namespace tunefarm {
namespace {

// Principals are bounded by the certificates and tokens there are; those without a call are forgotten.
constexpr size_t kPrincipalsMax = 10'000;
constexpr const char* kRetryAfterMs = "1000";

// Takes one of `max`.
bool TryCount(std::atomic<int>* count, int max) {
  if (count->fetch_add(1, std::memory_order_relaxed) < max) return true;
  count->fetch_sub(1, std::memory_order_relaxed);
  return false;
}

absl::Status Refused(const absl::Status& status, const char* reason) {
  return WithMetadata(WithReason(status, reason), "retry_after_ms", kRetryAfterMs);
}

absl::Status Overloaded(const char* what) {
  return Refused(ResourceExhausted("{}; try again later", what), "OVERLOADED");
}

}  // namespace

bool CallMemory::TryTake(size_t bytes) {
  if (bytes > bytes_max_) return false;
  if (used_.fetch_add(bytes, std::memory_order_relaxed) <= bytes_max_ - bytes) return true;
  Return(bytes);
  return false;
}

MemoryShare MemoryShare::Take(CallMemory* first, CallMemory* second, size_t bytes) {
  MemoryShare share;
  if (!first->TryTake(bytes)) return share;
  if (second != nullptr && !second->TryTake(bytes)) {
    first->Return(bytes);
    return share;
  }
  share.first_ = first;
  share.second_ = second;
  share.bytes_ = bytes;
  return share;
}

MemoryShare& MemoryShare::operator=(MemoryShare&& other) noexcept {
  if (this == &other) return *this;
  Reset();
  first_ = std::exchange(other.first_, nullptr);
  second_ = std::exchange(other.second_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

void MemoryShare::Reset() {
  if (first_ != nullptr) first_->Return(bytes_);
  if (second_ != nullptr) second_->Return(bytes_);
  first_ = second_ = nullptr;
  bytes_ = 0;
}

struct CallLimits::Usage {
  Usage(const CallLimitOptions& options, int most_arriving)
      : arriving_max(most_arriving),
        received_bytes(options.received_bytes_max / 2),
        stream_bytes(options.stream_bytes_max / 2) {}
  const int arriving_max;  // 0: no bound
  std::atomic<int> calls{0};
  std::atomic<int> streams{0};
  CallMemory received_bytes;
  CallMemory stream_bytes;
  Mutex mutex;
  int arriving GUARDED_BY(mutex) = 0;
  std::deque<std::function<void()>> waiting GUARDED_BY(mutex);  // to arrive, the first one first
};

CallLimits::CallLimits(const CallLimitOptions& options)
    : options_(options),
      received_bytes_(options.received_bytes_max),
      parsed_bytes_(options.parsed_bytes_max),
      stream_bytes_(options.stream_bytes_max),
      sockets_{std::make_shared<Usage>(options, 0), std::make_shared<Usage>(options, 0),
               std::make_shared<Usage>(options, 0)} {}

CallLimits::~CallLimits() = default;

std::shared_ptr<CallLimits::Usage> CallLimits::UsageOf(const Principal& principal) {
  if (principal.kind == PrincipalKind::kSocket) {
    return sockets_[principal.Has(Right::kAdmin) ? 0 : principal.Has(Right::kAgent) ? 1 : 2];
  }
  // Names of certificates have a slash, those of tokens have none.
  MutexLock lock(&mutex_);
  if (const auto known = principals_.find(principal.name); known != principals_.end()) return known->second;
  if (principals_.size() >= kPrincipalsMax) {
    for (auto at = principals_.begin(); at != principals_.end();) {
      at = at->second.use_count() == 1 ? principals_.erase(at) : std::next(at);
    }
  }
  return principals_.emplace(principal.name, std::make_shared<Usage>(options_, options_.arriving_per_principal_max))
      .first->second;
}

absl::StatusOr<CallLimits::Ticket> CallLimits::Begin(const Principal& principal, CallKind kind) {
  if (kind == CallKind::kAgentCall) {
    if (TryCount(&agent_calls_, options_.agent_calls_max)) return Ticket(this, kind, UsageOf(principal));
    return Refused(
        Unavailable("{} calls of agents are under way, no more are taken; try again later", options_.agent_calls_max),
        "TOO_MANY_CALLS");
  }
  std::shared_ptr<Usage> usage = UsageOf(principal);
  if (kind == CallKind::kStream) {
    if (!TryCount(&usage->streams, options_.streams_per_principal_max)) {
      return Refused(
          ResourceExhausted("{} has {} watches open, as many as it may; end some of them, or share one watch",
                            principal.Text(), options_.streams_per_principal_max),
          "TOO_MANY_WATCHERS");
    }
    if (TryCount(&streams_, options_.streams_max)) return Ticket(this, kind, std::move(usage));
    usage->streams.fetch_sub(1, std::memory_order_relaxed);
    return Refused(ResourceExhausted("{} watches are open, no more are taken; try again later", options_.streams_max),
                   "TOO_MANY_WATCHERS");
  }
  if (!TryCount(&usage->calls, options_.calls_per_principal_max)) {
    return Refused(ResourceExhausted("{} has {} calls under way, as many as it may; wait for their answers",
                                     principal.Text(), options_.calls_per_principal_max),
                   "TOO_MANY_CALLS");
  }
  if (TryCount(&calls_, options_.calls_max)) return Ticket(this, kind, std::move(usage));
  usage->calls.fetch_sub(1, std::memory_order_relaxed);
  return Refused(ResourceExhausted("{} calls are under way, no more are taken; try again later", options_.calls_max),
                 "TOO_MANY_CALLS");
}

absl::StatusOr<MemoryShare> CallLimits::HoldParsed(size_t bytes) {
  if (bytes <= kUncountedBytes) return MemoryShare();
  MemoryShare share = MemoryShare::Take(&parsed_bytes_, nullptr, bytes);
  if (!share.is_held()) return Overloaded("other large requests are being answered");
  return share;
}

CallLimits::Ticket::Ticket(CallLimits* limits, CallKind kind, std::shared_ptr<Usage> usage)
    : limits_(limits), kind_(kind), usage_(std::move(usage)) {}

CallLimits::Ticket::Ticket(Ticket&& other) noexcept
    : limits_(std::exchange(other.limits_, nullptr)), kind_(other.kind_), usage_(std::move(other.usage_)) {}

CallLimits::Ticket::~Ticket() {
  if (limits_ == nullptr) return;
  switch (kind_) {
    case CallKind::kAgentCall:
      limits_->agent_calls_.fetch_sub(1, std::memory_order_relaxed);
      return;
    case CallKind::kStream:
      limits_->streams_.fetch_sub(1, std::memory_order_relaxed);
      usage_->streams.fetch_sub(1, std::memory_order_relaxed);
      return;
    case CallKind::kCall:
      limits_->calls_.fetch_sub(1, std::memory_order_relaxed);
      usage_->calls.fetch_sub(1, std::memory_order_relaxed);
      return;
  }
}

bool CallLimits::Ticket::MayWait() const { return kind_ != CallKind::kAgentCall && usage_->arriving_max > 0; }

void CallLimits::Ticket::BeginRead(std::function<void()> begin) const {
  if (MayWait()) {
    MutexLock lock(&usage_->mutex);
    if (usage_->arriving >= usage_->arriving_max) {
      usage_->waiting.push_back(std::move(begin));
      return;
    }
    ++usage_->arriving;
  }
  begin();
}

void CallLimits::Ticket::EndRead() const {
  if (!MayWait()) return;
  std::function<void()> next;
  {
    MutexLock lock(&usage_->mutex);
    if (usage_->waiting.empty()) {
      --usage_->arriving;
      return;
    }
    next = std::move(usage_->waiting.front());
    usage_->waiting.pop_front();
  }
  next();
}

absl::StatusOr<MemoryShare> CallLimits::Ticket::HoldReceived(size_t bytes) const {
  if (bytes <= kUncountedBytes) return MemoryShare();
  // Agents of a farm may share one identity.
  CallMemory* const own = kind_ == CallKind::kAgentCall ? nullptr : &usage_->received_bytes;
  MemoryShare share = MemoryShare::Take(&limits_->received_bytes_, own, bytes);
  if (!share.is_held()) return Overloaded("other large requests wait to be answered");
  return share;
}

MemoryShare CallLimits::Ticket::HoldForStream(size_t bytes) const {
  return MemoryShare::Take(&limits_->stream_bytes_, &usage_->stream_bytes, bytes);
}

}  // namespace tunefarm
