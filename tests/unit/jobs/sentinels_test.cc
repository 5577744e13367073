#include "server/farm/sentinels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "server/base/status.h"
#include "tests/unit/jobs/control_agents.h"

namespace tunefarm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using tunefarm::v1::Device;

Device Measured(const std::string& uuid, double stream_ns, const std::string& class_id = "gpu",
                double half_width = 0.01, const std::string& sentinel = "stream-1") {
  Device device;
  device.set_uuid(uuid);
  device.set_state(tunefarm::v1::DEVICE_STATE_READY);
  device.mutable_device_class()->set_id(class_id);
  auto* time = device.add_sentinels();
  time->set_name(sentinel);
  time->set_median_ns(stream_ns);
  time->set_relative_half_width(half_width);
  time->set_measured_at_ms(1);
  return device;
}

std::vector<std::string> Deviating(const std::vector<Device>& devices, double tolerance = 0.05) {
  std::vector<const Device*> compared;
  for (const Device& device : devices) compared.push_back(&device);
  std::vector<std::string> uuids;
  for (const auto& [uuid, reason] : FindDeviating(compared, tolerance)) uuids.push_back(uuid);
  return uuids;
}

TEST(FindDeviating, OfTwoTheSlowerOneAndOfManyWhoIsNotLikeMost) {
  EXPECT_THAT(Deviating({Measured("a", 1000)}), ElementsAre());
  EXPECT_THAT(Deviating({Measured("a", 1000), Measured("b", 1040)}), ElementsAre());
  EXPECT_THAT(Deviating({Measured("a", 1000), Measured("b", 1100)}), ElementsAre("b"));
  EXPECT_THAT(Deviating({Measured("a", 1000), Measured("b", 1100), Measured("c", 1110)}), ElementsAre("a"));
  EXPECT_THAT(Deviating({Measured("a", 1000), Measured("b", 1000), Measured("c", 1110), Measured("d", 1110)}),
              ElementsAre("c", "d"));
}

TEST(FindDeviating, OnlyWhatCanBeCompared) {
  EXPECT_THAT(Deviating({Measured("a", 1000, "h100"), Measured("b", 2000, "h200")}), ElementsAre());
  EXPECT_THAT(Deviating({Measured("a", 1000), Measured("b", 2000, "gpu", 0.01, "stream-2")}), ElementsAre());
  EXPECT_THAT(Deviating({Measured("a", 1000), Measured("b", 2000)}, 0), ElementsAre());
  Device sick = Measured("a", 1000);
  sick.set_state(tunefarm::v1::DEVICE_STATE_QUARANTINED);
  EXPECT_THAT(Deviating({sick, Measured("b", 2000)}), ElementsAre());
  Device without = Measured("a", 1000);
  without.clear_sentinels();
  EXPECT_THAT(Deviating({without, Measured("b", 2000)}), ElementsAre());
}

// 1,100 give or take 6 % may be 1,050.
TEST(FindDeviating, WhatIsNotKnownWellDeviatesOnlyByMore) {
  EXPECT_THAT(Deviating({Measured("a", 1000), Measured("b", 1100, "gpu", 0.06)}), ElementsAre());
  EXPECT_THAT(Deviating({Measured("a", 1000), Measured("b", 1200, "gpu", 0.06)}), ElementsAre("b"));
}

TEST(FindDeviating, OneOfSeveralSentinelsIsEnoughAndIsNamed) {
  Device a = Measured("a", 1000), b = Measured("b", 1000);
  for (Device* device : {&a, &b}) {
    auto* time = device->add_sentinels();
    time->set_name("arithmetic-1");
    time->set_median_ns(device == &a ? 500'000 : 600'000);
  }
  const auto deviating = FindDeviating({&a, &b}, 0.05);
  ASSERT_EQ(deviating.size(), 1);
  EXPECT_THAT(deviating.at("b"), HasSubstr("the sentinel arithmetic-1 takes 600"));
  EXPECT_THAT(deviating.at("b"), HasSubstr("20.0 % more than usual on the 2 devices of its class (5 % is allowed)"));
}

// ---- What control makes of it ----

class SentinelsTest : public ControlAgentsTest {
 protected:
  void RegisterMeasured(const std::string& id, const std::string& device, double stream_ns,
                        int64_t measured_at_ms = 1) {
    auto about = About(id, device);
    *about.mutable_devices(0)->mutable_sentinels() = Measured(device, stream_ns).sentinels();
    about.mutable_devices(0)->mutable_sentinels(0)->set_measured_at_ms(measured_at_ms);
    const auto response = control_->link().Register(about);
    ASSERT_TRUE(response.ok()) << response.status();
    epochs_[id] = response->epoch();
  }
  Device Shown(const std::string& uuid) { return *control_->service->devices().Get("devices/" + uuid); }
};

