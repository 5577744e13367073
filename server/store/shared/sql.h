// What the facets of the store that are written once ask either database through: values of statements, rows of their
// answers, connections, and the database as a whole.
//
// Statements are those that SQLite 3.40 and PostgreSQL 14 both understand. Parameters are called $1, $2, … in any order
// and as often as is needed. Give literals only: each connection keeps every statement prepared.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm {

// Bytes for a BLOB or bytea column; a plain std::string_view goes as text.
struct Blob {
  std::string_view bytes;
};
// The same, and NULL when empty.
struct BlobOrNull {
  std::string_view bytes;
};
// NULL for 0, and NULL reads back as 0: "not yet" for times.
struct ZeroAsNull {
  int64_t value;
};
// Arrays, for statements about many rows at once (unnest). Only PostgreSQL has them; SQLite refuses the statement.
struct Texts {
  std::vector<std::string_view> values;
};
struct Blobs {
  std::vector<std::string_view> values;
  bool empty_is_null = false;
};

// What a parameter stands for. Views and pointers must outlive the statement.
using SqlValue = std::variant<int64_t, bool, double, std::string_view, Blob, BlobOrNull, ZeroAsNull,
                              const std::vector<int64_t>*, const std::vector<double>*, const Texts*, const Blobs*>;
template <typename T>
SqlValue SqlValueOf(const T& value) {
  if constexpr (std::is_same_v<T, std::vector<int64_t>> || std::is_same_v<T, std::vector<double>> ||
                std::is_same_v<T, Texts> || std::is_same_v<T, Blobs>) {
    return &value;
  } else {
    return value;
  }
}

// A row of an answer. Columns from 0; NULL reads as 0 and as the empty string.
class SqlRow {
 public:
  virtual ~SqlRow() = default;
  virtual bool IsNull(int column) const = 0;
  virtual int64_t Int(int column) const = 0;  // of any integer type, and of boolean
  virtual double Real(int column) const = 0;
  virtual std::string Bytes(int column) const = 0;  // of text, BLOB or bytea
};

// One connection, which belongs to one thread at a time. Errors are those of its database (see Store).
class Sql {
 public:
  virtual ~Sql() = default;

  // Runs a statement; its rows do not matter.
  template <typename... Values>
  absl::Status Run(std::string_view sql, const Values&... values) {
    return Visit(sql, {SqlValueOf(values)...}, nullptr).status();
  }
  // The same of an INSERT, UPDATE or DELETE: how many rows it has changed.
  template <typename... Values>
  absl::StatusOr<int64_t> Change(std::string_view sql, const Values&... values) {
    return Visit(sql, {SqlValueOf(values)...}, nullptr);
  }
  // All rows, each as `read` makes it of a SqlRow, such as a function of read_rows.h.
  template <typename Read, typename... Values>
  auto ReadAll(Read read, std::string_view sql, const Values&... values)
      -> absl::StatusOr<std::vector<std::invoke_result_t<Read, const SqlRow&>>> {
    std::vector<std::invoke_result_t<Read, const SqlRow&>> all;
    RETURN_IF_ERROR(Visit(sql, {SqlValueOf(values)...}, [&](const SqlRow& row) { all.push_back(read(row)); }).status());
    return all;
  }
  // The first row, if there is one.
  template <typename Read, typename... Values>
  auto ReadOne(Read read, std::string_view sql, const Values&... values)
      -> absl::StatusOr<std::optional<std::invoke_result_t<Read, const SqlRow&>>> {
    std::optional<std::invoke_result_t<Read, const SqlRow&>> first;
    const auto visit = [&](const SqlRow& row) {
      if (!first.has_value()) first = read(row);
    };
    RETURN_IF_ERROR(Visit(sql, {SqlValueOf(values)...}, visit).status());
    return first;
  }
  // Whether there is a row.
  template <typename... Values>
  absl::StatusOr<bool> Exists(std::string_view sql, const Values&... values) {
    bool found = false;
    RETURN_IF_ERROR(Visit(sql, {SqlValueOf(values)...}, [&](const SqlRow& /*row*/) { found = true; }).status());
    return found;
  }
  // The first column of the only row. Internal if there is none.
  template <typename... Values>
  absl::StatusOr<int64_t> QueryInt(std::string_view sql, const Values&... values) {
    ASSIGN_OR_RETURN(const std::optional<int64_t> value, ReadOne(ReadInt, sql, values...));
    if (!value.has_value()) return Internal("{}: no row for: {}", name(), sql);
    return *value;
  }
  // Runs a statement that takes a lock until the end of the transaction, unless nobody else can write meanwhile.
  template <typename... Values>
  absl::Status Lock(std::string_view sql, const Values&... values) {
    return has_other_writers() ? Run(sql, values...) : absl::OkStatus();
  }

  static int64_t ReadInt(const SqlRow& row) { return row.Int(0); }
  static std::string ReadBytes(const SqlRow& row) { return row.Bytes(0); }

  // Of the database, for messages; without a password.
  virtual const std::string& name() const = 0;
  // Whether others may write to the database during a transaction of this connection. SQLite has one writer.
  virtual bool has_other_writers() const = 0;

 protected:
  using Visitor = std::function<void(const SqlRow&)>;

 private:
  // Runs the statement to its end; `visit` may be null. Answers how many rows it has changed: of use only if it is an
  // INSERT, UPDATE or DELETE.
  virtual absl::StatusOr<int64_t> Visit(std::string_view sql, std::initializer_list<SqlValue> values,
                                        const Visitor& visit) = 0;
};

// A SELECT that locks its rows until the end of the transaction wherever others may write meanwhile.
#define TUNEFARM_FOR_UPDATE(sql, select) ((sql).has_other_writers() ? select " FOR UPDATE" : select)

// The database behind a store, as facets use it. Thread-safe. Each method runs `f`, a Status(Sql&) or
// StatusOr<T>(Sql&), possibly more than once, and answers what it has answered last; so `f` changes nothing but the
// database and its own variables.
class SqlBackend {
 public:
  virtual ~SqlBackend() = default;

  // Statements that change nothing. On PostgreSQL each has its own snapshot.
  template <typename F>
  auto Read(F f) {
    return Call(Access::kRead, std::move(f));
  }
  // The same in one snapshot.
  template <typename F>
  auto ReadSnapshot(F f) {
    return Call(Access::kReadSnapshot, std::move(f));
  }
  // One transaction, durable on OK.
  template <typename F>
  auto Write(F f) {
    return Call(Access::kWrite, std::move(f));
  }

 protected:
  enum class Access { kRead, kReadSnapshot, kWrite };
  using Operation = std::function<absl::Status(Sql&)>;

 private:
  virtual absl::Status Run(Access access, const Operation& operation) = 0;

  template <typename F>
  auto Call(Access access, F f) -> std::invoke_result_t<F, Sql&> {
    if constexpr (std::is_same_v<std::invoke_result_t<F, Sql&>, absl::Status>) {
      return Run(access, f);
    } else {
      std::invoke_result_t<F, Sql&> result = absl::UnknownError("not run");
      const absl::Status status = Run(access, [&](Sql& sql) {
        result = f(sql);
        return result.status();
      });
      if (!status.ok()) return status;
      return result;
    }
  }
};

}  // namespace tunefarm
