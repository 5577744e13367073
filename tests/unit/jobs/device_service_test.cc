// Devices that leave service, and devices whose work waits, through the whole farm.
#include <chrono>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/store/best_store.h"
#include "tests/unit/jobs/farm.h"

namespace tunefarm {
namespace {

class DeviceServiceTest : public testing::Test {
 protected:
  // Runs on these devices find them out of service.
  void BreakDevices(Farm* farm, const std::set<std::string>& uuids, const std::string& reason) {
    farm->evaluator().set_scripter([uuids](const FakeEvaluator::Question& question) {
      FakeEvaluator::Script script;
      script.out_of_service = question.is_run && uuids.count(question.device_uuid) > 0;
      return script;
    });
    for (const std::string& uuid : uuids) farm->service().SetDeviceQuarantine(uuid, reason);
  }
  void RepairDevice(Farm* farm, const std::string& uuid) {
    farm->evaluator().set_scripter(nullptr);
    farm->service().SetDeviceQuarantine(uuid, "");
  }
  // Every ordinal has a result of its own, and none is LOST.
  void ExpectComplete(Farm* farm, const std::string& job) {
    std::set<int64_t> ordinals;
    for (const tunefarm::v1::Trial& trial : farm->Trials(job)) {
      EXPECT_EQ(trial.outcome(), tunefarm::v1::OUTCOME_OK) << trial.message();
      EXPECT_TRUE(ordinals.insert(trial.ordinal()).second);
    }
    EXPECT_EQ(farm->Job(job).progress().done(), 11);
    EXPECT_EQ(*ordinals.rbegin() + 1, static_cast<int64_t>(ordinals.size()));
    EXPECT_TRUE(farm->Job(job).studies(0).has_best());
  }

