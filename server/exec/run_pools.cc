#include "server/exec/run_pools.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>

#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/exec/worker_plan.h"
#include "server/measure/policy.h"

namespace tunefarm {
namespace {

constexpr size_t kDevicesMax = 64;
// How often a process that waits for a device asks whether another still measures on it.
constexpr std::chrono::milliseconds kLockRetry{20};

RunResult ToRunResult(WorkerTaskEnd end) {
  RunResult run;
  run.outcome = end.verdict.outcome;
  run.phase = end.phase;
  run.message = std::move(end.verdict.message);
  run.run_ms = end.wall_ms;
  run.out_of_service = end.out_of_service;
  if (run.outcome != tunefarm::v1::OUTCOME_OK) {
    if (end.result.has_value()) run.log = PrintableText(end.result->log());
    if (!run.log.empty() && !end.output.empty()) run.log += '\n';
    run.log += end.output;
  }
  if (end.result.has_value()) {
    run.device_busy_ms = end.result->device_busy_ms();
    run.measurement = std::move(*end.result->mutable_measurement());
    run.verification = std::move(*end.result->mutable_verification());
    run.resources = std::move(*end.result->mutable_resources());
  }
  return run;
}

}  // namespace

WorkerTask RunPools::MakeTask(const RunRequest& request) const {
  WorkerTask task;
  task.preparation = preparations_->Get(request.plan, request.problem, request.device_class, request.input_seed,
                                        request.reference_artifact, request.data_files);
  *task.evaluate.mutable_config() = request.plan->ToProto(request.config);
  *task.evaluate.mutable_policy() = ResolvePolicy(request.policy);
  // It was evaluated when the config was compiled: it cannot fail now.
  (void)AddDerivedValues(*request.plan, *request.problem, request.config, request.device_class, &task.evaluate);
  task.evaluate.set_baseline(request.baseline);
  task.evaluate.set_verify_only(request.verify_only);
  task.evaluate.set_keep_samples(request.keep_samples);
  task.evaluate.set_input_seed(request.input_seed);
  task.evaluate.set_race_limit_ns(request.race_limit_ns);
  task.evaluate.set_second_input_seed(request.second_input_seed);
  task.artifact = request.artifact;
  if (request.yardstick.has_value()) {
    *task.evaluate.mutable_yardstick()->mutable_config() = request.plan->ToProto(request.yardstick->config);
    task.yardstick = request.yardstick->artifact;
  }
  return task;
}

void RunPools::Start(Evaluator::Id id, const std::string& device_uuid, const std::string& backend, WorkerTask task,
                     std::function<void(RunResult)> done) {
  // Where the worker is an interpreter, the kernel and what judges it share a process; it must not be what says so.
  const bool self_judged = backend.starts_with("python-");
  task.done = [this, id, self_judged, device_uuid, backend, mhz = task.evaluate.policy().locked_clock_mhz(),
               done = std::move(done)](WorkerTaskEnd end) {
    runs_.erase(id);
    RunResult result = ToRunResult(std::move(end));
    if (result.measurement.median_ns() > 0) result.measurement.set_self_judged(self_judged);
    NoteClock(device_uuid, backend, mhz, &result);
    done(std::move(result));
  };
  const absl::StatusOr<WorkerPool*> pool = Pool(device_uuid, backend);
  if (!pool.ok()) {
    WorkerTaskEnd end;
    end.verdict = {tunefarm::v1::OUTCOME_LOST, std::string(MessageOf(pool.status()))};
    task.done(std::move(end));
    return;
  }
  // Answers are posted, never given from within Submit: the entry is there before its task ends.
  runs_.emplace(id, std::make_pair(*pool, (*pool)->Submit(std::move(task))));
}

void RunPools::Expect(const std::string& device_uuid, const std::string& backend) {
  const absl::StatusOr<WorkerPool*> pool = Pool(device_uuid, backend);
  if (pool.ok()) (*pool)->Expect();
}

bool RunPools::Cancel(Evaluator::Id id) {
  const auto run = runs_.find(id);
  if (run == runs_.end()) return false;
  run->second.first->Cancel(run->second.second);
  return true;
}

void RunPools::Release(const std::string& device_uuid) {
  for (auto& [key, device] : pools_) {
    if (key.first == device_uuid) device->pool->Release();
  }
}

void RunPools::SetHealthBaseline(const std::string& device_uuid, double nanoseconds) {
  for (auto& [key, device] : pools_) {
    if (key.first == device_uuid) device->pool->SetHealthBaseline(nanoseconds);
  }
}

// ---- Clocks ----

void RunPools::FreeClocks() {
  if (options_.clock_directory.empty()) return;
  std::error_code error;
  std::vector<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(options_.clock_directory, error)) {
    left.push_back(entry.path().filename().string());
  }
  if (left.empty()) return;
  if (!options_.lock_directory.empty()) (void)MakeDirectories(options_.lock_directory, 0755);
  for (const std::string& device_uuid : left) {
    if (!options_.lock_directory.empty()) {
      absl::StatusOr<FileLock> lock = FileLock::TryLock(LockPath(device_uuid), 0644);
      // A daemon with another data directory measures on it, maybe under a clock that it holds. SetClock frees what was
      // left once the device is this daemon's.
      if (!lock.ok() && ReasonOf(lock.status()) == "LOCK_HELD") continue;
      if (lock.ok()) freeing_locks_[device_uuid] = *std::move(lock);
    }
    (void)Clock(device_uuid, true);
  }
}

