// Hands out samples one by one that the trial's process takes several at a time: between two commands it sleeps, caches
// and clock cool down, and for the shortest kernels the way to and fro costs more than the sample.
//
// One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "server/base/clock.h"
#include "server/worker/verify/sampling.h"

namespace tunefarm {

// What fits into a trial's control page.
inline constexpr int kSamplesPerBatchMax = 64;

// What the process claims of the samples of one batch, in nanoseconds; they may be anything. Nothing when it failed.
using TakeSamples = std::function<std::optional<std::vector<int64_t>>(int samples)>;

class SampleBatches {
 public:
  // `sample_ns`: about what one costs. `one_by_one`: there is work between samples, so that they are long anyway.
  SampleBatches(double sample_ns, bool one_by_one, TakeSamples take);

  // The next sample, of a batch that is no larger than `until_look`. Nothing when the process failed.
  std::optional<TakenSample> Next(int until_look);

  // Goes on as if each sample had been taken when it is handed out: for RunSampling.
  const Clock& clock() const { return clock_; }

 private:
  class HandedOutClock final : public Clock {
   public:
    MonotonicTime Now() const override { return now_; }
    int64_t WallMs() const override { return Clock::Real()->WallMs(); }
    void Advance(Duration time) { now_ += time; }

   private:
    MonotonicTime now_ = {};
  };

  struct Sample {
    double nanoseconds = 0;
    Duration cost = {};
  };

  const int batch_max_;
  const TakeSamples take_;
  HandedOutClock clock_;
  std::deque<Sample> taken_;
};

}  // namespace tunefarm
