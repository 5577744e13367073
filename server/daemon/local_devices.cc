#include "server/daemon/local_devices.h"

#include <chrono>
#include <filesystem>
#include <memory>
#include <utility>

#include "server/agent/sentinel_run.h"
#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/base/thread.h"
#include "server/exec/process_evaluator.h"

namespace tunefarm {
namespace {

namespace fs = std::filesystem;

constexpr Duration kSentinelPatience = std::chrono::seconds(30);

std::string WorkerBesideThisProgram() {
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const fs::path& candidate : {folder / "tunefarm-worker", folder / "../libexec/tunefarm/tunefarm-worker"}) {
    if (fs::exists(candidate, error)) return candidate.lexically_normal().string();
  }
  return "";
}

}  // namespace

ProcessEvaluatorOptions EvaluatorOptions(const DaemonConfig& config, const std::string& sandbox_level) {
  ProcessEvaluatorOptions options;
  options.worker_binary = config.worker_path.empty() ? WorkerBesideThisProgram() : config.worker_path;
  options.scratch_directory = config.data_directory + "/scratch";
  options.compile_workers = config.compile_workers;
  options.cuda_path = config.cuda_path;
  options.host_compiler = config.host_compiler;
  options.python_interpreter = config.python_interpreter;
  options.deadlines.compile_ms = config.compile_timeout_ms;
  options.deadlines.first_launch_ms = config.launch_timeout_ms;
  options.deadlines.prepare_ms = config.prepare_timeout_ms;
  options.lock_directory = "/tmp";
  options.clock_directory = config.data_directory + "/clocks";
  options.lock_host = !config.share_host;
  options.yields = config.lookups_first;
  options.standby_runners = config.standby_runners ? ForDevices::kGpus : ForDevices::kNone;
  options.cache_directory = config.data_directory + "/cache";
  options.cache_bytes_max = static_cast<uint64_t>(config.max_cache_bytes);
  // A cache must never be what makes jobs pause.
  options.cache_free_bytes_min = 2 * static_cast<uint64_t>(config.min_free_disk_bytes);
  options.first_uid = static_cast<uint32_t>(config.worker_uid_base);
  // What was probed and shown is what every worker must keep: none works with less in silence.
  options.required_isolation = sandbox_level.substr(0, 2) == "L1" ? "L1" : config.required_isolation;
  return options;
}

absl::StatusOr<LocalDevices> FindLocalDevices(const DaemonConfig& config,
                                              const std::function<absl::StatusOr<std::string>()>& host_uuid) {
  const ProcessEvaluatorOptions options = EvaluatorOptions(config, "");
  if (options.worker_binary.empty()) {
    return FailedPrecondition("the program tunefarm-worker is not beside tunefarmd; install it there or set --worker");
  }
  LocalDevices local;
  absl::StatusOr<ProbeResult> probe = ProbeDevices(options);
  if (!probe.ok()) {
    // Look-ups and lists still work; doctor shows why nothing can be tuned.
    LogError("daemon", "no devices: {}", MessageOf(probe.status()));
    local.notes.push_back("no devices: " + std::string(MessageOf(probe.status())));
  } else {
    local.runs_python = probe->runs_python;
    local.notes = std::move(probe->notes);
    local.sandbox_level = probe->sandbox_level;
    LogInfo("daemon", "worker isolation {}", local.sandbox_level);
    for (v1::Device& device : probe->devices) {
      const bool is_host = device.device_class().kind() == v1::DEVICE_KIND_HOST;
      if (config.compile_only || (!is_host && !config.use_gpu)) continue;
      if (is_host && device.uuid().empty()) {
        ASSIGN_OR_RETURN(const std::string uuid, host_uuid());
        device.set_uuid(uuid);
      }
      if (!is_host) device.set_triton_version(probe->triton_version);
      device.set_name("devices/" + device.uuid());
      if (device.state() == v1::DEVICE_STATE_UNSPECIFIED) device.set_state(v1::DEVICE_STATE_READY);
      local.devices.push_back(std::move(device));
    }
  }
  if (config.python_interpreter.empty()) {
    local.notes.emplace_back(
        "Python kernels are off (tunefarmd --python-interpreter, or python_interpreter in its configuration, names an "
        "interpreter)");
  }
  return local;
}

std::vector<v1::Device> WithSentinels(const DaemonConfig& config, Evaluator* evaluator,
                                      const std::vector<v1::Device>& devices) {
  std::vector<v1::Device> measured;
  for (const v1::Device& device : devices) {
    const bool is_gpu = device.device_class().kind() == v1::DEVICE_KIND_CUDA;
    if (config.sentinels == "all" || (config.sentinels == "gpus" && is_gpu)) measured.push_back(device);
  }
  struct Shared {  // it may come after this call has given up
    Notification done;
    std::vector<v1::Device> devices;
  };
  const auto shared = std::make_shared<Shared>();
  MeasureSentinels(evaluator, Clock::Real(), std::move(measured), [shared](std::vector<v1::Device> with_times) {
    shared->devices = std::move(with_times);
    shared->done.Notify();
  });
  std::vector<v1::Device> all = devices;
  if (!shared->done.WaitFor(kSentinelPatience)) {
    LogWarn("daemon", "the sentinels are not measured yet; this machine's devices are compared with no others");
    return all;
  }
  for (v1::Device& device : all) {
    for (const v1::Device& with_times : shared->devices) {
      if (with_times.uuid() == device.uuid()) *device.mutable_sentinels() = with_times.sentinels();
    }
  }
  return all;
}

}  // namespace tunefarm
