#include "server/exec/worker_process.h"

#include <sys/epoll.h>

#include <utility>

#include "server/base/check.h"
#include "server/base/log.h"
#include "server/base/memfd.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/exec/frame_check.h"
#include "server/exec/frame_limits.h"

namespace tunefarm {
namespace {

using tunefarm::worker::v1::Evaluate;
using tunefarm::worker::v1::Frame;
using tunefarm::worker::v1::Hello;
using tunefarm::worker::v1::PhaseBegan;
using tunefarm::worker::v1::Prepare;
using tunefarm::worker::v1::Prepared;
using tunefarm::worker::v1::Result;

// A trial goes through five phases and checks twice; announcing more only buys time.
constexpr int kPhasesPerTaskMax = 16;
constexpr int kLogsPerTaskMax = 1000;
// So that one chatty worker does not starve the others.
constexpr int kFramesPerRound = 64;

Duration Milliseconds(int ms) { return std::chrono::milliseconds(ms); }

double ToMs(Duration duration) { return std::chrono::duration<double, std::milli>(duration).count(); }

}  // namespace

WorkerProcess::WorkerProcess(EventLoop* loop, WorkerProcessOptions options, Callbacks callbacks)
    : loop_(loop), options_(std::move(options)), callbacks_(std::move(callbacks)) {
  TUNEFARM_CHECK(loop_->IsCurrent());
  end_.role = options_.role;
  Start();
}

WorkerProcess::~WorkerProcess() {
  *alive_ = false;
  loop_->Unwatch(channel_watch_);
  loop_->Unwatch(output_watch_);
  loop_->Unwatch(exit_watch_);
  loop_->Cancel(deadline_timer_);
  loop_->Cancel(reap_timer_);
}

std::function<void()> WorkerProcess::Guarded(std::function<void()> call) {
  return [alive = alive_, call = std::move(call)] {
    if (*alive) call();
  };
}

void WorkerProcess::PostGuarded(std::function<void()> call) { loop_->Post(Guarded(std::move(call))); }

void WorkerProcess::Start() {
  absl::Status failure;
  absl::StatusOr<std::pair<Channel, UniqueFd>> ends = Channel::CreatePair();
  if (ends.ok()) {
    channel_ = std::move(ends->first);
    absl::StatusOr<std::unique_ptr<Subprocess>> process = Subprocess::Start(options_.command, std::move(ends->second));
    if (process.ok()) {
      process_ = *std::move(process);
    } else {
      failure = process.status();
    }
  } else {
    failure = ends.status();
  }
  if (!failure.ok()) {
    state_ = State::kGone;
    end_.cause = WorkerEndCause::kStartFailed;
    end_.detail = std::string(MessageOf(failure));
    PostGuarded([on_gone = callbacks_.on_gone, end = end_] { on_gone(end); });
    return;
  }
  channel_watch_ = loop_->Watch(channel_.fd(), EPOLLIN, [this](uint32_t) { ReadChannel(); });
  output_watch_ = loop_->Watch(process_->output_fd(), EPOLLIN, [this](uint32_t) { ReadOutput(); });
  exit_watch_ = loop_->Watch(process_->pidfd(), EPOLLIN, [this](uint32_t) { OnExit(); });
  SetDeadline(options_.deadlines.start_ms);
}

std::string WorkerProcess::OutputText() {
  return process_ == nullptr ? std::string() : PrintableText(process_->output().Text());
}

void WorkerProcess::ClearDeadline() {
  loop_->Cancel(deadline_timer_);
  ++deadline_serial_;
}

void WorkerProcess::SetDeadline(int ms) {
  ClearDeadline();
  deadline_ms_ = ms;
  deadline_timer_ = loop_->PostAfter(
      Milliseconds(ms), Guarded([this, serial = deadline_serial_] {
        // Its next announcement may be there already, only not read yet.
        ReadChannel();
        if (deadline_serial_ != serial) return;
        if (state_ == State::kStarting) {
          BeginEnding(WorkerEndCause::kStartFailed,
                      fmt::format("worker {} did not get ready within {} ms", options_.name, deadline_ms_));
        } else {
          BeginEnding(WorkerEndCause::kDeadline, "");
        }
      }));
}

int WorkerProcess::DeadlineOf(tunefarm::v1::Phase phase) const {
  const PhaseDeadlines& deadlines = options_.deadlines;
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
      return 2 * task_->evaluate.policy().time_budget_ms() + deadlines.measure_grace_ms + 4 * deadlines.first_launch_ms;
    default:
      break;
  }
  // Before the first announcement.
  return options_.role == WorkerRole::kCompile ? deadlines.compile_ms : deadlines.load_ms;
}

