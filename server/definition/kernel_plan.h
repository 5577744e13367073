// KernelPlan: a kernel definition, checked and compiled once into the one immutable form that everybody uses: the
// daemon to build spaces, the agent to prune, the workers to compile, launch and verify.
//
// Pure: no files, no threads, no devices. Threads: a plan never changes; const use from any thread; shared by
// shared_ptr.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/device/device_class.h"
#include "server/driver_step/step_evaluator.h"
#include "server/driver_step/tensor_map.h"
#include "server/expression/config.h"
#include "server/space/space.h"
#include "tunefarm/v1/kernel.pb.h"
#include "tunefarm/v1/problem.pb.h"

namespace tunefarm {

// A problem with defaults filled in and every value checked.
struct ResolvedProblem {
  Config dims;                        // every dim of the kernel, flags too
  std::vector<uint64_t> input_seeds;  // at least one
  Config pinned;                      // parameters held at one value
  // Canonical text; what results are filed under: the dims ("K=64,M=64,dtype=bf16"), then, only where they are not the
  // default, "|seeds=1,2" and "|pinned:SPLIT_K=1".
  std::string key;

  tunefarm::v1::Problem ToProto() const;
};

// What `kernel.*` names in launch expressions mean; known only in the worker after load, per entry.
struct LoadedEntry {
  int64_t max_active_blocks = 0;
  int64_t registers = 0;
  int64_t static_shared_bytes = 0;
};

size_t SizeOf(tunefarm::v1::DataType type);            // bytes of an element
std::string_view NameOf(tunefarm::v1::DataType type);  // "f32", "f8e4m3"
inline bool IsFloatType(tunefarm::v1::DataType type) { return type >= tunefarm::v1::DATA_TYPE_F16; }
// What a dim's value stands for where a buffer names the dim as data_type_dim: the type's name, "fp8" for F8E4M3.
std::optional<tunefarm::v1::DataType> DataTypeOfDim(std::string_view value);

// A buffer of a problem and config.
struct BufferPlan {
  std::string name;
  tunefarm::v1::DataType type;
  int64_t length = 0;  // elements
  int64_t bytes() const { return length * static_cast<int64_t>(SizeOf(type)); }
  tunefarm::v1::Access access;
  tunefarm::v1::Init init;        // never UNSPECIFIED
  tunefarm::v1::Restore restore;  // never UNSPECIFIED
  tunefarm::v1::Fill fill;        // kind always set for IN, INOUT and init FILL
  // Every element of the filled buffer is at least 0 and below it; for integers only.
  std::optional<int64_t> index_limit;
  // What an output must hold, where the reference consists of files.
  std::optional<tunefarm::v1::DataFile> expected;
  bool is_constant_symbol = false;  // then `symbol` names the __constant__ variable
  std::string symbol;
};

// A scalar argument's value as bytes, ready to be passed.
struct ScalarPlan {
  tunefarm::v1::DataType type;
  std::array<std::byte, 8> bytes{};
  bool is_specialised = true;  // for TRITON: the compiler may know the value
};

struct TensorMapPlan {
  std::string buffer;
  driver_step::TensorMapValues values;
};

// For TRITON. Outermost dimension first, in elements; the last stride is 1.
struct TensorDescriptorPlan {
  std::string buffer;
  tunefarm::v1::DataType type;
  std::vector<int64_t> shape, strides, block_shape;  // of one length, 1 to driver_step::kTensorRankMax
  bool oob_fill_nan = false;
};

// One step with every expression evaluated; of a kKernel the launch, too.
struct StepPlan : driver_step::LaunchValues {
  enum class Kind { kKernel, kMemset, kLibraryOp };
  Kind kind = Kind::kKernel;
  std::string name;
  bool timed = true;
  // kKernel
  std::string entry;
  std::vector<std::string> arguments;
  tunefarm::v1::LaunchAttributes attributes;
  bool spread_clusters = false;                      // as Triton's launcher wants it; definitions do not say it
  std::map<std::string, ScalarPlan> scalars;         // of `arguments`
  std::map<std::string, TensorMapPlan> tensor_maps;  // of `arguments`
  std::map<std::string, TensorDescriptorPlan> tensor_descriptors;  // of `arguments`
  // kMemset
  std::string memset_buffer;
  uint8_t memset_byte = 0;
  // kLibraryOp
  tunefarm::v1::LibraryOp library_op;
  int64_t m = 0, n = 0, k = 0;
};

struct TolerancePlan {
  double atol = 1e-5, rtol = 1e-5, max_mismatch_fraction = 0, catastrophic_bound = 0, row_norm_bound = 0;
  int64_t row_length = 0;
};

// Which step list of the definition is meant.
enum class Sequence { kLaunches, kPreparePerProblem, kPreparePerConfig, kReference, kBaseline };

class KernelPlan {
 public:
  // Checks everything that can be checked without a problem. InvalidArgument with the field path
  // ("launches[0].kernel.grid[1]") and, for expressions, the column and a caret; reason UPPER_SNAKE (WithReason).
  // Sources must carry their content.
  static absl::StatusOr<std::shared_ptr<const KernelPlan>> Compile(const tunefarm::v1::Kernel& kernel);

