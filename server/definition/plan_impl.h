// The inside of a KernelPlan: the canonical definition with every expression compiled. Private to this folder.
//
// All expressions of a plan share one layout of slots: dims, parameters, device.*, kernel.*. So one array of values
// serves them all, and what a context may use is a set of slot kinds.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "server/definition/kernel_plan.h"
#include "server/expression/expression.h"
#include "server/expression/value.h"

namespace tunefarm {
namespace definition {

// What an expression uses, as a set of bits.
using Uses = unsigned;
inline constexpr Uses kUsesDims = 1;
inline constexpr Uses kUsesParameters = 2;
inline constexpr Uses kUsesDevice = 4;
inline constexpr Uses kUsesKernel = 8;
// A dim with inputs_only; kUsesDims is of the others.
inline constexpr Uses kUsesInputs = 16;

// Whether a problem alone decides the value.
constexpr bool IsOfProblem(Uses uses) { return (uses & ~(kUsesDims | kUsesInputs)) == 0; }

// An expression of the definition, with its place for messages.
struct Formula {
  std::string path;
  Expression expression;
  Uses uses = 0;
};

struct DimPlan {
  std::string name;
  ValueType type = ValueType::kInt;
  std::optional<Value> default_value;
  int64_t min = 0;  // of an int without values
  int64_t max = 0;
  std::vector<Value> values;  // empty: a range
  bool compile = false;
  bool inputs_only = false;

  // Why the value, which has the dim's type, is not allowed; empty if it is.
  std::string WhyNot(const Value& value) const;
};

struct ParameterPlan {
  Parameter parameter;  // default_value is set
  ValueType type = ValueType::kInt;
  bool compile = true;
  std::unordered_set<std::string> texts;  // of the values
};

struct DerivedPlan {
  std::string name;
  std::string text;
  Formula formula;
  bool compile = false;
};

// A buffer or constant symbol.
struct BufferFormula {
  std::string name;
  std::string path;
  v1::DataType type = v1::DATA_TYPE_UNSPECIFIED;  // or
  std::string type_dim;
  std::optional<Formula> length;
  v1::Access access = v1::ACCESS_IN;
  v1::Init init = v1::INIT_FILL;
  v1::Restore restore = v1::RESTORE_NEVER;
  v1::Fill fill;
  std::optional<Formula> index_limit;
  std::optional<v1::DataFile> expected;
  std::string expected_path;  // of the file in the definition
  bool is_constant_symbol = false;
  std::string symbol;
};

// What formulas say of a buffer in one problem.
struct BufferSize {
  v1::DataType type = v1::DATA_TYPE_UNSPECIFIED;
  int64_t length = 0;  // elements
  std::optional<int64_t> index_limit;
};

struct ScalarFormula {
  v1::DataType type = v1::DATA_TYPE_UNSPECIFIED;
  std::optional<Formula> value;
  bool is_specialised = true;
};

struct TensorMapFormula {
  std::string path;
  std::string buffer;
  v1::DataType type = v1::DATA_TYPE_UNSPECIFIED;  // unspecified: the buffer's
  std::vector<Formula> dims, byte_strides, box, element_strides;
  std::optional<Formula> swizzle, interleave, l2_promotion, base_offset_bytes;
  bool oob_fill_nan = false;
};

// Outermost dimension first.
struct TensorDescriptorFormula {
  std::string path;
  std::string buffer;
  std::vector<Formula> shape, strides, block_shape;  // no strides: those of a contiguous tensor
  bool oob_fill_nan = false;
};

struct StepFormula {
  std::string path;
  StepPlan::Kind kind = StepPlan::Kind::kKernel;
  v1::Step step;  // what needs no evaluation
  std::optional<Formula> when;
  std::vector<Formula> grid, block, cluster;
  std::optional<Formula> dynamic_shared_bytes;
  std::optional<Formula> m, n, k;
};

struct ToleranceFormula {
  std::optional<Formula> when;  // of a conditional one
  TolerancePlan fixed;          // row_length is evaluated
  std::optional<Formula> row_length;
};

// A rule that the launches imply; the sentence for people is made when the device is known.
struct DeviceRule {
  enum class Kind {
    kBlockExtent,
    kThreads,
    kGridExtent,
    kShared,
    kRegistersPerThread,
    kRegisters,
    kCluster,
    kMinimum,
    kExact
  };
  Kind kind = Kind::kThreads;
  std::string subject;  // "launches[0]"
  int axis = 0;
  int64_t number = 0;
  std::string text;
};
// Why a config that breaks the rule is no good, with the device's number.
std::string ReasonOf(const DeviceRule& rule, const DeviceClass& device);

}  // namespace definition

struct KernelPlan::Impl {
  v1::Kernel kernel;  // canonical
  std::string kernel_id;
  std::string program_digest;