void WorkerProcess::Assign(WorkerTask task) {
  TUNEFARM_CHECK(idle());
  task_ = std::move(task);
  task_began_ = loop_->clock()->Now();
  ReadOutput();
  process_->output().Clear();
  phases_announced_ = 0;
  logs_ = 0;
  end_.phase = tunefarm::v1::PHASE_UNSPECIFIED;
  const WorkerPreparation& preparation = task_->preparation;
  if (preparation.key == prepared_key_ && preparation.reference_artifact == prepared_reference_ &&
      !prepared_key_.empty()) {
    SendEvaluate();
  } else {
    SendPrepare();
  }
}

bool WorkerProcess::Send(const Frame& frame, const std::vector<int>& fds) {
  const absl::Status sent = channel_.Send(frame, fds);
  if (sent.ok()) return true;
  if (absl::IsResourceExhausted(sent)) {  // Ours, not the worker's: nothing was sent, so it stays usable.
    WorkerTaskEnd end;
    end.verdict = {tunefarm::v1::OUTCOME_LOST, std::string(MessageOf(sent))};
    FinishTask(std::move(end), true);
  } else if (absl::IsUnavailable(sent)) {
    BeginEnding(WorkerEndCause::kExited, "");
  } else {
    BeginEnding(WorkerEndCause::kProtocol, "it does not read its channel");
  }
  return false;
}

void WorkerProcess::SendPrepare() {
  state_ = State::kPreparing;
  end_.preparing = true;
  prepared_key_.clear();
  prepared_reference_ = nullptr;
  const WorkerPreparation& preparation = task_->preparation;
  std::vector<UniqueFd> memfds;
  const auto attach = [&memfds](std::string_view name, std::string_view bytes, uint64_t bytes_max) -> absl::Status {
    if (bytes.size() > bytes_max)
      return ResourceExhausted("the {} has {} bytes, the limit is {}", name, bytes.size(), bytes_max);
    ASSIGN_OR_RETURN(memfds.emplace_back(), CreateSealedMemfd(name, bytes));
    return absl::OkStatus();
  };
  absl::Status attached = attach("kernel", preparation.kernel_bytes(), kKernelBytesMax);
  if (attached.ok() && preparation.reference_artifact != nullptr) {
    attached = attach("reference binary", preparation.reference_artifact->bytes, kArtifactBytesMax);
  }
  if (!attached.ok()) {
    WorkerTaskEnd end;
    end.verdict = {tunefarm::v1::OUTCOME_LOST, std::string(MessageOf(attached))};
    FinishTask(std::move(end), true);
    return;
  }
  Frame frame;
  Prepare* prepare = frame.mutable_prepare();
  prepare->set_kernel_fd_index(0);
  *prepare->mutable_problem() = preparation.problem;
  *prepare->mutable_device_class() = preparation.device_class;
  prepare->set_input_seed(preparation.input_seed);
  if (preparation.reference_artifact != nullptr) {
    prepare->set_has_reference_artifact(true);
    prepare->mutable_reference_lowered_names()->insert(preparation.reference_artifact->lowered_names.begin(),
                                                       preparation.reference_artifact->lowered_names.end());
  }
  for (const std::string& option : preparation.compile_options) prepare->add_compile_options(option);
  std::vector<int> fds;
  for (const UniqueFd& fd : memfds) fds.push_back(fd.get());
  if (Send(frame, fds)) SetDeadline(options_.deadlines.prepare_ms);
}

