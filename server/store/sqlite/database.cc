#include "server/store/sqlite/database.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "server/base/check.h"
#include "server/base/failpoint.h"
#include "server/base/file.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/base/unique_fd.h"
#include "server/store/setting_store.h"

namespace tunefarm::sqlite {
namespace {

constexpr int kBusyTimeoutMs = 5000;
// A hidden name: nobody's backup can have it.
constexpr std::string_view kPartialPrefix = ".";
constexpr std::string_view kPartialSuffix = ".partial";

absl::Status ConstraintStatus(int code, std::string_view path, const char* message) {
  switch (code) {
    case SQLITE_CONSTRAINT_UNIQUE:
    case SQLITE_CONSTRAINT_PRIMARYKEY:
    case SQLITE_CONSTRAINT_ROWID:
      return AlreadyExists("{}: a row with this key is stored already ({})", path, message);
    case SQLITE_CONSTRAINT_FOREIGNKEY:
      return NotFound("{}: the row refers to one that is not stored ({})", path, message);
    default:
      return InvalidArgument("{}: the value is outside its limits ({})", path, message);
  }
}

absl::Status StatusOf(int code, const std::string& path, const char* message, std::string_view what) {
  switch (code & 0xff) {
    case SQLITE_FULL:
      return Unavailable(
          "cannot write {}: the disk, or the room set for the database, is full; free some space and try again", path);
    case SQLITE_IOERR:
      return Unavailable(
          "cannot read or write {}: input/output error {} ({}); check the disk and its free space, then try again",
          path, code, message);
    case SQLITE_READONLY:
      return Unavailable("cannot write {}: it is read-only; make the file and its directory writable for this user",
                         path);
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return Unavailable("cannot open {}: {}; its directory must exist and be writable for this user", path, message);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
      return Unavailable("cannot use {}: another process holds it ({}); stop that process and try again", path,
                         message);
    case SQLITE_CORRUPT:
      return DataLoss("{} is damaged ({}); move it aside and restore the newest backup", path, message);
    case SQLITE_NOTADB:
      return DataLoss(
          "{} is not an SQLite database, or its first page is damaged; move it aside and restore the newest backup",
          path);
    case SQLITE_NOMEM:
      return ResourceExhausted("{}: out of memory", path);
    case SQLITE_TOOBIG:
      return InvalidArgument("{}: a value is too large to store", path);
    case SQLITE_CONSTRAINT:
      return ConstraintStatus(code, path, message);
    default:
      return Internal("{}: SQLite error {} ({}) in: {}", path, code, message, what);
  }
}

}  // namespace

absl::Status Database::ErrorStatus(int code, std::string_view what) const {
  return StatusOf(code, path_, sqlite3_errmsg(handle_), what);
}

namespace {

// SQLite gives its other files the mode of the first. What cannot be made is SQLite's to explain.
absl::Status MakeFilesPrivate(const std::string& path) {
  const UniqueFd made(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (made.valid()) return absl::OkStatus();
  for (const char* const suffix : {"", "-wal", "-shm", "-journal"}) RETURN_IF_ERROR(MakePrivate(path + suffix));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Database>> Database::Open(const std::string& path, Mode mode) {
  int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  flags |= mode == Mode::kReadWrite ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY;
  if (mode == Mode::kReadWrite) RETURN_IF_ERROR(MakeFilesPrivate(path));
  sqlite3* handle = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &handle, flags, nullptr);
  if (code != SQLITE_OK) {
    const absl::Status status =
        StatusOf(code, path, handle != nullptr ? sqlite3_errmsg(handle) : "out of memory", "open");
    sqlite3_close_v2(handle);
    return status;
  }
  std::unique_ptr<Database> database(new Database(path, handle));
  RETURN_IF_ERROR(database->Configure(mode));
  return database;
}

absl::Status Database::Configure(Mode mode) {
  sqlite3_busy_timeout(handle_, kBusyTimeoutMs);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  if (mode == Mode::kReadOnly) {
    // Two connections that checkpoint can corrupt the log of SQLite before 3.51.3: only the writer may.
    sqlite3_db_config(handle_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
    return Execute("PRAGMA wal_autocheckpoint = 0; PRAGMA mmap_size = 0");
  }
  return Execute(
      "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA mmap_size = 0; PRAGMA journal_size_limit = "
      "67108864");
}

Database::~Database() {
  for (auto& [sql, cached] : statements_) {
    TUNEFARM_CHECK(!cached.in_use);
    sqlite3_finalize(cached.statement);
  }
  sqlite3_close_v2(handle_);
}

absl::Status Database::Execute(const std::string& sql) {
  const int code = sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr);
  if (code == SQLITE_OK) return absl::OkStatus();
  return ErrorStatus(code, sql);
}

Statement Database::Prepare(std::string_view sql) {
  auto found = statements_.find(sql);
  if (found != statements_.end() && !found->second.in_use) {
    found->second.in_use = true;
    return Statement(this, found->second.statement, &found->second.in_use, absl::OkStatus());
  }
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v3(handle_, sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT,
                                      &statement, nullptr);
  if (code != SQLITE_OK) return Statement(this, nullptr, nullptr, ErrorStatus(code, sql));
  // A second use of a statement while its first is still under way gets one of its own.
  if (found != statements_.end()) return Statement(this, statement, nullptr, absl::OkStatus());
  Cached& cached = statements_[std::string(sql)];
  cached = {statement, true};
  return Statement(this, statement, &cached.in_use, absl::OkStatus());
}

absl::StatusOr<int64_t> Database::Visit(std::string_view sql, std::initializer_list<SqlValue> values,
                                        const Visitor& visit) {
  Statement statement = Prepare(sql);
  statement.Bind(values);
  while (true) {
    ASSIGN_OR_RETURN(const bool has_row, statement.Step());
    if (!has_row) return sqlite3_changes64(handle_);
    if (visit != nullptr) visit(statement);
  }
}

bool Database::InTransaction() const { return sqlite3_get_autocommit(handle_) == 0; }

absl::Status Database::QuickCheck() {
  ASSIGN_OR_RETURN(const std::vector<std::string> verdicts, ReadAll(ReadBytes, "PRAGMA quick_check(1)"));
  if (verdicts == std::vector<std::string>{"ok"}) return absl::OkStatus();
  return DataLoss("{} is damaged ({}); move it aside and restore the newest backup", path_,
                  verdicts.empty() ? "" : verdicts[0]);
}

absl::Status Database::CopyInto(const std::string& path) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Database> copy, Open(path, Mode::kReadWrite));
  sqlite3_backup* backup = sqlite3_backup_init(copy->handle_, "main", handle_, "main");
  if (backup == nullptr) return copy->ErrorStatus(sqlite3_extended_errcode(copy->handle_), "backup");
  // All pages in one step: one snapshot, and nothing written meanwhile makes it start again.
  const int stepped = sqlite3_backup_step(backup, -1);
  const int finished = sqlite3_backup_finish(backup);
  if (stepped != SQLITE_DONE) return copy->ErrorStatus(stepped, "backup");
  if (finished != SQLITE_OK) return copy->ErrorStatus(finished, "backup");
  // One file that can be moved, and opened from read-only media.
  RETURN_IF_ERROR(copy->Execute("PRAGMA journal_mode = DELETE"));
  // Who watches the catalog would take the revisions of a restored copy for those that it knows.
  RETURN_IF_ERROR(copy->Run("DELETE FROM setting WHERE name = $1", SettingStore::kCatalogIdSetting));
  // A run that went on after the backup has agreed on more than is in it: a restored copy knows none, which its
  // processes are told. Schemas before 3 have no runs.
  ASSIGN_OR_RETURN(const bool has_runs, copy->Exists("SELECT 1 FROM sqlite_master WHERE name = 'agreed_run'"));
  if (has_runs) RETURN_IF_ERROR(copy->Run("DELETE FROM agreed_run"));
  return copy->QuickCheck();
}

bool IsPartialCopy(std::string_view name) {
  return name.substr(0, kPartialPrefix.size()) == kPartialPrefix && name.find(kPartialSuffix) != std::string_view::npos;
}

absl::Status Database::CopyTo(const std::string& path) {
  if (access(path.c_str(), F_OK) == 0) return AlreadyExists("{} exists already; name a file that does not", path);
  const size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "./" : path.substr(0, slash + 1);
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  const std::string partial = fmt::format("{}{}{}{}", directory, kPartialPrefix, name, kPartialSuffix);
  unlink(partial.c_str());  // Left by a copy that died.
  absl::Status copied = CopyInto(partial);
  if (copied.ok()) copied = Failpoint("store.backup.copied");
  if (!copied.ok()) {
    unlink(partial.c_str());
    return Annotate(copied, "backing up {}", path_);
  }
  // link() rather than rename(): it never replaces a file that has appeared meanwhile.
  const int linked = link(partial.c_str(), path.c_str());
  const int error = errno;
  PassFailpoint("store.backup.linked");
  unlink(partial.c_str());
  if (linked != 0) return ErrnoStatus(error, "cannot create {}", path);
  const UniqueFd fd(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid() || fsync(fd.get()) != 0) return ErrnoStatus(errno, "cannot sync the directory of {}", path);
  return absl::OkStatus();
}

}  // namespace tunefarm::sqlite
