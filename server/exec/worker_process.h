#pragma once

// One worker process: spawns it, speaks the frames, keeps the deadlines, and turns its end into a verdict. It does one
// task at a time and never restarts: when it is gone, its owner makes another.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/exec/channel.h"
#include "server/exec/evaluator.h"
#include "server/exec/event_loop.h"
#include "server/exec/outcome_table.h"
#include "server/exec/subprocess.h"
#include "tunefarm/worker/v1/worker.pb.h"

namespace tunefarm {

// What a worker needs to know before it can evaluate. Equal keys need no second Prepare.
struct WorkerPreparation {
  std::string key;
  std::function<std::string()> kernel_bytes;  // serialized tunefarm.v1.Kernel; called only when a Prepare is sent
  tunefarm::v1::Problem problem;
  tunefarm::v1::DeviceClass device_class;
  uint64_t input_seed = 1;
  std::shared_ptr<const Artifact> reference_artifact;  // part of the identity
  std::vector<std::string> compile_options;
};

// How a task ended. Without a frame the verdict is all there is.
struct WorkerTaskEnd {
  Verdict verdict;
  tunefarm::v1::Phase phase = tunefarm::v1::PHASE_UNSPECIFIED;
  std::optional<tunefarm::worker::v1::Result> result;
  std::string artifact;  // compile workers, with OK
  std::string output;    // what the process wrote to stdout and stderr during the task; printable
  double wall_ms = 0;
};

struct WorkerTask {
  WorkerPreparation preparation;
  tunefarm::worker::v1::Evaluate evaluate;  // evaluation_id and has_artifact are filled in
  std::shared_ptr<const Artifact> artifact;
  std::function<void(WorkerTaskEnd)> done;  // exactly once, on the loop, not from within Assign
};

struct WorkerProcessOptions {
  WorkerRole role = WorkerRole::kRun;
  std::string backend;
  std::string name;  // "compile-cuda-0", for logs
  SubprocessOptions command;
  PhaseDeadlines deadlines;
  int reap_ms = 30'000;       // longest wait for the end after SIGKILL
  int exit_grace_ms = 2'000;  // from a closed channel to the process's end
};

// Loop thread only, all of it. Callbacks are posted to the loop: they may destroy the WorkerProcess.
class WorkerProcess {
 public:
  struct Callbacks {
    // Hello was good: it takes tasks. Not called for probe workers.
    std::function<void()> on_ready;
    // It has finished a task and takes the next. Called after the task's done.
    std::function<void()> on_idle;
    // SIGKILL did not end it within reap_ms. A task in hand has been answered before. on_gone follows if it ever ends.
    std::function<void()> on_stuck;
    // The process is reaped and its channel is closed. `end` also says how, when it had no task.
    std::function<void(const WorkerEnd& end)> on_gone;
    // Probe workers only.
    std::function<void(const tunefarm::worker::v1::ProbeReport& report)> on_probe_report;
  };

  // A process that cannot be started reports itself through on_gone with kStartFailed.
  WorkerProcess(EventLoop* loop, WorkerProcessOptions options, Callbacks callbacks);
  // Kills what still runs, without waiting. A task in hand is dropped without its callback: owners wait for on_gone.
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  bool idle() const { return state_ == State::kIdle; }
  bool busy() const { return state_ == State::kPreparing || state_ == State::kEvaluating; }
  bool starting() const { return state_ == State::kStarting; }
  // idle() must hold.
  void Assign(WorkerTask task);
  // Ends the process; on_gone follows. The first cause counts.
  void Kill(WorkerEndCause cause);

  // Key of the last successful Prepare.
  const std::string& prepared_key() const { return prepared_key_; }
  const tunefarm::worker::v1::Hello& hello() const { return hello_; }
  int tasks_done() const { return tasks_done_; }
  pid_t pid() const { return process_ != nullptr ? process_->pid() : -1; }
  const std::string& name() const { return options_.name; }
  // Everything that the process printed since its start or last task; for start failures.
  std::string OutputText();

 private:
  enum class State { kStarting, kIdle, kPreparing, kEvaluating, kEnding, kGone };

  void Start();
  void SendPrepare();
  void SendEvaluate();
  bool Send(const tunefarm::worker::v1::Frame& frame, const std::vector<int>& fds);
  void ReadChannel();
  void OnFrame(ReceivedFrame received);
  void OnHello(const tunefarm::worker::v1::Hello& hello);
  void OnPrepared(const tunefarm::worker::v1::Prepared& prepared);
  void OnPhase(const tunefarm::worker::v1::PhaseBegan& phase);
  void OnResult(tunefarm::worker::v1::Result result, std::vector<UniqueFd> fds);
  void OnChannelClosed();
  bool ReadOutput();
  void OnExit();
  void SetDeadline(int ms);
  void ClearDeadline();
  int DeadlineOf(tunefarm::v1::Phase phase) const;
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

  tunefarm::worker::v1::Hello hello_;
  std::string prepared_key_;
  std::shared_ptr<const Artifact> prepared_reference_;
  std::optional<WorkerTask> task_;
  uint64_t evaluation_id_ = 0;
  int phases_announced_ = 0;
  int logs_ = 0;
  int tasks_done_ = 0;
  MonotonicTime task_began_;
  int deadline_ms_ = 0;
  TimerId deadline_timer_ = 0;
  uint64_t deadline_serial_ = 0;
  TimerId reap_timer_ = 0;

  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace tunefarm
