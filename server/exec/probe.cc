#include <utility>

#include "server/base/log.h"
#include "server/base/status.h"
#include "server/exec/captured_output.h"
#include "server/exec/frame_limits.h"
#include "server/exec/process_evaluator.h"
#include "server/exec/worker_command.h"
#include "server/exec/worker_plan.h"

namespace tunefarm {
namespace {

struct BackendProbe {
  std::string sandbox_level;
  absl::Status failure;
  bool was_killed = false;  // see WorkerEnd
  tunefarm::worker::v1::ProbeReport report;
};

// A probe that is killed from outside says nothing about its devices, which would be missed until the next start.
constexpr int kTriesMax = 3;

BackendProbe ProbeBackendOf(const ProcessEvaluatorOptions& options, const std::string& backend, uint32_t uid) {
  BackendProbe probe;
  WorkerProcessOptions worker;
  worker.role = WorkerRole::kProbe;
  worker.backend = backend;
  worker.name = fmt::format("probe-{}", backend);
  worker.deadlines = options.deadlines;
  worker.reap_ms = options.reap_ms;
  absl::StatusOr<SubprocessOptions> made =
      MakeWorkerCommand(CommandOptions(options), worker.role, backend, worker.name, "", uid);
  if (!made.ok()) {
    probe.failure = made.status();
    return probe;
  }
  worker.command = *std::move(made);

  // The worker's parent-death signal is bound to this thread, which outlives it.
  EventLoop loop("probe", options.clock);
  std::unique_ptr<WorkerProcess> process;  // Loop thread only.
  Notification ended;
  bool answered = false;
  WorkerProcess::Callbacks callbacks;
  callbacks.on_probe_report = [&](const tunefarm::worker::v1::ProbeReport& report) {
    probe.report = report;
    probe.sandbox_level = PrintableText(process->hello().sandbox_level());
    answered = true;
    process->Kill(WorkerEndCause::kShutdown);
  };
  callbacks.on_stuck = [&] {
    if (!answered) probe.failure = DeadlineExceeded("the probe of {} does not end after SIGKILL", backend);
    process.reset();
    ended.Notify();
  };
  callbacks.on_gone = [&](const WorkerEnd& end) {
    probe.was_killed = !answered && end.was_killed;
    if (!answered) {
      const std::string detail = end.detail;
      probe.failure = FailedPrecondition("the probe of {} gave no answer: {}", backend,
                                         detail.empty() ? end.status.ToString() : detail);
    }
    process.reset();
    ended.Notify();
  };
  loop.Post([&] { process = std::make_unique<WorkerProcess>(&loop, std::move(worker), callbacks); });
  ended.WaitForNotification();
  return probe;
}

}  // namespace

absl::StatusOr<ProbeResult> ProbeDevices(const ProcessEvaluatorOptions& options) {
  ProbeResult result;
  absl::Status failure;
  int answers = 0;
  uint32_t uid = options.first_uid + 1020;  // Behind those of the pools.
  std::vector<std::string_view> backends = {kCudaBackend, kHostBackend};
  if (!options.python_interpreter.empty()) backends.push_back(kPythonHostBackend);
  for (const std::string_view backend : backends) {
    BackendProbe probe = ProbeBackendOf(options, std::string(backend), uid);
    for (int tries = 1; probe.was_killed && tries < kTriesMax; ++tries) {
      LogWarn("exec", "{}; it is tried again ({} of {})", MessageOf(probe.failure), tries + 1, kTriesMax);
      probe = ProbeBackendOf(options, std::string(backend), uid);
    }
    ++uid;
    if (!probe.failure.ok()) {
      if (IsPythonBackend(backend)) {
        result.notes.push_back(
            fmt::format("Python kernels are off, {} does not work (shims need more than their own "
                        "file, name what they start): {}",
                        options.python_interpreter, MessageOf(probe.failure)));
        continue;
      }
      failure = probe.failure;
      result.notes.push_back(fmt::format("{}: {}", backend, MessageOf(probe.failure)));
      continue;
    }
    if (IsPythonBackend(backend)) {
      result.runs_python = true;
      result.triton_version = PrintableText(probe.report.triton_version());
    } else {
      ++answers;
    }
    // Of several the weakest counts.
    if (result.sandbox_level.empty() || probe.sandbox_level.substr(0, 2) < result.sandbox_level.substr(0, 2)) {
      result.sandbox_level = std::move(probe.sandbox_level);
    }
    for (auto& device : *probe.report.mutable_devices()) result.devices.push_back(std::move(device));
    for (const std::string& note : probe.report.notes()) result.notes.push_back(PrintableText(note));
  }
  if (answers == 0) return failure;
  return result;
}

}  // namespace tunefarm
