#include "server/worker/host/trial/launch_overhead.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm {
namespace {

constexpr int kLaunches = 8;
// Samples of the reads; the first one pays for page faults.
constexpr size_t kReads = 5;
// Of longer work the overhead is a small part.
constexpr double kBusyMaxNs = 100e6;

absl::Status HasEnded() { return Unavailable("the process that measures the overhead of launches ended"); }

}  // namespace

absl::StatusOr<std::unique_ptr<NothingProcess>> NothingProcess::Start(int threads, const TrialProgram& memory) {
  std::unique_ptr<NothingProcess> started(new NothingProcess(threads));
  ASSIGN_OR_RETURN(started->process_, TrialProcess::Start(memory));
  TrialProcess& process = *started->process_;
  TrialCommand command;
  command.kind = TrialCommand::kIdle;
  command.count = static_cast<uint32_t>(threads - 1);
  process.Send(command);
  if (process.Await().kind != TrialReply::kDone || process.Await().kind != TrialReply::kDone || !process.Freeze()) {
    return HasEnded();
  }
  if (!memory.flush_memory.empty()) RETURN_IF_ERROR(started->MeasureReads(memory.flush_bytes > 0));
  // The first one finds nothing in the caches.
  RETURN_IF_ERROR(started->Launch(0).status());
  return started;
}

absl::Status NothingProcess::MeasureReads(bool is_cold) {
  TrialCommand command;
  command.kind = TrialCommand::kBusy;
  command.count = 0;
  command.flush = is_cold ? 1 : 0;
  std::vector<int64_t> samples;
  while (samples.size() < kReads) {
    WitnessedTime ignored;
    const TrialReply reply = process_->ObeyFrozen(command, {}, nullptr, &ignored);
    if (reply.kind != TrialReply::kDone) return HasEnded();
    samples.push_back(reply.nanoseconds);
  }
  const auto median = samples.begin() + kReads / 2;
  std::nth_element(samples.begin(), median, samples.end());
  reads_ns_ = static_cast<double>(*median);
  return absl::OkStatus();
}

absl::Status NothingProcess::MoveTo(int processor) {
  return process_->MoveTo(processor, /*stays=*/true).kind == TrialReply::kDone ? absl::OkStatus() : HasEnded();
}

absl::StatusOr<WitnessedTime> NothingProcess::Launch(double busy_ns) {
  TrialCommand command;
  command.kind = TrialCommand::kBusy;
  command.count = static_cast<uint32_t>(std::clamp(busy_ns - reads_ns_, 0.0, kBusyMaxNs));
  const double works_ns = reads_ns_ + command.count;
  WitnessedTime time;
  if (process_->ObeyFrozen(command, {}, nullptr, &time).kind != TrialReply::kDone) return HasEnded();
  time.wall_ns = std::max(time.wall_ns - works_ns, 0.0);
  time.busy_ns = std::max(time.busy_ns - works_ns, 0.0);
  time.helpers = process_->ThreadCount() - 1;
  return time;
}

absl::StatusOr<double> LaunchOverhead::Idle() {
  if (idle_ns_) return *idle_ns_;
  ASSIGN_OR_RETURN(const std::unique_ptr<NothingProcess> process, NothingProcess::Start(1, {}));
  double least_ns = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kLaunches; ++i) {
    ASSIGN_OR_RETURN(const WitnessedTime time, process->Launch(0));
    least_ns = std::min(least_ns, NeededNs(time, 0));
  }
  idle_ns_ = least_ns;
  return least_ns;
}

}  // namespace tunefarm