void WorkerProcess::SendEvaluate() {
  state_ = State::kEvaluating;
  end_.preparing = false;
  end_.phase = tunefarm::v1::PHASE_UNSPECIFIED;
  phases_announced_ = 0;
  UniqueFd memfd;
  if (task_->artifact != nullptr) {
    absl::StatusOr<UniqueFd> created = CreateSealedMemfd("binary", task_->artifact->bytes);
    if (!created.ok()) {
      WorkerTaskEnd end;
      end.verdict = {tunefarm::v1::OUTCOME_LOST, std::string(MessageOf(created.status()))};
      FinishTask(std::move(end), true);
      return;
    }
    memfd = *std::move(created);
  }
  Frame frame;
  Evaluate* evaluate = frame.mutable_evaluate();
  *evaluate = task_->evaluate;
  evaluate->set_evaluation_id(++evaluation_id_);
  if (task_->artifact != nullptr) {
    evaluate->set_has_artifact(true);
    evaluate->mutable_lowered_names()->insert(task_->artifact->lowered_names.begin(),
                                              task_->artifact->lowered_names.end());
  }
  if (Send(frame, memfd ? std::vector<int>{memfd.get()} : std::vector<int>())) {
    SetDeadline(DeadlineOf(tunefarm::v1::PHASE_UNSPECIFIED));
  }
}

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
  const Frame& frame = received.frame;
  std::string wrong;
  if (frame.body_case() != Frame::kResult && !received.fds.empty()) {
    wrong = "it attached descriptors to a frame that has none";
  } else {
    switch (frame.body_case()) {
      case Frame::kHello:
        if (state_ != State::kStarting || !hello_.role().empty()) break;
        if (wrong = CheckHello(frame.hello(), options_.role, options_.backend); wrong.empty())
          return OnHello(frame.hello());
        break;
      case Frame::kProbeReport:
        if (state_ != State::kStarting || options_.role != WorkerRole::kProbe) break;
        if (wrong = CheckProbeReport(frame.probe_report()); wrong.empty()) {
          state_ = State::kIdle;
          ClearDeadline();
          PostGuarded([on_report = callbacks_.on_probe_report, report = frame.probe_report()] { on_report(report); });
          return;
        }
        break;
      case Frame::kPrepared:
        if (state_ != State::kPreparing) break;
        if (wrong = CheckPrepared(frame.prepared(), options_.role); wrong.empty()) return OnPrepared(frame.prepared());
        break;
      case Frame::kPhaseBegan:
        if (!busy()) break;
        if (wrong = CheckPhase(frame.phase_began()); wrong.empty()) return OnPhase(frame.phase_began());
        break;
      case Frame::kResult:
        if (state_ != State::kEvaluating) break;
        return OnResult(std::move(*received.frame.mutable_result()), std::move(received.fds));
      case Frame::kLog:
        if (++logs_ <= kLogsPerTaskMax) {
          LogDebug("exec", "{}: {}", options_.name, PrintableText(frame.log().text().substr(0, kFrameMessageBytesMax)));
        }
        return;
      default:
        break;
    }
    if (wrong.empty()) wrong = "it sent a frame that nobody asked for";
  }
  BeginEnding(WorkerEndCause::kProtocol, std::move(wrong));
}

void WorkerProcess::OnHello(const Hello& hello) {
  hello_ = hello;
  if (options_.role == WorkerRole::kProbe) return;  // Its report follows by itself.
  state_ = State::kIdle;
  ClearDeadline();
  LogDebug("exec", "{} is ready: pid {}, {}, sandbox {}", options_.name, pid(), PrintableText(hello.toolchain()),
           PrintableText(hello.sandbox_level()));
  PostGuarded([this] { callbacks_.on_ready(); });
}

void WorkerProcess::OnPrepared(const Prepared& prepared) {
  if (!prepared.ok()) {
    WorkerTaskEnd end;
    end.verdict = {prepared.outcome(), PrintableText(prepared.message())};
    FinishTask(std::move(end), true);
    return;
  }
  prepared_key_ = task_->preparation.key;
  prepared_reference_ = task_->preparation.reference_artifact;
  SendEvaluate();
}

void WorkerProcess::OnPhase(const PhaseBegan& phase) {
  // Phases of a Prepare only tell where it stands; its deadline is one for all.
  const uint64_t expected = state_ == State::kEvaluating ? evaluation_id_ : 0;
  if (phase.evaluation_id() != expected) {
    BeginEnding(WorkerEndCause::kProtocol, fmt::format("it announced a phase of evaluation {} during evaluation {}",
                                                       phase.evaluation_id(), expected));
    return;
  }
  if (++phases_announced_ > kPhasesPerTaskMax) {
    BeginEnding(WorkerEndCause::kProtocol, fmt::format("it announced more than {} phases", kPhasesPerTaskMax));
    return;
  }
  if (state_ != State::kEvaluating) return;
  end_.phase = phase.phase();
  SetDeadline(DeadlineOf(phase.phase()));
}

void WorkerProcess::OnResult(Result result, std::vector<UniqueFd> fds) {
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
  end.result = std::move(result);
  FinishTask(std::move(end), !damaged);
}

void WorkerProcess::FinishTask(WorkerTaskEnd end, bool stays) {
  ClearDeadline();
  ++tasks_done_;
  ReadOutput();
  end.output = OutputText();
  end.wall_ms = ToMs(loop_->clock()->Now() - task_began_);
  std::function<void(WorkerTaskEnd)> done = std::move(task_->done);
  task_.reset();
  loop_->Post([done = std::move(done), end = std::move(end)]() mutable { done(std::move(end)); });
  if (state_ == State::kEnding) return;
  end_.preparing = false;
  state_ = State::kIdle;
  if (stays) {
    PostGuarded([this] { callbacks_.on_idle(); });
  } else {
    // It says that it is damaged: nothing it could still do is of use.
    BeginEnding(WorkerEndCause::kProtocol, "its context was damaged");
  }
}

void WorkerProcess::AnswerTaskByTable() {
  if (!task_.has_value()) return;
  WorkerTaskEnd end;
  end.verdict = VerdictFor(end_);
  end.phase = end_.phase;
  FinishTask(std::move(end), false);
}

