#include "server/daemon/config_compiler.h"

#include <chrono>
#include <string>
#include <utility>

#include "server/base/hash.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/base/thread.h"
#include "server/definition/binary_entries.h"

namespace tunefarm {
namespace {

// Less than a client waits for the call.
constexpr Duration kPatience = std::chrono::seconds(100);
constexpr Duration kAskEvery = std::chrono::milliseconds(250);  // whether an order is still wanted

struct Batch {
  Mutex mutex;
  std::vector<CompiledConfig> configs GUARDED_BY(mutex);
  size_t left GUARDED_BY(mutex) = 0;
  uint64_t binaries_bytes GUARDED_BY(mutex) = 0;
  Notification done;
};

CompiledConfig Compiled(const CompileRequest& request, const CompileResult& result) {
  CompiledConfig compiled;
  compiled.toolchain = result.toolchain;
  compiled.outcome = result.outcome;
  compiled.message = result.message;
  compiled.log = result.log;
  compiled.resources = result.resources;
  if (result.outcome != v1::OUTCOME_OK || result.artifact == nullptr) return compiled;
  compiled.binary_digest = Sha256(result.artifact->bytes).Hex();
  compiled.lowered_names = result.artifact->lowered_names;
  compiled.compile_options = result.artifact->compile_options;
  compiled.binary_bytes = result.artifact->bytes.size();
  // Of PTX nothing is said: it is no ELF file.
  if (std::string why = WhyEntriesDoNotFit(*request.plan, *request.problem, request.config, request.device_class,
                                           result.artifact->bytes, result.artifact->lowered_names);
      !why.empty()) {
    compiled.outcome = v1::OUTCOME_LOAD_ERROR;
    compiled.message = std::move(why);
  }
  return compiled;
}

// OK: all have ended. Each of them does: compile workers have a time limit.
absl::Status Await(const CompileOrder& order, const Notification& done) {
  if (order.check_wanted) {
    while (!done.WaitFor(kAskEvery)) RETURN_IF_ERROR(order.check_wanted());
    return absl::OkStatus();
  }
  if (done.WaitFor(kPatience)) return absl::OkStatus();
  return DeadlineExceeded(
      "the configs did not compile within {} s; ask for fewer, or try again when the daemon has "
      "less to do",
      kPatience / std::chrono::seconds(1));
}

}  // namespace

void ConfigCompiler::SetEvaluator(Evaluator* evaluator) {
  MutexLock lock(&mutex_);
  evaluator_ = evaluator;
}

absl::StatusOr<std::vector<CompiledConfig>> ConfigCompiler::Compile(const CompileOrder& order) {
  if (order.configs.empty()) return std::vector<CompiledConfig>();
  auto batch = std::make_shared<Batch>();
  std::vector<Evaluator::Id> ids;
  {
    MutexLock inner(&batch->mutex);
    batch->configs.resize(order.configs.size());
    batch->left = order.configs.size();
  }
  {
    MutexLock lock(&mutex_);
    if (evaluator_ == nullptr) {
      return WithReason(FailedPrecondition("this daemon compiles nothing: it has no compile workers of its own (its "
                                           "role is not 'all')"),
                        "NO_COMPILER");
    }
    for (size_t i = 0; i < order.configs.size(); ++i) {
      CompileRequest request{order.plan, order.problem, order.device_class, order.configs[i]};
      request.ptx = order.ptx;
      ids.push_back(evaluator_->Compile(
          request, [batch, i, request, bytes_max = order.binaries_bytes_max](const CompileResult& result) {
            CompiledConfig compiled = Compiled(request, result);
            bool is_last = false;
            {
              MutexLock inner(&batch->mutex);
              batch->binaries_bytes += compiled.binary_bytes;
              if (compiled.binary_bytes > 0 && batch->binaries_bytes <= bytes_max)
                compiled.binary = result.artifact->bytes;
              batch->configs[i] = std::move(compiled);
              is_last = --batch->left == 0;
            }
            if (is_last) batch->done.Notify();
          }));
    }
  }
  if (absl::Status awaited = Await(order, batch->done); !awaited.ok()) {
    {
      MutexLock lock(&mutex_);
      // Without an evaluator all have been answered.
      for (const Evaluator::Id id : ids) {
        if (evaluator_ != nullptr) evaluator_->Cancel(id);
      }
    }
    batch->done.WaitForNotification();
    return awaited;
  }
  MutexLock inner(&batch->mutex);
  for (const CompiledConfig& config : batch->configs) {
    if (config.outcome != v1::OUTCOME_LOST) continue;
    return WithReason(
        FailedPrecondition("this daemon cannot compile the kernel (tunefarm doctor says what works here): {}",
                           config.message),
        "NO_COMPILER");
  }
  return std::move(batch->configs);
}

}  // namespace tunefarm
