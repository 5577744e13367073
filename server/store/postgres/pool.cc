#include "server/store/postgres/pool.h"

#include <algorithm>

#include "server/base/failpoint.h"
#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm::postgres {
namespace {

constexpr int kAttemptsMax = 8;
constexpr int64_t kPauseFirstMs = 10;
constexpr int64_t kPauseMaxMs = 500;
// For a session when all are in use.
constexpr Duration kTakeMax = std::chrono::seconds(30);
// For an answer to what became of a transaction: long enough for a server that restarts.
constexpr Duration kResolveMax = std::chrono::seconds(30);

// Whether the session ended with nobody knowing what became of its last call.
bool IsLost(const Session& session) {
  return session.last_failure() == Failure::kConnection || session.last_failure() == Failure::kSilence;
}

bool MayRepeat(const Session& session) {
  return session.last_failure() == Failure::kConflict || session.last_failure() == Failure::kConnection;
}

SessionOptions WithPresence(SessionOptions options, Presence* presence) {
  options.presence = presence;
  return options;
}

std::string NameOf(const std::string& url) {
  const absl::StatusOr<std::string> name = DescribeUrl(url);
  return name.ok() ? *name : "the database";
}

Presence::Probe ProbeOf(SessionOptions options) {
  options.connect_timeout_ms = options.probe_ms;
  return [options = std::move(options)] { return IsAnswering(options); };
}

}  // namespace

Pool::Pool(SessionOptions options, int sessions_max, Clock* clock, EntropySource* entropy)
    : presence_(NameOf(options.url), ProbeOf(options)),
      options_(WithPresence(std::move(options), &presence_)),
      sessions_max_(sessions_max),
      clock_(clock),
      entropy_(entropy) {}

absl::StatusOr<Pool::Lease> Pool::Take() {
  RETURN_IF_ERROR(presence_.Check());
  {
    const MonotonicTime end = clock_->Now() + kTakeMax;
    MutexLock lock(&mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<Session> session = std::move(idle_.back());
      idle_.pop_back();
      return Lease(this, std::move(session));
    }
    if (open_ < sessions_max_) {
      ++open_;
    } else {
      // Whoever comes later must not be served before: with many callers some would wait for seconds.
      Waiter waiter;
      waiters_.push_back(&waiter);
      ++stats_.waiting;
      while (!waiter.is_served && clock_->Now() < end) waiter.wake.WaitFor(&mutex_, kTakeMax);
      --stats_.waiting;
      if (!waiter.is_served) {
        waiters_.erase(std::find(waiters_.begin(), waiters_.end(), &waiter));
        return Unavailable("all {} connections to the database have been in use for {} s; try again", sessions_max_,
                           std::chrono::duration_cast<std::chrono::seconds>(kTakeMax).count());
      }
      if (waiter.session != nullptr) return Lease(this, std::move(waiter.session));
    }
  }
  return OpenOne();
}

absl::StatusOr<Pool::Lease> Pool::OpenOne() {
  // Whoever has waited for his turn may find that the server has gone meanwhile.
  absl::Status status = presence_.Check();
  if (status.ok()) {
    absl::StatusOr<std::unique_ptr<Session>> session = Session::Open(options_);
    if (session.ok()) {
      NoteDatabase((*session)->database());
      return Lease(this, *std::move(session));
    }
    status = session.status();
  }
  MutexLock lock(&mutex_);
  --open_;
  ServeWaiters();
  return status;
}

void Pool::NoteDatabase(const std::string& database) {
  if (database.empty()) return;
  MutexLock lock(&mutex_);
  if (!database_.empty() && database_ != database) ++replacements_;
  database_ = database;
}

void Pool::ServeWaiters() {
  while (!waiters_.empty() && open_ < sessions_max_) {
    ++open_;
    waiters_.front()->is_served = true;
    waiters_.front()->wake.NotifyOne();
    waiters_.pop_front();
  }
}

