// Work in a farm of several agents: who may run it, where finals are measured, and agents that are lost with it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/base/status.h"
#include "tests/fakes/faulty_store.h"
#include "tests/unit/jobs/control_agents.h"

namespace tunefarm {
namespace {

namespace wire = tunefarm::agent::v1;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using tunefarm::v1::Trial;

class MixedFarmTest : public ControlAgentsTest {
 protected:
  // Another class than HostDevice's.
  static tunefarm::v1::Device LargeDevice(const std::string& uuid) {
    tunefarm::v1::Device device = HostDevice(uuid);
    device.mutable_device_class()->set_display_name("Large CPU");
    device.mutable_device_class()->set_sm_count(64);
    return device;
  }
  void Join(const std::string& id, const tunefarm::v1::Device& device,
            const std::map<std::string, std::string>& labels = {}) {
    wire::RegisterRequest about = About(id, device.uuid());
    *about.mutable_devices(0) = device;
    for (const auto& [key, value] : labels) (*about.mutable_labels())[key] = value;
    const auto response = control_->link().Register(about);
    TUNEFARM_CHECK_OK(response);
    epochs_[id] = response->epoch();
  }
  void Leave(const std::string& id) {
    wire::DeregisterRequest request;
    request.set_agent_id(id);
    request.set_epoch(epochs_[id]);
    TUNEFARM_CHECK_OK(control_->link().Deregister(request));
    control_->executor.RunUntilIdle();
  }
  // It dies, and its machine starts another one: `id` lives on under a new epoch.
  void Die(const std::string& id, const std::string& device) {
    wire::RegisterRequest successor = About(id + "+", device);
    successor.set_replaces_agent_id(id);
    const auto response = control_->link().Register(successor);
    TUNEFARM_CHECK_OK(response);
    epochs_[id + "+"] = response->epoch();
    control_->executor.RunUntilIdle();
  }
  // Reports the first `count` trials of it, all with this outcome; 0: all of them, and the unit is done.
  void Run(const std::string& id, const wire::Assignment& assignment, int count = 0,
           tunefarm::v1::Outcome outcome = tunefarm::v1::OUTCOME_OK) {
    wire::ReportTrialsRequest report = ReportOf(id, assignment);
    for (Trial& trial : *report.mutable_trials()) {
      trial.set_outcome(outcome);
      if (outcome != tunefarm::v1::OUTCOME_OK) trial.clear_measurement();
    }
    if (count > 0) {
      report.set_unit_done(false);
      report.mutable_trials()->DeleteSubrange(count, report.trials_size() - count);
    }
    const auto response = control_->link().ReportTrials(report);
    TUNEFARM_CHECK_OK(response);
    EXPECT_EQ(response->verdict(), wire::REPORT_VERDICT_ACCEPTED);
    control_->executor.RunUntilIdle();
  }
  // Takes and runs everything until a final is handed out, which it answers; none: the agent gets nothing more.
  std::optional<wire::Assignment> UntilFinal(const std::string& id, const std::string& device) {
    while (true) {
      wire::SynchronizeResponse response = Ask(id, device);
      if (response.assignments_size() == 0) {
        control_->executor.RunUntilIdle();
        response = Ask(id, device);
      }
      if (response.assignments_size() == 0) return std::nullopt;
      if (response.assignments(0).interleaved_rounds() > 0) return response.assignments(0);
      Run(id, response.assignments(0));
    }
  }
  tunefarm::v1::Job Job(const std::string& name) {
    const auto job = control_->service->GetJob(name);
    TUNEFARM_CHECK_OK(job);
    return *job;
  }
  std::vector<Trial> Trials(const std::string& name) {
    tunefarm::v1::ListTrialsRequest request;
    request.set_parent(name);
    request.set_page_size(1000);
    const auto response = control_->service->tuning_api().ListTrials(request);
    TUNEFARM_CHECK_OK(response);
    return {response->trials().begin(), response->trials().end()};
  }
  absl::Status SubmitFor(const std::string& selector) {
    tunefarm::v1::Job job;
    *job.add_problems() = TestProblem(1024);
    *job.add_problems() = TestProblem(2048);
    job.set_device_selector(selector);
    const auto submitted = control_->service->Submit(job, TestKernel(), "", false);
    control_->executor.RunUntilIdle();
    if (submitted.ok()) name_ = submitted->name();
    return submitted.status();
  }

