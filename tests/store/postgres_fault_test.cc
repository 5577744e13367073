// What a PostgreSQL store does when connections, statements and the server itself are lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <libpq-fe.h>

#include <atomic>
#include <set>

#include "server/base/check.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/base/thread.h"
#include "server/store/agent_store.h"
#include "server/store/job_store.h"
#include "server/store/postgres/open.h"
#include "server/store/postgres/pool.h"
#include "server/store/setting_store.h"
#include "server/store/store.h"
#include "server/store/store_maintenance.h"
#include "server/store/study_store.h"
#include "server/store/trial_store.h"
#include "server/store/unit_store.h"
#include "tests/fakes/postgres_server.h"
#include "tests/store/conformance.h"
#include "tests/store/cutting_proxy.h"

namespace tunefarm {
namespace {

using postgres::Pool;
using postgres::Session;
using testing::IsEmpty;
using testing::SizeIs;

constexpr char kKillAll[] =
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'tunefarmd' AND pid <> "
    "pg_backend_pid()";

std::string UrlThrough(const CuttingProxy& proxy, const std::string& database) {
  std::string host;
  for (const char c : proxy.socket_directory()) host += c == '/' ? "%2F" : std::string(1, c);
  return "postgres://tunefarm@" + host + "/" + database;
}

class PostgresFault : public testing::Test {
 protected:
  PostgresFault() : server_(PostgresServer::Shared()), database_(server_->NewDatabase()) {}
  ~PostgresFault() override { server_->DropDatabase(database_); }

  std::unique_ptr<Store> Open(const std::string& url) {
    PostgresOptions options;
    options.url = url;
    auto store = OpenPostgresStore(options);
    TUNEFARM_CHECK_OK(store.status());
    return *std::move(store);
  }
  std::unique_ptr<Store> Open() { return Open(server_->Url(database_)); }
  std::string Sql(const std::string& sql) { return server_->Sql(database_, sql); }
  // With a table of numbers.
  std::unique_ptr<Pool> OpenPool(const std::string& url) {
    Sql("CREATE TABLE number (n bigint)");
    PostgresOptions options;
    options.url = url;
    return std::make_unique<Pool>(postgres::ToSessionOptions(options), 4, Clock::Real(), EntropySource::Real());
  }
  static absl::Status Insert(Session& session) { return session.Run("INSERT INTO number VALUES (1)"); }
  std::string Numbers() { return Sql("SELECT count(*) FROM number"); }

  // Of indexes by a LIKE pattern, as the sessions that have ended have told.
  int64_t EntriesRead(const std::string& indexes) {
    return std::stoll(
        Sql("SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE indexrelname LIKE '" + indexes + "'"));
  }

  // A study with units to claim, and an agent.
  int64_t SubmitUnits(Store* store, int units, const std::string& uid = "job") {
    const int64_t job_id = store->jobs()->SubmitJob(MakeSubmit(uid))->job_id;
    DriveStep step;
    step.study_id = store->jobs()->GetJob(job_id)->studies[0].study_id;
    step.now_ms = kNow;
    for (int i = 0; i < units; ++i) step.new_units.push_back(MakeUnit(i, 1));
    TUNEFARM_CHECK_OK(store->studies()->Drive(step).status());
    return step.study_id;
  }
  ClaimRequest Register(Store* store, const std::string& id = "agent") {
    return {id, store->agents()->RegisterAgent({id, "host", "", 0, kNow}).value(), "gpu-0", "class", 1, kNow};
  }
  static ReportRequest ReportOf(const ClaimRequest& claimer, const ClaimedUnit& unit) {
    return {claimer.agent_id,
            claimer.epoch,
            unit.unit.unit_id,
            unit.unit.token,
            {MakeTrial(unit.unit.first_ordinal)},
            true,
            kNow};
  }

