#include "server/exec/compile_pools.h"

#include <fmt/core.h>
#include <sched.h>

#include <algorithm>
#include <utility>

#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/definition/triton_signature.h"
#include "server/exec/frame_limits.h"
#include "server/exec/worker_plan.h"

namespace tunefarm {
namespace {

int UsableCores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof(cores), &cores) != 0) return 1;
  return std::max(1, CPU_COUNT(&cores));
}

void AddToKey(Sha256Stream* stream, std::string_view part) {
  // With its length, so that no two sequences of parts read the same.
  stream->Update(fmt::format("{}:", part.size()));
  stream->Update(part);
}

// What the binary depends on, but for the compiler itself.
absl::StatusOr<Digest> CompileKey(const CompileRequest& request, const std::string& backend,
                                  const WorkerPreparation& preparation, const std::vector<std::string>& signatures) {
  ASSIGN_OR_RETURN(const auto constants,
                   request.plan->Constants(*request.problem, request.config, request.device_class));
  Sha256Stream stream;
  AddToKey(&stream, backend);
  AddToKey(&stream, request.plan->program_digest());
  // A GPU's binary depends on the architecture alone; a CPU's on the model, for which its class stands.
  const bool is_for_gpus = backend == kCudaBackend || request.plan->language() == tunefarm::v1::LANGUAGE_TRITON;
  AddToKey(&stream,
           is_for_gpus ? fmt::format("{}", request.device_class.compute_capability) : preparation.device_class.id());
  for (const std::string& option : preparation.compile_options) AddToKey(&stream, option);
  AddToKey(&stream, "constants");
  for (const auto& [name, value] : constants) {
    AddToKey(&stream, name);
    AddToKey(&stream, value);
  }
  for (const std::string& signature : signatures) AddToKey(&stream, signature);
  if (request.ptx) AddToKey(&stream, "ptx");
  return stream.Finish();
}

Digest WithCompiler(const Digest& key, const std::string& toolchain) {
  Sha256Stream stream;
  AddToKey(&stream, key.view());
  AddToKey(&stream, toolchain);
  return stream.Finish();
}

BinaryCacheOptions CacheOptions(const ProcessEvaluatorOptions& options) {
  BinaryCacheOptions cache;
  cache.memory_bytes_max = options.artifact_cache_bytes;
  cache.disk.path = options.cache_directory;
  cache.disk.bytes_max = options.cache_directory.empty() ? 0 : options.cache_bytes_max;
  cache.disk.free_bytes_min = options.cache_free_bytes_min;
  cache.disk.clock = options.clock;
  cache.headers = options.headers;
  return cache;
}

CompileResult Lost(std::string message) {
  CompileResult lost;
  lost.message = std::move(message);
  return lost;
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
      artifact->compile_options.assign(end.result->compile_options().begin(), end.result->compile_options().end());
      compiled.artifact = std::move(artifact);
      if (end.result->has_inputs()) compiled.inputs = InputsOf(end.result->inputs());
    }
  }
  return compiled;
}

}  // namespace

CompilePools::CompilePools(EventLoop* loop, const ProcessEvaluatorOptions* options, const HostTurns* turns,
                           PreparationCache* preparations, EvaluatorStats* stats)
    : loop_(loop),
      options_(*options),
      turns_(*turns),
      preparations_(preparations),
      workers_(
          std::clamp(options_.compile_workers > 0 ? options_.compile_workers : UsableCores(), 1, kUidsPerCompilePool)),
      stats_(stats),
      cache_(loop, CacheOptions(options_), stats) {}

absl::StatusOr<CompilePools::Job> CompilePools::MakeJob(const CompileRequest& request) const {
  Job job;
  job.backend = CompileBackendOf(*request.plan);
  job.task.preparation = preparations_->Get(request.plan, request.problem, request.device_class, 1, nullptr, {});
  std::vector<std::string> signatures;
  if (request.plan->language() == tunefarm::v1::LANGUAGE_TRITON) {
    ASSIGN_OR_RETURN(signatures, TritonSignatures(*request.plan, *request.problem, request.config, request.device_class,
                                                  request.reference));
  }
  ASSIGN_OR_RETURN(job.key, CompileKey(request, job.backend, *job.task.preparation, signatures));
  for (std::string& signature : signatures) job.task.evaluate.add_triton_signatures(std::move(signature));
  *job.task.evaluate.mutable_config() = request.plan->ToProto(request.config);
  job.task.evaluate.set_ptx(request.ptx);
  RETURN_IF_ERROR(
      AddDerivedValues(*request.plan, *request.problem, request.config, request.device_class, &job.task.evaluate));
  job.task.expected_ms = request.expected_ms;
  return job;
}