bool WorkerProcess::ReadOutput() {
  if (process_->ReadOutput()) return true;
  // At once, before the closed descriptor's number can be given to another one that is watched.
  loop_->Unwatch(std::exchange(output_watch_, 0));
  return false;
}

void WorkerProcess::OnChannelClosed() {
  loop_->Unwatch(std::exchange(channel_watch_, 0));
  channel_.Close();
  if (state_ != State::kEnding) {
    // Its process is about to end. Killing now would hide how; waiting forever would be a gift to one that only closes.
    BeginEnding(WorkerEndCause::kExited, "");
  }
  CompleteIfGone();
}

void WorkerProcess::OnExit() {
  // What it said before it died still counts.
  for (int i = 0; i < 1024 && channel_.valid() && reading_; ++i) {
    ReceivedFrame received;
    std::string error;
    const ReceiveResult result = channel_.Receive(&received, &error);
    if (result == ReceiveResult::kFrame && state_ != State::kEnding) {
      OnFrame(std::move(received));
    } else if (result != ReceiveResult::kFrame) {
      break;
    }
  }
  // Without a pid namespace what it started would live on; its group's number is ours until it is reaped.
  process_->Kill();
  const absl::StatusOr<ExitStatus> status = process_->Reap();
  if (!status.ok() && absl::IsUnavailable(status.status())) return;
  loop_->Unwatch(std::exchange(exit_watch_, 0));
  exited_ = true;
  if (status.ok()) {
    end_.status = *status;
  } else {
    LogError("exec", "{}: {}", options_.name, status.status());
  }
  BeginEnding(WorkerEndCause::kExited, "");
  CompleteIfGone();
}

void WorkerProcess::Kill(WorkerEndCause cause) {
  if (state_ == State::kGone) return;
  BeginEnding(cause, "");
}

void WorkerProcess::BeginEnding(WorkerEndCause cause, std::string detail) {
  if (state_ == State::kEnding || state_ == State::kGone) return;
  const bool before_hello = state_ == State::kStarting;
  state_ = State::kEnding;
  ClearDeadline();
  end_.cause = cause;
  end_.detail = std::move(detail);
  end_.deadline_ms = deadline_ms_;
  if (before_hello && cause == WorkerEndCause::kExited) {
    end_.cause = WorkerEndCause::kStartFailed;
    end_.detail = fmt::format("worker {} ended before it was ready", options_.name);
  } else if (before_hello && cause == WorkerEndCause::kProtocol) {
    end_.cause = WorkerEndCause::kStartFailed;
    end_.detail = fmt::format("worker {} is unusable: {}", options_.name, end_.detail);
  }
  if (cause == WorkerEndCause::kExited) {
    if (exited_) return;
    reap_timer_ = loop_->PostAfter(Milliseconds(options_.exit_grace_ms), Guarded([this] {
                                     if (end_.cause == WorkerEndCause::kExited) {
                                       end_.cause = WorkerEndCause::kProtocol;
                                       end_.detail = "it closed its channel and went on running";
                                     }
                                     KillNow();
                                   }));
    return;
  }
  KillNow();
}

void WorkerProcess::KillNow() {
  reading_ = false;
  killed_ = true;
  loop_->WatchHangUpOnly(channel_watch_);
  process_->Kill();
  loop_->Cancel(reap_timer_);
  reap_timer_ = loop_->PostAfter(Milliseconds(options_.reap_ms), Guarded([this] { OnReapTimeout(); }));
}

void WorkerProcess::OnReapTimeout() {
  stuck_ = true;
  end_.unkillable = true;
  LogError("exec", "{} (pid {}) did not end within {} ms of SIGKILL", options_.name, pid(), options_.reap_ms);
  AnswerTaskByTable();
  PostGuarded([on_stuck = callbacks_.on_stuck] { on_stuck(); });
}

void WorkerProcess::CompleteIfGone() {
  if (!exited_ || state_ == State::kGone) return;
  if (channel_.valid()) {
    // The stub is reaped, but somebody in there still holds the channel: it is on its way out, or it has escaped the
    // stub where there is no pid namespace.
    if (!killed_) KillNow();
    return;
  }
  loop_->Cancel(reap_timer_);
  // Bounded: a process that escaped may go on writing.
  for (int i = 0; i < 16 && output_watch_ != 0 && ReadOutput(); ++i) {
  }
  if (end_.cause == WorkerEndCause::kStartFailed) {
    const std::string output = OutputText();
    end_.detail += fmt::format(" ({}{}{})", end_.status.ToString(), output.empty() ? "" : ": ", output.substr(0, 512));
  }
  AnswerTaskByTable();
  state_ = State::kGone;
  PostGuarded([on_gone = callbacks_.on_gone, end = end_] { on_gone(end); });
}

}  // namespace tunefarm
