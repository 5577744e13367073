// WorkLimit: how long a piece of work may take and who may end it early. MemoryBudget: how much memory several pieces
// of work may hold together.
//
// Work asks GoOn every some milliseconds (WorkPace counts them) and gives up where the answer is no; Why then says the
// reason. Processor time is counted for each thread that works, so that neither a loaded machine nor a low priority
// shortens what may be done.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "absl/status/status.h"
#include "server/base/clock.h"
#include "server/base/mutex.h"
#include "server/base/thread_annotations.h"

namespace tunefarm {

// The reason (ReasonOf) of a status of work that exceeded its time.
inline constexpr std::string_view kWorkLimitReason = "WORK_LIMIT";

// Bytes that several owners hold together. Thread-safe.
class MemoryBudget {
 public:
  // `whole`: what this one is a part of; may be null.
  explicit MemoryBudget(uint64_t bytes_max, std::shared_ptr<MemoryBudget> whole = nullptr)
      : bytes_max_(bytes_max), whole_(std::move(whole)) {}
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  uint64_t bytes_max() const { return bytes_max_; }
  uint64_t used() const { return used_.load(); }

 private:
  friend class MemoryUse;
  // False, and nothing is taken: so much is not left.
  bool Take(uint64_t bytes);
  void Give(uint64_t bytes);

  const uint64_t bytes_max_;
  const std::shared_ptr<MemoryBudget> whole_;
  std::atomic<uint64_t> used_{0};
};

// What one owner holds of a budget, until it is destroyed. Thread-safe.
class MemoryUse {
 public:
  // Null: no bound.
  explicit MemoryUse(std::shared_ptr<MemoryBudget> budget) : budget_(std::move(budget)) {}
  ~MemoryUse();
  MemoryUse(const MemoryUse&) = delete;
  MemoryUse& operator=(const MemoryUse&) = delete;

  // Holds at least so many bytes. False: they are not left; what was held stays.
  bool AtLeast(uint64_t bytes) LOCKS_EXCLUDED(mutex_);
  // Gives back what is held above that.
  void AtMost(uint64_t bytes) LOCKS_EXCLUDED(mutex_);
  uint64_t bytes() const LOCKS_EXCLUDED(mutex_);
  // Whether AtLeast has failed.
  bool is_refused() const { return is_refused_.load(); }

 private:
  const std::shared_ptr<MemoryBudget> budget_;
  std::atomic<bool> is_refused_{false};
  mutable Mutex mutex_;
  uint64_t bytes_ GUARDED_BY(mutex_) = 0;
};

// What somebody who waits for some work grants it.
struct WorkGrant {
  Duration processor_time = Duration::max();  // of each thread that works
  // Where this is less: after so much the work is given up, to be done again with all the time by somebody who holds up
  // nobody else.
  Duration give_up_after = Duration::max();
  // Whether nobody waits any more: asked often, on any thread that works. Empty: somebody does.
  std::function<bool()> is_cancelled = nullptr;
};

// Threads: Begin by the thread that is about to work, while no other works under the limit; Cancel from any thread at
// any time; GoOn and Why by that thread and by threads that it starts for the work.
class WorkLimit {
 public:
  struct Bounds {
    // What the work is about, and what to do where it takes too long: "the search space of kernel 'x'", "list fewer
    // values".
    std::string subject;
    std::string advice;
    WorkGrant grant;
    std::shared_ptr<MemoryBudget> memory;  // what the work makes is held of it; null: no bound
  };

  explicit WorkLimit(Bounds bounds);
  // A part of some work, which may be given up alone. `whole` outlives it.
  WorkLimit(const WorkLimit* whole, Duration processor_time);
  WorkLimit(const WorkLimit&) = delete;
  WorkLimit& operator=(const WorkLimit&) = delete;

  // The calling thread works from now on; times as in WorkGrant. A cancelled limit stays cancelled.
  void Begin(Duration processor_time, Duration give_up_after = Duration::max());
  // Of the thread that began, which calls them: the processor time that it has spent since, and what is left of what it
  // has. Max: no bound.
  Duration Spent() const;
  Duration Left() const;
  // Nothing more is done under it.
  void Cancel() { is_cancelled_.store(true); }

  // False: the work is to be given up. Stays false until Begin. Some tens of nanoseconds,
  // and half a microsecond once as much time has passed as the work may spend.
  bool GoOn() const;
  // OK while GoOn is true. Else Cancelled, or ResourceExhausted (WORK_LIMIT) with one sentence; of a part the reason of
  // the whole, where that has ended.
  absl::Status Why() const;

  const std::shared_ptr<MemoryBudget>& memory() const { return bounds_.memory; }

 private:
  enum class End { kNone, kCancelled, kProcessorTime };

  Bounds bounds_;
  const WorkLimit* const whole_ = nullptr;
  std::thread::id owner_;
  Duration owner_began_{};  // its processor time at Begin; threads that it starts begin with none
  MonotonicTime began_;
  std::atomic<bool> is_cancelled_{false};
  mutable std::atomic<End> end_{End::kNone};
};

// Asks a limit only now and then: after so much work, in units of about ten nanoseconds. One thread's.
class WorkPace {
 public:
  // Null: no limit.
  explicit WorkPace(const WorkLimit* limit) : limit_(limit) {}

  // False: the work is to be given up, and so are all later answers.
  bool Spend(uint64_t work) {
    if (limit_ == nullptr) return true;
    if (work < left_) {
      left_ -= work;
      return true;
    }
    left_ = 0;
    if (!limit_->GoOn()) return false;
    left_ = kBetween;
    return true;
  }

 private:
  static constexpr uint64_t kBetween = 200'000;  // some milliseconds

  const WorkLimit* limit_;
  uint64_t left_ = kBetween;
};

}  // namespace tunefarm
