// What a worker process does in its role, per backend (cuda, host). main.cc owns the channel to the daemon and the
// sandbox; a backend only computes. One thread: every method is called from the worker's main thread.
//
// A method may crash or never return: that is what the process is for. What it returns is hostile to the daemon anyway.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/base/unique_fd.h"
#include "server/definition/kernel_plan.h"
#include "server/device/device_class.h"
#include "tunefarm/worker/v1/worker.pb.h"

namespace tunefarm {

// How a backend tells the daemon what it is about to do; implemented by main.cc over the channel. Deadlines start with
// it.
class PhaseReporter {
 public:
  virtual ~PhaseReporter() = default;
  virtual void Begin(tunefarm::v1::Phase phase) = 0;
  virtual void Log(std::string_view text) = 0;
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
};

struct WorkerOptions {
  std::string scratch_directory;  // writable, private, emptied by the daemon
  std::string device_uuid;        // run role
  std::string cuda_path;          // from the config; empty: search
  std::string host_compiler;      // default "c++"
};

class CompileBackend {
 public:
  virtual ~CompileBackend() = default;
  // "NVRTC 13.0 (found at ...)"; for messages and the artifact's key.
  virtual std::string toolchain() const = 0;
  // Fills outcome, message, log, resources, lowered_names, compile_ms; on OK puts the binary into *artifact.
  virtual tunefarm::worker::v1::Result Compile(const PreparedKernel& kernel, const Config& config,
                                               PhaseReporter* reporter, std::string* artifact) = 0;
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
