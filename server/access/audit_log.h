// AuditLog: what was refused and what was changed, by whom, as lines of JSON in files of bounded size.
//
// Threads: Record from any thread; it never waits for the disk: lines are written by a thread of its own, and those
// that find a full queue are counted instead. Refusals are written 20 at once and 2 a second for each peer; those left
// out are counted in the next line of the peer. Failing to write is logged and counted, and tried again with the next
// line.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/access/rate_limit.h"
#include "server/base/clock.h"
#include "server/base/executor.h"
#include "server/base/log.h"
#include "server/base/mutex.h"
#include "server/base/unique_fd.h"

namespace tunefarm {

struct AuditEntry {
  std::string principal;  // empty: unknown
  std::string kind;       // as PrincipalKindName, or unknown
  std::string peer;
  std::string call;      // "tunefarm.v1.TuningService/CreateJob"
  std::string resource;  // "jobs/12"
  absl::Status outcome;
};

struct AuditOptions {
  std::string path;
  int64_t bytes_max = 16 << 20;  // then it is renamed ("audit.1.log") and a new one begins
  int files_max = 4;             // kept in all
  Clock* clock = nullptr;        // outlives it
};

struct AuditStats {
  uint64_t written = 0;
  uint64_t refusals = 0;  // told, written or not
  uint64_t left_out = 0;  // refusals beyond a peer's rate
  uint64_t lost = 0;      // could not be written, or found the queue full
};

class AuditLog {
 public:
  // Makes or goes on with the file, with mode 0600. ErrnoStatus when it cannot be opened.
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(const AuditOptions& options);
  // Writes what is queued.
  ~AuditLog();

  void Record(AuditEntry entry) LOCKS_EXCLUDED(mutex_);
  AuditStats stats() const;

 private:
  explicit AuditLog(const AuditOptions& options);
  void WriteQueued() LOCKS_EXCLUDED(mutex_);
  absl::Status Write(const std::string& lines);
  absl::Status OpenFile();
  absl::Status Rotate();

  struct Peer {
    TokenBucket bucket;
    uint64_t left_out = 0;
  };

  const AuditOptions options_;
  std::atomic<uint64_t> written_{0};
  std::atomic<uint64_t> refusals_{0};
  std::atomic<uint64_t> left_out_{0};
  std::atomic<uint64_t> lost_{0};

  Mutex mutex_;
  std::deque<std::string> queue_ GUARDED_BY(mutex_);
  bool is_writing_ GUARDED_BY(mutex_) = false;
  std::unordered_map<std::string, Peer> peers_ GUARDED_BY(mutex_);  // by host

  // The writing thread's.
  UniqueFd file_;
  int64_t bytes_ = 0;
  LogRateLimit failures_;

  ThreadExecutor executor_;  // last: ends first
};

}  // namespace tunefarm
