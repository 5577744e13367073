// What a pool does for the device that its workers share: proves its health, takes it out of service and back, keeps a
// spare prepared, and measures how long a crash interrupts the work.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "server/base/log.h"
#include "server/exec/worker_pool.h"

namespace tunefarm {
namespace {

// A config that ends its worker by SIGKILL each time is answered after so many tries.
constexpr int kKillsMax = 3;

// What a worker saw of processes on the device that are not the pool's, of which `live` have a worker: to the worker
// that was asked, the pool's other workers are others too. -1: it cannot see them.
int ForeignProcesses(const tunefarm::worker::v1::HealthReport& report, int live) {
  return report.foreign_processes() < 0 ? -1 : std::max(0, report.foreign_processes() - (live - 1));
}

}  // namespace

void WorkerPool::RefuseBadPreparations() {
  while (!queue_.empty()) {
    std::optional<Verdict> refusal = bad_preparations_.Refusal(queue_.front().task.preparation->key);
    if (!refusal.has_value()) return;
    WorkerTaskEnd end;
    end.preparing = true;
    end.verdict = *std::move(refusal);
    loop_->Post([done = std::move(queue_.front().task.done), end = std::move(end)]() mutable { done(std::move(end)); });
    queue_.pop_front();
    if (options_.on_task_ended) options_.on_task_ended();
  }
}

// ---- Health ----

void WorkerPool::NoteLoss(const std::string& message) {
  if (!options_.losses_tell || shut_down_ || !quarantine_.empty()) return;
  const DeviceHealth::Finding finding = health_.OnTaskLost(message);
  if (finding != DeviceHealth::Finding::kSound) OnFinding(finding);
}

bool WorkerPool::CheckHealthFirst() {
  if (!options_.check_health || shut_down_ || !used_) return false;
  if (checking_ >= 0 || looking_again_) return true;
  if (!health_.is_due()) return false;
  if ((!quarantine_.empty() && !probing_) || busy() > 0) return true;
  if (options_.may_check_health && !options_.may_check_health()) return true;
  Slot* picked = nullptr;
  for (Slot& slot : slots_) {
    if (slot.worker == nullptr || !slot.worker->idle() || slot.task != 0) continue;
    // The one that will go on: prepared for what waits, if there is one.
    const bool fits = !queue_.empty() && slot.worker->prepared_key() == queue_.front().task.preparation->key;
    if (picked == nullptr || fits) picked = &slot;
  }
  if (picked != nullptr) BeginCheck(static_cast<int>(picked - slots_.data()));
  return true;
}

void WorkerPool::BeginCheck(int index) {
  checking_ = index;
  Slot& slot = slots_[static_cast<size_t>(index)];
  slot.was_readied = true;
  slot.worker->CheckHealth(options_.health_deadline_ms,
                           [this, index](const tunefarm::worker::v1::HealthReport& report) {
                             checking_ = -1;
                             const DeviceHealth::Finding finding = health_.OnReport(report);
                             if (finding == DeviceHealth::Finding::kSound && options_.on_healthy) {
                               options_.on_healthy(ForeignProcesses(report, LiveWorkers()), health_.baseline_ns());
                             }
                             // A wrong result may be this worker's context alone: the next look is another's.
                             Slot& checked = slots_[static_cast<size_t>(index)];
                             if (!report.ok() && checked.worker != nullptr)
                               checked.worker->Kill(WorkerEndCause::kShutdown);
                             OnFinding(finding);
                             if (options_.on_task_ended) options_.on_task_ended();
                           });
}

void WorkerPool::OnFinding(DeviceHealth::Finding finding) {
  switch (finding) {
    case DeviceHealth::Finding::kSound:
      probing_ = false;
      if (sick_) LeaveQuarantine("its health check passed, back in service");
      break;
    case DeviceHealth::Finding::kLookAtOnce:
      break;
    case DeviceHealth::Finding::kLookAgain:
      looking_again_ = true;
      health_timer_ = loop_->PostAfter(options_.health_look_again, [this, alive = alive_] {
        if (!*alive) return;
        looking_again_ = false;
        Pump();
      });
      return;
    case DeviceHealth::Finding::kSick:
      sick_ = true;
      probing_ = false;
      if (quarantine_.empty()) Quarantine(fmt::format("{} is out of service: {}", options_.name, health_.reason()));
      RestBeforeProbe();
      return;
  }
  Pump();
}

void WorkerPool::RestBeforeProbe() {
  const Duration rest = options_.health_rest > Duration{} ? options_.health_rest : health_.NextRest();
  LogInfo("exec", "{} is checked again in {} s", options_.name,
          std::chrono::duration_cast<std::chrono::seconds>(rest).count());
  health_timer_ = loop_->PostAfter(rest, [this, alive = alive_] {
    if (!*alive || !sick_ || shut_down_) return;
    if (!options_.check_health) {
      LeaveQuarantine("it has rested, back in service");
    } else {
      probing_ = true;
    }
    Pump();
  });
}

void WorkerPool::Quarantine(std::string reason) {
  quarantine_ = std::move(reason);
  LogError("exec", "{}", quarantine_);
  if (options_.stats != nullptr) ++options_.stats->devices_quarantined;
  FailWaiting(quarantine_);
  if (options_.on_quarantine) options_.on_quarantine(quarantine_);
}

void WorkerPool::LeaveQuarantine(std::string_view how) {
  LogInfo("exec", "{}: {}", options_.name, how);
  quarantine_.clear();
  sick_ = probing_ = false;
  start_failures_ = 0;
  if (options_.stats != nullptr) --options_.stats->devices_quarantined;
  if (options_.on_quarantine) options_.on_quarantine("");
}

void WorkerPool::Release() {
  if (quarantine_.empty()) return;
  health_.RequireCheck();
  loop_->Cancel(health_timer_);
  looking_again_ = false;
  LeaveQuarantine("released into service");
  Pump();
}

void WorkerPool::SetHealthBaseline(double nanoseconds) {
  health_.SetBaseline(nanoseconds);
  Pump();
}

// ---- The spare ----

void WorkerPool::PreloadSpares() {
  if (!options_.preload || shut_down_ || !quarantine_.empty() || preparation_ == nullptr || alone_) return;
  if (checking_ >= 0 || looking_again_ || (options_.check_health && health_.is_due())) return;
  const std::string& key = preparation_->key;
  // Where problems alternate, every preparation ahead would be for the wrong one.
  if (in_a_row_ < 2 || last_key_ != key) return;
  // First the one that works: it brings the reference's outputs.
  const bool is_built = std::any_of(slots_.begin(), slots_.end(), [&key](const Slot& slot) {
    return slot.worker != nullptr && slot.worker->prepared_key() == key;
  });
  if (key == not_ahead_key_ || !is_built) return;
  for (size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    if (slot.worker == nullptr || !slot.worker->idle() || slot.task != 0 || slot.worker->prepared_key() == key)
      continue;
    slot.was_readied = true;
    slot.worker->Preload(preparation_, [this, key](bool prepared) {
      if (!prepared) not_ahead_key_ = key;
      if (prepared && options_.stats != nullptr) ++options_.stats->spares_prepared;
    });
  }
}

bool WorkerPool::IsAlone(const Slot& slot) const {
  return std::none_of(slots_.begin(), slots_.end(), [&slot](const Slot& other) {
    return &other != &slot && other.worker != nullptr && !other.stuck &&
           (other.worker->ending() || other.worker->holds_problem());
  });
}

bool WorkerPool::TryAgain(int index, Waiting* again, WorkerTaskEnd* end) {
  const Slot& slot = slots_[static_cast<size_t>(index)];
  if (end->killed_from_outside) {
    ++again->kills;
    if (shut_down_ || !quarantine_.empty() || slot.is_cancelled) {
      end->verdict = {tunefarm::v1::OUTCOME_LOST, end->verdict.message};
      return false;
    }
    if (again->kills >= kKillsMax) {
      end->verdict.message += fmt::format(", {} times in a row", again->kills);
      return false;
    }
    LogWarn("exec", "{}: {}; the evaluation is tried again ({} of {})", options_.name, end->verdict.message,
            again->kills + 1, kKillsMax);
    queue_.push_front(std::move(*again));
    return true;
  }
  if (!options_.preload || again->is_second_try || end->verdict.outcome != tunefarm::v1::OUTCOME_OUT_OF_MEMORY ||
      shut_down_ || IsAlone(slot)) {
    return false;
  }
  LogDebug("exec", "{}: out of memory beside another worker; it is tried again alone", options_.name);
  not_ahead_key_ = again->task.preparation->key;
  for (Slot& other : slots_) {
    if (&other != &slot && other.worker != nullptr && other.task == 0 && other.worker->holds_problem()) {
      other.worker->Kill(WorkerEndCause::kShutdown);
    }
  }
  alone_ = true;
  again->is_second_try = true;
  queue_.push_front(std::move(*again));
  return true;
}

// ---- Crashes ----

void WorkerPool::NoteCrash(Slot* slot) {
  if (std::exchange(slot->crash_noted, true)) return;
  health_.RequireCheck();
  if (options_.stats != nullptr) ++options_.stats->runner_crashes;
  if (!crashed_at_.has_value()) crashed_at_ = slot->worker->ended_at();
}

void WorkerPool::OnFirstLaunch(int index) {
  if (!crashed_at_.has_value()) return;
  const MonotonicTime crashed_at = *std::exchange(crashed_at_, std::nullopt);
  const auto gap = std::chrono::duration_cast<std::chrono::microseconds>(loop_->clock()->Now() - crashed_at);
  const Slot& slot = slots_[static_cast<size_t>(index)];
  const bool is_standby = slot.started_at < crashed_at;
  LogDebug("exec", "{} continues {:.1f} ms after the crash: {}", slot.worker->name(),
           static_cast<double>(gap.count()) / 1000, is_standby ? "the standby took over" : "a new worker was started");
  if (options_.stats == nullptr) return;
  if (is_standby) ++options_.stats->takeovers;
  options_.stats->last_takeover_us = gap.count();
}

}  // namespace tunefarm
