// Times a launch sequence with events: batches of samples are enqueued at once, so that the device never waits for the
// host within one, and handed out one by one.
//
// Where launches are so short that the host could not keep up, or that its jitter shows, a batch is one CUDA graph: of
// (flush or restore, event, launches, event) x samples when caches are cold, of plain repeats between two events when
// they are warm. What the pair of events itself takes is measured once, in the stream and in a graph, and subtracted.
//
// With a yardstick each sample has a neighbour: the same number of its launch sequences, prepared in the same way, just
// before or after it as a coin says.
//
// One thread.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/base/clock.h"
#include "server/base/random.h"
#include "server/measure/duty_cycle.h"
#include "server/worker/cuda/captured_graph.h"
#include "server/worker/cuda/cuda_problem.h"
#include "server/worker/cuda/device_conditions.h"
#include "server/worker/cuda/device_stopwatch.h"
#include "server/worker/cuda/launch_sequence.h"
#include "server/worker/verify/sampling.h"

namespace tunefarm::cuda {

// Nanoseconds between two events with nothing between them; nothing: not measured yet. Lives as long as the context.
struct EventOverhead {
  std::optional<double> in_stream_ns, in_graph_ns;
};

class Sampler {
 public:
  // Everything must outlive the sampler.
  struct Setup {
    CudaProblem* problem = nullptr;
    // The same sequence on each copy of the inputs; samples take them in turn. At least one.
    std::vector<LaunchSequence*> launches;
    bool flush = false;   // overwrite `scratch` before each sample
    bool poison = false;  // and poison the problem's outputs first
    ByteRange scratch;    // larger than the caches
    LaunchSequence* yardstick = nullptr;
    // How long the device rests between batches; null: it does not.
    DutyCycle* duty_cycle = nullptr;
    EventOverhead* overhead = nullptr;
    DeviceConditions* conditions = nullptr;
    DeviceStopwatch* stopwatch = nullptr;
  };

  Sampler(const GpuContext& gpu, Setup setup) : gpu_(gpu), setup_(std::move(setup)) {}
  ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  // Launch sequences whose times are not kept; sets what one costs, flush included, in nanoseconds.
  Failure WarmUp(int count, double* nanoseconds);
  // The last of the warm-up's sequences alone, as events saw it.
  double launch_ns() const { return launch_ns_; }

  // Once, before Next. With `graph` in a graph if the sequence can be captured, else as without.
  Failure Begin(int launches_per_sample, bool graph);
  bool in_graph() const { return graph_ != nullptr; }
  // Why Begin could not use a graph; empty if it did or was not asked to.
  const std::string& why_no_graph() const { return why_no_graph_; }

  // One sample. `until_look` as in TakeSample.
  Failure Next(int until_look, TakenSample* sample);

  // Time as the samples see it: a batch's cost is spread over its samples, and no sample costs less than it took.
  const Clock& clock() const { return clock_; }
  int batches() const { return static_cast<int>(batch_conditions_.size()); }
  // As they were read while each batch ran; all 0 where they were not.
  const std::vector<Nvml::Conditions>& batch_conditions() const { return batch_conditions_; }
  // The share of the time from the first batch's start to the last one's end in which the device worked; 0: no batch.
  double duty_share() const;

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
    TakenSample taken;
    double cost = 0;
  };

  size_t EventsOf(const LaunchSequence& launches) const;
  size_t EventsPerSample() const;
  Failure ReserveEvents(size_t count);
  LaunchSequence* NextLaunches();
  Failure EnqueueBefore(const LaunchSequence* launches);
  Failure EnqueueSample(const CUevent* events, unsigned int flags);
  Failure EnqueueLaunches(LaunchSequence* launches, const CUevent* events, unsigned int flags);
  Failure EnqueueBatch(int samples, unsigned int flags);
  Failure CaptureBatch();
  Failure TakeBatch(int until_look);
  Failure ReadBatch(int samples, double wall_ns);
  Failure ReadStretch(const CUevent* events, size_t count, double* nanoseconds) const;
  double WithoutOverhead(double nanoseconds, size_t events) const;
  void Rest();
  Failure MeasureOverhead(bool graph, std::optional<double>* nanoseconds);

  const GpuContext& gpu_;
  const Setup setup_;
  int launches_per_sample_ = 1;
  size_t next_copy_ = 0;
  std::vector<CUevent> events_;
  std::unique_ptr<CapturedGraph> graph_;
  int graph_samples_ = 0;
  std::string why_no_graph_;
  std::deque<Sample> taken_;
  BatchClock clock_;
  double sample_cost_ns_ = 0;  // as the last batch or the warm-up saw it
  double launch_ns_ = 0;
  double overhead_ns_ = 0;
  std::vector<Nvml::Conditions> batch_conditions_;
  MonotonicTime first_batch_{}, last_batch_end_{};
  double busy_ns_ = 0;
  double rested_ns_ = 0;
  PhiloxStream random_{NewSeed(EntropySource::Real())};  // the order within pairs
};

}  // namespace tunefarm::cuda
