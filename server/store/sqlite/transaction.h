#pragma once

#include "absl/status/status.h"
#include "server/store/sqlite/database.h"

namespace tunefarm::sqlite {

// A transaction for a scope: rolled back unless Commit has returned OK. After a failed Commit the connection is usable
// and nothing of the transaction is stored. Not thread-safe, no nesting; the database must outlive it.
class Transaction {
 public:
  enum class Kind {
    kRead,   // one snapshot for all that is read
    kWrite,  // BEGIN IMMEDIATE: takes the write lock now, so that no later statement can fail for want of it
  };

  explicit Transaction(Database* database) : database_(database) {}
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  absl::Status Begin(Kind kind);
  absl::Status Commit();

 private:
  Database* const database_;
  bool open_ = false;
};

// A part of a transaction that can fail on its own.
class Savepoint {
 public:
  explicit Savepoint(Database* database) : database_(database) {}
  // Undoes the part unless it was kept.
  ~Savepoint();
  Savepoint(const Savepoint&) = delete;
  Savepoint& operator=(const Savepoint&) = delete;

  absl::Status Begin();
  absl::Status Keep();

 private:
  Database* const database_;
  bool open_ = false;
};

}  // namespace tunefarm::sqlite