TEST_F(SentinelsTest, ADeviceThatDeviatesGetsNoWorkUntilAPersonReleasesIt) {
  RegisterMeasured("one", "CPU-1", 1000);
  RegisterMeasured("two", "CPU-2", 1200);
  Submit();
  EXPECT_EQ(Ask("two", "CPU-2").assignments_size(), 0);
  EXPECT_EQ(Ask("one", "CPU-1").assignments_size(), 1);
  EXPECT_EQ(Shown("CPU-2").state(), tunefarm::v1::DEVICE_STATE_QUARANTINED);
  EXPECT_THAT(Shown("CPU-2").state_reason(), HasSubstr("20.0 % more than usual"));
  ASSERT_TRUE(control_->service->ReleaseDevice("devices/CPU-2").ok());
  EXPECT_EQ(Shown("CPU-2").state(), tunefarm::v1::DEVICE_STATE_READY);
  EXPECT_EQ(Ask("two", "CPU-2").assignments_size(), 1);
  // What was released stays so, also when the same process registers again; not what is measured anew.
  RegisterMeasured("two", "CPU-2", 1200);
  EXPECT_EQ(Shown("CPU-2").state(), tunefarm::v1::DEVICE_STATE_READY);
  RegisterMeasured("two", "CPU-2", 1200, 2);
  EXPECT_EQ(Shown("CPU-2").state(), tunefarm::v1::DEVICE_STATE_QUARANTINED);
  RegisterMeasured("two", "CPU-2", 1010, 3);
  EXPECT_EQ(Shown("CPU-2").state(), tunefarm::v1::DEVICE_STATE_READY);
  EXPECT_EQ(Shown("CPU-2").state_reason(), "");
}

TEST_F(SentinelsTest, WhatIsNoTimeIsRefused) {
  const auto refuses = [this](const std::function<void(tunefarm::v1::SentinelTime*)>& spoil, int times = 1) {
    auto about = About("one", "CPU-1");
    for (int i = 0; i < times; ++i) *about.mutable_devices(0)->add_sentinels() = Measured("CPU-1", 1000).sentinels(0);
    spoil(about.mutable_devices(0)->mutable_sentinels(0));
    return ReasonOf(control_->link().Register(about).status()) == "AGENT_INVALID";
  };
  EXPECT_TRUE(refuses([](auto* time) { time->set_median_ns(std::nan("")); }));
  EXPECT_TRUE(refuses([](auto* time) { time->set_median_ns(0); }));
  EXPECT_TRUE(refuses([](auto* time) { time->set_median_ns(HUGE_VAL); }));
  EXPECT_TRUE(refuses([](auto* time) { time->set_relative_half_width(-1); }));
  EXPECT_TRUE(refuses([](auto* time) { time->set_relative_half_width(std::nan("")); }));
  EXPECT_TRUE(refuses([](auto* time) { time->set_name("two\nlines"); }));
  EXPECT_TRUE(refuses([](auto* time) { time->set_name(std::string(300, 'x')); }));
  EXPECT_TRUE(refuses([](auto*) {}, 17));
  EXPECT_FALSE(refuses([](auto*) {}, 16));
}

TEST_F(SentinelsTest, WhoIsLeftAloneIsComparedWithNobody) {
  RegisterMeasured("one", "CPU-1", 1000);
  RegisterMeasured("two", "CPU-2", 1200);
  EXPECT_EQ(Shown("CPU-2").state(), tunefarm::v1::DEVICE_STATE_QUARANTINED);
  tunefarm::agent::v1::DeregisterRequest end;
  end.set_agent_id("one");
  end.set_epoch(epochs_["one"]);
  ASSERT_TRUE(control_->link().Deregister(end).ok());
  EXPECT_EQ(Shown("CPU-2").state(), tunefarm::v1::DEVICE_STATE_READY);
  Submit();
  EXPECT_EQ(Ask("two", "CPU-2").assignments_size(), 1);
}

