#pragma once

// One worker process: spawns it, speaks the frames, keeps the deadlines, and turns its end into a verdict. It does one
// thing at a time - a task, a preparation ahead of one, a health check - and never restarts: when it is gone, its owner
// makes another.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/base/memory_kills.h"
#include "server/exec/baton.h"
#include "server/exec/channel.h"
#include "server/exec/evaluator.h"
#include "server/exec/event_loop.h"
#include "server/exec/expected_outputs.h"
#include "server/exec/outcome_table.h"
#include "server/exec/phase_timer.h"
#include "server/exec/subprocess.h"
#include "server/exec/worker_request.h"
#include "tunefarm/worker/v1/worker.pb.h"

namespace tunefarm {

struct WorkerProcessOptions {
  WorkerRole role = WorkerRole::kRun;
  std::string backend;
  std::string name;  // "compile-cuda-0", for logs
  SubprocessOptions command;
  PhaseDeadlines deadlines;
  int reap_ms = 30'000;  // longest wait for the end after SIGKILL
  // What the workers of one device share; null or empty: they do not. Both outlive the process.
  Baton* baton = nullptr;
  ExpectedOutputs* expected_outputs = nullptr;
  std::shared_ptr<const SharedMemfd> warm_start;  // what an earlier worker sent with its Hello
};

// Loop thread only, all of it. Callbacks are posted to the loop, if nothing else is said: they may then destroy the
// WorkerProcess.
class WorkerProcess {
 public:
  struct Callbacks {
    // Hello was good: it takes tasks. Not called for probe workers.
    std::function<void()> on_ready;
    // It has finished what it did and takes the next. Called after the task's done.
    std::function<void()> on_idle;
    // It is prepared for a task and goes on to evaluate. May be empty.
    std::function<void()> on_prepared;
    // The first launch of a task is announced. Called at once: must not destroy the WorkerProcess. May be empty.
    std::function<void()> on_first_launch;
    // A Hello brought something for those that are started later. Called at once, as above. May be empty.
    std::function<void(std::shared_ptr<const SharedMemfd> warm_start)> on_warm_start;
    // SIGKILL did not end it within reap_ms. A running task has been answered before. on_gone follows if it ever ends.
    std::function<void()> on_stuck;
    // The process is reaped and its channel is closed. `end` also says how, when it had no task.
    std::function<void(const WorkerEnd& end)> on_gone;
    // Probe workers only.
    std::function<void(const tunefarm::worker::v1::ProbeReport& report)> on_probe_report;
  };

  // A process that cannot be started reports itself through on_gone with kStartFailed.
  WorkerProcess(EventLoop* loop, WorkerProcessOptions options, Callbacks callbacks);
  // Kills what still runs, without waiting. A running task is dropped without its callback: owners wait for on_gone.
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  bool idle() const { return state_ == State::kIdle; }
  bool busy() const { return state_ == State::kPreparing || state_ == State::kEvaluating; }
  bool starting() const { return state_ == State::kStarting; }
  bool ending() const { return state_ == State::kEnding; }
  // Prepares ahead of a task, or proves its health: it will be idle again, or end.
  bool getting_ready() const { return state_ == State::kPreloading || state_ == State::kChecking; }
  // idle() must hold for each of these.
  void Assign(WorkerTask task);
  // Prepares for tasks to come, using the device only with the baton. `done` (posted, dropped if the process ends
  // first) hears whether Assign will find it prepared; on_idle follows.
  void Preload(std::shared_ptr<const WorkerPreparation> preparation, std::function<void(bool prepared)> done);
  // `done` (posted, dropped if the process ends first) hears what it found; on_idle follows.
  void CheckHealth(int deadline_ms, std::function<void(const tunefarm::worker::v1::HealthReport& report)> done);
  // Ends the process; on_gone follows. The first cause counts.
  void Kill(WorkerEndCause cause);

