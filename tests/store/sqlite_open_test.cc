// Opening, migrating, refusing, running out of room, damage: what is SQLite's own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "server/base/check.h"
#include "server/base/file.h"
#include "server/base/status.h"
#include "server/store/best_store.h"
#include "server/store/job_store.h"
#include "server/store/kernel_store.h"
#include "server/store/lookup_store.h"
#include "server/store/setting_store.h"
#include "server/store/sqlite/open.h"
#include "server/store/store.h"
#include "server/store/store_maintenance.h"
#include "server/store/study_store.h"
#include "server/store/trial_store.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/permitted.h"
#include "tests/store/conformance.h"

namespace tunefarm {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

class SqliteOpen : public testing::Test {
 protected:
  SqliteOpen() {
    options_.path = directory_.File("tunefarm.db");
    options_.backup_directory = directory_.File("backups");
    options_.clock = &clock_;
  }

  absl::StatusOr<std::unique_ptr<Store>> Open() { return OpenSqliteStore(options_); }
  absl::StatusOr<std::unique_ptr<Store>> Open(const std::vector<Migration>& migrations) {
    return sqlite::OpenStore(options_, migrations);
  }
  static std::vector<Migration> WithOneMore() {
    std::vector<Migration> migrations = sqlite::EmbeddedMigrations();
    migrations.push_back(
        {static_cast<int>(migrations.size()) + 1, "0099_more.sql", "CREATE TABLE more (a INTEGER) STRICT"});
    return migrations;
  }
  // With SQLite itself, as another program would.
  void Sql(const std::string& path, const char* sql) {
    sqlite3* handle = nullptr;
    ASSERT_EQ(sqlite3_open(path.c_str(), &handle), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(handle, sql, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(handle);
    sqlite3_close(handle);
  }
  std::string Bytes() { return ReadFile(options_.path, uint64_t{1} << 30).value(); }
  std::vector<std::string> Backups() {
    std::vector<std::string> paths;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(options_.backup_directory, error))
      paths.push_back(entry.path());
    return paths;
  }

  TemporaryDirectory directory_;
  FakeClock clock_;
  SqliteOptions options_;
};

TEST_F(SqliteOpen, SchemaEqualsTheGoldenDump) {
  ASSERT_TRUE(Open().ok());
  const auto database = sqlite::Database::Open(options_.path, sqlite::Database::Mode::kReadOnly);
  ASSERT_TRUE(database.ok()) << database.status();
  const std::string dump = sqlite::DumpSchema(database->get()).value();
  const char* source = std::getenv("TUNEFARM_SOURCE_DIR");
  if (source == nullptr) GTEST_SKIP() << "TUNEFARM_SOURCE_DIR is not set";
  const std::string golden = std::string(source) + "/migrations/sqlite/schema.sql";
  if (std::getenv("TUNEFARM_UPDATE_GOLDEN") != nullptr) {
    ASSERT_TRUE(WriteFileAtomically(golden, dump).ok());
  }
  EXPECT_EQ(dump, ReadFile(golden, 1 << 20).value())
      << "run this test with TUNEFARM_UPDATE_GOLDEN=1 and review the change";
}

TEST_F(SqliteOpen, ANewDatabaseNeedsNoBackup) {
  const auto store = Open();
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ((*store)->maintenance()->Status()->schema_version, static_cast<int>(sqlite::EmbeddedMigrations().size()));
  EXPECT_THAT(Backups(), SizeIs(0));
}

TEST_F(SqliteOpen, AnOldDatabaseIsBackedUpAndMigratedWithItsRows) {
  ASSERT_TRUE(Open().value()->jobs()->SubmitJob(MakeSubmit("uid")).ok());
  {
    const auto store = Open(WithOneMore());
    ASSERT_TRUE(store.ok()) << store.status();
    EXPECT_EQ((*store)->maintenance()->Status()->schema_version, static_cast<int>(WithOneMore().size()));
    EXPECT_EQ((*store)->maintenance()->Status()->active_jobs, 1);
  }
  ASSERT_THAT(Backups(), SizeIs(1));
  // The backup is the old database, whole.
  options_.path = Backups()[0];
  const auto backup = Open();
  ASSERT_TRUE(backup.ok()) << backup.status();
  EXPECT_EQ((*backup)->maintenance()->Status()->active_jobs, 1);
}

// A column more, then a table rebuilt around it, as SQLite changes a CHECK.
std::vector<Migration> WithThreeMore() {
  std::vector<Migration> migrations = sqlite::EmbeddedMigrations();
  const auto add = [&migrations](std::string_view name, std::string_view text) {
    migrations.push_back({static_cast<int>(migrations.size()) + 1, name, text});
  };
  add("0097_note.sql", "ALTER TABLE miss ADD COLUMN note TEXT NOT NULL DEFAULT ''");
  add("0098_rebuilt.sql",
      "CREATE TABLE setting_new (name TEXT PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 200), value TEXT NOT NULL) "
      "STRICT, WITHOUT ROWID; INSERT INTO setting_new SELECT name, value FROM setting; DROP TABLE setting; ALTER TABLE "
      "setting_new RENAME TO setting");
  add("0099_counted.sql",
      "CREATE TABLE counted (jobs INTEGER NOT NULL) STRICT; INSERT INTO counted SELECT count(*) FROM job");
  return migrations;
}

TEST_F(SqliteOpen, EverySchemaIsMigratedToTheLastWithItsRows) {
  const std::vector<Migration> all = WithThreeMore();
  const size_t first = sqlite::EmbeddedMigrations().size();  // the program writes no older one
  for (size_t known = first; known < all.size(); ++known) {
    SCOPED_TRACE(known);
    options_.path = directory_.File("schema" + std::to_string(known) + ".db");
    {
      const auto store = Open(std::vector<Migration>(all.begin(), all.begin() + static_cast<ptrdiff_t>(known)));
      ASSERT_TRUE(store.ok()) << store.status();
      ASSERT_TRUE((*store)->jobs()->SubmitJob(MakeSubmit("uid")).ok());
      ASSERT_TRUE((*store)->settings()->PutSetting("host", "here").ok());
    }
    const auto store = Open(all);
    ASSERT_TRUE(store.ok()) << store.status();
    EXPECT_EQ((*store)->maintenance()->Status()->schema_version, static_cast<int>(all.size()));
    EXPECT_EQ((*store)->settings()->GetOrPutSetting("host", "there").value(), "here");
    const auto job = (*store)->jobs()->GetJob(1);
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_THAT(job->studies, SizeIs(MakeSubmit("uid").job.studies.size()));
    const auto database = sqlite::Database::Open(options_.path, sqlite::Database::Mode::kReadOnly);
    EXPECT_EQ((*database)->QueryInt("SELECT jobs FROM counted").value(), 1);
  }
  EXPECT_THAT(Backups(), SizeIs(all.size() - first));
}

TEST_F(SqliteOpen, KernelsOfTheFirstSchemaHaveNoOwnerAndCanBeDeleted) {
  { ASSERT_TRUE(Open({sqlite::EmbeddedMigrations()[0]}).ok()); }
  Sql(options_.path,
      "INSERT INTO kernel (kernel_id, program_digest, display_name, definition, created_at_ms) VALUES ('old', "
      "'program', "
      "'matmul', x'00', 7)");
  const auto store = Open();
  ASSERT_TRUE(store.ok()) << store.status();
  const auto kernel = (*store)->kernels()->FindKernel("matmul");
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_EQ(kernel->kernel_id, "old");
  EXPECT_EQ(kernel->owner, "");
  EXPECT_EQ(kernel->created_at_ms, 7);
  EXPECT_TRUE((*store)->kernels()->DeleteKernel("old", "", kNow).ok());
}

TEST_F(SqliteOpen, ASchemaFromBeforeTheFirstReleaseIsRefusedUntouchedAndSaysHowToKeepItsBests) {
  for (const int schema : {1, 12}) {
    SCOPED_TRACE(schema);
    options_.path = directory_.File("old" + std::to_string(schema) + ".db");
    std::vector<Migration> old;
    while (static_cast<int>(old.size()) < schema) {
      old.push_back({static_cast<int>(old.size()) + 1, old.empty() ? "0001_initial.sql" : "0099_more.sql",
                     old.empty()
                         ? "CREATE TABLE schema_migration (number INTEGER, name TEXT, sha256 TEXT, applied_at_ms "
                           "INTEGER); CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT)"
                         : ""});
    }
    ASSERT_TRUE(Open(old).ok());
    const std::string before = Bytes();
    const absl::Status status = Open().status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(status.ToString(), HasSubstr("tunefarm export bests FILE"));
    EXPECT_EQ(Bytes(), before);
  }
}

TEST_F(SqliteOpen, AMigrationThatFailsLeavesTheDatabaseAsItWas) {
  ASSERT_TRUE(Open().value()->jobs()->SubmitJob(MakeSubmit("uid")).ok());
  std::vector<Migration> migrations = WithOneMore();
  migrations.push_back(
      {static_cast<int>(migrations.size()) + 1, "0100_bad.sql", "CREATE TABLE half (a); CREATE TABLE kernel (a)"});
  const absl::Status status = Open(migrations).status();
  EXPECT_THAT(status.ToString(), HasSubstr("0100_bad.sql"));
  // The one before it stays applied; the failed one left nothing.
  auto store = Open(WithOneMore());
  ASSERT_TRUE(store.ok()) << store.status();
  store->reset();
  migrations.back().text = "CREATE TABLE half (a INTEGER) STRICT";
  EXPECT_TRUE(Open(migrations).ok());
}

TEST_F(SqliteOpen, ANewerSchemaIsRefusedAndUntouched) {
  ASSERT_TRUE(Open(WithOneMore()).ok());
  const std::string before = Bytes();
  const absl::Status status = Open().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(status.ToString(), HasSubstr("upgrade this program"));
  EXPECT_EQ(Bytes(), before);
}

TEST_F(SqliteOpen, AnAlteredMigrationIsRefused) {
  ASSERT_TRUE(Open(WithOneMore()).ok());
  std::vector<Migration> altered = WithOneMore();
  altered.back().text = "CREATE TABLE more (a INTEGER, b INTEGER) STRICT";
  const absl::Status status = Open(altered).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(status.ToString(), HasSubstr("0099_more.sql"));
}

TEST_F(SqliteOpen, MigratingNeedsABackupDirectory) {
  ASSERT_TRUE(Open().ok());
  options_.backup_directory = "";
  EXPECT_TRUE(Open().ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(Open(WithOneMore()).status()));
}

TEST_F(SqliteOpen, OtherProgramsFilesAreRefusedAndUntouched) {
  Sql(options_.path, "PRAGMA application_id = 7; CREATE TABLE theirs (a)");
  std::string before = Bytes();
  EXPECT_TRUE(absl::IsFailedPrecondition(Open().status()));
  EXPECT_EQ(Bytes(), before);

  options_.path = directory_.File("plain.db");
  Sql(options_.path, "CREATE TABLE theirs (a)");
  before = Bytes();
  EXPECT_TRUE(absl::IsFailedPrecondition(Open().status()));
  EXPECT_EQ(Bytes(), before);

  options_.path = directory_.File("notes.txt");
  ASSERT_TRUE(WriteFileAtomically(options_.path, "These are notes, not a database.\n").ok());
  before = Bytes();
  EXPECT_TRUE(absl::IsFailedPrecondition(Open().status()));
  EXPECT_EQ(Bytes(), before);
}

TEST_F(SqliteOpen, MissingDirectoryIsUnavailableWithThePath) {
  options_.path = directory_.File("missing/tunefarm.db");
  const absl::Status status = Open().status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(status.ToString(), HasSubstr(options_.path));
}

// A file system of its own, gone with the object. Needs root.
class TmpfsMount {
 public:
  TmpfsMount(const std::string& path, const char* size) : path_(path) {
    TUNEFARM_CHECK_OK(MakeDirectories(path));
    is_mounted_ = mount("tmpfs", path.c_str(), "tmpfs", 0, size) == 0;
  }
  ~TmpfsMount() {
    if (is_mounted_) TUNEFARM_CHECK(umount2(path_.c_str(), MNT_DETACH) == 0);
  }
  TmpfsMount(const TmpfsMount&) = delete;
  TmpfsMount& operator=(const TmpfsMount&) = delete;
  bool is_mounted() const { return is_mounted_; }
  bool MakeReadOnly() { return mount("tmpfs", path_.c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, nullptr) == 0; }

