#include "server/store/sqlite/transaction.h"

#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm::sqlite {
namespace {

// A rollback that fails has nobody to answer to: SQLite retries it when the file is next used.
void RunOrLog(Database* database, std::string_view sql) {
  const absl::Status status = database->Run(sql);
  if (!status.ok()) LogError("store", "{} failed: {}", sql, status);
}

}  // namespace

Transaction::~Transaction() {
  // SQLite rolls back by itself after some errors.
  if (open_ && database_->InTransaction()) RunOrLog(database_, "ROLLBACK");
}

absl::Status Transaction::Begin(Kind kind) {
  RETURN_IF_ERROR(database_->Run(kind == Kind::kWrite ? "BEGIN IMMEDIATE" : "BEGIN"));
  open_ = true;
  return absl::OkStatus();
}

absl::Status Transaction::Commit() {
  const absl::Status status = database_->Run("COMMIT");
  if (!status.ok() && database_->InTransaction()) RunOrLog(database_, "ROLLBACK");
  open_ = false;
  return status;
}

Savepoint::~Savepoint() {
  if (!open_ || !database_->InTransaction()) return;
  RunOrLog(database_, "ROLLBACK TO part");
  RunOrLog(database_, "RELEASE part");
}

absl::Status Savepoint::Begin() {
  RETURN_IF_ERROR(database_->Run("SAVEPOINT part"));
  open_ = true;
  return absl::OkStatus();
}

absl::Status Savepoint::Keep() {
  RETURN_IF_ERROR(database_->Run("RELEASE part"));
  open_ = false;
  return absl::OkStatus();
}

}  // namespace tunefarm::sqlite
