#include "server/store/sqlite/open.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string_view>
#include <utility>

#include "server/base/file.h"
#include "server/base/log.h"
#include "server/base/random.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/base/unique_fd.h"
#include "server/store/agent_store.h"
#include "server/store/job_store.h"
#include "server/store/lease_store.h"
#include "server/store/shared/facet_store.h"
#include "server/store/sqlite/facets.h"
#include "server/store/sqlite/transaction.h"
#include "server/store/store_maintenance.h"
#include "server/store/study_store.h"
#include "server/store/trial_store.h"
#include "server/store/unit_store.h"

namespace tunefarm {
namespace sqlite {
namespace {

constexpr int kReaders = 4;

absl::Status CheckDirectory(const std::string& path) {
  const absl::StatusOr<bool> is_network = IsNetworkFileSystem(ParentOf(path));
  if (!is_network.ok()) return Unavailable("cannot open {}: {}", path, MessageOf(is_network.status()));
  if (!*is_network) return absl::OkStatus();
  return FailedPrecondition(
      "{} is on a network file system, whose locks cannot be trusted with a database; choose a data directory on a "
      "local disk",
      path);
}

// Whatever is there and is not an SQLite database stays untouched: SQLite itself would take it for a damaged one.
absl::Status CheckFileHeader(const std::string& path) {
  constexpr std::string_view kMagic("SQLite format 3\0", 16);
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) {
    if (errno == ENOENT) return absl::OkStatus();
    const int error = errno;
    return Unavailable("cannot open {}: {}", path, MessageOf(ErrnoStatus(error, "opening it")));
  }
  char header[kMagic.size()];
  const ssize_t count = pread(fd.get(), header, sizeof(header), 0);
  const int error = errno;
  if (count < 0) return Unavailable("cannot read {}: {}", path, MessageOf(ErrnoStatus(error, "reading it")));
  if (count == 0 || std::string_view(header, static_cast<size_t>(count)) == kMagic) return absl::OkStatus();
  return FailedPrecondition(
      "{} is not a tunefarm database (or its first page is damaged); name another file, or restore a backup", path);
}

// Says that the file beside it has held jobs: a database that is missing or empty is then a lost one.
std::string InitializedMarker(const std::string& path) { return path + ".initialized"; }

absl::Status CheckNotEmptied(const SqliteOptions& options, std::string_view what) {
  const std::string marker = InitializedMarker(options.path);
  if (access(marker.c_str(), F_OK) != 0) return absl::OkStatus();
  return WithReason(
      FailedPrecondition("{} {}, but {} says that jobs and results were stored in it: restore a backup{}, or remove {} "
                         "to begin with an empty database",
                         options.path, what, marker,
                         options.backup_directory.empty() ? "" : fmt::format(" (see {})", options.backup_directory),
                         marker),
      "DATABASE_EMPTIED");
}

// Before SQLite sees the file: it would remove the log that lies beside an empty one.
absl::Status CheckFileNotEmptied(const SqliteOptions& options) {
  struct stat info = {};
  if (stat(options.path.c_str(), &info) != 0) {
    return errno == ENOENT ? CheckNotEmptied(options, "is missing") : absl::OkStatus();
  }
  return info.st_size == 0 ? CheckNotEmptied(options, "has 0 bytes") : absl::OkStatus();
}

// That it is there is what counts. A full disk must not keep the store from opening: the next start tries again.
void WriteInitializedMarker(const std::string& path) {
  constexpr std::string_view kText =
      "The database beside this file holds jobs and results. Without this file an empty one is begun.\n";
  const std::string marker = InitializedMarker(path);
  if (access(marker.c_str(), F_OK) == 0) return;
  const UniqueFd file(open(marker.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  if (file.valid() && write(file.get(), kText.data(), kText.size()) >= 0) return;
  LogWarn("store", "an emptied database will not be noticed: {}",
          MessageOf(ErrnoStatus(errno, "cannot write {}", marker)));
}

// A copy that died left them, and nobody makes one now: the caller holds the data directory's lock.
void RemovePartialCopies(const std::string& directory) {
  std::error_code error;
  for (std::filesystem::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (IsPartialCopy(it->path().filename().string())) std::filesystem::remove(it->path(), ignored);
  }
}

// The marker that is set while the store is open: still set at the next start means that the process died.
absl::Status SetOpenMarker(Database& database, bool is_open) {
  return database.Run("INSERT OR REPLACE INTO setting (name, value) VALUES ('store.open', $1)", is_open ? "1" : "0");
}

absl::StatusOr<bool> ReadOpenMarker(Database& database) {
  ASSIGN_OR_RETURN(const int64_t count,
                   database.QueryInt("SELECT count(*) FROM setting WHERE name = 'store.open' AND value = '1'"));
  return count != 0;
}

// Marks the file as open, which proves too that it can be written.
absl::Status Mark(Database* database) {
  Transaction transaction(database);
  RETURN_IF_ERROR(transaction.Begin(Transaction::Kind::kWrite));
  RETURN_IF_ERROR(SetOpenMarker(*database, true));
  return transaction.Commit();
}

absl::Status UseLog(Database* database) {
  ASSIGN_OR_RETURN(const std::optional<std::string> mode,
                   database->ReadOne(Sql::ReadBytes, "PRAGMA journal_mode = WAL"));
  if (mode == "wal") return absl::OkStatus();
  return Unavailable(
      "cannot use a write-ahead log for {} (journal mode is {}); choose a data directory on a local disk",
      database->path(), mode.value_or("unknown"));
}

class Backend final : public SqlBackend {
 public:
  Backend(Writer* writer, ReaderPool* readers) : writer_(writer), readers_(readers) {}

 private:
  absl::Status Run(Access access, const Operation& operation) override {
    return access == Access::kWrite ? writer_->Run(operation) : readers_->Read(operation);
  }

  Writer* const writer_;
  ReaderPool* const readers_;
};

// Store on one SQLite file. Thread-safe.
class SqliteStore final : public FacetStore {
 public:
  // `clock` and `entropy` outlive the store.
  SqliteStore(std::unique_ptr<Writer> writer, std::unique_ptr<ReaderPool> readers, Clock* clock, EntropySource* entropy)
      : lease_clock_(clock),
        writer_(std::move(writer)),
        readers_(std::move(readers)),
        backend_(writer_.get(), readers_.get()) {
    MakeSharedFacets(&backend_, nullptr);
    const Shared shared{writer_.get(), readers_.get(), &lease_clock_, entropy, &backend_};
    jobs_ = NewJobStore(shared);
    studies_ = NewStudyStore(shared);
    units_ = NewUnitStore(shared);
    trials_ = NewTrialStore(shared);
    agents_ = NewAgentStore(shared);
    leases_ = NewLeaseStore(shared);
    maintenance_ = NewStoreMaintenance(shared);
  }
  // Notes the clean end in the file. Nobody may be in a method any more.
  ~SqliteStore() override {
    readers_.reset();
    const absl::Status status = writer_->Run([](Database& database) { return SetOpenMarker(database, false); });
    if (status.ok()) return;
    LogWarn("store", "cannot note the clean end, so the next start checks the whole file: {}", status);
  }

  int64_t Replacements() const override { return 0; }  // its file is open as long as it lives

 private:
  const LeaseClock lease_clock_;
  // The writer closes last: the last connection to close must be the one that checkpoints.
  const std::unique_ptr<Writer> writer_;
  std::unique_ptr<ReaderPool> readers_;
  Backend backend_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> OpenStore(const SqliteOptions& options,
                                                 const std::vector<Migration>& migrations) {
  RETURN_IF_ERROR(CheckDirectory(options.path));
  RETURN_IF_ERROR(CheckFileHeader(options.path));
  RETURN_IF_ERROR(CheckFileNotEmptied(options));
  ASSIGN_OR_RETURN(std::unique_ptr<Database> database, Database::Open(options.path, Database::Mode::kReadWrite));
  ASSIGN_OR_RETURN(const int version, IdentifySchema(database.get()));
  if (version == 0) RETURN_IF_ERROR(CheckNotEmptied(options, "has no tables"));
  // Of a newer schema nothing is known, not even that it has the marker: Migrate refuses it.
  const bool is_known = version <= static_cast<int>(migrations.size());
  if (version > 0 && is_known) {
    ASSIGN_OR_RETURN(const bool was_open, ReadOpenMarker(*database));
    if (was_open) {
      LogInfo("store", "checking the database, which was not closed path={}", options.path);
      RETURN_IF_ERROR(database->QuickCheck());
    }
  }
  if (!options.backup_directory.empty()) RemovePartialCopies(options.backup_directory);
  Clock* const clock = options.clock != nullptr ? options.clock : Clock::Real();
  if (is_known) RETURN_IF_ERROR(UseLog(database.get()));
  RETURN_IF_ERROR(Migrate(database.get(), migrations, options.backup_directory, clock));
  RETURN_IF_ERROR(Mark(database.get()));
  WriteInitializedMarker(options.path);
  if (options.database_bytes_max > 0) {
    ASSIGN_OR_RETURN(const int64_t page_bytes, database->QueryInt("PRAGMA page_size"));
    RETURN_IF_ERROR(database->Execute(
        fmt::format("PRAGMA max_page_count = {}", std::max<int64_t>(1, options.database_bytes_max / page_bytes))));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<ReaderPool> readers, ReaderPool::Open(options.path, kReaders));
  auto writer = std::make_unique<Writer>(std::move(database));
  EntropySource* const entropy = options.entropy != nullptr ? options.entropy : EntropySource::Real();
  auto store = std::make_unique<SqliteStore>(std::move(writer), std::move(readers), clock, entropy);
  return store;
}

}  // namespace sqlite

absl::StatusOr<std::unique_ptr<Store>> OpenSqliteStore(const SqliteOptions& options) {
  return sqlite::OpenStore(options, sqlite::EmbeddedMigrations());
}

}  // namespace tunefarm
