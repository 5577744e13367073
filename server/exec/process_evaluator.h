#pragma once

// The evaluator that does the work: pools of worker processes, one per backend for compiling and one per device for
// running, supervised on one thread.

#include <atomic>
#include <functional>
#include <string>

#include "server/exec/compile_pools.h"
#include "server/exec/evaluator.h"
#include "server/exec/evaluator_stats.h"
#include "server/exec/event_loop.h"
#include "server/exec/process_evaluator_options.h"
#include "server/exec/run_pools.h"

namespace tunefarm {

class ProcessEvaluator : public Evaluator {
 public:
  explicit ProcessEvaluator(ProcessEvaluatorOptions options);
  // Answers everything with LOST, kills and reaps every worker; waits at most reap_ms for that, and for NVML to
  // free the clocks that are held at most 30 s, or 60 s where a process fails to and another one tries. Callbacks run
  // until it returns. Must not be called from a callback.
  ~ProcessEvaluator() override;

  Id Compile(CompileRequest request, std::function<void(CompileResult)> done) override;
  Id Run(RunRequest request, std::function<void(RunResult)> done) override;
  void Expect(const std::string& device_uuid, const KernelPlan& plan) override;
  void Cancel(Id id) override;
  void ReleaseDevice(const std::string& device_uuid) override;
  // Time of the health check's kernel when the device was known to be good, in nanoseconds, as on_healthy told it in an
  // earlier life. If it is another than the evaluator's own, a check is due. Unknown devices are ignored.
  void SetHealthBaseline(const std::string& device_uuid, double nanoseconds);
  int compile_slots() const override { return compiles_.workers(); }

  // Any thread.
  const EvaluatorStats& stats() const { return stats_; }

 private:
  void PumpHostSoon();

  // Constant after construction.
  const ProcessEvaluatorOptions options_;
  const HostTurns turns_;

  EvaluatorStats stats_;
  std::atomic<Id> last_id_{0};
  PreparationCache preparations_;

  // Loop thread only.
  CompilePools compiles_;
  RunPools runs_;
  bool host_pump_posted_ = false;

  // Last: its tasks use everything above.
  EventLoop loop_;
};

// Asks one probe worker per backend what devices there are and waits for the answers, each at most deadlines.start_ms.
// A backend whose probe dies or hangs becomes a note; FailedPrecondition when none answers. Blocking; from any thread
// but an evaluator's.
absl::StatusOr<ProbeResult> ProbeDevices(const ProcessEvaluatorOptions& options);

}  // namespace tunefarm
