#include "server/exec/process_evaluator.h"

#include <sched.h>

#include <algorithm>

#include "server/base/check.h"
#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/exec/policy.h"

namespace tunefarm {
namespace {

using tunefarm::v1::Outcome;

constexpr size_t kDevicesMax = 64;
// Uids of the pools: compile-host, compile-cuda, then each device.
constexpr int kUidsPerCompilePool = 256;
constexpr int kUidsPerDevice = 4;

int UsableCores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof(cores), &cores) != 0) return 1;
  return std::max(1, CPU_COUNT(&cores));
}

std::string BackendOf(const KernelPlan& plan) { return plan.device_kind() == DeviceKind::kHost ? "host" : "cuda"; }

void AddToKey(Sha256Stream* stream, std::string_view part) {
  // With its length, so that no two sequences of parts read the same.
  stream->Update(fmt::format("{}:", part.size()));
  stream->Update(part);
}

// What the binary depends on, but for the compiler itself: a new one empties the cache.
absl::StatusOr<Digest> CompileKey(const CompileRequest& request, const std::string& backend,
                                  const std::vector<std::string>& options) {
  ASSIGN_OR_RETURN(const auto constants,
                   request.plan->Constants(*request.problem, request.config, request.device_class));
  Sha256Stream stream;
  AddToKey(&stream, backend);
  AddToKey(&stream, request.plan->program_digest());
  // A GPU's binary depends on the architecture alone; a CPU's on the model, for which its class stands.
  AddToKey(&stream,
           backend == "cuda" ? fmt::format("{}", request.device_class.compute_capability) : request.device_class.Id());
  for (const std::string& option : options) AddToKey(&stream, option);
  AddToKey(&stream, "constants");
  for (const auto& [name, value] : constants) {
    AddToKey(&stream, name);
    AddToKey(&stream, value);
  }
  return stream.Finish();
}

WorkerPreparation MakePreparation(std::shared_ptr<const KernelPlan> plan, const ResolvedProblem& problem,
                                  const DeviceClass& device_class, uint64_t seed,
                                  std::shared_ptr<const Artifact> reference, std::vector<std::string> options) {
  WorkerPreparation preparation;
  preparation.key = fmt::format("{}|{}|{}|{}", plan->kernel_id(), device_class.Id(), seed, problem.key);
  preparation.problem = problem.ToProto();
  preparation.device_class = device_class.ToProto();
  preparation.input_seed = seed;
  preparation.reference_artifact = std::move(reference);
  preparation.compile_options = std::move(options);
  preparation.kernel_bytes = [plan = std::move(plan)] { return plan->kernel().SerializeAsString(); };
  return preparation;
}

CompileResult ToCompileResult(WorkerTaskEnd end) {
  CompileResult compiled;
  compiled.outcome = end.verdict.outcome;
  compiled.message = std::move(end.verdict.message);
  compiled.log = end.result.has_value() ? PrintableText(end.result->log()) : std::string();
  if (!end.result.has_value() || (compiled.log.empty() && compiled.outcome != tunefarm::v1::OUTCOME_OK)) {
    compiled.log = std::move(end.output);
  }
  compiled.compile_ms = end.wall_ms;
  if (end.result.has_value()) {
    compiled.resources = end.result->resources();
    if (end.result->compile_ms() > 0) compiled.compile_ms = end.result->compile_ms();
    if (compiled.outcome == tunefarm::v1::OUTCOME_OK) {
      auto artifact = std::make_shared<Artifact>();
      artifact->bytes = std::move(end.artifact);
      artifact->lowered_names.insert(end.result->lowered_names().begin(), end.result->lowered_names().end());
      compiled.artifact = std::move(artifact);
    }
  }
  return compiled;
}

RunResult ToRunResult(WorkerTaskEnd end) {
  RunResult run;
  run.outcome = end.verdict.outcome;
  run.phase = end.phase;
  run.message = std::move(end.verdict.message);
  run.run_ms = end.wall_ms;
  if (run.outcome != tunefarm::v1::OUTCOME_OK) {
    if (end.result.has_value()) run.log = PrintableText(end.result->log());
    if (!run.log.empty() && !end.output.empty()) run.log += '\n';
    run.log += end.output;
  }
  if (end.result.has_value()) {
    run.measurement = std::move(*end.result->mutable_measurement());
    run.verification = std::move(*end.result->mutable_verification());
    run.resources = std::move(*end.result->mutable_resources());
  }
  return run;
}

}  // namespace

