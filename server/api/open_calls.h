// OpenCalls: the public calls that are under way. The idle exit asks for them, and a daemon that is about to end
// refuses calls whose work it would not finish.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "server/base/clock.h"
#include "server/base/status.h"

namespace tunefarm {

class OpenCalls {
 public:
  // The clock outlives it.
  explicit OpenCalls(Clock* clock) : clock_(clock), last_ended_ns_(clock->Now().time_since_epoch().count()) {}

  // Held by a transport while a call is open. `calls` outlives it.
  class Call {
   public:
    explicit Call(OpenCalls* calls) : calls_(calls) { calls_->count_.fetch_add(1); }
    ~Call() {
      calls_->last_ended_ns_.store(calls_->clock_->Now().time_since_epoch().count());
      calls_->count_.fetch_sub(1);
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    OpenCalls* const calls_;
  };

  int count() const { return count_.load(); }
  MonotonicTime last_ended() const { return MonotonicTime(Duration(last_ended_ns_.load())); }

  // The daemon is about to end: CheckNotEnding fails from now on. Cannot be taken back.
  void Refuse() { is_ending_.store(true); }
  // For calls that begin something that lasts: Unavailable (DAEMON_ENDING) after Refuse.
  absl::Status CheckNotEnding() const {
    if (!is_ending_.load()) return absl::OkStatus();
    return WithReason(Unavailable("the daemon is ending; repeat the call once it has been started again"),
                      "DAEMON_ENDING");
  }

 private:
  Clock* const clock_;
  std::atomic<bool> is_ending_{false};
  std::atomic<int> count_{0};
  std::atomic<int64_t> last_ended_ns_;
};

}  // namespace tunefarm
