#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

struct sqlite3_stmt;

namespace tunefarm::sqlite {

class Database;

// Bytes for a BLOB column; a plain std::string_view binds as TEXT.
struct Blob {
  std::string_view bytes;
};

// 0 binds as NULL, and NULL reads back as 0: "not yet" for times.
struct ZeroAsNull {
  int64_t value;
};

// One use of a prepared statement of a Database: bind, step, read columns. Giving it up resets the statement for its
// next use. Belongs to the thread of its Database, which must outlive it. Errors of preparing and binding are kept and
// answered by the first Step.
class Statement {
 public:
  ~Statement();
  Statement(Statement&& other) noexcept;
  Statement& operator=(Statement&&) = delete;
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  // Binds parameters 1, 2, … in order. Text and blobs are copied.
  template <typename... Values>
  Statement& Bind(const Values&... values) {
    int index = 0;
    (BindOne(++index, values), ...);
    return *this;
  }

  // True: a row is there to read. False: done.
  absl::StatusOr<bool> Step();
  // For statements without rows: steps once (rows are ignored).
  absl::Status Run();

  // Columns of the current row, from 0. NULL reads as 0 and as the empty string.
  bool IsNull(int column) const;
  int64_t Int(int column) const;
  double Real(int column) const;
  std::string Bytes(int column) const;

 private:
  friend class Database;
  // `in_use` (may be null: the statement is this object's own) is cleared when this is given up.
  Statement(Database* database, sqlite3_stmt* statement, bool* in_use, absl::Status error);

  void BindOne(int index, int64_t value);
  void BindOne(int index, int value) { BindOne(index, static_cast<int64_t>(value)); }
  void BindOne(int index, double value);
  void BindOne(int index, std::string_view text);
  void BindOne(int index, const std::string& text) { BindOne(index, std::string_view(text)); }
  void BindOne(int index, const char* text) { BindOne(index, std::string_view(text)); }
  void BindOne(int index, Blob blob);
  void BindOne(int index, std::nullopt_t);
  void BindOne(int index, ZeroAsNull value);
  void Check(int code);

  Database* const database_;
  sqlite3_stmt* statement_;
  bool* in_use_;
  absl::Status error_;
};

}  // namespace tunefarm::sqlite
