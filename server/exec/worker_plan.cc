#include "server/exec/worker_plan.h"

#include <fmt/core.h>

#include <utility>

#include "server/base/status_macros.h"
#include "server/exec/frame_limits.h"

namespace tunefarm {

std::string BackendOf(const KernelPlan& plan) {
  const bool host = plan.device_kind() == DeviceKind::kHost;
  if (plan.language() == tunefarm::v1::LANGUAGE_PYTHON) {
    return std::string(host ? kPythonHostBackend : kPythonCudaBackend);
  }
  return std::string(host ? kHostBackend : kCudaBackend);
}

std::string CompileBackendOf(const KernelPlan& plan) {
  if (plan.language() == tunefarm::v1::LANGUAGE_TRITON) return std::string(kPythonCudaBackend);
  return BackendOf(plan);
}

WorkerCommandOptions CommandOptions(const ProcessEvaluatorOptions& options) {
  WorkerCommandOptions command;
  command.worker_binary = options.worker_binary;
  command.scratch_root = options.scratch_directory;
  command.cuda_path = options.cuda_path;
  command.host_compiler = options.host_compiler;
  command.python_interpreter = options.python_interpreter;
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
  pool.one_kernel = IsPythonBackend(backend);
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
