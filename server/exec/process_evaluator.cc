#include "server/exec/process_evaluator.h"

#include <memory>
#include <utility>
#include <vector>

#include "server/base/check.h"
#include "server/base/status.h"
#include "server/base/thread.h"
#include "server/exec/worker_plan.h"

namespace tunefarm {

ProcessEvaluator::ProcessEvaluator(ProcessEvaluatorOptions options)
    : options_(std::move(options)),
      turns_{[this] { return runs_.host_wanted(); }, [this] { return compiles_.host_busy(); },
             [this] { PumpHostSoon(); }},
      preparations_(options_.compile_options),
      compiles_(&loop_, &options_, &turns_, &preparations_, &stats_),
      runs_(&loop_, &options_, &turns_, &preparations_, &stats_),
      loop_("supervisor", options_.clock) {
  // Workers are its children: they inherit it.
  if (options_.yields) loop_.Post(YieldToOthers);
  loop_.Post([this] { runs_.FreeClocks(); });
}

ProcessEvaluator::~ProcessEvaluator() {
  TUNEFARM_CHECK(!loop_.IsCurrent());
  Notification ended;
  loop_.Post([this, &ended] {
    compiles_.Shutdown();
    std::vector<WorkerPool*> pools = compiles_.All();
    for (WorkerPool* pool : runs_.All()) pools.push_back(pool);
    // A clock is freed when nothing measures under it any more.
    const auto all_ended = [this, &ended] { runs_.ShutdownClocks([&ended] { ended.Notify(); }); };
    auto left = std::make_shared<size_t>(pools.size());
    if (pools.empty()) all_ended();
    for (WorkerPool* pool : pools) {
      pool->Shutdown([left, all_ended] {
        if (--*left == 0) all_ended();
      });
    }
  });
  ended.WaitForNotification();
  // On the loop, because the pools belong to it, and behind the callbacks that are posted already.
  loop_.Post([this] {
    compiles_.Clear();
    runs_.Clear();
  });
  loop_.Stop();
}

Evaluator::Id ProcessEvaluator::Compile(CompileRequest request, std::function<void(CompileResult)> done) {
  TUNEFARM_CHECK(request.plan != nullptr && request.problem != nullptr && done != nullptr);
  const Id id = ++last_id_;
  absl::StatusOr<CompilePools::Job> job = compiles_.MakeJob(request);
  if (!job.ok()) {
    CompileResult pruned;
    pruned.outcome = tunefarm::v1::OUTCOME_PRUNED;
    pruned.message = std::string(MessageOf(job.status()));
    loop_.Post([done = std::move(done), pruned = std::move(pruned)] { done(pruned); });
    return id;
  }
  loop_.Post([this, id, job = *std::move(job), done = std::move(done)]() mutable {
    compiles_.Start(id, std::move(job), std::move(done));
  });
  return id;
}

Evaluator::Id ProcessEvaluator::Run(RunRequest request, std::function<void(RunResult)> done) {
  TUNEFARM_CHECK(request.plan != nullptr && request.problem != nullptr && done != nullptr);
  const Id id = ++last_id_;
  loop_.Post([this, id, uuid = request.device_uuid, backend = BackendOf(*request.plan), task = runs_.MakeTask(request),
              done = std::move(done)]() mutable { runs_.Start(id, uuid, backend, std::move(task), std::move(done)); });
  return id;
}

void ProcessEvaluator::Expect(const std::string& device_uuid, const KernelPlan& plan) {
  loop_.Post([this, device_uuid, backend = BackendOf(plan)] { runs_.Expect(device_uuid, backend); });
}

void ProcessEvaluator::Cancel(Id id) {
  loop_.Post([this, id] {
    if (!runs_.Cancel(id)) compiles_.Cancel(id);
  });
}

void ProcessEvaluator::ReleaseDevice(const std::string& device_uuid) {
  loop_.Post([this, device_uuid] { runs_.Release(device_uuid); });
}

void ProcessEvaluator::SetHealthBaseline(const std::string& device_uuid, double nanoseconds) {
  loop_.Post([this, device_uuid, nanoseconds] { runs_.SetHealthBaseline(device_uuid, nanoseconds); });
}

void ProcessEvaluator::PumpHostSoon() {
  if (host_pump_posted_) return;
  host_pump_posted_ = true;
  loop_.Post([this] {
    host_pump_posted_ = false;
    runs_.PumpHost();
    compiles_.PumpHost();
  });
}

}  // namespace tunefarm
