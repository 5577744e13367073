// The order in which every run worker evaluates a config: load, first launch, verify, measure, look for damage, verify
// again, witness the time, and, if asked to, measure the energy and verify on a second input set. What each step does
// is the backend's; what the result says of phases, times and verdicts is decided here.
//
// One thread. Made per evaluation and run once; owns only the result, which grows as the phases pass. The input and the
// reporter must outlive it. Times in the result are milliseconds of the steady clock.
#pragma once

#include "server/base/clock.h"
#include "server/worker/backend.h"
#include "server/worker/verify/failure.h"
#include "server/worker/verify/poison.h"
#include "tunefarm/worker/v1/worker.pb.h"

namespace tunefarm {

class TrialPhases {
 public:
  TrialPhases(const RunInput& input, PhaseReporter* reporter) : input_(input), reporter_(reporter) {}
  virtual ~TrialPhases() = default;
  TrialPhases(const TrialPhases&) = delete;
  TrialPhases& operator=(const TrialPhases&) = delete;

  // Stops at the first failure, which gives the result its outcome and message; the phase is the one that it ended.
  tunefarm::worker::v1::Result Run();

 protected:
  const RunInput& input() const { return input_; }
  tunefarm::worker::v1::Result& result() { return result_; }
  PhaseReporter* reporter() const { return reporter_; }
  MonotonicTime BeginPhase(tunefarm::v1::Phase phase);
  // For Measure: compares what the last sample left in the outputs, which had this pattern before it.
  Failure CheckLastSample(PoisonPattern pattern);

 private:
  // Makes everything ready for launches on the inputs of a seed and fills the result's resources. Called again for the
  // second input set.
  virtual Failure Load(uint64_t input_seed) = 0;
  // Makes the inputs of a seed current and nothing else, so that the next trial need not.
  virtual Failure SelectInputs(uint64_t input_seed) = 0;
  // One launch sequence from pristine buffers with outputs poisoned in this pattern; waits for its end.
  virtual Failure Launch(PoisonPattern pattern) = 0;
  // Damage outside the buffers or to an input: OUT_OF_BOUNDS with the place.
  virtual Failure FindDamage() = 0;
  // Compares what Launch left with the reference under the same pattern: WRONG_RESULT, or nothing.
  virtual Failure Verify(PoisonPattern pattern, tunefarm::v1::Verification* verification) = 0;
  // Fills the result's measurement. Times that establish nothing are no failure: it then makes the outcome NOISY
  // itself, which stands unless a later check fails.
  virtual Failure Measure() = 0;
  // Whether the measured times can be true (witness.h). Called after the check that follows timing, with the times of
  // an OK trial that may win; a failure takes the measurement from the result.
  virtual Failure Witness() { return {}; }
  // Adds the energy of a launch sequence to the result's measurement, or why there is none. Where the policy asks for
  // it, after all checks on the first input set; checks itself what its launches leave.
  virtual Failure MeasureEnergy() { return {}; }
  // The same as Witness by the first launch on the second input set, which was right.
  virtual Failure WitnessSecondInputs() { return {}; }
  // What the check after timing found, said so that it is clear that the first check had passed.
  virtual Failure AfterTiming(Failure failure) = 0;
  // Last word on a failure, before it becomes the result.
  virtual Failure Settle(Failure failure) { return failure; }

  Failure RunPhases();
  Failure Check(PoisonPattern pattern);
  Failure VerifyAgain();
  Failure VerifyOnSecondInputs();
  Failure CallWitnesses();
  Failure CallEnergyMeter();
  // Whether the measured config may win, so that its time is checked.
  bool IsWitnessed() const;

  const RunInput& input_;
  PhaseReporter* const reporter_;
  tunefarm::worker::v1::Result result_;
};

}  // namespace tunefarm