TEST_F(SentinelsTest, WhatAPersonHasHeldOutStaysSo) {
  RegisterMeasured("one", "CPU-1", 1000);
  RegisterMeasured("two", "CPU-2", 1010);
  ASSERT_TRUE(control_->service->QuarantineDevice("devices/CPU-1", "its fan is being replaced").ok());
  RegisterMeasured("two", "CPU-2", 1300, 2);  // nobody to compare with
  EXPECT_EQ(Shown("CPU-2").state(), tunefarm::v1::DEVICE_STATE_READY);
  EXPECT_EQ(Shown("CPU-1").state_reason(), "its fan is being replaced");
  ASSERT_TRUE(control_->service->ReleaseDevice("devices/CPU-1").ok());
  EXPECT_EQ(Shown("CPU-1").state(), tunefarm::v1::DEVICE_STATE_READY);
  EXPECT_EQ(Shown("CPU-2").state(), tunefarm::v1::DEVICE_STATE_QUARANTINED);
}

TEST_F(SentinelsTest, WhatAPersonSaidOutlivesTheDaemon) {
  RegisterMeasured("one", "CPU-1", 1000);
  RegisterMeasured("two", "CPU-2", 1200);
  RegisterMeasured("three", "CPU-3", 1000);
  ASSERT_TRUE(control_->service->ReleaseDevice("devices/CPU-2").ok());
  ASSERT_TRUE(control_->service->QuarantineDevice("devices/CPU-3", "its fan is being replaced").ok());
  Restart();
  EXPECT_EQ(Shown("CPU-2").state(), tunefarm::v1::DEVICE_STATE_READY);
  EXPECT_EQ(Shown("CPU-3").state_reason(), "its fan is being replaced");
  EXPECT_EQ(Ask("two", "CPU-2", 0).released_device_uuids_size(), 0) << "it was released before this daemon began";
  RegisterMeasured("two", "CPU-2", 1200, 2);
  EXPECT_EQ(Shown("CPU-2").state(), tunefarm::v1::DEVICE_STATE_QUARANTINED);
}

TEST_F(SentinelsTest, EachControlDaemonLearnsWhatAnotherWasTold) {
  control_ = nullptr;
  control_ = std::make_unique<Control>(store_.get(), &clock_, &entropy_, "a");
  RegisterMeasured("one", "CPU-1", 1000);
  RegisterMeasured("two", "CPU-2", 1200);
  Control other(store_.get(), &clock_, &entropy_, "b");
  const auto until_both_look = [&] {
    for (int i = 0; i < 4; ++i) {
      Ask("one", "CPU-1", 0);
      Ask("two", "CPU-2", 0);
      RunFor(std::chrono::seconds(10));
      other.executor.RunUntilIdle();
    }
  };
  until_both_look();
  Submit();
  ASSERT_TRUE(other.service->QuarantineDevice("devices/CPU-1", "its fan is being replaced").ok());
  ASSERT_TRUE(other.service->ReleaseDevice("devices/CPU-2").ok());
  until_both_look();
  EXPECT_EQ(Shown("CPU-1").state_reason(), "its fan is being replaced");
  EXPECT_EQ(Ask("one", "CPU-1").assignments_size(), 0);
  EXPECT_EQ(Shown("CPU-2").state(), tunefarm::v1::DEVICE_STATE_READY);
  ASSERT_TRUE(other.service->ReleaseDevice("devices/CPU-1").ok());
  RunFor(std::chrono::seconds(10));
  const auto response = Ask("one", "CPU-1");
  EXPECT_EQ(response.assignments_size(), 1);
  EXPECT_THAT(
      std::vector<std::string>(response.released_device_uuids().begin(), response.released_device_uuids().end()),
      ElementsAre("CPU-1"))
      << "its own agent is told by the daemon that serves it";
}

TEST_F(SentinelsTest, AnOrderThatCannotBeStoredIsRefused) {
  RegisterMeasured("one", "CPU-1", 1000);
  EXPECT_TRUE(absl::IsInvalidArgument(control_->service->QuarantineDevice("devices/CPU-1", std::string(2000, 'x'))));
  EXPECT_EQ(Shown("CPU-1").state(), tunefarm::v1::DEVICE_STATE_READY);
}

TEST_F(SentinelsTest, AnAgentThatIsTakenOverBringsItsSentinels) {
  RegisterMeasured("one", "CPU-1", 1000);
  RegisterMeasured("two", "CPU-2", 1200);
  Restart();
  Ask("one", "CPU-1", 0);
  Ask("two", "CPU-2", 0);
  EXPECT_EQ(Shown("CPU-1").state(), tunefarm::v1::DEVICE_STATE_READY);
  EXPECT_EQ(Shown("CPU-2").state(), tunefarm::v1::DEVICE_STATE_QUARANTINED);
}

}  // namespace
}  // namespace tunefarm