  static void AddClaim(const wire::Assignment& assignment, int trial, uint64_t work, wire::ClaimWorkRequest* request) {
    auto* const claim = request->add_claims();
    claim->set_unit_id(assignment.unit_id());
    claim->set_token(assignment.token());
    claim->set_ordinal(assignment.trials(trial).ordinal());
    claim->set_work(work);
  }
  // Control's answer to the claim of a trial of the assignment.
  wire::WorkAnswer Claim(const std::string& id, const wire::Assignment& assignment, int trial, uint64_t work) {
    wire::ClaimWorkRequest request;
    request.set_agent_id(id);
    request.set_epoch(epochs_[id]);
    AddClaim(assignment, trial, work, &request);
    const auto response = control_->link().ClaimWork(request);
    TUNEFARM_CHECK_OK(response);
    TUNEFARM_CHECK(response->answers_size() == 1);
    return response->answers(0);
  }
  bool Runs(const std::string& id, const wire::Assignment& assignment, int trial, uint64_t work) {
    const wire::WorkAnswer answer = Claim(id, assignment, trial, work);
    return !answer.is_elsewhere() && !answer.has_measured();
  }
  void ReportFirst(const std::string& id, const wire::Assignment& assignment, uint64_t work,
                   tunefarm::v1::Outcome outcome) {
    wire::ReportTrialsRequest report = ReportOf(id, assignment);
    report.set_unit_done(assignment.trials_size() == 1);
    report.mutable_trials()->DeleteSubrange(1, report.trials_size() - 1);
    report.mutable_trials(0)->set_work(work);
    report.mutable_trials(0)->set_outcome(outcome);
    const auto response = control_->link().ReportTrials(report);
    TUNEFARM_CHECK_OK(response);
    ASSERT_EQ(response->verdict(), wire::REPORT_VERDICT_ACCEPTED);
    control_->executor.RunUntilIdle();
  }

  // The next unit of the agent.
  wire::Assignment Next(const std::string& id, const std::string& device) {
    const wire::SynchronizeResponse response = Ask(id, device);
    TUNEFARM_CHECK(response.assignments_size() == 1);
    return response.assignments(0);
  }

  std::string name_;
};

// ---- Work that several agents would do ----

// What stands of a trial cannot be read, where its work is looked up.
class DamagedWorks final : public FaultyStore {
 public:
  DamagedWorks(Store* store, int64_t ordinal) : FaultyStore(store), units_(&state_, ordinal) {}

  UnitStore* units() override { return &units_; }

 private:
  class Units : public FaultyUnits {
   public:
    Units(const FaultyStoreState* state, int64_t ordinal) : FaultyUnits(state, &Store::units), ordinal_(ordinal) {}

    absl::StatusOr<std::vector<WorkAnswer>> ClaimWorks(const WorkClaimRequest& request) override {
      auto answers = FaultyUnits::ClaimWorks(request);
      if (!answers.ok()) return answers;
      for (WorkAnswer& answer : *answers) {
        if (answer.measured.has_value() && answer.measured->ordinal == ordinal_) answer.measured->detail = "\xff";
      }
      return answers;
    }

   private:
    const int64_t ordinal_;
  };

