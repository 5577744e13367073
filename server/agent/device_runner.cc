#include "server/agent/device_runner.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "server/agent/final_rounds.h"
#include "server/agent/trial_report.h"
#include "server/base/file_set.h"
#include "server/base/log.h"
#include "server/base/status.h"

namespace tunefarm {

using tunefarm::v1::Trial;
using State = TrialWork::State;

namespace {

constexpr Duration kRetryDelay = std::chrono::milliseconds(100);
// While control is away.
constexpr Duration kDataFilesRetryDelay = std::chrono::seconds(1);

bool IsLost(tunefarm::v1::Outcome outcome) {
  return outcome == tunefarm::v1::OUTCOME_LOST || outcome == tunefarm::v1::OUTCOME_UNSPECIFIED;
}

// Without its reference no trial of a study counts, and these may say more of the moment than of the source.
constexpr int kReferenceTriesMax = 3;
bool MayPassAgain(tunefarm::v1::Outcome outcome) {
  return outcome == tunefarm::v1::OUTCOME_COMPILE_TIMEOUT || outcome == tunefarm::v1::OUTCOME_COMPILE_CRASH ||
         outcome == tunefarm::v1::OUTCOME_OUT_OF_MEMORY;
}

// Whether headers outside of the definition have changed since the reference was compiled, of which the newer compile
// of a config tells. Configs may include others than the default config: only then are the files looked at.
bool IsOutdated(const ReferenceWork& reference, const CompileResult& newer) {
  const FileSet* const inputs = reference.result.inputs.get();
  if (reference.state != ReferenceWork::State::kReady || inputs == nullptr || inputs->content == 0) return false;
  if (newer.inputs == nullptr || ChecksumOf(*newer.inputs) == ChecksumOf(*inputs)) return false;
  return !IsUnchanged(*inputs);
}

}  // namespace

DeviceRunner::DeviceRunner(std::string uuid, const DeviceClass& device_class, Evaluator* evaluator, CompileGate* gate,
                           StudyNotes* notes, Hooks hooks)
    : uuid_(std::move(uuid)),
      class_(device_class),
      evaluator_(evaluator),
      gate_(gate),
      notes_(notes),
      hooks_(std::move(hooks)) {}

DeviceRunner::~DeviceRunner() { *alive_ = false; }

void DeviceRunner::Add(UnitWork* unit) {
  gate_->devices_at_work += units_.empty();
  // On a CPU device nothing is measured while compilers work, so nothing can be done ahead.
  if (units_.empty() && class_.kind != DeviceKind::kHost) evaluator_->Expect(uuid_, *unit->plan);
  units_.push_back(unit);
}

void DeviceRunner::Remove(UnitWork* unit) {
  const auto found = std::find(units_.begin(), units_.end(), unit);
  if (found == units_.end()) return;
  units_.erase(found);
  gate_->devices_at_work -= units_.empty();
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
      const bool on_device = !runs_.empty() && runs_.front().unit_id == unit->assignment.unit_id() &&
                             runs_.front().ordinal == trial.spec.ordinal();
      const bool waits = trial.state == State::kRunning && !on_device;
      if (trial.state == State::kCompiling || waits) evaluator_->Cancel(trial.evaluation);
    }
    CancelReference(*unit);
  }
}

int DeviceRunner::unfinished() const {
  int count = 0;
  for (const UnitWork* unit : units_) {
    if (unit->revoked) continue;
    count += unit->unfinished();
    if (!gate_->shares_work) continue;
    for (const TrialWork& trial : unit->trials) count -= trial.is_elsewhere();
  }
  return count;
}

int DeviceRunner::look_ahead() const {
  const int ahead = run_ahead_.hurries() ? run_ahead_.Bound() * 2 : 0;
  const int workers = evaluator_->compile_slots() / std::max(1, gate_->devices_at_work);
  // A CPU device compiles its batches while nothing runs: the larger, the fewer. And two are compiled or wait.
  const bool overlaps = class_.kind != DeviceKind::kHost;
  return (overlaps ? compile_ahead_.Bound(run_ahead_.mean_ms(), workers) : 3 * workers) + 2 + ahead;
}

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
    StartRuns();
    return;
  }
  if (!measuring_phase_) {
    StartCompiles();
    if (compiling_ > 0 || !may_start() || NextTurn().trial == nullptr) return;
    measuring_phase_ = true;
    ++gate_->hosts_measuring;
  }
  if (gate_->compiles_in_flight > 0 || StartRuns() || !runs_.empty()) return;
  measuring_phase_ = false;
  --gate_->hosts_measuring;
  hooks_.changed();
}