  // It holds a problem, or is about to: memory of the device is taken.
  bool holds_problem() const { return !prepared_key_.empty() || preload_ != nullptr; }
  // Key of the last successful Prepare.
  const std::string& prepared_key() const { return prepared_key_; }
  const tunefarm::worker::v1::Hello& hello() const { return hello_; }
  int tasks_done() const { return tasks_done_; }
  // It ends, and yet the device is free of its work: it said so itself when it reported the damage of its context.
  bool has_left_device() const { return has_left_device_; }
  // When it became known that it ends.
  MonotonicTime ended_at() const { return ended_at_; }
  pid_t pid() const { return process_ != nullptr ? process_->pid() : -1; }
  const std::string& name() const { return options_.name; }
  // Everything that the process printed since its start or last task; for start failures.
  std::string OutputText();

 private:
  enum class State { kStarting, kIdle, kPreloading, kChecking, kPreparing, kEvaluating, kEnding, kGone };

  void Start();
  void SendPrepare(const WorkerPreparation& preparation);
  void SendEvaluate();
  bool Send(const tunefarm::worker::v1::Frame& frame, const std::vector<int>& fds);
  // The task cannot be sent to the worker; the worker stays.
  void LoseTask(const absl::Status& why);
  void ReadChannel();
  void OnFrame(ReceivedFrame received);
  // What is wrong with the frame, or nothing. False in *expected: nobody asked for it.
  std::string Dispatch(ReceivedFrame* received, bool* expected);
  std::string OnHello(const tunefarm::worker::v1::Hello& hello, std::vector<UniqueFd> fds);
  std::string OnPrepared(const tunefarm::worker::v1::Prepared& prepared, std::vector<UniqueFd> fds);
  void OnPreloaded(const tunefarm::worker::v1::Prepared& prepared);
  std::string OnHealthReport(const tunefarm::worker::v1::HealthReport& report);
  std::string OnBatonRequest();
  std::string OnBatonReturn();
  std::string OnPhase(const tunefarm::worker::v1::PhaseBegan& phase);
  void OnResult(tunefarm::worker::v1::Result result, std::vector<UniqueFd> fds);
  void OnChannelClosed();
  bool ReadOutput();
  void OnExit();
  void OnDeadline();
  void StartPhase(tunefarm::v1::Phase phase);
  void BeginIdle();
  void DropBaton();
  void BeginEnding(WorkerEndCause cause, std::string detail);
  void KillNow();
  void OnReapTimeout();
  void CompleteIfGone();
  void FinishTask(WorkerTaskEnd end, bool stays);
  void AnswerTaskByTable();
  // Posts the call; it is dropped if this object is gone by then.
  void PostGuarded(std::function<void()> call);
  std::function<void()> Guarded(std::function<void()> call);

  // Constant after construction.
  EventLoop* const loop_;
  const WorkerProcessOptions options_;
  const Callbacks callbacks_;

  State state_ = State::kStarting;
  std::unique_ptr<Subprocess> process_;
  Channel channel_;
  EventLoop::WatchId channel_watch_ = 0, output_watch_ = 0, exit_watch_ = 0;
  bool exited_ = false;
  bool reading_ = true;  // false once the channel's content can no longer be trusted
  bool stuck_ = false;
  bool killed_ = false;
  WorkerEnd end_;
  MemoryKillWatch memory_kills_;  // since the task began

  tunefarm::worker::v1::Hello hello_;
  std::string prepared_key_;
  std::shared_ptr<const Artifact> prepared_reference_;
  SentBinary sent_binary_;
  std::optional<WorkerTask> task_;
  std::shared_ptr<const WorkerPreparation> preload_;
  std::function<void(bool)> preload_done_;
  std::function<void(const tunefarm::worker::v1::HealthReport&)> health_done_;
  int baton_requests_ = 0;
  bool has_left_device_ = false;
  uint64_t evaluation_id_ = 0;
  int phases_announced_ = 0;
  int logs_ = 0;
  int tasks_done_ = 0;
  MonotonicTime task_began_;
  MonotonicTime ended_at_;
  PhaseTimer timer_;
  TimerId reap_timer_ = 0;

  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace tunefarm
