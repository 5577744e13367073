#include "server/worker/cuda/energy_meter.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "server/base/thread.h"

namespace tunefarm::cuda {
namespace {

constexpr int kBatches = 3;
constexpr Duration kBatchLeast = std::chrono::seconds(2);
constexpr Duration kIdleLeast = std::chrono::seconds(1);
// Clocks and power follow a change of the load within this time.
constexpr Duration kSettle = std::chrono::milliseconds(200);
constexpr Duration kLookEvery = std::chrono::milliseconds(1);
// A counter that stays the same for so long counts nothing: it should change every 20 to 100 ms.
constexpr Duration kUnchangedMax = std::chrono::seconds(1);
constexpr double kChunkNs = 10e6;
// As long as an answer of NVML may take.
constexpr double kAheadNs = 40e6;
constexpr size_t kChunksAheadMax = 8;
constexpr int kPerPieceMax = 1000, kPiecesMax = 1000;
// Two of them are ahead of the device when a batch ends, and six batches must end within kEnergyMsMax.
constexpr double kRepetitionNsMax = 0.5e9;
constexpr const char* kBatchCrashed = "The kernel crashed";

MonotonicTime Now() { return Clock::Real()->Now(); }

double Seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

int Fitting(double whole_ns, double part_ns, int max) {
  return static_cast<int>(std::clamp(whole_ns / std::max(part_ns, 1.0), 1.0, static_cast<double>(max)));
}

}  // namespace

EnergyMeter::EnergyMeter(const GpuContext& gpu, const Nvml* nvml, Work work)
    : gpu_(gpu), nvml_(nvml), work_(std::move(work)) {
  launches_.once = [this]() -> Failure {
    if (work_.before) TUNEFARM_RETURN_IF_FAILED(work_.before());
    has_launched_ = true;
    return work_.launch();
  };
  before_.once = work_.before;
}

EnergyMeter::~EnergyMeter() {
  for (CUevent event : events_) (void)gpu_.driver().cuEventDestroy(event);
}

Failure EnergyMeter::Measure(tunefarm::v1::Energy* energy) {
  uint64_t millijoules = 0;
  if (nvml_ == nullptr || !nvml_->EnergyMillijoules(gpu_.uuid(), &millijoules)) {
    energy->set_missing_because(kNoEnergyCounter);
    return {};
  }
  while (events_.size() < kChunksAheadMax + 1) {
    CUevent event = nullptr;
    TUNEFARM_RETURN_IF_FAILED(
        gpu_.driver().Check(gpu_.driver().cuEventCreate(&event, CU_EVENT_DEFAULT), "An event could not be made"));
    events_.push_back(event);
  }
  EnergyReadings readings;
  TUNEFARM_RETURN_IF_FAILED(ReadAll(&readings));
  if (missing_.empty()) {
    *energy = EnergyOf(readings);
    return {};
  }
  energy->set_missing_because(missing_);
  if (!has_launched_) return {};
  TUNEFARM_RETURN_IF_FAILED(launches_.once());
  return gpu_.Synchronize(kBatchCrashed);
}

Failure EnergyMeter::ReadAll(EnergyReadings* readings) {
  TUNEFARM_RETURN_IF_FAILED(Prepare(&launches_));
  if (work_.before && missing_.empty()) TUNEFARM_RETURN_IF_FAILED(Prepare(&before_));
  if (missing_.empty()) TUNEFARM_RETURN_IF_FAILED(ReadIdle(readings));
  for (int batch = 0; batch < kBatches && missing_.empty(); ++batch) {
    if (work_.before) TUNEFARM_RETURN_IF_FAILED(ReadBatch(&before_, &readings->before.emplace_back()));
    // Last, so that what the last launch left in the buffers can be checked.
    if (missing_.empty()) TUNEFARM_RETURN_IF_FAILED(ReadBatch(&launches_, &readings->launches.emplace_back()));
  }
  return {};
}

Failure EnergyMeter::Prepare(Repeated* work) {
  double nanoseconds = 0;
  // The first one pays for what only a first one pays.
  for (int i = 0; i < 2; ++i) TUNEFARM_RETURN_IF_FAILED(Time(work->once, &nanoseconds));
  if (nanoseconds > kRepetitionNsMax) {
    missing_ = "a launch takes longer than 0.5 s, which is too long for batches of 2 s";
    return {};
  }
  const int wanted = Fitting(kChunkNs, nanoseconds, kPerPieceMax);
  work->per_piece = (wanted + work_.copies - 1) / work_.copies * work_.copies;
  auto graph = std::make_unique<CapturedGraph>(gpu_);
  const Failure failure = graph->Capture([&] { return EnqueuePiece(work, nullptr); });
  if (failure.sticky) return failure;
  if (!failure) work->graph = std::move(graph);
  for (int i = 0; i < 2; ++i) {
    TUNEFARM_RETURN_IF_FAILED(Time([&] { return EnqueuePiece(work, work->graph.get()); }, &nanoseconds));
  }
  work->pieces_per_chunk = Fitting(kChunkNs, nanoseconds, kPiecesMax);
  const double chunk_ns = nanoseconds * work->pieces_per_chunk;
  work->chunks_ahead = std::max<size_t>(2, static_cast<size_t>(Fitting(kAheadNs, chunk_ns, kChunksAheadMax)));
  return {};
}

Failure EnergyMeter::EnqueuePiece(Repeated* work, const CapturedGraph* graph) {
  if (graph != nullptr) return graph->Enqueue();
  for (int i = 0; i < work->per_piece; ++i) TUNEFARM_RETURN_IF_FAILED(work->once());
  return {};
}

Failure EnergyMeter::Time(const std::function<Failure()>& enqueue, double* nanoseconds) {
  TUNEFARM_RETURN_IF_FAILED(Record(0));
  TUNEFARM_RETURN_IF_FAILED(enqueue());
  TUNEFARM_RETURN_IF_FAILED(Record(1));
  TUNEFARM_RETURN_IF_FAILED(gpu_.Synchronize(kBatchCrashed));
  float milliseconds = 0;
  TUNEFARM_RETURN_IF_FAILED(gpu_.driver().Check(gpu_.driver().cuEventElapsedTime(&milliseconds, events_[0], events_[1]),
                                                "A time could not be read"));
  *nanoseconds = static_cast<double>(milliseconds) * 1e6;
  return {};
}

Failure EnergyMeter::ReadIdle(EnergyReadings* readings) {
  return ReadWindow(
      kIdleLeast, [](bool) { return Failure(); }, &readings->idle_millijoules, &readings->idle_seconds);
}

Failure EnergyMeter::ReadBatch(Repeated* work, EnergyBatch* batch) {
  const Driver& driver = gpu_.driver();
  // Chunks, from 1. The event of each ends it and begins the next one; that of chunk 0 begins the first.
  size_t enqueued = 0, ended = 0;
  int counted = 0;
  double counted_ns = 0;
  const auto keep_busy = [&](bool is_counted) -> Failure {
    for (; ended < enqueued; ++ended) {
      float milliseconds = 0;
      const CUresult error = driver.cuEventElapsedTime(&milliseconds, events_[ended % events_.size()],
                                                       events_[(ended + 1) % events_.size()]);
      if (error == CUDA_ERROR_NOT_READY) break;
      TUNEFARM_RETURN_IF_FAILED(driver.Check(error, kBatchCrashed));
      if (!is_counted) continue;
      ++counted;
      counted_ns += static_cast<double>(milliseconds) * 1e6;
    }
    while (enqueued < ended + work->chunks_ahead) {
      for (int i = 0; i < work->pieces_per_chunk; ++i) {
        TUNEFARM_RETURN_IF_FAILED(EnqueuePiece(work, work->graph.get()));
      }
      TUNEFARM_RETURN_IF_FAILED(Record(++enqueued));
    }
    return {};
  };
  TUNEFARM_RETURN_IF_FAILED(Record(0));
  TUNEFARM_RETURN_IF_FAILED(ReadWindow(kBatchLeast, keep_busy, &batch->millijoules, &batch->seconds));
  TUNEFARM_RETURN_IF_FAILED(gpu_.Synchronize(kBatchCrashed));
  if (!missing_.empty()) return {};
  if (counted == 0) {
    missing_ = "no launch ended within a batch of 2 s";
    return {};
  }
  batch->sequence_seconds = counted_ns / 1e9 / counted / work->pieces_per_chunk / work->per_piece;
  return {};
}

Failure EnergyMeter::ReadWindow(Duration least, const std::function<Failure(bool is_counted)>& keep_busy,
                                double* millijoules, double* seconds) {
  struct Reading {
    uint64_t millijoules = 0;
    MonotonicTime at;
  };
  const MonotonicTime start = Now();
  std::optional<Reading> first;
  Reading last = {0, start};
  TUNEFARM_RETURN_IF_FAILED(keep_busy(false));
  if (!ReadCounter(&last.millijoules)) return {};
  while (true) {
    TUNEFARM_RETURN_IF_FAILED(keep_busy(first.has_value()));
    Reading now;
    if (!ReadCounter(&now.millijoules)) return {};
    now.at = Now();
    if (now.millijoules != last.millijoules) {
      last = now;
      if (first.has_value() && now.at - first->at >= least) break;
      if (!first.has_value() && now.at - start >= kSettle) first = now;
    } else if (now.at - last.at > kUnchangedMax) {
      missing_ = "the device's energy counter does not change";
      return {};
    }
    Notification().WaitFor(kLookEvery);
  }
  *millijoules = static_cast<double>(last.millijoules - first->millijoules);
  *seconds = Seconds(last.at - first->at);
  return {};
}

bool EnergyMeter::ReadCounter(uint64_t* millijoules) {
  if (nvml_->EnergyMillijoules(gpu_.uuid(), millijoules)) return true;
  missing_ = "the device's energy counter cannot be read any more";
  return false;
}

Failure EnergyMeter::Record(size_t event) {
  const Driver& driver = gpu_.driver();
  return driver.Check(
      driver.cuEventRecordWithFlags(events_[event % events_.size()], gpu_.stream(), CU_EVENT_RECORD_DEFAULT),
      "An event could not be recorded");
}

}  // namespace tunefarm::cuda
