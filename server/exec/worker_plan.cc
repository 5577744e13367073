#include "server/exec/worker_plan.h"

#include <fmt/core.h>

#include <utility>

#include "server/base/status_macros.h"

namespace tunefarm {

std::string BackendOf(const KernelPlan& plan) { return plan.device_kind() == DeviceKind::kHost ? "host" : "cuda"; }

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

WorkerCommandOptions CommandOptions(const ProcessEvaluatorOptions& options) {
  WorkerCommandOptions command;
  command.worker_binary = options.worker_binary;
  command.scratch_root = options.scratch_directory;
  command.cuda_path = options.cuda_path;
  command.host_compiler = options.host_compiler;
  command.sandbox = options.sandbox;
  command.extra_arguments = options.extra_worker_arguments;
  return command;
}

WorkerPool::Options PoolOptions(const ProcessEvaluatorOptions& options, WorkerRole role, const std::string& backend,
                                const std::string& name, const std::string& device_uuid, int first_slot) {
  WorkerCommandOptions command = CommandOptions(options);
  command.required_isolation = options.required_isolation;
  // One compile is one thread, so wall time bounds it first; this holds while the daemon cannot.
  command.compile_seconds = options.deadlines.compile_ms / 1000 + 10;
  WorkerPool::Options pool;
  pool.name = name;
  pool.queue_max = options.queue_max;
  pool.backoff_ms = options.start_backoff_ms;
  pool.make_worker = [&options, command = std::move(command), role, backend, name, device_uuid,
                      first_slot](int slot) -> absl::StatusOr<WorkerProcessOptions> {
    WorkerProcessOptions worker;
    worker.role = role;
    worker.backend = backend;
    worker.name = fmt::format("{}-{}", name, slot);
    worker.deadlines = options.deadlines;
    worker.reap_ms = options.reap_ms;
    ASSIGN_OR_RETURN(worker.command, MakeWorkerCommand(command, role, backend, worker.name, device_uuid,
                                                       options.first_uid + static_cast<uint32_t>(first_slot + slot)));
    return worker;
  };
  return pool;
}

}  // namespace tunefarm
