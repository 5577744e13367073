// Opening a PostgreSQL database: migrating, refusing, several at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "server/base/file.h"
#include "server/base/status.h"
#include "server/base/thread.h"
#include "server/store/job_store.h"
#include "server/store/postgres/libpq.h"
#include "server/store/postgres/open.h"
#include "server/store/store.h"
#include "server/store/store_maintenance.h"
#include "tests/fakes/log_capture.h"
#include "tests/fakes/postgres_server.h"
#include "tests/store/conformance.h"

namespace tunefarm {
namespace {

using postgres::CheckServer;
using postgres::ServerFacts;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

class PostgresOpen : public testing::Test {
 protected:
  PostgresOpen() : server_(PostgresServer::Shared()), database_(server_->NewDatabase()) {}
  ~PostgresOpen() override { server_->DropDatabase(database_); }

  PostgresOptions Options() { return {server_->Url(database_)}; }
  absl::StatusOr<std::unique_ptr<Store>> Open() { return OpenPostgresStore(Options()); }
  absl::StatusOr<std::unique_ptr<Store>> Open(const std::vector<Migration>& migrations) {
    return postgres::OpenStore(Options(), migrations);
  }
  static std::vector<Migration> WithOneMore(std::string_view text = "CREATE TABLE more (a integer)") {
    std::vector<Migration> migrations = postgres::EmbeddedMigrations();
    migrations.push_back({static_cast<int>(migrations.size()) + 1, "0099_more.sql", text});
    return migrations;
  }
  std::string Sql(const std::string& sql) { return server_->Sql(database_, sql); }

  PostgresServer* const server_;
  const std::string database_;
};

TEST(Libpq, AMissingLibraryIsAClearError) {
  const absl::Status missing = postgres::LoadLibpq("libpq.so.0");
  EXPECT_EQ(missing.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(missing), HasSubstr("install libpq5"));
  const absl::Status another = postgres::LoadLibpq("libsqlite3.so.0");
  EXPECT_THAT(MessageOf(another), HasSubstr("libsqlite3.so.0 has no function PQ"));
  EXPECT_TRUE(postgres::LoadLibpq().ok());
}

TEST_F(PostgresOpen, SchemaEqualsTheGoldenDump) {
  ASSERT_TRUE(Open().ok());
  const auto session = postgres::Session::Open(postgres::ToSessionOptions(Options()));
  ASSERT_TRUE(session.ok()) << session.status();
  const auto dump = postgres::DumpSchema(session->get());
  ASSERT_TRUE(dump.ok()) << dump.status();
  const char* source = std::getenv("TUNEFARM_SOURCE_DIR");
  if (source == nullptr) GTEST_SKIP() << "TUNEFARM_SOURCE_DIR is not set";
  const std::string golden = std::string(source) + "/migrations/postgres/schema.txt";
  if (std::getenv("TUNEFARM_UPDATE_GOLDEN") != nullptr) {
    ASSERT_TRUE(WriteFileAtomically(golden, *dump).ok());
  }
  EXPECT_EQ(*dump, ReadFile(golden, 1 << 20).value())
      << "run this test with TUNEFARM_UPDATE_GOLDEN=1 and review the change";
}

TEST_F(PostgresOpen, AnEmptiedDatabaseIsNoNewOne) {
  TemporaryDirectory directory;
  PostgresOptions options = Options();
  options.initialized_marker = directory.File("marker");
  ASSERT_TRUE(OpenPostgresStore(options).ok());
  ASSERT_TRUE(OpenPostgresStore(options).ok());
  Sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public");
  const absl::Status refused = OpenPostgresStore(options).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
  EXPECT_EQ(ReasonOf(refused), "DATABASE_EMPTIED");
  EXPECT_THAT(std::string(MessageOf(refused)), HasSubstr("remove " + options.initialized_marker));
  // Another empty database is a new one.
  const std::string other = server_->NewDatabase();
  PostgresOptions elsewhere = options;
  elsewhere.url = server_->Url(other);
  EXPECT_TRUE(OpenPostgresStore(elsewhere).ok());
  server_->DropDatabase(other);
  // Now the marker is the other's.
  EXPECT_TRUE(OpenPostgresStore(options).ok());
}

TEST_F(PostgresOpen, AnOldSchemaIsMigratedWithItsRows) {
  ASSERT_TRUE(Open().value()->jobs()->SubmitJob(MakeSubmit("uid")).ok());
  {
    const auto store = Open(WithOneMore());
    ASSERT_TRUE(store.ok()) << store.status();
    EXPECT_EQ((*store)->maintenance()->Status()->schema_version, static_cast<int>(WithOneMore().size()));
    EXPECT_EQ((*store)->maintenance()->Status()->active_jobs, 1);
    // Again: nothing is left to do.
    EXPECT_TRUE(Open(WithOneMore()).ok());
  }
  // The program before does not know this schema.
  const absl::Status newer = Open().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(newer)) << newer;
  EXPECT_THAT(std::string(newer.message()), HasSubstr("a newer tunefarm wrote it"));
}

TEST_F(PostgresOpen, KernelsOfTheFirstSchemaHaveNoOwnerAndCanBeDeleted) {
  ASSERT_TRUE(Open({postgres::EmbeddedMigrations()[0]}).ok());
  Sql("INSERT INTO kernel (kernel_id, program_digest, display_name, definition, created_at_ms) VALUES ('old', "
      "'program', "
      "'matmul', 'x', 7)");
  const auto store = Open();
  ASSERT_TRUE(store.ok()) << store.status();
  const auto kernel = (*store)->kernels()->FindKernel("matmul");
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_EQ(kernel->owner, "");
  EXPECT_EQ(kernel->created_at_ms, 7);
  EXPECT_TRUE((*store)->kernels()->DeleteKernel("old", "", 8).ok());
}

TEST_F(PostgresOpen, AMigrationThatFailsLeavesNothing) {
  ASSERT_TRUE(Open().ok());
  EXPECT_FALSE(Open(WithOneMore("CREATE TABLE more (a integer); SELECT * FROM missing")).ok());
  EXPECT_EQ(Sql("SELECT count(*) FROM pg_class WHERE relname = 'more'"), "0");
  EXPECT_TRUE(Open().ok());
}

TEST_F(PostgresOpen, AMigrationWithAnotherTextIsRefused) {
  ASSERT_TRUE(Open(WithOneMore()).ok());
  const absl::Status changed = Open(WithOneMore("CREATE TABLE more (b integer)")).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(changed)) << changed;
  EXPECT_THAT(std::string(changed.message()), HasSubstr("0099_more.sql was applied with another text"));
}

