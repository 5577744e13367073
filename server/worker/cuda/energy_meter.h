// Measures the energy of one launch sequence by the device's energy counter (NVML). Power readings are no substitute:
// each is a mean over about a second.
//
// Three batches of the sequence, with what comes before each sample (restoring buffers, flushing the caches), alternate
// with batches of what comes before alone; measure/energy.h computes the figure. A batch lasts at least 2 s between two
// changes of the counter. The device is kept busy from 0.2 s before the first of them until after the second: work is
// enqueued in chunks of about 10 ms, a few of which are ahead of the device. The host looks at the counter every
// millisecond or as often as NVML answers, which is the error of either edge. Where the work can be captured it is
// repeated by CUDA graphs, so that the device does not wait for the host between short launches.
//
// Takes about 16 s, or 9 s where nothing comes before a launch. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/base/clock.h"
#include "server/measure/energy.h"
#include "server/worker/cuda/captured_graph.h"
#include "server/worker/cuda/gpu_context.h"
#include "server/worker/nvml/nvml.h"

namespace tunefarm::cuda {

class EnergyMeter {
 public:
  // What is measured. All that it uses must outlive the meter.
  struct Work {
    std::function<Failure()> before;  // enqueues what comes before each sample; empty: nothing does
    std::function<Failure()> launch;  // enqueues one launch sequence
    int copies = 1;                   // launches take so many copies of the inputs in turn
  };

  // `nvml` null: there is no counter.
  EnergyMeter(const GpuContext& gpu, const Nvml* nvml, Work work);
  ~EnergyMeter();
  EnergyMeter(const EnergyMeter&) = delete;
  EnergyMeter& operator=(const EnergyMeter&) = delete;

  // Once. Waits for all that it enqueued. Where nothing can be measured, energy->missing_because says why; a failure is
  // the kernel's.
  Failure Measure(tunefarm::v1::Energy* energy);
  // Launches were enqueued; the last one had before it what comes before each sample.
  bool has_launched() const { return has_launched_; }

 private:
  struct Repeated {
    std::function<Failure()> once;         // enqueues one repetition
    std::unique_ptr<CapturedGraph> graph;  // of `per_piece` repetitions; null: they cannot be captured
    int per_piece = 1, pieces_per_chunk = 1;
    size_t chunks_ahead = 2;
  };

  Failure ReadAll(EnergyReadings* readings);
  Failure Prepare(Repeated* work);
  static Failure EnqueuePiece(Repeated* work, const CapturedGraph* graph);
  // By the device's clock, in nanoseconds.
  Failure Time(const std::function<Failure()>& enqueue, double* nanoseconds);
  Failure ReadIdle(EnergyReadings* readings);
  Failure ReadBatch(Repeated* work, EnergyBatch* batch);
  // From a change of the counter, the first after the device settled, to one at least `least` later. `keep_busy` is
  // called all the time; is_counted: the first change was seen.
  Failure ReadWindow(Duration least, const std::function<Failure(bool is_counted)>& keep_busy, double* millijoules,
                     double* seconds);
  bool ReadCounter(uint64_t* millijoules);
  Failure Record(size_t event);

  const GpuContext& gpu_;
  const Nvml* const nvml_;
  const Work work_;
  Repeated launches_, before_;
  std::vector<CUevent> events_;
  std::string missing_;  // why nothing can be measured; empty: it can
  bool has_launched_ = false;
};

}  // namespace tunefarm::cuda
