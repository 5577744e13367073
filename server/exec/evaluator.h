// Evaluator: compiles and runs configs in worker processes that may crash, hang or lie, and always answers with an
// Outcome. The seam between deciding (agent) and doing (processes); tests put a scripted one in its place.
//
// Threads: all methods may be called from any thread and return at once. Callbacks come on the evaluator's own thread,
// one at a time, exactly once per call (also after Cancel, with LOST), and must not block.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/base/file_set.h"
#include "server/base/hash.h"
#include "server/definition/kernel_plan.h"
#include "server/device/device_class.h"
#include "server/exec/data_file_handle.h"
#include "server/expression/config.h"
#include "tunefarm/v1/device.pb.h"
#include "tunefarm/v1/measurement.pb.h"
#include "tunefarm/v1/trial.pb.h"

namespace tunefarm {

// A compiled binary. Immutable, shared.
struct Artifact {
  std::string bytes;                                 // cubin, shared object or PTX
  std::map<std::string, std::string> lowered_names;  // entry as the definition writes it, to the symbol in the binary
  std::vector<std::string> compile_options = {};     // what the compiler was told; empty: not known
};

struct CompileRequest {
  std::shared_ptr<const KernelPlan> plan;
  std::shared_ptr<const ResolvedProblem> problem;
  DeviceClass device_class;
  Config config;
  // How long it will probably take, to start what takes long first; 0: not known.
  double expected_ms = 0;
  // PTX instead of what runs; CUDA only.
  bool ptx = false;
  // What reference, baseline and prepare steps per problem need, with the config's constants, and not its launches.
  // Only TRITON distinguishes the two: binaries of other languages have all functions.
  bool reference = false;
};
struct CompileResult {
  tunefarm::v1::Outcome outcome =
      tunefarm::v1::OUTCOME_LOST;            // OK, COMPILE_*, PRUNED, OUT_OF_MEMORY, SANDBOX_VIOLATION, LOST
  std::string message;                       // one sentence
  std::string log;                           // at most 64 KiB
  std::shared_ptr<const Artifact> artifact;  // only with OK
  // The files outside of the definition that the binary was made of: it counts while they are unchanged. Null: none.
  std::shared_ptr<const FileSet> inputs;
  tunefarm::v1::ResourceUse resources;
  std::string toolchain;  // of the worker that compiled, or would have; empty: none began
  double compile_ms = 0;
  bool from_cache = false;
};

// A config whose launches alternate with those of another, so that their times are compared launch by launch.
struct Yardstick {
  Config config;
  std::shared_ptr<const Artifact> artifact;  // never null
};

struct RunRequest {
  std::shared_ptr<const KernelPlan> plan;
  std::shared_ptr<const ResolvedProblem> problem;
  std::string device_uuid;
  DeviceClass device_class;
  Config config;
  std::shared_ptr<const Artifact> artifact;            // null for a baseline that needs none
  std::shared_ptr<const Artifact> reference_artifact;  // CompileRequest::reference with the default config
  tunefarm::v1::MeasurementPolicy policy;
  uint64_t input_seed = 1;
  bool baseline = false;
  bool verify_only = false;
  bool keep_samples = false;
  double race_limit_ns = 0;        // a config surely slower than this may be left early; 0: none is
  uint64_t second_input_seed = 0;  // verified on this input set too, after timing; 0: no
  // Those that the kernel names, each once; at most kFrameDataFilesMax.
  std::vector<DataFileHandle> data_files;
  // For kernels that the CUDA worker runs. Where it cannot be loaded beside the config, the measurement has no times of
  // it; a failure of its own is taken for the config's.
  std::optional<Yardstick> yardstick;
};
struct RunResult {
  tunefarm::v1::Outcome outcome = tunefarm::v1::OUTCOME_LOST;
  tunefarm::v1::Phase phase = tunefarm::v1::PHASE_UNSPECIFIED;
  std::string message;
  std::string log;  // the worker's stderr, for failures
  tunefarm::v1::Measurement measurement;
  tunefarm::v1::Verification verification;
  tunefarm::v1::ResourceUse resources;
  double run_ms = 0;
  double device_busy_ms = 0;  // 0: unknown
  // With LOST: the device takes no work any more. Another may, or this one at a later time.
  bool out_of_service = false;
};

// Longest times of the phases, in milliseconds. The clock of a phase starts when the worker announces it.
struct PhaseDeadlines {
  int start_ms = 30'000;     // process start to Hello (a context may have to be made)
  int prepare_ms = 120'000;  // inputs and reference
  int compile_ms = 60'000;
  int load_ms = 10'000;
  int first_launch_ms = 10'000;
  int verify_ms = 30'000;         // on top of one launch
  int measure_grace_ms = 10'000;  // on top of the time budget, for warm-up and again for samples, and four launches
  int health_ms = 10'000;
  int exit_ms = 10'000;  // from a worker's closed channel to its end
};

class Evaluator {
 public:
  virtual ~Evaluator() = default;

  using Id = uint64_t;
  virtual Id Compile(CompileRequest request, std::function<void(CompileResult)> done) = 0;
  virtual Id Run(RunRequest request, std::function<void(RunResult)> done) = 0;
  // Runs of the plan on the device will come soon: what takes time and needs no binary may be done while their binaries
  // are compiled. Never needed, and without an answer.
  virtual void Expect(const std::string& device_uuid, const KernelPlan& plan) = 0;
  // Kills the work if it has begun. Its callback comes with LOST, or with its result if that was faster. Unknown ids
  // are ignored.
  virtual void Cancel(Id id) = 0;

  // Puts a quarantined device back into service; its next run waits for a health check. Unknown devices and those in
  // service are ignored.
  virtual void ReleaseDevice(const std::string& device_uuid) = 0;

  // How many compiles run at once, and so how far ahead it pays to ask.
  virtual int compile_slots() const = 0;
};

// Binaries that other machines of a farm compile, or need. Asked behind the evaluator's own cache, before it compiles.
// Only of compilers whose binaries are the same on every machine: those for GPUs. Thread-safe; no call blocks.
class SharedBinaries {
 public:
  virtual ~SharedBinaries() = default;

  // The key is the digest of all that goes into the binary, its compiler included. Calls `done` once, on any thread,
  // also before it returns; none: it is to be compiled here. The owner ensures that this is over, or never
  // comes, before the evaluator ends.
  virtual void Find(const Digest& key, std::function<void(std::optional<CompileResult>)> done) = 0;
  // It was asked for here, and is here: others may need it.
  virtual void Keep(const Digest& key, const CompileResult& result) = 0;
};

// What the probe workers found. Blocking; used once at start and by `devices`.
struct ProbeResult {
  std::vector<tunefarm::v1::Device> devices;
  std::vector<std::string> notes;
  std::string sandbox_level;   // what isolation the workers reach here
  bool runs_python = false;    // an interpreter was named, and answered
  std::string triton_version;  // that compiles; empty: none
};

}  // namespace tunefarm
