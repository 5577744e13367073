#include "server/store/sqlite/statement.h"

#include <sqlite3.h>

#include <utility>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/sqlite/database.h"

namespace tunefarm::sqlite {
namespace {

// Each answers SQLite's code; SQLITE_RANGE for an index of 0. A null pointer would bind NULL, which is not the empty
// string.
int BindTo(sqlite3_stmt* statement, int index, int64_t value) { return sqlite3_bind_int64(statement, index, value); }
int BindTo(sqlite3_stmt* statement, int index, bool value) { return sqlite3_bind_int(statement, index, value ? 1 : 0); }
int BindTo(sqlite3_stmt* statement, int index, double value) { return sqlite3_bind_double(statement, index, value); }
int BindTo(sqlite3_stmt* statement, int index, std::string_view text) {
  const char* data = text.data() == nullptr ? "" : text.data();
  return sqlite3_bind_text64(statement, index, data, text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
}
int BindTo(sqlite3_stmt* statement, int index, Blob blob) {
  const char* data = blob.bytes.data() == nullptr ? "" : blob.bytes.data();
  return sqlite3_bind_blob64(statement, index, data, blob.bytes.size(), SQLITE_TRANSIENT);
}
int BindTo(sqlite3_stmt* statement, int index, BlobOrNull blob) {
  return blob.bytes.empty() ? sqlite3_bind_null(statement, index) : BindTo(statement, index, Blob{blob.bytes});
}
int BindTo(sqlite3_stmt* statement, int index, ZeroAsNull value) {
  return value.value == 0 ? sqlite3_bind_null(statement, index) : BindTo(statement, index, value.value);
}
// An array, of any type.
int BindTo(sqlite3_stmt* /*statement*/, int /*index*/, const void* /*array*/) { return SQLITE_MISMATCH; }

}  // namespace

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

void Statement::Bind(std::initializer_list<SqlValue> values) {
  if (error_.ok() && sqlite3_bind_parameter_count(statement_) != static_cast<int>(values.size())) {
    error_ = Internal("{} values for: {}", values.size(), sqlite3_sql(statement_));
  }
  int number = 0;
  for (const SqlValue& value : values) {
    if (!error_.ok()) return;
    const std::string parameter = "$" + std::to_string(++number);
    const int index = sqlite3_bind_parameter_index(statement_, parameter.c_str());
    const int code = std::visit([&](const auto& bound) { return BindTo(statement_, index, bound); }, value);
    if (code != SQLITE_OK) error_ = database_->ErrorStatus(code, "binding " + parameter);
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

bool Statement::IsNull(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }
int64_t Statement::Int(int column) const { return sqlite3_column_int64(statement_, column); }
double Statement::Real(int column) const { return sqlite3_column_double(statement_, column); }

std::string Statement::Bytes(int column) const {
  const void* data = sqlite3_column_blob(statement_, column);
  if (data == nullptr) return {};
  return std::string(static_cast<const char*>(data), static_cast<size_t>(sqlite3_column_bytes(statement_, column)));
}

}  // namespace tunefarm::sqlite
