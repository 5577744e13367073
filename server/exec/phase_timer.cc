#include "server/exec/phase_timer.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "server/measure/energy.h"

namespace tunefarm {

int DeadlineOf(tunefarm::v1::Phase phase, WorkerRole role, const PhaseDeadlines& deadlines,
               const tunefarm::v1::MeasurementPolicy& policy) {
  switch (phase) {
    case tunefarm::v1::PHASE_COMPILE:
      return deadlines.compile_ms;
    case tunefarm::v1::PHASE_FIRST_LAUNCH:
      return deadlines.first_launch_ms;
    case tunefarm::v1::PHASE_VERIFY:
      // Launches again before it compares.
      return deadlines.verify_ms + deadlines.first_launch_ms;
    case tunefarm::v1::PHASE_MEASURE:
      // Warm-up and sampling may each spend the budget, and each ends with the launch that it is in: one of them, and
      // the fewest samples there can be.
      return 2 * policy.time_budget_ms() + deadlines.measure_grace_ms + 4 * deadlines.first_launch_ms +
             (policy.measure_energy() ? kEnergyMsMax : 0);
    default:
      break;
  }
  return role == WorkerRole::kCompile ? deadlines.compile_ms : deadlines.load_ms;
}

void PhaseTimer::Start(int ms) {
  Stop();
  ms_ = ms;
  left_ = std::chrono::milliseconds(ms);
  running_ = true;
  if (!paused_) Arm();
}

void PhaseTimer::Stop() {
  ++serial_;
  running_ = false;
  loop_->Cancel(timer_);
  *alive_ = false;
  alive_ = std::make_shared<bool>(true);
}

void PhaseTimer::Pause() {
  if (paused_) return;
  paused_ = true;
  if (!running_) return;
  loop_->Cancel(timer_);
  *alive_ = false;
  alive_ = std::make_shared<bool>(true);
  left_ = std::max(Duration{}, left_ - (loop_->clock()->Now() - armed_at_));
}

void PhaseTimer::Resume() {
  if (!paused_) return;
  paused_ = false;
  if (running_) Arm();
}

void PhaseTimer::Arm() {
  armed_at_ = loop_->clock()->Now();
  timer_ = loop_->PostAfter(left_, [this, alive = alive_] {
    if (*alive) expired_();
  });
}

}  // namespace tunefarm