bool RunPools::IsLeftHeld(const std::string& device_uuid) const {
  return !options_.clock_directory.empty() && !clocks_.contains(device_uuid) &&
         access(MarkerPath(device_uuid).c_str(), F_OK) == 0;
}

std::string RunPools::MarkerPath(const std::string& device_uuid) const {
  return fmt::format("{}/{}", options_.clock_directory, device_uuid);
}

ClockGuard* RunPools::Clock(const std::string& device_uuid, bool wanted) {
  if (const auto known = clocks_.find(device_uuid); known != clocks_.end()) return known->second.get();
  if (!wanted) return nullptr;
  if (const absl::Status made = MakeDirectories(options_.clock_directory, 0700); !made.ok()) {
    LogWarn("exec", "{}", MessageOf(made));  // The marker cannot be written, which is a refusal.
  }
  ClockGuard::Options clock;
  clock.worker_binary = options_.worker_binary;
  clock.device_uuid = device_uuid;
  clock.marker = MarkerPath(device_uuid);
  clock.idle_after = options_.clock_idle;
  clock.in_use = [this, device_uuid] { return IsBusy(device_uuid); };
  clock.changed = [this, device_uuid] {
    PumpDevice(device_uuid);
    // What was left is freed, or cannot be: a pool that has work took the lock over.
    freeing_locks_.erase(device_uuid);
  };
  return clocks_.emplace(device_uuid, std::make_unique<ClockGuard>(loop_, std::move(clock))).first->second.get();
}

WorkerPool::DeviceState RunPools::SetClock(Device* device, int mhz, std::string* refusal) {
  using DeviceState = WorkerPool::DeviceState;
  if (mhz > 0 && (device->host || options_.clock_directory.empty())) {
    *refusal = fmt::format("the clock cannot be held at {} MHz: {}; leave out locked_clock_mhz", mhz,
                           device->host ? "the device is no GPU" : "no directory for its marker is configured");
    return DeviceState::kRefused;
  }
  ClockGuard* const clock = device->host ? nullptr : Clock(device->uuid, mhz > 0 || IsLeftHeld(device->uuid));
  if (clock == nullptr) return DeviceState::kReady;
  switch (clock->Ask(mhz, refusal)) {
    case ClockGuard::Answer::kReady:
      device->clock_changes = clock->changes();
      return DeviceState::kReady;
    case ClockGuard::Answer::kWait:
      return DeviceState::kWait;
    case ClockGuard::Answer::kRefused:
      break;
  }
  return DeviceState::kRefused;
}

void RunPools::NoteClock(const std::string& device_uuid, const std::string& backend, int mhz, RunResult* result) {
  result->measurement.clear_locked_clock_mhz();
  const auto device = pools_.find({device_uuid, backend});
  if (mhz == 0 || result->measurement.median_ns() <= 0 || device == pools_.end()) return;
  const ClockGuard* const clock = Clock(device_uuid, false);
  if (clock != nullptr && clock->changes() == device->second->clock_changes) {
    return result->measurement.set_locked_clock_mhz(mhz);
  }
  result->outcome = tunefarm::v1::OUTCOME_LOST;
  result->message = fmt::format("the process that held the clock at {} MHz ended meanwhile", mhz);
  result->measurement.Clear();
}

bool RunPools::IsBusy(const std::string& device_uuid) const {
  return std::any_of(pools_.begin(), pools_.end(), [&device_uuid](const auto& entry) {
    return entry.first.first == device_uuid && entry.second->pool->measures();
  });
}