  // The definition, canonical: defaults written out, output-only fields set.
  const tunefarm::v1::Kernel& kernel() const;
  const std::string& kernel_id() const;       // hex
  const std::string& program_digest() const;  // hex
  const std::string& display_name() const;
  tunefarm::v1::Language language() const;
  DeviceKind device_kind() const;

  // Fills in defaults and checks names, types, ranges and pins. InvalidArgument with "did you mean".
  absl::StatusOr<ResolvedProblem> ResolveProblem(const tunefarm::v1::Problem& problem) const;

  // Constraints, then the device's limits (threads, shared memory, grid, registers if declared) as device rules.
  absl::StatusOr<Space> BuildSpace(const ResolvedProblem& problem, const DeviceClass& device,
                                   const SpaceOptions& options = {}) const;

  // The declared defaults with the problem's pins, or without them where they would break a constraint that names no
  // device: reference and baseline are compiled with this config. It need not satisfy the constraints.
  Config DefaultConfig(const ResolvedProblem& problem) const;

  // A config from outside, checked for names, types and domain (not for constraints).
  absl::StatusOr<Config> ParseConfig(const tunefarm::v1::Config& config) const;
  tunefarm::v1::Config ToProto(const Config& config) const;
  // From Config::ToText.
  absl::StatusOr<Config> ConfigFromText(std::string_view text) const;

  // The macros that are baked into the binary, sorted by name: COMPILE-bound dims, parameters and derived values. Two
  // configs with equal constants share one binary. For TRITON they are literals.
  absl::StatusOr<std::vector<std::pair<std::string, std::string>>> Constants(const ResolvedProblem& problem,
                                                                             const Config& config,
                                                                             const DeviceClass& device) const;

  // The derived values by name, in declared order.
  absl::StatusOr<std::vector<std::pair<std::string, Value>>> DerivedValues(const ResolvedProblem& problem,
                                                                           const Config& config,
                                                                           const DeviceClass& device) const;

  // Buffers and constant symbols, in declared order.
  absl::StatusOr<std::vector<BufferPlan>> Buffers(const ResolvedProblem& problem, const Config& config,
                                                  const DeviceClass& device) const;
  // Device memory that the problem needs with the given config: buffers, their reference copies and guard zones, in
  // bytes.
  absl::StatusOr<int64_t> FootprintBytes(const ResolvedProblem& problem, const Config& config,
                                         const DeviceClass& device) const;

  // How many blocks of a step's entry a multiprocessor holds, by its attributes, block and dynamic shared memory.
  using ActiveBlocks = std::function<absl::StatusOr<int64_t>(const StepPlan& step)>;
  // Steps of a sequence whose `when` holds, evaluated. `loaded` maps entry to what the loader said; expressions that
  // use kernel.* fail without it. With `active_blocks` its max_active_blocks are found for these steps: what they are
  // with 1 is asked for, and of an entry that is launched more than once the least answer counts, and 1 at least.
  // For kReference and kPreparePerProblem pass the default config.
  absl::StatusOr<std::vector<StepPlan>> Steps(Sequence sequence, const ResolvedProblem& problem, const Config& config,
                                              const DeviceClass& device,
                                              const std::map<std::string, LoadedEntry>* loaded = nullptr,
                                              const ActiveBlocks& active_blocks = nullptr) const;
  // Entries that any step of a sequence names (for the compiler's name expressions), also those whose `when` is false.
  std::vector<std::string> Entries(Sequence sequence) const;
  bool HasSequence(Sequence sequence) const;

