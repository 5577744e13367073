// Whether the time that the samples of a host trial claim can be true (worker/verify/witness.h). The runner freezes the
// trial's process while it poisons outputs, exchanges inputs and prepares caches, lets it run for one launch, and takes
// the time from before the process may run until it is frozen again after its answer. Waits for a processor, as the
// Linux scheduler counts them, do not count, but the processor time of all threads of the trial does (NeededNs).
//
// Called by the runner's trial (host_run.cc) once its samples are taken and its outputs are right; for one Hear.
// One thread: the runner's. It owns nothing; everything in WitnessedTrial must outlive it. Times are in nanoseconds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "server/base/random.h"
#include "server/definition/kernel_plan.h"
#include "server/worker/host/host_problem.h"
#include "server/worker/host/trial/brief_phases.h"
#include "server/worker/host/trial/launch_overhead.h"
#include "server/worker/host/trial/loaded_trial.h"
#include "server/worker/host/trial/off_processor.h"
#include "server/worker/verify/failure.h"
#include "server/worker/verify/poison.h"
#include "server/worker/verify/witness.h"

namespace tunefarm {

// A trial whose process has launched its config on the inputs of `input_seed`.
struct WitnessedTrial {
  HostProblem* problem = nullptr;
  LoadedTrial* loaded = nullptr;  // its process is not frozen and waits for a command
  LaunchOverhead* overhead = nullptr;
  BriefPhases* phases = nullptr;  // is told of a launch that takes long
  const std::vector<BufferPlan>* buffers = nullptr;
  const std::vector<bool>* stretches = nullptr;  // of the launch sequence: whether each is timed
  bool has_prepare = false;                      // there are prepare steps, which are not timed
  bool shares_process = false;                   // the process has served other trials and is to serve further ones
  uint64_t input_seed = 0;
  // Of memory that a cache flush walks before each launch. 0: caches stay warm.
  size_t flush_bytes = 0;
};

// What the trial does. Hear ends with the first call that fails.
struct WitnessedTrialCalls {
  // Replaces the process by one that has seen nothing but the inputs of this seed, and launches the config once.
  std::function<Failure(uint64_t input_seed)> restart;
  std::function<void(tunefarm::v1::Phase phase)> begin_phase;
  // Samples in the current process, whose measurement takes the place of the one before: the median.
  std::function<Failure(double* median_ns)> take_samples;
};

// By how much a first launch may be longer than samples: for cold code and address translations, for each helper that
// works, and, where caches are warm, for `buffer_bytes` that are not as warm as in samples.
WitnessSlack HostSlack(bool is_cold, size_t buffer_bytes);

// WRONG_RESULT for a time that is contradicted, LOST for one that is unsettled, nothing for one that stands. The
// verdict's own failure comes first. `is_repeatable`: HostProblem::IsRepeatable; else the message names that too.
Failure FailureOf(const WitnessVerdict& verdict, bool is_repeatable);

class HostWitness {
 public:
  HostWitness(const WitnessedTrial& trial, const WitnessedTrialCalls& calls) : trial_(trial), calls_(calls) {}

  // `claimed_ns`: the median of the samples. Nothing if that can be true: the inputs of the trial's seed are current.
  // FailureOf the verdict otherwise; RUN_CRASH for a process that ran while it was frozen or ended between two
  // launches; WRONG_RESULT or OUT_OF_BOUNDS for what a launch left in the buffers; or what a call failed with. A
  // process that is shared serves further trials unless another one took its place.
  Failure Hear(double claimed_ns);

 private:
  bool is_cold() const { return trial_.flush_bytes > 0; }
  TrialProcess& process() const { return *trial_.loaded->process; }

  // Whether launches begin on processor_; launches of processes with several threads go where the scheduler puts them.
  bool HasProcessor() const { return processor_ >= 0 && process().ThreadCount() == 1; }
  int TimedStretches() const;

  WitnessVerdict HearLaunches(double claimed_ns);
  Failure MeasureOverhead(double* ns);
  Failure LaunchNothing(double busy_ns, WitnessedTime* time);
  Failure StartNothing();
  Failure ReadBuffers();
  void MakeColdAgain();
  Failure Prepare();
  Failure Launch(WitnessedTime* time);
  Failure PrepareCaches();
  Failure Obey(const TrialCommand& command, WitnessedTime* time);
  Failure SampleAgain(double* median_ns);
  Failure BeginProcess(uint64_t input_seed);
  Failure GoToProcessor();
  void SpareThreads();
  Failure Freeze();

  const WitnessedTrial trial_;
  const WitnessedTrialCalls& calls_;
  // The number of the processor on which the process was last when its samples ended, and on which launches of
  // processes with one thread begin; -1: unknown.
  int processor_ = -1;
  std::optional<OffProcessor> off_;  // keeps the runner off that processor in such launches
  int variants_ = 0, next_variant_ = 0;
  PoisonPattern pattern_ = PoisonPattern::kFirst;  // of the outputs before the launch
  bool is_begun_again_ = false;                    // in another process than the trial's
  bool is_sampled_again_ = false;                  // the variants are reduced to the first
  PhiloxStream random_{NewSeed(EntropySource::Real())};
};

}  // namespace tunefarm
