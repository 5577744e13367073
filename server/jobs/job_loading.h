// JobLoading: the jobs that are being read from the store, and the way to end that early.
//
// Not thread-safe: the scheduler uses it with its turn. A flag may be read from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>

namespace tunefarm {

class JobLoading {
 public:
  // True once nobody needs the job.
  using Flag = std::shared_ptr<std::atomic<bool>>;

  // It is being read from now on.
  Flag Begin(int64_t job_id) { return flags_[job_id] = std::make_shared<std::atomic<bool>>(false); }
  // What began with that flag has ended; nothing if it has begun again.
  void End(int64_t job_id, const Flag& flag) {
    const auto found = flags_.find(job_id);
    if (found != flags_.end() && found->second == flag) flags_.erase(found);
  }
  // Unknown ids are fine.
  void GiveUp(int64_t job_id) {
    if (const auto found = flags_.find(job_id); found != flags_.end()) found->second->store(true);
  }
  void GiveUpAll() {
    for (const auto& [job_id, flag] : flags_) flag->store(true);
  }

 private:
  std::map<int64_t, Flag> flags_;
};

}  // namespace tunefarm
