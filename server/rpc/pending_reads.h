// PendingReads: the calls that were admitted and whose request has yet to arrive. Each holds a place that others want:
// one whose request takes too long is cancelled.
//
// Threads: all methods from any thread. Costs a call two locks of a shard.
#pragma once

#include <grpcpp/grpcpp.h>

#include <array>
#include <atomic>
#include <cstddef>

#include "server/base/clock.h"
#include "server/base/executor.h"
#include "server/base/mutex.h"

namespace tunefarm {

class PendingReads {
 public:
  // A part of a call. `context` lives until Remove has returned.
  struct Entry {
    grpc::ServerContextBase* context = nullptr;

   private:
    friend class PendingReads;
    size_t shard = 0;
    MonotonicTime since;
    bool is_cancelled = false;
    Entry* previous = nullptr;
    Entry* next = nullptr;
  };

  // The executor ends before it does.
  PendingReads(Executor* executor, Duration time_max);
  // No entry is left.
  ~PendingReads() = default;
  PendingReads(const PendingReads&) = delete;
  PendingReads& operator=(const PendingReads&) = delete;

  void Add(Entry* entry);
  void Remove(Entry* entry);

 private:
  struct Shard {
    Mutex mutex;
    Entry oldest GUARDED_BY(mutex);  // of a ring: its next is the oldest, its previous the newest
  };

  void SweepLater();
  void Sweep();

  Executor* const executor_;
  const Duration time_max_;
  std::atomic<size_t> next_shard_{0};
  std::array<Shard, 16> shards_;
};

}  // namespace tunefarm