void DeviceRunner::StartCompiles() {
  if (!may_start()) return;
  // What an interleaved unit has compiled waits for the whole unit, other trials for other agents: neither must fill
  // the bound.
  int ahead = compiling_;
  for (const UnitWork* unit : units_) {
    if (unit->interleaved()) continue;
    for (const TrialWork& trial : unit->trials) {
      ahead += trial.state == State::kCompiled && !trial.baseline && !(gate_->shares_work && trial.is_elsewhere());
    }
  }
  for (UnitWork* unit : units_) {
    if (unit->revoked) continue;
    // They come while its configs are compiled.
    if (unit->unfinished() > 0) DataFilesReady(*unit);
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
  EndWaiting(unit, outcome, message, reference.result.log);
  return false;
}

void DeviceRunner::EndWaiting(UnitWork& unit, tunefarm::v1::Outcome outcome, const std::string& message,
                              const std::string& log) {
  for (TrialWork& trial : unit.trials) {
    if (trial.state != State::kWaiting && trial.state != State::kCompiled) continue;
    End(unit, trial, TrialWithoutRun(trial, uuid_, outcome, tunefarm::v1::PHASE_UNSPECIFIED, message, log));
  }
}

bool DeviceRunner::DataFilesReady(UnitWork& unit) {
  if (unit.data_files == nullptr) return true;
  DataFilesWork& files = *unit.data_files;
  if (files.state == DataFilesWork::State::kWaiting) OpenDataFiles(unit);
  if (files.state == DataFilesWork::State::kReady) return true;
  if (files.state == DataFilesWork::State::kFailed) {
    EndWaiting(unit, tunefarm::v1::OUTCOME_LOST, "no inputs can be made: " + files.message, "");
  }
  return false;
}

void DeviceRunner::OpenDataFiles(const UnitWork& unit) {
  const std::shared_ptr<DataFilesWork> files = unit.data_files;
  files->state = DataFilesWork::State::kOpening;
  auto done = [this, alive = alive_, files](absl::StatusOr<std::vector<DataFileHandle>> opened) {
    // Of a runner that is gone, another one opens them.
    if (!*alive) {
      files->state = DataFilesWork::State::kWaiting;
      return;
    }
    if (opened.ok()) {
      files->state = DataFilesWork::State::kReady;
      files->files = *std::move(opened);
    } else if (absl::IsUnavailable(opened.status())) {
      hooks_.later(kDataFilesRetryDelay, [this, alive, files] {
        files->state = DataFilesWork::State::kWaiting;
        if (*alive) hooks_.changed();
      });
    } else {
      LogWarn("agent", "{}", MessageOf(opened.status()));
      files->state = DataFilesWork::State::kFailed;
      files->message = std::string(MessageOf(opened.status()));
    }
    hooks_.changed();
  };
  hooks_.open_data_files(
      *unit.plan, [post = hooks_.post, done = std::move(done)](absl::StatusOr<std::vector<DataFileHandle>> opened) {
        post([done, opened = std::move(opened)] { done(opened); });
      });
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
    } else if ((IsLost(result.outcome) && reference->attempts < kAttemptsMax) ||
               (MayPassAgain(result.outcome) && reference->attempts < kReferenceTriesMax)) {
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
  CompileRequest request{unit.plan, unit.problem, class_, unit.plan->DefaultConfig(*unit.problem)};
  request.reference = true;
  reference->evaluation =
      evaluator_->Compile(std::move(request), [post = hooks_.post, done = std::move(done)](CompileResult result) {
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
  const double expected_ms = notes_->Compiles(unit.assignment.study_id()).ExpectMs(trial.config);
  trial.evaluation =
      evaluator_->Compile({unit.plan, unit.problem, class_, trial.config, expected_ms},
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
  if (!IsLost(compile.outcome) && !compile.from_cache) {
    notes_->Compiles(unit->assignment.study_id()).Note(trial->config, compile.compile_ms);
  }
  if (!IsLost(compile.outcome)) compile_ahead_.Note(compile.from_cache ? 0 : compile.compile_ms);
  if (compile.outcome == tunefarm::v1::OUTCOME_OK && compile.artifact != nullptr) {
    trial->state = State::kCompiled;
    if (unit->reference != nullptr && IsOutdated(*unit->reference, compile)) *unit->reference = ReferenceWork();
    if (std::optional<Trial> before = MeasuredBefore(*trial)) {
      End(*unit, *trial, *std::move(before));
    } else if (!unit->interleaved() && !unit->assignment.policy().no_reuse()) {
      const absl::StatusOr<Digest> work = WorkDigest(*unit, *trial, class_);
      if (work.ok()) trial->work = *work;
    }
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
    if (unit->unfinished() > 0 && !DataFilesReady(*unit)) continue;
    if (unit->interleaved()) {
      if (TrialWork* const trial = NextInRounds(unit)) return {unit, trial};
      continue;
    }
    for (TrialWork& trial : unit->trials) {
      if (trial.state == State::kCompiled && !trial.delayed && !FollowsTwin(*unit, trial)) return {unit, &trial};
    }
  }
  return {};
}

bool DeviceRunner::FollowsTwin(UnitWork& unit, TrialWork& trial) {
  if (!trial.work.has_value()) return false;
  const StudyNotes::Twin twin = notes_->Find(unit.assignment.study_id(), *trial.work);
  if (twin.verdict != nullptr) End(unit, trial, ReusedTrial(trial, *twin.verdict));
  return twin.verdict != nullptr || twin.runs || (gate_->shares_work && trial.claim != TrialWork::Claim::kRuns);
}

void DeviceRunner::TakeClaims(int max, tunefarm::agent::v1::ClaimWorkRequest* request) {
  if (!may_start()) return;
  for (UnitWork* unit : units_) {
    if (unit->revoked) continue;
    for (TrialWork& trial : unit->trials) {
      if (max <= 0) return;
      if (trial.state != State::kCompiled || !trial.work.has_value()) continue;
      if (trial.claim == TrialWork::Claim::kRuns || !trial.claim_is_due) continue;
      // Work that this agent measures or has measured needs no claim: FollowsTwin decides.
      const StudyNotes::Twin twin = notes_->Find(unit->assignment.study_id(), *trial.work);
      if (twin.verdict != nullptr || twin.runs) continue;
      trial.claim_is_due = false;
      auto* const claim = request->add_claims();
      claim->set_unit_id(unit->assignment.unit_id());
      claim->set_token(unit->assignment.token());
      claim->set_ordinal(trial.spec.ordinal());
      claim->set_work(WorkNumber(*trial.work));
      --max;
    }
  }
}

void DeviceRunner::TakeAnswer(UnitWork& unit, int64_t ordinal, const tunefarm::agent::v1::WorkAnswer& answer) {
  TrialWork* const trial = FindTrial(unit, ordinal);
  if (trial == nullptr || trial->state != State::kCompiled || !trial->work.has_value()) return;
  if (answer.has_measured()) notes_->Learn(unit.assignment.study_id(), *trial->work, answer.measured());
  trial->claim = answer.is_elsewhere() ? TrialWork::Claim::kElsewhere : TrialWork::Claim::kRuns;
}

void DeviceRunner::ClaimLater(const tunefarm::agent::v1::ClaimWorkRequest& request) {
  for (const tunefarm::agent::v1::WorkClaim& claim : request.claims()) {
    UnitWork* const unit = FindUnit(claim.unit_id());
    if (unit == nullptr || unit->assignment.token() != claim.token()) continue;
    if (TrialWork* const trial = FindTrial(*unit, claim.ordinal())) trial->claim_is_due = true;
  }
}

void DeviceRunner::ClaimAgain() {
  for (UnitWork* unit : units_) {
    for (TrialWork& trial : unit->trials) trial.claim_is_due = trial.claim_is_due || trial.is_elsewhere();
  }
}

bool DeviceRunner::StartRuns() {
  while (may_start() && static_cast<int>(runs_.size()) < run_ahead_.Bound()) {
    // What comes next in an interleaved unit may depend on the result, and rounds keep their distance. Not even asked
    // for: the unit would pass over the trial that runs, whose turn in the next round may be the very next one.
    if (!runs_.empty() && runs_.back().interleaved) return true;
    const Turn turn = NextTurn();
    if (turn.trial == nullptr) return false;
    if (!runs_.empty() && turn.unit->interleaved()) return true;
    StartRun(turn);
  }
  return may_start();
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
  if (unit.data_files != nullptr) request.data_files = unit.data_files->files;
  request.policy = unit.assignment.policy();
  const auto& seeds = unit.problem->input_seeds;
  request.input_seed = seeds.empty() ? 1 : seeds[0];
  request.baseline = trial.baseline;
  request.keep_samples = trial.baseline;
  request.policy.set_measure_energy(false);  // finalists once: it takes seconds
  if (unit.interleaved()) AddRound(trial, class_, &unit, &request);
  const int64_t study_id = unit.assignment.study_id();
  const bool races = !unit.interleaved() && !trial.baseline && !request.policy.no_early_stop();
  if (races) request.race_limit_ns = notes_->RaceLimitNs(study_id, unit.assignment.race_limit_ns());
  if (trial.work.has_value()) notes_->Begin(study_id, *trial.work);
  trial.state = State::kRunning;
  const int64_t unit_id = unit.assignment.unit_id(), ordinal = trial.spec.ordinal();
  runs_.push_back({unit_id, ordinal, unit.interleaved(), study_id, trial.work});
  trial.evaluation = evaluator_->Run(std::move(request),
                                     [this, alive = alive_, post = hooks_.post, unit_id, ordinal](RunResult result) {
                                       post([this, alive, unit_id, ordinal, result = std::move(result)]() mutable {
                                         if (*alive) OnRun(unit_id, ordinal, std::move(result));
                                       });
                                     });
}

void DeviceRunner::OnRun(int64_t unit_id, int64_t ordinal, RunResult result) {
  const auto run = std::find_if(runs_.begin(), runs_.end(), [&](const RunInFlight& in_flight) {
    return in_flight.unit_id == unit_id && in_flight.ordinal == ordinal;
  });
  if (run == runs_.end()) return hooks_.changed();
  const RunInFlight in_flight = *run;
  runs_.erase(run);
  // Until the verdict is known; those that wait for it look again at the next Pump.
  if (in_flight.work.has_value()) notes_->End(in_flight.study_id, *in_flight.work, nullptr);
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
  if (result.out_of_service && IsLost(result.outcome)) {
    // No loss of the trial's: the agent gives the unit back.
    out_of_service_ = true;
    hooks_.changed();
    return;
  }
  trial->run_ms += result.run_ms;
  trial->device_busy_ms += result.device_busy_ms;
  // After the last start a loss is our own doing, and the unit goes back.
  if (IsLost(result.outcome) && !stopped_) {
    LogInfo("agent", "attempt {} at trial {} of unit {} is lost: {}", trial->losses + 1, trial->spec.ordinal(),
            unit->assignment.unit_id(), result.message);
  }
  if (IsLost(result.outcome) && (stopped_ || RetryAfterLoss(*unit, *trial, State::kCompiled))) {
    hooks_.changed();
    return;
  }
  if (!IsLost(result.outcome) && RunsAgainAlone(result, unit)) {
    LogInfo("agent", "trial {} of unit {} runs again without a yardstick: {}", trial->spec.ordinal(),
            unit->assignment.unit_id(), result.message);
    hooks_.changed();
    return;
  }
  // How long measuring an energy takes says nothing of runs to come.
  if (!IsLost(result.outcome) && !result.measurement.has_energy()) run_ahead_.Note(result.run_ms);
  if (IsLost(result.outcome)) result.outcome = tunefarm::v1::OUTCOME_LOST;
  const bool good = result.outcome == tunefarm::v1::OUTCOME_OK || result.outcome == tunefarm::v1::OUTCOME_NOISY;
  trial->rounds.push_back(std::move(result));
  const int rounds = std::max(1, unit->assignment.interleaved_rounds());
  if (!good || static_cast<int>(trial->rounds.size()) >= rounds) {
    const int sets = unit->interleaved() ? static_cast<int>(unit->problem->input_seeds.size()) : 1;
    Trial ended = TrialFromRounds(*trial, uuid_, sets);
    if (in_flight.work.has_value()) notes_->End(in_flight.study_id, *in_flight.work, &ended);
    if (!unit->interleaved() && !trial->baseline) notes_->NoteTime(in_flight.study_id, ended);
    End(*unit, *trial, std::move(ended));
  }
  hooks_.changed();
}

void DeviceRunner::End(UnitWork& unit, TrialWork& trial, Trial ended) {
  trial.state = State::kFinished;
  if (trial.work.has_value()) ended.set_work(WorkNumber(*trial.work));
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
