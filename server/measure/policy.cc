#include "server/measure/policy.h"

#include <algorithm>
#include <cmath>

namespace tunefarm {
namespace {

using tunefarm::v1::MeasurementPolicy;

constexpr int kSamplesMax = 4096;
constexpr double kMinClockShare = 0.75;
// Far above what a busy machine does to an honest kernel.
constexpr double kNoisyRelativeHalfWidth = 0.5;

struct Preset {
  int warmup_launches, first_look_samples, min_samples, max_samples;
  double target_relative_half_width;
  int time_budget_ms, finalists, final_rounds;
};
constexpr Preset kFast = {1, 3, 5, 20, 0.02, 100, 3, 3};
constexpr Preset kDefault = {3, 6, 10, 100, 0.01, 500, 5, 5};
constexpr Preset kRigorous = {10, 10, 30, 1000, 0.003, 3000, 8, 9};

const Preset& PresetOf(const MeasurementPolicy& policy) {
  switch (policy.preset()) {
    case tunefarm::v1::MEASUREMENT_PRESET_FAST:
      return kFast;
    case tunefarm::v1::MEASUREMENT_PRESET_RIGOROUS:
      return kRigorous;
    default:
      return kDefault;
  }
}

int Resolve(int value, int preset, int max) { return std::clamp(value == 0 ? preset : value, 1, max); }

void ResolveSamples(const MeasurementPolicy& policy, const Preset& preset, MeasurementPolicy* resolved) {
  int min = Resolve(policy.min_samples(), preset.min_samples, kSamplesMax);
  int max = Resolve(policy.max_samples(), preset.max_samples, kSamplesMax);
  if (policy.max_samples() == 0) max = std::max(max, min);
  min = std::min(min, max);
  resolved->set_min_samples(min);
  resolved->set_max_samples(max);
  resolved->set_first_look_samples(Resolve(policy.first_look_samples(), std::min(preset.first_look_samples, max), max));
}

}  // namespace

MeasurementPolicy ResolvePolicy(const MeasurementPolicy& policy) {
  const Preset& preset = PresetOf(policy);
  MeasurementPolicy resolved = policy;
  if (resolved.preset() != tunefarm::v1::MEASUREMENT_PRESET_FAST &&
      resolved.preset() != tunefarm::v1::MEASUREMENT_PRESET_RIGOROUS) {
    resolved.set_preset(tunefarm::v1::MEASUREMENT_PRESET_DEFAULT);
  }
  resolved.set_warmup_launches(Resolve(policy.warmup_launches(), preset.warmup_launches, 1000));
  ResolveSamples(policy, preset, &resolved);
  const double target = policy.target_relative_half_width();
  resolved.set_target_relative_half_width(std::isfinite(target) && target > 0 ? std::min(target, 1.0)
                                                                              : preset.target_relative_half_width);
  resolved.set_time_budget_ms(Resolve(policy.time_budget_ms(), preset.time_budget_ms, 60'000));
  resolved.set_finalists(Resolve(policy.finalists(), preset.finalists, 32));
  resolved.set_final_rounds(Resolve(policy.final_rounds(), preset.final_rounds, kFinalRoundsMax));
  resolved.set_input_copies(Resolve(policy.input_copies(), 1, 16));
  if (policy.locked_clock_mhz() != 0) {
    resolved.set_locked_clock_mhz(std::clamp(policy.locked_clock_mhz(), kLockedClockMhzMin, kLockedClockMhzMax));
  }
  // -1 for "none", so that resolving twice does not bring the preset back.
  const double share = policy.min_clock_share();
  resolved.set_min_clock_share(std::isfinite(share) && share != 0 ? std::clamp(share, -1.0, 1.0) : kMinClockShare);
  const double noisy = policy.noisy_relative_half_width();
  resolved.set_noisy_relative_half_width(std::isfinite(noisy) && noisy != 0 ? std::max(noisy, -1.0)
                                                                            : kNoisyRelativeHalfWidth);
  return resolved;
}

}  // namespace tunefarm
