#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/base/clock.h"
#include "server/base/mutex.h"
#include "server/base/random.h"
#include "server/store/postgres/presence.h"
#include "server/store/postgres/session.h"
#include "server/store/store_maintenance.h"

namespace tunefarm::postgres {

// A bounded number of sessions, opened when they are needed, and the rules of repeating: a transaction that another one
// has got in the way of, or whose session was lost before its COMMIT was sent, is run again, a few times, with full
// jitter between. Of one whose session was lost after that, the server is asked what became of it: nothing is ever done
// twice. While the server does not answer at all (Presence) everything fails at once, Unavailable; what was under way
// then has failed too, a COMMIT with the reason COMMIT_UNKNOWN. An operation must change nothing but the database and
// variables of its caller, which count only if the call returns OK. All methods may be called from any thread; they
// block.
class Pool {
 public:
  using Operation = std::function<absl::Status(Session&)>;
  // `is_repeat`: it may have been done already, and finds that out itself.
  using RepeatableOperation = std::function<absl::Status(Session&, bool is_repeat)>;

  // The clock and the entropy outlive the pool.
  Pool(SessionOptions options, int sessions_max, Clock* clock, EntropySource* entropy);
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // One transaction, durable on OK.
  absl::Status Write(const Operation& operation);
  // One statement that is its own transaction: a round trip instead of three or more.
  absl::Status WriteStatement(const RepeatableOperation& operation);
  // Statements that change nothing, each with its own snapshot.
  absl::Status Read(const Operation& operation);
  // The same in one snapshot.
  absl::Status ReadSnapshot(const Operation& operation);
  // A session of the caller's own for a while; what is repeated and when is the caller's.
  absl::Status Use(const Operation& operation);

  // The same for operations with an answer.
  template <typename F>
  auto Call(absl::Status (Pool::*method)(const Operation&), F operation) -> std::invoke_result_t<F, Session&> {
    std::invoke_result_t<F, Session&> result = absl::UnknownError("not run");
    const absl::Status status = (this->*method)([&](Session& session) {
      result = operation(session);
      return result.status();
    });
    if (!status.ok()) return status;
    return result;
  }

  CommitStats stats() const LOCKS_EXCLUDED(mutex_);
  // Store::Replacements. A call under way while it grows is not repeated, and fails.
  int64_t replacements() const { return replacements_.load(); }

 private:
  // A session taken out of the pool, given back at the end of its life.
  class Lease {
   public:
    Lease(Pool* pool, std::unique_ptr<Session> session) : pool_(pool), session_(std::move(session)) {}
    ~Lease() {
      if (session_ != nullptr) pool_->GiveBack(std::move(session_));
    }
    Lease(Lease&&) = default;
    Lease& operator=(Lease&&) = delete;
    Session& operator*() const { return *session_; }
    Session* operator->() const { return session_.get(); }

   private:
    Pool* pool_;
    std::unique_ptr<Session> session_;
  };
  // Somebody who waits for a session: served in the order of arrival.
  struct Waiter {
    CondVar wake;
    bool is_served = false;
    std::unique_ptr<Session> session;  // null when served: it may open one
  };

  absl::StatusOr<Lease> Take() LOCKS_EXCLUDED(mutex_);
  void GiveBack(std::unique_ptr<Session> session) LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<Lease> OpenOne() LOCKS_EXCLUDED(mutex_);
  void NoteDatabase(const std::string& database) LOCKS_EXCLUDED(mutex_);
  // Lets those open sessions who have waited longest, as many as there is room for.
  void ServeWaiters() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Runs `once` until it does not ask for a repetition any more or that has been done often enough.
  absl::Status Repeat(const std::function<absl::Status(Session&, bool* may_repeat)>& once);
  absl::Status WriteOnce(Session& session, const Operation& operation, bool* may_repeat);
  // What became of a transaction whose COMMIT was not answered.
  absl::StatusOr<bool> WasCommitted(int64_t transaction_id, const Session::Backend& backend);
  // Until the server's process of a lost session is gone: what it was doing is done or undone then.
  absl::Status AwaitEnd(const Session::Backend& backend);
  void Pause(int attempt);
  void Count(MonotonicTime began, const absl::Status& committed) LOCKS_EXCLUDED(mutex_);

  Presence presence_;
  const SessionOptions options_;  // with the presence
  const int sessions_max_;
  Clock* const clock_;
  EntropySource* const entropy_;

  mutable Mutex mutex_;
  CondVar never_;  // nobody notifies it: what a pause waits for
  std::vector<std::unique_ptr<Session>> idle_ GUARDED_BY(mutex_);
  int open_ GUARDED_BY(mutex_) = 0;  // idle, lent, or being opened
  std::deque<Waiter*> waiters_ GUARDED_BY(mutex_);
  CommitStats stats_ GUARDED_BY(mutex_);     // with `waiting`
  std::string database_ GUARDED_BY(mutex_);  // of the last session opened, as far as known
  std::atomic<int64_t> replacements_{0};
};

}  // namespace tunefarm::postgres
