#include "server/exec/worker_pool.h"

#include <algorithm>
#include <utility>

#include "server/base/check.h"
#include "server/base/log.h"
#include "server/base/status.h"
#include "server/exec/frame_limits.h"
#include "server/exec/longest_first.h"

namespace tunefarm {
namespace {

std::string HowItWasLost(const WorkerEnd& end) {
  if (end.cause == WorkerEndCause::kDeadline) return fmt::format("did not answer within {} ms", end.deadline_ms);
  return end.cause == WorkerEndCause::kExited ? "ended with " + end.status.ToString() : "failed: " + end.detail;
}

// The answer to a task that cannot be measured as it wants to be.
std::function<void()> Refusal(WorkerTask task, std::string message) {
  return [done = std::move(task.done), message = std::move(message)] {
    WorkerTaskEnd end;
    end.verdict = {tunefarm::v1::OUTCOME_LOST, message};
    end.phase = tunefarm::v1::PHASE_MEASURE;
    done(std::move(end));
  };
}

}  // namespace

WorkerPool::WorkerPool(EventLoop* loop, Options options)
    : loop_(loop), options_(std::move(options)), health_(options_.name, options_.health_baseline_ns) {
  TUNEFARM_CHECK(options_.workers > 0 && options_.spares >= 0 && options_.make_worker != nullptr);
  // With spares one more, so that the next spare is started while the last crash is still being cleared away.
  slots_.resize(static_cast<size_t>(options_.workers + options_.spares + (options_.spares > 0 ? 1 : 0)));
}

WorkerPool::~WorkerPool() {
  *alive_ = false;
  loop_->Cancel(backoff_timer_);
  loop_->Cancel(health_timer_);
}

int WorkerPool::busy() const {
  // A worker whose task is answered but whose process still dies holds the device until it is gone, or until it is
  // clear that it may never be: others do not wait for that.
  return static_cast<int>(
      std::count_if(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.task != 0 && !slot.stuck; }));
}

bool WorkerPool::measures() const {
  return busy() > 0 || (checking_ >= 0 && !slots_[static_cast<size_t>(checking_)].stuck);
}

void WorkerPool::Lose(WorkerTask task, const std::string& message) {
  loop_->Post([done = std::move(task.done), message, out_of_service = !quarantine_.empty()] {
    WorkerTaskEnd end;
    end.verdict = {tunefarm::v1::OUTCOME_LOST, message};
    end.out_of_service = out_of_service;
    done(std::move(end));
  });
}

void WorkerPool::FailWaiting(const std::string& message) {
  std::deque<Waiting> failed;
  failed.swap(queue_);
  for (Waiting& waiting : failed) Lose(std::move(waiting.task), message);
}

WorkerPool::TaskId WorkerPool::Submit(WorkerTask task) {
  const TaskId id = ++last_task_;
  used_ = true;
  if (shut_down_) {
    Lose(std::move(task), "the daemon is ending");
  } else if (!quarantine_.empty()) {
    Lose(std::move(task), quarantine_);
  } else if (queue_.size() >= options_.queue_max) {
    Lose(std::move(task),
         fmt::format("{} evaluations are waiting for {}, which is the limit", queue_.size(), options_.name));
  } else {
    queue_.push_back({id, std::move(task)});
    Pump();
  }
  return id;
}

void WorkerPool::Expect() {
  if (used_ || shut_down_ || (options_.has_device && !options_.has_device())) return;
  used_ = true;
  Pump();
}

void WorkerPool::Cancel(TaskId task) {
  for (auto it = queue_.begin(); it != queue_.end(); ++it) {
    if (it->id != task) continue;
    WorkerTask cancelled = std::move(it->task);
    queue_.erase(it);
    Lose(std::move(cancelled), "the evaluation was cancelled");
    if (options_.on_task_ended) options_.on_task_ended();
    return;
  }
  for (Slot& slot : slots_) {
    if (slot.task != task || slot.worker == nullptr) continue;
    slot.is_cancelled = true;
    if (slot.worker->busy()) slot.worker->Kill(WorkerEndCause::kCancelled);
  }
}

