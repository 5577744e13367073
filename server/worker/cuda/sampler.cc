#include "server/worker/cuda/sampler.h"

#include <algorithm>
#include <cmath>

namespace tunefarm::cuda {
namespace {

// A batch ends after about this long, so that stopping rules are asked often enough.
constexpr double kBatchNs = 10e6;
constexpr int kSamplesPerBatchMax = 16;
constexpr const char* kCrashed = "The kernel crashed";

double NanosecondsSince(MonotonicTime start) { return static_cast<double>((Clock::Real()->Now() - start).count()); }

}  // namespace

Sampler::~Sampler() {
  for (CUevent event : events_) (void)gpu_.driver().cuEventDestroy(event);
}

Failure Sampler::EnqueueBefore() {
  if (problem_->has_restores()) TUNEFARM_RETURN_IF_FAILED(problem_->Restore());
  if (flush_.bytes == 0) return {};
  const Driver& driver = gpu_.driver();
  return driver.Check(driver.cuMemsetD8Async(flush_.data, 0, flush_.bytes, gpu_.stream()),
                      "The cache could not be flushed");
}

Failure Sampler::WarmUp(int count, double* nanoseconds) {
  TUNEFARM_RETURN_IF_FAILED(gpu_.Synchronize(kCrashed));
  const MonotonicTime start = Clock::Real()->Now();
  for (int i = 0; i < count; ++i) {
    TUNEFARM_RETURN_IF_FAILED(EnqueueBefore());
    TUNEFARM_RETURN_IF_FAILED(launches_->Enqueue());
  }
  TUNEFARM_RETURN_IF_FAILED(gpu_.Synchronize(kCrashed));
  *nanoseconds = sample_cost_ns_ = NanosecondsSince(start) / std::max(count, 1);
  return {};
}

Failure Sampler::Next(int launches, double* nanoseconds) {
  if (taken_.empty()) TUNEFARM_RETURN_IF_FAILED(TakeBatch(launches));
  *nanoseconds = taken_.front().nanoseconds;
  clock_.Advance(taken_.front().cost);
  taken_.pop_front();
  return {};
}

Failure Sampler::ReserveEvents(size_t count) {
  while (events_.size() < count) {
    CUevent event = nullptr;
    TUNEFARM_RETURN_IF_FAILED(
        gpu_.driver().Check(gpu_.driver().cuEventCreate(&event, CU_EVENT_DEFAULT), "An event could not be made"));
    events_.push_back(event);
  }
  return {};
}

Failure Sampler::TakeBatch(int launches) {
  const Driver& driver = gpu_.driver();
  // Between untimed steps, each sequence has its own events; else one pair holds all launches of a sample.
  const bool single = launches == 1;
  const size_t events_per_sample = single ? 2 * launches_->timed_stretches() : 2;
  const double cost = std::max(sample_cost_ns_, 1.0);
  const int samples = std::clamp(static_cast<int>(kBatchNs / cost), 1, kSamplesPerBatchMax);
  TUNEFARM_RETURN_IF_FAILED(ReserveEvents(static_cast<size_t>(samples) * events_per_sample));
  const MonotonicTime start = Clock::Real()->Now();
  for (int i = 0; i < samples; ++i) {
    CUevent* const events = events_.data() + static_cast<size_t>(i) * events_per_sample;
    TUNEFARM_RETURN_IF_FAILED(EnqueueBefore());
    if (single) {
      TUNEFARM_RETURN_IF_FAILED(launches_->EnqueueTimed(events));
      continue;
    }
    // The first warms up what the host's pause between batches let go cold.
    TUNEFARM_RETURN_IF_FAILED(launches_->Enqueue());
    TUNEFARM_RETURN_IF_FAILED(
        driver.Check(driver.cuEventRecord(events[0], gpu_.stream()), "An event could not be recorded"));
    for (int launch = 0; launch < launches; ++launch) TUNEFARM_RETURN_IF_FAILED(launches_->Enqueue());
    TUNEFARM_RETURN_IF_FAILED(
        driver.Check(driver.cuEventRecord(events[1], gpu_.stream()), "An event could not be recorded"));
  }
  TUNEFARM_RETURN_IF_FAILED(gpu_.Synchronize(kCrashed));
  const double wall = NanosecondsSince(start);
  double sum = 0;
  for (int i = 0; i < samples; ++i) {
    double nanoseconds = 0;
    for (size_t event = 0; event < events_per_sample; event += 2) {
      float milliseconds = 0;
      CUevent* const pair = events_.data() + static_cast<size_t>(i) * events_per_sample + event;
      TUNEFARM_RETURN_IF_FAILED(
          driver.Check(driver.cuEventElapsedTime(&milliseconds, pair[0], pair[1]), "A time could not be read"));
      nanoseconds += static_cast<double>(milliseconds) * 1e6;
    }
    sum += nanoseconds;
    taken_.push_back({nanoseconds, 0});
  }
  // The device's clock and the host's differ a little: never less than nothing, and a nanosecond against rounding.
  const double overhead = std::max(wall - sum, 0.0) / samples + 1;
  for (Sample& sample : taken_) sample.cost = std::ceil(sample.nanoseconds + overhead);
  sample_cost_ns_ = wall / samples;
  return {};
}

}  // namespace tunefarm::cuda
