#include "server/store/sqlite/statement.h"

#include <sqlite3.h>

#include <utility>

#include "server/base/status_macros.h"
#include "server/store/sqlite/database.h"

namespace tunefarm::sqlite {

Statement::Statement(Database* database, sqlite3_stmt* statement, bool* in_use, absl::Status error)
    : database_(database), statement_(statement), in_use_(in_use), error_(std::move(error)) {}

Statement::Statement(Statement&& other) noexcept
    : database_(other.database_),
      statement_(std::exchange(other.statement_, nullptr)),
      in_use_(std::exchange(other.in_use_, nullptr)),
      error_(std::move(other.error_)) {}

Statement::~Statement() {
  if (statement_ == nullptr) return;
  if (in_use_ == nullptr) {
    sqlite3_finalize(statement_);
    return;
  }
  // Both repeat or forget an error that Step has answered already.
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
  *in_use_ = false;
}

void Statement::Check(int code) {
  if (code != SQLITE_OK && error_.ok()) error_ = database_->ErrorStatus(code, "binding a value");
}

void Statement::BindOne(int index, int64_t value) {
  if (error_.ok()) Check(sqlite3_bind_int64(statement_, index, value));
}

void Statement::BindOne(int index, double value) {
  if (error_.ok()) Check(sqlite3_bind_double(statement_, index, value));
}

void Statement::BindOne(int index, std::string_view text) {
  if (!error_.ok()) return;
  // A null pointer would bind NULL, which is not the empty string.
  const char* data = text.data() == nullptr ? "" : text.data();
  Check(sqlite3_bind_text64(statement_, index, data, text.size(), SQLITE_TRANSIENT, SQLITE_UTF8));
}

void Statement::BindOne(int index, Blob blob) {
  if (!error_.ok()) return;
  const char* data = blob.bytes.data() == nullptr ? "" : blob.bytes.data();
  Check(sqlite3_bind_blob64(statement_, index, data, blob.bytes.size(), SQLITE_TRANSIENT));
}

void Statement::BindOne(int index, std::nullopt_t) {
  if (error_.ok()) Check(sqlite3_bind_null(statement_, index));
}

void Statement::BindOne(int index, ZeroAsNull value) {
  if (value.value == 0) {
    BindOne(index, std::nullopt);
  } else {
    BindOne(index, value.value);
  }
}

absl::StatusOr<bool> Statement::Step() {
  RETURN_IF_ERROR(error_);
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  error_ = database_->ErrorStatus(code, sqlite3_sql(statement_));
  return error_;
}

absl::Status Statement::Run() { return Step().status(); }

bool Statement::IsNull(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }
int64_t Statement::Int(int column) const { return sqlite3_column_int64(statement_, column); }
double Statement::Real(int column) const { return sqlite3_column_double(statement_, column); }

std::string Statement::Bytes(int column) const {
  const void* data = sqlite3_column_blob(statement_, column);
  if (data == nullptr) return {};
  return std::string(static_cast<const char*>(data), static_cast<size_t>(sqlite3_column_bytes(statement_, column)));
}

}  // namespace tunefarm::sqlite