void WorkerPool::ReplaceForeign(const WorkerTask& task) {
  if (!options_.one_kernel) return;
  const auto on_the_way = std::count_if(slots_.begin(), slots_.end(), [](const Slot& slot) {
    return slot.worker != nullptr && !slot.stuck && (slot.worker->starting() || slot.worker->ending());
  });
  if (static_cast<size_t>(on_the_way) >= queue_.size()) return;
  for (Slot& slot : slots_) {
    if (slot.worker == nullptr || !slot.worker->idle() || slot.task != 0) continue;
    if (!slot.kernel_id.empty() && slot.kernel_id != task.preparation->plan->kernel_id()) {
      LogDebug("exec", "{} has served another kernel and is replaced", slot.worker->name());
      slot.worker->Kill(WorkerEndCause::kShutdown);
      return;
    }
  }
}

WorkerPool::Slot* WorkerPool::PickIdle(const WorkerTask& task) {
  Slot *fitting = nullptr, *picked = nullptr;
  for (Slot& slot : slots_) {
    if (slot.worker == nullptr || !slot.worker->idle() || slot.task != 0) continue;
    if (!slot.kernel_id.empty() && slot.kernel_id != task.preparation->plan->kernel_id()) continue;
    // The one at work goes on, so that the spare stays untouched.
    const bool fits = slot.worker->prepared_key() == task.preparation->key;
    if (fits && (fitting == nullptr || slot.worker->tasks_done() > fitting->worker->tasks_done())) fitting = &slot;
    // A spare without a problem of its own is better than throwing away another's preparation.
    if (picked == nullptr || (!picked->worker->prepared_key().empty() && slot.worker->prepared_key().empty()))
      picked = &slot;
  }
  return fitting != nullptr ? fitting : picked;
}

int WorkerPool::LiveWorkers() const {
  return static_cast<int>(
      std::count_if(slots_.begin(), slots_.end(), [](const Slot& s) { return s.worker != nullptr; }));
}

void WorkerPool::Pump() {
  if (options_.has_device && !queue_.empty() && !shut_down_ && !options_.has_device()) return;
  RefuseBadPreparations();
  if (!CheckHealthFirst()) {
    while (!queue_.empty() && quarantine_.empty() && !shut_down_ && busy() < options_.workers) {
      if (options_.may_begin && !options_.may_begin()) break;
      // As many as begin while one runs, twice: what is short waits for a while, but not until the end.
      const auto place = options_.longest_first ? LongestFirst(queue_, 2 * options_.workers) : queue_.begin();
      Slot* slot = PickIdle(place->task);
      if (slot == nullptr) ReplaceForeign(place->task);
      if (slot == nullptr || (alone_ && !IsAlone(*slot))) break;
      std::string refusal;
      const DeviceState device =
          options_.make_device_ready ? options_.make_device_ready(place->task, &refusal) : DeviceState::kReady;
      if (device == DeviceState::kWait) break;
      if (device == DeviceState::kRefused) {
        loop_->Post(Refusal(std::move(place->task), std::move(refusal)));
        queue_.erase(place);
        if (options_.on_task_ended) options_.on_task_ended();
        continue;
      }
      for (auto before = queue_.begin(); before != place; ++before) ++before->passed_over;
      Waiting next = std::move(*place);
      queue_.erase(place);
      Begin(slot, std::move(next));
    }
  }
  StartWorkers();
  PreloadSpares();
}

void WorkerPool::Begin(Slot* slot, Waiting waiting) {
  slot->task = waiting.id;
  slot->is_cancelled = false;
  alone_ = false;
  if (options_.one_kernel) slot->kernel_id = waiting.task.preparation->plan->kernel_id();
  const auto index = static_cast<size_t>(slot - slots_.data());
  if (options_.preload) {
    const bool is_another = slot->preparation == nullptr || slot->preparation->key != waiting.task.preparation->key;
    if (is_another) slot->preparation = waiting.task.preparation;
    in_a_row_ = waiting.task.preparation->key == last_key_ ? in_a_row_ + 1 : 1;
    last_key_ = waiting.task.preparation->key;
    waiting.task.evaluate.set_own_processes(std::max(LiveWorkers(), options_.workers + options_.spares));
  }
  const auto again = std::make_shared<Waiting>(waiting);
  // Wraps done: the slot is free before the caller hears of it, so that whatever the caller submits finds it free. A
  // worker that ends frees it in OnGone, unless the device is free of it already.
  waiting.task.done = [this, alive = alive_, index, id = waiting.id, again, key = waiting.task.preparation->key,
                       done = std::move(waiting.task.done)](WorkerTaskEnd end) {
    bool is_free_early = false;
    if (*alive) {
      Slot& ended = slots_[index];
      if (ended.task == id && ended.worker != nullptr) {
        is_free_early = ended.worker->has_left_device();
        if (ended.worker->idle() || is_free_early) ended.task = 0;
        if (is_free_early) NoteCrash(&ended);
      }
      if (TryAgain(static_cast<int>(index), again.get(), &end)) return Pump();
      bad_preparations_.Note(key, end);
      if (end.lost_by_machine) {
        NoteLoss(end.verdict.message);
      } else if (end.verdict.outcome != tunefarm::v1::OUTCOME_LOST) {
        health_.OnTaskDone();
      }
    }
    done(std::move(end));
    if (!*alive) return;
    if (options_.on_task_ended) options_.on_task_ended();
    if (is_free_early) Pump();
  };
  slot->worker->Assign(std::move(waiting.task));
}