  std::vector<definition::DimPlan> dims;
  std::vector<definition::ParameterPlan> parameters;
  ValueTypeMap parameter_types;
  std::vector<std::string> device_names;  // "device.sm_count", ...
  std::vector<definition::DerivedPlan> derived;
  std::vector<Config> starting_configs;  // complete: what was left out has its default value
  std::vector<definition::Formula> constraints;
  std::vector<definition::BufferFormula> buffers;
  std::map<std::string, definition::ScalarFormula, std::less<>> scalars;
  std::map<std::string, definition::TensorMapFormula, std::less<>> tensor_maps;
  std::map<std::string, definition::TensorDescriptorFormula, std::less<>> tensor_descriptors;
  std::map<Sequence, std::vector<definition::StepFormula>> sequences;
  std::vector<definition::ToleranceFormula> tolerances;  // conditional ones first, the general one last
  std::optional<definition::Formula> flops, bytes, flops_unit, registers_per_thread, static_shared_bytes;
  std::vector<definition::DeviceRule> device_rules;

  // The index of a dim or parameter, -1 if there is none.
  int DimIndex(std::string_view name) const;
  int ParameterIndex(std::string_view name) const;
  // What is wrong with a config that ParseConfig does not take.
  absl::Status WhyNoConfig(const v1::Config& config) const;
  const definition::BufferFormula* FindBuffer(std::string_view name) const;
  // Whether a config keeps the constraints that can be judged without a device.
  bool KeepsConstraints(const ResolvedProblem& problem, const Config& config) const;

  // Slot numbers.
  size_t parameters_begin() const { return dims.size(); }
  size_t device_begin() const { return dims.size() + parameters.size(); }
  size_t kernel_begin() const { return device_begin() + device_names.size(); }
  size_t slot_count() const { return kernel_begin() + 3; }

  // The values of the first slots, those of dims: all that formulas read that IsOfProblem is true of.
  std::vector<Value> DimSlots(const ResolvedProblem& problem) const;
  // The values of all slots. Names that `config` lacks take their defaults; kernel.* are zero unless given.
  std::vector<Value> Slots(const ResolvedProblem& problem, const Config* config, const DeviceClass* device,
                           const LoadedEntry* loaded) const;

  // The tolerance of a problem, with every error that evaluating it can make.
  absl::StatusOr<TolerancePlan> EvaluateTolerance(const std::vector<Value>& slots) const;
  // The size of a buffer in a problem, with every error that evaluating the buffer can make.
  absl::StatusOr<definition::BufferSize> EvaluateBufferSize(const definition::BufferFormula& buffer,
                                                            const ResolvedProblem& problem,
                                                            const std::vector<Value>& slots) const;
  // The size with all that does not depend on the problem; fails as EvaluateBufferSize does.
  absl::StatusOr<BufferPlan> EvaluateBuffer(const definition::BufferFormula& buffer, const ResolvedProblem& problem,
                                            const std::vector<Value>& slots) const;
};

struct KernelPlanAccess {
  using Impl = KernelPlan::Impl;
  static std::shared_ptr<const KernelPlan> Make(std::shared_ptr<const Impl> impl) {
    return std::shared_ptr<const KernelPlan>(new KernelPlan(std::move(impl)));
  }
  static const Impl& Of(const KernelPlan& plan) { return *plan.impl_; }
};

namespace definition {

// Evaluation with the field's path before the message.
absl::StatusOr<int64_t> EvaluateInt(const Formula& formula, const std::vector<Value>& slots);
absl::StatusOr<double> EvaluateFloat(const Formula& formula, const std::vector<Value>& slots);
absl::StatusOr<bool> EvaluateBool(const Formula& formula, const std::vector<Value>& slots);
absl::StatusOr<std::string> EvaluateString(const Formula& formula, const std::vector<Value>& slots);
absl::StatusOr<Value> Evaluate(const Formula& formula, const std::vector<Value>& slots);

// Whether the files of a buffer fit what it is in a problem. None is of scratch memory, whose length configs decide.
absl::Status CheckFilesOf(const BufferFormula& formula, const BufferPlan& buffer);

// As the functions of KernelPlan, those of launches with every expression evaluated.
absl::StatusOr<ResolvedProblem> ResolveProblem(const KernelPlanAccess::Impl& impl, const v1::Problem& problem);
absl::Status CheckDataFiles(const KernelPlanAccess::Impl& impl, const ResolvedProblem& problem);
absl::StatusOr<std::vector<StepPlan>> EvaluateSteps(const KernelPlanAccess::Impl& impl, Sequence sequence,
                                                    const ResolvedProblem& problem, const Config& config,
                                                    const DeviceClass& device,
                                                    const std::map<std::string, LoadedEntry>* loaded,
                                                    const KernelPlan::ActiveBlocks& active_blocks);
absl::Status CheckProblem(const KernelPlanAccess::Impl& impl, const ResolvedProblem& problem,
                          const Config& default_config, const DeviceClass& device);
absl::StatusOr<std::string> FirstBrokenDeviceLimit(const KernelPlanAccess::Impl& impl, const ResolvedProblem& problem,
                                                   const Config& config, const DeviceClass& device);

}  // namespace definition
}  // namespace tunefarm
