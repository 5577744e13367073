#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/base/mutex.h"
#include "server/base/thread.h"
#include "server/store/sqlite/database.h"
#include "server/store/store_maintenance.h"

namespace tunefarm::sqlite {

// The one thread that writes, with group commit: operations that arrive while a commit is on its way to the disk share
// the next one, so that one sync pays for many. Nobody waits for company: a lone operation commits at once.
//
// Each operation runs inside a savepoint: one that fails leaves its neighbours alone. When the commit itself fails, all
// of its operations get that status and nothing of them is stored. Operations must change nothing but the database and
// variables of their caller, which count only if Run returns OK.
//
// Run may be called from any thread but the writer's own; nobody may be in it when the Writer is destroyed.
class Writer {
 public:
  using Operation = std::function<absl::Status(Database&)>;

  explicit Writer(std::unique_ptr<Database> database);
  // Ends the thread and closes the connection, which puts the log into the database file.
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // Blocks until the operation is durable or has failed.
  absl::Status Run(const Operation& operation) LOCKS_EXCLUDED(mutex_);

  CommitStats stats() const LOCKS_EXCLUDED(mutex_);

  // The same for operations with an answer.
  template <typename F>
  auto Call(F operation) -> std::invoke_result_t<F, Database&> {
    std::invoke_result_t<F, Database&> result = absl::UnknownError("not run");
    const absl::Status status = Run([&](Database& database) {
      result = operation(database);
      return result.status();
    });
    if (!status.ok()) return status;
    return result;
  }

 private:
  // Above this many waiting operations a caller waits for room.
  static constexpr size_t kQueueMax = 1024;
  static constexpr size_t kBatchOperationsMax = 64;
  static constexpr Duration kBatchTimeMax = std::chrono::milliseconds(2);

  struct Request {
    const Operation* operation;
    absl::Status status;
    bool is_done = false;
  };

  void Loop() LOCKS_EXCLUDED(mutex_);
  void RunBatch() LOCKS_EXCLUDED(mutex_);
  // One transaction. `taken` gets the requests that it covers, each with the status of its own operation; the result is
  // that of the transaction.
  absl::Status RunTransaction(std::vector<Request*>* taken) LOCKS_EXCLUDED(mutex_);
  absl::Status RunOne(const Operation& operation);
  void Count(bool is_committed, Duration took, size_t operations) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The next request, without waiting; null: none.
  Request* Take() LOCKS_EXCLUDED(mutex_);

  // The writer thread's alone.
  const std::unique_ptr<Database> database_;

  mutable Mutex mutex_;
  CondVar work_;
  CondVar room_;
  CondVar done_;
  std::deque<Request*> queue_ GUARDED_BY(mutex_);
  bool is_closing_ GUARDED_BY(mutex_) = false;
  CommitStats stats_ GUARDED_BY(mutex_);  // without `waiting`

  // Last: it starts after, and ends before, everything above.
  Thread thread_;
};

}  // namespace tunefarm::sqlite