void WorkerPool::StartWorkers() {
  if (shut_down_ || backing_off_ || !used_ || (!quarantine_.empty() && !probing_)) return;
  int idle_or_starting = 0;
  for (const Slot& slot : slots_) {
    if (slot.worker == nullptr || slot.task != 0) continue;
    if (slot.worker->idle() || slot.worker->starting() || slot.worker->getting_ready()) ++idle_or_starting;
  }
  // What waits for nothing but a device that is sound is waited for by a worker that can prove it.
  const int waiting = std::max(static_cast<int>(queue_.size()), options_.check_health && health_.is_due() ? 1 : 0);
  const int wanted = std::min(waiting, std::max(0, options_.workers - busy())) + (probing_ ? 0 : options_.spares);
  for (size_t i = 0; i < slots_.size() && idle_or_starting < wanted; ++i) {
    if (slots_[i].worker != nullptr) continue;
    StartWorker(static_cast<int>(i));
    if (backing_off_) return;
    ++idle_or_starting;
  }
}

void WorkerPool::StartWorker(int index) {
  absl::StatusOr<WorkerProcessOptions> options = options_.make_worker(index);
  if (!options.ok()) {
    OnStartFailure(std::string(MessageOf(options.status())), false);
    return;
  }
  WorkerProcess::Callbacks callbacks;
  callbacks.on_ready = [this, index] {
    start_failures_ = 0;
    if (options_.on_hello) options_.on_hello(slots_[static_cast<size_t>(index)].worker->hello());
    Pump();
  };
  callbacks.on_idle = [this, index] {
    const Slot& idle = slots_[static_cast<size_t>(index)];
    const int tasks = idle.worker->tasks_done();
    if (options_.recycle_after_tasks > 0 && tasks >= options_.recycle_after_tasks && idle.worker->idle() &&
        idle.task == 0) {
      LogDebug("exec", "{} is replaced after {} tasks", idle.worker->name(), tasks);
      idle.worker->Kill(WorkerEndCause::kShutdown);
    }
    Pump();
  };
  if (options_.preload) {
    callbacks.on_prepared = [this, index] {
      preparation_ = slots_[static_cast<size_t>(index)].preparation;
      PreloadSpares();
    };
  }
  if (options_.spares > 0) callbacks.on_first_launch = [this, index] { OnFirstLaunch(index); };
  callbacks.on_warm_start = options_.on_warm_start;
  callbacks.on_stuck = [this, index] { OnStuck(index); };
  callbacks.on_gone = [this, index](const WorkerEnd& end) { OnGone(index, end); };
  Slot& slot = slots_[static_cast<size_t>(index)];
  slot.crash_noted = slot.was_readied = false;
  slot.started_at = loop_->clock()->Now();
  slot.preparation.reset();
  slot.kernel_id.clear();
  slot.worker = std::make_unique<WorkerProcess>(loop_, *std::move(options), std::move(callbacks));
  if (options_.stats != nullptr) ++options_.stats->runners_started;
}

