// The agent's way to control daemons, over channels that only play, on a fake clock.
#include "server/agent/remote_link.h"

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/agent/control_list.h"
#include "server/base/check.h"
#include "server/base/status.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_entropy.h"
#include "tests/fakes/manual_executor.h"
#include "tests/fakes/temporary_directory.h"

namespace tunefarm {
namespace {

namespace wire = tunefarm::agent::v1;
using std::chrono::seconds;

// What all control daemons of a farm share.
struct PlayedFarm {
  std::map<std::string, bool> away;  // by address
  bool store_away = false;
  std::vector<std::string> dialled;
  std::vector<std::string> calls;  // "address method"
  std::vector<wire::ReportTrialsRequest> reports;
  std::vector<wire::SynchronizeRequest> asked;
  std::vector<wire::RegisterRequest> registered;
  std::vector<wire::DeregisterRequest> ended;
  std::vector<wire::Assignment> ready;
  int fetches = 0;
  int gather_ms = 0;
  int64_t epoch = 0;
};

class PlayedChannel : public ControlChannel {
 public:
  PlayedChannel(PlayedFarm* farm, std::string address) : farm_(farm), address_(std::move(address)) {}

  absl::StatusOr<wire::RegisterResponse> Register(const wire::RegisterRequest& request, Duration) override {
    if (const auto status = Reach("Register"); !status.ok()) return status;
    farm_->registered.push_back(request);
    wire::RegisterResponse response;
    response.set_epoch(++farm_->epoch);
    response.set_control("control of " + address_);
    return response;
  }
  absl::StatusOr<wire::SynchronizeResponse> Synchronize(const wire::SynchronizeRequest& request, Duration) override {
    if (const auto status = Reach("Synchronize"); !status.ok()) return status;
    farm_->asked.push_back(request);
    wire::SynchronizeResponse response;
    response.set_gather_ms(farm_->gather_ms);
    response.set_control("control of " + address_);
    for (const auto& demand : request.demands()) {
      for (int i = 0; i < demand.units() && !farm_->ready.empty(); ++i) {
        *response.add_assignments() = farm_->ready.back();
        farm_->ready.pop_back();
      }
    }
    return response;
  }
  absl::StatusOr<wire::WaitResponse> Wait(const wire::WaitRequest&, Duration) override {
    return Cancelled("nobody waits in this test");
  }
  absl::StatusOr<wire::ReportUnitsResponse> ReportUnits(const wire::ReportUnitsRequest& request, Duration) override {
    if (const auto status = Reach("ReportUnits"); !status.ok()) return status;
    wire::ReportUnitsResponse response;
    for (const auto& report : request.reports()) {
      if (farm_->store_away) {
        response.set_stopped_because("the disk is full");
        break;
      }
      farm_->reports.push_back(report);
      response.add_results()->set_verdict(wire::REPORT_VERDICT_ACCEPTED);
    }
    return response;
  }
  absl::StatusOr<wire::FetchKernelResponse> FetchKernel(const wire::FetchKernelRequest& request, Duration) override {
    if (const auto status = Reach("FetchKernel"); !status.ok()) return status;
    ++farm_->fetches;
    wire::FetchKernelResponse response;
    response.set_kernel("kernel " + request.kernel_id());
    return response;
  }
  absl::StatusOr<wire::FetchArtifactResponse> FetchArtifact(const wire::FetchArtifactRequest&, Duration) override {
    return Unimplemented("none");
  }
  absl::StatusOr<wire::DeregisterResponse> Deregister(const wire::DeregisterRequest& request, Duration) override {
    if (const auto status = Reach("Deregister"); !status.ok()) return status;
    farm_->ended.push_back(request);
    return wire::DeregisterResponse();
  }
  void Cancel() override {}

 private:
  absl::Status Reach(const std::string& method) {
    farm_->calls.push_back(address_ + " " + method);
    if (farm_->away[address_]) return Unavailable("connection refused");
    return absl::OkStatus();
  }

  PlayedFarm* const farm_;
  const std::string address_;
};

class RemoteLinkTest : public testing::Test {
 protected:
  RemoteLinkTest() { Start({"a:1", "b:1"}); }