void RunPools::PumpDevice(const std::string& device_uuid) {
  for (auto& [key, device] : pools_) {
    if (key.first == device_uuid) device->pool->Pump();
  }
}

void RunPools::ShutdownClocks(std::function<void()> done) {
  const auto left = std::make_shared<size_t>(clocks_.size());
  if (clocks_.empty()) return loop_->Post(std::move(done));
  for (auto& [uuid, clock] : clocks_) {
    clock->Shutdown([left, done] {
      if (--*left == 0) done();
    });
  }
}

std::vector<WorkerPool*> RunPools::All() const {
  std::vector<WorkerPool*> all;
  for (const auto& [uuid, device] : pools_) all.push_back(device->pool.get());
  return all;
}

bool RunPools::host_wanted() const {
  return std::any_of(pools_.begin(), pools_.end(), [](const auto& entry) {
    return entry.second->host && (entry.second->pool->waiting() > 0 || entry.second->pool->busy() > 0);
  });
}

void RunPools::PumpHost() {
  for (auto& [uuid, device] : pools_) {
    if (device->host) device->pool->Pump();
  }
}

absl::StatusOr<WorkerPool*> RunPools::Pool(const std::string& device_uuid, const std::string& backend) {
  const auto key = std::make_pair(device_uuid, backend);
  if (const auto it = pools_.find(key); it != pools_.end()) return it->second->pool.get();
  if (is_cleared_) return Unavailable("the daemon is ending");
  if (device_uuid.empty() || device_uuid.size() > 128 || device_uuid.find('/') != std::string::npos ||
      device_uuid[0] == '.') {
    return InvalidArgument("'{}' is no device UUID", device_uuid);
  }
  if (pools_.size() >= kDevicesMax) return ResourceExhausted("more than {} devices", kDevicesMax);
  auto device = std::make_unique<Device>(options_.expected_outputs_bytes);
  device->uuid = device_uuid;
  device->index = static_cast<int>(pools_.size());
  device->backend = backend;
  device->host = IsHostBackend(backend);
  device->first = device.get();
  for (const auto& [other, known] : pools_) {
    if (other.first == device_uuid) device->first = known->first;
  }
  if (!options_.lock_directory.empty()) RETURN_IF_ERROR(MakeDirectories(options_.lock_directory, 0755));
  device->pool = std::make_unique<WorkerPool>(loop_, OptionsOf(device.get(), device_uuid));
  return pools_.emplace(key, std::move(device)).first->second->pool.get();
}

std::string RunPools::LockPath(const std::string& name) const {
  return fmt::format("{}/device-{}.lock", options_.lock_directory, name);
}

bool RunPools::HasHost(Device* device) {
  // Every data directory has its own name for the one CPU.
  return !options_.lock_host || Holds(device->first, "host");
}

bool RunPools::IsTaken(const Device& device) const {
  return std::any_of(pools_.begin(), pools_.end(), [&device](const auto& entry) {
    return entry.second.get() != &device && entry.first.first == device.uuid && entry.second->pool->measures();
  });
}

void RunPools::PumpOthers(const Device& device) {
  const auto has_others = std::any_of(pools_.begin(), pools_.end(), [&device](const auto& entry) {
    return entry.second.get() != &device && entry.first.first == device.uuid;
  });
  if (!has_others) return;
  loop_->Post([this, uuid = device.uuid] {
    for (auto& [key, other] : pools_) {
      if (key.first == uuid) other->pool->Pump();
    }
  });
}

bool RunPools::Holds(Device* device, const std::string& lock_name) {
  if (options_.lock_directory.empty() || device->lock.held()) return true;
  if (device->waits_for_lock) return false;
  if (auto kept = freeing_locks_.extract(lock_name); !kept.empty()) {
    device->lock = std::move(kept.mapped());
    return true;
  }
  absl::StatusOr<FileLock> lock = FileLock::TryLock(LockPath(lock_name), 0644);  // daemons of other users lock it too
  if (lock.ok()) {
    device->lock = *std::move(lock);
    SayWhetherItWaits(device, "");
    return true;
  }
  if (ReasonOf(lock.status()) != "LOCK_HELD") {
    LogWarn("exec", "measuring on device {} without a lock against other daemons: {}", lock_name,
            MessageOf(lock.status()));
    return true;
  }
  SayWhetherItWaits(device, fmt::format("trials wait: another process measures on it ({})", MessageOf(lock.status())));
  device->waits_for_lock = true;
  loop_->PostAfter(kLockRetry, [this] {
    for (auto& [key, waiting] : pools_) {
      if (!std::exchange(waiting->waits_for_lock, false)) continue;
      for (auto& [other, device_of] : pools_) {
        if (other.first == key.first) device_of->pool->Pump();
      }
      // Every caller has cancelled it.
      if (!waiting->waits_for_lock) SayWhetherItWaits(waiting.get(), "");
    }
  });
  return false;
}

