// Times a launch sequence with events: batches of samples are enqueued at once, so that the device never waits for the
// host within one, and handed out one by one.
//
// One thread.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "server/base/clock.h"
#include "server/worker/cuda/cuda_problem.h"
#include "server/worker/cuda/launch_sequence.h"

namespace tunefarm::cuda {

class Sampler {
 public:
  // `flush` is overwritten before each sample; empty: caches stay warm.
  Sampler(const GpuContext& gpu, CudaProblem* problem, LaunchSequence* launches, ByteRange flush)
      : gpu_(gpu), problem_(problem), launches_(launches), flush_(flush) {}
  ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  // Untimed launch sequences; sets the time of one, flush included, in nanoseconds.
  Failure WarmUp(int count, double* nanoseconds);
  // One sample of `launches` sequences, in nanoseconds.
  Failure Next(int launches, double* nanoseconds);

  // Time as the samples see it: a batch's cost is spread over its samples, and no sample costs less than it took.
  const Clock& clock() const { return clock_; }

 private:
  class BatchClock final : public Clock {
   public:
    MonotonicTime Now() const override { return now_; }
    int64_t WallMs() const override { return Clock::Real()->WallMs(); }
    void Advance(double nanoseconds) { now_ += Duration(static_cast<int64_t>(nanoseconds)); }

   private:
    MonotonicTime now_{};
  };

  struct Sample {
    double nanoseconds;
    double cost;
  };

  Failure TakeBatch(int launches);
  Failure EnqueueBefore();
  Failure ReserveEvents(size_t count);

  const GpuContext& gpu_;
  CudaProblem* const problem_;
  LaunchSequence* const launches_;
  const ByteRange flush_;
  std::vector<CUevent> events_;
  std::deque<Sample> taken_;
  BatchClock clock_;
  double sample_cost_ns_ = 0;  // as the last batch or the warm-up saw it
};

}  // namespace tunefarm::cuda