void WorkerPool::OnGone(int index, const WorkerEnd& ended) {
  const WorkerEnd end = ended;  // Dies with the worker.
  Slot& slot = slots_[static_cast<size_t>(index)];
  const bool was_readied = slot.was_readied;
  const bool did_nothing = slot.worker->tasks_done() == 0 && !was_readied;
  const bool had_task = slot.task != 0;
  const std::string name = slot.worker->name();
  const bool was_stuck = std::exchange(slot.stuck, false);
  const bool by_us = end.cause == WorkerEndCause::kShutdown || end.cause == WorkerEndCause::kStartFailed;
  if (!by_us && (had_task || slot.was_readied)) NoteCrash(&slot);
  if (!had_task && slot.was_readied && end.preparing && preparation_ != nullptr) not_ahead_key_ = preparation_->key;
  slot.task = 0;
  slot.worker.reset();
  if (was_stuck && !quarantine_.empty() && !sick_) LeaveQuarantine("the stuck worker is gone, back in service");
  if (checking_ == index) {
    checking_ = -1;
    if (!shut_down_) OnFinding(health_.OnWorkerLost(HowItWasLost(end)));
  }
  if (end.cause == WorkerEndCause::kStartFailed) {
    OnStartFailure(end.detail, end.status.exited && end.status.exit_code == kWorkerExitBackend);
  } else if (did_nothing && !had_task && end.cause == WorkerEndCause::kExited) {
    OnStartFailure(fmt::format("worker {} ended with {} before it was given any work", name, end.status.ToString()),
                   false);
  } else if (!had_task && end.cause == WorkerEndCause::kExited && !was_readied) {
    LogWarn("exec", "{} ended with {} while it had nothing to do; it is replaced", name, end.status.ToString());
  }
  if (options_.on_task_ended) options_.on_task_ended();
  CheckShutdown();
  Pump();
}

void WorkerPool::OnStartFailure(const std::string& message, bool permanent) {
  if (shut_down_) return;
  // A probe that cannot begin is one that fails.
  if (probing_) return OnFinding(health_.OnWorkerLost("could not be started: " + message));
  start_failures_ = permanent ? std::max(start_failures_ + 1, options_.start_failures_max) : start_failures_ + 1;
  const int doublings = std::min(start_failures_ - 1, 16);
  const int64_t delay_ms = std::min<int64_t>(int64_t{options_.backoff_ms} << doublings, options_.backoff_max_ms);
  LogWarn("exec", "{}: {}; next attempt in {} ms", options_.name, message, delay_ms);
  if (start_failures_ >= options_.start_failures_max) {
    const std::string why = fmt::format("no {} worker can be started: {}", options_.name, message);
    const size_t lost = queue_.size();
    FailWaiting(why);
    for (size_t i = 0; i < lost; ++i) NoteLoss(why);
  }
  backing_off_ = true;
  loop_->Cancel(backoff_timer_);
  backoff_timer_ = loop_->PostAfter(std::chrono::milliseconds(delay_ms), [this, alive = alive_] {
    if (!*alive) return;
    backing_off_ = false;
    // Only if somebody waits: spares alone are no reason to try for ever.
    if (!queue_.empty()) Pump();
  });
}

void WorkerPool::OnStuck(int index) {
  Slot& slot = slots_[static_cast<size_t>(index)];
  slot.stuck = true;
  const auto usable = std::count_if(slots_.begin(), slots_.end(), [](const Slot& other) { return !other.stuck; });
  if (!shut_down_ && quarantine_.empty() && (options_.one_stuck_stops_all || usable == 0)) {
    Quarantine(
        fmt::format("{} is out of service: its worker (pid {}) does not end after SIGKILL; a reboot may be needed",
                    options_.name, slot.worker->pid()));
  }
  // Its task no longer counts as busy.
  if (options_.on_task_ended) options_.on_task_ended();
  CheckShutdown();
  Pump();
}

void WorkerPool::Shutdown(std::function<void()> done) {
  shut_down_ = true;
  shutdown_done_ = std::move(done);
  FailWaiting("the daemon is ending");
  for (Slot& slot : slots_) {
    if (slot.worker != nullptr) slot.worker->Kill(WorkerEndCause::kShutdown);
  }
  CheckShutdown();
}

void WorkerPool::CheckShutdown() {
  if (!shut_down_ || shutdown_done_ == nullptr) return;
  for (const Slot& slot : slots_) {
    if (slot.worker != nullptr && !slot.stuck) return;
  }
  loop_->Post(std::exchange(shutdown_done_, nullptr));
}

}  // namespace tunefarm
