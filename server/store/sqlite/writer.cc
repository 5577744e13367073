#include "server/store/sqlite/writer.h"

#include <algorithm>
#include <utility>

#include "server/base/check.h"
#include "server/base/clock.h"
#include "server/base/failpoint.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/sqlite/transaction.h"

namespace tunefarm::sqlite {
namespace {

// A status that shares nothing with the original. Copies share a counted message, and ThreadSanitizer does not see the
// counting in a prebuilt absl: what crosses threads is copied whole.
absl::Status Unshared(const absl::Status& status) {
  absl::Status copy(status.code(), status.message());
  status.ForEachPayload([&copy](const auto& url, const auto& payload) { copy.SetPayload(url, payload); });
  return copy;
}

}  // namespace

Writer::Writer(std::unique_ptr<Database> database)
    : database_(std::move(database)), thread_("store-writer", [this] { Loop(); }) {}

Writer::~Writer() {
  {
    MutexLock lock(&mutex_);
    is_closing_ = true;
    work_.NotifyAll();
  }
  thread_.Join();
}

absl::Status Writer::Run(const Operation& operation) {
  TUNEFARM_CHECK(!thread_.IsCurrent());
  Request request{&operation, absl::OkStatus()};
  MutexLock lock(&mutex_);
  TUNEFARM_CHECK(!is_closing_);
  while (queue_.size() >= kQueueMax) room_.Wait(&mutex_);
  queue_.push_back(&request);
  work_.NotifyOne();
  while (!request.is_done) done_.Wait(&mutex_);
  return request.status;
}

void Writer::Loop() {
  while (true) {
    {
      MutexLock lock(&mutex_);
      while (queue_.empty() && !is_closing_) work_.Wait(&mutex_);
      if (queue_.empty()) return;
    }
    RunBatch();
  }
}

Writer::Request* Writer::Take() {
  MutexLock lock(&mutex_);
  if (queue_.empty()) return nullptr;
  Request* const request = queue_.front();
  queue_.pop_front();
  room_.NotifyOne();
  return request;
}

void Writer::RunBatch() {
  std::vector<Request*> taken;
  const MonotonicTime began = Clock::Real()->Now();
  const absl::Status status = RunTransaction(&taken);
  const Duration took = Clock::Real()->Now() - began;
  // BEGIN failed: callers that wait get the error now, not when the disk works again.
  if (taken.empty()) {
    while (Request* const request = Take()) taken.push_back(request);
  }
  MutexLock lock(&mutex_);
  Count(status.ok(), took, taken.size());
  for (Request* request : taken) {
    // An operation's own refusal holds whatever became of the commit.
    if (request->status.ok()) request->status = Unshared(status);
    request->is_done = true;
  }
  done_.NotifyAll();
}

void Writer::Count(bool is_committed, Duration took, size_t operations) {
  if (!is_committed) {
    ++stats_.failed;
    return;
  }
  const double ms = std::chrono::duration<double, std::milli>(took).count();
  const auto& bounds = CommitStats::kBoundsMs;
  const auto bucket = std::lower_bound(bounds.begin(), bounds.end(), ms) - bounds.begin();
  ++stats_.by_latency[static_cast<size_t>(bucket)];
  stats_.total_ms += ms;
  stats_.operations += static_cast<int64_t>(operations);
}

CommitStats Writer::stats() const {
  MutexLock lock(&mutex_);
  CommitStats stats = stats_;
  stats.waiting = static_cast<int64_t>(queue_.size());
  return stats;
}

absl::Status Writer::RunTransaction(std::vector<Request*>* taken) {
  Transaction transaction(database_.get());
  RETURN_IF_ERROR(transaction.Begin(Transaction::Kind::kWrite));
  const MonotonicTime end = Clock::Real()->Now() + kBatchTimeMax;
  while (taken->size() < kBatchOperationsMax) {
    Request* const request = Take();
    if (request == nullptr) break;
    taken->push_back(request);
    request->status = RunOne(*request->operation);
    // SQLite rolls the whole transaction back after some errors (disk full among them): the neighbours are undone too.
    if (!database_->InTransaction()) {
      return request->status.ok() ? Internal("{}: an operation ended the transaction that it ran in", database_->path())
                                  : Unshared(request->status);
    }
    if (Clock::Real()->Now() >= end) break;
  }
  RETURN_IF_ERROR(Failpoint("store.commit.before"));
  RETURN_IF_ERROR(transaction.Commit());
  PassFailpoint("store.commit.after");
  return absl::OkStatus();
}

absl::Status Writer::RunOne(const Operation& operation) {
  Savepoint part(database_.get());
  RETURN_IF_ERROR(part.Begin());
  RETURN_IF_ERROR(operation(*database_));
  return part.Keep();
}

}  // namespace tunefarm::sqlite
