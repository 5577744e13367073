#include "server/measure/policy.h"

#include <gtest/gtest.h>

namespace tunefarm {
namespace {

using namespace tunefarm::v1;  // NOLINT(google-build-using-namespace)

TEST(Policy, PresetsFillWhatIsZero) {
  const MeasurementPolicy unset = ResolvePolicy({});
  EXPECT_EQ(unset.preset(), MEASUREMENT_PRESET_DEFAULT);
  EXPECT_EQ(unset.warmup_launches(), 3);
  EXPECT_EQ(unset.min_samples(), 10);
  EXPECT_EQ(unset.max_samples(), 100);
  EXPECT_EQ(unset.target_relative_half_width(), 0.01);
  EXPECT_EQ(unset.time_budget_ms(), 500);
  EXPECT_EQ(unset.finalists(), 5);
  EXPECT_EQ(unset.final_rounds(), 5);
  EXPECT_EQ(unset.first_look_samples(), 6);
  EXPECT_EQ(unset.input_copies(), 1);
  EXPECT_EQ(unset.locked_clock_mhz(), 0) << "free";
  EXPECT_EQ(unset.min_clock_share(), 0.75);
  EXPECT_EQ(unset.noisy_relative_half_width(), 0.5);
  EXPECT_EQ(unset.method(), TIMING_METHOD_UNSPECIFIED) << "the worker chooses by what it times";

  MeasurementPolicy policy;
  policy.set_preset(MEASUREMENT_PRESET_RIGOROUS);
  policy.set_time_budget_ms(7);
  const MeasurementPolicy rigorous = ResolvePolicy(policy);
  EXPECT_EQ(rigorous.time_budget_ms(), 7);
  EXPECT_EQ(rigorous.max_samples(), 1000);
  EXPECT_EQ(rigorous.finalists(), 8);
  EXPECT_EQ(ResolvePolicy(rigorous).SerializeAsString(), rigorous.SerializeAsString());

  policy.set_preset(static_cast<MeasurementPreset>(99));
  EXPECT_EQ(ResolvePolicy(policy).preset(), MEASUREMENT_PRESET_DEFAULT);
}

TEST(Policy, NumbersAreBroughtIntoRange) {
  MeasurementPolicy policy;
  policy.set_warmup_launches(-5);
  policy.set_max_samples(4);
  policy.set_time_budget_ms(1'000'000);
  policy.set_target_relative_half_width(-1);
  const MeasurementPolicy resolved = ResolvePolicy(policy);
  EXPECT_EQ(resolved.warmup_launches(), 1);
  EXPECT_EQ(resolved.max_samples(), 4);
  EXPECT_EQ(resolved.min_samples(), 4);
  EXPECT_EQ(resolved.time_budget_ms(), 60'000);
  EXPECT_EQ(resolved.target_relative_half_width(), 0.01);
  EXPECT_EQ(resolved.first_look_samples(), 4);
}

TEST(Policy, WhicheverOfTheSampleBoundsIsGivenMovesTheOther) {
  MeasurementPolicy policy;
  policy.set_preset(MEASUREMENT_PRESET_FAST);
  policy.set_min_samples(50);
  EXPECT_EQ(ResolvePolicy(policy).max_samples(), 50);
  policy.set_max_samples(30);
  EXPECT_EQ(ResolvePolicy(policy).min_samples(), 30);
}

TEST(Policy, WhatIsSwitchedOffStaysOff) {
  MeasurementPolicy policy;
  policy.set_min_clock_share(-0.1);
  policy.set_noisy_relative_half_width(-0.1);
  const MeasurementPolicy once = ResolvePolicy(policy);
  EXPECT_LT(once.min_clock_share(), 0);
  EXPECT_LT(once.noisy_relative_half_width(), 0);
  EXPECT_EQ(ResolvePolicy(once).SerializeAsString(), once.SerializeAsString());
}

}  // namespace
}  // namespace tunefarm
