// CallLimits: what the calls of a process may take together, and those of one principal: calls in flight, streams, and
// memory of requests that have arrived, of requests that are parsed, and of what streams have yet to send.
//
// Threads: all methods from any thread. The limits outlive every Ticket and MemoryShare.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/access/principal.h"
#include "server/base/mutex.h"

namespace tunefarm {

struct CallLimitOptions {
  int calls_max = 4096;  // in flight, of clients
  int calls_per_principal_max = 1024;
  int agent_calls_max = 16'384;  // each agent has one that waits, and a few more
  int streams_max = 1024;
  int streams_per_principal_max = 512;
  // Requests that arrive at once, of a certificate or a token; the next ones wait. What arrives is not counted before
  // it is there, and may be 32 MiB each. Not of sockets and agents: others of the machine or the farm have the same
  // identity, and would wait for one whose requests take long.
  int arriving_per_principal_max = 6;
  // Bytes; one principal has at most half of the first and the last. Small requests do not count (kUncountedBytes):
  // calls_max bounds them.
  size_t received_bytes_max = size_t{128} << 20;
  size_t parsed_bytes_max = size_t{192} << 20;
  size_t stream_bytes_max = size_t{192} << 20;
};

// Requests up to this size, on the wire or parsed, are not counted.
inline constexpr size_t kUncountedBytes = 64 << 10;

// Bytes of which a share can be taken.
class CallMemory {
 public:
  explicit CallMemory(size_t bytes_max) : bytes_max_(bytes_max) {}
  bool TryTake(size_t bytes);
  void Return(size_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }
  size_t used() const { return used_.load(std::memory_order_relaxed); }
  size_t bytes_max() const { return bytes_max_; }

 private:
  const size_t bytes_max_;
  std::atomic<size_t> used_{0};
};

// Holds a share until it ends: of one budget, or of two.
class MemoryShare {
 public:
  MemoryShare() = default;
  // None, where one of the budgets has no such share. `second` may be null.
  static MemoryShare Take(CallMemory* first, CallMemory* second, size_t bytes);
  ~MemoryShare() { Reset(); }
  MemoryShare(MemoryShare&& other) noexcept
      : first_(std::exchange(other.first_, nullptr)),
        second_(std::exchange(other.second_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  MemoryShare& operator=(MemoryShare&& other) noexcept;

  bool is_held() const { return first_ != nullptr; }
  void Reset();

 private:
  CallMemory* first_ = nullptr;
  CallMemory* second_ = nullptr;
  size_t bytes_ = 0;
};

enum class CallKind : uint8_t { kCall, kStream, kAgentCall };

class CallLimits {
 private:
  struct Usage;

 public:
  explicit CallLimits(const CallLimitOptions& options = {});
  ~CallLimits();

  // A call in flight, until it ends.
  class Ticket {
   public:
    Ticket() = default;
    ~Ticket();
    Ticket(Ticket&& other) noexcept;
    Ticket& operator=(Ticket&& other) = delete;

    // Calls `begin` once the request may arrive: at once, or on the thread of an EndRead. The ticket may be gone when
    // it returns.
    void BeginRead(std::function<void()> begin) const;
    // The request is there, or will never be. Once after `begin` was called.
    void EndRead() const;
    // Of a request that has arrived and waits. ResourceExhausted (OVERLOADED) where too much waits already.
    absl::StatusOr<MemoryShare> HoldReceived(size_t bytes) const;
    // Of what a stream has yet to send; none where others have too much.
    MemoryShare HoldForStream(size_t bytes) const;

   private:
    friend class CallLimits;
    Ticket(CallLimits* limits, CallKind kind, std::shared_ptr<Usage> usage);
    bool MayWait() const;

    CallLimits* limits_ = nullptr;
    CallKind kind_ = CallKind::kCall;
    std::shared_ptr<Usage> usage_;
  };

  // ResourceExhausted (TOO_MANY_CALLS, TOO_MANY_WATCHERS).
  absl::StatusOr<Ticket> Begin(const Principal& principal, CallKind kind) LOCKS_EXCLUDED(mutex_);

  // Of requests that are parsed. ResourceExhausted (OVERLOADED).
  absl::StatusOr<MemoryShare> HoldParsed(size_t bytes);
  int calls() const { return calls_.load(); }
  int streams() const { return streams_.load(); }
  size_t held_bytes() const { return received_bytes_.used() + parsed_bytes_.used() + stream_bytes_.used(); }

 private:
  std::shared_ptr<Usage> UsageOf(const Principal& principal) LOCKS_EXCLUDED(mutex_);

  const CallLimitOptions options_;
  std::atomic<int> calls_{0};
  std::atomic<int> agent_calls_{0};
  std::atomic<int> streams_{0};
  CallMemory received_bytes_;
  CallMemory parsed_bytes_;
  CallMemory stream_bytes_;
  // Of the sockets, which have most of the calls: found without the lock.
  const std::shared_ptr<Usage> sockets_[3];
  Mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<Usage>> principals_ GUARDED_BY(mutex_);
};

}  // namespace tunefarm
