#include "server/exec/frame_check.h"

#include <fmt/core.h>

#include <cmath>

#include "server/exec/frame_limits.h"
#include "server/measure/kept_samples.h"

namespace tunefarm {
namespace {

using namespace tunefarm::v1;          // NOLINT(google-build-using-namespace)
using namespace tunefarm::worker::v1;  // NOLINT(google-build-using-namespace)

constexpr size_t kHelloTextBytesMax = 1024;
constexpr int kLoweredNamesMax = 1024;
constexpr int kSamplesMax = 4096;
constexpr int kMismatchesMax = 8;
constexpr int kDevicesMax = 64;
constexpr int kNotesMax = 256;
constexpr size_t kInputsBytesMax = 64 * 1024;
constexpr size_t kReasonBytesMax = 256;

bool IsSaneTime(double value) { return std::isfinite(value) && value >= 0; }

// What an honest worker of the role may answer. Some of them it can only know of itself: a run worker sees its child's
// timeout, a compile worker its compiler's crash.
bool MayAnswer(WorkerRole role, Outcome outcome) {
  switch (outcome) {
    case OUTCOME_OK:
    case OUTCOME_PRUNED:
    case OUTCOME_OUT_OF_MEMORY:
    case OUTCOME_SANDBOX_VIOLATION:
    case OUTCOME_LOST:
    // A worker of either role may compile.
    case OUTCOME_COMPILE_ERROR:
    case OUTCOME_COMPILE_TIMEOUT:
    case OUTCOME_COMPILE_CRASH:
    // Triton's compiler may know that a device lacks what the launch would need.
    case OUTCOME_INFEASIBLE_LAUNCH:
      return true;
    case OUTCOME_LOAD_ERROR:
    case OUTCOME_RUN_TIMEOUT:
    case OUTCOME_RUN_CRASH:
    case OUTCOME_OUT_OF_BOUNDS:
    case OUTCOME_WRONG_RESULT:
    case OUTCOME_NOISY:
      return role == WorkerRole::kRun;
    default:
      return false;
  }
}

std::string CheckEnergy(const Energy& energy) {
  for (const double value : {energy.millijoules(), energy.ci_low_millijoules(), energy.ci_high_millijoules(),
                             energy.batch_seconds(), energy.power_watts(), energy.idle_power_watts()}) {
    if (!IsSaneTime(value)) return fmt::format("it reported an energy, a power or a time of {}", value);
  }
  if (energy.batches() < 0) return "it reported a negative count";
  if (energy.missing_because().size() > kFrameMessageBytesMax) return "it sent an oversized message";
  return "";
}

std::string CheckMeasurement(const Measurement& m) {
  for (const double value :
       {m.median_ns(), m.ci_low_ns(), m.ci_high_ns(), m.min_ns(), m.max_ns(), m.mean_ns(), m.stdev_ns()}) {
    if (!IsSaneTime(value)) return fmt::format("it reported a time of {} ns", value);
  }
  if (!IsSaneTime(m.device_busy_ms())) return fmt::format("it reported a device busy for {} ms", m.device_busy_ms());
  if (!IsSaneTime(m.power_watts())) return fmt::format("it reported a power of {} W", m.power_watts());
  if (m.samples() < 0 || m.launches_per_sample() < 0 || m.clock_mhz() < 0 || m.discarded_samples() < 0 ||
      m.input_copies() < 0) {
    return "it reported a negative count";
  }
  if (m.sample_ns_size() > kSamplesMax)
    return fmt::format("it sent {} samples, the limit is {}", m.sample_ns_size(), kSamplesMax);
  for (const float sample : m.sample_ns()) {
    if (!IsSaneTime(static_cast<double>(sample))) return fmt::format("it sent a sample of {} ns", sample);
  }
  if (m.yardstick_ns_size() > 0 && m.yardstick_ns_size() != m.sample_ns_size())
    return fmt::format("it sent {} times of a yardstick beside {} samples", m.yardstick_ns_size(), m.sample_ns_size());
  for (const float time : m.yardstick_ns()) {
    if (!IsSaneTime(static_cast<double>(time))) return fmt::format("it sent a yardstick's time of {} ns", time);
  }
  if (m.blocks_size() > kBlocksMax)
    return fmt::format("it sent {} blocks, the limit is {}", m.blocks_size(), kBlocksMax);
  for (const MeasurementBlock& block : m.blocks()) {
    if (block.samples() < 0 || block.discarded() < 0 || block.clock_mhz() < 0) return "it reported a negative count";
    if (!IsSaneTime(block.power_watts())) return fmt::format("it reported {} W", block.power_watts());
    if (block.throttle_reason().size() > kReasonBytesMax) return "it sent an oversized reason";
  }
  if (!IsSaneTime(m.clock_normalized_ns())) return fmt::format("it reported a time of {} ns", m.clock_normalized_ns());
  if (!(m.duty_cycle() >= 0 && m.duty_cycle() <= 1))
    return fmt::format("it reported a duty cycle of {}", m.duty_cycle());
  if (m.discard_reason().size() > kReasonBytesMax) return "it sent an oversized reason";
  if (std::string wrong = CheckEnergy(m.energy()); !wrong.empty()) return wrong;
  if (!StopReason_IsValid(m.stop_reason()) || !TimingMethod_IsValid(m.method())) return "it sent an unknown enumerator";
  return "";
}

std::string CheckResources(const ResourceUse& use) {
  for (const int64_t value : {int64_t{use.registers()}, int64_t{use.spill_bytes()}, int64_t{use.static_shared_bytes()},
                              int64_t{use.dynamic_shared_bytes()}, int64_t{use.local_bytes()},
                              int64_t{use.blocks_per_sm()}, use.binary_bytes()}) {
    if (value < 0) return fmt::format("it reported a resource use of {}", value);
  }
  return "";
}

}  // namespace

std::string CheckHello(const Hello& hello, WorkerRole role, std::string_view backend, size_t fds) {
  if (hello.version() != kFrameProtocolVersion) {
    return fmt::format("it speaks version {} of the protocol, this daemon version {}: reinstall so that both match",
                       hello.version(), kFrameProtocolVersion);
  }
  if (hello.role() != NameOf(role) || hello.backend() != backend) {
    return fmt::format("it identifies itself as another than the {} worker of {}", NameOf(role), backend);
  }
  if (hello.toolchain().size() > kHelloTextBytesMax || hello.sandbox_level().size() > kHelloTextBytesMax) {
    return "it sent an oversized greeting";
  }
  if (hello.has_warm_start() && role != WorkerRole::kRun) return "it leaves something to others that are not its like";
  if (fds != (hello.has_warm_start() ? 1u : 0u)) return fmt::format("it attached {} descriptors to its greeting", fds);
  return "";
}

std::string CheckPrepared(const Prepared& prepared, WorkerRole role, size_t fds) {
  if (prepared.message().size() > kFrameMessageBytesMax) return "it sent an oversized message";
  if (prepared.footprint_bytes() < 0)
    return fmt::format("it reported a footprint of {} bytes", prepared.footprint_bytes());
  if (!prepared.ok() && (prepared.outcome() == OUTCOME_OK || !MayAnswer(role, prepared.outcome()))) {
    return fmt::format("it answered a preparation with outcome {}", static_cast<int>(prepared.outcome()));
  }
  if (prepared.has_expected_outputs() && (role != WorkerRole::kRun || !prepared.ok())) {
    return "it sent outputs of a reference that it cannot have";
  }
  if (fds != (prepared.has_expected_outputs() ? 1u : 0u)) {
    return fmt::format("it attached {} descriptors to the end of its preparation", fds);
  }
  return "";
}

std::string CheckHealthReport(const HealthReport& report) {
  if (report.message().size() > kFrameMessageBytesMax) return "it sent an oversized message";
  if (!IsSaneTime(report.nanoseconds())) return fmt::format("it reported a time of {} ns", report.nanoseconds());
  if (report.ok() && report.nanoseconds() == 0) return "it claims to be sound without a time";
  if (report.foreign_processes() < -1) return "it reported a negative count";
  return "";
}

std::string CheckPhase(const PhaseBegan& phase) {
  if (phase.phase() == PHASE_UNSPECIFIED || !Phase_IsValid(phase.phase())) {
    return fmt::format("it announced the unknown phase {}", static_cast<int>(phase.phase()));
  }
  return "";
}

std::string CheckResult(const Result& result, WorkerRole role, size_t fds, bool needs_measurement) {
  if (!MayAnswer(role, result.outcome())) {
    return fmt::format("it answered with outcome {}, which a {} worker has not", static_cast<int>(result.outcome()),
                       NameOf(role));
  }
  if (!Phase_IsValid(result.phase()))
    return fmt::format("it named the unknown phase {}", static_cast<int>(result.phase()));
  if (result.message().size() > kFrameMessageBytesMax || result.log().size() > kFrameLogBytesMax + 256) {
    return "it sent an oversized message or log";
  }
  const size_t expected_fds = result.has_artifact() ? 1 : 0;
  if (fds != expected_fds) return fmt::format("it attached {} descriptors instead of {}", fds, expected_fds);
  const bool may_have_artifact = role == WorkerRole::kCompile && result.outcome() == OUTCOME_OK;
  if (result.has_artifact() != may_have_artifact) return "it sent a binary that it must not, or left one out";
  if (result.lowered_names_size() > kLoweredNamesMax)
    return fmt::format("it sent {} names", result.lowered_names_size());
  size_t option_bytes = 0;
  for (const std::string& option : result.compile_options()) option_bytes += option.size() + 1;
  if (option_bytes > kFrameOptionsBytesMax) return fmt::format("it named {} bytes of options", option_bytes);
  for (const double ms :
       {result.compile_ms(), result.load_ms(), result.verify_ms(), result.measure_ms(), result.device_busy_ms()}) {
    if (!IsSaneTime(ms)) return fmt::format("it reported {} ms", ms);
  }
  if (result.has_inputs() && !may_have_artifact) return "it named the headers of a binary that it did not send";
  if (result.inputs().packed_paths().size() > kInputsBytesMax) return "it named too many headers";
  const Verification& verification = result.verification();
  if (verification.first_mismatches_size() > kMismatchesMax) return "it sent too many mismatches";
  if (std::string wrong = CheckResources(result.resources()); !wrong.empty()) return wrong;
  if (std::string wrong = CheckMeasurement(result.measurement()); !wrong.empty()) return wrong;
  if (needs_measurement && result.outcome() == OUTCOME_OK &&
      !(result.measurement().median_ns() > 0 && result.measurement().samples() > 0)) {
    return "it claims success without a time";
  }
  return "";
}

std::string CheckProbeReport(const ProbeReport& report) {
  if (report.devices_size() > kDevicesMax)
    return fmt::format("it reported {} devices, the limit is {}", report.devices_size(), kDevicesMax);
  if (report.notes_size() > kNotesMax)
    return fmt::format("it sent {} notes, the limit is {}", report.notes_size(), kNotesMax);
  if (report.triton_version().size() > 64) return "it named an oversized release of Triton";
  for (const Device& device : report.devices()) {
    // The host has none of its own: the daemon keeps one for it.
    if (device.uuid().size() > 128) return "it reported a device with an oversized UUID";
    if (device.memory_bytes() < 0 || device.memory_free_bytes() < 0 || device.clock_mhz() < 0 ||
        device.memory_clock_mhz() < 0) {
      return "it reported a negative size or clock of a device";
    }
    if (!std::isfinite(device.peak_bytes_per_second()) || device.peak_bytes_per_second() < 0) {
      return fmt::format("it reported a device with {} bytes per second", device.peak_bytes_per_second());
    }
    for (const auto& [unit, flops] : device.peak_flops_by_unit()) {
      if (!std::isfinite(flops) || flops < 0) return fmt::format("it reported a device with {} FLOP per second", flops);
    }
  }
  return "";
}

}  // namespace tunefarm