ProcessEvaluator::ProcessEvaluator(ProcessEvaluatorOptions options)
    : options_(std::move(options)),
      compile_workers_(
          std::clamp(options_.compile_workers > 0 ? options_.compile_workers : UsableCores(), 1, kUidsPerCompilePool)),
      cache_(options_.artifact_cache_bytes),
      loop_("supervisor", options_.clock) {
  command_.worker_binary = options_.worker_binary;
  command_.scratch_root = options_.scratch_directory;
  command_.cuda_path = options_.cuda_path;
  command_.host_compiler = options_.host_compiler;
  command_.sandbox = options_.sandbox;
  command_.extra_arguments = options_.extra_worker_arguments;
}

ProcessEvaluator::~ProcessEvaluator() {
  TUNEFARM_CHECK(!loop_.IsCurrent());
  Notification ended;
  loop_.Post([this, &ended] {
    std::vector<WorkerPool*> pools;
    for (const auto& [backend, pool] : compile_pools_) pools.push_back(pool.get());
    for (const auto& [uuid, pool] : run_pools_) pools.push_back(pool.pool.get());
    auto left = std::make_shared<size_t>(pools.size());
    if (pools.empty()) ended.Notify();
    for (WorkerPool* pool : pools) {
      pool->Shutdown([left, &ended] {
        if (--*left == 0) ended.Notify();
      });
    }
  });
  ended.WaitForNotification();
  // On the loop, because the pools belong to it, and behind the callbacks that are posted already.
  loop_.Post([this] {
    compile_pools_.clear();
    run_pools_.clear();
  });
  loop_.Stop();
}

Evaluator::Id ProcessEvaluator::Compile(CompileRequest request, std::function<void(CompileResult)> done) {
  TUNEFARM_CHECK(request.plan != nullptr && request.problem != nullptr && done != nullptr);
  const Id id = ++last_id_;
  const std::string backend = BackendOf(*request.plan);
  absl::StatusOr<Digest> key = CompileKey(request, backend, options_.compile_options);
  if (!key.ok()) {
    CompileResult pruned;
    pruned.outcome = tunefarm::v1::OUTCOME_PRUNED;
    pruned.message = std::string(MessageOf(key.status()));
    loop_.Post([done = std::move(done), pruned = std::move(pruned)] { done(pruned); });
    return id;
  }
  CompileJob job;
  job.key = *key;
  job.backend = backend;
  job.task.preparation =
      MakePreparation(request.plan, *request.problem, request.device_class, 1, nullptr, options_.compile_options);
  *job.task.evaluate.mutable_config() = request.plan->ToProto(request.config);
  loop_.Post([this, job = std::move(job), waiter = CompileWaiter{id, std::move(done)}]() mutable {
    StartCompile(std::move(job), std::move(waiter));
  });
  return id;
}

void ProcessEvaluator::StartCompile(CompileJob job, CompileWaiter waiter) {
  if (std::optional<CompileResult> cached = cache_.Find(job.key); cached.has_value()) {
    waiter.done(*std::move(cached));
    return;
  }
  compile_keys_.emplace(waiter.id, job.key);
  CompileInFlight& in_flight = compiles_[job.key];
  in_flight.waiters.push_back(std::move(waiter));
  if (in_flight.waiters.size() > 1) return;
  in_flight.backend = job.backend;
  job.task.done = [this, key = job.key](WorkerTaskEnd end) { OnCompiled(key, std::move(end)); };
  in_flight.task = CompilePool(job.backend)->Submit(std::move(job.task));
}

void ProcessEvaluator::OnCompiled(const Digest& key, WorkerTaskEnd end) {
  auto in_flight = compiles_.extract(key);
  CompileResult result = ToCompileResult(std::move(end));
  cache_.Insert(key, result);
  if (in_flight.empty()) return;
  for (CompileWaiter& waiter : in_flight.mapped().waiters) {
    compile_keys_.erase(waiter.id);
    waiter.done(result);
    result.from_cache = true;  // Those that joined paid nothing.
  }
}

