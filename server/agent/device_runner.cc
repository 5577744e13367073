#include "server/agent/device_runner.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "server/agent/trial_report.h"
#include "server/base/status.h"

namespace tunefarm {

using tunefarm::v1::Trial;
using State = TrialWork::State;

namespace {

constexpr Duration kRetryDelay = std::chrono::milliseconds(100);

bool IsLost(tunefarm::v1::Outcome outcome) {
  return outcome == tunefarm::v1::OUTCOME_LOST || outcome == tunefarm::v1::OUTCOME_UNSPECIFIED;
}

}  // namespace

DeviceRunner::DeviceRunner(std::string uuid, const DeviceClass& device_class, Evaluator* evaluator, CompileGate* gate,
                           Hooks hooks)
    : uuid_(std::move(uuid)), class_(device_class), evaluator_(evaluator), gate_(gate), hooks_(std::move(hooks)) {}

DeviceRunner::~DeviceRunner() { *alive_ = false; }

void DeviceRunner::Add(UnitWork* unit) { units_.push_back(unit); }

void DeviceRunner::Remove(UnitWork* unit) {
  units_.erase(std::remove(units_.begin(), units_.end(), unit), units_.end());
}

void DeviceRunner::Revoke(UnitWork* unit) {
  unit->revoked = true;
  for (const TrialWork& trial : unit->trials) {
    if (trial.state == State::kCompiling || trial.state == State::kRunning) evaluator_->Cancel(trial.evaluation);
  }
  const bool shared = std::any_of(units_.begin(), units_.end(), [&](const UnitWork* other) {
    return !other->revoked && other->reference == unit->reference;
  });
  if (!shared) CancelReference(*unit);
}

void DeviceRunner::CancelReference(UnitWork& unit) {
  ReferenceWork* reference = unit.reference.get();
  if (reference == nullptr || reference->state != ReferenceWork::State::kCompiling || reference->cancelled) return;
  if (reference->evaluation == 0) return;  // between two attempts there is nothing to kill
  reference->cancelled = true;
  evaluator_->Cancel(reference->evaluation);
}

void DeviceRunner::StopStarting() {
  stopped_ = true;
  for (UnitWork* unit : units_) {
    for (const TrialWork& trial : unit->trials) {
      if (trial.state == State::kCompiling) evaluator_->Cancel(trial.evaluation);
    }
    CancelReference(*unit);
  }
}

int DeviceRunner::unfinished() const {
  int count = 0;
  for (const UnitWork* unit : units_) count += unit->revoked ? 0 : unit->unfinished();
  return count;
}

int DeviceRunner::look_ahead() const { return evaluator_->compile_slots() * 2 + 2; }

UnitWork* DeviceRunner::FindUnit(int64_t unit_id) {
  for (UnitWork* unit : units_) {
    if (unit->assignment.unit_id() == unit_id) return unit;
  }
  return nullptr;
}

TrialWork* DeviceRunner::FindTrial(UnitWork& unit, int64_t ordinal) {
  for (TrialWork& trial : unit.trials) {
    if (trial.spec.ordinal() == ordinal) return &trial;
  }
  return nullptr;
}

void DeviceRunner::Pump() {
  if (class_.kind != DeviceKind::kHost) {
    StartCompiles();
    if (running_ || stopped_) return;
    const Turn turn = NextTurn();
    if (turn.trial != nullptr) StartRun(turn);
    return;
  }
  if (!measuring_phase_) {
    StartCompiles();
    if (compiling_ > 0 || stopped_ || NextTurn().trial == nullptr) return;
    measuring_phase_ = true;
    ++gate_->hosts_measuring;
  }
  if (running_ || gate_->compiles_in_flight > 0) return;
  const Turn turn = stopped_ ? Turn{} : NextTurn();
  if (turn.trial != nullptr) {
    StartRun(turn);
    return;
  }
  measuring_phase_ = false;
  --gate_->hosts_measuring;
  hooks_.changed();
}

void DeviceRunner::StartCompiles() {
  if (stopped_) return;
  // What an interleaved unit has compiled waits for the whole unit and must not fill the bound.
  int ahead = compiling_;
  for (const UnitWork* unit : units_) {
    if (unit->interleaved()) continue;
    for (const TrialWork& trial : unit->trials) ahead += trial.state == State::kCompiled && !trial.baseline;
  }
  for (UnitWork* unit : units_) {
    if (unit->revoked) continue;
    // A lost reference is started again although every trial may be compiled and fill the bound: they all wait for it.
    if (unit->reference != nullptr && unit->reference->state == ReferenceWork::State::kWaiting &&
        unit->unfinished() > 0 && gate_->hosts_measuring == 0) {
      ReferenceReady(*unit);
      ++ahead;
    }
    for (TrialWork& trial : unit->trials) {
      if (trial.state != State::kWaiting || trial.delayed) continue;
      if (ahead >= look_ahead() || gate_->hosts_measuring > 0) return;
      const int before = compiling_;
      if (unit->reference != nullptr) {
        ReferenceReady(*unit);
        if (unit->reference->state == ReferenceWork::State::kFailed) break;
      }
      StartTrialCompile(*unit, trial);
      ahead += compiling_ - before;
    }
  }
}

bool DeviceRunner::ReferenceReady(UnitWork& unit) {
  if (unit.reference == nullptr) return true;
  ReferenceWork& reference = *unit.reference;
  if (reference.state == ReferenceWork::State::kWaiting) StartReference(unit);
  if (reference.state == ReferenceWork::State::kReady) return true;
  if (reference.state != ReferenceWork::State::kFailed) return false;
  const std::string message = fmt::format(
      "nothing can be verified: the reference is compiled with the default config ({}), and that failed: {}",
      unit.plan->DefaultConfig(*unit.problem).ToText(), reference.result.message);
  const auto outcome = IsLost(reference.result.outcome) ? tunefarm::v1::OUTCOME_LOST : reference.result.outcome;
  for (TrialWork& trial : unit.trials) {
    if (trial.state != State::kWaiting && trial.state != State::kCompiled) continue;
    End(unit, trial,
        TrialWithoutRun(trial, uuid_, outcome, tunefarm::v1::PHASE_UNSPECIFIED, message, reference.result.log));
  }
  return false;
}

void DeviceRunner::StartReference(UnitWork& unit) {
  std::shared_ptr<ReferenceWork> reference = unit.reference;
  reference->state = ReferenceWork::State::kCompiling;
  ++compiling_;
  ++gate_->compiles_in_flight;
  auto done = [this, alive = alive_, reference](CompileResult result) {
    if (!*alive) return;
    --compiling_;
    --gate_->compiles_in_flight;
    reference->evaluation = 0;
    const bool cancelled = std::exchange(reference->cancelled, false);
    if (!cancelled) ++reference->attempts;
    if (result.outcome == tunefarm::v1::OUTCOME_OK && result.artifact != nullptr) {
      reference->state = ReferenceWork::State::kReady;
    } else if (IsLost(result.outcome) && cancelled) {
      reference->state = ReferenceWork::State::kWaiting;
    } else if (IsLost(result.outcome) && reference->attempts < kAttemptsMax) {
      hooks_.later(kRetryDelay, [this, alive, reference] {
        if (!*alive || reference->state != ReferenceWork::State::kCompiling) return;
        reference->state = ReferenceWork::State::kWaiting;
        hooks_.changed();
      });
    } else {
      reference->state = ReferenceWork::State::kFailed;
    }
    reference->result = std::move(result);
    hooks_.changed();
  };
  reference->evaluation =
      evaluator_->Compile({unit.plan, unit.problem, class_, unit.plan->DefaultConfig(*unit.problem)},
                          [post = hooks_.post, done = std::move(done)](CompileResult result) {
                            post([done, result = std::move(result)]() mutable { done(std::move(result)); });
                          });
}

void DeviceRunner::StartTrialCompile(UnitWork& unit, TrialWork& trial) {
  if (trial.baseline) {  // Its binary, if it needs one, is that of the default config.
    trial.state = State::kCompiled;
    return;
  }
  const auto broken = unit.plan->FirstBrokenDeviceLimit(*unit.problem, trial.config, class_);
  if (!broken.ok() || !broken->empty()) {
    const std::string message = broken.ok() ? *broken : std::string(MessageOf(broken.status()));
    End(unit, trial,
        TrialWithoutRun(trial, uuid_, tunefarm::v1::OUTCOME_PRUNED, tunefarm::v1::PHASE_UNSPECIFIED, message, ""));
    return;
  }
  trial.state = State::kCompiling;
  ++compiling_;
  ++gate_->compiles_in_flight;
  const int64_t unit_id = unit.assignment.unit_id(), ordinal = trial.spec.ordinal();
  trial.evaluation =
      evaluator_->Compile({unit.plan, unit.problem, class_, trial.config},
                          [this, alive = alive_, post = hooks_.post, unit_id, ordinal](CompileResult result) {
                            post([this, alive, unit_id, ordinal, result = std::move(result)]() mutable {
                              if (*alive) OnCompiled(unit_id, ordinal, std::move(result));
                            });
                          });
}

void DeviceRunner::OnCompiled(int64_t unit_id, int64_t ordinal, CompileResult result) {
  --compiling_;
  --gate_->compiles_in_flight;
  UnitWork* unit = FindUnit(unit_id);
  TrialWork* trial = unit == nullptr ? nullptr : FindTrial(*unit, ordinal);
  if (trial == nullptr || trial->state != State::kCompiling) {
    hooks_.changed();
    return;
  }
  trial->state = State::kWaiting;
  if (unit->revoked || stopped_) {
    hooks_.changed();
    return;
  }
  trial->compile = std::move(result);
  const CompileResult& compile = trial->compile;
  if (compile.outcome == tunefarm::v1::OUTCOME_OK && compile.artifact != nullptr) {
    trial->state = State::kCompiled;
  } else if (!IsLost(compile.outcome) || !RetryAfterLoss(*unit, *trial, State::kWaiting)) {
    const auto outcome = IsLost(compile.outcome) || compile.outcome == tunefarm::v1::OUTCOME_OK
                             ? tunefarm::v1::OUTCOME_LOST
                             : compile.outcome;
    End(*unit, *trial,
        TrialWithoutRun(*trial, uuid_, outcome, tunefarm::v1::PHASE_COMPILE, compile.message, compile.log));
  }
  hooks_.changed();
}

DeviceRunner::Turn DeviceRunner::NextTurn() {
  for (UnitWork* unit : units_) {
    if (unit->revoked) continue;
    if (unit->reference != nullptr && unit->reference->state != ReferenceWork::State::kReady) {
      if (unit->reference->state == ReferenceWork::State::kFailed) ReferenceReady(*unit);
      continue;
    }
    if (unit->interleaved()) {
      const Turn turn = NextInterleaved(*unit);
      if (turn.trial != nullptr) return turn;
      continue;
    }
    for (TrialWork& trial : unit->trials) {
      if (trial.state == State::kCompiled && !trial.delayed) return {unit, &trial};
    }
  }
  return {};
}

DeviceRunner::Turn DeviceRunner::NextInterleaved(UnitWork& unit) {
  for (const TrialWork& trial : unit.trials) {
    if (trial.state == State::kWaiting || trial.state == State::kCompiling) return {};
  }
  // The order rotates by one with every round, so that no config always runs after the same neighbour's heat.
  const int count = static_cast<int>(unit.trials.size());
  for (; unit.round < unit.assignment.interleaved_rounds(); ++unit.round, unit.position = 0) {
    for (; unit.position < count; ++unit.position) {
      TrialWork& trial = unit.trials[static_cast<size_t>((unit.position + unit.round) % count)];
      if (trial.state != State::kCompiled || static_cast<int>(trial.rounds.size()) > unit.round) continue;
      if (trial.delayed) return {};
      return {&unit, &trial};
    }
  }
  return {};
}

void DeviceRunner::StartRun(Turn turn) {
  UnitWork& unit = *turn.unit;
  TrialWork& trial = *turn.trial;
  RunRequest request;
  request.plan = unit.plan;
  request.problem = unit.problem;
  request.device_uuid = uuid_;
  request.device_class = class_;
  request.config = trial.config;
  request.artifact = trial.compile.artifact;
  if (unit.reference != nullptr) request.reference_artifact = unit.reference->result.artifact;
  if (trial.baseline && !unit.plan->Entries(Sequence::kBaseline).empty()) request.artifact = request.reference_artifact;
  request.policy = unit.assignment.policy();
  const auto& seeds = unit.problem->input_seeds;
  const size_t round = trial.rounds.size();
  request.input_seed = seeds.empty() ? 1 : seeds[unit.interleaved() ? round % seeds.size() : 0];
  request.baseline = trial.baseline;
  request.keep_samples = unit.interleaved() || trial.baseline;
  trial.state = State::kRunning;
  running_ = true;
  const int64_t unit_id = unit.assignment.unit_id(), ordinal = trial.spec.ordinal();
  trial.evaluation = evaluator_->Run(std::move(request),
                                     [this, alive = alive_, post = hooks_.post, unit_id, ordinal](RunResult result) {
                                       post([this, alive, unit_id, ordinal, result = std::move(result)]() mutable {
                                         if (*alive) OnRun(unit_id, ordinal, std::move(result));
                                       });
                                     });
}

void DeviceRunner::OnRun(int64_t unit_id, int64_t ordinal, RunResult result) {
  running_ = false;
  UnitWork* unit = FindUnit(unit_id);
  TrialWork* trial = unit == nullptr ? nullptr : FindTrial(*unit, ordinal);
  if (trial == nullptr || trial->state != State::kRunning) {
    hooks_.changed();
    return;
  }
  trial->state = State::kCompiled;
  if (unit->revoked) {
    hooks_.changed();
    return;
  }
  trial->run_ms += result.run_ms;
  if (IsLost(result.outcome) && RetryAfterLoss(*unit, *trial, State::kCompiled)) {
    hooks_.changed();
    return;
  }
  if (IsLost(result.outcome)) result.outcome = tunefarm::v1::OUTCOME_LOST;
  const bool good = result.outcome == tunefarm::v1::OUTCOME_OK || result.outcome == tunefarm::v1::OUTCOME_NOISY;
  trial->rounds.push_back(std::move(result));
  const int rounds = std::max(1, unit->assignment.interleaved_rounds());
  if (!good || static_cast<int>(trial->rounds.size()) >= rounds) {
    const int sets = unit->interleaved() ? static_cast<int>(unit->problem->input_seeds.size()) : 1;
    End(*unit, *trial, TrialFromRounds(*trial, uuid_, sets));
  }
  hooks_.changed();
}

void DeviceRunner::End(UnitWork& unit, TrialWork& trial, Trial ended) {
  trial.state = State::kFinished;
  trial.compile.artifact = nullptr;
  trial.rounds.clear();
  unit.pending.push_back(std::move(ended));
  hooks_.trial_ended(unit);
}

bool DeviceRunner::RetryAfterLoss(UnitWork& unit, TrialWork& trial, State back_to) {
  if (trial.losses + 1 >= kAttemptsMax) return false;
  ++trial.losses;
  trial.state = back_to;
  trial.delayed = true;
  const int64_t unit_id = unit.assignment.unit_id(), ordinal = trial.spec.ordinal();
  hooks_.later(kRetryDelay * trial.losses, [this, alive = alive_, unit_id, ordinal] {
    if (!*alive) return;
    UnitWork* own = FindUnit(unit_id);
    TrialWork* again = own == nullptr ? nullptr : FindTrial(*own, ordinal);
    if (again == nullptr) return;
    again->delayed = false;
    hooks_.changed();
  });
  return true;
}

}  // namespace tunefarm
