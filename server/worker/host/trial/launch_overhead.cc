#include "server/worker/host/trial/launch_overhead.h"

#include <algorithm>
#include <memory>

#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm {
namespace {

constexpr int kLaunches = 8;
// Of longer work the overhead is a small part.
constexpr double kBusyMaxNs = 100e6;
// Two cores in their deepest sleep. If more is measured every time, the machine is busy with something else, and to
// take that for overhead would excuse false times.
constexpr double kOverheadMaxNs = 300e3;

}  // namespace

absl::StatusOr<double> LaunchOverhead::Idle() {
  if (!idle_ns_) {
    ASSIGN_OR_RETURN(idle_ns_, Around(0, [] {}));
  }
  return *idle_ns_;
}

absl::StatusOr<double> LaunchOverhead::Around(double busy_ns, const std::function<void()>& before_each) const {
  const TrialProgram nothing;
  ASSIGN_OR_RETURN(const std::unique_ptr<TrialProcess> process, TrialProcess::Start(nothing));
  if (process->Await().kind != TrialReply::kDone || !process->Freeze()) {
    return Unavailable("the process that measures the overhead of launches ended");
  }
  TrialCommand command;
  command.kind = TrialCommand::kBusy;
  command.count = static_cast<uint32_t>(std::clamp(busy_ns, 0.0, kBusyMaxNs));
  double least_ns = kOverheadMaxNs;
  for (int i = 0; i < kLaunches; ++i) {
    before_each();
    WitnessedTime took;
    if (process->ObeyFrozen(command, {}, nullptr, &took).kind != TrialReply::kDone) {
      return Unavailable("the process that measures the overhead of launches ended");
    }
    least_ns = std::min(least_ns, took.wall_ns - command.count);
  }
  return std::max(least_ns, 0.0);
}

}  // namespace tunefarm
