// RateLimits: how many calls per second each principal may make: a bucket of tokens each for look-ups and for all other
// calls. Sockets are not limited: they are identities that many share, and a client that can open one is on this
// machine.
//
// Threads: all methods from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "absl/status/status.h"
#include "server/access/call_rules.h"
#include "server/access/principal.h"
#include "server/base/clock.h"
#include "server/base/mutex.h"

namespace tunefarm {

// Starts full. Not thread-safe.
class TokenBucket {
 public:
  // What flows in per second, and how much it holds; both at least 1.
  TokenBucket(double rate, double room, MonotonicTime now) : rate_(rate), room_(room), level_(room), filled_(now) {}
  // Zero: taken. Else how long until there is one.
  Duration Take(MonotonicTime now);
  MonotonicTime used() const { return filled_; }

 private:
  double rate_;
  double room_;
  double level_;
  MonotonicTime filled_;
};

class RateLimits {
 public:
  // Per second and principal; 0: no limit.
  RateLimits(int calls, int lookups, Clock* clock) : calls_(calls), lookups_(lookups), clock_(clock) {}

  // ResourceExhausted (RATE_LIMIT) with retry_after_ms in its metadata.
  absl::Status Take(const Principal& principal, CallRate rate) LOCKS_EXCLUDED(mutex_);

 private:
  const int calls_;
  const int lookups_;
  Clock* const clock_;
  Mutex mutex_;
  std::unordered_map<std::string, TokenBucket> buckets_ GUARDED_BY(mutex_);
};

}  // namespace tunefarm
