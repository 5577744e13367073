#pragma once

// The one deadline that a worker has at a time, and how long each phase may take.
//
// Loop thread only.

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "server/exec/evaluator.h"
#include "server/exec/event_loop.h"
#include "server/exec/outcome_table.h"
#include "tunefarm/v1/measurement.pb.h"
#include "tunefarm/v1/trial.pb.h"

namespace tunefarm {

// Milliseconds that a phase of an evaluation may take. PHASE_UNSPECIFIED: before the first announcement. `policy`: that
// of the evaluation, whose time budget and measuring of energy count.
int DeadlineOf(tunefarm::v1::Phase phase, WorkerRole role, const PhaseDeadlines& deadlines,
               const tunefarm::v1::MeasurementPolicy& policy);

class PhaseTimer {
 public:
  // `expired` must not destroy the timer.
  PhaseTimer(EventLoop* loop, std::function<void()> expired) : loop_(loop), expired_(std::move(expired)) {}
  ~PhaseTimer() { Stop(); }
  PhaseTimer(const PhaseTimer&) = delete;
  PhaseTimer& operator=(const PhaseTimer&) = delete;

  // Replaces the deadline before.
  void Start(int ms);
  void Stop();
  // While the worker waits for what is not its to hurry. What was left is left at Resume; a Start between them counts
  // from the Resume.
  void Pause();
  void Resume();

  // Changes with every Start and Stop: tells whether a deadline is still the same one.
  uint64_t serial() const { return serial_; }
  // Of the last Start.
  int ms() const { return ms_; }

 private:
  void Arm();

  EventLoop* const loop_;
  const std::function<void()> expired_;
  TimerId timer_ = 0;
  uint64_t serial_ = 0;
  int ms_ = 0;
  bool running_ = false, paused_ = false;
  Duration left_{};
  MonotonicTime armed_at_;
  // A timer that has fired already may still stand in the queue.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace tunefarm
