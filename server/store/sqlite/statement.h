#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/shared/sql.h"

struct sqlite3_stmt;

namespace tunefarm::sqlite {

class Database;

// One use of a prepared statement of a Database: bind, step, read columns of the current row. Giving it up resets the
// statement for its next use. Belongs to the thread of its Database, which must outlive it. Errors of preparing and
// binding are kept and answered by the first Step.
class Statement final : public SqlRow {
 public:
  ~Statement() override;
  Statement(Statement&& other) noexcept;
  Statement& operator=(Statement&&) = delete;
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  // Binds the parameters $1, $2, …, of which each must be in the statement. SQLite takes those for names, which it
  // numbers by their first appearance. Text and blobs are copied.
  void Bind(std::initializer_list<SqlValue> values);

  // True: a row is there to read. False: done.
  absl::StatusOr<bool> Step();

  bool IsNull(int column) const override;
  int64_t Int(int column) const override;
  double Real(int column) const override;
  std::string Bytes(int column) const override;

 private:
  friend class Database;
  // `in_use` (may be null: the statement is this object's own) is cleared when this is given up.
  Statement(Database* database, sqlite3_stmt* statement, bool* in_use, absl::Status error);

  Database* const database_;
  sqlite3_stmt* statement_;
  bool* in_use_;
  absl::Status error_;
};

}  // namespace tunefarm::sqlite
