// What a worker process does in its role, per backend (cuda, host). main.cc owns the channel to the daemon and the
// sandbox; a backend only computes. One thread: every method is called from the worker's main thread.
//
// A method may crash or never return: that is what the process is for. What it returns is hostile to the daemon anyway.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/base/file_set.h"
#include "server/base/unique_fd.h"
#include "server/definition/kernel_plan.h"
#include "server/device/device_class.h"
#include "tunefarm/worker/v1/worker.pb.h"

namespace tunefarm {

// How a backend tells the daemon what it is about to do; implemented by the session over the channel. Deadlines start
// with it.
class PhaseReporter {
 public:
  virtual ~PhaseReporter() = default;
  virtual void Begin(tunefarm::v1::Phase phase) = 0;
  virtual void Log(std::string_view text) = 0;
  // Between these the device is this worker's alone; outside a standby's preparation both do nothing. TakeDevice waits.
  // Nothing of the worker may be at work on the device any more when it yields. Pairs do not nest.
  virtual void TakeDevice() {}
  virtual void YieldDevice() {}
};

// The kernel that following evaluations speak of.
struct PreparedKernel {
  std::shared_ptr<const KernelPlan> plan;
  ResolvedProblem problem;
  DeviceClass device_class;
  uint64_t input_seed = 1;
  std::string reference_artifact;  // bytes; empty: none
  std::map<std::string, std::string> reference_lowered_names;
  std::vector<std::string> compile_options;
  // What RunBackend::ExpectedOutputs of another worker gave for the same kernel, problem and seed; empty: nothing.
  std::string expected_outputs;
  // The data files that the kernel names, by digest, open for reading. Never mapped: one that is cut short meanwhile
  // would end the process.
  std::map<std::string, std::shared_ptr<const UniqueFd>> data_files;
  // Another worker measures on the device meanwhile: it is used only between TakeDevice and YieldDevice, and no more of
  // its memory is taken than leaves the other one room.
  bool standby = false;
};

struct WorkerOptions {
  std::string scratch_directory;  // writable, private, emptied by the daemon
  std::string device_uuid;        // run role
  std::string cuda_path;          // from the config; empty: search
  std::string host_compiler;      // default "c++"
  int compile_seconds = 0;        // of processor time for one compile; 0: no limit
  std::string warm_start;         // what RunBackend::warm_start of an earlier worker gave; empty: nothing
  // Host kernels, run role: processes and threads under this uid while a kernel runs; 0: as many as the worker may
  // have.
  int64_t trial_processes_max = 0;
};

// What a compile worker sends about the headers that it read.
inline void SetInputs(const FileSet& files, tunefarm::worker::v1::CompileInputs* inputs) {
  inputs->set_packed_paths(files.packed_paths);
  inputs->set_state_checksum(files.state);
  inputs->set_content_checksum(files.content);
}

class CompileBackend {
 public:
  virtual ~CompileBackend() = default;
  // "NVRTC 13.0 (found at ...)"; for messages and the artifact's key.
  virtual std::string toolchain() const = 0;
  // Fills outcome, message, log, resources, lowered_names, compile_options, compile_ms; on OK puts the binary into
  // *artifact.
  virtual tunefarm::worker::v1::Result Compile(const PreparedKernel& kernel, const Config& config,
                                               PhaseReporter* reporter, std::string* artifact) = 0;
  // As Compile, but *artifact is PTX. Resources stay unknown.
  virtual tunefarm::worker::v1::Result CompilePtx(const PreparedKernel& /*kernel*/, const Config& /*config*/,
                                                  PhaseReporter* /*reporter*/, std::string* /*artifact*/) {
    tunefarm::worker::v1::Result result;
    result.set_outcome(tunefarm::v1::OUTCOME_COMPILE_ERROR);
    result.set_message("only kernels in CUDA have PTX");
    return result;
  }
};

// A config whose launches alternate with those of the one that is measured.
struct YardstickInput {
  Config config;
  std::string artifact;
  std::map<std::string, std::string> lowered_names;
};

struct RunInput {
  Config config;
  std::string artifact;
  std::map<std::string, std::string> lowered_names;
  bool baseline = false;
  bool verify_only = false;
  bool keep_samples = false;
  tunefarm::v1::MeasurementPolicy policy;  // every field set: presets are resolved by the daemon
  uint64_t input_seed = 1;
  uint64_t second_input_seed = 0;           // verified on this input set too, after timing; 0: no
  double race_limit_ns = 0;                 // a config that is surely slower may be left early; 0: none is
  int own_processes = 0;                    // of the daemon on the device; more are others'. 0: not known
  std::optional<YardstickInput> yardstick;  // for CUDA only
};

class RunBackend {
 public:
  virtual ~RunBackend() = default;
  virtual std::string toolchain() const = 0;
  // Builds inputs and the reference outputs. ok=false with an outcome (OUT_OF_MEMORY, ...) and a sentence if it cannot.
  virtual tunefarm::worker::v1::Prepared Prepare(std::shared_ptr<const PreparedKernel> kernel,
                                                 PhaseReporter* reporter) = 0;
  // Load, first launch, verify, measure, verify again. worker_is_damaged asks for a fresh process.
  virtual tunefarm::worker::v1::Result Run(const RunInput& input, PhaseReporter* reporter) = 0;
  // What a Run leaves to be done that its result need not wait for. Whatever comes next does it first if it was not
  // called.
  virtual void CleanUp() {}

  // What spares later workers of the device a part of their start; empty: nothing. Asked once, before Prepare.
  virtual std::string warm_start() const { return ""; }
  // The outputs of the reference as Prepare left them, for PreparedKernel::expected_outputs of another worker. Empty if
  // there is no reference, or they need more than `bytes_max` bytes.
  virtual std::string ExpectedOutputs(int64_t /*bytes_max*/) { return ""; }
  // Runs a kernel whose result is known and says how long it took.
  virtual tunefarm::worker::v1::HealthReport CheckHealth() {
    tunefarm::worker::v1::HealthReport report;
    report.set_message("this kind of device has no health check");
    return report;
  }
};

class ProbeBackend {
 public:
  virtual ~ProbeBackend() = default;
  // Appends its devices and notes.
  virtual void Probe(tunefarm::worker::v1::ProbeReport* report) = 0;
};

// Factories. FailedPrecondition with one sentence when the backend's libraries or tools are not there.
absl::StatusOr<std::unique_ptr<CompileBackend>> MakeHostCompileBackend(const WorkerOptions& options);
absl::StatusOr<std::unique_ptr<RunBackend>> MakeHostRunBackend(const WorkerOptions& options);
std::unique_ptr<ProbeBackend> MakeHostProbeBackend(const WorkerOptions& options);
// Built without a CUDA Toolkit these fail with a sentence that says so.
absl::StatusOr<std::unique_ptr<CompileBackend>> MakeCudaCompileBackend(const WorkerOptions& options);
absl::StatusOr<std::unique_ptr<RunBackend>> MakeCudaRunBackend(const WorkerOptions& options);
std::unique_ptr<ProbeBackend> MakeCudaProbeBackend(const WorkerOptions& options);

}  // namespace tunefarm
