#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/base/mutex.h"
#include "server/store/sqlite/database.h"
#include "server/store/sqlite/transaction.h"

namespace tunefarm::sqlite {

// A fixed number of read-only connections, lent one at a time. Readers never wait for the writer; a caller waits while
// all connections are lent. Thread-safe; nobody may be in it when it is destroyed.
class ReaderPool {
 public:
  static absl::StatusOr<std::unique_ptr<ReaderPool>> Open(const std::string& path, int connections);

  // Runs `read` on one snapshot of the database: StatusOr<T>(Database&).
  template <typename F>
  auto Read(F read) -> std::invoke_result_t<F, Database&> {
    const Lease lease(this);
    Transaction transaction(lease.database());
    absl::Status begun = transaction.Begin(Transaction::Kind::kRead);
    if (!begun.ok()) return begun;
    return read(*lease.database());
  }

  // The same without a transaction.
  template <typename F>
  auto Use(F use) -> std::invoke_result_t<F, Database&> {
    const Lease lease(this);
    return use(*lease.database());
  }

 private:
  class Lease {
   public:
    explicit Lease(ReaderPool* pool) : pool_(pool), database_(pool->Acquire()) {}
    ~Lease() { pool_->Return(database_); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    Database* database() const { return database_; }

   private:
    ReaderPool* const pool_;
    Database* const database_;
  };

  explicit ReaderPool(std::vector<std::unique_ptr<Database>> databases);
  Database* Acquire() LOCKS_EXCLUDED(mutex_);
  void Return(Database* database) LOCKS_EXCLUDED(mutex_);

  const std::vector<std::unique_ptr<Database>> databases_;

  Mutex mutex_;
  CondVar returned_;
  std::vector<Database*> free_ GUARDED_BY(mutex_);
};

}  // namespace tunefarm::sqlite
