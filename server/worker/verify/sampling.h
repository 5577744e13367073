// The measuring loop of every run worker: warms up, takes samples until a stopping rule of server/measure says enough,
// and sums them up.
//
// One thread. Owns nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "server/base/clock.h"
#include "tunefarm/v1/measurement.pb.h"

namespace tunefarm {

// Takes one sample: the time of `launches` launch sequences in nanoseconds. Nothing when the kernel failed; the callee
// knows why.
using TakeSample = std::function<std::optional<double>(int launches)>;

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
};

struct SamplingResult {
  bool failed = false;  // a sample could not be taken; the measurement is of those before
  // A sample was no time: not finite, not positive, or longer than it took to take it.
  bool implausible = false;
  // The samples say what the median is; otherwise the config is NOISY. One that merely did not converge is established.
  bool established = false;
  tunefarm::v1::Measurement measurement;  // method, cold_cache and conditions are the caller's
};

// Until the interval is narrow enough (never before min_samples), max_samples are there, or the time budget, counted in
// `clock`'s time with all that a sample costs, is spent; three samples are taken even so. The clock also exposes
// samples that claim more time than passed: those come from the other side of a trust boundary.
SamplingResult RunSampling(const SamplingOptions& options, const Clock& clock, const TakeSample& take_sample);

// How many launch sequences make one sample long enough for a clock of `resolution_ns`: one for cold caches and
// whenever something is restored before each sample.
int LaunchesPerSample(double launch_ns, double resolution_ns, bool one_only);

}  // namespace tunefarm
