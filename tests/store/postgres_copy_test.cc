// Moving a database from SQLite to PostgreSQL: both stores answer the same, and the new one goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "server/base/check.h"
#include "server/base/status.h"
#include "server/store/agent_store.h"
#include "server/store/best_store.h"
#include "server/store/device_store.h"
#include "server/store/job_store.h"
#include "server/store/lease_store.h"
#include "server/store/lookup_store.h"
#include "server/store/poison_store.h"
#include "server/store/postgres/copy_sqlite.h"
#include "server/store/setting_store.h"
#include "server/store/sqlite/database.h"
#include "server/store/store.h"
#include "server/store/store_maintenance.h"
#include "server/store/study_store.h"
#include "server/store/token_store.h"
#include "server/store/trial_store.h"
#include "server/store/unit_store.h"
#include "tests/fakes/postgres_server.h"
#include "tests/store/conformance.h"

namespace tunefarm {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// By value: what a loop walks over must outlive it.
template <typename T>
T Value(absl::StatusOr<T> result) {
  return std::move(result).value();
}

class PostgresCopy : public testing::Test {
 protected:
  PostgresCopy() : server_(PostgresServer::Shared()), database_(server_->NewDatabase()) {
    sqlite_.path = directory_.File("tunefarm.db");
    postgres_.url = server_->Url(database_);
  }
  ~PostgresCopy() override { server_->DropDatabase(database_); }

  std::unique_ptr<Store> OpenSqlite() { return std::move(OpenSqliteStore(sqlite_).value()); }
  std::unique_ptr<Store> OpenPostgres() { return std::move(OpenPostgresStore(postgres_).value()); }
  absl::StatusOr<std::vector<CopiedTable>> Copy() {
    return CopySqliteToPostgres(sqlite_.path, postgres_, {{"host", "host/here"}});
  }

