#include "server/base/work_limit.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "server/base/check.h"
#include "server/base/format.h"
#include "server/base/status.h"

namespace tunefarm {
namespace {

// Of the calling thread.
Duration ProcessorTime() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace

bool MemoryBudget::Take(uint64_t bytes) {
  uint64_t used = used_.load();
  do {
    if (bytes > bytes_max_ || used > bytes_max_ - bytes) return false;
  } while (!used_.compare_exchange_weak(used, used + bytes));
  if (whole_ == nullptr || whole_->Take(bytes)) return true;
  used_ -= bytes;
  return false;
}

void MemoryBudget::Give(uint64_t bytes) {
  used_ -= bytes;
  if (whole_ != nullptr) whole_->Give(bytes);
}

MemoryUse::~MemoryUse() { AtMost(0); }

bool MemoryUse::AtLeast(uint64_t bytes) {
  const MutexLock lock(&mutex_);
  if (bytes <= bytes_) return true;
  if (budget_ != nullptr && !budget_->Take(bytes - bytes_)) {
    is_refused_ = true;
    return false;
  }
  bytes_ = bytes;
  return true;
}

void MemoryUse::AtMost(uint64_t bytes) {
  const MutexLock lock(&mutex_);
  if (bytes >= bytes_) return;
  if (budget_ != nullptr) budget_->Give(bytes_ - bytes);
  bytes_ = bytes;
}

uint64_t MemoryUse::bytes() const {
  const MutexLock lock(&mutex_);
  return bytes_;
}

WorkLimit::WorkLimit(Bounds bounds) : bounds_(std::move(bounds)) {
  Begin(bounds_.grant.processor_time, bounds_.grant.give_up_after);
}

WorkLimit::WorkLimit(const WorkLimit* whole, Duration processor_time) : whole_(whole) {
  TUNEFARM_CHECK(whole != nullptr);
  bounds_.subject = whole->bounds_.subject;
  bounds_.advice = whole->bounds_.advice;
  bounds_.grant.processor_time = processor_time;
  bounds_.memory = whole->bounds_.memory;
  Begin(processor_time);
}

void WorkLimit::Begin(Duration processor_time, Duration give_up_after) {
  bounds_.grant.processor_time = processor_time;
  bounds_.grant.give_up_after = give_up_after;
  owner_ = std::this_thread::get_id();
  owner_began_ = ProcessorTime();
  began_ = Clock::Real()->Now();
  end_ = End::kNone;
}

Duration WorkLimit::Spent() const { return ProcessorTime() - owner_began_; }

Duration WorkLimit::Left() const {
  const Duration whole = whole_ == nullptr ? Duration::max() : whole_->Left();
  if (bounds_.grant.processor_time == Duration::max()) return whole;
  return std::clamp(bounds_.grant.processor_time - Spent(), Duration::zero(), whole);
}

bool WorkLimit::GoOn() const {
  if (end_.load() != End::kNone) return false;
  if (whole_ != nullptr && !whole_->GoOn()) return false;
  if (is_cancelled_.load() || (bounds_.grant.is_cancelled && bounds_.grant.is_cancelled())) {
    end_ = End::kCancelled;
    return false;
  }
  const Duration time = std::min(bounds_.grant.processor_time, bounds_.grant.give_up_after);
  if (time == Duration::max()) return true;
  // No thread has spent more than has passed; to read that costs a tenth of reading a thread's time.
  if (Clock::Real()->Now() - began_ <= time) return true;
  const Duration began = std::this_thread::get_id() == owner_ ? owner_began_ : Duration::zero();
  if (ProcessorTime() - began <= time) return true;
  end_ = End::kProcessorTime;
  return false;
}

absl::Status WorkLimit::Why() const {
  if (GoOn()) return absl::OkStatus();
  if (whole_ != nullptr) {
    if (absl::Status status = whole_->Why(); !status.ok()) return status;
  }
  switch (end_.load()) {
    case End::kNone:
      return absl::OkStatus();
    case End::kCancelled:
      return Cancelled("{} was cancelled", bounds_.subject);
    case End::kProcessorTime: {
      const double ns = static_cast<double>(std::chrono::nanoseconds(bounds_.grant.processor_time).count());
      return WithReason(ResourceExhausted("{} takes more than {} of processor time; {}", bounds_.subject,
                                          FormatDuration(ns), bounds_.advice),
                        kWorkLimitReason);
    }
  }
  return absl::OkStatus();
}

}  // namespace tunefarm
