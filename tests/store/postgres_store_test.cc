// The conformance suite on PostgreSQL.
#include "server/store/postgres_store.h"

#include <map>

#include "server/store/job_store.h"
#include "server/store/postgres/libpq.h"
#include "server/store/postgres/session.h"
#include "server/store/store.h"
#include "server/store/study_store.h"
#include "server/store/unit_store.h"
#include "tests/fakes/postgres_server.h"
#include "tests/store/conformance.h"
#include "tests/store/conformance_sql.h"

namespace tunefarm {
namespace {

// The database that stands for a directory, migrated: a copy of one that was migrated once.
class Databases {
 public:
  const std::string& Of(const std::string& directory) {
    PostgresServer* const server = PostgresServer::Shared();
    if (template_.empty()) {
      template_ = server->NewDatabase();
      TUNEFARM_CHECK_OK(OpenPostgresStore({server->Url(template_)}).status());
    }
    if (directory != directory_) {
      if (!name_.empty()) server->DropDatabase(name_);
      name_ = server->NewDatabase(template_);
      directory_ = directory;
    }
    return name_;
  }
  const std::string& current() const { return name_; }

 private:
  std::string template_, directory_, name_;
};

Databases* TheDatabases() {
  static auto* const databases = new Databases;
  return databases;
}

absl::StatusOr<std::unique_ptr<Store>> OpenIn(const std::string& directory) {
  return OpenPostgresStore({PostgresServer::Shared()->Url(TheDatabases()->Of(directory))});
}

absl::StatusOr<std::unique_ptr<Store>> OpenCopyOf(const std::string& directory) {
  PostgresServer* const server = PostgresServer::Shared();
  return OpenPostgresStore({server->Url(server->NewDatabase(TheDatabases()->Of(directory)))});
}

absl::StatusOr<std::unique_ptr<Sql>> ConnectIn(const std::string& directory) {
  const absl::Status loaded = postgres::LoadLibpq();
  if (!loaded.ok()) return loaded;
  postgres::SessionOptions options;
  options.url = PostgresServer::Shared()->Url(TheDatabases()->Of(directory));
  return postgres::Session::Open(options);
}

// Its clock is the server's: what runs out is moved instead.
void Advance(std::chrono::milliseconds by) {
  const std::string interval = "interval '" + std::to_string(by.count()) + " milliseconds'";
  PostgresServer::Shared()->Sql(TheDatabases()->current(), "UPDATE agent SET lease_until = lease_until - " + interval +
                                                               "; UPDATE lease SET lease_until = lease_until - " +
                                                               interval);
}

StoreFactory Factory() {
  StoreFactory factory{"postgres", OpenIn, Advance, OpenCopyOf};
  factory.makes_backups = false;
  return factory;
}

// Not every table's rows are tied to their job's by a foreign key.
class PostgresRows : public StoreConformance {
 protected:
  // The tables with rows of any study, with commas between them.
  static std::string Tables() {
    return PostgresServer::Shared()->Sql(
        TheDatabases()->current(),
        "SELECT string_agg(table_name, ',' ORDER BY table_name) FROM information_schema.columns JOIN "
        "information_schema.tables USING (table_schema, table_name), LATERAL (SELECT (xpath('/row/count/text()', "
        "query_to_xml(format('SELECT count(*) FROM %I', table_name), false, true, '')))[1]::text::bigint AS found) n "
        "WHERE column_name = 'study_id' AND table_type = 'BASE TABLE' AND table_name !~ '_[0-9]$' AND found > 0");
  }
};

TEST_P(PostgresRows, OfADeletedJobNoneStay) {
  const int64_t job_id = Submit(MakeSubmit("job"));
  DriveStep step;
  step.study_id = StudyOf(job_id);
  step.now_ms = kNow;
  step.priors = {{3, "prior"}};
  step.new_units = {MakeUnit(0, 2), MakeUnit(2, 4)};
  ASSERT_EQ(store_->studies()->Drive(step).status(), absl::OkStatus());
  const ClaimRequest claimer = Register("agent");
  const ClaimedUnit unit = ClaimOne(claimer);
  TrialRow trial = MakeTrial(0);
  trial.log = "log";
  trial.samples = "samples";
  trial.work = 7;
  ASSERT_EQ(Report(MakeReport(claimer, unit, {trial, MakeTrial(1)}, true)), ReportVerdict::kAccepted);
  EXPECT_EQ(Tables(),
            "study,study_event,study_prior,study_step,study_work,trial_log,trial_result,trial_samples,work_unit");
  ASSERT_TRUE(Set(job_id, JobState::kCancelled).ok());
  ASSERT_TRUE(store_->jobs()->DeleteJob(job_id).ok());
  EXPECT_EQ(Tables(), "");
}

INSTANTIATE_TEST_SUITE_P(Postgres, PostgresRows, testing::Values(Factory()));
INSTANTIATE_TEST_SUITE_P(Postgres, StoreConformance, testing::Values(Factory()));
INSTANTIATE_TEST_SUITE_P(Postgres, FarmConformance, testing::Values(Factory()));
INSTANTIATE_TEST_SUITE_P(Postgres, WorkConformance, testing::Values(Factory()));
INSTANTIATE_TEST_SUITE_P(Postgres, SqlConformance, testing::Values(SqlFactory{"postgres", ConnectIn}));

}  // namespace
}  // namespace tunefarm
