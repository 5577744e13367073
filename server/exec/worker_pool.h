#pragma once

// Worker processes of one kind (role, backend, device) and the queue of tasks before them. Starts workers when there is
// work, keeps them warm, replaces what dies, backs off when they cannot be started. Where asked to, it keeps a spare
// prepared for the problem at hand, and lets no task begin on a device whose health is not proven since its last crash.
// Every task is answered exactly once.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/exec/bad_preparations.h"
#include "server/exec/device_health.h"
#include "server/exec/evaluator_stats.h"
#include "server/exec/event_loop.h"
#include "server/exec/worker_process.h"

namespace tunefarm {

// Loop thread only, all of it.
class WorkerPool {
 public:
  using TaskId = uint64_t;
  enum class DeviceState { kReady, kWait, kRefused };

  struct Options {
    std::string name;  // "compile-cuda"; for messages
    int workers = 1;   // tasks that run at once
    int spares = 0;    // warm workers beyond those, to take over when one dies
    size_t queue_max = 4096;
    int recycle_after_tasks = 0;  // 0: never
    bool longest_first = false;   // tasks begin in the order of LongestFirst, else in their own
    // One worker that SIGKILL does not end takes the whole pool out of service: it still holds the device.
    bool one_stuck_stops_all = false;
    int backoff_ms = 100;  // after the first failed start; doubles each time
    int backoff_max_ms = 10'000;
    int start_failures_max = 3;  // in a row, before waiting tasks are given up
    // Spares are prepared for the problem that is at work; the workers of the pool share its device, the baton decides.
    // A device that runs out of memory then is tried again without the spare's share.
    bool preload = false;
    // A health check precedes the first task, and the next after every crash, hang or release.
    bool check_health = false;
    // Losses in a row take the device out of service, see DeviceHealth; after its rest it is checked, or without checks
    // tried again. Not where foreign code runs in the worker itself, which can end it as it likes.
    bool losses_tell = false;
    // Foreign code runs in the worker itself: it serves one kernel, and another worker the next.
    bool one_kernel = false;
    double health_baseline_ns = 0;  // see DeviceHealth
    int health_deadline_ms = 10'000;
    Duration health_look_again =
        std::chrono::milliseconds(300);  // after a first failed check; clocks may rise meanwhile
    Duration health_rest = {};           // of a sick device, before it is looked at again; 0: as DeviceHealth says
    // How to start the worker of a slot (0 .. slots() - 1), with its scratch directory made fresh.
    std::function<absl::StatusOr<WorkerProcessOptions>(int slot)> make_worker;
    // Whether a task may begin now; empty: always. The code that changes its answer calls Pump.
    std::function<bool()> may_begin;
    // Whether the device is this process's; empty: always. Until then not even a worker is started. The code that
    // changes its answer calls Pump.
    std::function<bool()> has_device;
    // Brings the device into the state that the task measures in; empty: nothing is to be done. Asked before the task
    // begins, again after each kWait. kRefused: it cannot be, and *refusal is the task's message.
    std::function<DeviceState(const WorkerTask& task, std::string* refusal)> make_device_ready;
    // Whether the device is in the state in which its health is known; empty: always. The code that changes its answer
    // calls Pump.
    std::function<bool()> may_check_health;
    // Something may have become possible elsewhere: a task or a health check has ended. May be empty.
    std::function<void()> on_task_ended;
    // A worker is ready. May be empty.
    std::function<void(const tunefarm::worker::v1::Hello& hello)> on_hello;
    // Out of service with a reason in one sentence, or back in service with an empty one. May be empty.
    std::function<void(const std::string& reason)> on_quarantine;
    // A health check was passed; foreign_processes are those of others on the device, -1: cannot be seen. May be empty.
    std::function<void(int foreign_processes, double baseline_ns)> on_healthy;
    // See WorkerProcess::Callbacks; what it is given is for make_worker. May be empty.
    std::function<void(std::shared_ptr<const SharedMemfd> warm_start)> on_warm_start;
    EvaluatorStats* stats = nullptr;  // of run workers; may be null
  };

  WorkerPool(EventLoop* loop, Options options);
  // All workers must be gone or stuck: see Shutdown.
  ~WorkerPool();

