// FarmBinaries: SharedBinaries through control. An agent with devices asks control for what others have compiled, while
// control says that there are such; one without devices offers what it has compiled.
//
// Thread-safe; calls to control are made on an executor of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "server/agent/remote_link.h"
#include "server/base/executor.h"
#include "server/base/mutex.h"
#include "server/exec/evaluator.h"

namespace tunefarm {

class FarmBinaries : public SharedBinaries {
 public:
  // Offers that wait for control; beyond, they are not made.
  static constexpr uint64_t kWaitingBytesMax = 64ull << 20;

  // Both outlive it, `calls`, which is its own, up to End.
  FarmBinaries(RemoteLink* link, Executor* calls, bool offers) : link_(link), calls_(calls), offers_(offers) {}

  void Find(const Digest& key, std::function<void(std::optional<CompileResult>)> done) override LOCKS_EXCLUDED(mutex_);
  void Keep(const Digest& key, const CompileResult& result) override LOCKS_EXCLUDED(mutex_);
  // Nobody is asked any more. What is under way is over when `calls` has stopped.
  void End() LOCKS_EXCLUDED(mutex_);

 private:
  RemoteLink* const link_;
  Executor* const calls_;
  const bool offers_;
  Mutex mutex_;
  bool ended_ GUARDED_BY(mutex_) = false;
  uint64_t waiting_bytes_ GUARDED_BY(mutex_) = 0;
};

}  // namespace tunefarm
