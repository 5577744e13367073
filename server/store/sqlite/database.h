#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/shared/sql.h"
#include "server/store/sqlite/statement.h"

struct sqlite3;

namespace tunefarm::sqlite {

// One connection to a database file, with its prepared statements. Used by one thread at a time; the statements must be
// gone before it is destroyed. Nothing here logs.
//
// Errors (ErrorStatus is the one map from SQLite's codes): Unavailable, with what to do, when the file cannot be
// opened, read or written (disk full, input/output error, read-only, busy); DataLoss when it is damaged;
// InvalidArgument for a value that a CHECK refuses; AlreadyExists for a second row under one key; NotFound for a
// reference to a missing row; Internal otherwise.
class Database final : public Sql {
 public:
  enum class Mode {
    kReadWrite,  // the writer: creates the file; the only connection that checkpoints
    kReadOnly,   // never checkpoints, also not when it is the last to close
  };

  static absl::StatusOr<std::unique_ptr<Database>> Open(const std::string& path, Mode mode);
  ~Database() override;
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  const std::string& path() const { return path_; }
  const std::string& name() const override { return path_; }
  bool has_other_writers() const override { return false; }

  // Runs statements without parameters; rows are ignored. Stops at the first error.
  absl::Status Execute(const std::string& sql);

  // A statement kept for the next call with the same text: give it literals only, or the cache grows without bound.
  Statement Prepare(std::string_view sql);

  // False also when an error made SQLite roll the transaction back by itself.
  bool InTransaction() const;

  // `what`: the statement, for codes that only a programming error explains.
  absl::Status ErrorStatus(int code, std::string_view what) const;

  // A consistent copy, checked and on disk. AlreadyExists if `path` exists. On error nothing is left at `path`; until
  // it is complete it has a name beside it for which IsPartialCopy is true.
  absl::Status CopyTo(const std::string& path);
  // DataLoss if the file is damaged. Reads all of it.
  absl::Status QuickCheck();

 private:
  struct Cached {
    sqlite3_stmt* statement = nullptr;
    bool in_use = false;
  };

  Database(std::string path, sqlite3* handle) : path_(std::move(path)), handle_(handle) {}
  absl::Status Configure(Mode mode);
  absl::Status CopyInto(const std::string& path);
  absl::StatusOr<int64_t> Visit(std::string_view sql, std::initializer_list<SqlValue> values,
                                const Visitor& visit) override;

  const std::string path_;
  sqlite3* const handle_;
  std::map<std::string, Cached, std::less<>> statements_;
};

// Whether a file of that name is (or belongs to) a copy that was not completed.
bool IsPartialCopy(std::string_view name);

}  // namespace tunefarm::sqlite
