#include "server/worker/cuda/sampler.h"

#include <algorithm>
#include <cmath>
#include <thread>

#include "server/measure/statistics.h"

namespace tunefarm::cuda {
namespace {

// A batch ends after about this long, so that stopping rules are asked often enough.
constexpr double kBatchNs = 10e6;
constexpr int kSamplesPerBatchMax = 16;
// Of a graph: enough that starting it is a small part of it, few enough that it is made in no time.
constexpr int kSamplesPerGraph = 10;
constexpr int kLaunchesPerGraphMax = 1000;
constexpr int kOverheadPairs = 16;
// What is left of a time after subtracting the events' own is at least this share: never nothing.
constexpr double kTimeShareMin = 0.1;
// All rests of one measurement: it has a deadline.
constexpr double kRestMaxNs = 2e9;
constexpr const char* kCrashed = "The kernel crashed";

double NanosecondsSince(MonotonicTime start) { return static_cast<double>((Clock::Real()->Now() - start).count()); }

}  // namespace

Sampler::~Sampler() {
  graph_ = nullptr;  // it uses the events
  for (CUevent event : events_) (void)gpu_.driver().cuEventDestroy(event);
}

size_t Sampler::EventsOf(const LaunchSequence& launches) const {
  // Between untimed steps, each sequence has its own events; else one pair holds all launches of a sample.
  return launches_per_sample_ == 1 ? 2 * launches.timed_stretches() : 2;
}

size_t Sampler::EventsPerSample() const {
  return EventsOf(*setup_.launches.front()) + (setup_.yardstick != nullptr ? EventsOf(*setup_.yardstick) : 0);
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

LaunchSequence* Sampler::NextLaunches() { return setup_.launches[next_copy_++ % setup_.launches.size()]; }

// Of a sample, or of its neighbour, which writes elsewhere: outputs stay as the last sample left them, for a check.
Failure Sampler::EnqueueBefore(const LaunchSequence* launches) {
  if (setup_.problem->has_restores()) TUNEFARM_RETURN_IF_FAILED(setup_.problem->Restore());
  if (!setup_.flush) return {};
  if (setup_.poison && launches != setup_.yardstick) TUNEFARM_RETURN_IF_FAILED(setup_.problem->PoisonOutputs());
  const Driver& driver = gpu_.driver();
  return driver.Check(driver.cuMemsetD8Async(setup_.scratch.data, 0, setup_.scratch.bytes, gpu_.stream()),
                      "The cache could not be flushed");
}

Failure Sampler::WarmUp(int count, double* nanoseconds) {
  TUNEFARM_RETURN_IF_FAILED(gpu_.Synchronize(kCrashed));
  TUNEFARM_RETURN_IF_FAILED(ReserveEvents(EventsPerSample()));
  const MonotonicTime start = Clock::Real()->Now();
  TUNEFARM_RETURN_IF_FAILED(setup_.stopwatch->Start());
  for (int i = 0; i < count; ++i) {
    LaunchSequence* const launches = NextLaunches();
    TUNEFARM_RETURN_IF_FAILED(EnqueueBefore(launches));
    TUNEFARM_RETURN_IF_FAILED(launches->EnqueueTimed(events_.data(), CU_EVENT_RECORD_DEFAULT));
    if (setup_.yardstick == nullptr) continue;
    TUNEFARM_RETURN_IF_FAILED(EnqueueBefore(setup_.yardstick));
    TUNEFARM_RETURN_IF_FAILED(setup_.yardstick->Enqueue());
  }
  TUNEFARM_RETURN_IF_FAILED(setup_.stopwatch->Stop());
  TUNEFARM_RETURN_IF_FAILED(gpu_.Synchronize(kCrashed));
  *nanoseconds = sample_cost_ns_ = NanosecondsSince(start) / std::max(count, 1);
  TUNEFARM_RETURN_IF_FAILED(ReadStretch(events_.data(), EventsOf(*setup_.launches.front()), &launch_ns_));
  return setup_.stopwatch->Add();
}

Failure Sampler::Begin(int launches_per_sample, bool graph) {
  launches_per_sample_ = launches_per_sample;
  if (graph) {
    Failure failure = MeasureOverhead(true, &setup_.overhead->in_graph_ns);
    if (!failure) failure = CaptureBatch();
    if (failure.sticky) return failure;
    if (!failure) {
      overhead_ns_ = *setup_.overhead->in_graph_ns;
      return {};
    }
    graph_ = nullptr;
    why_no_graph_ = failure.message;
  }
  TUNEFARM_RETURN_IF_FAILED(MeasureOverhead(false, &setup_.overhead->in_stream_ns));
  overhead_ns_ = *setup_.overhead->in_stream_ns;
  return {};
}

// Behind a flush, so that the device does not wait for the host between the events.
Failure Sampler::MeasureOverhead(bool graph, std::optional<double>* nanoseconds) {
  if (nanoseconds->has_value()) return {};
  TUNEFARM_RETURN_IF_FAILED(ReserveEvents(2 * kOverheadPairs));
  const Driver& driver = gpu_.driver();
  const unsigned int flags = graph ? CU_EVENT_RECORD_EXTERNAL : CU_EVENT_RECORD_DEFAULT;
  const auto enqueue = [&]() -> Failure {
    TUNEFARM_RETURN_IF_FAILED(
        driver.Check(driver.cuMemsetD8Async(setup_.scratch.data, 0, setup_.scratch.bytes, gpu_.stream()),
                     "The cache could not be flushed"));
    for (size_t i = 0; i < 2 * kOverheadPairs; ++i) {
      TUNEFARM_RETURN_IF_FAILED(driver.Check(driver.cuEventRecordWithFlags(events_[i], gpu_.stream(), flags),
                                             "An event could not be recorded"));
    }
    return {};
  };
  if (graph) {
    CapturedGraph captured(gpu_);
    TUNEFARM_RETURN_IF_FAILED(captured.Capture(enqueue));
    TUNEFARM_RETURN_IF_FAILED(captured.Enqueue());
    TUNEFARM_RETURN_IF_FAILED(gpu_.Synchronize(kCrashed));
  } else {
    TUNEFARM_RETURN_IF_FAILED(enqueue());
    TUNEFARM_RETURN_IF_FAILED(gpu_.Synchronize(kCrashed));
  }
  std::vector<double> pairs;
  for (size_t i = 0; i < 2 * kOverheadPairs; i += 2) {
    float milliseconds = 0;
    TUNEFARM_RETURN_IF_FAILED(
        driver.Check(driver.cuEventElapsedTime(&milliseconds, events_[i], events_[i + 1]), "A time could not be read"));
    pairs.push_back(static_cast<double>(milliseconds) * 1e6);
  }
  *nanoseconds = Median(pairs);
  return {};
}

Failure Sampler::CaptureBatch() {
  // Every copy of the inputs as often as every other.
  const int copies = static_cast<int>(setup_.launches.size());
  const int wanted = std::max(std::min(kSamplesPerGraph, kLaunchesPerGraphMax / launches_per_sample_), 1);
  graph_samples_ = (wanted + copies - 1) / copies * copies;
  next_copy_ = 0;
  TUNEFARM_RETURN_IF_FAILED(ReserveEvents(static_cast<size_t>(graph_samples_) * EventsPerSample()));
  graph_ = std::make_unique<CapturedGraph>(gpu_);
  return graph_->Capture([this] { return EnqueueBatch(graph_samples_, CU_EVENT_RECORD_EXTERNAL); });
}

Failure Sampler::EnqueueBatch(int samples, unsigned int flags) {
  for (int i = 0; i < samples; ++i) {
    TUNEFARM_RETURN_IF_FAILED(EnqueueSample(events_.data() + static_cast<size_t>(i) * EventsPerSample(), flags));
  }
  return {};
}

Failure Sampler::EnqueueSample(const CUevent* events, unsigned int flags) {
  LaunchSequence* const launches = NextLaunches();
  if (setup_.yardstick == nullptr) return EnqueueLaunches(launches, events, flags);
  const CUevent* const yardstick_events = events + EventsOf(*launches);
  const bool is_first = random_.UniformInt(2) == 0;
  if (!is_first) TUNEFARM_RETURN_IF_FAILED(EnqueueLaunches(setup_.yardstick, yardstick_events, flags));
  TUNEFARM_RETURN_IF_FAILED(EnqueueLaunches(launches, events, flags));
  return is_first ? EnqueueLaunches(setup_.yardstick, yardstick_events, flags) : Failure();
}

Failure Sampler::EnqueueLaunches(LaunchSequence* launches, const CUevent* events, unsigned int flags) {
  const Driver& driver = gpu_.driver();
  TUNEFARM_RETURN_IF_FAILED(EnqueueBefore(launches));
  if (launches_per_sample_ == 1) return launches->EnqueueTimed(events, flags);
  const auto record = [&](CUevent event) {
    return driver.Check(driver.cuEventRecordWithFlags(event, gpu_.stream(), flags), "An event could not be recorded");
  };
  // The first warms up what the host's pause between batches let go cold.
  TUNEFARM_RETURN_IF_FAILED(launches->Enqueue());
  TUNEFARM_RETURN_IF_FAILED(record(events[0]));
  for (int launch = 0; launch < launches_per_sample_; ++launch) TUNEFARM_RETURN_IF_FAILED(launches->Enqueue());
  return record(events[1]);
}

Failure Sampler::Next(int until_look, TakenSample* sample) {
  if (taken_.empty()) TUNEFARM_RETURN_IF_FAILED(TakeBatch(until_look));
  *sample = taken_.front().taken;
  clock_.Advance(taken_.front().cost);
  taken_.pop_front();
  return {};
}

Failure Sampler::TakeBatch(int until_look) {
  const int affordable = std::max(static_cast<int>(kBatchNs / std::max(sample_cost_ns_, 1.0)), 1);
  const int samples =
      in_graph() ? graph_samples_ : std::clamp(until_look, 1, std::min(affordable, kSamplesPerBatchMax));
  TUNEFARM_RETURN_IF_FAILED(ReserveEvents(static_cast<size_t>(samples) * EventsPerSample()));
  Rest();
  const MonotonicTime start = Clock::Real()->Now();
  TUNEFARM_RETURN_IF_FAILED(setup_.stopwatch->Start());
  TUNEFARM_RETURN_IF_FAILED(in_graph() ? graph_->Enqueue() : EnqueueBatch(samples, CU_EVENT_RECORD_DEFAULT));
  TUNEFARM_RETURN_IF_FAILED(setup_.stopwatch->Stop());
  const bool was_read = setup_.conditions->Read();
  TUNEFARM_RETURN_IF_FAILED(gpu_.Synchronize(kCrashed));
  const double wall_ns = NanosecondsSince(start);
  if (batch_conditions_.empty()) first_batch_ = start;
  last_batch_end_ = Clock::Real()->Now();
  busy_ns_ += wall_ns;
  batch_conditions_.push_back(was_read ? setup_.conditions->last() : Nvml::Conditions());
  if (setup_.duty_cycle != nullptr) setup_.duty_cycle->Add(wall_ns, was_read && setup_.conditions->is_at_power_limit());
  TUNEFARM_RETURN_IF_FAILED(setup_.stopwatch->Add());
  return ReadBatch(samples, wall_ns);
}

// Of the device: the host does other things meanwhile.
void Sampler::Rest() {
  if (setup_.duty_cycle == nullptr || batch_conditions_.empty()) return;
  const double rest_ns = std::min(setup_.duty_cycle->rest_ns(), kRestMaxNs - rested_ns_);
  if (rest_ns <= 0) return;
  rested_ns_ += rest_ns;
  std::this_thread::sleep_for(Duration(static_cast<int64_t>(rest_ns)));
}

double Sampler::duty_share() const {
  const double wall_ns = static_cast<double>((last_batch_end_ - first_batch_).count());
  return wall_ns > 0 ? std::min(busy_ns_ / wall_ns, 1.0) : 0;
}

double Sampler::WithoutOverhead(double nanoseconds, size_t events) const {
  return std::max(nanoseconds - static_cast<double>(events) / 2 * overhead_ns_, nanoseconds * kTimeShareMin);
}

Failure Sampler::ReadBatch(int samples, double wall_ns) {
  double sum = 0;
  const size_t own_events = EventsOf(*setup_.launches.front()), events_per_sample = EventsPerSample();
  for (int i = 0; i < samples; ++i) {
    const CUevent* const events = events_.data() + static_cast<size_t>(i) * events_per_sample;
    Sample sample;
    double nanoseconds = 0;
    TUNEFARM_RETURN_IF_FAILED(ReadStretch(events, own_events, &nanoseconds));
    sample.cost = nanoseconds;
    sample.taken.nanoseconds = WithoutOverhead(nanoseconds, own_events);
    sample.taken.is_slowed = setup_.conditions->is_slow();
    sample.taken.block = batches() - 1;
    if (setup_.yardstick != nullptr) {
      const size_t events_left = events_per_sample - own_events;
      TUNEFARM_RETURN_IF_FAILED(ReadStretch(events + own_events, events_left, &nanoseconds));
      sample.cost += nanoseconds;
      sample.taken.yardstick_ns = WithoutOverhead(nanoseconds, events_left);
    }
    sum += sample.cost;
    taken_.push_back(sample);
  }
  // The device's clock and the host's differ a little: never less than nothing, and a nanosecond against rounding.
  const double overhead = std::max(wall_ns - sum, 0.0) / samples + 1;
  for (Sample& sample : taken_) sample.cost = std::ceil(sample.cost + overhead);
  sample_cost_ns_ = wall_ns / samples;
  return {};
}

Failure Sampler::ReadStretch(const CUevent* events, size_t count, double* nanoseconds) const {
  const Driver& driver = gpu_.driver();
  *nanoseconds = 0;
  for (size_t event = 0; event < count; event += 2) {
    float milliseconds = 0;
    TUNEFARM_RETURN_IF_FAILED(driver.Check(driver.cuEventElapsedTime(&milliseconds, events[event], events[event + 1]),
                                           "A time could not be read"));
    *nanoseconds += static_cast<double>(milliseconds) * 1e6;
  }
  return {};
}

}  // namespace tunefarm::cuda
