// What a WorkerProcess makes of the frames that come in.
#include <fmt/core.h>
#include <signal.h>

#include <utility>

#include "server/base/failpoint.h"
#include "server/base/log.h"
#include "server/base/memfd.h"
#include "server/base/status.h"
#include "server/exec/frame_check.h"
#include "server/exec/frame_limits.h"
#include "server/exec/worker_process.h"

namespace tunefarm {
namespace {

using tunefarm::worker::v1::Evaluate;
using tunefarm::worker::v1::Frame;
using tunefarm::worker::v1::HealthReport;
using tunefarm::worker::v1::Hello;
using tunefarm::worker::v1::PhaseBegan;
using tunefarm::worker::v1::Prepared;
using tunefarm::worker::v1::Result;

// A trial goes through five phases and checks twice; announcing more only buys time.
constexpr int kPhasesPerTaskMax = 16;
constexpr int kLogsPerTaskMax = 1000;
// One for each step of a preparation ahead, and one to measure.
constexpr int kBatonRequestsPerTaskMax = 4096;
// So that one chatty worker does not starve the others.
constexpr int kFramesPerRound = 64;

// Of a task in which the worker saw a process of its own die of SIGKILL: as if it had been the worker.
void JudgeKill(WorkerEnd end, MemoryKills kills, WorkerTaskEnd* task_end) {
  end.cause = WorkerEndCause::kExited;
  end.status = ExitStatus{false, 0, SIGKILL};
  end.memory_kills = kills;
  task_end->verdict = VerdictFor(end);
  task_end->killed_from_outside = IsKilledFromOutside(end);
}

}  // namespace

void WorkerProcess::ReadChannel() {
  for (int i = 0; i < kFramesPerRound && channel_.valid(); ++i) {
    if (!reading_) {
      loop_->WatchHangUpOnly(channel_watch_);
      // Watching for hang-up only: being here means that the other end has closed, or will.
      ReceivedFrame ignored;
      std::string error;
      for (int skipped = 0; skipped < kFramesPerRound; ++skipped) {
        const ReceiveResult result = channel_.Receive(&ignored, &error);
        if (result == ReceiveResult::kClosed) return OnChannelClosed();
        if (result == ReceiveResult::kEmpty) return;
      }
      return;
    }
    ReceivedFrame received;
    std::string error;
    switch (channel_.Receive(&received, &error)) {
      case ReceiveResult::kEmpty:
        return;
      case ReceiveResult::kClosed:
        return OnChannelClosed();
      case ReceiveResult::kGarbage:
        BeginEnding(WorkerEndCause::kProtocol, std::move(error));
        break;
      case ReceiveResult::kFrame:
        OnFrame(std::move(received));
        break;
    }
  }
}

void WorkerProcess::OnFrame(ReceivedFrame received) {
  std::string wrong;
  const Frame::BodyCase body = received.frame.body_case();
  const bool may_carry = body == Frame::kResult || body == Frame::kPrepared || body == Frame::kHello;
  if (!may_carry && !received.fds.empty()) {
    wrong = "it attached descriptors to a frame that has none";
  } else {
    bool expected = true;
    wrong = Dispatch(&received, &expected);
    if (!expected) wrong = "it sent a frame that nobody asked for";
  }
  if (!wrong.empty()) BeginEnding(WorkerEndCause::kProtocol, std::move(wrong));
}

std::string WorkerProcess::Dispatch(ReceivedFrame* received, bool* expected) {
  const Frame& frame = received->frame;
  const bool preparing = state_ == State::kPreparing || state_ == State::kPreloading;
  switch (frame.body_case()) {
    case Frame::kHello:
      if (state_ != State::kStarting || !hello_.role().empty()) break;
      return OnHello(frame.hello(), std::move(received->fds));
    case Frame::kProbeReport: {
      if (state_ != State::kStarting || options_.role != WorkerRole::kProbe) break;
      std::string wrong = CheckProbeReport(frame.probe_report());
      if (!wrong.empty()) return wrong;
      state_ = State::kIdle;
      timer_.Stop();
      PostGuarded([on_report = callbacks_.on_probe_report, report = frame.probe_report()] { on_report(report); });
      return "";
    }
    case Frame::kPrepared:
      if (!preparing) break;
      return OnPrepared(frame.prepared(), std::move(received->fds));
    case Frame::kPhaseBegan:
      if (!busy() && !preparing) break;
      return OnPhase(frame.phase_began());
    case Frame::kBatonRequest:
      if (options_.baton == nullptr || (!busy() && !preparing)) break;
      return OnBatonRequest();
    case Frame::kBatonReturn:
      if (options_.baton == nullptr || !options_.baton->IsHeldBy(this)) break;
      return OnBatonReturn();
    case Frame::kHealthReport:
      if (state_ != State::kChecking) break;
      return OnHealthReport(frame.health_report());
    case Frame::kResult:
      if (state_ != State::kEvaluating) break;
      OnResult(std::move(*received->frame.mutable_result()), std::move(received->fds));
      return "";
    case Frame::kLog:
      if (++logs_ <= kLogsPerTaskMax) {
        LogDebug("exec", "{}: {}", options_.name, PrintableText(frame.log().text().substr(0, kFrameMessageBytesMax)));
      }
      return "";
    default:
      break;
  }
  *expected = false;
  return "";
}

std::string WorkerProcess::OnHello(const Hello& hello, std::vector<UniqueFd> fds) {
  std::string wrong = CheckHello(hello, options_.role, options_.backend, fds.size());
  if (!wrong.empty()) return wrong;
  hello_ = hello;
  if (options_.role == WorkerRole::kProbe) return "";  // Its report follows by itself.
  if (hello.has_warm_start()) {
    const absl::StatusOr<uint64_t> bytes = SizeOfSealedMemfd(fds[0].get(), kWarmStartBytesMax);
    if (!bytes.ok()) return fmt::format("what it leaves to later ones is unusable: {}", MessageOf(bytes.status()));
    if (callbacks_.on_warm_start) {
      callbacks_.on_warm_start(std::make_shared<const SharedMemfd>(SharedMemfd{std::move(fds[0]), *bytes}));
    }
  }
  state_ = State::kIdle;
  timer_.Stop();
  LogDebug("exec", "{} is ready: pid {}, {}, sandbox {}", options_.name, pid(), PrintableText(hello.toolchain()),
           PrintableText(hello.sandbox_level()));
  PostGuarded([this] { callbacks_.on_ready(); });
  return "";
}

std::string WorkerProcess::OnPrepared(const Prepared& prepared, std::vector<UniqueFd> fds) {
  std::string wrong = CheckPrepared(prepared, options_.role, fds.size());
  if (!wrong.empty()) return wrong;
  const WorkerPreparation& preparation = preload_ != nullptr ? *preload_ : *task_->preparation;
  if (prepared.has_expected_outputs()) {
    if (options_.expected_outputs == nullptr || preload_ != nullptr) return "it sent outputs that nobody asked for";
    const absl::StatusOr<uint64_t> bytes = SizeOfSealedMemfd(fds[0].get(), options_.expected_outputs->one_bytes_max());
    if (!bytes.ok()) return fmt::format("the reference's outputs are unusable: {}", MessageOf(bytes.status()));
    options_.expected_outputs->Put(preparation.key, {std::move(fds[0]), *bytes});
  }
  if (prepared.ok()) {
    prepared_key_ = preparation.key;
    prepared_reference_ = preparation.reference_artifact;
  }
  has_left_device_ = prepared.worker_is_damaged();
  DropBaton();
  if (preload_ != nullptr) {
    OnPreloaded(prepared);
  } else if (!prepared.ok()) {
    WorkerTaskEnd end;
    end.verdict = {prepared.outcome(), PrintableText(prepared.message())};
    end.lost_by_machine = prepared.outcome() == tunefarm::v1::OUTCOME_LOST && prepared.worker_is_damaged();
    if (prepared.is_killed()) JudgeKill(end_, memory_kills_.Look(), &end);
    FinishTask(std::move(end), !prepared.worker_is_damaged());
  } else {
    if (callbacks_.on_prepared) PostGuarded([this] { callbacks_.on_prepared(); });
    SendEvaluate();
  }
  return "";
}

void WorkerProcess::OnPreloaded(const Prepared& prepared) {
  preload_ = nullptr;
  if (!prepared.ok()) {
    LogDebug("exec", "{} is not prepared ahead: {}", options_.name, PrintableText(prepared.message()));
  }
  PostGuarded([done = std::exchange(preload_done_, nullptr), ok = prepared.ok()] { done(ok); });
  if (!prepared.worker_is_damaged()) return BeginIdle();
  BeginEnding(WorkerEndCause::kProtocol, "its context was damaged");
}

std::string WorkerProcess::OnHealthReport(const HealthReport& report) {
  std::string wrong = CheckHealthReport(report);
  if (!wrong.empty()) return wrong;
  PostGuarded([done = std::exchange(health_done_, nullptr), report] { done(report); });
  BeginIdle();
  return "";
}

std::string WorkerProcess::OnBatonRequest() {
  if (options_.baton->IsHeldBy(this) || options_.baton->IsWaiting(this)) return "it asked twice for the baton";
  if (++baton_requests_ > kBatonRequestsPerTaskMax) return "it asked for the baton again and again";
  // The others' time is not its own.
  timer_.Pause();
  options_.baton->Take(this, [this] {
    timer_.Resume();
    Frame frame;
    frame.mutable_baton_grant();
    (void)Send(frame, {});
  });
  return "";
}

std::string WorkerProcess::OnBatonReturn() {
  options_.baton->Drop(this);
  return "";
}

std::string WorkerProcess::OnPhase(const PhaseBegan& phase) {
  std::string wrong = CheckPhase(phase);
  if (!wrong.empty()) return wrong;
  // Phases of a Prepare only tell where it stands; its deadline is one for all.
  const uint64_t expected = state_ == State::kEvaluating ? evaluation_id_ : 0;
  if (phase.evaluation_id() != expected) {
    return fmt::format("it announced a phase of evaluation {} during evaluation {}", phase.evaluation_id(), expected);
  }
  if (++phases_announced_ > kPhasesPerTaskMax) {
    return fmt::format("it announced more than {} phases", kPhasesPerTaskMax);
  }
  if (state_ != State::kEvaluating) return "";
  end_.phase = phase.phase();
  StartPhase(phase.phase());
  if (phase.phase() == tunefarm::v1::PHASE_FIRST_LAUNCH && callbacks_.on_first_launch) callbacks_.on_first_launch();
  return "";
}

void WorkerProcess::OnResult(Result result, std::vector<UniqueFd> fds) {
  PassFailpoint("exec.result");
  const Evaluate& evaluate = task_->evaluate;
  std::string wrong;
  if (result.evaluation_id() != evaluation_id_) {
    wrong = fmt::format("it answered evaluation {} instead of {}", result.evaluation_id(), evaluation_id_);
  } else {
    wrong =
        CheckResult(result, options_.role, fds.size(), options_.role == WorkerRole::kRun && !evaluate.verify_only());
  }
  WorkerTaskEnd end;
  if (wrong.empty() && result.has_artifact()) {
    absl::StatusOr<std::string> artifact = ReadSealedMemfd(fds[0].get(), kArtifactBytesMax);
    if (!artifact.ok()) {
      wrong = fmt::format("its binary is unusable: {}", MessageOf(artifact.status()));
    } else if (artifact->empty()) {
      wrong = "its binary is empty";
    } else {
      end.artifact = *std::move(artifact);
    }
  }
  if (!wrong.empty()) return BeginEnding(WorkerEndCause::kProtocol, std::move(wrong));
  end.verdict = {result.outcome(), PrintableText(result.message())};
  end.phase = result.phase() != tunefarm::v1::PHASE_UNSPECIFIED ? result.phase() : end_.phase;
  const bool damaged = result.worker_is_damaged();
  has_left_device_ = damaged;
  end.lost_by_machine = damaged && result.outcome() == tunefarm::v1::OUTCOME_LOST;
  if (result.is_killed() && result.outcome() != tunefarm::v1::OUTCOME_OK) {
    WorkerEnd killed = end_;
    killed.phase = end.phase;
    JudgeKill(std::move(killed), memory_kills_.Look(), &end);
  }
  end.result = std::move(result);
  FinishTask(std::move(end), !damaged);
}

}  // namespace tunefarm