  void Start(std::vector<std::string> addresses, uint64_t spool_bytes_max = 1 << 20) {
    link_ = nullptr;
    spool_ = nullptr;
    controls_ = std::make_unique<ControlList>(
        [this](const std::string& address) {
          farm_.dialled.push_back(address);
          return std::make_shared<PlayedChannel>(&farm_, address);
        },
        std::move(addresses), &clock_, &entropy_);
    auto spool = ReportSpool::Open(directory_.File("spool"), spool_bytes_max);
    TUNEFARM_CHECK_OK(spool);
    spool_ = *std::move(spool);
    link_ = std::make_unique<RemoteLink>(RemoteLinkOptions{controls_.get(), spool_.get(), &calls_, &reports_, &waits_});
    link_->SetWake([this] { ++wakes_; });
  }

  void Register(const std::string& agent_id = "agent") {
    wire::RegisterRequest request;
    request.set_agent_id(agent_id);
    const auto response = link_->Register(request);
    ASSERT_TRUE(response.ok()) << response.status();
    request_.set_agent_id(agent_id);
    request_.set_epoch(response->epoch());
  }

  // Everything that is ready; the waits are left alone.
  void Run() {
    while (calls_.RunOne() || reports_.RunOne()) continue;
  }
  void RunFor(Duration time) {
    const MonotonicTime end = clock_.Now() + time;
    Run();
    while (true) {
      std::optional<MonotonicTime> due = calls_.NextDue();
      if (const auto other = reports_.NextDue(); other.has_value() && (!due.has_value() || *other < *due)) due = other;
      if (!due.has_value() || *due > end) break;
      clock_.AdvanceTo(*due);
      Run();
    }
    clock_.AdvanceTo(end);
  }

  void Report(int64_t unit_id, int64_t ordinal, bool done = false) {
    wire::ReportTrialsRequest report;
    report.set_agent_id(request_.agent_id());
    report.set_epoch(request_.epoch());
    report.set_unit_id(unit_id);
    report.set_token(7);
    auto* trial = report.add_trials();
    trial->set_ordinal(ordinal);
    trial->set_device_uuid("GPU-1");
    report.set_unit_done(done);
    const auto response = link_->ReportTrials(report);
    ASSERT_TRUE(response.ok()) << response.status();
    EXPECT_EQ(response->verdict(), wire::REPORT_VERDICT_ACCEPTED);
  }

  std::vector<int64_t> Ordinals() const {
    std::vector<int64_t> ordinals;
    for (const auto& report : farm_.reports) {
      for (const auto& trial : report.trials()) ordinals.push_back(trial.ordinal());
    }
    return ordinals;
  }

  wire::SynchronizeRequest Demand(int units) {
    wire::SynchronizeRequest request = request_;
    request.add_demands()->set_device_uuid("GPU-1");
    request.mutable_demands(0)->set_units(units);
    return request;
  }