  TemporaryDirectory directory_;
};

TEST_F(DeviceServiceTest, TrialsInHandOfOneGoToAnother) {
  Farm farm(directory_.path(), {HostDevice("HOST-1"), HostDevice("HOST-2")});
  const std::string job = farm.SubmitJob({1024});
  ASSERT_TRUE(farm.RunUntil([&] { return farm.evaluator().runs().size() >= 3; }));
  BreakDevices(&farm, {"HOST-1"}, "its health check fails");
  ASSERT_TRUE(farm.Finish(job));
  EXPECT_EQ(farm.Job(job).state(), tunefarm::v1::JOB_STATE_SUCCEEDED);
  ExpectComplete(&farm, job);
}

TEST_F(DeviceServiceTest, WithoutAnotherTheyWaitUntilItIsBack) {
  Farm farm(directory_.path());
  const std::string job = farm.SubmitJob({1024});
  ASSERT_TRUE(farm.RunUntil([&] { return farm.evaluator().runs().size() >= 3; }));
  BreakDevices(&farm, {"HOST-1"}, "its health check fails");
  farm.RunFor(std::chrono::minutes(5));
  EXPECT_FALSE(farm.Ended(job));
  const size_t runs = farm.evaluator().runs().size();
  farm.RunFor(std::chrono::minutes(5));
  EXPECT_EQ(farm.evaluator().runs().size(), runs) << "nothing is tried on a device that is out of service";
  RepairDevice(&farm, "HOST-1");
  ASSERT_TRUE(farm.Finish(job));
  ExpectComplete(&farm, job);
}

TEST_F(DeviceServiceTest, AFinalThatIsGivenBackBeginsAgain) {
  Farm farm(directory_.path());
  const std::string job = farm.SubmitJob({1024});
  ASSERT_TRUE(farm.RunUntil([&] { return farm.Job(job).progress().finals_total() > 0; }));
  const size_t before = farm.evaluator().runs().size();
  ASSERT_TRUE(farm.RunUntil([&] { return farm.evaluator().runs().size() > before + 4; }));
  BreakDevices(&farm, {"HOST-1"}, "its health check fails");
  farm.RunFor(std::chrono::seconds(30));
  EXPECT_FALSE(farm.Ended(job));
  RepairDevice(&farm, "HOST-1");
  ASSERT_TRUE(farm.Finish(job));
  ExpectComplete(&farm, job);
}

TEST_F(DeviceServiceTest, ACancelledJobEndsAlthoughItsDeviceIsGone) {
  Farm farm(directory_.path());
  const std::string job = farm.SubmitJob({1024});
  ASSERT_TRUE(farm.RunUntil([&] { return farm.evaluator().runs().size() >= 3; }));
  BreakDevices(&farm, {"HOST-1"}, "its health check fails");
  farm.RunFor(std::chrono::milliseconds(15));
  ASSERT_TRUE(farm.service().Cancel(job).ok());
  ASSERT_TRUE(farm.Finish(job));
  EXPECT_EQ(farm.Job(job).state(), tunefarm::v1::JOB_STATE_CANCELLED);
}

TEST_F(DeviceServiceTest, ADeviceSaysWhyItsWorkWaits) {
  Farm farm(directory_.path());
  farm.service().SetDeviceWaiting("HOST-1", "another process measures on it");
  farm.service().SetDeviceWaiting("HOST-9", "nobody knows it");
  tunefarm::v1::Device device = farm.service().devices().List().at(0);
  EXPECT_EQ(device.state(), tunefarm::v1::DEVICE_STATE_READY);
  EXPECT_EQ(device.state_reason(), "another process measures on it");
  farm.service().SetDeviceWaiting("HOST-1", "");
  EXPECT_EQ(farm.service().devices().List().at(0).state_reason(), "");
  // What took it out of service is not overwritten.
  farm.service().SetDeviceQuarantine("HOST-1", "sick");
  farm.service().SetDeviceWaiting("HOST-1", "");
  EXPECT_EQ(farm.service().devices().List().at(0).state_reason(), "sick");
}

TEST_F(DeviceServiceTest, AJobThatWaitsForItsDeviceSaysWhy) {
  Farm farm(directory_.path());
  const std::string job = farm.SubmitJob({1024});
  std::vector<std::string> told;
  const auto watch = farm.service().Watch(
      job, 0,
      [&](const tunefarm::v1::JobEvent& event) {
        if (event.has_job()) told.push_back(event.job().state_reason());
      },
      [](const absl::Status&) {});
  farm.RunControl();
  told.clear();
  farm.service().SetDeviceWaiting("HOST-1", "another process measures on it");
  farm.RunControl();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_THAT(told[0], testing::HasSubstr("CPU: another process measures on it"));
  EXPECT_EQ(farm.Job(job).state_reason(), told[0]);
  farm.service().SetDeviceWaiting("HOST-1", "");
  farm.RunControl();
  EXPECT_EQ(told.back(), "");
  ASSERT_TRUE(farm.Finish(job));
  EXPECT_EQ(farm.Job(job).state_reason(), "");
}

// Compilation, inputs and reference report nothing before they end; meanwhile the job says what it waits for.
TEST_F(DeviceServiceTest, AJobNoneOfWhoseTrialsEndsSaysWhatItWaitsFor) {
  Farm farm(directory_.path());
  farm.evaluator().set_scripter([](const FakeEvaluator::Question& question) {
    FakeEvaluator::Script script;
    if (question.problem == "N=20000000") script.run_time = std::chrono::seconds(45);
    return script;
  });
  tunefarm::v1::Job two_of_each;
  two_of_each.mutable_budget()->set_max_trials(2);
  const std::string job = farm.SubmitJob({1000, 20'000'000}, TestKernel(), two_of_each);
  std::vector<std::string> told;
  const auto watch = farm.service().Watch(
      job, 0,
      [&](const tunefarm::v1::JobEvent& event) {
        if (event.has_job() && !event.job().state_reason().empty()) told.push_back(event.job().state_reason());
      },
      [](const absl::Status&) {});
  ASSERT_TRUE(farm.RunUntil([&] { return !told.empty(); }));
  EXPECT_EQ(farm.Job(job).progress().done(), 2);
  EXPECT_EQ(farm.Job(job).progress().eta_ms(), 0) << "the pace of the small problem says nothing of the large one";
  EXPECT_EQ(farm.Job(job).state_reason(), told[0]);
  ASSERT_TRUE(farm.RunUntil([&] { return farm.Job(job).progress().done() == 4; }));
  EXPECT_EQ(farm.Job(job).state_reason(), "");
  const std::string first = "waiting for the first trial of N=20000000 for more than ";
  const std::string doing = ": it compiles, its inputs and its reference are prepared, or other jobs use the device";
  // The second trial takes at most as long as the first, so that nothing is reported.
  EXPECT_EQ(told,
            (std::vector<std::string>{first + "10.0 s" + doing, first + "20.0 s" + doing, first + "40.0 s" + doing}));
}

TEST_F(DeviceServiceTest, TimeWithoutADeviceIsNoWaitForATrial) {
  Farm farm(directory_.path());
  const std::string job = farm.SubmitJob({1024});
  ASSERT_TRUE(farm.RunUntil([&] { return farm.Job(job).progress().done() >= 3; }));
  BreakDevices(&farm, {"HOST-1"}, "its health check fails");
  farm.RunFor(std::chrono::minutes(5));
  EXPECT_THAT(farm.Job(job).state_reason(),
              testing::MatchesRegex("no device that the job can use is in service; .*CPU: its health check fails"));
  farm.evaluator().set_scripter([](const FakeEvaluator::Question& /*question*/) {
    FakeEvaluator::Script script;
    script.run_time = std::chrono::seconds(45);
    return script;
  });
  farm.service().SetDeviceQuarantine("HOST-1", "");
  farm.RunFor(std::chrono::seconds(5));
  EXPECT_EQ(farm.Job(job).state_reason(), "");
  farm.RunFor(std::chrono::seconds(10));
  EXPECT_THAT(farm.Job(job).state_reason(), testing::HasSubstr("waiting for the next trial"));
  EXPECT_THAT(farm.Job(job).state_reason(), testing::HasSubstr("for more than 10.0 s: "));
}

TEST_F(DeviceServiceTest, AJobWithoutPromotionLeavesNoBest) {
  Farm farm(directory_.path());
  tunefarm::v1::Job measures_only;
  measures_only.set_no_promotion(true);
  const std::string job = farm.SubmitJob({1024}, TestKernel(), measures_only);
  ASSERT_TRUE(farm.Finish(job));
  EXPECT_EQ(farm.Job(job).state(), tunefarm::v1::JOB_STATE_SUCCEEDED);
  EXPECT_TRUE(farm.Job(job).studies(0).has_incumbent());
  EXPECT_TRUE(farm.store().bests()->LoadBests()->empty());
  // Nor does the best there is take part.
  ASSERT_TRUE(farm.Finish(farm.SubmitJob({1024})));
  const auto bests = farm.store().bests()->LoadBests();
  ASSERT_EQ(bests->size(), 1u);
  ASSERT_TRUE(farm.Finish(farm.SubmitJob({1024}, TestKernel(), measures_only)));
  EXPECT_EQ(farm.store().bests()->LoadBests()->at(0).revision, bests->at(0).revision);
}

}  // namespace
}  // namespace tunefarm
