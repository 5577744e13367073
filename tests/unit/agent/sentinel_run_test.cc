#include "server/agent/sentinel_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "server/agent/sentinel_kernels.h"
#include "server/base/check.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_evaluator.h"
#include "tests/fakes/manual_executor.h"

namespace tunefarm {
namespace {

using testing::StartsWith;
using tunefarm::v1::Device;

Device OfKind(const std::string& uuid, tunefarm::v1::DeviceKind kind) {
  Device device;
  device.set_uuid(uuid);
  device.set_state(tunefarm::v1::DEVICE_STATE_READY);
  auto* device_class = device.mutable_device_class();
  device_class->set_kind(kind);
  device_class->set_display_name("Test device");
  device_class->set_sm_count(2);
  device_class->set_memory_gib(1);
  if (kind == tunefarm::v1::DEVICE_KIND_CUDA) device_class->set_compute_capability(90);
  return device;
}

class SentinelRunTest : public testing::Test {
 protected:
  std::vector<Device> Measure(const std::vector<Device>& devices) {
    std::optional<std::vector<Device>> measured;
    MeasureSentinels(&evaluator_, &clock_, devices, [&](std::vector<Device> with_times) {
      EXPECT_FALSE(measured.has_value());
      measured = std::move(with_times);
    });
    executor_.AdvanceBy(std::chrono::seconds(10));
    TUNEFARM_CHECK(measured.has_value());
    return *measured;
  }

  FakeClock clock_;
  ManualExecutor executor_{&clock_};
  FakeEvaluator evaluator_{&executor_};
};

TEST_F(SentinelRunTest, EachDeviceHasTheTimesOfItsSentinels) {
  evaluator_.set_scripter([](const FakeEvaluator::Question& question) {
    FakeEvaluator::Script script;
    script.median_ns = question.device_uuid == "GPU-1" ? 1000 : 2000;
    return script;
  });
  const auto devices =
      Measure({OfKind("GPU-1", tunefarm::v1::DEVICE_KIND_CUDA), OfKind("CPU-1", tunefarm::v1::DEVICE_KIND_HOST)});
  ASSERT_EQ(devices.size(), 2);
  for (const Device& device : devices) {
    ASSERT_EQ(device.sentinels_size(), 2) << device.uuid();
    EXPECT_THAT(device.sentinels(0).name(), StartsWith("stream-"));
    EXPECT_THAT(device.sentinels(1).name(), StartsWith("arithmetic-"));
    EXPECT_EQ(device.sentinels(0).median_ns(), device.uuid() == "GPU-1" ? 1000 : 2000);
    EXPECT_DOUBLE_EQ(device.sentinels(0).relative_half_width(), 0.01);
    EXPECT_GT(device.sentinels(0).measured_at_ms(), FakeClock::kStartWallMs);
  }
  EXPECT_NE(devices[0].sentinels(0).name(), devices[1].sentinels(0).name());
  for (const auto& run : evaluator_.runs()) EXPECT_TRUE(run.had_artifact && run.had_reference);
}

TEST_F(SentinelRunTest, WhatCannotBeMeasuredIsLeftOut) {
  evaluator_.set_scripter([](const FakeEvaluator::Question& question) {
    FakeEvaluator::Script script;
    if (question.device_uuid == "CPU-2") script.run = tunefarm::v1::OUTCOME_WRONG_RESULT;
    return script;
  });
  Device sick = OfKind("CPU-3", tunefarm::v1::DEVICE_KIND_HOST);
  sick.set_state(tunefarm::v1::DEVICE_STATE_QUARANTINED);
  const auto devices =
      Measure({OfKind("CPU-1", tunefarm::v1::DEVICE_KIND_HOST), OfKind("CPU-2", tunefarm::v1::DEVICE_KIND_HOST), sick});
  ASSERT_EQ(devices.size(), 3);
  EXPECT_EQ(devices[0].sentinels_size(), 2);
  EXPECT_EQ(devices[1].sentinels_size(), 0);
  EXPECT_EQ(devices[2].sentinels_size(), 0);
}

TEST_F(SentinelRunTest, WhatFailsTwiceIsMeasuredByTheThirdAttempt) {
  int runs = 0;
  evaluator_.set_scripter([&](const FakeEvaluator::Question& question) {
    FakeEvaluator::Script script;
    if (question.is_run && ++runs == 1) script.run = tunefarm::v1::OUTCOME_LOST;
    if (question.is_run && runs == 2) script.run = tunefarm::v1::OUTCOME_WRONG_RESULT;
    return script;
  });
  const auto devices = Measure({OfKind("CPU-1", tunefarm::v1::DEVICE_KIND_HOST)});
  EXPECT_EQ(devices[0].sentinels_size(), 2);
  EXPECT_EQ(evaluator_.runs().size(), 4);
}

TEST_F(SentinelRunTest, WhatFailsThreeTimesIsNotRunAgain) {
  evaluator_.set_scripter([](const FakeEvaluator::Question&) {
    FakeEvaluator::Script script;
    script.run = tunefarm::v1::OUTCOME_LOST;
    return script;
  });
  EXPECT_EQ(Measure({OfKind("CPU-1", tunefarm::v1::DEVICE_KIND_HOST)})[0].sentinels_size(), 0);
  EXPECT_EQ(evaluator_.runs().size(), 3);
}

TEST_F(SentinelRunTest, NoDevicesNoWait) { EXPECT_TRUE(Measure({}).empty()); }

}  // namespace
}  // namespace tunefarm