void Pool::GiveBack(std::unique_ptr<Session> session) {
  std::vector<std::unique_ptr<Session>> gone;  // closed without the lock
  MutexLock lock(&mutex_);
  if (session->is_broken()) {
    // What has ended one session has most likely ended all.
    gone.swap(idle_);
    gone.push_back(std::move(session));
    open_ -= static_cast<int>(gone.size());
    ServeWaiters();
    return;
  }
  if (waiters_.empty()) {
    idle_.push_back(std::move(session));
    return;
  }
  Waiter* const waiter = waiters_.front();
  waiters_.pop_front();
  waiter->session = std::move(session);
  waiter->is_served = true;
  waiter->wake.NotifyOne();
}

void Pool::Pause(int attempt) {
  const int64_t max_ms = std::min(kPauseMaxMs, kPauseFirstMs << std::min(attempt, 10));
  uint64_t random = 0;
  entropy_->Fill(&random, sizeof(random));
  const MonotonicTime end =
      clock_->Now() +
      std::chrono::microseconds(static_cast<int64_t>(random % static_cast<uint64_t>(max_ms * 1000)) + 1);
  MutexLock lock(&mutex_);
  for (MonotonicTime now = clock_->Now(); now < end; now = clock_->Now()) never_.WaitFor(&mutex_, end - now);
}

absl::Status Pool::Repeat(const std::function<absl::Status(Session&, bool* may_repeat)>& once) {
  absl::Status status;
  const int64_t before = replacements();
  for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
    if (attempt > 0) Pause(attempt);
    absl::StatusOr<Lease> session = Take();
    if (!session.ok()) {
      status = session.status();
      if (absl::IsUnavailable(status) && !presence_.is_away()) continue;
      return status;
    }
    // What the caller knew when it called was of another database.
    if (replacements() != before) return Unavailable("the database was replaced during the call; try again");
    bool may_repeat = false;
    status = once(**session, &may_repeat);
    if (status.ok() || !may_repeat) return status;
    LogDebug("store", "repeating after: {}", MessageOf(status));
  }
  return status;
}

absl::Status Pool::WriteOnce(Session& session, const Operation& operation, bool* may_repeat) {
  const MonotonicTime began = clock_->Now();
  absl::Status status = session.Begin();
  if (status.ok()) status = operation(session);
  int64_t transaction_id = 0;
  if (status.ok()) {
    absl::StatusOr<int64_t> id = session.TransactionId();
    status = id.status();
    if (id.ok()) transaction_id = *id;
  }
  if (!status.ok()) {
    *may_repeat = MayRepeat(session);
    session.Rollback();
    return status;
  }
  status = Failpoint("store.commit.before");
  if (!status.ok()) {
    session.Rollback();
    return status;
  }
  status = session.Commit();
  if (!status.ok() && IsLost(session) && transaction_id != 0) {
    ASSIGN_OR_RETURN(const bool was_committed, WasCommitted(transaction_id, session.backend()));
    if (was_committed) status = absl::OkStatus();
  }
  *may_repeat = MayRepeat(session);
  Count(began, status);
  if (status.ok()) PassFailpoint("store.commit.after");
  return status;
}

absl::StatusOr<bool> Pool::WasCommitted(int64_t transaction_id, const Session::Backend& backend) {
  absl::Status status = AwaitEnd(backend);
  if (status.ok()) {
    // A server that does not know the number has lost it, with all that came after: it was not durable there.
    const absl::StatusOr<Rows> rows = [&]() -> absl::StatusOr<Rows> {
      ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::Open(options_));
      return session->Query(
          "SELECT CASE WHEN $1 < pg_snapshot_xmax(pg_current_snapshot())::text::bigint THEN "
          "pg_xact_status($1::text::xid8) ELSE 'aborted' END",
          transaction_id);
    }();
    status = rows.status();
    if (rows.ok()) {
      const std::string state = (*rows)[0].Bytes(0);
      if (state == "committed" || state == "aborted") return state == "committed";
      status = Unavailable("the server says \"{}\" of transaction {}", state, transaction_id);
    }
  }
  return WithReason(Unavailable("it is not known whether the last change was stored: {}", MessageOf(status)),
                    "COMMIT_UNKNOWN");
}