void CompilePools::Start(Evaluator::Id id, Job job, Done done) {
  if (shut_down_) return done(Lost("the daemon is ending"));
  const Digest key = job.key;
  keys_.emplace(id, key);
  const auto [entry, is_new] = in_flight_.try_emplace(key);
  entry->second.waiters.push_back({id, std::move(done)});
  if (!is_new) return;
  entry->second.job = std::move(job);
  if (toolchains_.count(entry->second.job.backend) > 0) {
    LookUp(entry);
  } else {
    AwaitCompiler(entry);
  }
}

CompilePools::Entry CompilePools::FindStep(const Digest& key, uint64_t step) {
  const auto entry = in_flight_.find(key);
  return entry != in_flight_.end() && entry->second.step == step ? entry : in_flight_.end();
}

void CompilePools::LookUp(Entry entry) {
  InFlight& in_flight = entry->second;
  in_flight.task = 0;
  in_flight.step = ++last_step_;
  const std::string toolchain = toolchains_.at(in_flight.job.backend);
  const Digest full = WithCompiler(entry->first, toolchain);
  cache_.Find(full,
              [this, full, toolchain, key = entry->first, step = in_flight.step](std::optional<CompileResult> cached) {
                const Entry found = FindStep(key, step);
                if (found == in_flight_.end()) return;
                if (!cached.has_value()) return AskOthers(found, full);
                cached->toolchain = toolchain;
                if (SharedBinaries* const shared = SharedOf(found->second.job.backend)) shared->Keep(full, *cached);
                Answer(found, *std::move(cached));
              });
}

SharedBinaries* CompilePools::SharedOf(const std::string& backend) const {
  return IsHostBackend(backend) || IsPythonBackend(backend) ? nullptr : options_.shared_binaries;
}

void CompilePools::AskOthers(Entry entry, const Digest& full) {
  SharedBinaries* const shared = SharedOf(entry->second.job.backend);
  if (shared == nullptr) return Submit(entry);
  entry->second.step = ++last_step_;
  shared->Find(full, [this, full, key = entry->first, step = entry->second.step](std::optional<CompileResult> theirs) {
    loop_->Post([this, full, key, step, theirs = std::move(theirs)]() mutable {
      if (theirs.has_value()) cache_.Insert(full, *theirs);
      const Entry found = FindStep(key, step);
      if (found == in_flight_.end()) return;
      if (theirs.has_value()) {
        ++stats_->binaries_from_others;
        theirs->toolchain = toolchains_[found->second.job.backend];  // It is a part of their key.
        Answer(found, *std::move(theirs));
      } else {
        Submit(found);
      }
    });
  });
}

void CompilePools::Submit(Entry entry) {
  InFlight& in_flight = entry->second;
  in_flight.step = ++last_step_;
  WorkerTask task = std::move(in_flight.job.task);
  task.done = [this, key = entry->first, step = in_flight.step](WorkerTaskEnd end) {
    OnCompiled(key, step, std::move(end));
  };
  in_flight.task = Pool(in_flight.job.backend)->Submit(std::move(task));
}

void CompilePools::AwaitCompiler(Entry entry) {
  InFlight& in_flight = entry->second;
  in_flight.awaits_compiler = true;
  in_flight.step = ++last_step_;
  // It never begins: the pool tells of a worker that is ready before it gives it anything.
  WorkerTask task = in_flight.job.task;
  task.done = [this, key = entry->first, step = in_flight.step](WorkerTaskEnd end) {
    OnCompiled(key, step, std::move(end));
  };
  in_flight.task = Pool(in_flight.job.backend)->Submit(std::move(task));
}

void CompilePools::OnHello(const std::string& backend, const std::string& toolchain) {
  std::string& known = toolchains_[backend];
  if (known != toolchain) {
    if (!known.empty()) LogInfo("exec", "the {} compiler changed from {} to {}", backend, known, toolchain);
    known = toolchain;
  }
  for (auto entry = in_flight_.begin(); entry != in_flight_.end();) {
    const Entry current = entry++;
    InFlight& in_flight = current->second;
    if (in_flight.job.backend != backend || !std::exchange(in_flight.awaits_compiler, false)) continue;
    const WorkerPool::TaskId placeholder = in_flight.task;
    LookUp(current);  // first, so that the answer to the placeholder is an earlier step's
    Pool(backend)->Cancel(placeholder);
  }
}