 private:
  const std::string path_;
  bool is_mounted_ = false;
};

TEST_F(SqliteOpen, AReadOnlyDirectoryIsUnavailable) {
  TmpfsMount mounted(directory_.File("mount"), "size=8m");
  options_.path = directory_.File("mount/tunefarm.db");
  ASSERT_TRUE(Open().ok());
  if (mounted.is_mounted()) {
    ASSERT_TRUE(mounted.MakeReadOnly());
  } else if (geteuid() != 0) {
    ASSERT_EQ(chmod(options_.path.c_str(), 0400), 0);
    ASSERT_EQ(chmod(directory_.File("mount").c_str(), 0500), 0);
  } else {
    SKIP_NOT_PERMITTED("mounts are not permitted here");
  }
  const absl::Status status = Open().status();
  if (!mounted.is_mounted()) {
    ASSERT_EQ(chmod(directory_.File("mount").c_str(), 0700), 0);
  }
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(status.ToString(), HasSubstr(options_.path));
}

SubmitRequest MakeLarge(int i) {
  SubmitRequest request = MakeSubmit("large-" + std::to_string(i));
  request.job.spec.assign(200'000, 'x');
  return request;
}

// Fills the store until it refuses, and checks that it refuses well; returns the number of jobs stored.
int Fill(Store* store, const std::string& path) {
  constexpr int kJobsMax = 1000;
  for (int i = 0; i < kJobsMax; ++i) {
    const absl::Status status = store->jobs()->SubmitJob(MakeLarge(i)).status();
    if (status.ok()) continue;
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_THAT(status.ToString(), HasSubstr(path));
    EXPECT_THAT(status.ToString(), HasSubstr("space"));
    return i;
  }
  ADD_FAILURE() << "it never refused";
  return kJobsMax;
}

TEST_F(SqliteOpen, AFullDatabaseRefusesAndLosesNothing) {
  options_.database_bytes_max = 2'000'000;
  int stored;
  {
    const auto store = Open();
    ASSERT_TRUE(store.ok()) << store.status();
    stored = Fill(store->get(), options_.path);
    EXPECT_GE(stored, 3);
    EXPECT_EQ((*store)->maintenance()->Status()->active_jobs, stored);
    // Room again: the same connection writes on.
    const int64_t first = AllJobs(store->get()).back().job_id;
    ASSERT_TRUE((*store)->jobs()->SetJobState(first, {JobState::kQueued}, JobState::kFailed, "", kNow).ok());
    ASSERT_TRUE((*store)->jobs()->DeleteJob(first).ok());
    EXPECT_TRUE((*store)->jobs()->SubmitJob(MakeLarge(stored)).ok());
  }
  options_.database_bytes_max = 0;
  const auto store = Open();
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ((*store)->maintenance()->Status()->active_jobs, stored);
}

TEST_F(SqliteOpen, AFullDiskRefusesAndLosesNothing) {
  const TmpfsMount mounted(directory_.File("mount"), "size=16m");
  if (!mounted.is_mounted()) SKIP_NOT_PERMITTED("mounts are not permitted here");
  options_.path = directory_.File("mount/tunefarm.db");
  const std::string ballast = directory_.File("mount/ballast");
  ASSERT_TRUE(WriteFileAtomically(ballast, std::string(10'000'000, 'b')).ok());
  int stored;
  {
    const auto store = Open();
    ASSERT_TRUE(store.ok()) << store.status();
    stored = Fill(store->get(), options_.path);
    EXPECT_EQ((*store)->maintenance()->Status()->active_jobs, stored);
    ASSERT_EQ(unlink(ballast.c_str()), 0);
    EXPECT_TRUE((*store)->jobs()->SubmitJob(MakeLarge(stored)).ok());
  }
  const auto store = Open();
  ASSERT_TRUE(store.ok()) << store.status();
  const std::vector<JobRow> jobs = AllJobs(store->get());
  ASSERT_THAT(jobs, SizeIs(stored + 1));
  for (const JobRow& job : jobs) EXPECT_EQ(job.spec, MakeLarge(0).job.spec) << job.uid;
}

TEST_F(SqliteOpen, ItsFilesAreItsUsersAlone) {
  const auto mode = [this](const std::string& suffix) {
    struct stat info = {};
    return stat((options_.path + suffix).c_str(), &info) == 0 ? info.st_mode & 0777 : 0;
  };
  const mode_t before = umask(0);
  {
    const auto store = Open();
    ASSERT_TRUE(store.ok()) << store.status();
    for (const char* const suffix : {"", "-wal", "-shm", ".initialized"}) EXPECT_EQ(mode(suffix), 0600u) << suffix;
    ASSERT_TRUE((*store)->maintenance()->Backup(directory_.File("copy")).ok());
    struct stat copy = {};
    ASSERT_EQ(stat(directory_.File("copy").c_str(), &copy), 0);
    EXPECT_EQ(copy.st_mode & 0777, 0600u);
  }
  // Of an earlier version.
  ASSERT_EQ(chmod(options_.path.c_str(), 0644), 0);
  EXPECT_TRUE(Open().ok());
  EXPECT_EQ(mode(""), 0600u);
  umask(before);
}

TEST_F(SqliteOpen, AnEmptiedDatabaseIsNoNewOne) {
  ASSERT_TRUE(Open().value()->jobs()->SubmitJob(MakeSubmit("uid")).ok());
  const std::string whole = Bytes(), marker = options_.path + ".initialized";
  const auto expect_refused = [&](const char* what) {
    const absl::Status refused = Open().status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
    EXPECT_EQ(ReasonOf(refused), "DATABASE_EMPTIED");
    for (const std::string& word :
         {options_.path + " " + what, "restore a backup (see " + options_.backup_directory, "remove " + marker}) {
      EXPECT_THAT(std::string(MessageOf(refused)), HasSubstr(word));
    }
  };
  ASSERT_EQ(truncate(options_.path.c_str(), 0), 0);
  // It stays, also the log beside the empty file.
  ASSERT_TRUE(WriteFileAtomically(options_.path + "-wal", "log").ok());
  expect_refused("has 0 bytes");
  EXPECT_EQ(ReadFile(options_.path + "-wal", 100).value(), "log");
  ASSERT_EQ(unlink((options_.path + "-wal").c_str()), 0);
  ASSERT_EQ(unlink(options_.path.c_str()), 0);
  expect_refused("is missing");
  Sql(options_.path, "CREATE TABLE t (a); DROP TABLE t");
  expect_refused("has no tables");
  // Either way out.
  ASSERT_TRUE(WriteFileAtomically(options_.path, whole).ok());
  EXPECT_EQ(Open().value()->maintenance()->Status()->active_jobs, 1);
  ASSERT_EQ(unlink(options_.path.c_str()), 0);
  ASSERT_EQ(unlink(marker.c_str()), 0);
  EXPECT_EQ(Open().value()->maintenance()->Status()->active_jobs, 0);
}

TEST_F(SqliteOpen, DamageIsFoundAfterAnUncleanStop) {
  {
    const auto store = Open();
    ASSERT_TRUE(store.ok());
    for (int i = 0; i < 20; ++i) ASSERT_TRUE((*store)->jobs()->SubmitJob(MakeSubmit("uid-" + std::to_string(i))).ok());
  }
  // As if it had died while open.
  Sql(options_.path, "UPDATE setting SET value = '1' WHERE name = 'store.open'; PRAGMA wal_checkpoint(TRUNCATE)");
  EXPECT_TRUE(Open().ok());  // Unclean, but sound.
  Sql(options_.path, "UPDATE setting SET value = '1' WHERE name = 'store.open'; PRAGMA wal_checkpoint(TRUNCATE)");
  std::string bytes = Bytes();
  // The root page of an index of table job is overwritten: nothing that opening reads by itself.
  int64_t page = 0;
  {
    const auto database = sqlite::Database::Open(options_.path, sqlite::Database::Mode::kReadOnly);
    page = (*database)->QueryInt("SELECT rootpage FROM sqlite_schema WHERE name = 'sqlite_autoindex_job_1'").value();
  }
  for (size_t i = 0; i < 4096; ++i) bytes[static_cast<size_t>(page - 1) * 4096 + i] = static_cast<char>(i * 37);
  ASSERT_TRUE(WriteFileAtomically(options_.path, bytes).ok());
  const absl::Status status = Open().status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(status.ToString(), HasSubstr("restore"));
}

TEST_F(SqliteOpen, ACleanEndLeavesNoLogAndNoMarker) {
  ASSERT_TRUE(Open().value()->jobs()->SubmitJob(MakeSubmit("uid")).ok());
  EXPECT_NE(access((options_.path + "-wal").c_str(), F_OK), 0);
  const auto database = sqlite::Database::Open(options_.path, sqlite::Database::Mode::kReadOnly);
  ASSERT_TRUE(database.ok());
  EXPECT_THAT((*database)->ReadOne(Sql::ReadBytes, "SELECT value FROM setting WHERE name = 'store.open'").value(),
              testing::Optional(std::string("0")));
}

TEST_F(SqliteOpen, ABackupIsADatabase) {
  const std::string copy = options_.backup_directory + "/copy.db";
  ASSERT_TRUE(MakeDirectories(options_.backup_directory, 0700).ok());
  // Left by a copy that died.
  ASSERT_TRUE(WriteFileAtomically(options_.backup_directory + "/.old.db.partial-journal", "x").ok());
  {
    const auto store = Open();
    ASSERT_TRUE((*store)->jobs()->SubmitJob(MakeSubmit("uid")).ok());
    EXPECT_EQ((*store)->settings()->GetOrPutSetting(SettingStore::kCatalogIdSetting, "original").value(), "original");
    EXPECT_EQ((*store)->settings()->GetOrPutSetting("host", "here").value(), "here");
    ASSERT_TRUE((*store)->lookups()->BeginRun({"run", "alice", 1, 1, 1}, {}).ok());
    ASSERT_TRUE((*store)->lookups()->AgreeOn("run", std::string(32, 'q'), {"answer", 1}, {}).ok());
    ASSERT_TRUE((*store)->maintenance()->Backup(copy).ok());
    EXPECT_TRUE((*store)->lookups()->FindAgreement("run", std::string(32, 'q')).value()->answer.has_value());
    EXPECT_EQ((*store)->settings()->GetOrPutSetting(SettingStore::kCatalogIdSetting, "another").value(), "original");
    ASSERT_TRUE((*store)->jobs()->SubmitJob(MakeSubmit("later")).ok());
  }
  EXPECT_THAT(Backups(), testing::ElementsAre(copy));
  options_.path = copy;
  const auto store = Open();
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ((*store)->maintenance()->Status()->active_jobs, 1);
  EXPECT_EQ((*store)->settings()->GetOrPutSetting("host", "there").value(), "here");
  EXPECT_EQ((*store)->settings()->GetOrPutSetting(SettingStore::kCatalogIdSetting, "copy").value(), "copy")
      << "it is another catalog";
  EXPECT_FALSE((*store)->lookups()->FindAgreement("run", std::string(32, 'q'))->has_value())
      << "later answers of the run are not in it";
}

TEST_F(SqliteOpen, InvariantsStandInTheTables) {
  ASSERT_TRUE(Open().value()->jobs()->SubmitJob(MakeSubmit("uid")).ok());
  sqlite3* handle = nullptr;
  ASSERT_EQ(sqlite3_open(options_.path.c_str(), &handle), SQLITE_OK);
  for (const char* sql : {
           "UPDATE job SET state = 5",        // ended without a time
           "UPDATE job SET ended_at_ms = 1",  // a time without an end
           "UPDATE job SET state = 2",        // running, never started
           "UPDATE job SET state = 9",
           "UPDATE study SET next_ordinal = -1",
           "UPDATE catalog_rev SET revision = -1",
           "INSERT INTO catalog_rev VALUES (2, 0)",
           "INSERT INTO work_unit (study_id, class_id, device_selector, priority, claim_seq, kind, state, "
           "first_ordinal, "
           "trial_count, rounds, payload) VALUES (1, 'c', '', 0, 1, 1, 2, 0, 1, 0, x'')",  // claimed by nobody
           "INSERT INTO work_unit (study_id, class_id, device_selector, priority, claim_seq, kind, state, "
           "first_ordinal, "
           "trial_count, rounds, payload) VALUES (1, 'c', '', 0, 1, 1, 1, 0, 65, 0, x'')",
       }) {
    EXPECT_EQ(sqlite3_exec(handle, sql, nullptr, nullptr, nullptr), SQLITE_CONSTRAINT) << sql;
  }
  sqlite3_close(handle);
}

}  // namespace
}  // namespace tunefarm
