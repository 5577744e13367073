// Two control daemons on one store: what one does, the other notices; what one leaves, the other takes up.
#include "server/jobs/node.h"

#include <fmt/core.h>

#include <chrono>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/base/status.h"
#include "server/jobs/best_changes.h"
#include "server/jobs/catalog_watch.h"
#include "tests/unit/jobs/farm.h"
#include "tests/unit/jobs/simulation.h"

namespace tunefarm {
namespace {

constexpr Duration kLease = std::chrono::seconds(6);

// What a program that is older than the others sees of their jobs: a field that it does not know.
class OlderProgram final : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;

  absl::StatusOr<JobRow> GetJob(int64_t job_id) override {
    absl::StatusOr<JobRow> row = ForwardingStore::GetJob(job_id);
    if (row.ok()) row->spec += kField1000;
    return row;
  }
  absl::StatusOr<std::vector<JobRow>> ActiveJobs() override {
    absl::StatusOr<std::vector<JobRow>> rows = ForwardingStore::ActiveJobs();
    if (!rows.ok()) return rows;
    for (JobRow& row : *rows) row.spec += kField1000;
    return rows;
  }

 private:
  static constexpr char kField1000[] = "\xc0\x3e\x01";  // varint 1
};

class NodeTest : public testing::Test, public AgentWorld {
 protected:
  struct Node {
    std::unique_ptr<OlderProgram> older;
    std::unique_ptr<FaultyStore> store;
    std::unique_ptr<ManualExecutor> control, lease;
    std::unique_ptr<JobService> service;
    bool stands_still = false;
    bool store_is_away = false;
    std::map<std::string, int> calls;
  };

  NodeTest() {
    SqliteOptions sqlite;
    sqlite.path = directory_.path() + "/tunefarm.db";
    sqlite.backup_directory = directory_.path();
    sqlite.clock = &clock_;
    auto store = OpenSqliteStore(sqlite);
    TUNEFARM_CHECK_OK(store);
    store_ = *std::move(store);
  }
  ~NodeTest() override {
    for (int i = 0; i < 2; ++i) Kill(i);
  }

  absl::Status Boot(int index, bool alone = false, bool store_is_away = false) {
    Node& node = nodes_[index];
    if (is_older_[index]) node.older = std::make_unique<OlderProgram>(store_.get());
    node.store = std::make_unique<FaultyStore>(is_older_[index] ? node.older.get() : store_.get());
    node.store_is_away = store_is_away;
    node.store->set_faults([&node](std::string_view call) {
      ++node.calls[std::string(call)];
      return node.store_is_away ? FaultyStore::Fault::kBefore : FaultyStore::Fault::kNone;
    });
    node.control = std::make_unique<ManualExecutor>(&clock_);
    node.lease = std::make_unique<ManualExecutor>(&clock_);
    JobServiceOptions options;
    options.store = node.store.get();
    options.control = node.control.get();
    options.lease = node.lease.get();
    options.entropy = &entropy_;
    options.local_copy = directory_.File(fmt::format("copy-{}", index));
    options.node.lease = kLease;
    if (!alone) options.node.id = fmt::format("n{}.{}", index, ++boots_);
    node.service = std::make_unique<JobService>(options);
    const absl::Status devices = node.service->SetDevices({HostDevice("HOST-1")});
    if (!devices.ok()) return devices;
    return node.service->Start();
  }
  void BootBoth() {
    for (int i = 0; i < 2; ++i) TUNEFARM_CHECK_OK(Boot(i));
    RunFor(std::chrono::seconds(2));
  }
  void Kill(int index) {
    Node& node = nodes_[index];
    node.control = nullptr;
    node.lease = nullptr;
    node.service = nullptr;
    node.store = nullptr;
    node.stands_still = false;
  }

  Dice& dice() override { return dice_; }
  AgentLink* LinkTo(int*) override {
    Node& node = nodes_[agents_node_];
    return node.service == nullptr || node.stands_still ? nullptr : node.service->agent_link();
  }

  void RunFor(Duration time) {
    const MonotonicTime end = clock_.Now() + time;
    RunUntil([&] { return clock_.Now() >= end; });
  }
  template <typename Condition>
  bool RunUntil(Condition condition, Duration limit = std::chrono::minutes(5)) {
    const MonotonicTime end = clock_.Now() + limit;
    while (!condition()) {
      if (clock_.Now() > end) return false;
      for (Node& node : nodes_) {
        if (node.service == nullptr || node.stands_still) continue;
        node.lease->RunUntilIdle();
        node.control->RunUntilIdle();
      }
      if (agent_works_ && ++turn_ % agent_pace_ == 0) agent_.Act();
      clock_.Advance(std::chrono::milliseconds(10));
    }
    return true;
  }