TEST_F(PostgresOpen, SeveralMigrationsAreAppliedInTheirOrder) {
  ASSERT_TRUE(Open().value()->jobs()->SubmitJob(MakeSubmit("uid")).ok());
  std::vector<Migration> all = WithOneMore("ALTER TABLE miss ADD COLUMN note text NOT NULL DEFAULT ''");
  const int more = static_cast<int>(all.size());
  all.push_back({more + 1, "0100_counted.sql", "CREATE TABLE counted AS SELECT count(*) AS jobs FROM job"});
  all.push_back({more + 2, "0101_sum.sql", "ALTER TABLE counted RENAME TO job_count"});
  const auto store = Open(all);
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ((*store)->maintenance()->Status()->schema_version, more + 2);
  EXPECT_EQ(Sql("SELECT jobs FROM job_count"), "1");
  EXPECT_EQ((*store)->maintenance()->Status()->active_jobs, 1);
}

TEST_F(PostgresOpen, ASchemaFromBeforeTheFirstReleaseIsRefusedAndSaysHowToKeepItsBests) {
  ASSERT_TRUE(Open().ok());
  Sql("UPDATE schema_migration SET sha256 = repeat('0', 64)");
  const int next = static_cast<int>(postgres::EmbeddedMigrations().size()) + 1;
  for (int number = next; number <= 7; ++number) {
    const absl::Status old = Open().status();
    EXPECT_TRUE(absl::IsFailedPrecondition(old)) << old;
    EXPECT_THAT(std::string(old.message()), HasSubstr("tunefarm export bests FILE"));
    Sql("INSERT INTO schema_migration (number, name, sha256) VALUES (" + std::to_string(number) +
        ", '0099_more.sql', repeat('0', 64))");
  }
}

TEST_F(PostgresOpen, AnotherProgramsTablesAreLeftAlone) {
  Sql("CREATE TABLE wordpress (a integer)");
  const absl::Status foreign = Open().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(foreign)) << foreign;
  EXPECT_THAT(std::string(foreign.message()), HasSubstr("holds the tables of another program"));
  EXPECT_EQ(Sql("SELECT count(*) FROM pg_class WHERE relname = 'job'"), "0");
}