absl::Status Pool::AwaitEnd(const Session::Backend& backend) {
  const MonotonicTime end = clock_->Now() + kResolveMax;
  absl::Status status = Unavailable("the server still works on a call whose connection was lost");
  for (int attempt = 1; clock_->Now() < end; ++attempt) {
    Pause(attempt);
    RETURN_IF_ERROR(presence_.Check());
    const absl::StatusOr<std::unique_ptr<Session>> session = Session::Open(options_);
    if (!session.ok()) {
      if (!absl::IsUnavailable(session.status())) return session.status();
      status = session.status();
      continue;
    }
    const absl::StatusOr<int64_t> still_there = (*session)->QueryInt(
        "SELECT count(pg_terminate_backend(pid::integer)) FROM pg_stat_activity WHERE pid = $1 AND "
        "(extract(epoch FROM backend_start) * 1000000)::bigint = $2",
        backend.pid, backend.started_at);
    if (still_there.ok() && *still_there == 0) return absl::OkStatus();
  }
  return status;
}

absl::Status Pool::Write(const Operation& operation) {
  return Repeat([&](Session& session, bool* may_repeat) { return WriteOnce(session, operation, may_repeat); });
}

absl::Status Pool::WriteStatement(const RepeatableOperation& operation) {
  bool is_repeat = false;
  return Repeat([&](Session& session, bool* may_repeat) {
    RETURN_IF_ERROR(Failpoint("store.commit.before"));
    const MonotonicTime began = clock_->Now();
    const absl::Status status = operation(session, is_repeat);
    *may_repeat = MayRepeat(session);
    if (status.ok() || *may_repeat) Count(began, status);
    if (status.ok()) PassFailpoint("store.commit.after");
    if (IsLost(session)) {
      is_repeat = true;
      *may_repeat = true;
      // It may still be at it.
      if (const absl::Status ended = AwaitEnd(session.backend()); !ended.ok()) {
        *may_repeat = false;
        return WithReason(Unavailable("it is not known whether the last change was stored: {}", MessageOf(ended)),
                          "COMMIT_UNKNOWN");
      }
    }
    return status;
  });
}

absl::Status Pool::Read(const Operation& operation) {
  return Repeat([&](Session& session, bool* may_repeat) {
    const absl::Status status = operation(session);
    *may_repeat = !status.ok() && MayRepeat(session);
    return status;
  });
}

absl::Status Pool::ReadSnapshot(const Operation& operation) {
  return Repeat([&](Session& session, bool* may_repeat) {
    absl::Status status = session.BeginSnapshot();
    if (status.ok()) status = operation(session);
    *may_repeat = !status.ok() && MayRepeat(session);
    session.Rollback();
    return status;
  });
}

absl::Status Pool::Use(const Operation& operation) {
  ASSIGN_OR_RETURN(const Lease session, Take());
  return operation(*session);
}

void Pool::Count(MonotonicTime began, const absl::Status& committed) {
  const double ms = std::chrono::duration<double, std::milli>(clock_->Now() - began).count();
  MutexLock lock(&mutex_);
  if (!committed.ok()) {
    ++stats_.failed;
    return;
  }
  const auto& bounds = CommitStats::kBoundsMs;
  const auto bucket = std::lower_bound(bounds.begin(), bounds.end(), ms) - bounds.begin();
  ++stats_.by_latency[static_cast<size_t>(bucket)];
  stats_.total_ms += ms;
  ++stats_.operations;
}

CommitStats Pool::stats() const {
  MutexLock lock(&mutex_);
  return stats_;
}

}  // namespace tunefarm::postgres
