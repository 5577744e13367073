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

bool NothingOptions::operator==(const NothingOptions& other) const {
  const auto same = [](std::span<const std::byte> a, std::span<const std::byte> b) {
    return a.data() == b.data() && a.size() == b.size();
  };
  return threads == other.threads && processor == other.processor && flush_bytes == other.flush_bytes &&
         std::ranges::equal(memory, other.memory, same);
}

absl::StatusOr<std::unique_ptr<NothingProcess>> NothingProcess::Start(const NothingOptions& options) {
  std::unique_ptr<NothingProcess> started(new NothingProcess(options));
  TrialProgram program;
  program.flush_memory = options.memory;
  program.flush_bytes = options.flush_bytes;
  ASSIGN_OR_RETURN(started->process_, TrialProcess::Start(program));
  RETURN_IF_ERROR(started->Prepare());
  return started;
}

absl::Status NothingProcess::Prepare() {
  TrialCommand command;
  command.kind = TrialCommand::kIdle;
  command.count = static_cast<uint32_t>(options_.threads - 1);
  process_->Send(command);
  if (process_->Await().kind != TrialReply::kDone || process_->Await().kind != TrialReply::kDone ||
      !process_->Freeze()) {
    return HasEnded();
  }
  if (options_.processor >= 0) {
    command.kind = TrialCommand::kStay;
    command.count = static_cast<uint32_t>(options_.processor);
    RETURN_IF_ERROR(Obey(command).status());
  }
  for (const auto& span : options_.memory) bytes_ += span.size();
  if (bytes_ > 0) RETURN_IF_ERROR(MeasureReads());
  // The first one finds nothing in the caches.
  return Launch(0).status();
}

absl::Status NothingProcess::MeasureReads() {
  TrialCommand command;
  command.kind = TrialCommand::kBusy;
  command.count = 0;
  command.bytes = bytes_;
  command.flush = options_.flush_bytes > 0 ? 1 : 0;
  std::vector<double> samples(kReads);
  for (double& ns : samples) RETURN_IF_ERROR(Obey(command, &ns).status());
  const auto median = samples.begin() + kReads / 2;
  std::nth_element(samples.begin(), median, samples.end());
  reads_ns_ = *median;
  return absl::OkStatus();
}

absl::StatusOr<WitnessedTime> NothingProcess::Launch(double busy_ns, double share) {
  busy_ns = std::clamp(busy_ns, 0.0, kBusyMaxNs);
  if (reads_ns_ > 0) share = std::min(share, busy_ns / reads_ns_);
  TrialCommand command;
  command.kind = TrialCommand::kBusy;
  command.count = static_cast<uint32_t>(std::max(busy_ns - share * reads_ns_, 0.0));
  command.bytes = static_cast<uint64_t>(share * static_cast<double>(bytes_));
  double reads_ns = 0;
  ASSIGN_OR_RETURN(WitnessedTime time, Obey(command, &reads_ns));
  // Only reads that take longer than samples have overhead.
  const double works_ns = command.count + std::min(reads_ns, share * reads_ns_);
  time.wall_ns = std::max(time.wall_ns - works_ns, 0.0);
  time.busy_ns = std::max(time.busy_ns - works_ns, 0.0);
  time.helpers = process_->ThreadCount() - 1;
  return time;
}

absl::Status NothingProcess::Read() {
  TrialCommand command;
  command.kind = TrialCommand::kBusy;
  command.count = 0;
  command.bytes = bytes_;
  return Obey(command).status();
}

absl::StatusOr<WitnessedTime> NothingProcess::Obey(const TrialCommand& command, double* ns) {
  WitnessedTime time;
  const TrialReply reply = process_->ObeyFrozen(command, {}, nullptr, &time);
  if (reply.kind != TrialReply::kDone) return HasEnded();
  if (ns != nullptr) *ns = static_cast<double>(reply.nanoseconds);
  return time;
}

absl::StatusOr<double> LaunchOverhead::Idle() {
  if (idle_ns_) return *idle_ns_;
  ASSIGN_OR_RETURN(const std::unique_ptr<NothingProcess> process, NothingProcess::Start({}));
  double least_ns = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kLaunches; ++i) {
    ASSIGN_OR_RETURN(const WitnessedTime time, process->Launch(0));
    least_ns = std::min(least_ns, NeededNs(time, 0));
  }
  idle_ns_ = least_ns;
  return least_ns;
}

}  // namespace tunefarm
