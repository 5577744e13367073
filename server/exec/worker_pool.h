#pragma once

// Worker processes of one kind (role, backend, device) and the queue of tasks before them. Starts workers when there is
// work, keeps them warm, replaces what dies, backs off when they cannot be started. Every task is answered exactly
// once.

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/exec/event_loop.h"
#include "server/exec/worker_process.h"

namespace tunefarm {

// Loop thread only, all of it.
class WorkerPool {
 public:
  using TaskId = uint64_t;

  struct Options {
    std::string name;  // "compile-cuda"; for messages
    int workers = 1;   // tasks that run at once
    int spares = 0;    // warm workers beyond those, to take over when one dies
    size_t queue_max = 4096;
    int recycle_after_tasks = 0;  // 0: never
    // One worker that SIGKILL does not end takes the whole pool out of service: it still holds the device.
    bool one_stuck_stops_all = false;
    int backoff_ms = 100;  // after the first failed start; doubles each time
    int backoff_max_ms = 10'000;
    int start_failures_max = 3;  // in a row, before waiting tasks are given up
    // How to start the worker of a slot (0 .. workers + spares - 1), with its scratch directory made fresh.
    std::function<absl::StatusOr<WorkerProcessOptions>(int slot)> make_worker;
    // Whether a task may begin now; empty: always. Whoever changes its answer calls Pump.
    std::function<bool()> may_begin;
    // Something may have become possible elsewhere: a task has ended. May be empty.
    std::function<void()> on_task_ended;
    // A worker is ready. May be empty.
    std::function<void(const tunefarm::worker::v1::Hello& hello)> on_hello;
    // Out of service with a reason in one sentence, or back in service with an empty one. May be empty.
    std::function<void(const std::string& reason)> on_quarantine;
  };

  WorkerPool(EventLoop* loop, Options options);
  // All workers must be gone or stuck: see Shutdown.
  ~WorkerPool();

  // Answers with LOST at once (posted) when the queue is full, the pool is out of service or shut down.
  TaskId Submit(WorkerTask task);
  // A waiting task is answered with LOST; the worker of a running one is killed. Unknown ids are ignored.
  void Cancel(TaskId task);
  // Starts what can be started.
  void Pump();

  // Answers everything with LOST and kills every worker; calls `done` (posted) when each is gone or stuck.
  void Shutdown(std::function<void()> done);

  // Workers with a task or still dying of one, but for the stuck.
  int busy() const;
  size_t waiting() const { return queue_.size(); }

 private:
  struct Slot {
    std::unique_ptr<WorkerProcess> worker;
    TaskId task = 0;
    bool stuck = false;
  };
  struct Waiting {
    TaskId id;
    WorkerTask task;
  };

  void StartWorkers();
  void StartWorker(int slot);
  // The idle worker to give the front task to, best one first; null if none.
  Slot* PickIdle(const WorkerTask& task);
  void Begin(Slot* slot, Waiting waiting);
  void OnGone(int slot, const WorkerEnd& end);
  void OnStuck(int slot);
  void OnStartFailure(const std::string& message, bool permanent);
  void MaybeRecycle(Slot* slot);
  void FailWaiting(const std::string& message);
  void Lose(WorkerTask task, const std::string& message);
  void CheckShutdown();

  EventLoop* const loop_;
  const Options options_;

  std::vector<Slot> slots_;
  std::deque<Waiting> queue_;
  TaskId last_task_ = 0;
  bool used_ = false;  // spares are started once there has been work
  int start_failures_ = 0;
  TimerId backoff_timer_ = 0;
  bool backing_off_ = false;
  std::string quarantine_;
  bool shut_down_ = false;
  std::function<void()> shutdown_done_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace tunefarm