TEST_F(PostgresOpen, DaemonsThatStartAtOnceWaitForEachOther) {
  absl::Status results[4];
  {
    std::vector<Thread> threads;
    for (absl::Status& result : results) {
      threads.emplace_back("opener", [this, &result] { result = Open().status(); });
    }
  }
  for (const absl::Status& result : results) EXPECT_TRUE(result.ok()) << result;
}

TEST_F(PostgresOpen, WhatCannotBeReachedOrEnteredIsSaidWithoutThePassword) {
  PostgresOptions options;
  options.url = "postgres://someone:s3cret@127.0.0.1:1/farm";
  const absl::Status away = OpenPostgresStore(options).status();
  EXPECT_TRUE(absl::IsUnavailable(away)) << away;
  EXPECT_THAT(std::string(away.message()), HasSubstr("\"farm\" on 127.0.0.1:1"));
  EXPECT_THAT(std::string(away.message()), Not(HasSubstr("s3cret")));
  options.url = server_->Url("no_such_database");
  const absl::Status missing = OpenPostgresStore(options).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(missing)) << missing;
  for (const char* url : {"postgres://someone:s3cret@[::1/farm", "postgres://x:s3cret@h/farm?bad_setting=1",
                          "host=h password=s3cret", "mysql://x:s3cret@h/farm"}) {
    options.url = url;
    const absl::Status bad = OpenPostgresStore(options).status();
    EXPECT_TRUE(absl::IsInvalidArgument(bad)) << bad;
    EXPECT_THAT(std::string(bad.message()), Not(HasSubstr("s3cret")));
  }
  // A user who may read everything and write nothing.
  ASSERT_TRUE(Open().ok());
  Sql("DROP ROLE IF EXISTS reader; CREATE ROLE reader LOGIN; GRANT pg_read_all_data TO reader");
  options.url = server_->Url(database_);
  options.url.replace(options.url.find("tunefarm@"), 8, "reader");
  const absl::Status reader = OpenPostgresStore(options).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(reader)) << reader;
}

TEST_F(PostgresOpen, OnlyAPostgresThatCanBeWrittenWillDo) {
  ServerFacts facts;
  facts.version = "PostgreSQL 14.0 on x86_64-pc-linux-gnu";
  facts.version_number = 140000;
  EXPECT_TRUE(CheckServer(facts, "server").ok());
  facts.version_number = 130012;
  EXPECT_THAT(std::string(CheckServer(facts, "server").message()), HasSubstr("14 or newer"));
  facts.version_number = 150000;
  facts.is_in_recovery = true;
  EXPECT_THAT(std::string(CheckServer(facts, "server").message()), HasSubstr("standby"));
  facts.is_in_recovery = false;
  facts.is_read_only = true;
  EXPECT_THAT(std::string(CheckServer(facts, "server").message()), HasSubstr("only reading"));
  for (const char* version :
       {"CockroachDB CCL v23.1.0 (x86_64-pc-linux-gnu)", "PostgreSQL 11.2-YB-2.18.0.0-b0 on x86_64",
        "PostgreSQL 8.0.2 on i686-pc-linux-gnu, compiled by GCC, Redshift 1.0.1", "8.0.32 MySQL"}) {
    facts = {};
    facts.version = version;
    facts.version_number = 150000;
    const absl::Status other = CheckServer(facts, "server");
    EXPECT_TRUE(absl::IsFailedPrecondition(other)) << other;
    EXPECT_THAT(std::string(other.message()), HasSubstr("not PostgreSQL itself"));
  }
}

TEST_F(PostgresOpen, AServerThatIsNotDurableIsSaid) {
  LogCapture log;
  ASSERT_TRUE(Open().ok());
  bool is_said = false;
  for (const LogCapture::Line& line : log.lines()) {
    is_said |= line.level == LogLevel::kWarn && line.message.find("fsync is off") != std::string::npos;
  }
  EXPECT_TRUE(is_said);
  // A server whose commits do not wait is made to.
  Sql("ALTER DATABASE " + database_ + " SET synchronous_commit = off");
  const auto session = postgres::Session::Open(postgres::ToSessionOptions(Options()));
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_EQ((*session)->Query("SELECT current_setting('synchronous_commit')").value()[0].Bytes(0), "on");
}

}  // namespace
}  // namespace tunefarm
