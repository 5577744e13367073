// What the calls of all agents of a load took, and what they brought, seen at the channel.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "server/agent/control_channel.h"
#include "server/base/mutex.h"

namespace tunefarm {

// Thread-safe.
class CallTimes {
 public:
  enum class Call { kSynchronize, kClaim, kReport };  // kClaim: a Synchronize that brought units

  void Add(Call call, Duration took) LOCKS_EXCLUDED(mutex_);
  void AddTrials(int64_t count) { trials_ += count; }
  void AddStale() { ++stale_; }
  void AddFailure() { ++failures_; }
  // Counts begin anew.
  void Reset() LOCKS_EXCLUDED(mutex_);

  // Trials that control has stored, in all.
  int64_t trials() const { return trials_.load(); }
  // One line of JSON.
  std::string Report() const LOCKS_EXCLUDED(mutex_);

 private:
  std::atomic<int64_t> trials_{0}, stale_{0}, failures_{0};
  mutable Mutex mutex_;
  std::vector<float> ms_[3] GUARDED_BY(mutex_);
};

// A channel that counts in `times`, which outlives it.
std::shared_ptr<ControlChannel> CountCalls(std::shared_ptr<ControlChannel> channel, CallTimes* times);

}  // namespace tunefarm
