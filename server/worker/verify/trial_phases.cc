#include "server/worker/verify/trial_phases.h"

#include <chrono>
#include <utility>

#include "server/worker/verify/witness.h"

namespace tunefarm {
namespace {

double MillisecondsSince(MonotonicTime start) {
  return std::chrono::duration<double, std::milli>(Clock::Real()->Now() - start).count();
}

}  // namespace

worker::v1::Result TrialPhases::Run() {
  if (Failure failure = RunPhases()) {
    failure = Settle(std::move(failure));
    result_.set_outcome(failure.outcome);
    result_.set_message(failure.message);
    result_.set_worker_is_damaged(failure.sticky);
    result_.clear_measurement();  // nobody may take its times for those of a config that works
    result_.set_is_killed(failure.is_killed);
  }
  return std::move(result_);
}

Failure TrialPhases::RunPhases() {
  const MonotonicTime load_start = BeginPhase(v1::PHASE_LOAD);
  Failure failure = Load(input_.input_seed);
  result_.set_load_ms(MillisecondsSince(load_start));
  if (failure) return failure;
  const MonotonicTime launch_start = BeginPhase(v1::PHASE_FIRST_LAUNCH);
  failure = Launch(PoisonPattern::kFirst);
  if (!failure) {
    BeginPhase(v1::PHASE_VERIFY);
    failure = Check(PoisonPattern::kFirst);
  }
  result_.set_verify_ms(MillisecondsSince(launch_start));
  if (failure) return failure;
  result_.set_outcome(v1::OUTCOME_OK);
  if (input_.verify_only) return {};
  const MonotonicTime measure_start = BeginPhase(v1::PHASE_MEASURE);
  failure = Measure();
  if (!failure) failure = FindDamage();
  result_.set_measure_ms(MillisecondsSince(measure_start));
  if (failure) return failure;
  MonotonicTime verify_start = BeginPhase(v1::PHASE_VERIFY);
  failure = VerifyAgain();
  if (!failure) failure = CallWitnesses();
  result_.set_verify_ms(result_.verify_ms() + MillisecondsSince(verify_start));
  if (!failure) failure = CallEnergyMeter();
  if (failure) return failure;
  verify_start = Clock::Real()->Now();
  failure = VerifyOnSecondInputs();
  result_.set_verify_ms(result_.verify_ms() + MillisecondsSince(verify_start));
  if (!failure) result_.set_phase(v1::PHASE_MEASURE);
  return failure;
}

// What the kernel left in the buffers. Damage comes first: it explains wrong results, not the other way round.
Failure TrialPhases::Check(PoisonPattern pattern) {
  TUNEFARM_RETURN_IF_FAILED(FindDamage());
  v1::Verification verification;
  Failure failure = Verify(pattern, &verification);
  if (failure || !result_.has_verification()) *result_.mutable_verification() = std::move(verification);
  return failure;
}

Failure TrialPhases::VerifyAgain() {
  TUNEFARM_RETURN_IF_FAILED(Launch(PoisonPattern::kSecond));
  Failure failure = Check(PoisonPattern::kSecond);
  if (failure) return AfterTiming(std::move(failure));
  return {};
}

Failure TrialPhases::CheckLastSample(PoisonPattern pattern) {
  if (!IsWitnessed()) return {};
  TUNEFARM_RETURN_IF_FAILED(FindDamage());
  v1::Verification ignored;
  Failure failure = Verify(pattern, &ignored);
  if (failure) failure.message += " It was right before the timing: a timed launch did not do all of its work.";
  return failure;
}

bool TrialPhases::IsWitnessed() const {
  const v1::Measurement& measurement = result_.measurement();
  return !input_.baseline && measurement.stop_reason() != v1::STOP_REASON_LOSING &&
         IsAheadInRace(measurement.median_ns(), measurement.ci_high_ns(), input_.race_limit_ns);
}

Failure TrialPhases::CallWitnesses() {
  if (result_.outcome() != v1::OUTCOME_OK || !result_.has_measurement() || !IsWitnessed()) return {};
  return Witness();
}

Failure TrialPhases::CallEnergyMeter() {
  if (!input_.policy.measure_energy() || input_.baseline || !result_.has_measurement()) return {};
  const MonotonicTime start = BeginPhase(v1::PHASE_MEASURE);
  Failure failure = MeasureEnergy();
  result_.set_measure_ms(result_.measure_ms() + MillisecondsSince(start));
  if (!failure) BeginPhase(v1::PHASE_VERIFY);
  return failure;
}

Failure TrialPhases::VerifyOnSecondInputs() {
  if (input_.second_input_seed == 0 || input_.second_input_seed == input_.input_seed) return {};
  // Its own phase and deadline: the inputs and the reference's outputs are made first.
  BeginPhase(v1::PHASE_VERIFY);
  Failure failure = Load(input_.second_input_seed);
  if (!failure) failure = Launch(PoisonPattern::kFirst);
  if (!failure) failure = Check(PoisonPattern::kFirst);
  if (failure) failure.message = "On a second set of random inputs: " + failure.message;
  if (!failure && result_.outcome() == v1::OUTCOME_OK && result_.has_measurement() && IsWitnessed()) {
    failure = WitnessSecondInputs();
  }
  if (failure.sticky) return failure;
  // Here there is time for it; a trial's load phase must not need it.
  BeginPhase(v1::PHASE_VERIFY);
  Failure back = SelectInputs(input_.input_seed);
  return back.sticky && !failure ? back : failure;
}

MonotonicTime TrialPhases::BeginPhase(v1::Phase phase) {
  result_.set_phase(phase);
  reporter_->Begin(phase);
  return Clock::Real()->Now();
}

}  // namespace tunefarm