  // Something in every table.
  void Fill(Store* store) {
    SubmitRequest submit = MakeSubmit("first", {MakeStudy(1), MakeStudy(2, "other", "gpu-7")});
    submit.request_id = "request";
    submit.job.priority = -2;
    submit.job.label = "night";
    submit.job.submitted_by = "alice";
    const int64_t job_id = store->jobs()->SubmitJob(submit)->job_id;
    const std::vector<StudyRow> studies = store->jobs()->GetJob(job_id)->studies;
    DriveStep step;
    step.study_id = studies[0].study_id;
    step.now_ms = kNow;
    step.device_busy_ms = 1.5;
    step.priors = {{3, std::string("prior\0s", 7)}};
    step.new_units = {MakeUnit(0, 4, std::string("pay\0load", 8)), MakeUnit(4, 4), MakeUnit(8, 4)};
    TUNEFARM_CHECK_OK(store->studies()->Drive(step).status());
    TUNEFARM_CHECK_OK(
        store->devices()->PutDevice({"gpu-0", "class", "props", kNow}, {"class", "NVIDIA H200", "props"}));
    const ClaimRequest claimer{"agent", store->agents()->RegisterAgent({"agent", "host", "detail", 0, kNow}).value(),
                               "gpu-0", "class",
                               2,       kNow};
    const std::vector<ClaimedUnit> units = store->units()->ClaimUnits(claimer).value();
    ReportRequest report{"agent", claimer.epoch, units[0].unit.unit_id, units[0].unit.token, {}, true, kNow};
    report.trials = {MakeTrial(0, 50.25), MakeTrial(1, 0, 4), MakeTrial(2, 70), MakeTrial(3, 1e300)};
    report.trials[0].log = std::string("log\0\xff", 5);
    report.trials[0].samples = "samples";
    report.trials[2].measured_key = std::string(16, '\0');
    report.trials[2].work = -8;
    TUNEFARM_CHECK_OK(store->units()->ReportTrials(report).status());
    step = {};
    step.study_id = studies[0].study_id;
    step.now_ms = kNow;
    step.told_unit_ids = {units[0].unit.unit_id};
    TUNEFARM_CHECK_OK(store->studies()->Drive(step).status());
    BestRow best = MakeBest("program-kernel", "m=1", 50.25);
    TUNEFARM_CHECK_OK(store->bests()->PromoteBest(best).status());
    best.kernel_name = "renamed";
    TUNEFARM_CHECK_OK(store->bests()->PromoteBest(best).status());
    BestEdit edit;
    edit.kind = BestChangeKind::kAnnotated;
    edit.key = {"program-kernel", "m=1", "class"};
    edit.note = "ein Vermerk: größer";
    edit.now_ms = kNow;
    TUNEFARM_CHECK_OK(store->bests()->EditBest(edit).status());
    KeepATrialOfADeletedJob(store, claimer);
    TUNEFARM_CHECK_OK(store->poison()->RecordPoison({"program-kernel", "tile=9", "m=1", "class", "13.0", 10, 1}));
    MissRow miss;
    miss.kernel_name = "matmul";
    miss.problem_key = std::string(4000, 'm');
    miss.class_id = "class";
    miss.asked = 3;
    miss.distance = 0.5;
    TUNEFARM_CHECK_OK(store->tokens()->PutToken({"ci", std::string(64, 'a'), "submit", kNow, kNow + 1000}));
    TUNEFARM_CHECK_OK(store->lookups()->WriteMisses({{}, {miss}}));
    TUNEFARM_CHECK_OK(store->lookups()->BeginRun({"run", "alice", 2, kNow, kNow + 1}, {}).status());
    TUNEFARM_CHECK_OK(
        store->lookups()->AgreeOn("run", std::string(32, '\0'), {std::string("an\0swer", 7), kNow + 2}, {}).status());
    TUNEFARM_CHECK_OK(store->settings()->GetOrPutSetting("host", "uuid").status());
    TUNEFARM_CHECK_OK(store->settings()->GetOrPutSetting(SettingStore::kCatalogIdSetting, "old").status());
    TUNEFARM_CHECK_OK(store->leases()->TakeLease({"reaper", "node", "detail", 3'600'000}).status());
    TUNEFARM_CHECK_OK(store->devices()->SetDeviceOrder({"device", "loud", 0, kNow}));
    KernelRow kernel = MakeKernel("owned", "softmax");
    kernel.owner = "alice";
    TUNEFARM_CHECK_OK(store->kernels()->PutKernel(kernel));
    SubmitRequest of_deleted = MakeSubmit("of-deleted");
    of_deleted.kernel = MakeKernel("gone", "gone");
    of_deleted.job.kernel_id = "gone";
    const int64_t ended = store->jobs()->SubmitJob(of_deleted)->job_id;
    TUNEFARM_CHECK_OK(store->jobs()->SetJobState(ended, {JobState::kQueued}, JobState::kFailed, "", kNow));
    TUNEFARM_CHECK_OK(store->kernels()->DeleteKernel("gone", std::nullopt, kNow));
  }

  void KeepATrialOfADeletedJob(Store* store, const ClaimRequest& claimer) {
    SubmitRequest submit = MakeSubmit("deleted");
    submit.job.priority = 9;
    const int64_t job_id = store->jobs()->SubmitJob(submit)->job_id;
    DriveStep step;
    step.study_id = store->jobs()->GetJob(job_id)->studies[0].study_id;
    step.new_units = {MakeUnit(0, 1)};
    TUNEFARM_CHECK_OK(store->studies()->Drive(step).status());
    ClaimRequest one = claimer;
    one.units_max = 1;
    const ClaimedUnit unit = store->units()->ClaimUnits(one).value().at(0);
    TUNEFARM_CHECK_OK(
        store->units()
            ->ReportTrials({"agent", claimer.epoch, unit.unit.unit_id, unit.unit.token, {MakeTrial(0)}, true, kNow})
            .status());
    BestRow best = MakeBest("program-kernel", "m=7", 10);
    best.job_id = job_id;
    best.study_id = step.study_id;
    best.ordinal = 0;
    TUNEFARM_CHECK_OK(store->bests()->PromoteBest(best).status());
    TUNEFARM_CHECK_OK(store->jobs()->SetJobState(job_id, {JobState::kRunning}, JobState::kFailed, "", kNow));
    TUNEFARM_CHECK_OK(store->jobs()->DeleteJob(job_id));
  }

