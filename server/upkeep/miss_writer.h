// MissWriter: writes the misses down every ten seconds, so that a daemon that is killed forgets no more than that.
//
// Threads: Start and Stop from any thread; the writing happens on the executor, which it may hold for as long as the
// store takes. What cannot be written is said once in the log, and tried again.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "server/base/executor.h"
#include "server/base/mutex.h"

namespace tunefarm {

class MissWriter : public std::enable_shared_from_this<MissWriter> {
 public:
  static constexpr Duration kInterval = std::chrono::seconds(10);

  // The executor outlives it; `write` is callable until Stop and the end of what is under way.
  MissWriter(Executor* executor, std::function<absl::Status()> write) : executor_(executor), write_(std::move(write)) {}

  void Start() { WriteLater(); }
  void Stop() LOCKS_EXCLUDED(mutex_);

 private:
  void WriteLater() LOCKS_EXCLUDED(mutex_);
  void WriteNow();

  Executor* const executor_;
  const std::function<absl::Status()> write_;
  bool has_failed_ = false;  // the last time; the executor's

  Mutex mutex_;
  bool is_stopped_ GUARDED_BY(mutex_) = false;
  TimerId timer_ GUARDED_BY(mutex_) = 0;
};

}  // namespace tunefarm