  // What the problem's dims decide for every config: that buffers, reference, prepare steps and baseline can be
  // evaluated, that data files have as many bytes as their buffers, and that scalars fit into their types.
  // InvalidArgument with the field's path.
  absl::Status CheckProblem(const ResolvedProblem& problem, const DeviceClass& device) const;
  // What CheckProblem says of the data files alone, which needs no device.
  absl::Status CheckDataFiles(const ResolvedProblem& problem) const;

  // The first device limit that the config's launches break, in one sentence; empty if none. InvalidArgument where a
  // buffer or launch cannot be evaluated for the config. What depends on kernel.* is left out.
  absl::StatusOr<std::string> FirstBrokenDeviceLimit(const ResolvedProblem& problem, const Config& config,
                                                     const DeviceClass& device) const;

  TolerancePlan Tolerance(const ResolvedProblem& problem) const;
  // Work of one launch sequence with the given config; 0 if not declared.
  double Flops(const ResolvedProblem& problem, const Config& config, const DeviceClass& device) const;
  double Bytes(const ResolvedProblem& problem, const Config& config, const DeviceClass& device) const;
  // The arithmetic unit that bounds `flops`, as Kernel.flops_unit names them: "fp32", "tensor_bf16", ...
  std::string FlopsUnit(const ResolvedProblem& problem) const;

 private:
  friend struct KernelPlanAccess;  // of this library's own files
  struct Impl;
  explicit KernelPlan(std::shared_ptr<const Impl> impl);
  std::shared_ptr<const Impl> impl_;
};

// What kind of device runs the kernel.
DeviceKind DeviceKindOf(const tunefarm::v1::Kernel& kernel);

// Whether the sources get the values of a config as macros, and the compiler's binary is what runs.
inline bool HasMacros(tunefarm::v1::Language language) {
  return language == tunefarm::v1::LANGUAGE_CUDA || language == tunefarm::v1::LANGUAGE_HOST_CXX;
}
// Whether compile workers, and for PYTHON run workers, are interpreters of Python.
inline bool NeedsInterpreter(tunefarm::v1::Language language) {
  return language == tunefarm::v1::LANGUAGE_PYTHON || language == tunefarm::v1::LANGUAGE_TRITON;
}

// The path of the field that an InvalidArgument from here is about ("parameters[2].values"); empty if it names none.
std::string FieldPathOf(const absl::Status& status);

// Parses kernel.pbtxt text, in its short forms too (short_forms.h). InvalidArgument "kernel.pbtxt:12:7: ..." for syntax
// (the first error), for misspelt fields and enum values (all of them, a line each, with "did you mean"), and for files
// that it includes, which only LoadKernelText reads. Checks nothing else; sources keep only their paths.
absl::StatusOr<tunefarm::v1::Kernel> ParseKernelText(std::string_view text, std::string_view file_name);

// Compile, with errors located in the text the message came from: "kernel.pbtxt:31:3: parameters[2].values: ...", and
// for a file that it includes (assembled_text.h) "tiles.inc:3:7: ... (included at kernel.pbtxt:12:1)". All errors are
// reported, a line each and those of expressions with two more, but for those that only follow from another.
// `read_file` gives a file's bytes by its path from the definition's folder: what the text includes, then its sources.
// It is asked only for paths that a definition may name, and not for a source whose content is in the text. Returns the
// canonical definition (KernelPlan::kernel). Text over 1 MiB is refused.
absl::StatusOr<tunefarm::v1::Kernel> LoadKernelText(
    std::string_view text, std::string_view file_name,
    const std::function<absl::StatusOr<std::string>(const std::string& path)>& read_file);

// A definition as kernel.pbtxt in short form, which ParseKernelText reads back: without output-only fields, sources by
// their paths.
std::string KernelText(const tunefarm::v1::Kernel& kernel);

}  // namespace tunefarm