  Units units_;
};

class SharedWorkTest : public MixedFarmTest {
 protected:
  SharedWorkTest() {
    Join("a", HostDevice("HOST-1"));
    Join("b", HostDevice("HOST-2"));
    Submit();
    a_ = Ask("a", "HOST-1").assignments(0);
    b_ = Ask("b", "HOST-2").assignments(0);
  }
  wire::Assignment a_, b_;
};

TEST_F(SharedWorkTest, AnAgentTakesOverWhatAnotherOneMeasuresAndIsWoken) {
  EXPECT_TRUE(Runs("a", a_, 0, 7));
  EXPECT_TRUE(Claim("b", b_, 0, 7).is_elsewhere());
  EXPECT_TRUE(Runs("b", b_, 0, 8));
  // It waits for news, of which it has seen all.
  wire::WaitRequest wait;
  wait.set_agent_id("b");
  wait.set_epoch(epochs_["b"]);
  std::optional<wire::WaitResponse> woken;
  const auto take = [&](wire::WaitResponse response) { woken = std::move(response); };
  control_->link().Wait(wait, take);
  ASSERT_TRUE(woken.has_value());
  wait.set_control(woken->control());
  wait.set_seen(woken->seen());
  woken.reset();
  control_->link().Wait(wait, take);
  EXPECT_FALSE(woken.has_value());
  ReportFirst("a", a_, 7, tunefarm::v1::OUTCOME_OK);
  ASSERT_TRUE(woken.has_value());
  EXPECT_TRUE(woken->woken());
  const wire::WorkAnswer answer = Claim("b", b_, 0, 7);
  ASSERT_TRUE(answer.has_measured());
  EXPECT_EQ(answer.measured().ordinal(), a_.trials(0).ordinal());
  EXPECT_EQ(answer.measured().device_uuid(), "HOST-1");
  EXPECT_EQ(answer.measured().measurement().median_ns(), 1000);
}

TEST_F(SharedWorkTest, AnotherAgentRunsWhereTheFirstIsLostOrHasNoVerdict) {
  EXPECT_TRUE(Runs("a", a_, 0, 7));
  EXPECT_TRUE(Claim("b", b_, 0, 7).is_elsewhere());
  ReportFirst("a", a_, 7, tunefarm::v1::OUTCOME_NOISY);
  EXPECT_TRUE(Runs("b", b_, 0, 7));
  EXPECT_TRUE(Claim("a", a_, 0, 7).is_elsewhere() || a_.trials_size() == 1);
  Leave("b");
  EXPECT_FALSE(Claim("a", a_, 0, 7).is_elsewhere());
}

TEST_F(SharedWorkTest, OnlyVerdictsOfTrialsThatRanAreTakenOver) {
  const auto report = [&](const wire::Assignment& unit, const std::function<void(Trial*)>& change) {
    wire::ReportTrialsRequest request = ReportOf("a", unit);
    request.mutable_trials(0)->set_work(7);
    change(request.mutable_trials(0));
    const auto response = control_->link().ReportTrials(request);
    TUNEFARM_CHECK_OK(response);
    EXPECT_EQ(response->verdict(), wire::REPORT_VERDICT_ACCEPTED);
    control_->executor.RunUntilIdle();
  };
  report(a_, [](Trial* trial) { trial->set_outcome(tunefarm::v1::OUTCOME_NOISY); });
  EXPECT_FALSE(Claim("b", b_, 0, 7).has_measured());
  report(Next("a", "HOST-1"), [](Trial* trial) { trial->mutable_measurement()->set_throttled(true); });
  EXPECT_FALSE(Claim("b", b_, 0, 7).has_measured());
  report(Next("a", "HOST-1"), [](Trial* trial) { trial->set_reused(true); });
  EXPECT_FALSE(Claim("b", b_, 0, 7).has_measured()) << "the trial that ran is stored, too";
  const wire::Assignment last = Next("a", "HOST-1");
  report(last, [](Trial* /*trial*/) {});
  EXPECT_EQ(Claim("b", b_, 0, 7).measured().ordinal(), last.trials(0).ordinal());
}

TEST_F(SharedWorkTest, DaemonsThatStartAgainKnowWhatIsClaimedAndMeasured) {
  EXPECT_TRUE(Runs("a", a_, 0, 7));
  Restart();
  // Its trial is claimed before its agent is heard, and by a call that lists no units.
  EXPECT_TRUE(Claim("b", b_, 0, 7).is_elsewhere());
  wire::SynchronizeRequest request = Request("b", "HOST-2", 0);
  request.set_control("the one before");
  auto* const unit = request.add_units();
  unit->set_unit_id(b_.unit_id());
  unit->set_token(b_.token());
  unit->set_device_uuid("HOST-2");
  const auto response = control_->link().Synchronize(request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_TRUE(response->shares_work()) << "it is alone here, but the study has works";
  EXPECT_EQ(response->revoked_unit_ids_size(), 0);
  EXPECT_TRUE(Runs("a", a_, 0, 7)) << "it has the claim";
  ReportFirst("a", a_, 7, tunefarm::v1::OUTCOME_OK);
  Restart();
  EXPECT_EQ(Claim("b", b_, 0, 7).measured().ordinal(), a_.trials(0).ordinal());
}

TEST_F(SharedWorkTest, AnAgentThatIsAloneIsToAskForWhatAnotherOneHasMeasured) {
  ReportFirst("b", b_, 7, tunefarm::v1::OUTCOME_OK);
  Leave("b");
  const wire::SynchronizeResponse response = Ask("a", "HOST-1", 0);
  EXPECT_TRUE(response.shares_work());
  EXPECT_EQ(Claim("a", a_, 0, 7).measured().ordinal(), b_.trials(0).ordinal());
}

TEST_F(SharedWorkTest, ADamagedRowCostsThatRowAlone) {
  ReportFirst("a", a_, 7, tunefarm::v1::OUTCOME_OK);
  const wire::Assignment next = Next("a", "HOST-1");
  ReportFirst("a", next, 8, tunefarm::v1::OUTCOME_OK);
  DamagedWorks damaged(store_.get(), a_.trials(0).ordinal());
  control_ = nullptr;
  control_ = std::make_unique<Control>(&damaged, &clock_, &entropy_);
  wire::ClaimWorkRequest request;
  request.set_agent_id("b");
  request.set_epoch(epochs_["b"]);
  for (const uint64_t work : {7, 8}) AddClaim(b_, 0, work, &request);
  const auto response = control_->link().ClaimWork(request);
  ASSERT_TRUE(response.ok()) << response.status();
  ASSERT_EQ(response->answers_size(), 2);
  EXPECT_FALSE(response->answers(0).has_measured() || response->answers(0).is_elsewhere());
  EXPECT_EQ(response->answers(1).measured().ordinal(), next.trials(0).ordinal());
  // Where nothing can be read, nothing is known, and trials run.
  damaged.set_faults([](std::string_view) { return FaultyStore::Fault::kBefore; });
  EXPECT_TRUE(absl::IsUnavailable(control_->link().ClaimWork(request).status()));
  control_ = nullptr;
}

TEST_F(MixedFarmTest, AnAgentThatIsAloneAsksOnlyForWhatWasMeasuredBeforeItsTime) {
  Join("one", HostDevice("CPU-1"));
  const std::string job = Submit();
  const wire::SynchronizeResponse first = Ask("one", "CPU-1");
  EXPECT_FALSE(first.shares_work());
  wire::ReportTrialsRequest report = ReportOf("one", first.assignments(0));
  report.mutable_trials(0)->set_work(7);
  ASSERT_TRUE(control_->link().ReportTrials(report).ok());
  control_->executor.RunUntilIdle();
  EXPECT_FALSE(Ask("one", "CPU-1").shares_work()) << "it has measured that itself";
  Restart();
  Die("one", "CPU-1");
  const wire::SynchronizeResponse next = Ask("one+", "CPU-1");
  EXPECT_TRUE(next.shares_work());
  ASSERT_EQ(next.assignments_size(), 1);
  Run("one+", next.assignments(0));
  while (const auto final = UntilFinal("one+", "CPU-1")) Run("one+", *final);
  ASSERT_EQ(Job(job).state(), tunefarm::v1::JOB_STATE_SUCCEEDED);
  EXPECT_FALSE(Ask("one+", "CPU-1").shares_work()) << "of what is left nothing was measured";
}

TEST_F(MixedFarmTest, AnAgentThatIsStartedAgainIsToAskForWhatItsProcessBeforeHasMeasured) {
  Join("one", HostDevice("CPU-1"));
  Submit();
  const wire::SynchronizeResponse first = Ask("one", "CPU-1");
  EXPECT_FALSE(first.shares_work());
  ReportFirst("one", first.assignments(0), 7, tunefarm::v1::OUTCOME_OK);
  Die("one", "CPU-1");
  const wire::SynchronizeResponse next = Ask("one+", "CPU-1");
  EXPECT_TRUE(next.shares_work());
  ASSERT_EQ(next.assignments_size(), 1);
  EXPECT_EQ(Claim("one+", next.assignments(0), 0, 7).measured().ordinal(), first.assignments(0).trials(0).ordinal());
}

// Each served by a control daemon of its own.
TEST_F(MixedFarmTest, AgentsOfSeveralDaemonsMeasureAWorkOnce) {
  control_ = nullptr;
  control_ = std::make_unique<Control>(store_.get(), &clock_, &entropy_, "first");
  std::unique_ptr<Control> other = std::make_unique<Control>(store_.get(), &clock_, &entropy_, "second");
  control_->executor.RunUntilIdle();
  other->executor.RunUntilIdle();
  Join("a", HostDevice("CPU-1"));
  Submit();
  const wire::SynchronizeResponse of_a = Ask("a", "CPU-1");
  ASSERT_EQ(of_a.assignments_size(), 1);
  EXPECT_TRUE(of_a.shares_work()) << "there may be agents of other daemons";
  EXPECT_TRUE(Runs("a", of_a.assignments(0), 0, 7));
  std::swap(control_, other);
  Join("b", HostDevice("CPU-2"));
  const wire::SynchronizeResponse of_b = Ask("b", "CPU-2", 2);
  ASSERT_EQ(of_b.assignments_size(), 2);
  EXPECT_TRUE(Claim("b", of_b.assignments(0), 0, 7).is_elsewhere());
  EXPECT_TRUE(Runs("b", of_b.assignments(0), 0, 8));
  std::swap(control_, other);
  ReportFirst("a", of_a.assignments(0), 7, tunefarm::v1::OUTCOME_OK);
  // It moves to the other daemon, which its first call there does not list anything to.
  const wire::Assignment more = Ask("a", "CPU-1").assignments(0);
  std::swap(control_, other);
  EXPECT_EQ(Claim("b", of_b.assignments(1), 0, 7).measured().ordinal(), of_a.assignments(0).trials(0).ordinal());
  EXPECT_TRUE(Claim("a", more, 0, 8).is_elsewhere());
  ReportFirst("b", of_b.assignments(0), 8, tunefarm::v1::OUTCOME_OK);
  EXPECT_EQ(Claim("a", more, 0, 8).measured().ordinal(), of_b.assignments(0).trials(0).ordinal());
  // And back, with a unit that the first daemon has not seen.
  const wire::Assignment last = Ask("a", "CPU-1").assignments(0);
  std::swap(control_, other);
  EXPECT_EQ(Claim("a", last, 0, 8).measured().ordinal(), of_b.assignments(0).trials(0).ordinal());
  std::swap(control_, other);
  other->service->Stop();
}

TEST_F(SharedWorkTest, ACallHasABound) {
  wire::ClaimWorkRequest request;
  for (int i = 0; i < 257; ++i) request.add_claims();
  EXPECT_TRUE(absl::IsInvalidArgument(control_->link().ClaimWork(request).status()));
  request.mutable_claims()->DeleteSubrange(0, 1);
  EXPECT_EQ(control_->link().ClaimWork(request)->answers_size(), 256) << "of an agent that is not known";
}

// ---- Who may run it ----

TEST_F(MixedFarmTest, AnAgentWithoutTritonIsGivenNoKernelOfIt) {
  Join("without", GpuDevice("GPU-1", ""));
  Join("with", GpuDevice("GPU-2", "3.6.0"));
  const std::string job = Submit(TritonKernel());
  EXPECT_EQ(Ask("without", "GPU-1").assignments_size(), 0);
  EXPECT_EQ(Ask("with", "GPU-2").assignments_size(), 1);
  Leave("with");
  TUNEFARM_CHECK_OK(control_->service->Pause(job));
  EXPECT_EQ(ReasonOf(control_->service->Resume(job).status()), "TRITON_MISSING");
  Join("later", GpuDevice("GPU-3", "3.6.0"));
  TUNEFARM_CHECK_OK(control_->service->Resume(job));
  control_->executor.RunUntilIdle();
  EXPECT_EQ(Ask("later", "GPU-3").assignments_size(), 1);
}

// ---- Finals ----

TEST_F(MixedFarmTest, AFinalWhoseDeviceIsLostBeginsAgainOnAnother) {
  Join("one", HostDevice("CPU-1"));
  Join("two", HostDevice("CPU-2"));
  const std::string job = Submit();
  const auto final = UntilFinal("one", "CPU-1");
  ASSERT_TRUE(final.has_value());
  Run("one", *final, 2);
  Leave("one");
  Restart();
  control_->executor.RunUntilIdle();
  // What is left of it is not run on the other device.
  const auto again = UntilFinal("two", "CPU-2");
  ASSERT_TRUE(again.has_value());
  EXPECT_NE(again->unit_id(), final->unit_id());
  ASSERT_EQ(again->trials_size(), final->trials_size());
  std::set<std::string> before, after;
  for (const auto& spec : final->trials()) before.insert(spec.config());
  for (const auto& spec : again->trials()) after.insert(spec.config());
  EXPECT_EQ(before.size(), after.size());
  Run("two", *again);
  const tunefarm::v1::Job ended = Job(job);
  EXPECT_EQ(ended.state(), tunefarm::v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(ended.studies(0).finals_device_uuid(), "CPU-2");
  EXPECT_TRUE(ended.studies(0).has_best());
  for (const Trial& trial : Trials(job)) {
    if (trial.ordinal() < again->trials(0).ordinal()) continue;
    EXPECT_EQ(trial.device_uuid(), "CPU-2");
    EXPECT_EQ(trial.outcome(), tunefarm::v1::OUTCOME_OK);
  }
}

TEST_F(MixedFarmTest, TheDeviceThatHadBegunAFinalGoesOnWithIt) {
  Join("one", HostDevice("CPU-1"));
  const std::string job = Submit();
  const auto final = UntilFinal("one", "CPU-1");
  ASSERT_TRUE(final.has_value());
  Run("one", *final, 2);
  Die("one", "CPU-1");
  const auto rest = UntilFinal("one+", "CPU-1");
  ASSERT_TRUE(rest.has_value());
  EXPECT_EQ(rest->unit_id(), final->unit_id());
  EXPECT_EQ(rest->trials_size(), final->trials_size() - 2);
  Run("one+", *rest);
  EXPECT_EQ(Job(job).state(), tunefarm::v1::JOB_STATE_SUCCEEDED);
}

// Finals that begin again count as one, however often they do.
TEST_F(MixedFarmTest, AFinalMayBeginAgainOften) {
  Join("one", HostDevice("CPU-1"));
  Join("two", HostDevice("CPU-2"));
  job_.set_agent_losses_max(1'000'000);
  const std::string job = Submit();
  std::string device = "CPU-1", id = "one", other_device = "CPU-2", other = "two";
  for (int i = 0; i < 8; ++i) {
    const auto final = UntilFinal(id, device);
    ASSERT_TRUE(final.has_value());
    Run(id, *final, 1);
    Die(id, device);
    id += "+";
    std::swap(id, other);
    std::swap(device, other_device);
    if (i % 3 == 1) Restart();
    control_->executor.RunUntilIdle();
  }
  const auto final = UntilFinal(id, device);
  ASSERT_TRUE(final.has_value());
  Run(id, *final);
  EXPECT_EQ(Job(job).state(), tunefarm::v1::JOB_STATE_SUCCEEDED);
  EXPECT_TRUE(Job(job).studies(0).has_best());
}

TEST_F(MixedFarmTest, FurtherFinalsStayOnTheDeviceUntilItLeaves) {
  for (const bool leaves : {false, true}) {
    job_.Clear();
    const std::string one = leaves ? "three" : "one", two = leaves ? "four" : "two";
    Join(one, HostDevice("CPU-" + one));
    Join(two, HostDevice("CPU-" + two));
    job_.mutable_policy()->set_no_reuse(true);
    const std::string job = Submit();
    const auto first = UntilFinal(one, "CPU-" + one);
    ASSERT_TRUE(first.has_value());
    Run(one, *first, 0, tunefarm::v1::OUTCOME_WRONG_RESULT);
    // The next ones are for the same device.
    EXPECT_EQ(Ask(two, "CPU-" + two).assignments_size(), 0);
    Restart();
    control_->executor.RunUntilIdle();
    EXPECT_EQ(Ask(two, "CPU-" + two).assignments_size(), 0);
    if (leaves) {
      Leave(one);
      const auto second = UntilFinal(two, "CPU-" + two);
      ASSERT_TRUE(second.has_value());
      Run(two, *second);
      // The best of the job before has failed here, and is compared once more.
      while (const auto further = UntilFinal(two, "CPU-" + two)) Run(two, *further);
    } else {
      const auto second = UntilFinal(one, "CPU-" + one);
      ASSERT_TRUE(second.has_value());
      Run(one, *second);
      Leave(one);
    }
    EXPECT_EQ(Job(job).state(), tunefarm::v1::JOB_STATE_SUCCEEDED);
    EXPECT_EQ(Job(job).studies(0).finals_device_uuid(), "CPU-" + (leaves ? two : one));
    Leave(two);
  }
}

// ---- Selectors ----

TEST_F(MixedFarmTest, ALabelSelectsTheDevicesOfItsAgents) {
  Join("one", HostDevice("CPU-1"), {{"rack", "a"}, {"room", "x y"}});
  Join("two", HostDevice("CPU-2"), {{"rack", "b"}});
  ASSERT_TRUE(SubmitFor("label:rack=b").ok());
  EXPECT_EQ(Ask("one", "CPU-1").assignments_size(), 0);
  const auto given = Ask("two", "CPU-2");
  EXPECT_EQ(given.assignments_size(), 1);
  EXPECT_EQ(Job(name_).studies_size(), 2);
  EXPECT_EQ(Job(name_).studies(0).device_selector(), "label:rack=b");
  // One that joins later has a part in it, also after a restart.
  Restart();
  Join("three", HostDevice("CPU-3"), {{"rack", "b"}});
  EXPECT_EQ(Ask("three", "CPU-3").assignments_size(), 1);
  EXPECT_EQ(Ask("one", "CPU-1").assignments_size(), 0);
}

TEST_F(MixedFarmTest, AnAgentIsSelectedByItsName) {
  Join("one", HostDevice("CPU-1"));
  Join("two", HostDevice("CPU-2"));
  ASSERT_TRUE(SubmitFor("agent:name of two").ok());
  EXPECT_EQ(Ask("one", "CPU-1").assignments_size(), 0);
  EXPECT_EQ(Ask("two", "CPU-2").assignments_size(), 1);
}

TEST_F(MixedFarmTest, AllClassesGetAStudyForEachProblem) {
  Join("one", HostDevice("CPU-1"));
  Join("two", LargeDevice("CPU-2"));
  Join("three", LargeDevice("CPU-3"));
  ASSERT_TRUE(SubmitFor("all-classes").ok());
  const tunefarm::v1::Job job = Job(name_);
  ASSERT_EQ(job.studies_size(), 4);
  std::vector<std::string> studies;
  for (const auto& study : job.studies()) studies.push_back(study.device_class_name() + " " + study.problem().key());
  EXPECT_EQ(std::set<std::string>(studies.begin(), studies.end()).size(), 4u);
  EXPECT_EQ(job.studies(0).problem().key(), job.studies(2).problem().key());
  const std::vector<std::pair<std::string, std::string>> agents = {{"one", "CPU-1"}, {"two", "CPU-2"}};
  for (int i = 0; i < 200 && Job(name_).state() != tunefarm::v1::JOB_STATE_SUCCEEDED; ++i) {
    for (const auto& [id, device] : agents) {
      const auto given = Ask(id, device);
      if (given.assignments_size() > 0) Run(id, given.assignments(0));
    }
  }
  EXPECT_EQ(Job(name_).state(), tunefarm::v1::JOB_STATE_SUCCEEDED);
  std::map<std::string, std::set<std::string>> classes;
  const auto bests = control_->service->catalog().List("", 100, "");
  ASSERT_TRUE(bests.ok());
  for (const auto& best : bests->first) {
    classes[best->problem().key()].insert(best->device_class_name());
  }
  EXPECT_EQ(classes.size(), 2u);
  for (const auto& [problem, names] : classes) EXPECT_THAT(names, ElementsAre("Large CPU", "Test CPU")) << problem;
}

TEST_F(MixedFarmTest, StartingConfigsAreForTheirProblemOnEveryClass) {
  Join("one", HostDevice("CPU-1"));
  Join("two", LargeDevice("CPU-2"));
  tunefarm::v1::Job job;
  *job.add_problems() = TestProblem(1024);
  *job.add_problems() = TestProblem(2048);
  job.set_device_selector("all-classes");
  auto* starting = job.add_starting_configs();
  starting->set_problem_index(1);
  (*starting->mutable_config()->mutable_values())["A"].set_int_value(8);
  (*starting->mutable_config()->mutable_values())["B"].set_int_value(2);
  ASSERT_TRUE(control_->service->Submit(job, TestKernel(), "", false).ok());
  control_->executor.RunUntilIdle();
  std::map<std::string, std::string> first;
  const std::vector<std::pair<std::string, std::string>> agents = {{"one", "CPU-1"}, {"two", "CPU-2"}};
  for (const auto& [id, device] : agents) {
    for (int i = 0; i < 60; ++i) {
      const auto given = Ask(id, device);
      if (given.assignments_size() == 0) continue;
      const auto& spec = given.assignments(0).trials(0);
      if (spec.ordinal() == 0) first[given.assignments(0).problem().key() + device] = spec.config();
      Run(id, given.assignments(0));
    }
  }
  int eights = 0;
  for (const auto& [study, config] : first) eights += config == "A=8,B=2" ? 1 : 0;
  EXPECT_EQ(first.size(), 4u);
  EXPECT_EQ(eights, 2);
}

TEST_F(MixedFarmTest, ASelectorThatSelectsNothingSaysWhatThereIs) {
  Join("one", HostDevice("CPU-1"), {{"rack", "a"}});
  Join("two", HostDevice("CPU-2"), {{"rack", "b"}});
  const auto expect = [&](const std::string& selector, const std::string& reason, const std::string& says) {
    const absl::Status status = SubmitFor(selector);
    EXPECT_EQ(ReasonOf(status), reason) << status;
    EXPECT_THAT(std::string(MessageOf(status)), HasSubstr(says));
  };
  expect("label:rack=c", "DEVICE_NOT_FOUND", "there are: label:rack=a, label:rack=b");
  expect("agent:nobody", "DEVICE_NOT_FOUND", "there are: agent:name of one, agent:name of two");
  expect("label:rack", "DEVICE_SELECTOR", "write label:KEY=VALUE");
  expect("agent:", "DEVICE_SELECTOR", "write agent:NAME");
  expect("rack:a", "DEVICE_SELECTOR", "there are label:KEY=VALUE and agent:NAME");
  expect("all-clases", "DEVICE_NOT_FOUND", "did you mean 'all-classes'?");
  expect(std::string(300, 'x'), "JOB_INVALID", "at most 256");
  Leave("two");
  expect("label:rack=b", "DEVICE_QUARANTINED", "takes work");
  expect("label:rack=c", "DEVICE_NOT_FOUND", "there are: label:rack=a");
}

TEST_F(MixedFarmTest, AQuestionAboutOneClassNamesOneClass) {
  Join("one", HostDevice("CPU-1"), {{"rack", "a"}});
  Join("two", LargeDevice("CPU-2"), {{"rack", "a"}, {"kind", "large"}});
  ASSERT_TRUE(SubmitFor("all-classes").ok());
  tunefarm::v1::LookupConfigRequest request;
  request.set_kernel("scale");
  *request.mutable_problem() = TestProblem(1024);
  request.set_device_selector("label:kind=large");
  EXPECT_TRUE(control_->service->lookup_api().LookupConfig(request).ok());
  request.set_device_selector("label:rack=a");
  const auto refused = control_->service->lookup_api().LookupConfig(request);
  EXPECT_EQ(ReasonOf(refused.status()), "DEVICE_SELECTOR");
  EXPECT_THAT(std::string(MessageOf(refused.status())), HasSubstr("Test CPU"));
}

TEST_F(MixedFarmTest, NamesOfAgentsAndLabelsAreWords) {
  wire::RegisterRequest about = About("one", "CPU-1");
  (*about.mutable_labels())["rack"] = "a\nagent:two";
  EXPECT_EQ(ReasonOf(control_->link().Register(about).status()), "AGENT_INVALID");
  about.clear_labels();
  about.set_display_name("one\ntwo");
  EXPECT_EQ(ReasonOf(control_->link().Register(about).status()), "AGENT_INVALID");
}

// ---- Configs that kill agents ----

class AgentKillerTest : public MixedFarmTest {
 protected:
  // Runs the job on one machine whose agent dies whenever it comes to a config that kills, until the job has ended.
  // Answers how many died.
  int RunToTheEnd(const std::string& job, const std::function<bool(const wire::TrialSpec&)>& kills) {
    Join("agent", HostDevice("CPU-1"));
    control_->executor.RunUntilIdle();
    std::string id = "agent";
    int died = 0;
    for (int i = 0; i < 2000 && Job(job).state() != tunefarm::v1::JOB_STATE_SUCCEEDED; ++i) {
      std::vector<wire::Assignment> given;
      const auto response = Ask(id, "CPU-1", 4);
      given.assign(response.assignments().begin(), response.assignments().end());
      bool dies = false;
      for (const wire::Assignment& assignment : given) {
        int survived = 0;
        for (const auto& spec : assignment.trials()) {
          dies = kills(spec);
          if (dies) break;
          ++survived;
        }
        most_in_hand_ = std::max(most_in_hand_, assignment.trials_size());
        if (!dies) Run(id, assignment);
        if (dies && survived > 0) Run(id, assignment, survived);
        if (dies) break;
      }
      if (!dies) continue;
      ++died;
      Die(id, "CPU-1");
      id += "+";
    }
    return died;
  }
  int most_in_hand_ = 0;
};

TEST_F(AgentKillerTest, AConfigThatKillsAgentsIsFoundAndLeftOut) {
  Join("first", HostDevice("CPU-0"));
  tunefarm::v1::Kernel kernel = TestKernel();
  for (int64_t b = 4; b <= 60; ++b) kernel.mutable_parameters(1)->mutable_values()->add_ints(b);
  *job_.add_problems() = TestProblem(1024);
  job_.mutable_strategy()->set_strategy_name("exhaustive");
  const auto submitted = control_->service->Submit(job_, kernel, "", false);
  ASSERT_TRUE(submitted.ok()) << submitted.status();
  Leave("first");
  const auto kills = [](const wire::TrialSpec& spec) { return spec.config() == "A=2,B=31"; };
  EXPECT_EQ(RunToTheEnd(submitted->name(), kills), 3);
  EXPECT_GT(most_in_hand_, 8) << "units are too small for this test";
  EXPECT_EQ(Job(submitted->name()).state(), tunefarm::v1::JOB_STATE_SUCCEEDED);
  int poisoned = 0, good = 0;
  for (const Trial& trial : Trials(submitted->name())) {
    good += trial.outcome() == tunefarm::v1::OUTCOME_OK ? 1 : 0;
    if (trial.outcome() == tunefarm::v1::OUTCOME_OK) continue;
    EXPECT_EQ(trial.outcome(), tunefarm::v1::OUTCOME_POISONED);
    EXPECT_EQ(trial.config().values().at("B").int_value(), 31);
    EXPECT_THAT(trial.message(), HasSubstr("3 agents were lost while they ran it"));
    ++poisoned;
  }
  EXPECT_EQ(poisoned, 1);
  EXPECT_GT(good, 100);
}

// Whoever is asked for the same again knows.
TEST_F(AgentKillerTest, WhatKilledAgentsIsRemembered) {
  Join("first", HostDevice("CPU-0"));
  job_.mutable_policy()->set_no_reuse(true);
  const std::string job = Submit();
  Leave("first");
  const auto kills = [](const wire::TrialSpec& spec) { return spec.config() == "A=4,B=2"; };
  EXPECT_EQ(RunToTheEnd(job, kills), 3);
  job_.clear_problems();
  const std::string again = Submit();
  epochs_.clear();
  Join("second", HostDevice("CPU-2"));
  for (int i = 0; i < 100 && Job(again).state() != tunefarm::v1::JOB_STATE_SUCCEEDED; ++i) {
    const auto response = Ask("second", "CPU-2");
    if (response.assignments_size() == 0) continue;
    for (const auto& spec : response.assignments(0).trials()) EXPECT_FALSE(kills(spec));
    Run("second", response.assignments(0));
  }
  EXPECT_EQ(Job(again).state(), tunefarm::v1::JOB_STATE_SUCCEEDED);
}

TEST_F(AgentKillerTest, AgentsThatLeaveInOrderSayNothingOfTheirUnits) {
  Join("one", HostDevice("CPU-1"));
  job_.mutable_budget()->set_max_trials(4);
  const std::string job = Submit();
  for (int i = 0; i < 10; ++i) {
    EXPECT_GE(Ask("one", "CPU-1", 4).assignments_size(), 1);
    Leave("one");
    Join("one", HostDevice("CPU-1"));
  }
  while (Job(job).state() != tunefarm::v1::JOB_STATE_SUCCEEDED) {
    const auto response = Ask("one", "CPU-1");
    ASSERT_GE(response.assignments_size(), 1);
    Run("one", response.assignments(0));
  }
  for (const Trial& trial : Trials(job)) EXPECT_EQ(trial.outcome(), tunefarm::v1::OUTCOME_OK);
}

}  // namespace
}  // namespace tunefarm