  FakeClock clock_;
  FakeEntropy entropy_;
  TemporaryDirectory directory_;
  PlayedFarm farm_;
  ManualExecutor calls_{&clock_}, reports_{&clock_}, waits_{&clock_};
  std::unique_ptr<ControlList> controls_;
  std::unique_ptr<ReportSpool> spool_;
  std::unique_ptr<RemoteLink> link_;
  wire::SynchronizeRequest request_;
  int wakes_ = 0;
};

TEST_F(RemoteLinkTest, AnswersComeWithTheNextSynchronize) {
  Register();
  wire::Assignment assignment;
  assignment.set_unit_id(1);
  assignment.set_kernel_id("kernels/k");
  farm_.ready.push_back(assignment);
  auto first = link_->Synchronize(Demand(2));
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->assignments_size(), 0);  // at once
  Run();
  EXPECT_EQ(wakes_, 1);
  EXPECT_EQ(farm_.fetches, 1);
  auto second = link_->Synchronize(Demand(2));
  ASSERT_EQ(second->assignments_size(), 1);
  Run();
  // The request that took the answer did not list it, and was not sent.
  EXPECT_EQ(farm_.asked.size(), 1);
  // The kernel is there without another question.
  wire::FetchKernelRequest fetch;
  fetch.set_kernel_id("kernels/k");
  EXPECT_EQ(link_->FetchKernel(fetch)->kernel(), "kernel kernels/k");
  EXPECT_EQ(farm_.fetches, 1);
}

TEST_F(RemoteLinkTest, AnEmptyAnswerWakesNobodyAndTheLatestQuestionIsAsked) {
  Register();
  link_->Synchronize(Demand(1)).status().IgnoreError();
  link_->Synchronize(Demand(2)).status().IgnoreError();
  link_->Synchronize(Demand(3)).status().IgnoreError();
  Run();
  EXPECT_EQ(wakes_, 0);
  ASSERT_EQ(farm_.asked.size(), 1);  // the one that was not sent yet was replaced
  EXPECT_EQ(farm_.asked[0].demands(0).units(), 3);
}

TEST_F(RemoteLinkTest, UnitsWhoseReportsAreOnTheirWayAreInHand) {
  Register();
  Report(5, 1, true);
  link_->Synchronize(request_).status().IgnoreError();
  calls_.RunUntilIdle();
  ASSERT_EQ(farm_.asked.size(), 1);
  ASSERT_EQ(farm_.asked[0].units_size(), 1);
  EXPECT_EQ(farm_.asked[0].units(0).unit_id(), 5);
  EXPECT_EQ(farm_.asked[0].units(0).token(), 7);
  EXPECT_EQ(farm_.asked[0].units(0).device_uuid(), "GPU-1");
  Run();
  link_->Synchronize(Demand(1)).status().IgnoreError();
  Run();
  ASSERT_EQ(farm_.asked.size(), 2);
  EXPECT_EQ(farm_.asked[1].units_size(), 0);
}

TEST_F(RemoteLinkTest, ManyReportsGoInOneCallAndInTheirOrder) {
  Register();
  for (int i = 0; i < 100; ++i) Report(i, i);
  farm_.calls.clear();
  Run();
  EXPECT_EQ(farm_.calls.size(), 2);  // 64 and 36
  std::vector<int64_t> expected(100);
  for (int i = 0; i < 100; ++i) expected[static_cast<size_t>(i)] = i;
  EXPECT_EQ(Ordinals(), expected);
  EXPECT_EQ(link_->counts().reports_sent, 100);
}

// In a large farm: longer, and an agent that wants more work sends nothing before its time as long as it gets some.
TEST_F(RemoteLinkTest, ResultsAreGatheredAsLongAsControlSays) {
  farm_.gather_ms = 4000;
  Register();
  link_->Synchronize(request_).status().IgnoreError();
  Run();
  wire::UnitInHand* unit = request_.add_units();
  unit->set_unit_id(1);
  wire::DeviceDemand* demand = request_.add_demands();
  demand->set_device_uuid("GPU-1");
  demand->set_units(1);
  farm_.ready.resize(1);
  farm_.ready[0].set_unit_id(7);
  farm_.calls.clear();
  Report(1, 10);
  RunFor(std::chrono::milliseconds(1500));
  link_->Synchronize(request_).status().IgnoreError();
  RunFor(std::chrono::milliseconds(2400));
  EXPECT_TRUE(farm_.reports.empty());
  Report(1, 11);
  RunFor(std::chrono::milliseconds(200));
  EXPECT_EQ(Ordinals(), (std::vector<int64_t>{10, 11}));
  // One that gets none may be who control waits for.
  Report(1, 12);
  RunFor(std::chrono::milliseconds(2100));
  link_->Synchronize(request_).status().IgnoreError();  // brings unit 7
  link_->Synchronize(request_).status().IgnoreError();
  Run();
  EXPECT_EQ(Ordinals().size(), 2);
  link_->Synchronize(request_).status().IgnoreError();
  Run();
  EXPECT_EQ(Ordinals(), (std::vector<int64_t>{10, 11, 12}));
}

TEST_F(RemoteLinkTest, ResultsAreGatheredByUnitForASecond) {
  Register();
  farm_.calls.clear();
  Report(1, 10);
  Report(2, 20);
  Report(1, 11);
  RunFor(std::chrono::milliseconds(990));
  EXPECT_TRUE(farm_.calls.empty());
  Report(1, 12, true);
  RunFor(std::chrono::milliseconds(20));
  EXPECT_EQ(farm_.calls.size(), 1);
  ASSERT_EQ(farm_.reports.size(), 2);
  EXPECT_EQ(farm_.reports[0].unit_id(), 1);
  EXPECT_TRUE(farm_.reports[0].unit_done());
  EXPECT_EQ(Ordinals(), (std::vector<int64_t>{10, 11, 12, 20}));
  EXPECT_EQ(link_->counts().reports_sent, 4);
  // What comes afterwards waits for a second of its own, and nothing is left of those before.
  Report(2, 21, true);
  RunFor(std::chrono::milliseconds(990));
  EXPECT_EQ(farm_.calls.size(), 1);
  RunFor(std::chrono::milliseconds(20));
  EXPECT_EQ(Ordinals().back(), 21);
  link_->Synchronize(request_).status().IgnoreError();
  Run();
  EXPECT_EQ(farm_.asked.back().units_size(), 0);
}

TEST_F(RemoteLinkTest, AUnitsWorthOfResultsIsSentAtOnce) {
  Register();
  for (int i = 0; i < 64; ++i) Report(1, i, i == 63);
  Run();
  ASSERT_EQ(farm_.reports.size(), 1);
  EXPECT_EQ(farm_.reports[0].trials_size(), 64);
}

TEST_F(RemoteLinkTest, NoReportHasMoreTrialsThanControlTakes) {
  Register();
  for (int i = 0; i < 100; ++i) Report(1, i);
  Run();
  ASSERT_EQ(farm_.reports.size(), 2);
  EXPECT_EQ(farm_.reports[0].trials_size(), 64);
  EXPECT_EQ(farm_.reports[1].trials_size(), 36);
}

TEST_F(RemoteLinkTest, WhoeverAsksForWorkOrHasNoneReportsFirst) {
  Register();
  wire::SynchronizeRequest busy = request_;
  busy.add_units()->set_unit_id(1);
  Report(1, 1);
  link_->Synchronize(busy).status().IgnoreError();
  Run();
  EXPECT_TRUE(farm_.reports.empty());
  auto* const demand = busy.add_demands();
  demand->set_device_uuid("GPU-1");
  demand->set_units(1);
  link_->Synchronize(busy).status().IgnoreError();
  Run();
  EXPECT_EQ(Ordinals(), std::vector<int64_t>{1});
  Report(1, 2, true);
  link_->Synchronize(request_).status().IgnoreError();
  Run();
  EXPECT_EQ(Ordinals(), (std::vector<int64_t>{1, 2}));
}

TEST_F(RemoteLinkTest, SamplesThatControlDoesNotKeepStayHere) {
  Register();
  wire::ReportTrialsRequest report;
  report.set_agent_id("agent");
  report.set_unit_id(1);
  for (const auto purpose : {tunefarm::v1::TRIAL_PURPOSE_SEARCH, tunefarm::v1::TRIAL_PURPOSE_FINALIST}) {
    for (const auto outcome : {tunefarm::v1::OUTCOME_OK, tunefarm::v1::OUTCOME_NOISY}) {
      auto* trial = report.add_trials();
      trial->set_purpose(purpose);
      trial->set_outcome(outcome);
      trial->mutable_measurement()->set_median_ns(7);
      trial->mutable_measurement()->add_sample_ns(7);
    }
  }
  ASSERT_TRUE(link_->ReportTrials(report).ok());
  RunFor(seconds(1));
  ASSERT_EQ(farm_.reports.size(), 1);
  const auto& sent = farm_.reports[0].trials();
  EXPECT_EQ(sent[0].measurement().median_ns(), 7);
  EXPECT_EQ(sent[0].measurement().sample_ns_size(), 0);
  for (int i = 1; i < 4; ++i) EXPECT_EQ(sent[i].measurement().sample_ns_size(), 1) << i;
}

TEST_F(RemoteLinkTest, WhatSaysNothingNewIsSaidAsOftenAsTheLeaseNeedsIt) {
  Register();
  wire::SynchronizeRequest busy = request_;
  busy.add_units()->set_unit_id(1);
  for (int i = 0; i < 10; ++i) {
    link_->Synchronize(busy).status().IgnoreError();
    RunFor(std::chrono::milliseconds(1000));
  }
  EXPECT_EQ(farm_.asked.size(), 2);
  busy.add_units()->set_unit_id(2);
  link_->Synchronize(busy).status().IgnoreError();
  Run();
  EXPECT_EQ(farm_.asked.size(), 3);
}

TEST_F(RemoteLinkTest, GoesToTheNextControlWhenOneIsAway) {
  Register();
  const std::string first = controls_->address();
  const std::string second = first == "a:1" ? "b:1" : "a:1";
  farm_.away[first] = true;
  link_->Synchronize(Demand(1)).status().IgnoreError();
  Report(1, 1);
  RunFor(seconds(1));
  EXPECT_EQ(controls_->address(), second);
  EXPECT_EQ(Ordinals(), std::vector<int64_t>{1});
  ASSERT_FALSE(farm_.asked.empty());
  // The other is told who answered before, and so reads from the store what the agent holds.
  EXPECT_EQ(farm_.asked[0].control(), "control of " + first);
  link_->Synchronize(Demand(1)).status().IgnoreError();
  Run();
  EXPECT_EQ(farm_.asked.back().control(), "control of " + second);
  EXPECT_EQ(farm_.registered.size(), 1);  // with the same identity
}

TEST_F(RemoteLinkTest, WhenAllAreAwayTheyAreAskedSeldom) {
  Register();
  farm_.away = {{"a:1", true}, {"b:1", true}};
  link_->Synchronize(Demand(1)).status().IgnoreError();
  farm_.calls.clear();
  RunFor(std::chrono::minutes(2));
  // Each round asks both; between the rounds are 2.5 to 5 seconds.
  EXPECT_LE(farm_.calls.size(), 130);
  EXPECT_GE(farm_.calls.size(), 40);
  farm_.away.clear();
  farm_.calls.clear();
  RunFor(seconds(6));
  EXPECT_EQ(farm_.asked.size(), 1);
}

TEST_F(RemoteLinkTest, ReportsWaitOnDiskAndAreSentInTheirOrder) {
  Register();
  Report(1, 1);
  RunFor(seconds(1));
  farm_.away = {{"a:1", true}, {"b:1", true}};
  for (int i = 2; i <= 5; ++i) Report(1, i);
  RunFor(seconds(20));
  EXPECT_EQ(farm_.reports.size(), 1);
  EXPECT_GT(link_->counts().bytes_in_spool, 0);
  Report(1, 6, true);
  farm_.away.clear();
  RunFor(seconds(10));
  EXPECT_EQ(Ordinals(), (std::vector<int64_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(link_->counts().bytes_in_spool, 0);
  EXPECT_TRUE(farm_.reports.back().unit_done());
}

TEST_F(RemoteLinkTest, TheNextProcessSendsWhatWasLeftUnderTheOldIdentity) {
  Register("old");
  farm_.away = {{"a:1", true}, {"b:1", true}};
  for (int i = 1; i <= 3; ++i) Report(1, i);
  RunFor(seconds(5));
  farm_.away.clear();
  calls_.RunUntilIdle();
  Start({"a:1"});  // the process was killed
  Register("new");
  EXPECT_EQ(Ordinals(), (std::vector<int64_t>{1, 2, 3}));
  for (const auto& report : farm_.reports) EXPECT_EQ(report.agent_id(), "old");
  ASSERT_EQ(farm_.registered.size(), 2);
  EXPECT_EQ(farm_.registered[0].replaces_agent_id(), "");
  EXPECT_EQ(farm_.registered[1].agent_id(), "new");
  EXPECT_EQ(farm_.registered[1].replaces_agent_id(), "old");
}

TEST_F(RemoteLinkTest, WhatControlCannotStoreNowIsSentAgain) {
  Register();
  farm_.store_away = true;
  Report(1, 1);
  RunFor(seconds(3));
  EXPECT_TRUE(farm_.reports.empty());
  farm_.store_away = false;
  RunFor(seconds(3));
  EXPECT_EQ(Ordinals(), std::vector<int64_t>{1});
}

TEST_F(RemoteLinkTest, AFullSpoolStopsTheAgent) {
  Start({"a:1"}, 600);
  Register();
  farm_.away["a:1"] = true;
  link_->Synchronize(Demand(1)).status().IgnoreError();
  int taken = 0;
  for (; taken < 1000; ++taken) {
    wire::ReportTrialsRequest report;
    report.set_agent_id("agent");
    report.set_unit_id(taken);
    report.add_trials()->set_message(std::string(100, 'x'));
    if (!link_->ReportTrials(report).ok()) break;
    RunFor(seconds(6));
  }
  EXPECT_GE(taken, 3);
  EXPECT_LE(taken, 6);
  farm_.away.clear();
  RunFor(seconds(20));
  EXPECT_EQ(farm_.reports.size(), static_cast<size_t>(taken));
  EXPECT_TRUE(link_->ReportTrials(wire::ReportTrialsRequest()).ok());
}

TEST_F(RemoteLinkTest, ChangedDevicesAreToldUntilControlHasAnswered) {
  Register();
  farm_.away = {{"a:1", true}, {"b:1", true}};
  wire::SynchronizeRequest request = request_;
  request.add_changed_devices()->set_uuid("GPU-1");
  link_->Synchronize(request).status().IgnoreError();
  RunFor(seconds(1));
  link_->Synchronize(request_).status().IgnoreError();  // says it once only
  farm_.away.clear();
  RunFor(seconds(10));
  ASSERT_FALSE(farm_.asked.empty());
  ASSERT_EQ(farm_.asked[0].changed_devices_size(), 1);
  link_->Synchronize(request_).status().IgnoreError();
  Run();
  EXPECT_EQ(farm_.asked.back().changed_devices_size(), 0);
}

}  // namespace
}  // namespace tunefarm
