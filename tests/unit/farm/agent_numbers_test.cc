#include "server/farm/agent_numbers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <string>

#include "server/base/status.h"

namespace tunefarm {
namespace {

using testing::HasSubstr;
using tunefarm::v1::Device;
using tunefarm::v1::Trial;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

Device GoodDevice() {
  Device device;
  device.set_uuid("GPU-1");
  device.set_memory_bytes(int64_t{80} << 30);
  device.set_peak_bytes_per_second(4.8e12);
  device.set_foreign_processes(-1);
  (*device.mutable_peak_flops_by_unit())["fp16"] = 1e15;
  return device;
}

Trial GoodTrial() {
  Trial trial;
  trial.set_ordinal(7);
  trial.set_outcome(tunefarm::v1::OUTCOME_OK);
  trial.set_compile_ms(12);
  trial.mutable_measurement()->set_median_ns(1000);
  trial.mutable_measurement()->add_sample_ns(1000);
  trial.mutable_resources()->set_registers(32);
  // What a kernel computes may be anything.
  trial.mutable_verification()->set_max_absolute_error(kInfinity);
  trial.mutable_verification()->add_first_mismatches()->set_actual(kNan);
  return trial;
}

TEST(AgentNumbersTest, NumbersOfDevicesAreChecked) {
  EXPECT_TRUE(CheckDeviceNumbers(GoodDevice()).ok());
  EXPECT_TRUE(CheckDeviceNumbers(Device()).ok());
  const std::function<void(Device*)> spoilers[] = {
      [](Device* d) { d->set_memory_bytes(-1); },
      [](Device* d) { d->set_memory_free_bytes(std::numeric_limits<int64_t>::min()); },
      [](Device* d) { d->set_clock_mhz(-1); },
      [](Device* d) { d->set_memory_clock_mhz(-1); },
      [](Device* d) { d->set_state_since_ms(-1); },
      [](Device* d) { d->set_foreign_processes(-2); },
      [](Device* d) { d->set_peak_bytes_per_second(kNan); },
      [](Device* d) { d->set_peak_bytes_per_second(-1); },
      [](Device* d) { d->set_peak_bytes_per_second(1e300); },
      [](Device* d) { d->set_baseline_ns(kInfinity); },
      [](Device* d) { (*d->mutable_peak_flops_by_unit())["fp8"] = -kInfinity; },
  };
  for (size_t i = 0; i < std::size(spoilers); ++i) {
    Device device = GoodDevice();
    spoilers[i](&device);
    const absl::Status refused = CheckDeviceNumbers(device);
    EXPECT_EQ(ReasonOf(refused), "AGENT_INVALID") << i;
    EXPECT_THAT(std::string(MessageOf(refused)), HasSubstr("GPU-1")) << i;
  }
}

TEST(AgentNumbersTest, ATrialWithANumberThatIsNoneIsLost) {
  Trial good = GoodTrial();
  LoseIfNotNumbers(&good);
  EXPECT_EQ(good.SerializeAsString(), GoodTrial().SerializeAsString());
  const std::function<void(Trial*)> spoilers[] = {
      [](Trial* t) { t->set_compile_ms(kNan); },
      [](Trial* t) { t->set_run_ms(-1); },
      [](Trial* t) { t->set_device_busy_ms(kInfinity); },
      [](Trial* t) { t->set_attempt(-1); },
      [](Trial* t) { t->set_reused_ordinal(-1); },
      [](Trial* t) { t->mutable_measurement()->set_median_ns(kNan); },
      [](Trial* t) { t->mutable_measurement()->set_median_ns(-1000); },
      [](Trial* t) { t->mutable_measurement()->set_ci_low_ns(-kInfinity); },
      [](Trial* t) { t->mutable_measurement()->set_ci_high_ns(1e300); },
      [](Trial* t) { t->mutable_measurement()->add_sample_ns(-1); },
      [](Trial* t) { t->mutable_measurement()->set_samples(-1); },
      [](Trial* t) { t->mutable_measurement()->set_power_watts(kNan); },
      [](Trial* t) { t->mutable_resources()->set_binary_bytes(-1); },
      [](Trial* t) {
        for (int i = 0; i < 4097; ++i) t->mutable_measurement()->add_sample_ns(1);
      },
  };
  for (size_t i = 0; i < std::size(spoilers); ++i) {
    Trial trial = GoodTrial();
    spoilers[i](&trial);
    LoseIfNotNumbers(&trial);
    EXPECT_EQ(trial.outcome(), tunefarm::v1::OUTCOME_LOST) << i;
    EXPECT_THAT(trial.message(), HasSubstr("the agent reported")) << i;
    EXPECT_FALSE(trial.has_measurement()) << i;
    EXPECT_EQ(trial.compile_ms() + trial.run_ms() + trial.device_busy_ms(), 0) << i;
    EXPECT_EQ(trial.ordinal(), 7) << i;
  }
}

}  // namespace
}  // namespace tunefarm