void CompilePools::OnCompiled(const Digest& key, uint64_t step, WorkerTaskEnd end) {
  const std::string toolchain = std::move(end.toolchain);
  CompileResult result = ToCompileResult(std::move(end));
  result.toolchain = toolchain;
  // What a worker of another compiler made counts for that one.
  if (!toolchain.empty() && result.outcome != tunefarm::v1::OUTCOME_LOST) {
    ++(result.outcome == tunefarm::v1::OUTCOME_OK ? stats_->compiles_ok : stats_->compiles_failed);
    stats_->compile_us += static_cast<int64_t>(result.compile_ms * 1000);
    cache_.Insert(WithCompiler(key, toolchain), result);
  }
  const Entry entry = FindStep(key, step);
  if (entry == in_flight_.end()) return;
  SharedBinaries* const shared = SharedOf(entry->second.job.backend);
  if (shared != nullptr && !toolchain.empty()) shared->Keep(WithCompiler(key, toolchain), result);
  Answer(entry, result);
}

void CompilePools::Answer(Entry entry, CompileResult result) {
  const auto ended = in_flight_.extract(entry);
  for (const Waiter& waiter : ended.mapped().waiters) keys_.erase(waiter.id);
  for (const Waiter& waiter : ended.mapped().waiters) {
    waiter.done(result);
    result.from_cache = true;  // Those that joined paid nothing.
  }
}

bool CompilePools::Cancel(Evaluator::Id id) {
  const auto key = keys_.find(id);
  if (key == keys_.end()) return false;
  const Entry entry = in_flight_.find(key->second);
  std::vector<Waiter>& waiters = entry->second.waiters;
  if (waiters.size() == 1 && entry->second.task != 0) {  // Its callback comes with the verdict.
    Pool(entry->second.job.backend)->Cancel(entry->second.task);
    return true;
  }
  const auto waiter = std::find_if(waiters.begin(), waiters.end(), [id](const Waiter& w) { return w.id == id; });
  const Done done = std::move(waiter->done);
  waiters.erase(waiter);
  if (waiters.empty()) in_flight_.erase(entry);
  keys_.erase(key);
  done(Lost("the evaluation was cancelled"));
  return true;
}

void CompilePools::Shutdown() {
  shut_down_ = true;
  for (auto entry = in_flight_.begin(); entry != in_flight_.end();) {
    const Entry current = entry++;
    if (current->second.task != 0) continue;
    Answer(current, Lost("the daemon is ending"));
  }
}

void CompilePools::Clear() {
  cache_.Stop();
  pools_.clear();
}

std::vector<WorkerPool*> CompilePools::All() const {
  std::vector<WorkerPool*> all;
  for (const auto& [backend, pool] : pools_) all.push_back(pool.get());
  return all;
}

bool CompilePools::host_busy() const {
  return std::any_of(pools_.begin(), pools_.end(),
                     [](const auto& pool) { return IsHostBackend(pool.first) && pool.second->busy() > 0; });
}

void CompilePools::PumpHost() {
  for (auto& [backend, pool] : pools_) {
    if (IsHostBackend(backend)) pool->Pump();
  }
}

WorkerPool* CompilePools::Pool(const std::string& backend) {
  std::unique_ptr<WorkerPool>& pool = pools_[backend];
  if (pool != nullptr) return pool.get();
  const bool host = IsHostBackend(backend), python = IsPythonBackend(backend);
  const int first_slot = python ? kFirstPythonUid + (host ? 0 : kUidsPerPythonPool) : host ? 0 : kUidsPerCompilePool;
  WorkerPool::Options options =
      PoolOptions(options_, WorkerRole::kCompile, backend, fmt::format("compile-{}", backend), "", first_slot);
  options.workers = python ? std::min(workers_, kUidsPerPythonPool) : workers_;
  options.recycle_after_tasks = options_.recycle_after_compiles;
  options.longest_first = true;
  options.on_hello = [this, backend](const tunefarm::worker::v1::Hello& hello) { OnHello(backend, hello.toolchain()); };
  if (host && options_.exclusive_host_runs) {
    options.may_begin = [this] { return !turns_.runs_wanted(); };
    options.on_task_ended = [this] { turns_.something_changed(); };
  }
  pool = std::make_unique<WorkerPool>(loop_, std::move(options));
  return pool.get();
}

}  // namespace tunefarm
