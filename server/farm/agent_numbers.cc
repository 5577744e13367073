#include "server/farm/agent_numbers.h"

#include <fmt/core.h>

#include <cmath>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/measure/kept_samples.h"

namespace tunefarm {
namespace {

using tunefarm::v1::Device;
using tunefarm::v1::Measurement;
using tunefarm::v1::ResourceUse;
using tunefarm::v1::Trial;

// Of a trial, in nanoseconds or milliseconds: longer than any trial takes, and short enough for sums of all of them.
constexpr double kTimeMax = 1e15;
// Of a device, in operations or bytes per second: a thousand times what the largest has.
constexpr double kRateMax = 1e20;
constexpr int kSamplesMax = 4096;

struct Number {
  std::string_view name;
  double value;
};

// The first that is not from 0 to `max`.
std::optional<Number> FirstBeyond(std::initializer_list<Number> numbers, double max) {
  for (const Number& number : numbers) {
    if (!(number.value >= 0 && number.value <= max)) return number;
  }
  return std::nullopt;
}

std::optional<Number> FirstNegative(std::initializer_list<std::pair<std::string_view, int64_t>> counts) {
  for (const auto& [name, value] : counts) {
    if (value < 0) return Number{name, static_cast<double>(value)};
  }
  return std::nullopt;
}

std::optional<Number> WrongIn(const Measurement& m) {
  if (const auto wrong = FirstBeyond({{"median_ns", m.median_ns()},
                                      {"ci_low_ns", m.ci_low_ns()},
                                      {"ci_high_ns", m.ci_high_ns()},
                                      {"min_ns", m.min_ns()},
                                      {"max_ns", m.max_ns()},
                                      {"mean_ns", m.mean_ns()},
                                      {"stdev_ns", m.stdev_ns()},
                                      {"power_watts", m.power_watts()},
                                      {"device_busy_ms", m.device_busy_ms()},
                                      {"clock_normalized_ns", m.clock_normalized_ns()},
                                      {"millijoules", m.energy().millijoules()},
                                      {"ci_low_millijoules", m.energy().ci_low_millijoules()},
                                      {"ci_high_millijoules", m.energy().ci_high_millijoules()},
                                      {"batch_seconds", m.energy().batch_seconds()},
                                      {"power_watts of an energy", m.energy().power_watts()},
                                      {"idle_power_watts", m.energy().idle_power_watts()}},
                                     kTimeMax)) {
    return wrong;
  }
  if (m.sample_ns_size() > kSamplesMax) return Number{"the number of samples", static_cast<double>(m.sample_ns_size())};
  for (const float sample : m.sample_ns()) {
    if (const auto wrong = FirstBeyond({{"sample_ns", static_cast<double>(sample)}}, kTimeMax)) return wrong;
  }
  if (const auto wrong = FirstBeyond({{"duty_cycle", m.duty_cycle()}}, 1)) return wrong;
  if (m.yardstick_ns_size() > kSamplesMax) {
    return Number{"the number of yardstick_ns", static_cast<double>(m.yardstick_ns_size())};
  }
  for (const float time : m.yardstick_ns()) {
    if (const auto wrong = FirstBeyond({{"yardstick_ns", static_cast<double>(time)}}, kTimeMax)) return wrong;
  }
  if (m.blocks_size() > kBlocksMax) return Number{"the number of blocks", static_cast<double>(m.blocks_size())};
  for (const tunefarm::v1::MeasurementBlock& block : m.blocks()) {
    if (const auto wrong = FirstBeyond({{"power_watts of a block", block.power_watts()}}, kTimeMax)) return wrong;
    if (const auto wrong = FirstNegative({{"samples of a block", block.samples()},
                                          {"discarded of a block", block.discarded()},
                                          {"clock_mhz of a block", block.clock_mhz()}})) {
      return wrong;
    }
  }
  return FirstNegative({{"samples", m.samples()},
                        {"launches_per_sample", m.launches_per_sample()},
                        {"clock_mhz", m.clock_mhz()},
                        {"discarded_samples", m.discarded_samples()},
                        {"batches", m.energy().batches()},
                        {"locked_clock_mhz", m.locked_clock_mhz()},
                        {"input_copies", m.input_copies()}});
}

std::optional<Number> WrongIn(const ResourceUse& use) {
  return FirstNegative({{"registers", use.registers()},
                        {"spill_bytes", use.spill_bytes()},
                        {"static_shared_bytes", use.static_shared_bytes()},
                        {"dynamic_shared_bytes", use.dynamic_shared_bytes()},
                        {"local_bytes", use.local_bytes()},
                        {"blocks_per_sm", use.blocks_per_sm()},
                        {"binary_bytes", use.binary_bytes()}});
}

std::optional<Number> WrongIn(const Trial& trial) {
  if (const auto wrong = FirstBeyond(
          {{"compile_ms", trial.compile_ms()}, {"run_ms", trial.run_ms()}, {"device_busy_ms", trial.device_busy_ms()}},
          kTimeMax)) {
    return wrong;
  }
  if (const auto wrong = FirstNegative({{"attempt", trial.attempt()}, {"reused_ordinal", trial.reused_ordinal()}})) {
    return wrong;
  }
  if (trial.has_measurement()) {
    if (const auto wrong = WrongIn(trial.measurement())) return wrong;
  }
  return trial.has_resources() ? WrongIn(trial.resources()) : std::nullopt;
}

absl::Status Refused(const Device& device, std::string_view name, double value) {
  return WithReason(
      InvalidArgument("device {} has {} = {}, which is no such number", device.uuid().substr(0, 64), name, value),
      "AGENT_INVALID");
}

}  // namespace

absl::Status CheckDeviceNumbers(const Device& device) {
  if (const auto wrong = FirstBeyond(
          {{"baseline_ns", device.baseline_ns()}, {"peak_bytes_per_second", device.peak_bytes_per_second()}},
          kRateMax)) {
    return Refused(device, wrong->name, wrong->value);
  }
  for (const auto& [unit, flops] : device.peak_flops_by_unit()) {
    if (const auto wrong = FirstBeyond({{"peak_flops_by_unit", flops}}, kRateMax)) {
      return Refused(device, wrong->name, wrong->value);
    }
  }
  if (const auto wrong = FirstNegative({{"memory_bytes", device.memory_bytes()},
                                        {"memory_free_bytes", device.memory_free_bytes()},
                                        {"clock_mhz", device.clock_mhz()},
                                        {"memory_clock_mhz", device.memory_clock_mhz()},
                                        {"state_since_ms", device.state_since_ms()}})) {
    return Refused(device, wrong->name, wrong->value);
  }
  // -1: not known.
  if (device.foreign_processes() < -1) return Refused(device, "foreign_processes", device.foreign_processes());
  return absl::OkStatus();
}

void LoseIfNotNumbers(Trial* trial) {
  const std::optional<Number> wrong = WrongIn(*trial);
  if (!wrong.has_value()) return;
  trial->set_outcome(tunefarm::v1::OUTCOME_LOST);
  trial->set_message(
      fmt::format("the agent reported {} = {}, which is no such number; update the agent", wrong->name, wrong->value));
  trial->clear_measurement();
  trial->clear_resources();
  trial->clear_verification();
  trial->clear_compile_ms();
  trial->clear_run_ms();
  trial->clear_device_busy_ms();
  trial->clear_attempt();
  trial->clear_reused();
  trial->clear_reused_ordinal();
  trial->clear_reused_trial();
}

}  // namespace tunefarm
