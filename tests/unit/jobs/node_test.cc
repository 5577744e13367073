// Two control daemons on one store: what one leaves, the other takes up.
#include "server/nodes/node.h"

#include <chrono>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/status.h"
#include "server/store/lease_store.h"
#include "server/store/store.h"
#include "server/store/store_maintenance.h"
#include "tests/unit/jobs/node_world.h"

namespace tunefarm {
namespace {

using NodeTest = NodeWorld;

class ReplacedStore final : public FaultyStore {
 public:
  using FaultyStore::FaultyStore;
  LeaseStore* leases() override { return &leases_; }
  int64_t Replacements() const override { return replacements_; }

  int64_t replacements_ = 0;
  bool is_found_by_call_ = false;

 private:
  class Leases : public FaultyLeases {
   public:
    Leases(const FaultyStoreState* state, ReplacedStore* store) : FaultyLeases(state, &Store::leases), store_(store) {}

    absl::StatusOr<LeaseRow> TakeLease(const LeaseRequest& request) override {
      if (!store_->is_found_by_call_) return FaultyLeases::TakeLease(request);
      store_->is_found_by_call_ = false;
      ++store_->replacements_;
      return Unavailable("the database was replaced during the call");
    }

   private:
    ReplacedStore* const store_;
  };

  Leases leases_{&state_, this};
};

TEST_F(NodeTest, LivesUnderItsNameWhileItsLeaseRunsAndUnderAnotherAfterwards) {
  tunefarm::Node node(store_.get(), &clock_, {"a", "here", kNodeLease});
  EXPECT_EQ(node.Name(), "") << "before it has the lease";
  ASSERT_TRUE(node.Renew().ok());
  EXPECT_EQ(node.Name(), "a");
  EXPECT_THAT(store_->leases()->ListLeases("node/")->at(0).detail, testing::StartsWith("here"));
  clock_.Advance(kNodeLease / 3);
  ASSERT_TRUE(node.Renew().ok());
  clock_.Advance(kNodeLease * 5 / 6);
  EXPECT_EQ(node.Name(), "") << "others may take over in a moment";
  ASSERT_TRUE(node.Renew().ok());
  EXPECT_EQ(node.Name(), "a.2");
  ASSERT_EQ(store_->leases()->ListLeases("node/")->size(), 1) << "the old one was given back";
  node.Leave();
  EXPECT_EQ(node.Name(), "");
  EXPECT_TRUE(store_->leases()->ListLeases("node/")->empty());
  EXPECT_FALSE(node.Renew().ok());
}

TEST_F(NodeTest, IsAnotherOneInADatabaseThatHasForgottenItsLastRenewal) {
  // The row of a lease as an hour ago: or none.
  const auto put_back = [&](const std::string& name, const std::string& detail) {
    ASSERT_TRUE(store_->leases()->TakeLease({"node/" + name, name, detail, 60'000}).ok());
  };
  tunefarm::Node node(store_.get(), &clock_, {"a", "here", kNodeLease});
  ASSERT_TRUE(node.Renew().ok());
  const std::string early = store_->leases()->ListLeases("node/")->at(0).detail;
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
  clock_.Advance(kNodeLease);
  put_back("a.2", "");
  ASSERT_TRUE(node.Renew().ok());
  EXPECT_EQ(node.Name(), "a.3");
  EXPECT_EQ(node.replacements(), 2);
  clock_.Advance(kNodeLease);
  ASSERT_TRUE(node.Renew().ok());
  EXPECT_EQ(node.replacements(), 2) << "late is not put back";
  EXPECT_EQ(node.Name(), "a.4");
}

// Found by CI: the database was put back to what it was since the last renewal, and so had its mark.
TEST_F(NodeTest, DrivesNothingOnceTheStoreWasReplacedUntilItIsAnotherOne) {
  ReplacedStore store(store_.get());
  tunefarm::Node node(&store, &clock_, {"a", "here", kNodeLease});
  ASSERT_TRUE(node.Renew().ok());
  ++store.replacements_;
  EXPECT_EQ(node.Name(), "");
  EXPECT_EQ(node.replacements(), 0) << "those who ask have a name that they know nothing under";
  ASSERT_TRUE(node.Renew().ok());
  EXPECT_EQ(node.Name(), "a.2");
  EXPECT_EQ(node.replacements(), 1);
  ASSERT_EQ(store_->leases()->ListLeases("node/")->size(), 1) << "the old one was given back";
  store.is_found_by_call_ = true;
  ASSERT_TRUE(node.Renew().ok());
  EXPECT_EQ(node.Name(), "a.3");
  EXPECT_EQ(node.replacements(), 2);
  ASSERT_TRUE(node.Renew().ok());
  EXPECT_EQ(node.Name(), "a.3");
  EXPECT_EQ(node.replacements(), 2);
}

TEST_F(NodeTest, APermanentOnePollsForNothing) {
  ASSERT_TRUE(Boot(0, true).ok());
  const std::string name = Submit(0);
  ASSERT_TRUE(RunUntil([&] { return Ended(name, 0); }));
  agent_works_ = false;
  const std::map<std::string, int> before = nodes_[0].calls;
  RunFor(std::chrono::minutes(1));
  EXPECT_EQ(nodes_[0].calls, before);
  EXPECT_EQ(Lookup(0).catalog_age_ms(), 0);
}

// Killed without a word: its lease would go on for ever.
TEST_F(NodeTest, APermanentOneAdoptsBeforeItServesWhatItsEarlierProcessDrove) {
  ASSERT_TRUE(Boot(0, true).ok());
  agent_works_ = false;
  const std::string name = Submit(0);
  RunFor(std::chrono::seconds(1));
  const std::string before = DriverOf(1);
  Kill(0);
  ASSERT_TRUE(Boot(0, true).ok());
  EXPECT_NE(DriverOf(1), before);
  agent_works_ = true;
  EXPECT_TRUE(RunUntil([&] { return Ended(name, 0); }));
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
  RunFor(kNodeLease / 3);
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
    const int64_t stored = store_->maintenance()->Status()->stored_trials;
    RunFor(std::chrono::seconds(3));
    EXPECT_EQ(store_->maintenance()->Status()->stored_trials, stored) << "it stands still";
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
  TestService& other = service(1 - driver);
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

}  // namespace
}  // namespace tunefarm