  JobService& service(int index) { return *nodes_[index].service; }
  std::string Submit(int index, const std::string& strategy = "exhaustive") {
    tunefarm::v1::Job job;
    *job.add_problems() = TestProblem(1024);
    job.mutable_strategy()->set_strategy_name(strategy);
    const auto submitted = service(index).Submit(job, TestKernel(), "", false);
    TUNEFARM_CHECK_OK(submitted);
    return submitted->name();
  }
  tunefarm::v1::JobState StateOf(const std::string& name, int index) {
    const auto job = service(index).GetJob(name);
    return job.ok() ? job->state() : tunefarm::v1::JOB_STATE_UNSPECIFIED;
  }
  std::string DriverOf(int64_t job_id) { return store_->JobStates({job_id})->at(0).driver; }
  bool Ended(const std::string& name, int index) {
    return StateOf(name, index) == tunefarm::v1::JOB_STATE_SUCCEEDED ||
           StateOf(name, index) == tunefarm::v1::JOB_STATE_CANCELLED;
  }
  tunefarm::v1::LookupConfigResponse Lookup(int index, int64_t n = 1024) {
    tunefarm::v1::LookupConfigRequest request;
    request.set_kernel("scale");
    *request.mutable_problem() = TestProblem(n);
    request.set_device_selector("HOST-1");
    const auto response = service(index).Lookup(request);
    EXPECT_TRUE(response.ok()) << response.status();
    return response.ok() ? *response : tunefarm::v1::LookupConfigResponse();
  }