Evaluator::Id ProcessEvaluator::Run(RunRequest request, std::function<void(RunResult)> done) {
  TUNEFARM_CHECK(request.plan != nullptr && request.problem != nullptr && done != nullptr);
  const Id id = ++last_id_;
  const bool host = request.plan->device_kind() == DeviceKind::kHost;
  WorkerTask task;
  task.preparation = MakePreparation(request.plan, *request.problem, request.device_class, request.input_seed,
                                     request.reference_artifact, options_.compile_options);
  *task.evaluate.mutable_config() = request.plan->ToProto(request.config);
  *task.evaluate.mutable_policy() = ResolvePolicy(request.policy);
  task.evaluate.set_baseline(request.baseline);
  task.evaluate.set_verify_only(request.verify_only);
  task.evaluate.set_keep_samples(request.keep_samples);
  task.evaluate.set_input_seed(request.input_seed);
  task.artifact = request.artifact;
  task.done = [this, id, done = std::move(done)](WorkerTaskEnd end) {
    runs_.erase(id);
    done(ToRunResult(std::move(end)));
  };
  loop_.Post([this, id, uuid = request.device_uuid, host, task = std::move(task)]() mutable {
    StartRun(id, uuid, host, std::move(task));
  });
  return id;
}

void ProcessEvaluator::StartRun(Id id, const std::string& device_uuid, bool host, WorkerTask task) {
  const absl::StatusOr<WorkerPool*> pool = PoolOf(device_uuid, host);
  if (!pool.ok()) {
    WorkerTaskEnd end;
    end.verdict = {tunefarm::v1::OUTCOME_LOST, std::string(MessageOf(pool.status()))};
    task.done(std::move(end));
    return;
  }
  // Answers are posted, never given from within Submit: the entry is there before its task ends.
  runs_.emplace(id, std::make_pair(device_uuid, (*pool)->Submit(std::move(task))));
}

void ProcessEvaluator::Cancel(Id id) {
  loop_.Post([this, id] { DoCancel(id); });
}

void ProcessEvaluator::DoCancel(Id id) {
  if (const auto run = runs_.find(id); run != runs_.end()) {
    run_pools_.at(run->second.first).pool->Cancel(run->second.second);
    return;
  }
  const auto key = compile_keys_.find(id);
  if (key == compile_keys_.end()) return;
  const auto in_flight = compiles_.find(key->second);
  std::vector<CompileWaiter>& waiters = in_flight->second.waiters;
  if (waiters.size() == 1) {  // Its callback comes with the verdict.
    CompilePool(in_flight->second.backend)->Cancel(in_flight->second.task);
    return;
  }
  const auto waiter = std::find_if(waiters.begin(), waiters.end(), [id](const CompileWaiter& w) { return w.id == id; });
  const std::function<void(CompileResult)> done = std::move(waiter->done);
  waiters.erase(waiter);
  compile_keys_.erase(key);
  CompileResult lost;
  lost.message = "the evaluation was cancelled";
  done(std::move(lost));
}

WorkerPool::Options ProcessEvaluator::PoolOptions(WorkerRole role, const std::string& backend, const std::string& name,
                                                  const std::string& device_uuid, int first_slot) {
  WorkerPool::Options pool;
  pool.name = name;
  pool.queue_max = options_.queue_max;
  pool.backoff_ms = options_.start_backoff_ms;
  pool.make_worker = [this, role, backend, name, device_uuid,
                      first_slot](int slot) -> absl::StatusOr<WorkerProcessOptions> {
    WorkerProcessOptions worker;
    worker.role = role;
    worker.backend = backend;
    worker.name = fmt::format("{}-{}", name, slot);
    worker.deadlines = options_.deadlines;
    worker.reap_ms = options_.reap_ms;
    ASSIGN_OR_RETURN(worker.command, MakeWorkerCommand(command_, role, backend, worker.name, device_uuid,
                                                       options_.first_uid + static_cast<uint32_t>(first_slot + slot)));
    return worker;
  };
  return pool;
}

