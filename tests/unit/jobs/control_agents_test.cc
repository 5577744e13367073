// Agents on other machines, from control's side: leases on a fake clock, take-over after a restart or from another
// control, wakes, devices. The agents are played call by call; store and services are real.
#include "tests/unit/jobs/control_agents.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/base/status.h"
#include "server/farm/agent_wakes.h"
#include "server/records/resource_names.h"
#include "server/store/store_maintenance.h"
#include "server/store/unit_store.h"
#include "tests/fakes/faulty_store.h"
#include "tests/unit/jobs/farm.h"

namespace tunefarm {
namespace {

namespace wire = tunefarm::agent::v1;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

TEST_F(ControlAgentsTest, RegistersAndGetsWork) {
  const auto registered = Register("one", "CPU-1");
  ASSERT_TRUE(registered.ok()) << registered.status();
  EXPECT_EQ(registered->lease_ms(), 30'000);
  Submit();
  const auto response = Ask("one", "CPU-1");
  ASSERT_EQ(response.assignments_size(), 1);
  EXPECT_EQ(Report("one", response.assignments(0)), wire::REPORT_VERDICT_ACCEPTED);
  const auto devices = control_->service->devices().List();
  ASSERT_EQ(devices.size(), 1);
  EXPECT_EQ(devices[0].agent(), "name of one");
  EXPECT_EQ(devices[0].host(), "host");
}

TEST_F(ControlAgentsTest, UnitsThatBringTheTrialsAskedForAreEnough) {
  ASSERT_TRUE(Register("first", "HOST-1").ok());
  Submit();
  wire::SynchronizeRequest request = Request("first", "HOST-1", 8);
  request.mutable_demands(0)->set_trials(2);
  const auto response = control_->link().Synchronize(request);
  ASSERT_TRUE(response.ok()) << response.status();
  int trials = 0;
  for (const wire::Assignment& assignment : response->assignments()) {
    EXPECT_LT(trials, 2);
    trials += assignment.trials_size();
  }
  EXPECT_GE(trials, 2);
  // What it was not given is there for others.
  ASSERT_TRUE(Register("second", "HOST-2").ok());
  EXPECT_GT(Ask("second", "HOST-2").assignments_size(), 0);
}

TEST_F(ControlAgentsTest, RefusesWhatItCannotTalkTo) {
  wire::RegisterRequest old = About("one", "CPU-1");
  old.set_protocol(-1);
  // Protocol 0 is an agent in this process.
  EXPECT_TRUE(control_->link().Register(old).ok());
  wire::RegisterRequest nameless = About("two", "CPU-2");
  nameless.clear_display_name();
  EXPECT_EQ(ReasonOf(control_->link().Register(nameless).status()), "AGENT_INVALID");
  wire::RegisterRequest newer = About("three", "CPU-3");
  newer.set_protocol(1000);
  EXPECT_TRUE(control_->link().Register(newer).ok());
}

// Its trials seem to have no headers outside of the definition, whatever their binaries were made of.
TEST_F(ControlAgentsTest, WhatAnAgentOfAnOlderVersionMeasuredIsMeasuredAgain) {
  // Runs a job's search on the agent. Returns how many of its configs the agent was given.
  const auto given = [&](const std::string& id, const std::string& device) {
    job_.Clear();
    const std::string job = Submit();
    int configs = 0;
    for (int turn = 0; turn < 40; ++turn) {
      const wire::SynchronizeResponse response = Ask(id, device, 8);
      for (const wire::Assignment& assignment : response.assignments()) {
        for (const wire::TrialSpec& spec : assignment.trials()) {
          if (JobName(assignment.job_id()) == job && spec.purpose() == tunefarm::v1::TRIAL_PURPOSE_SEARCH) ++configs;
        }
        EXPECT_EQ(Report(id, assignment), wire::REPORT_VERDICT_ACCEPTED);
      }
      RunFor(seconds(1));
    }
    return configs;
  };
  wire::RegisterRequest older = About("older", "CPU-1");
  older.set_protocol(2);
  const auto registered = control_->link().RegisterRemote(older);
  ASSERT_TRUE(registered.ok()) << registered.status();
  epochs_["older"] = registered->epoch();
  const int all = given("older", "CPU-1");
  EXPECT_GT(all, 0);
  ASSERT_TRUE(Register("newer", "CPU-2").ok());
  EXPECT_EQ(given("newer", "CPU-2"), all);
  EXPECT_EQ(given("newer", "CPU-2"), 0);
}

TEST_F(ControlAgentsTest, NumbersThatAreNoneAreNotBelieved) {
  wire::RegisterRequest about = About("one", "CPU-1");
  about.mutable_devices(0)->set_peak_bytes_per_second(std::nan(""));
  EXPECT_EQ(ReasonOf(control_->link().RegisterRemote(about).status()), "AGENT_INVALID");
  about = About("one", "CPU-1");
  about.set_now_ms(std::numeric_limits<int64_t>::min());
  EXPECT_EQ(ReasonOf(control_->link().RegisterRemote(about).status()), "AGENT_INVALID");
  ASSERT_TRUE(Register("one", "CPU-1").ok());
  const std::string job = Submit();
  wire::SynchronizeRequest request = Request("one", "CPU-1", 1);
  *request.add_changed_devices() = About("one", "CPU-1").devices(0);
  request.mutable_changed_devices(0)->set_memory_bytes(-1);
  EXPECT_EQ(ReasonOf(control_->link().Synchronize(request).status()), "AGENT_INVALID");
  const wire::SynchronizeResponse response = Ask("one", "CPU-1");
  ASSERT_EQ(response.assignments_size(), 1);
  wire::ReportTrialsRequest report = ReportOf("one", response.assignments(0));
  report.mutable_trials(0)->mutable_measurement()->set_median_ns(-1);
  const auto reported = control_->link().ReportTrials(report);
  ASSERT_TRUE(reported.ok()) << reported.status();
  EXPECT_EQ(reported->verdict(), wire::REPORT_VERDICT_ACCEPTED);
  const auto trial =
      control_->service->GetTrial(job + "/studies/1/trials/" + std::to_string(report.trials(0).ordinal()));
  ASSERT_TRUE(trial.ok()) << trial.status();
  EXPECT_EQ(trial->outcome(), tunefarm::v1::OUTCOME_LOST);
  EXPECT_THAT(trial->message(), testing::HasSubstr("median_ns = -1"));
  EXPECT_FALSE(trial->has_measurement());
}

TEST_F(ControlAgentsTest, ARestartedControlGoesOnWithItsAgents) {
  ASSERT_TRUE(Register("one", "CPU-1").ok());
  Submit();
  const auto held = Ask("one", "CPU-1");
  ASSERT_EQ(held.assignments_size(), 1);
  Restart();
  EXPECT_EQ(control_->service->devices().List().size(), 1);  // known before it speaks
  // A report before anything else was said.
  EXPECT_EQ(Report("one", held.assignments(0)), wire::REPORT_VERDICT_ACCEPTED);
  EXPECT_EQ(Report("one", held.assignments(0)), wire::REPORT_VERDICT_STALE);  // twice is once
  Restart();
  const auto next = Ask("one", "CPU-1");
  EXPECT_FALSE(next.epoch_expired());
  ASSERT_EQ(next.assignments_size(), 1);
  Restart();
  // A unit in hand stays there.
  wire::SynchronizeRequest request = Request("one", "CPU-1", 0);
  request.set_control("the process before");
  auto* unit = request.add_units();
  unit->set_unit_id(next.assignments(0).unit_id());
  unit->set_token(next.assignments(0).token());
  unit->set_device_uuid("CPU-1");
  auto response = control_->link().Synchronize(request);
  ASSERT_TRUE(response.ok());
  EXPECT_EQ(response->revoked_unit_ids_size(), 0);
  Restart();
  // One whose answer was lost is given again, with the same token.
  const auto again = Ask("one", "CPU-1");
  ASSERT_EQ(again.assignments_size(), 1);
  EXPECT_EQ(again.assignments(0).unit_id(), next.assignments(0).unit_id());
  EXPECT_EQ(again.assignments(0).token(), next.assignments(0).token());
}

// A trial that was handed out before the restart says nothing of how long trials take.
TEST_F(ControlAgentsTest, AJobThatIsTakenUpSaysWhatItWaitsFor) {
  ASSERT_TRUE(Register("one", "CPU-1").ok());
  const std::string job = Submit();
  const auto held = Ask("one", "CPU-1");
  ASSERT_EQ(held.assignments_size(), 1);
  control_->executor.RunUntilIdle();
  Restart();
  control_->executor.RunUntilIdle();
  EXPECT_EQ(Report("one", held.assignments(0)), wire::REPORT_VERDICT_ACCEPTED);
  control_->executor.RunUntilIdle();
  ASSERT_EQ(Ask("one", "CPU-1").assignments_size(), 1);
  RunFor(std::chrono::seconds(11));
  const auto waiting = control_->service->GetJob(job);
  ASSERT_TRUE(waiting.ok()) << waiting.status();
  EXPECT_EQ(waiting->state(), tunefarm::v1::JOB_STATE_RUNNING);
  EXPECT_THAT(waiting->state_reason(), testing::HasSubstr("waiting for the next trial of N=1024 for more than 10.0 s"));
}

TEST_F(ControlAgentsTest, AnAgentGoesToAnotherControlAndBack) {
  ASSERT_TRUE(Register("one", "CPU-1").ok());
  Submit();
  const auto first = Ask("one", "CPU-1");
  ASSERT_EQ(first.assignments_size(), 1);
  // Another daemon of the same store. It drives nothing here.
  Control other(store_.get(), &clock_, &entropy_);
  wire::ReportUnitsRequest batch;
  *batch.add_reports() = ReportOf("one", first.assignments(0));
  auto stored = other.link().ReportUnits(batch);
  ASSERT_TRUE(stored.ok());
  ASSERT_EQ(stored->results_size(), 1);
  EXPECT_EQ(stored->results(0).verdict(), wire::REPORT_VERDICT_ACCEPTED);
  // Back again: what the first one remembers is old, and is not handed out.
  wire::SynchronizeRequest request = Request("one", "CPU-1", 1);
  request.set_control(other.link().control_id());
  auto response = control_->link().Synchronize(request);
  ASSERT_TRUE(response.ok());
  for (const auto& assignment : response->assignments()) {
    EXPECT_NE(assignment.unit_id(), first.assignments(0).unit_id());
  }
  other.service->Stop();
}

// The agent gave up a call that went on: the daemon that it asked has claimed for it, and nobody told it.
TEST_F(ControlAgentsTest, WhatWasClaimedElsewhereAfterTheAgentHadLeftIsHandedOut) {
  control_ = std::make_unique<Control>(store_.get(), &clock_, &entropy_, "a");
  ASSERT_TRUE(Register("one", "CPU-1").ok());
  control_->executor.RunUntilIdle();
  Submit();
  Control other(store_.get(), &clock_, &entropy_, "b");
  wire::SynchronizeRequest request = Request("one", "CPU-1", 0);
  request.set_control(control_->link().control_id());
  ASSERT_TRUE(other.link().Synchronize(request).ok());
  request = Request("one", "CPU-1", 1);
  request.set_control(control_->link().control_id());
  const auto late = control_->link().Synchronize(request);
  ASSERT_TRUE(late.ok()) << late.status();
  ASSERT_EQ(late->assignments_size(), 1);
  // At its next renewal the daemon that it has gone to sees the claim.
  clock_.Advance(seconds(11));
  request.set_control(other.link().control_id());
  const auto response = other.link().Synchronize(request);
  ASSERT_TRUE(response.ok()) << response.status();
  ASSERT_EQ(response->assignments_size(), 1);
  EXPECT_EQ(response->assignments(0).unit_id(), late->assignments(0).unit_id());
  EXPECT_EQ(response->assignments(0).token(), late->assignments(0).token());
  const auto reported = other.link().ReportTrials(ReportOf("one", response->assignments(0)));
  ASSERT_TRUE(reported.ok()) << reported.status();
  EXPECT_EQ(reported->verdict(), wire::REPORT_VERDICT_ACCEPTED);
  other.service->Stop();
}

// The database stored the claim, and its answer was lost.
TEST_F(ControlAgentsTest, WhatWasClaimedWithoutAnAnswerIsHandedOutAlsoInThisProcess) {
  FaultyStore store(store_.get());
  control_ = std::make_unique<Control>(&store, &clock_, &entropy_, "a");
  ASSERT_TRUE(control_->service->SetDevices({HostDevice("CPU-1")}).ok());
  wire::RegisterRequest about = About("one", "CPU-1");
  about.set_protocol(0);
  const auto registered = control_->link().Register(about);
  ASSERT_TRUE(registered.ok()) << registered.status();
  epochs_["one"] = registered->epoch();
  control_->executor.RunUntilIdle();
  Submit();
  bool is_lost = false;
  store.set_faults([&is_lost](std::string_view call) {
    if (call != "ClaimUnits" || is_lost) return FaultyStore::Fault::kNone;
    is_lost = true;
    return FaultyStore::Fault::kAfter;
  });
  EXPECT_TRUE(absl::IsUnavailable(control_->link().Synchronize(Request("one", "CPU-1", 1)).status()));
  const auto held = store_->units()->ClaimsOf("one", epochs_["one"]);
  ASSERT_EQ(held->size(), 1);
  EXPECT_NE(Ask("one", "CPU-1").assignments(0).unit_id(), held->at(0).unit.unit_id);
  clock_.Advance(seconds(11));
  const auto response = Ask("one", "CPU-1", 8);
  ASSERT_GT(response.assignments_size(), 0);
  const auto is_held = [&](const wire::Assignment& unit) { return unit.unit_id() == held->at(0).unit.unit_id; };
  EXPECT_EQ(std::count_if(response.assignments().begin(), response.assignments().end(), is_held), 1);
  control_ = nullptr;
}

// The same, where the daemon still has an old claim of the unit, of an agent that is served elsewhere since.
TEST_F(ControlAgentsTest, ALateClaimTakesThePlaceOfAnOldOne) {
  control_ = std::make_unique<Control>(store_.get(), &clock_, &entropy_, "a");
  ASSERT_TRUE(Register("one", "CPU-1").ok());
  ASSERT_TRUE(Register("two", "CPU-2").ok());
  control_->executor.RunUntilIdle();
  Submit();
  Control other(store_.get(), &clock_, &entropy_, "b");
  const auto at_other = [&](const std::string& id, int units) {
    wire::SynchronizeRequest request = Request(id, id == "one" ? "CPU-1" : "CPU-2", units);
    request.set_control(id == "two" ? control_->link().control_id() : other.link().control_id());
    const auto response = other.link().Synchronize(request);
    TUNEFARM_CHECK_OK(response);
    return *response;
  };
  at_other("one", 0);
  const auto old = at_other("two", 1);
  ASSERT_EQ(old.assignments_size(), 1);
  wire::ReportTrialsRequest back = ReportOf("two", old.assignments(0));
  back.clear_trials();
  back.clear_unit_done();
  back.set_unit_returned(true);
  ASSERT_EQ(control_->link().ReportTrials(back)->verdict(), wire::REPORT_VERDICT_ACCEPTED);
  // All that is left, and so that unit.
  std::map<int64_t, int64_t> late;  // tokens
  const auto at_first = [&] {
    wire::SynchronizeRequest request = Request("one", "CPU-1", 8);
    request.set_control(control_->link().control_id());
    for (const auto& [unit_id, token] : late) {
      auto* unit = request.add_units();
      unit->set_unit_id(unit_id);
      unit->set_token(token);
    }
    const auto response = control_->link().Synchronize(request);
    TUNEFARM_CHECK_OK(response);
    for (const auto& assignment : response->assignments()) late[assignment.unit_id()] = assignment.token();
    return response->assignments_size();
  };
  while (at_first() > 0) continue;
  ASSERT_EQ(late.count(old.assignments(0).unit_id()), 1) << late.size();
  clock_.Advance(seconds(11));
  const auto response = at_other("one", 8);
  ASSERT_GT(response.assignments_size(), 0);
  EXPECT_EQ(response.assignments(0).unit_id(), old.assignments(0).unit_id());
  EXPECT_EQ(response.assignments(0).token(), late[old.assignments(0).unit_id()]);
  other.service->Stop();
}

TEST_F(ControlAgentsTest, ADeviceHasAnotherAgentBehindADaemonsBack) {
  ASSERT_TRUE(Register("one", "CPU-1").ok());
  Submit();
  Control other(store_.get(), &clock_, &entropy_);
  wire::DeregisterRequest end;
  end.set_agent_id("one");
  end.set_epoch(epochs_["one"]);
  ASSERT_TRUE(other.link().Deregister(end).ok());
  const auto registered = other.link().Register(About("two", "CPU-1"));
  ASSERT_TRUE(registered.ok()) << registered.status();
  epochs_["two"] = registered->epoch();
  const auto given = other.link().Synchronize(Request("two", "CPU-1", 1));
  ASSERT_TRUE(given.ok()) << given.status();
  ASSERT_EQ(given->assignments_size(), 1);
  // The first daemon still thinks that the device is the other agent's.
  EXPECT_EQ(Report("two", given->assignments(0)), wire::REPORT_VERDICT_ACCEPTED);
  other.service->Stop();
}

TEST_F(ControlAgentsTest, ADatabaseThatIsPutBackIsTakenOverWithItsClaims) {
  FaultyStore front(store_.get());
  control_ = std::make_unique<Control>(&front, &clock_, &entropy_);
  ASSERT_TRUE(Register("one", "CPU-1").ok());
  Submit();
  const auto early = Ask("one", "CPU-1");
  ASSERT_EQ(early.assignments_size(), 1);
  SqliteOptions options;
  options.path = directory_.File("copy.db");
  options.backup_directory = directory_.File("backups");
  options.clock = &clock_;
  ASSERT_TRUE(store_->maintenance()->Backup(options.path).ok());
  // The hour that will be lost.
  EXPECT_EQ(Report("one", early.assignments(0)), wire::REPORT_VERDICT_ACCEPTED);
  const auto late = Ask("one", "CPU-1");
  ASSERT_EQ(late.assignments_size(), 1);
  ASSERT_NE(late.assignments(0).unit_id(), early.assignments(0).unit_id());

  const auto copy = OpenSqliteStore(options);
  ASSERT_TRUE(copy.ok()) << copy.status();
  front.PutBehind(copy->get());
  control_->link().BeginAgain();
  wire::SynchronizeRequest request = Request("one", "CPU-1", 1);
  auto* unit = request.add_units();
  unit->set_unit_id(late.assignments(0).unit_id());
  unit->set_token(late.assignments(0).token());
  unit->set_device_uuid("CPU-1");
  const auto response = control_->link().Synchronize(request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_FALSE(response->epoch_expired());
  EXPECT_THAT(response->revoked_unit_ids(), ElementsAre(late.assignments(0).unit_id()));
  ASSERT_EQ(response->assignments_size(), 1);
  EXPECT_EQ(response->assignments(0).unit_id(), early.assignments(0).unit_id());
  EXPECT_EQ(response->assignments(0).token(), early.assignments(0).token());
  EXPECT_EQ(Report("one", late.assignments(0)), wire::REPORT_VERDICT_STALE);
  EXPECT_EQ(Report("one", early.assignments(0)), wire::REPORT_VERDICT_ACCEPTED);
  control_->service->Stop();
  control_ = nullptr;  // before what it stands on
}

// A store whose database is replaced by a copy that was made earlier, and which keeps Store's word about it.
class ReplacedStore : public FaultyStore {
 public:
  ReplacedStore(Store* store, std::string copy, Clock* clock) : FaultyStore(store), before_(store) {
    options_.path = std::move(copy);
    options_.backup_directory = options_.path + ".backups";
    options_.clock = clock;
  }
  void Copy() { TUNEFARM_CHECK_OK(before_->maintenance()->Backup(options_.path)); }
  // `is_noticed`: by a new session at once; else somebody has to find it out.
  void Replace(bool is_noticed = true) {
    auto copy = OpenSqliteStore(options_);
    TUNEFARM_CHECK_OK(copy);
    copy_ = *std::move(copy);
    PutBehind(copy_.get());
    replacements_ += is_noticed;
  }
  UnitStore* units() override { return &units_; }
  int64_t Replacements() const override { return replacements_; }

 private:
  class Units : public FaultyUnits {
   public:
    Units(const FaultyStoreState* state, const int64_t* replacements)
        : FaultyUnits(state, &Store::units), replacements_(replacements) {}

    absl::StatusOr<ReportVerdict> ReportTrials(const ReportRequest& request) override {
      if (request.replacements != *replacements_) return absl::UnavailableError("replaced");
      return FaultyUnits::ReportTrials(request);
    }

   private:
    const int64_t* const replacements_;
  };

  Store* const before_;
  SqliteOptions options_;
  std::unique_ptr<Store> copy_;
  int64_t replacements_ = 0;
  Units units_{&state_, &replacements_};
};

class ReplacedDatabaseTest : public ControlAgentsTest {
 protected:
  ReplacedDatabaseTest() {
    control_ = std::make_unique<Control>(&front_, &clock_, &entropy_);
    TUNEFARM_CHECK_OK(Register("one", "CPU-1"));
    tunefarm::v1::Kernel kernel = TestKernel();
    for (int b = 4; b <= 8; ++b) kernel.mutable_parameters(1)->mutable_values()->add_ints(b);
    const auto job_id = ParseJobName(Submit(kernel));
    TUNEFARM_CHECK_OK(job_id);
    job_id_ = *job_id;
    // The first unit has one trial.
    const auto given = Ask("one", "CPU-1", 8);
    for (const auto& assignment : given.assignments()) {
      if (assignment.trials_size() >= 2) unit_ = assignment;
    }
    TUNEFARM_CHECK(unit_.trials_size() >= 2);
    front_.Copy();
  }
  ~ReplacedDatabaseTest() override {
    control_->service->Stop();
    control_ = nullptr;  // before what it stands on
  }

  // Of the unit's trials from first on, before last.
  wire::ReportTrialsRequest PartOf(int first, int last) {
    wire::Assignment part = unit_;
    part.mutable_trials()->DeleteSubrange(last, unit_.trials_size() - last);
    part.mutable_trials()->DeleteSubrange(0, first);
    wire::ReportTrialsRequest report = ReportOf("one", part);
    report.set_unit_done(last == unit_.trials_size());
    return report;
  }
  wire::ReportVerdict Report(const wire::ReportTrialsRequest& report) {
    const auto response = control_->link().ReportTrials(report);
    TUNEFARM_CHECK_OK(response);
    return response->verdict();
  }
  // The ordinals with which the unit is handed out to another agent.
  std::vector<int64_t> OrdinalsOfNextClaim() {
    TUNEFARM_CHECK_OK(Register("two", "CPU-2"));
    std::vector<int64_t> ordinals;
    wire::SynchronizeRequest request = Request("two", "CPU-2", 8);
    for (bool is_empty = false; !is_empty && ordinals.empty();) {
      const auto given = control_->link().Synchronize(request);
      TUNEFARM_CHECK_OK(given);
      is_empty = given->assignments().empty();
      for (const auto& assignment : given->assignments()) {
        auto* unit = request.add_units();
        unit->set_unit_id(assignment.unit_id());
        unit->set_token(assignment.token());
        if (assignment.unit_id() != unit_.unit_id()) continue;
        for (const auto& spec : assignment.trials()) ordinals.push_back(spec.ordinal());
      }
    }
    return ordinals;
  }

  ReplacedStore front_{store_.get(), directory_.File("copy.db"), &clock_};
  int64_t job_id_ = 0;
  wire::Assignment unit_;
};

TEST_F(ReplacedDatabaseTest, AUnitIsNotDoneWithoutTheResultsThatWereLost) {
  EXPECT_EQ(Report(PartOf(0, 1)), wire::REPORT_VERDICT_ACCEPTED);
  front_.Replace();
  EXPECT_EQ(Report(PartOf(1, unit_.trials_size())), wire::REPORT_VERDICT_ACCEPTED);
  EXPECT_THAT(OrdinalsOfNextClaim(), ElementsAre(unit_.trials(0).ordinal()));
}

TEST_F(ReplacedDatabaseTest, NorIsOneThatWasReadAgain) {
  EXPECT_EQ(Report(PartOf(0, 1)), wire::REPORT_VERDICT_ACCEPTED);
  front_.Replace(/*is_noticed=*/false);
  control_->link().BeginAgain();
  EXPECT_EQ(Report(PartOf(1, unit_.trials_size())), wire::REPORT_VERDICT_ACCEPTED);
  EXPECT_THAT(OrdinalsOfNextClaim(), ElementsAre(unit_.trials(0).ordinal()));
}

TEST_F(ReplacedDatabaseTest, WhatWasSaidOfItsJobsBeforeDoesNotCountAnyMore) {
  control_->link().Cancel(job_id_);
  front_.Replace();
  wire::SynchronizeRequest request = Request("one", "CPU-1", 0);
  auto* unit = request.add_units();
  unit->set_unit_id(unit_.unit_id());
  unit->set_token(unit_.token());
  unit->set_device_uuid("CPU-1");
  EXPECT_THAT(control_->link().Synchronize(request)->revoked_unit_ids(), IsEmpty());
  control_->link().Cancel(job_id_);  // by one who has not heard of it
  EXPECT_THAT(control_->link().Synchronize(request)->revoked_unit_ids(), IsEmpty());
  control_->link().BeginAgain();
  control_->link().Cancel(job_id_);
  EXPECT_THAT(control_->link().Synchronize(request)->revoked_unit_ids(), ElementsAre(unit_.unit_id()));
}

TEST_F(ControlAgentsTest, ASilentAgentLosesItsWork) {
  ASSERT_TRUE(Register("one", "CPU-1").ok());
  ASSERT_TRUE(Register("two", "CPU-2").ok());
  Submit();
  const auto held = Ask("one", "CPU-1");
  ASSERT_EQ(held.assignments_size(), 1);
  for (int i = 0; i < 8; ++i) {
    RunFor(seconds(5));
    Ask("two", "CPU-2", 0);
  }
  EXPECT_EQ(Report("one", held.assignments(0)), wire::REPORT_VERDICT_STALE);
  EXPECT_TRUE(Ask("one", "CPU-1").epoch_expired());
  // The other one gets the unit in its turn, with a new token.
  wire::SynchronizeRequest request = Request("two", "CPU-2", 8);
  int64_t token = 0;
  for (int i = 0; i < 4 && token == 0; ++i) {
    const auto taken = control_->link().Synchronize(request);
    ASSERT_TRUE(taken.ok());
    for (const auto& assignment : taken->assignments()) {
      auto* unit = request.add_units();
      unit->set_unit_id(assignment.unit_id());
      unit->set_token(assignment.token());
      if (assignment.unit_id() == held.assignments(0).unit_id()) token = assignment.token();
    }
  }
  EXPECT_GT(token, held.assignments(0).token());
  for (const auto& device : control_->service->devices().List()) {
    EXPECT_EQ(device.state(),
              device.uuid() == "CPU-1" ? tunefarm::v1::DEVICE_STATE_OFFLINE : tunefarm::v1::DEVICE_STATE_READY);
  }
  const auto agents = control_->service->farm_api().ListAgents({});
  ASSERT_TRUE(agents.ok());
  ASSERT_EQ(agents->agents_size(), 1);
  EXPECT_EQ(agents->agents(0).name(), "agents/two");
}

TEST_F(ControlAgentsTest, AgentsGetAWholeLeaseAfterControlWasAway) {
  ASSERT_TRUE(Register("one", "CPU-1").ok());
  Submit();
  const auto held = Ask("one", "CPU-1");
  ASSERT_EQ(held.assignments_size(), 1);
  control_ = nullptr;
  clock_.Advance(std::chrono::minutes(10));
  control_ = std::make_unique<Control>(store_.get(), &clock_, &entropy_);
  RunFor(seconds(20));
  EXPECT_EQ(Report("one", held.assignments(0)), wire::REPORT_VERDICT_ACCEPTED);
  EXPECT_FALSE(Ask("one", "CPU-1").epoch_expired());
}

TEST_F(ControlAgentsTest, LeasesAreWrittenSeldom) {
  ASSERT_TRUE(Register("one", "CPU-1").ok());
  const auto before = store_->maintenance()->Commits().operations;
  for (int i = 0; i < 90; ++i) {
    clock_.Advance(std::chrono::milliseconds(100));
    Ask("one", "CPU-1", 0);
  }
  EXPECT_LE(store_->maintenance()->Commits().operations - before, 2);
}

TEST_F(ControlAgentsTest, AProcessTakesThePlaceOfItsPredecessor) {
  ASSERT_TRUE(Register("old", "CPU-1").ok());
  Submit();
  ASSERT_EQ(Ask("old", "CPU-1").assignments_size(), 1);
  const auto refused = Register("new", "CPU-1");
  EXPECT_EQ(ReasonOf(refused.status()), "DEVICE_TAKEN");
  EXPECT_THAT(std::string(MessageOf(refused.status())), testing::HasSubstr("belongs to agent name of old on host"));
  wire::RegisterRequest successor = About("new", "CPU-1");
  successor.set_replaces_agent_id("old");
  const auto response = control_->link().Register(successor);
  ASSERT_TRUE(response.ok()) << response.status();
  epochs_["new"] = response->epoch();
  EXPECT_TRUE(Ask("old", "CPU-1").epoch_expired());
  EXPECT_EQ(Ask("new", "CPU-1").assignments_size(), 1);
}

TEST_F(ControlAgentsTest, ADrainingAgentGetsNothing) {
  ASSERT_TRUE(Register("one", "CPU-1").ok());
  Submit();
  ASSERT_TRUE(control_->service->DrainAgent("name of one").ok());
  EXPECT_EQ(Ask("one", "CPU-1").assignments_size(), 0);
  ASSERT_TRUE(control_->service->UndrainAgent("agents/one").ok());
  EXPECT_EQ(Ask("one", "CPU-1").assignments_size(), 1);
  EXPECT_EQ(ReasonOf(control_->service->DrainAgent("nobody")), "AGENT_NOT_FOUND");
}

TEST_F(ControlAgentsTest, AnAgentThatEndsGivesItsUnitsBack) {
  ASSERT_TRUE(Register("one", "CPU-1").ok());
  ASSERT_TRUE(Register("two", "CPU-2").ok());
  Submit();
  const auto held = Ask("one", "CPU-1", 8);
  ASSERT_GE(held.assignments_size(), 1);
  wire::DeregisterRequest request;
  request.set_agent_id("one");
  request.set_epoch(epochs_["one"]);
  ASSERT_TRUE(control_->link().Deregister(request).ok());
  EXPECT_GE(Ask("two", "CPU-2", 8).assignments_size(), 1);
  EXPECT_TRUE(control_->link().Deregister(request).ok());  // twice is once
}

TEST_F(ControlAgentsTest, ADeviceOutOfServiceGetsNothing) {
  ASSERT_TRUE(Register("one", "CPU-1").ok());
  Submit();
  ASSERT_TRUE(control_->service->QuarantineDevice("devices/CPU-1", "loud").ok());
  EXPECT_EQ(Ask("one", "CPU-1").assignments_size(), 0);
  // What the agent says of it does not change that.
  wire::SynchronizeRequest request = Request("one", "CPU-1", 1);
  *request.add_changed_devices() = HostDevice("CPU-1");
  EXPECT_EQ(control_->link().Synchronize(request)->assignments_size(), 0);
  ASSERT_TRUE(control_->service->ReleaseDevice("devices/CPU-1").ok());
  const auto response = Ask("one", "CPU-1");
  EXPECT_EQ(response.assignments_size(), 1);
  EXPECT_THAT(
      std::vector<std::string>(response.released_device_uuids().begin(), response.released_device_uuids().end()),
      ElementsAre("CPU-1"));
  // The agent's own word.
  tunefarm::v1::Device sick = HostDevice("CPU-1");
  sick.set_state(tunefarm::v1::DEVICE_STATE_QUARANTINED);
  sick.set_state_reason("it fell off the bus");
  request = Request("one", "CPU-1", 1);
  auto* unit = request.add_units();
  unit->set_unit_id(response.assignments(0).unit_id());
  unit->set_token(response.assignments(0).token());
  *request.add_changed_devices() = sick;
  EXPECT_EQ(control_->link().Synchronize(request)->assignments_size(), 0);
  EXPECT_EQ(control_->service->devices().List()[0].state_reason(), "it fell off the bus");
  Restart();  // and it is remembered
  EXPECT_EQ(control_->service->devices().List()[0].state_reason(), "it fell off the bus");
}

TEST_F(ControlAgentsTest, OnlyWhoWantsWorkIsWokenByWork) {
  ASSERT_TRUE(Register("hungry", "CPU-1").ok());
  ASSERT_TRUE(Register("idle", "CPU-2").ok());
  int woken_hungry = 0, woken_idle = 0;
  const auto wait = [&](const std::string& id, int* woken, int64_t seen) {
    wire::WaitRequest request;
    request.set_agent_id(id);
    request.set_control(control_->link().control_id());
    request.set_seen(seen);
    return control_->link().Wait(request, [woken](const wire::WaitResponse& response) { *woken += response.woken(); });
  };
  Ask("hungry", "CPU-1", 1);
  Ask("idle", "CPU-2", 0);
  ASSERT_NE(wait("hungry", &woken_hungry, 1), 0);
  ASSERT_NE(wait("idle", &woken_idle, 1), 0);
  Submit();
  EXPECT_EQ(woken_hungry, 1);
  EXPECT_EQ(woken_idle, 0);
  control_->link().WakeAll();
  EXPECT_EQ(woken_idle, 1);
  // Another control's count says nothing: answered at once.
  wire::WaitRequest stranger;
  stranger.set_agent_id("stranger");
  stranger.set_control("another");
  int woken = 0;
  EXPECT_EQ(control_->link().Wait(stranger, [&](const wire::WaitResponse& r) { woken += r.woken(); }), 0);
  EXPECT_EQ(woken, 1);
}

TEST(AgentWakes, NoWakeIsLostAndEachAgentHasItsOwn) {
  AgentWakes wakes;
  std::vector<std::string> told;
  const auto answer = [&](const std::string& who) {
    return [&told, who](int64_t seen, bool woken) {
      told.push_back(who + (woken ? " woken " : " expired ") + std::to_string(seen));
    };
  };
  const uint64_t first = wakes.Await("a", 1, answer("a"));
  ASSERT_NE(first, 0);
  ASSERT_NE(wakes.Await("b", 1, answer("b")), 0);
  wakes.Wake("a");
  EXPECT_THAT(told, ElementsAre("a woken 2"));
  told.clear();
  wakes.Expire("a", first);  // too late
  wakes.Wake("a");           // while nobody waits
  EXPECT_EQ(wakes.Await("a", 2, answer("a")), 0);
  EXPECT_THAT(told, ElementsAre("a woken 3"));
  told.clear();
  const uint64_t second = wakes.Await("a", 3, answer("a"));
  wakes.Expire("a", second);
  EXPECT_THAT(told, ElementsAre("a expired 3"));
  told.clear();
  ASSERT_NE(wakes.Await("b", 1, answer("b again")), 0);  // its connection was lost
  EXPECT_THAT(told, ElementsAre("b expired 1"));
  told.clear();
  wakes.Close();
  EXPECT_THAT(told, ElementsAre("b again woken 2"));
  EXPECT_EQ(wakes.Await("c", 1, answer("c")), 0);
}

}  // namespace
}  // namespace tunefarm
