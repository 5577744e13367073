#include "server/agent/farm_compiler.h"

#include <chrono>
#include <utility>

#include "server/agent/plan_cache.h"
#include "server/base/log.h"
#include "server/base/mutex.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm {

namespace wire = tunefarm::agent::v1;

class FarmCompiler::Session : public std::enable_shared_from_this<Session> {
 public:
  explicit Session(const FarmCompilerOptions& options) : options_(options), plans_(options.link) {}

  void Step() {
    step_posted_ = false;
    if (is_stopped()) return;
    // Two for each worker: one that it compiles, and one that waits for it.
    const int room = 2 * options_.evaluator->compile_slots() - compiling_;
    if (room < options_.evaluator->compile_slots()) return;
    const absl::StatusOr<wire::TakeCompilesResponse> taken = options_.link->TakeCompiles(room);
    bool brought = false;
    if (taken.ok()) {
      for (const wire::CompileTask& task : taken->tasks()) brought = Compile(task) || brought;
    }
    StepIn(brought ? Duration::zero() : options_.poll);
  }

  // The executor may be gone afterwards.
  void Stop() {
    MutexLock lock(&mutex_);
    stopped_ = true;
  }

  // On the executor, as soon as it can, unless stopped.
  void Post(void (Session::*step)()) {
    MutexLock lock(&mutex_);
    if (stopped_) return;
    options_.executor->Post([weak = weak_from_this(), step] {
      if (const auto self = weak.lock()) (self.get()->*step)();
    });
  }

 private:
  bool is_stopped() {
    MutexLock lock(&mutex_);
    return stopped_;
  }

  void StepIn(Duration delay) {
    if (std::exchange(step_posted_, true)) return;
    options_.executor->PostAfter(delay, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->Step();
    });
  }

  void OnCompiled() {
    --compiling_;
    StepIn(Duration::zero());
  }

  bool Compile(const wire::CompileTask& task) {
    const absl::Status begun = Begin(task);
    if (!begun.ok()) LogWarn("agent", "configs that control names are not compiled: {}", MessageOf(begun));
    return begun.ok();
  }

  absl::Status Begin(const wire::CompileTask& task) {
    ASSIGN_OR_RETURN(const std::shared_ptr<const KernelPlan> plan, plans_.Get(task.kernel_id()));
    ASSIGN_OR_RETURN(ResolvedProblem resolved, plan->ResolveProblem(task.problem()));
    ASSIGN_OR_RETURN(const DeviceClass device_class, DeviceClass::FromProto(task.device_class()));
    const auto problem = std::make_shared<const ResolvedProblem>(std::move(resolved));
    for (const std::string& text : task.configs()) {
      ASSIGN_OR_RETURN(Config config, plan->ConfigFromText(text));
      const auto broken = plan->FirstBrokenDeviceLimit(*problem, config, device_class);
      if (!broken.ok() || !broken->empty()) continue;  // it will be pruned
      ++compiling_;
      options_.evaluator->Compile({plan, problem, device_class, std::move(config)},
                                  [weak = weak_from_this()](const CompileResult&) {
                                    if (const auto self = weak.lock()) self->Post(&Session::OnCompiled);
                                  });
    }
    return absl::OkStatus();
  }

  const FarmCompilerOptions options_;
  PlanCache plans_;
  Mutex mutex_;
  bool stopped_ GUARDED_BY(mutex_) = false;
  // On the executor only.
  int compiling_ = 0;
  bool step_posted_ = false;
};

FarmCompiler::FarmCompiler(const FarmCompilerOptions& options) : session_(std::make_shared<Session>(options)) {}

FarmCompiler::~FarmCompiler() { session_->Stop(); }

void FarmCompiler::Start() { session_->Post(&Session::Step); }

}  // namespace tunefarm