void RunPools::SayWhetherItWaits(Device* device, const std::string& reason) {
  if (std::exchange(device->said_so, !reason.empty()) == !reason.empty()) return;
  if (!reason.empty()) LogInfo("exec", "device {}: {}", device->uuid, reason);
  if (options_.on_wait) options_.on_wait(device->uuid, reason);
}

void RunPools::LeaveHost(Device* device) {
  const bool wanted = std::any_of(pools_.begin(), pools_.end(), [device](const auto& entry) {
    return entry.first.first == device->uuid && (entry.second->pool->waiting() > 0 || entry.second->pool->busy() > 0);
  });
  if (!wanted) device->first->lock.Unlock();
}

WorkerPool::Options RunPools::OptionsOf(Device* device, const std::string& device_uuid) {
  const bool host = device->host, python = IsPythonBackend(device->backend);
  // An interpreter knows neither batons nor the kernel of a health check.
  const auto wants = [host, python](ForDevices devices) {
    return !python && (devices == ForDevices::kAll || (devices == ForDevices::kGpus && !host));
  };
  WorkerPool::Options options = PoolOptions(options_, WorkerRole::kRun, device->backend,
                                            fmt::format("run-{}{}", python ? "python-" : "", device_uuid), device_uuid,
                                            2 * kUidsPerCompilePool + device->index * kUidsPerDevice);
  options.workers = 1;
  options.one_stuck_stops_all = true;
  options.stats = stats_;
  options.preload = wants(options_.standby_runners);
  options.spares = options.preload ? 1 : 0;
  options.check_health = wants(options_.health_checks);
  options.losses_tell = !python;
  options.health_deadline_ms = options_.deadlines.health_ms;
  options.health_rest = options_.health_rest;
  if (const auto known = options_.health_baselines_ns.find(device_uuid); known != options_.health_baselines_ns.end()) {
    options.health_baseline_ns = known->second;
  }
  options.make_worker = [device, make = std::move(options.make_worker),
                         shares = options.preload](int slot) -> absl::StatusOr<WorkerProcessOptions> {
    ASSIGN_OR_RETURN(WorkerProcessOptions worker, make(slot));
    worker.baton = shares ? &device->baton : nullptr;
    worker.expected_outputs = &device->expected_outputs;
    worker.warm_start = device->warm_start;
    return worker;
  };
  options.on_warm_start = [device](std::shared_ptr<const SharedMemfd> left) { device->warm_start = std::move(left); };
  if (options_.on_quarantine) {
    options.on_quarantine = [this, device_uuid](const std::string& reason) {
      options_.on_quarantine(device_uuid, reason);
    };
  }
  if (options_.on_healthy) {
    options.on_healthy = [this, device_uuid](int foreign_processes, double baseline_ns) {
      options_.on_healthy(device_uuid, baseline_ns, foreign_processes);
    };
  }
  // A GPU is held for the daemon's life: contexts stay on it between runs.
  if (!host) {
    options.has_device = [this, device, device_uuid] { return Holds(device->first, device_uuid); };
    options.may_begin = [this, device] { return !IsTaken(*device); };
    // The time of a health check is compared with that under a free clock. Where it cannot be freed, tasks say so.
    options.may_check_health = [this, device] {
      std::string refusal;
      return SetClock(device, 0, &refusal) != WorkerPool::DeviceState::kWait;
    };
    options.on_task_ended = [this, device] {
      if (ClockGuard* const clock = Clock(device->uuid, false)) clock->NoteUseEnded();
      PumpOthers(*device);
    };
  }
  options.make_device_ready = [this, device](const WorkerTask& task, std::string* refusal) {
    return SetClock(device, task.evaluate.policy().locked_clock_mhz(), refusal);
  };
  if (host) {
    const bool exclusive = options_.exclusive_host_runs;
    options.may_begin = [this, device, exclusive] {
      return !(exclusive && turns_.compiles_busy()) && !IsTaken(*device) && HasHost(device);
    };
    options.on_task_ended = [this, device, exclusive] {
      LeaveHost(device);
      PumpOthers(*device);
      if (exclusive) turns_.something_changed();
    };
  }
  return options;
}

}  // namespace tunefarm
