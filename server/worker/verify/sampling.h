// The measuring loop of every run worker: warms up, takes samples until a stopping rule of server/measure says enough,
// and sums them up.
//
// One thread. Owns nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "server/base/clock.h"
#include "tunefarm/v1/measurement.pb.h"

namespace tunefarm {

// One sample.
struct TakenSample {
  double nanoseconds = 0;  // of all its launch sequences
  // Of as many launch sequences of the yardstick, its neighbour; 0: there is none.
  double yardstick_ns = 0;
  int block = 0;           // of samples that were enqueued at once; from 0, never falling
  bool is_slowed = false;  // the device's clock was held down meanwhile
};

// Takes one sample of `launches` launch sequences. Nothing is decided before `until_look` samples, so that many may be
// taken at once and handed out one by one. Nothing when the kernel failed; the callee knows why.
using TakeSample = std::function<std::optional<TakenSample>(int launches, int until_look)>;

// Launches that many sequences without keeping their times: the time of one in nanoseconds. Nothing when the kernel
// failed; the callee knows why.
using TakeWarmUp = std::function<std::optional<double>(int launches)>;

// The policy's warm-up launches, at least one and no more than begin within the time budget if all take as long as the
// first. Returns the time of one in nanoseconds, of the first only if it stays alone; nothing when the kernel failed.
std::optional<double> RunWarmUp(const tunefarm::v1::MeasurementPolicy& policy, const Clock& clock,
                                const TakeWarmUp& take_warm_up);

// What sampling needs beyond the policy.
struct SamplingOptions {
  tunefarm::v1::MeasurementPolicy policy;  // every field set
  bool keep_samples = false;
  // Launch sequences per sample; see LaunchesPerSample.
  int launches_per_sample = 1;
  double race_limit_ns = 0;  // see SampleStopper; 0: none
};

struct SamplingResult {
  bool failed = false;  // a sample could not be taken; the measurement is of those before
  // A sample was no time: not finite, not positive, or longer than it took to take it.
  bool implausible = false;
  // The samples say what the median is; otherwise the config is NOISY. One that merely did not converge is established.
  bool established = false;
  // Of each block that samples came from.
  struct Block {
    int samples = 0, discarded = 0;
  };
  std::vector<Block> blocks;
  // Method, cold_cache, device_busy_ms and conditions are the caller's, but for discarded_samples and throttled.
  tunefarm::v1::Measurement measurement;
};

// Until the interval is narrow enough (never before min_samples), max_samples are there, or the time budget, counted in
// `clock`'s time with all that a sample costs, is spent; three samples are taken even so. In a race also until it is
// lost. Samples of a slowed device are thrown away and taken again as long as that has cost less than half of the time
// budget; what is slowed then counts, and the measurement is marked as throttled. The clock also exposes samples that
// claim more time than passed: those come from the other side of a trust boundary.
SamplingResult RunSampling(const SamplingOptions& options, const Clock& clock, const TakeSample& take_sample);

// How many launch sequences make one sample long enough for a clock of `resolution_ns`: one for cold caches and
// whenever something is restored before each sample.
int LaunchesPerSample(double launch_ns, double resolution_ns, bool one_only);

}  // namespace tunefarm
