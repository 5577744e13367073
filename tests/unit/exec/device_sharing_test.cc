// What the workers of one device share: the baton, the outputs of references, and the judgement of its health.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "server/base/memfd.h"
#include "server/exec/baton.h"
#include "server/exec/device_health.h"
#include "server/exec/expected_outputs.h"

namespace tunefarm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Finding = DeviceHealth::Finding;

TEST(Baton, GoesFromOneToTheNextInTheirOrder) {
  Baton baton;
  const int a = 0, b = 0, c = 0, d = 0;
  std::vector<char> granted;
  baton.Take(&a, [&] { granted.push_back('a'); });
  baton.Take(&b, [&] { granted.push_back('b'); });
  baton.Take(&c, [&] { granted.push_back('c'); });
  baton.Take(&d, [&] { granted.push_back('d'); });
  EXPECT_THAT(granted, ElementsAre('a'));
  EXPECT_TRUE(baton.IsHeldBy(&a));
  EXPECT_TRUE(baton.IsWaiting(&c));
  baton.Drop(&c);  // It waits no longer: it died.
  baton.Drop(&a);
  EXPECT_THAT(granted, ElementsAre('a', 'b'));
  baton.Drop(&a);  // It has it no more.
  EXPECT_TRUE(baton.IsHeldBy(&b));
  baton.Drop(&b);
  baton.Drop(&d);
  EXPECT_THAT(granted, ElementsAre('a', 'b', 'd'));
  EXPECT_FALSE(baton.IsHeldBy(&d));
  EXPECT_FALSE(baton.IsHeldBy(nullptr));
}

TEST(Baton, MayBeGivenBackFromWithinTheGrant) {
  Baton baton;
  const int a = 0, b = 0;
  int granted = 0;
  baton.Take(&a, [] {});
  baton.Take(&b, [&] {
    ++granted;
    baton.Drop(&b);
    baton.Take(&b, [&] { ++granted; });
  });
  baton.Drop(&a);
  EXPECT_EQ(granted, 2);
  EXPECT_TRUE(baton.IsHeldBy(&b));
}

SharedMemfd Outputs(uint64_t bytes) {
  absl::StatusOr<UniqueFd> fd = CreateSealedMemfd("outputs", std::string(bytes, 'x'));
  EXPECT_TRUE(fd.ok());
  return {*std::move(fd), bytes};
}

TEST(ExpectedOutputs, ForgetWhatWasNotUsedForLongest) {
  ExpectedOutputs outputs(100, 60);
  outputs.Put("a", Outputs(40));
  outputs.Put("b", Outputs(40));
  EXPECT_NE(outputs.Find("a"), nullptr);
  const auto kept = outputs.Find("b");
  EXPECT_NE(outputs.Find("a"), nullptr);
  outputs.Put("c", Outputs(50));
  EXPECT_EQ(outputs.Find("b"), nullptr);
  EXPECT_EQ(kept->bytes, 40u) << "whoever has it keeps it";
  EXPECT_NE(outputs.Find("a"), nullptr);
  EXPECT_NE(outputs.Find("c"), nullptr);
}

TEST(ExpectedOutputs, KeepNothingBeyondTheirBounds) {
  ExpectedOutputs outputs(100, 60);
  outputs.Put("a", Outputs(30));
  outputs.Put("b", Outputs(61));
  EXPECT_EQ(outputs.Find("b"), nullptr);
  outputs.Put("a", Outputs(61));
  EXPECT_EQ(outputs.Find("a"), nullptr) << "what it replaces is out of date";
  for (int i = 0; i < 200; ++i) outputs.Put(std::to_string(i), Outputs(0));
  EXPECT_EQ(outputs.Find("100"), nullptr) << "each holds a descriptor";
  EXPECT_NE(outputs.Find("199"), nullptr);
}

tunefarm::worker::v1::HealthReport Report(bool ok, double nanoseconds) {
  tunefarm::worker::v1::HealthReport report;
  report.set_ok(ok);
  report.set_message(ok ? "" : "the sum is wrong");
  report.set_nanoseconds(nanoseconds);
  return report;
}

TEST(DeviceHealth, FirstSoundReportIsTheBaseline) {
  DeviceHealth health("device", 0);
  EXPECT_TRUE(health.is_due());
  EXPECT_EQ(health.OnReport(Report(true, 1000)), Finding::kSound);
  EXPECT_FALSE(health.is_due());
  EXPECT_EQ(health.baseline_ns(), 1000);
  health.RequireCheck();
  EXPECT_TRUE(health.is_due());
  EXPECT_EQ(health.OnReport(Report(true, 1900)), Finding::kSound) << "clocks vary";
  EXPECT_EQ(health.baseline_ns(), 1000);
}

Finding StaySlow(DeviceHealth* health, double nanoseconds) {
  for (int look = 1; look < DeviceHealth::kSlowLooks; ++look) {
    EXPECT_EQ(health->OnReport(Report(true, nanoseconds)), Finding::kLookAtOnce);
  }
  return health->OnReport(Report(true, nanoseconds));
}

TEST(DeviceHealth, ClocksMayTakeAMomentToRise) {
  DeviceHealth health("device", 1000);
  for (int look = 1; look < DeviceHealth::kSlowLooks; ++look) {
    EXPECT_EQ(health.OnReport(Report(true, 5000)), Finding::kLookAtOnce);
    EXPECT_TRUE(health.is_due());
  }
  EXPECT_EQ(health.OnReport(Report(true, 1100)), Finding::kSound);
  EXPECT_EQ(StaySlow(&health, 5000), Finding::kLookAgain) << "and not sick: it was sound between";
}

TEST(DeviceHealth, TwoFailuresInARowMakeItSick) {
  DeviceHealth health("device", 1000);
  EXPECT_EQ(StaySlow(&health, 2001), Finding::kLookAgain);
  EXPECT_EQ(health.OnReport(Report(true, 1000)), Finding::kSound);
  EXPECT_EQ(health.OnReport(Report(false, 0)), Finding::kLookAgain) << "not in a row";
  EXPECT_EQ(health.OnWorkerLost("ended with exit code 3"), Finding::kSick);
  EXPECT_TRUE(health.is_due());
  EXPECT_THAT(health.reason(), HasSubstr("exit code 3"));
  EXPECT_EQ(StaySlow(&health, 5000), Finding::kLookAgain);
  EXPECT_EQ(StaySlow(&health, 5000), Finding::kSick);
  EXPECT_THAT(health.reason(), HasSubstr("5.0 times"));
}

TEST(DeviceHealth, RestsLongerEachTime) {
  DeviceHealth health("device", 0);
  EXPECT_EQ(health.NextRest(), std::chrono::seconds(30));
  EXPECT_EQ(health.NextRest(), std::chrono::seconds(60));
  for (int i = 0; i < 50; ++i) health.NextRest();
  EXPECT_EQ(health.NextRest(), std::chrono::seconds(900));
  EXPECT_EQ(health.OnReport(Report(true, 1)), Finding::kSound);
  EXPECT_EQ(health.NextRest(), std::chrono::seconds(30));
}

}  // namespace
}  // namespace tunefarm