bool ProcessEvaluator::HostRunsWanted() const {
  return std::any_of(run_pools_.begin(), run_pools_.end(), [](const auto& entry) {
    return entry.second.host && (entry.second.pool->waiting() > 0 || entry.second.pool->busy() > 0);
  });
}

void ProcessEvaluator::PumpHost() {
  if (host_pump_posted_) return;
  host_pump_posted_ = true;
  loop_.Post([this] {
    host_pump_posted_ = false;
    for (auto& [uuid, run] : run_pools_) {
      if (run.host) run.pool->Pump();
    }
    if (const auto it = compile_pools_.find("host"); it != compile_pools_.end()) it->second->Pump();
  });
}

WorkerPool* ProcessEvaluator::CompilePool(const std::string& backend) {
  std::unique_ptr<WorkerPool>& pool = compile_pools_[backend];
  if (pool != nullptr) return pool.get();
  const bool host = backend == "host";
  WorkerPool::Options options = PoolOptions(WorkerRole::kCompile, backend, fmt::format("compile-{}", backend), "",
                                            host ? 0 : kUidsPerCompilePool);
  options.workers = compile_workers_;
  options.recycle_after_tasks = options_.recycle_after_compiles;
  options.on_hello = [this, backend](const tunefarm::worker::v1::Hello& hello) {
    std::string& known = toolchains_[backend];
    if (known == hello.toolchain()) return;
    // Another compiler may make another binary of the same source.
    if (!known.empty()) {
      LogInfo("exec", "the {} compiler changed from {} to {}; compiled binaries are forgotten", backend, known,
              hello.toolchain());
      cache_.Clear();
    }
    known = hello.toolchain();
  };
  if (host && options_.exclusive_host_runs) {
    options.may_begin = [this] { return !HostRunsWanted(); };
    options.on_task_ended = [this] { PumpHost(); };
  }
  pool = std::make_unique<WorkerPool>(&loop_, std::move(options));
  return pool.get();
}

absl::StatusOr<WorkerPool*> ProcessEvaluator::PoolOf(const std::string& device_uuid, bool host) {
  if (const auto it = run_pools_.find(device_uuid); it != run_pools_.end()) return it->second.pool.get();
  if (device_uuid.empty() || device_uuid.size() > 128 || device_uuid.find('/') != std::string::npos ||
      device_uuid[0] == '.') {
    return InvalidArgument("'{}' is no device UUID", device_uuid);
  }
  if (run_pools_.size() >= kDevicesMax) return ResourceExhausted("more than {} devices", kDevicesMax);
  RunPool run;
  run.index = static_cast<int>(run_pools_.size());
  run.host = host;
  if (!options_.lock_directory.empty()) {
    RETURN_IF_ERROR(MakeDirectories(options_.lock_directory, 0755));
    absl::StatusOr<FileLock> lock =
        FileLock::TryLock(fmt::format("{}/device-{}.lock", options_.lock_directory, device_uuid));
    if (!lock.ok()) return Annotate(lock.status(), "device {} is being measured on by another process", device_uuid);
    run.lock = *std::move(lock);
  }
  WorkerPool::Options options =
      PoolOptions(WorkerRole::kRun, host ? "host" : "cuda", fmt::format("run-{}", device_uuid), device_uuid,
                  2 * kUidsPerCompilePool + run.index * kUidsPerDevice);
  options.workers = 1;
  options.spares = options_.standby_runners ? 1 : 0;
  options.one_stuck_stops_all = true;
  if (options_.on_quarantine) {
    options.on_quarantine = [this, device_uuid](const std::string& reason) {
      options_.on_quarantine(device_uuid, reason);
    };
  }
  if (host && options_.exclusive_host_runs) {
    options.may_begin = [this] {
      const auto compile = compile_pools_.find("host");
      return compile == compile_pools_.end() || compile->second->busy() == 0;
    };
    options.on_task_ended = [this] { PumpHost(); };
  }
  run.pool = std::make_unique<WorkerPool>(&loop_, std::move(options));
  return run_pools_.emplace(device_uuid, std::move(run)).first->second.pool.get();
}

}  // namespace tunefarm