  // Answers with LOST at once (posted) when the queue is full, the pool is out of service or shut down.
  TaskId Submit(WorkerTask task);
  // Tasks will come: workers that would be started and checked with the first of them are now, if the device is ours.
  void Expect();
  // A waiting task is answered with LOST; the worker of a running one is killed. Unknown ids are ignored.
  void Cancel(TaskId task);
  // Starts what can be started.
  void Pump();
  // Ends a quarantine by a person's word, also while the worker that caused it has not ended; a health check comes
  // before the next task, where there are any.
  void Release();
  // See DeviceHealth; another value than its own makes a check due.
  void SetHealthBaseline(double nanoseconds);

  // Answers everything with LOST and kills every worker; calls `done` (posted) when each is gone or stuck.
  void Shutdown(std::function<void()> done);

  // Workers with a task or still dying of one, but for the stuck.
  int busy() const;
  // A task or a health check is at work on the device.
  bool measures() const;
  size_t waiting() const { return queue_.size(); }

 private:
  struct Slot {
    std::unique_ptr<WorkerProcess> worker;
    TaskId task = 0;
    bool stuck = false;
    bool is_cancelled = false;  // its task
    bool crash_noted = false;
    bool was_readied = false;  // it was asked for a preparation ahead or a health check
    MonotonicTime started_at;
    std::shared_ptr<const WorkerPreparation> preparation;  // of its task; only where spares are prepared
    std::string kernel_id;                                 // of its first task; only with one_kernel
  };
  struct Waiting {
    TaskId id;
    WorkerTask task;
    bool is_second_try = false;
    int kills = 0;        // by a SIGKILL from outside, with a worker or a process of it
    int passed_over = 0;  // see LongestFirst
  };

  void StartWorkers();
  void StartWorker(int slot);
  // Answers what waits for a preparation that is known to be bad.
  void RefuseBadPreparations();
  void NoteLoss(const std::string& message);
  // True: a health check is due or under way, and no task may begin.
  bool CheckHealthFirst();
  void BeginCheck(int slot);
  void OnFinding(DeviceHealth::Finding finding);
  void Quarantine(std::string reason);
  void LeaveQuarantine(std::string_view how);
  void RestBeforeProbe();
  void PreloadSpares();
  // Tries the task again, which may have failed for no fault of its own: killed from outside, a bounded number of
  // times; or out of memory while other workers of the pool held some, which go. False: `end` is its end.
  bool TryAgain(int slot, Waiting* again, WorkerTaskEnd* end);
  void NoteCrash(Slot* slot);
  void OnFirstLaunch(int slot);
  bool IsAlone(const Slot& slot) const;
  int LiveWorkers() const;
  // The idle worker to give a task to, best one first; null if none.
  Slot* PickIdle(const WorkerTask& task);
  // Ends a worker that has served another kernel, if that keeps the task from beginning.
  void ReplaceForeign(const WorkerTask& task);
  void Begin(Slot* slot, Waiting waiting);
  void OnGone(int slot, const WorkerEnd& end);
  void OnStuck(int slot);
  void OnStartFailure(const std::string& message, bool permanent);
  void FailWaiting(const std::string& message);
  void Lose(WorkerTask task, const std::string& message);
  void CheckShutdown();

  EventLoop* const loop_;
  const Options options_;

  std::vector<Slot> slots_;
  std::deque<Waiting> queue_;
  TaskId last_task_ = 0;
  bool used_ = false;  // spares are started once there has been work, or it is expected
  int start_failures_ = 0;
  TimerId backoff_timer_ = 0;
  bool backing_off_ = false;
  std::string quarantine_;
  bool shut_down_ = false;
  std::function<void()> shutdown_done_;
  BadPreparations bad_preparations_;

  DeviceHealth health_;
  int checking_ = -1;           // the slot whose worker is asked; -1: none
  bool looking_again_ = false;  // waits before the second look
  bool sick_ = false;           // the quarantine is of the device's health
  bool probing_ = false;        // sick, and looked at again
  TimerId health_timer_ = 0;

  std::shared_ptr<const WorkerPreparation> preparation_;  // the last that a task was prepared with; null: none
  std::string last_key_;                                  // of the task that began last
  int in_a_row_ = 0;                                      // tasks with it
  std::string not_ahead_key_;                             // a preparation that spares cannot have
  bool alone_ = false;                                    // the next task waits until workers that end are gone
  std::optional<MonotonicTime> crashed_at_;               // and nothing was launched since
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace tunefarm
