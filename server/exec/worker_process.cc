#include "server/exec/worker_process.h"

#include <signal.h>
#include <sys/epoll.h>

#include <utility>

#include "server/base/check.h"
#include "server/base/failpoint.h"
#include "server/base/log.h"
#include "server/base/memfd.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/exec/frame_check.h"
#include "server/exec/frame_limits.h"

namespace tunefarm {
namespace {

using tunefarm::worker::v1::Frame;
using tunefarm::worker::v1::HealthReport;
using tunefarm::worker::v1::Prepare;

Duration Milliseconds(int ms) { return std::chrono::milliseconds(ms); }

// How long a preparation may take: reading files from a slow disk comes on top.
int PrepareMs(const WorkerPreparation& preparation, int prepare_ms) {
  constexpr int64_t kFileBytesPerMs = 50'000;
  int64_t bytes = 0;
  for (const DataFileHandle& file : preparation.data_files) bytes += file.bytes;
  return prepare_ms + static_cast<int>(bytes / kFileBytesPerMs);
}

double ToMs(Duration duration) { return std::chrono::duration<double, std::milli>(duration).count(); }

}  // namespace

WorkerProcess::WorkerProcess(EventLoop* loop, WorkerProcessOptions options, Callbacks callbacks)
    : loop_(loop),
      options_(std::move(options)),
      callbacks_(std::move(callbacks)),
      timer_(loop, [this] { OnDeadline(); }) {
  TUNEFARM_CHECK(loop_->IsCurrent());
  end_.role = options_.role;
  Start();
}

WorkerProcess::~WorkerProcess() {
  *alive_ = false;
  DropBaton();
  loop_->Unwatch(channel_watch_);
  loop_->Unwatch(output_watch_);
  loop_->Unwatch(exit_watch_);
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
  absl::StatusOr<std::pair<Channel, UniqueFd>> ends = Channel::CreatePair(FrameCodecOf(options_.backend));
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
  timer_.Start(options_.deadlines.start_ms);
  if (options_.role != WorkerRole::kRun) return;
  Frame frame;
  frame.mutable_warm_start()->set_has_warm_start(options_.warm_start != nullptr);
  (void)Send(frame,
             options_.warm_start != nullptr ? std::vector<int>{options_.warm_start->fd.get()} : std::vector<int>());
}

std::string WorkerProcess::OutputText() {
  return process_ == nullptr ? std::string() : PrintableText(process_->output().Text());
}

void WorkerProcess::OnDeadline() {
  const uint64_t serial = timer_.serial();
  // Its next announcement may be there already, only not read yet.
  ReadChannel();
  if (timer_.serial() != serial) return;
  if (state_ == State::kStarting) {
    BeginEnding(WorkerEndCause::kStartFailed,
                fmt::format("worker {} did not get ready within {} ms", options_.name, timer_.ms()));
  } else {
    BeginEnding(WorkerEndCause::kDeadline, "");
  }
}

void WorkerProcess::BeginIdle() {
  timer_.Stop();
  DropBaton();
  end_.preparing = false;
  state_ = State::kIdle;
  PostGuarded([this] { callbacks_.on_idle(); });
}

void WorkerProcess::DropBaton() {
  if (options_.baton != nullptr) options_.baton->Drop(this);
  timer_.Resume();
}

void WorkerProcess::Assign(WorkerTask task) {
  TUNEFARM_CHECK(idle());
  task_ = std::move(task);
  task_began_ = loop_->clock()->Now();
  memory_kills_.Begin(task_began_);
  baton_requests_ = 0;
  phases_announced_ = 0;
  logs_ = 0;
  end_.phase = tunefarm::v1::PHASE_UNSPECIFIED;
  ReadOutput();
  process_->output().Clear();
  const WorkerPreparation& preparation = *task_->preparation;
  if (preparation.key == prepared_key_ && preparation.reference_artifact == prepared_reference_ &&
      !prepared_key_.empty()) {
    SendEvaluate();
  } else {
    state_ = State::kPreparing;
    SendPrepare(preparation);
  }
}

void WorkerProcess::Preload(std::shared_ptr<const WorkerPreparation> preparation, std::function<void(bool)> done) {
  TUNEFARM_CHECK(idle());
  preload_ = std::move(preparation);
  preload_done_ = std::move(done);
  baton_requests_ = 0;
  phases_announced_ = 0;
  logs_ = 0;
  end_.phase = tunefarm::v1::PHASE_UNSPECIFIED;
  state_ = State::kPreloading;
  SendPrepare(*preload_);
}

void WorkerProcess::CheckHealth(int deadline_ms, std::function<void(const HealthReport&)> done) {
  TUNEFARM_CHECK(idle());
  health_done_ = std::move(done);
  state_ = State::kChecking;
  const auto begin = [this, deadline_ms] {
    Frame frame;
    frame.mutable_health_check();
    if (Send(frame, {})) timer_.Start(deadline_ms);
  };
  // Its time is compared: nobody else works on the device meanwhile.
  if (options_.baton != nullptr) {
    options_.baton->Take(this, begin);
  } else {
    begin();
  }
}

bool WorkerProcess::Send(const Frame& frame, const std::vector<int>& fds) {
  const absl::Status sent = channel_.Send(frame, fds);
  if (sent.ok()) return true;
  if (absl::IsResourceExhausted(sent) || absl::IsInternal(sent)) {  // Ours: nothing was sent, so it stays usable.
    LoseTask(sent);
  } else if (absl::IsUnavailable(sent)) {
    BeginEnding(WorkerEndCause::kExited, "");
  } else {
    BeginEnding(WorkerEndCause::kProtocol, "it does not read its channel");
  }
  return false;
}

void WorkerProcess::LoseTask(const absl::Status& why) {
  if (!task_.has_value()) return BeginEnding(WorkerEndCause::kShutdown, std::string(MessageOf(why)));
  WorkerTaskEnd end;
  end.verdict = {tunefarm::v1::OUTCOME_LOST, std::string(MessageOf(why))};
  FinishTask(std::move(end), true);
}

void WorkerProcess::SendPrepare(const WorkerPreparation& preparation) {
  end_.preparing = true;
  prepared_key_.clear();
  prepared_reference_ = nullptr;
  std::shared_ptr<const SharedMemfd> expected;
  if (options_.expected_outputs != nullptr) expected = options_.expected_outputs->Find(preparation.key);
  absl::StatusOr<WorkerRequest> request = PrepareRequest(preparation, channel_.codec(), expected.get());
  if (!request.ok()) return LoseTask(request.status());
  Prepare* prepare = request->frame.mutable_prepare();
  prepare->set_standby(state_ == State::kPreloading);
  if (options_.expected_outputs != nullptr && expected == nullptr) {
    prepare->set_expected_outputs_bytes_max(static_cast<int64_t>(options_.expected_outputs->one_bytes_max()));
  }
  if (Send(request->frame, request->fds)) timer_.Start(PrepareMs(preparation, options_.deadlines.prepare_ms));
}

void WorkerProcess::SendEvaluate() {
  state_ = State::kEvaluating;
  end_.preparing = false;
  end_.phase = tunefarm::v1::PHASE_UNSPECIFIED;
  phases_announced_ = 0;
  absl::StatusOr<WorkerRequest> request = EvaluateRequest(*task_, ++evaluation_id_, &sent_binary_);
  if (!request.ok()) return LoseTask(request.status());
  request->frame.mutable_evaluate()->set_baton(options_.baton != nullptr);
  if (Send(request->frame, request->fds)) StartPhase(tunefarm::v1::PHASE_UNSPECIFIED);
}

void WorkerProcess::StartPhase(tunefarm::v1::Phase phase) {
  timer_.Start(DeadlineOf(phase, options_.role, options_.deadlines, task_->evaluate.policy()));
}

void WorkerProcess::FinishTask(WorkerTaskEnd end, bool stays) {
  timer_.Stop();
  DropBaton();
  ++tasks_done_;
  ReadOutput();
  end.output = OutputText();
  end.toolchain = hello_.toolchain();
  end.preparing = end_.preparing;
  end.wall_ms = ToMs(loop_->clock()->Now() - task_began_);
  std::function<void(WorkerTaskEnd)> done = std::move(task_->done);
  task_.reset();
  loop_->Post([done = std::move(done), end = std::move(end)]() mutable { done(std::move(end)); });
  if (state_ == State::kEnding) return;
  if (stays) return BeginIdle();
  // It says that it is damaged: nothing it could still do is of use.
  BeginEnding(WorkerEndCause::kProtocol, "its context was damaged");
}

void WorkerProcess::AnswerTaskByTable() {
  if (!task_.has_value()) return;
  WorkerTaskEnd end;
  end.verdict = VerdictFor(end_);
  end.killed_from_outside = IsKilledFromOutside(end_);
  const bool by_us = end_.cause == WorkerEndCause::kCancelled || end_.cause == WorkerEndCause::kShutdown;
  end.lost_by_machine = end.verdict.outcome == tunefarm::v1::OUTCOME_LOST && !by_us;
  end.phase = end_.phase;
  FinishTask(std::move(end), false);
}

bool WorkerProcess::ReadOutput() {
  if (process_->ReadOutput()) return true;
  loop_->Unwatch(std::exchange(output_watch_, 0));
  process_->CloseOutput();
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
    end_.was_killed = !status->exited && status->signal == SIGKILL && !killed_;
    if (end_.was_killed) end_.memory_kills = memory_kills_.Look();
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
  timer_.Stop();
  ended_at_ = loop_->clock()->Now();
  // What it began on the device may go on until it is reaped: the baton, if it has it, stays with it.
  if (options_.baton != nullptr && !options_.baton->IsHeldBy(this)) DropBaton();
  end_.cause = cause;
  end_.detail = std::move(detail);
  end_.deadline_ms = timer_.ms();
  if (before_hello && cause == WorkerEndCause::kExited) {
    end_.cause = WorkerEndCause::kStartFailed;
    end_.detail = fmt::format("worker {} ended before it was ready", options_.name);
  } else if (before_hello && cause == WorkerEndCause::kProtocol) {
    end_.cause = WorkerEndCause::kStartFailed;
    end_.detail = fmt::format("worker {} is unusable: {}", options_.name, end_.detail);
  }
  if (cause == WorkerEndCause::kExited) {
    if (exited_) return;
    reap_timer_ = loop_->PostAfter(Milliseconds(options_.deadlines.exit_ms), Guarded([this] {
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
  DropBaton();
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
    std::string output = OutputText().substr(0, 512);
    output.resize(output.find_last_not_of('\n') + 1);
    end_.detail += fmt::format(" ({}{}{})", end_.status.ToString(), output.empty() ? "" : ": ", output);
  }
  AnswerTaskByTable();
  state_ = State::kGone;
  DropBaton();
  PostGuarded([on_gone = callbacks_.on_gone, end = end_] { on_gone(end); });
}

}  // namespace tunefarm