  TemporaryDirectory directory_;
  FakeClock clock_;
  FakeEntropy entropy_;
  Dice dice_{1};
  std::unique_ptr<Store> store_;
  bool is_older_[2] = {};
  Node nodes_[2];
  int boots_ = 0;
  int agents_node_ = 0;
  bool agent_works_ = true;
  int agent_pace_ = 1, turn_ = 0;  // it acts every so many turns
  SimulatedAgent agent_{this, "agent", "HOST-1"};
};

TEST_F(NodeTest, LivesUnderItsNameWhileItsLeaseRunsAndUnderAnotherAfterwards) {
  tunefarm::Node node(store_.get(), &clock_, {"a", "here", kLease});
  EXPECT_EQ(node.Name(), "") << "before it has the lease";
  ASSERT_TRUE(node.Renew().ok());
  EXPECT_EQ(node.Name(), "a");
  EXPECT_THAT(store_->ListLeases("node/")->at(0).detail, testing::StartsWith("here"));
  clock_.Advance(kLease / 3);
  ASSERT_TRUE(node.Renew().ok());
  clock_.Advance(kLease * 5 / 6);
  EXPECT_EQ(node.Name(), "") << "others may take over in a moment";
  ASSERT_TRUE(node.Renew().ok());
  EXPECT_EQ(node.Name(), "a.2");
  ASSERT_EQ(store_->ListLeases("node/")->size(), 1) << "the old one was given back";
  node.Leave();
  EXPECT_EQ(node.Name(), "");
  EXPECT_TRUE(store_->ListLeases("node/")->empty());
  EXPECT_FALSE(node.Renew().ok());
}

TEST_F(NodeTest, IsAnotherOneInADatabaseThatHasForgottenItsLastRenewal) {
  // The row of a lease as an hour ago: or none.
  const auto put_back = [&](const std::string& name, const std::string& detail) {
    ASSERT_TRUE(store_->TakeLease({"node/" + name, name, detail, 60'000}).ok());
  };
  tunefarm::Node node(store_.get(), &clock_, {"a", "here", kLease});
  ASSERT_TRUE(node.Renew().ok());
  const std::string early = store_->ListLeases("node/")->at(0).detail;
  ASSERT_TRUE(node.Renew().ok());
  ASSERT_TRUE(node.Renew().ok());
  EXPECT_EQ(node.replacements(), 0);
  put_back("a", early);
  ASSERT_TRUE(node.Renew().ok());
  EXPECT_EQ(node.replacements(), 1);
  EXPECT_EQ(node.Name(), "a.2") << "what it drove as a is not its any more";
  ASSERT_TRUE(node.Renew().ok());
  EXPECT_EQ(node.Name(), "a.2");
  // Found out also when the lease has run out meanwhile, and when there is no row at all.
  clock_.Advance(kLease);
  put_back("a.2", "");
  ASSERT_TRUE(node.Renew().ok());
  EXPECT_EQ(node.Name(), "a.3");
  EXPECT_EQ(node.replacements(), 2);
  clock_.Advance(kLease);
  ASSERT_TRUE(node.Renew().ok());
  EXPECT_EQ(node.replacements(), 2) << "late is not put back";
  EXPECT_EQ(node.Name(), "a.4");
}

TEST_F(NodeTest, AloneItAsksNothing) {
  ASSERT_TRUE(Boot(0, true).ok());
  const std::string name = Submit(0);
  ASSERT_TRUE(RunUntil([&] { return Ended(name, 0); }));
  for (const char* call : {"TakeLease", "AdoptJobs", "JobStates", "LoadDone", "LoadBestsSince"}) {
    EXPECT_EQ(nodes_[0].calls[call], 0) << call;
  }
  EXPECT_EQ(Lookup(0).catalog_age_ms(), 0);
}

TEST_F(NodeTest, DrivesAJobWhoseAgentReportsToAnother) {
  BootBoth();
  agents_node_ = 1;
  const std::string name = Submit(0);
  ASSERT_TRUE(RunUntil([&] { return Ended(name, 0); }));
  EXPECT_EQ(StateOf(name, 0), tunefarm::v1::JOB_STATE_SUCCEEDED);
  const auto job = service(1).GetJob(name);
  ASSERT_TRUE(job.ok());
  EXPECT_EQ(job->state(), tunefarm::v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(job->studies(0).progress().done(), 11);
}

TEST_F(NodeTest, AWatchThroughAnotherSeesProgressAndTheEnd) {
  BootBoth();
  const std::string name = Submit(0);
  std::vector<int64_t> done;
  int64_t total = 0;
  absl::Status end = absl::UnknownError("not yet");
  const auto watch = service(1).Watch(
      name, 0,
      [&](const tunefarm::v1::JobEvent& event) {
        done.push_back(event.progress().done());
        total = event.progress().total();
      },
      [&](absl::Status status) { end = status; });
  ASSERT_TRUE(watch.ok());
  ASSERT_TRUE(RunUntil([&] { return end.code() != absl::StatusCode::kUnknown; }));
  EXPECT_TRUE(end.ok()) << end;
  ASSERT_GE(done.size(), 2u);
  EXPECT_EQ(done.back(), 11);
  EXPECT_EQ(total, 11);
  // Where the first one's position means nothing there is a snapshot first.
  bool has_snapshot = false;
  const auto again = service(0).Watch(
      name, 5, [&](const tunefarm::v1::JobEvent& event) { has_snapshot = has_snapshot || event.has_job(); },
      [](absl::Status) {});
  RunFor(std::chrono::seconds(1));
  EXPECT_TRUE(has_snapshot);
}

TEST_F(NodeTest, TakesUpWhatADeadOneDroveWhenItsLeaseHasRunOut) {
  BootBoth();
  agent_works_ = false;
  const std::string name = Submit(0);
  RunFor(std::chrono::seconds(1));
  const std::string before = DriverOf(1);
  ASSERT_FALSE(before.empty());
  const int driver = before[1] - '0';
  Kill(driver);
  agents_node_ = 1 - driver;
  RunFor(kLease / 3);
  EXPECT_EQ(DriverOf(1), before) << "it may still live";
  agent_works_ = true;
  ASSERT_TRUE(RunUntil([&] { return Ended(name, 1 - driver); }));
  EXPECT_NE(DriverOf(1), before);
}

TEST_F(NodeTest, TakesUpWhatAStoppedOneDroveAtOnce) {
  BootBoth();
  agent_works_ = false;
  const std::string name = Submit(0);
  RunFor(std::chrono::seconds(1));
  const std::string before = DriverOf(1);
  const int driver = before[1] - '0';
  service(driver).Stop();
  Kill(driver);
  EXPECT_TRUE(RunUntil([&] { return DriverOf(1) != before; }, std::chrono::seconds(2)));
}

TEST_F(NodeTest, ANewerJobIsLeftToTheNodeThatKnowsIt) {
  is_older_[0] = true;
  TUNEFARM_CHECK_OK(Boot(0));
  RunFor(std::chrono::seconds(2));
  agent_works_ = false;
  const std::string name = Submit(0);
  RunFor(std::chrono::seconds(10));
  EXPECT_EQ(DriverOf(1), "");
  EXPECT_LE(nodes_[0].calls["YieldJob"], 2) << "it is adopted again and again";
  EXPECT_EQ(StateOf(name, 0), tunefarm::v1::JOB_STATE_QUEUED);
  EXPECT_EQ(service(0).GetJob(name)->state_reason(),
            "only newer daemons drive it: the field 1000 of the job is not known here");
  TUNEFARM_CHECK_OK(Boot(1));
  agents_node_ = 1;
  agent_works_ = true;
  ASSERT_TRUE(RunUntil([&] { return Ended(name, 1); }));
  EXPECT_EQ(StateOf(name, 0), tunefarm::v1::JOB_STATE_SUCCEEDED);
}

TEST_F(NodeTest, ANewerJobCanBeCancelledByAnyNode) {
  is_older_[0] = true;
  TUNEFARM_CHECK_OK(Boot(0));
  RunFor(std::chrono::seconds(2));
  const std::string name = Submit(0);
  RunFor(std::chrono::seconds(10));
  ASSERT_TRUE(service(0).Cancel(name).ok());
  EXPECT_TRUE(RunUntil([&] { return StateOf(name, 0) == tunefarm::v1::JOB_STATE_CANCELLED; }));
}

TEST_F(NodeTest, AloneADaemonLeavesANewerJobAsItIs) {
  TUNEFARM_CHECK_OK(Boot(0, true));
  agent_works_ = false;
  const std::string name = Submit(0);
  RunFor(std::chrono::seconds(1));
  service(0).Stop();
  Kill(0);
  is_older_[0] = true;
  TUNEFARM_CHECK_OK(Boot(0, true));
  agent_works_ = true;
  RunFor(std::chrono::seconds(10));
  EXPECT_NE(StateOf(name, 0), tunefarm::v1::JOB_STATE_FAILED);
  EXPECT_FALSE(Ended(name, 0));
  service(0).Stop();
  Kill(0);
  is_older_[0] = false;
  TUNEFARM_CHECK_OK(Boot(0, true));
  EXPECT_TRUE(RunUntil([&] { return Ended(name, 0); }));
}

TEST_F(NodeTest, WhoStoodStillTooLongDropsItsJobsAndFailsNone) {
  BootBoth();
  agent_works_ = false;
  const std::string name = Submit(0);
  RunFor(std::chrono::seconds(1));
  const std::string before = DriverOf(1);
  const int driver = before[1] - '0';
  nodes_[driver].stands_still = true;
  ASSERT_TRUE(RunUntil([&] { return DriverOf(1) != before; }, std::chrono::seconds(20)));
  nodes_[driver].stands_still = false;
  agents_node_ = driver;
  agent_works_ = true;
  ASSERT_TRUE(RunUntil([&] { return Ended(name, driver); }));
  EXPECT_EQ(StateOf(name, driver), tunefarm::v1::JOB_STATE_SUCCEEDED);
}

TEST_F(NodeTest, OrdersThroughAnotherReachTheDriverAndItsAgents) {
  BootBoth();
  agent_pace_ = 20;
  for (int asked : {0, 1}) {
    const std::string name = Submit(0);
    RunFor(std::chrono::milliseconds(300));
    ASSERT_TRUE(service(asked).Pause(name).ok());
    RunFor(std::chrono::seconds(3));
    EXPECT_EQ(StateOf(name, 0), tunefarm::v1::JOB_STATE_PAUSED);
    EXPECT_EQ(StateOf(name, 1), tunefarm::v1::JOB_STATE_PAUSED);
    const int64_t stored = store_->Status()->stored_trials;
    RunFor(std::chrono::seconds(3));
    EXPECT_EQ(store_->Status()->stored_trials, stored) << "it stands still";
    ASSERT_TRUE(service(asked).Resume(name).ok());
    RunFor(std::chrono::milliseconds(500));
    ASSERT_TRUE(service(asked).Cancel(name).ok());
    ASSERT_TRUE(RunUntil([&] { return Ended(name, 0) && Ended(name, 1); }, std::chrono::seconds(20)));
    EXPECT_EQ(StateOf(name, asked), tunefarm::v1::JOB_STATE_CANCELLED);
  }
}

// Found by the simulation: the node that stood still told of the job as it remembered it.
TEST_F(NodeTest, WhoStoodStillAnswersFromTheStore) {
  BootBoth();
  agent_works_ = false;
  const std::string name = Submit(0);
  RunFor(std::chrono::seconds(1));
  const std::string before = DriverOf(1);
  const int driver = before[1] - '0';
  nodes_[driver].stands_still = true;
  ASSERT_TRUE(RunUntil([&] { return DriverOf(1) != before; }, std::chrono::seconds(20)));
  ASSERT_TRUE(service(1 - driver).Cancel(name).ok());
  ASSERT_TRUE(RunUntil([&] { return Ended(name, 1 - driver); }));
  EXPECT_EQ(StateOf(name, driver), tunefarm::v1::JOB_STATE_CANCELLED);
}

// Found by the simulation: only the end was told, and not what it was.
TEST_F(NodeTest, AWatcherOfAJobThatNeverRanIsToldHowItEnded) {
  BootBoth();
  agent_works_ = false;
  const std::string name = Submit(0);
  RunFor(std::chrono::seconds(1));
  ASSERT_TRUE(service(0).Pause(name).ok());
  const int driver = DriverOf(1)[1] - '0';
  service(driver).Stop();
  Kill(driver);
  RunFor(std::chrono::seconds(3));
  JobService& other = service(1 - driver);
  tunefarm::v1::JobState told = tunefarm::v1::JOB_STATE_UNSPECIFIED;
  bool has_ended = false;
  const auto watch = other.Watch(
      name, 0, [&](const tunefarm::v1::JobEvent& event) { told = event.has_job() ? event.job().state() : told; },
      [&](absl::Status status) { has_ended = status.ok(); });
  ASSERT_TRUE(watch.ok());
  RunFor(std::chrono::seconds(1));
  EXPECT_EQ(told, tunefarm::v1::JOB_STATE_PAUSED);
  ASSERT_TRUE(other.Cancel(name).ok());
  ASSERT_TRUE(RunUntil([&] { return has_ended; }));
  EXPECT_EQ(told, tunefarm::v1::JOB_STATE_CANCELLED);
}

// Found by the simulation: the slower config took the other's place.
TEST_F(NodeTest, OfTwoFinalsAtOnceTheLaterIsComparedWithTheEarlier) {
  ManualExecutor executor(&clock_);
  MissTable misses;
  Catalog catalogs[2];
  for (Catalog& catalog : catalogs) ASSERT_TRUE(catalog.Load(store_.get()).ok());
  const auto watch = std::make_shared<CatalogWatch>(&executor, &catalogs[0], 1);
  BestChanges first(store_.get(), &catalogs[0], &misses, watch.get(), &clock_, true);
  BestChanges second(store_.get(), &catalogs[1], &misses, watch.get(), &clock_, true);
  BestRow row;
  row.kernel_name = "scale";
  row.kernel_id = "k";
  row.program_digest = "p";
  row.problem_key = "N=1";
  row.class_id = "class";
  row.config = "A=1";
  row.median_ns = 10;
  row.job_id = row.study_id = 1;
  row.compared_with = 0;
  ASSERT_TRUE(first.Promote(row).ok());
  row.config = "A=2";
  row.median_ns = 20;
  row.job_id = row.study_id = 2;
  const auto late = second.Promote(row);
  EXPECT_EQ(ReasonOf(late.status()), "BEST_CHANGED") << late.status();
  const auto best = catalogs[1].Find("p", "N=1", "class");
  ASSERT_NE(best, nullptr) << "it knows now what to compare with";
  row.compared_with = best->revision();
  EXPECT_TRUE(second.Promote(row).ok());
}

TEST_F(NodeTest, TheCatalogOfEachHasWhatEitherChanged) {
  BootBoth();
  const std::string name = Submit(0);
  ASSERT_TRUE(RunUntil([&] { return Ended(name, 0); }));
  RunFor(std::chrono::seconds(2));
  ASSERT_EQ(Lookup(0).match(), tunefarm::v1::MATCH_EXACT);
  ASSERT_EQ(Lookup(1).match(), tunefarm::v1::MATCH_EXACT);
  EXPECT_EQ(Lookup(0).best().revision(), Lookup(1).best().revision());
  EXPECT_EQ(Lookup(0).best().ordinal(), Lookup(1).best().ordinal());
  tunefarm::v1::PinBestConfigRequest pin;
  pin.mutable_key()->set_program_digest(Lookup(0).best().program_digest());
  pin.mutable_key()->set_problem_key(Lookup(0).best().problem().key());
  pin.mutable_key()->set_device_class_id(Lookup(0).best().device_class_id());
  ASSERT_TRUE(service(1).PinBest(pin).ok());
  EXPECT_TRUE(Lookup(1).best().pinned());
  RunFor(std::chrono::seconds(2));
  EXPECT_TRUE(Lookup(0).best().pinned());
  tunefarm::v1::RetireBestConfigRequest retire;
  *retire.mutable_key() = pin.key();
  ASSERT_TRUE(service(0).RetireBest(retire).ok());
  RunFor(std::chrono::seconds(2));
  EXPECT_NE(Lookup(1).match(), tunefarm::v1::MATCH_EXACT);
}

TEST_F(NodeTest, KernelsByNameAreTheNewestOfAll) {
  BootBoth();
  ASSERT_TRUE(service(0).CreateKernel(TestKernel(), false).ok());
  const auto first = service(1).GetKernel("scale", false);
  ASSERT_TRUE(first.ok());
  RunFor(std::chrono::seconds(1));
  ASSERT_TRUE(service(0).CreateKernel(TestKernel(true), false).ok());
  RunFor(std::chrono::seconds(2));
  EXPECT_NE(service(1).GetKernel("scale", false)->name(), first->name());
}

TEST_F(NodeTest, MissesOfAllAddUp) {
  BootBoth();
  ASSERT_TRUE(service(0).CreateKernel(TestKernel(), false).ok());
  for (int i = 0; i < 3; ++i) Lookup(0);
  for (int i = 0; i < 4; ++i) Lookup(1);
  ASSERT_TRUE(service(0).WriteMisses().ok());
  ASSERT_TRUE(service(1).WriteMisses().ok());
  ASSERT_TRUE(service(1).WriteMisses().ok());
  Lookup(0);
  for (int i = 0; i < 2; ++i) {
    const auto misses = service(i).ListMisses({});
    ASSERT_TRUE(misses.ok());
    ASSERT_EQ(misses->misses_size(), 1);
    EXPECT_EQ(misses->misses(0).count(), i == 0 ? 8 : 8);
  }
  ASSERT_TRUE(service(1).DeleteMisses({}).ok());
  EXPECT_EQ(service(0).ListMisses({})->misses_size(), 0);
}

TEST_F(NodeTest, LookUpsAreAnsweredWithTheirAgeWhileTheDatabaseIsAway) {
  BootBoth();
  const std::string name = Submit(0);
  ASSERT_TRUE(RunUntil([&] { return Ended(name, 0); }));
  RunFor(std::chrono::seconds(2));
  EXPECT_LT(Lookup(1).catalog_age_ms(), 2000);
  nodes_[1].store_is_away = true;
  RunFor(std::chrono::seconds(30));
  EXPECT_EQ(Lookup(1).match(), tunefarm::v1::MATCH_EXACT);
  EXPECT_GE(Lookup(1).catalog_age_ms(), 29'000);
  const auto stats = service(1).Stats();
  ASSERT_TRUE(stats.ok());
  EXPECT_NE(stats->database_away, "");
  nodes_[1].store_is_away = false;
  RunFor(std::chrono::seconds(3));
  EXPECT_LT(Lookup(1).catalog_age_ms(), 2000);
  EXPECT_EQ(service(1).Stats()->database_away, "");
}

TEST_F(NodeTest, StartsFromItsCopyWhileTheDatabaseIsAway) {
  BootBoth();
  const std::string name = Submit(0);
  ASSERT_TRUE(RunUntil([&] { return Ended(name, 0); }));
  RunFor(kLease);
  ASSERT_EQ(Lookup(1).match(), tunefarm::v1::MATCH_EXACT);
  RunFor(kLease);
  Kill(1);
  RunFor(std::chrono::seconds(10));
  ASSERT_TRUE(Boot(1, false, true).ok());
  EXPECT_EQ(Lookup(1).match(), tunefarm::v1::MATCH_EXACT);
  EXPECT_GE(Lookup(1).catalog_age_ms(), 10'000);
  EXPECT_NE(service(1).Stats()->database_away, "");
  nodes_[1].store_is_away = false;
  RunFor(std::chrono::seconds(5));
  EXPECT_LT(Lookup(1).catalog_age_ms(), 2000);
  agents_node_ = 1;
  const std::string next = Submit(1);
  EXPECT_TRUE(RunUntil([&] { return Ended(next, 1); })) << "it does everything again";
  // A damaged copy is none.
  Kill(1);
  std::ofstream(directory_.File("copy-1"), std::ios::app) << "x";
  EXPECT_EQ(Boot(1, false, true).code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace tunefarm
