#include "server/exec/policy.h"

#include <algorithm>
#include <cmath>

namespace tunefarm {
namespace {

using tunefarm::v1::MeasurementPolicy;

struct Preset {
  int warmup_launches, min_samples, max_samples;
  double target_relative_half_width;
  int time_budget_ms, finalists, final_rounds;
};
constexpr Preset kFast = {1, 5, 20, 0.02, 100, 3, 3};
constexpr Preset kDefault = {3, 10, 100, 0.01, 500, 5, 5};
constexpr Preset kRigorous = {10, 30, 1000, 0.003, 3000, 8, 9};

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

}  // namespace

MeasurementPolicy ResolvePolicy(const MeasurementPolicy& policy) {
  const Preset& preset = PresetOf(policy);
  MeasurementPolicy resolved = policy;
  if (resolved.preset() != tunefarm::v1::MEASUREMENT_PRESET_FAST &&
      resolved.preset() != tunefarm::v1::MEASUREMENT_PRESET_RIGOROUS) {
    resolved.set_preset(tunefarm::v1::MEASUREMENT_PRESET_DEFAULT);
  }
  resolved.set_warmup_launches(Resolve(policy.warmup_launches(), preset.warmup_launches, 1000));
  resolved.set_max_samples(Resolve(policy.max_samples(), preset.max_samples, 4096));
  // A maximum given alone must not be overruled by the preset's minimum.
  resolved.set_min_samples(std::min(Resolve(policy.min_samples(), preset.min_samples, 4096), resolved.max_samples()));
  const double target = policy.target_relative_half_width();
  resolved.set_target_relative_half_width(std::isfinite(target) && target > 0 ? std::min(target, 1.0)
                                                                              : preset.target_relative_half_width);
  resolved.set_time_budget_ms(Resolve(policy.time_budget_ms(), preset.time_budget_ms, 60'000));
  resolved.set_finalists(Resolve(policy.finalists(), preset.finalists, 32));
  resolved.set_final_rounds(Resolve(policy.final_rounds(), preset.final_rounds, 64));
  return resolved;
}

}  // namespace tunefarm