  PostgresServer* const server_;
  const std::string database_;
};

TEST_F(PostgresFault, AServerThatIsAwayIsUnavailableAndComesBack) {
  const auto store = Open();
  ASSERT_TRUE(store->kernels()->PutKernel(MakeKernel("before")).ok());
  server_->Stop();
  const absl::Status away = store->kernels()->PutKernel(MakeKernel("away"));
  EXPECT_TRUE(absl::IsUnavailable(away)) << away;
  EXPECT_TRUE(absl::IsUnavailable(store->kernels()->GetKernel("before").status()));
  EXPECT_TRUE(absl::IsUnavailable(store->maintenance()->CheckWritable()));
  server_->Start();
  EXPECT_TRUE(absl::IsNotFound(store->kernels()->GetKernel("away").status()));
  EXPECT_TRUE(store->kernels()->PutKernel(MakeKernel("away")).ok());
  EXPECT_TRUE(store->kernels()->GetKernel("before").ok());
}

TEST_F(PostgresFault, KilledSessionsAreReplacedWithoutAWord) {
  const auto store = Open();
  const ClaimRequest claimer = Register(store.get());
  SubmitUnits(store.get(), 10);
  for (int i = 0; i < 5; ++i) {
    ASSERT_NE(Sql(kKillAll), "0");
    const auto units = store->units()->ClaimUnits(claimer);
    ASSERT_TRUE(units.ok()) << units.status();
    ASSERT_THAT(*units, SizeIs(1));
    EXPECT_EQ(units->at(0).unit.attempt, 1);
    ASSERT_NE(Sql(kKillAll), "0");
    const auto verdict = store->units()->ReportTrials(ReportOf(claimer, units->at(0)));
    ASSERT_TRUE(verdict.ok()) << verdict.status();
    EXPECT_EQ(*verdict, ReportVerdict::kAccepted);
    ASSERT_NE(Sql(kKillAll), "0");
    EXPECT_TRUE(store->kernels()->GetKernel("kernel").ok());
  }
  EXPECT_EQ(store->maintenance()->Status()->stored_trials, 5);
}

TEST_F(PostgresFault, ACallDuringWhichTheDatabaseWasReplacedFailsAndIsNotRepeated) {
  const auto store = Open();
  ASSERT_TRUE(store->settings()->PutSetting("state", "of the copy").ok());
  ASSERT_NE(Sql(kKillAll), "0");
  const std::string copy = server_->NewDatabase(database_);
  ASSERT_TRUE(store->settings()->PutSetting("state", "lost").ok());
  EXPECT_EQ(store->Replacements(), 0) << "another session is no other database";
  const std::string lost = server_->NewDatabase();
  server_->DropDatabase(lost);
  const auto sql = [&](const std::string& statement) { server_->Sql("postgres", statement); };
  sql("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '" + database_ + "'");
  sql("ALTER DATABASE " + database_ + " RENAME TO " + lost);
  sql("ALTER DATABASE " + copy + " RENAME TO " + database_);
  const absl::Status status = store->settings()->PutSetting("state", "what somebody made of what is lost");
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(store->Replacements(), 1);
  EXPECT_EQ(store->settings()->GetOrPutSetting("state", "none").value(), "of the copy");
  EXPECT_TRUE(store->settings()->PutSetting("state", "new").ok());
  ASSERT_NE(Sql(kKillAll), "0");
  EXPECT_EQ(store->settings()->GetOrPutSetting("state", "none").value(), "new");
  // In place: its tables are others.
  Sql("ALTER TABLE lease RENAME TO lease_before; CREATE TABLE lease (LIKE lease_before INCLUDING ALL)");
  ASSERT_NE(Sql(kKillAll), "0");
  EXPECT_TRUE(absl::IsUnavailable(store->settings()->PutSetting("state", "newer")));
  EXPECT_EQ(store->Replacements(), 2);
  server_->DropDatabase(lost);
}

TEST_F(PostgresFault, AReportOnAUnitOfADatabaseThatWasReplacedIsRefused) {
  const auto store = Open();
  const ClaimRequest claimer = Register(store.get());
  SubmitUnits(store.get(), 2);
  std::vector<ReportRequest> reports;
  for (int i = 0; i < 2; ++i) {
    const auto units = store->units()->ClaimUnits(claimer);
    ASSERT_TRUE(units.ok()) << units.status();
    ASSERT_THAT(*units, SizeIs(1));
    reports.push_back(ReportOf(claimer, units->at(0)));
  }
  reports[1].unit_done = false;
  reports[1].unit_returned = true;
  // As one that was restored in place: the units and their tokens are the same.
  Sql("ALTER TABLE lease RENAME TO lease_before; CREATE TABLE lease (LIKE lease_before INCLUDING ALL)");
  ASSERT_NE(Sql(kKillAll), "0");
  EXPECT_TRUE(absl::IsUnavailable(store->maintenance()->CheckWritable()));
  ASSERT_EQ(store->Replacements(), 1);
  for (ReportRequest& report : reports) {
    EXPECT_TRUE(absl::IsUnavailable(store->units()->ReportTrials(report).status()));
    report.replacements = 1;
    const auto verdict = store->units()->ReportTrials(report);
    ASSERT_TRUE(verdict.ok()) << verdict.status();
    EXPECT_EQ(*verdict, ReportVerdict::kAccepted);
  }
  EXPECT_EQ(store->maintenance()->Status()->stored_trials, 2);
}

TEST_F(PostgresFault, AClaimOfWorksWaitsForAHungOneForALittle) {
  const auto store = Open();
  const ClaimRequest claimer = Register(store.get());
  const int64_t study_id = SubmitUnits(store.get(), 1);
  const auto units = store->units()->ClaimUnits(claimer);
  ASSERT_TRUE(units.ok()) << units.status();
  ASSERT_THAT(*units, SizeIs(1));
  const UnitRow& unit = units->at(0).unit;
  const WorkClaimRequest request{
      claimer.agent_id, claimer.epoch, {{study_id, 7, unit.unit_id, unit.token, unit.first_ordinal}}};
  // A daemon that was stopped in the middle of its claim.
  PGconn* const hung = PQconnectdb(server_->Url(database_).c_str());
  PQclear(PQexec(hung, "BEGIN"));
  PQclear(
      PQexec(hung, ("SELECT pg_advisory_xact_lock(hashtextextended('" + std::to_string(study_id) + "', 3))").c_str()));
  const auto refused = store->units()->ClaimWorks(request);
  EXPECT_TRUE(absl::IsUnavailable(refused.status())) << refused.status();
  EXPECT_THAT(std::string(refused.status().message()), testing::HasSubstr("another claim of works of the same study"));
  // Those of other studies do not wait, and reports of this one neither.
  EXPECT_TRUE(store->units()->ClaimWorks({claimer.agent_id, claimer.epoch, {{study_id + 1, 7, 1, 1, 0}}}).ok());
  ReportRequest report = ReportOf(claimer, units->at(0));
  report.unit_done = false;
  report.trials[0].work = 7;
  EXPECT_EQ(store->units()->ReportTrials(report).value(), ReportVerdict::kAccepted);
  PQfinish(hung);
  EXPECT_TRUE(store->units()->ClaimWorks(request).ok());
}

// By this setting the server ends the session of a daemon that is stopped in the middle of a claim.
TEST_F(PostgresFault, AClaimOfWorksKeepsItsLockForSecondsAtMost) {
  const auto store = Open();
  const ClaimRequest claimer = Register(store.get());
  const int64_t study_id = SubmitUnits(store.get(), 1);
  const auto units = store->units()->ClaimUnits(claimer);
  ASSERT_TRUE(units.ok()) << units.status();
  ASSERT_THAT(*units, SizeIs(1));
  const UnitRow& unit = units->at(0).unit;
  Sql("CREATE TABLE seen (idle_ms bigint); CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT "
      "INTO seen SELECT setting::bigint FROM pg_settings WHERE name = 'idle_in_transaction_session_timeout'; RETURN "
      "NEW; END $$; CREATE TRIGGER see BEFORE INSERT ON study_work FOR EACH ROW EXECUTE FUNCTION see()");
  ASSERT_TRUE(
      store->units()
          ->ClaimWorks({claimer.agent_id, claimer.epoch, {{study_id, 7, unit.unit_id, unit.token, unit.first_ordinal}}})
          .ok());
  EXPECT_EQ(Sql("SELECT idle_ms FROM seen"), "3000");
}

TEST_F(PostgresFault, ASessionKilledInATransactionUndoesItAndItIsRepeated) {
  const auto pool = OpenPool(server_->Url(database_));
  int tries = 0;
  const absl::Status status = pool->Write([&](Session& session) -> absl::Status {
    RETURN_IF_ERROR(Insert(session));
    if (++tries == 1) Sql(kKillAll);
    return Insert(session);
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(tries, 2);
  EXPECT_EQ(Numbers(), "2");
}

TEST_F(PostgresFault, ConflictsAreRepeatedAndRefusalsAreNot) {
  const auto pool = OpenPool(server_->Url(database_));
  for (const char* state : {"40001", "40P01"}) {
    int tries = 0;
    EXPECT_TRUE(pool->Write([&](Session& session) -> absl::Status {
                      RETURN_IF_ERROR(Insert(session));
                      if (++tries == 3) return absl::OkStatus();
                      return session.Script(std::string("DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '") + state +
                                            "'; END $$");
                    })
                    .ok());
    EXPECT_EQ(tries, 3);
  }
  EXPECT_EQ(Numbers(), "2");
  int tries = 0;
  EXPECT_TRUE(absl::IsInvalidArgument(pool->Write([&](Session& session) -> absl::Status {
    ++tries;
    RETURN_IF_ERROR(Insert(session));
    return session.Run("INSERT INTO number VALUES (1 / ($1::bigint - 1))", 1);
  })));
  EXPECT_EQ(tries, 1);
  // Without end, and yet an end.
  tries = 0;
  EXPECT_TRUE(absl::IsUnavailable(pool->Write([&](Session& session) -> absl::Status {
    ++tries;
    return session.Script("DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '40001'; END $$");
  })));
  EXPECT_EQ(tries, 8);
  EXPECT_EQ(Numbers(), "2");
}

TEST_F(PostgresFault, ALostAnswerToCommitIsFoundOut) {
  CuttingProxy proxy(server_->socket_directory());
  const auto pool = OpenPool(UrlThrough(proxy, database_));
  // It was committed: not once more.
  int tries = 0;
  const auto insert = [&](Session& session) {
    ++tries;
    return Insert(session);
  };
  proxy.Arm(CuttingProxy::Cut::kAfter, "COMMIT");
  absl::Status status = pool->Write(insert);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(tries, 1);
  EXPECT_EQ(Numbers(), "1");
  // It was not: once more.
  proxy.Arm(CuttingProxy::Cut::kBefore, "COMMIT");
  status = pool->Write(insert);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(tries, 3);
  EXPECT_EQ(Numbers(), "2");
  EXPECT_EQ(proxy.cuts(), 2);
}

TEST_F(PostgresFault, ALostAnswerToAClaimOrAReportIsFoundOut) {
  CuttingProxy proxy(server_->socket_directory());
  const auto store = Open(UrlThrough(proxy, database_));
  const ClaimRequest claimer = Register(store.get());
  const int64_t study_id = SubmitUnits(store.get(), 20);
  // Prepares what is cut below.
  ClaimedUnit unit = store->units()->ClaimUnits(claimer).value().at(0);
  ASSERT_EQ(store->units()->ReportTrials(ReportOf(claimer, unit)).value(), ReportVerdict::kAccepted);
  unit = store->units()->ClaimUnits(claimer).value().at(0);
  ASSERT_EQ(store->units()->ReportTrials(ReportOf(claimer, unit)).value(), ReportVerdict::kAccepted);
  for (const CuttingProxy::Cut cut : {CuttingProxy::Cut::kBefore, CuttingProxy::Cut::kAfter}) {
    proxy.Arm(cut, "agent");
    const auto units = store->units()->ClaimUnits(claimer);
    ASSERT_TRUE(units.ok()) << units.status();
    ASSERT_THAT(*units, SizeIs(1));
    EXPECT_EQ(units->at(0).unit.attempt, 1);
    EXPECT_THAT(store->units()->ClaimsOf(claimer.agent_id, claimer.epoch).value(), SizeIs(1)) << "no unit is lost";
    // The new session prepares first.
    ASSERT_EQ(store->units()->ReportTrials(ReportOf(claimer, units->at(0))).value(), ReportVerdict::kAccepted);
    unit = store->units()->ClaimUnits(claimer).value().at(0);
    proxy.Arm(cut, "agent");
    const auto verdict = store->units()->ReportTrials(ReportOf(claimer, unit));
    ASSERT_TRUE(verdict.ok()) << verdict.status();
    EXPECT_EQ(*verdict, ReportVerdict::kAccepted);
    unit = store->units()->ClaimUnits(claimer).value().at(0);
    ASSERT_EQ(store->units()->ReportTrials(ReportOf(claimer, unit)).value(), ReportVerdict::kAccepted);
  }
  EXPECT_EQ(proxy.cuts(), 4);
  EXPECT_THAT(store->studies()->LoadHistory(study_id, 0, kWholeHistory)->trials, SizeIs(8));
  EXPECT_THAT(store->units()->ClaimsOf(claimer.agent_id, claimer.epoch).value(), IsEmpty());
}

TEST_F(PostgresFault, AcknowledgedWorkSurvivesACrashOfTheServer) {
  PostgresServer::Options options;
  options.fsync = true;
  PostgresServer server(options);
  const std::string database = server.NewDatabase();
  const auto store = Open(server.Url(database));
  std::set<std::string> acknowledged;
  for (int round = 0; round < 4; ++round) {
    SCOPED_TRACE(round);
    Notification has_some;
    std::atomic<bool> is_over{false};
    Thread writer("writer", [&] {
      for (int i = 0; !is_over.load(); ++i) {
        const std::string uid = std::to_string(round) + "-" + std::to_string(i);
        // One whose answer is lost is found out about when the server is back, or is refused when that takes too long.
        if (store->jobs()->SubmitJob(MakeSubmit(uid)).ok()) acknowledged.insert(uid);
        if (i == 20 * round) has_some.Notify();
      }
    });
    has_some.WaitForNotification();
    server.Crash();
    server.Start();
    is_over.store(true);
    writer.Join();
    std::set<std::string> stored;
    for (const JobRow& job : AllJobs(store.get())) stored.insert(job.uid);
    for (const std::string& uid : acknowledged) EXPECT_EQ(stored.count(uid), 1U) << uid << " is lost";
    EXPECT_EQ(stored, acknowledged) << "what was refused is not there";
  }
}

TEST_F(PostgresFault, ManyThreadsOfTwoDaemonsClaimEachUnitOnce) {
  constexpr int kUnits = 400;
  const auto first = Open(), second = Open();
  const int64_t study_id = SubmitUnits(first.get(), kUnits);
  Mutex mutex;
  std::multiset<int64_t> claimed;
  {
    std::vector<Thread> threads;
    for (int i = 0; i < 8; ++i) {
      Store* const store = i % 2 == 0 ? first.get() : second.get();
      const ClaimRequest claimer = Register(store, "agent-" + std::to_string(i));
      threads.emplace_back("claimer", [&, store, claimer] {
        while (true) {
          const auto units = store->units()->ClaimUnits(claimer);
          TUNEFARM_CHECK_OK(units.status());
          if (units->empty()) return;
          EXPECT_EQ(store->units()->ReportTrials(ReportOf(claimer, units->at(0))).value(), ReportVerdict::kAccepted);
          MutexLock lock(&mutex);
          claimed.insert(units->at(0).unit.unit_id);
        }
      });
    }
  }
  EXPECT_THAT(claimed, SizeIs(kUnits));
  EXPECT_THAT(std::set<int64_t>(claimed.begin(), claimed.end()), SizeIs(kUnits));
  EXPECT_THAT(first->studies()->LoadHistory(study_id, 0, kWholeHistory)->trials, SizeIs(kUnits));
}

TEST_F(PostgresFault, NothingWalksOverWhatWasClaimedBefore) {
  auto store = Open();
  // Another session holds a snapshot: what is claimed cannot be removed from the indexes.
  PGconn* const holder = PQconnectdb(server_->Url(database_).c_str());
  PQclear(PQexec(holder, "BEGIN ISOLATION LEVEL REPEATABLE READ"));
  PQclear(PQexec(holder, "SELECT count(*) FROM work_unit"));
  constexpr int kUnits = 2000;
  const ClaimRequest claimer = Register(store.get());
  SubmitUnits(store.get(), kUnits);
  for (int i = 0; i < kUnits; ++i) {
    const auto units = store->units()->ClaimUnits(claimer);
    ASSERT_TRUE(units.ok()) << units.status();
    ASSERT_THAT(*units, SizeIs(1)) << i;
    ASSERT_EQ(store->units()->ReportTrials(ReportOf(claimer, units->at(0))).value(), ReportVerdict::kAccepted);
  }
  PQclear(PQexec(holder, "COMMIT"));
  PQfinish(holder);
  store.reset();  // its sessions tell what they have read when they end
  int64_t read = 0;
  for (int i = 0; i < 100 && read < kUnits; ++i) {
    read = EntriesRead("work_unit_ready");
    Notification().WaitFor(std::chrono::milliseconds(50));
  }
  EXPECT_GE(read, kUnits);
  // Without the cursor it would be half the square of the units: 2,000,000. So would it be where a report looked
  // through what its agent has held.
  EXPECT_LE(read, 4 * kUnits);
  EXPECT_LE(EntriesRead("work_unit_claimed"), 4 * kUnits);
  EXPECT_LE(EntriesRead("work_unit_study_id_first_ordinal_key"), 4 * kUnits);
}

TEST_F(PostgresFault, AKeyThatNobodyMeasuredIsNotSearchedAmongAllResults) {
  auto store = Open();
  constexpr int kUnits = 300;
  const ClaimRequest claimer = Register(store.get());
  SubmitUnits(store.get(), kUnits);
  for (int i = 0; i < kUnits; ++i) {
    const auto units = store->units()->ClaimUnits(claimer);
    ASSERT_TRUE(units.ok()) << units.status();
    ReportRequest report = ReportOf(claimer, units->at(0));
    report.trials[0].measured_key = "key-" + std::to_string(100'000'000'000 + i);
    ASSERT_EQ(store->units()->ReportTrials(report).value(), ReportVerdict::kAccepted);
  }
  Sql("ANALYZE");
  const std::string known = "key-" + std::to_string(100'000'000'000 + kUnits / 2);
  for (int i = 0; i < 20; ++i) {
    const auto found = store->trials()->FindMeasured({"nobody measured.", known});
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_FALSE(found->at(0).has_value());
    EXPECT_TRUE(found->at(1).has_value());
  }
  store.reset();
  for (int i = 0; i < 100 && EntriesRead("trial_result_%_measured_key_idx") < 20; ++i) {
    Notification().WaitFor(std::chrono::milliseconds(50));
  }
  EXPECT_GE(EntriesRead("trial_result_%_measured_key_idx"), 20);
  EXPECT_LE(EntriesRead("trial_result_%_pkey"), kUnits);
}

}  // namespace
}  // namespace tunefarm