  // All that a store answers, as text.
  static std::vector<std::string> Answers(Store* store) {
    std::vector<std::string> lines;
    const auto add = [&lines](const auto&... parts) {
      std::ostringstream line;
      ((line << parts << "|"), ...);
      lines.push_back(line.str());
    };
    for (const JobRow& job : Value(store->jobs()->ListJobs({}, {1000, ""})).rows) {
      add("job", job.job_id, job.uid, job.kernel_id, job.spec, static_cast<int>(job.state), job.priority,
          job.state_reason, job.created_at_ms, job.started_at_ms, job.ended_at_ms);
      for (const StudyRow& s : job.studies) {
        add("study", s.study_id, s.number, s.problem_key, s.problem, s.class_id, s.device_selector, s.detail,
            static_cast<int>(s.state), s.next_ordinal, s.device_busy_ms, s.toolkit);
        const StudyHistory history = store->studies()->LoadHistory(s.study_id, 0, kWholeHistory).value();
        for (const StudyEvent& e : history.events) add("event", e.sequence, static_cast<int>(e.kind), e.unit_id);
        for (const UnitRow& u : history.units) {
          add("unit", u.unit_id, static_cast<int>(u.state), u.first_ordinal, u.trial_count, u.payload, u.token,
              u.attempt);
        }
        for (const PriorRow& prior : Value(store->studies()->LoadPriors(s.study_id)))
          add("prior", prior.rank, prior.payload);
        for (const TrialRow& t : history.trials) {
          const TrialRow whole = store->trials()->GetTrial(job.job_id, s.number, t.ordinal).value();
          add("trial", whole.ordinal, whole.attempt, whole.outcome, whole.purpose, whole.config, whole.median_ns,
              whole.device_uuid, whole.detail, whole.log, whole.samples, whole.ended_at_ms);
        }
      }
    }
    for (const JobFilter& filter : {JobFilter{"", "night", "", ""}, JobFilter{"", "", "alice", ""}})
      for (const JobRow& job : Value(store->jobs()->ListJobs({}, {}, filter)).rows) add("filtered", job.job_id);
    add("deleted", ReasonOf(store->kernels()->GetKernel("gone").status()));
    for (const KernelRow& k : Value(store->kernels()->ListKernels({1000, ""})).rows) {
      add("kernel", k.kernel_id, k.program_digest, k.display_name, k.definition, k.created_at_ms, k.owner);
    }
    for (const BestRow& b : Value(store->bests()->LoadBests())) {
      add("best", b.kernel_name, b.problem_key, b.config, b.detail, b.median_ns, b.study_id, b.revision, b.pinned,
          b.note);
    }
    for (const BestChangeRow& c : Value(store->bests()->ListBestChanges({})).rows) {
      add("change", c.revision, static_cast<int>(c.kind), c.best.config, c.best.revision, c.best.note, c.reason);
    }
    for (const BestRemovalRow& r : Value(store->bests()->LoadBestRemovals()))
      add("removal", r.kernel_name, r.key.problem_key, r.revision);
    for (const MissRow& m : Value(store->lookups()->LoadMisses()))
      add("miss", m.kernel_name, m.problem_key, m.asked, m.distance);
    const std::optional<Agreement> agreed = Value(store->lookups()->FindAgreement("run", std::string(32, '\0')));
    add("agreed", agreed->run.owner, agreed->run.catalog_revision, agreed->run.begun_at_ms, agreed->run.last_used_at_ms,
        agreed->answer->answer, agreed->answer->agreed_at_ms);
    for (const PoisonRow& p : Value(store->poison()->LoadPoison("program-kernel", "class")))
      add("poison", p.config, p.outcome, p.crashes);
    for (const AgentRow& a : Value(store->agents()->ListAgents()))
      add("agent", a.agent_id, a.host, a.detail, a.epoch, a.draining);
    for (const LeaseRow& l : Value(store->leases()->ListLeases(""))) add("lease", l.name, l.holder, l.detail, l.epoch);
    for (const DeviceOrderRow& o : Value(store->devices()->ListDeviceOrders()))
      add("order", o.device_uuid, o.held_out, o.accepted_sentinels_ms, o.set_at_ms, o.revision);
    for (const DeviceClassRow& c : Value(store->devices()->ListDeviceClasses()))
      add("class", c.class_id, c.display_name, c.properties);
    // A work that was measured is answered, and changes nothing.
    const AgentRow agent = store->agents()->FindAgent("agent").value().value();
    const ClaimedUnit held = store->units()->ClaimsOf("agent", agent.epoch).value().at(0);
    const WorkClaim claim{held.unit.study_id, -8, held.unit.unit_id, held.unit.token, held.unit.first_ordinal};
    add("work", store->units()->ClaimWorks({"agent", agent.epoch, {claim}}).value()[0].measured.value().ordinal);
    add("measured", store->trials()->FindMeasured({std::string(16, '\0')}).value()[0]->trial.ordinal);
    add("kept", store->trials()->GetTrial(2, 1, 0)->config, store->bests()->CatalogRevision().value(),
        store->maintenance()->Status()->stored_trials);
    return lines;
  }

