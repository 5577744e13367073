// ConfigCompiler: compiles configs for calls that only want to know whether they compile, with the compile workers of
// this daemon's agent.
//
// Thread-safe. Compile blocks until all configs have ended.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "server/api/kernel_api.h"
#include "server/base/mutex.h"
#include "server/exec/evaluator.h"

namespace tunefarm {

class ConfigCompiler {
 public:
  // The evaluator, from now until it is set to null; it answers what is under way before it ends.
  void SetEvaluator(Evaluator* evaluator) LOCKS_EXCLUDED(mutex_);

  // In the order of the configs. FailedPrecondition (NO_COMPILER) where this daemon has no compile workers, or they
  // cannot be started; DeadlineExceeded after 100 s, or the error of the order's check_wanted.
  absl::StatusOr<std::vector<CompiledConfig>> Compile(const CompileOrder& order) LOCKS_EXCLUDED(mutex_);

 private:
  Mutex mutex_;
  Evaluator* evaluator_ GUARDED_BY(mutex_) = nullptr;
};

}  // namespace tunefarm
