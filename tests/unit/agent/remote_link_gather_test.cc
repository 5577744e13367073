// How results are gathered into reports, and when they are sent.
#include "tests/unit/agent/remote_link_farm.h"

namespace tunefarm {
namespace {

namespace wire = tunefarm::agent::v1;
using std::chrono::seconds;

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

}  // namespace
}  // namespace tunefarm