  PostgresServer* const server_;
  const std::string database_;
  TemporaryDirectory directory_;
  SqliteOptions sqlite_;
  PostgresOptions postgres_;
};

TEST_F(PostgresCopy, BothStoresAnswerTheSameAndTheNewOneGoesOn) {
  std::vector<std::string> before;
  {
    const auto store = OpenSqlite();
    Fill(store.get());
    before = Answers(store.get());
  }
  const auto copied = Copy();
  ASSERT_TRUE(copied.ok()) << copied.status();
  for (const CopiedTable& table : *copied) EXPECT_GT(table.rows, 0) << table.name << " is not tried here";
  const auto store = OpenPostgres();
  EXPECT_EQ(Answers(store.get()), before);
  // Numbers go on where they were: also behind those of what is deleted.
  SubmitRequest submit = MakeSubmit("next");
  submit.request_id = "another";
  EXPECT_EQ(store->jobs()->SubmitJob(submit)->job_id, 4);
  submit.request_id = "request";
  EXPECT_EQ(store->jobs()->SubmitJob(submit)->job_id, 1) << "an old request is known";
  EXPECT_EQ(store->settings()->GetOrPutSetting("host/here", "new").value(), "uuid");
  EXPECT_EQ(store->settings()->GetOrPutSetting(SettingStore::kCatalogIdSetting, "new").value(), "new");
  // What an agent held is returned, and claimed behind the rest.
  const auto agent = store->agents()->FindAgent("agent").value();
  ASSERT_TRUE(agent.has_value());
  const std::vector<ClaimedUnit> held = store->units()->ClaimsOf("agent", agent->epoch).value();
  ASSERT_THAT(held, SizeIs(1));
  EXPECT_EQ(store->agents()->ReleaseOtherAgents({}, kNow).value(), 1);
  const ClaimRequest claimer{
      "next", store->agents()->RegisterAgent({"next", "host", "", 0, kNow}).value(), "gpu-0", "class", 9, kNow};
  const std::vector<ClaimedUnit> units = store->units()->ClaimUnits(claimer).value();
  ASSERT_THAT(units, SizeIs(2));
  EXPECT_EQ(units[1].unit.unit_id, held[0].unit.unit_id);
  const int64_t revision = store->bests()->CatalogRevision().value();
  EXPECT_EQ(store->bests()->PromoteBest(MakeBest("p", "m=8", 1))->revision, revision + 1);
  const absl::Status again = Copy().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(again)) << again;
  EXPECT_THAT(std::string(again.message()), HasSubstr("is not empty"));
}

TEST_F(PostgresCopy, AnErrorLeavesTheTargetEmpty) {
  EXPECT_TRUE(absl::IsNotFound(Copy().status()));
  Fill(OpenSqlite().get());
  (void)OpenPostgres();
  server_->Sql(database_, "ALTER TABLE miss ADD CONSTRAINT never CHECK (asked < 0)");
  EXPECT_FALSE(Copy().ok());
  EXPECT_THAT(OpenPostgres()->jobs()->ListJobs({}, {})->rows, IsEmpty());
  server_->Sql(database_, "ALTER TABLE miss DROP CONSTRAINT never");
  EXPECT_TRUE(Copy().ok());
}

TEST_F(PostgresCopy, ADatabaseFromBeforeTheFirstReleaseIsRefusedWithWhatToDo) {
  Fill(OpenSqlite().get());
  {
    const auto database = Value(sqlite::Database::Open(sqlite_.path, sqlite::Database::Mode::kReadWrite));
    ASSERT_TRUE(database->Execute("UPDATE schema_migration SET name = '0001_first.sql'").ok());
  }
  const absl::Status refused = Copy().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(refused.message(), HasSubstr("tunefarm export bests"));
}

}  // namespace
}  // namespace tunefarm
