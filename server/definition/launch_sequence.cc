#include "server/definition/launch_sequence.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstring>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/definition/data_type.h"
#include "server/definition/field_error.h"
#include "server/definition/plan_impl.h"
#include "server/definition/value_proto.h"

namespace tunefarm {
namespace {

using definition::BufferFormula;
using definition::DeviceRule;
using definition::FieldError;
using definition::Formula;
using definition::StepFormula;
using definition::TensorMapFormula;

// The words of an expression that may be names, without what is inside strings.
std::vector<std::string> WordsOf(std::string_view text) {
  std::vector<std::string> words;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '\'' || c == '"') {
      for (++at; at < text.size() && text[at] != c; ++at) at += text[at] == '\\' ? 1 : 0;
      ++at;
      continue;
    }
    const auto is_part = [](char part) { return std::isalnum(static_cast<unsigned char>(part)) || part == '_'; };
    if (!is_part(c)) {
      ++at;
      continue;
    }
    size_t end = at;
    while (end < text.size() && (is_part(text[end]) || text[end] == '.')) ++end;
    if (!std::isdigit(static_cast<unsigned char>(c))) words.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

std::string LittleEndian(uint64_t bits, size_t size) {
  std::string bytes(size, '\0');
  std::memcpy(bytes.data(), &bits, size);
  return bytes;
}

// One element of a constant fill.
absl::StatusOr<std::string> ElementOf(const BufferPlan& buffer, double value) {
  const size_t size = SizeOf(buffer.type);
  if (!IsFloatType(buffer.type)) {
    const auto lowest = static_cast<double>(definition::RangeOf(buffer.type).lowest);
    // One above the highest value is a double, which the highest of 64 bits is not.
    const double end = std::ldexp(1.0, static_cast<int>(8 * size) - (lowest < 0 ? 1 : 0));
    if (value != std::floor(value) || value < lowest || value >= end) {
      return InvalidArgument("{} is no value of {}", value, NameOf(buffer.type));
    }
    const uint64_t bits = value < 0 ? static_cast<uint64_t>(static_cast<int64_t>(value)) : static_cast<uint64_t>(value);
    return LittleEndian(bits, size);
  }
  ASSIGN_OR_RETURN(const ScalarPlan scalar, definition::EncodeScalar(buffer.type, Value(value)));
  return std::string(reinterpret_cast<const char*>(scalar.bytes.data()), size);
}

class SequenceMaker {
 public:
  SequenceMaker(const KernelPlanAccess::Impl& impl, const ResolvedProblem& problem,
                const std::map<std::string, std::string>& symbols, std::vector<Value> slots)
      : impl_(impl), problem_(problem), symbols_(symbols), slots_(std::move(slots)) {}

  absl::StatusOr<v1::LaunchSequence> Make() {
    RETURN_IF_ERROR(AddNames());
    RETURN_IF_ERROR(AddSteps(Sequence::kPreparePerConfig, sequence_.mutable_prepare()));
    RETURN_IF_ERROR(AddSteps(Sequence::kLaunches, sequence_.mutable_launches()));
    for (const bool is_scratch : {false, true}) {
      for (const BufferFormula& buffer : impl_.buffers) {
        if ((buffer.access == v1::ACCESS_SCRATCH) != is_scratch) continue;
        const std::set<std::string>& kept = is_scratch ? used_buffers_ : named_buffers_;
        if (buffer.is_constant_symbol || kept.count(buffer.name) > 0) RETURN_IF_ERROR(AddBuffer(buffer));
      }
    }
    for (const Formula& constraint : impl_.constraints) RETURN_IF_ERROR(AddConstraint(constraint));
    for (const DeviceRule& rule : impl_.device_rules) RETURN_IF_ERROR(AddDeviceRule(rule));
    ListUsedNames();
    return std::move(sequence_);
  }

 private:
  absl::Status AddNames() {
    for (size_t i = 0; i < impl_.dims.size(); ++i) {
      const std::string& name = impl_.dims[i].name;
      if (!IsOpenDim(impl_.kernel.dims(static_cast<int>(i)))) {
        RETURN_IF_ERROR(AddKnown(name, slots_[i]));
        continue;
      }
      RETURN_IF_ERROR(names_.AddVariable(name, ValueType::kInt).status());
      sequence_.add_open_dims(name);
    }
    for (size_t i = 0; i < impl_.parameters.size(); ++i) {
      RETURN_IF_ERROR(AddKnown(impl_.parameters[i].parameter.name, slots_[impl_.parameters_begin() + i]));
    }
    for (size_t i = 0; i < impl_.device_names.size(); ++i) {
      const Value& value = slots_[impl_.device_begin() + i];
      // The kind of device is the kernel's; its numbers are the launching device's.
      RETURN_IF_ERROR(value.is_int() ? names_.AddVariable(impl_.device_names[i], ValueType::kInt).status()
                                     : AddKnown(impl_.device_names[i], value));
    }
    for (const std::string_view name : {"kernel.max_active_blocks", "kernel.registers", "kernel.static_shared_bytes"}) {
      RETURN_IF_ERROR(names_.AddVariable(name, ValueType::kInt).status());
    }
    for (const definition::DerivedPlan& derived : impl_.derived) {
      ASSIGN_OR_RETURN(const Expression expression, Compile(derived.formula));
      std::optional<Value> known;
      if (expression.Variables().empty()) {
        // What fails may stand where it is never evaluated, so that it stays a text.
        const absl::StatusOr<Value> value = expression.Evaluate();
        if (value.ok() && !(value->is_float() && !std::isfinite(value->float_value()))) known = *value;
      }
      RETURN_IF_ERROR(known.has_value() ? AddKnown(derived.name, *known)
                                        : names_.AddDerived(derived.name, derived.text));
    }
    return absl::OkStatus();
  }

  absl::Status AddKnown(const std::string& name, const Value& value) {
    known_.emplace(name, value);
    return names_.AddConstant(name, value);
  }

  absl::StatusOr<Expression> Compile(const Formula& formula) const {
    auto compiled = Expression::Compile(formula.expression.text(), names_);
    if (!compiled.ok()) return definition::ExpressionError(formula.path, compiled.status());
    return compiled;
  }

  enum class Kind { kInt, kNumber, kString };

  // A literal, or the text where something open decides the value.
  absl::StatusOr<std::string> Text(const Formula& formula, Kind kind) {
    ASSIGN_OR_RETURN(const Expression expression, Compile(formula));
    if (!expression.Variables().empty()) {
      Use(formula.expression.text());
      return formula.expression.text();
    }
    absl::StatusOr<Value> value = expression.Evaluate();
    if (value.ok() && kind == Kind::kInt) {
      const absl::StatusOr<int64_t> number = expression.EvaluateInt(nullptr);
      value = number.ok() ? absl::StatusOr<Value>(Value(*number)) : number.status();
    }
    if (!value.ok()) return definition::ExpressionError(formula.path, value.status());
    return value->ToLiteral();
  }

  template <typename List>
  absl::Status Texts(const std::vector<Formula>& formulas, List* texts) {
    for (const Formula& formula : formulas) {
      ASSIGN_OR_RETURN(std::string text, Text(formula, Kind::kInt));
      texts->Add(std::move(text));
    }
    return absl::OkStatus();
  }

  // nullopt where something open decides.
  absl::StatusOr<std::optional<bool>> KnownTruth(const Formula& formula) const {
    ASSIGN_OR_RETURN(const Expression expression, Compile(formula));
    if (!expression.Variables().empty()) return std::optional<bool>();
    const absl::StatusOr<bool> truth = expression.EvaluateBool(static_cast<const Value*>(nullptr));
    if (!truth.ok()) return definition::ExpressionError(formula.path, truth.status());
    return std::optional<bool>(*truth);
  }

  void Use(const std::string& text) {
    for (const std::string& word : WordsOf(text)) {
      if (!used_names_.insert(word).second) continue;
      for (const definition::DerivedPlan& derived : impl_.derived) {
        if (derived.name == word && known_.count(word) == 0) Use(derived.text);
      }
    }
  }

  void ListUsedNames() {
    for (const auto& [name, value] : known_) {
      if (used_names_.count(name) > 0) (*sequence_.mutable_values())[name] = definition::ToProto(value);
    }
    for (const definition::DerivedPlan& derived : impl_.derived) {
      if (used_names_.count(derived.name) == 0 || known_.count(derived.name) > 0) continue;
      v1::Derived* const own = sequence_.add_derived();
      own->set_name(derived.name);
      own->set_expression(derived.text);
    }
  }

  absl::Status AddSteps(Sequence which, google::protobuf::RepeatedPtrField<v1::LaunchStep>* steps) {
    const auto formulas = impl_.sequences.find(which);
    if (formulas == impl_.sequences.end()) return absl::OkStatus();
    for (const StepFormula& formula : formulas->second) {
      NoteBuffers(formula, &named_buffers_);
      std::string when;
      if (formula.when.has_value()) {
        ASSIGN_OR_RETURN(const std::optional<bool> runs, KnownTruth(*formula.when));
        if (runs.has_value() && !*runs) continue;
        if (!runs.has_value()) when = formula.when->expression.text();
        Use(when);
      }
      NoteBuffers(formula, &used_buffers_);
      v1::LaunchStep* const step = steps->Add();
      step->set_name(formula.step.name());
      step->set_when(when);
      switch (formula.kind) {
        case StepPlan::Kind::kKernel:
          RETURN_IF_ERROR(AddLaunch(formula, step->mutable_kernel()));
          break;
        case StepPlan::Kind::kMemset:
          *step->mutable_memset() = formula.step.memset();
          break;
        case StepPlan::Kind::kLibraryOp:
          return FieldError(formula.path + ".library_op", definition::kNotSupported,
                            "an operation of a library is launched by a worker alone; write a kernel that does it");
      }
    }
    return absl::OkStatus();
  }

  // The buffers that a step names, also those under its tensor maps.
  void NoteBuffers(const StepFormula& formula, std::set<std::string>* names) const {
    if (formula.kind == StepPlan::Kind::kMemset) names->insert(formula.step.memset().buffer());
    if (formula.kind != StepPlan::Kind::kKernel) return;
    for (const std::string& argument : formula.step.kernel().arguments()) {
      const auto map = impl_.tensor_maps.find(argument);
      names->insert(map == impl_.tensor_maps.end() ? argument : map->second.buffer);
    }
  }

  absl::Status AddLaunch(const StepFormula& formula, v1::SymbolLaunch* launch) {
    const v1::KernelLaunch& own = formula.step.kernel();
    const auto symbol = symbols_.find(own.entry());
    if (symbol == symbols_.end() && !definition::IsIdentifier(own.entry())) {
      return FieldError(formula.path + ".kernel.entry", definition::kUnknownName, "the binary says no symbol for '{}'",
                        own.entry());
    }
    launch->set_symbol(symbol == symbols_.end() ? own.entry() : symbol->second);
    for (const auto& [formulas, texts] :
         {std::pair{&formula.grid, launch->mutable_grid()}, std::pair{&formula.block, launch->mutable_block()},
          std::pair{&formula.cluster, launch->mutable_cluster()}}) {
      if (formulas->empty()) continue;
      RETURN_IF_ERROR(Texts(*formulas, texts));
      while (texts->size() < 3) texts->Add("1");
    }
    launch->set_dynamic_shared_bytes("0");
    if (formula.dynamic_shared_bytes.has_value()) {
      ASSIGN_OR_RETURN(*launch->mutable_dynamic_shared_bytes(), Text(*formula.dynamic_shared_bytes, Kind::kInt));
    }
    if (own.has_attributes()) *launch->mutable_attributes() = own.attributes();
    for (const std::string& name : own.arguments()) RETURN_IF_ERROR(AddArgument(name, launch->add_arguments()));
    return absl::OkStatus();
  }

  absl::Status AddArgument(const std::string& name, v1::LaunchArgument* argument) {
    if (const auto scalar = impl_.scalars.find(name); scalar != impl_.scalars.end()) {
      argument->mutable_scalar()->set_data_type(scalar->second.type);
      ASSIGN_OR_RETURN(*argument->mutable_scalar()->mutable_value(), Text(*scalar->second.value, Kind::kNumber));
      return absl::OkStatus();
    }
    const auto map = impl_.tensor_maps.find(name);
    if (map != impl_.tensor_maps.end()) return AddTensorMap(map->second, argument->mutable_tensor_map());
    argument->set_buffer(name);
    return absl::OkStatus();
  }

  absl::Status AddTensorMap(const TensorMapFormula& formula, v1::TensorMap* map) {
    map->set_buffer(formula.buffer);
    map->set_data_type(formula.type);
    if (formula.type == v1::DATA_TYPE_UNSPECIFIED) {
      ASSIGN_OR_RETURN(const BufferPlan buffer,
                       impl_.EvaluateBuffer(*impl_.FindBuffer(formula.buffer), problem_, slots_));
      map->set_data_type(buffer.type);
    }
    RETURN_IF_ERROR(Texts(formula.dims, map->mutable_dims()));
    RETURN_IF_ERROR(Texts(formula.byte_strides, map->mutable_byte_strides()));
    RETURN_IF_ERROR(Texts(formula.box, map->mutable_box()));
    RETURN_IF_ERROR(Texts(formula.element_strides, map->mutable_element_strides()));
    ASSIGN_OR_RETURN(*map->mutable_swizzle(), Text(*formula.swizzle, Kind::kString));
    ASSIGN_OR_RETURN(*map->mutable_interleave(), Text(*formula.interleave, Kind::kString));
    ASSIGN_OR_RETURN(*map->mutable_l2_promotion(), Text(*formula.l2_promotion, Kind::kString));
    ASSIGN_OR_RETURN(*map->mutable_base_offset_bytes(), Text(*formula.base_offset_bytes, Kind::kInt));
    map->set_oob_fill_nan(formula.oob_fill_nan);
    return absl::OkStatus();
  }

  absl::Status AddBuffer(const BufferFormula& formula) {
    ASSIGN_OR_RETURN(const BufferPlan plan, impl_.EvaluateBuffer(formula, problem_, slots_));
    v1::LaunchBuffer* const buffer = sequence_.add_buffers();
    buffer->set_name(plan.name);
    buffer->set_data_type(plan.type);
    ASSIGN_OR_RETURN(*buffer->mutable_length(), Text(*formula.length, Kind::kInt));
    buffer->set_access(plan.access);
    buffer->set_symbol(plan.symbol);
    const bool is_given = plan.access == v1::ACCESS_IN || plan.access == v1::ACCESS_INOUT;
    if (is_given || plan.init == v1::INIT_POISON) return absl::OkStatus();
    const bool is_constant = plan.init == v1::INIT_FILL && plan.fill.has_constant();
    if (plan.init == v1::INIT_ZERO || plan.fill.has_zeros() ||
        (is_constant && plan.fill.constant().value() == 0 && !std::signbit(plan.fill.constant().value()))) {
      buffer->set_init(v1::INIT_ZERO);
      return absl::OkStatus();
    }
    if (!is_constant) {
      return FieldError(formula.path + ".fill", definition::kNotSupported,
                        "'{}' must begin with data that a tuning makes; what a launch can make is zeros and one "
                        "constant in every element",
                        plan.name);
    }
    buffer->set_init(v1::INIT_FILL);
    const absl::StatusOr<std::string> element = ElementOf(plan, plan.fill.constant().value());
    if (!element.ok()) {
      return FieldError(formula.path + ".fill.constant.value", definition::kValueOutOfRange, "{}",
                        MessageOf(element.status()));
    }
    buffer->set_fill(*element);
    return absl::OkStatus();
  }

  absl::Status AddConstraint(const Formula& formula) {
    ASSIGN_OR_RETURN(const std::optional<bool> holds, KnownTruth(formula));
    if (holds.has_value() && !*holds) {
      return FieldError(formula.path, definition::kValueOutOfRange, "the config breaks the constraint {}",
                        formula.expression.text());
    }
    if (holds.has_value()) return absl::OkStatus();
    Use(formula.expression.text());
    sequence_.add_constraints(formula.expression.text());
    return absl::OkStatus();
  }

  // Only what open dims may break: the others hold for the config. Every launch checks the blocks along x by itself.
  absl::Status AddDeviceRule(const DeviceRule& rule) {
    if (rule.kind == DeviceRule::Kind::kGridExtent && rule.axis == 0) return absl::OkStatus();
    const auto expression = Expression::Compile(rule.text, names_);
    if (!expression.ok()) return definition::ExpressionError(rule.subject, expression.status());
    const std::vector<int>& slots = expression->Variables();
    // Open dims have the first slots.
    if (std::none_of(slots.begin(), slots.end(), [this](int slot) { return slot < sequence_.open_dims_size(); })) {
      return absl::OkStatus();
    }
    Use(rule.text);
    sequence_.add_constraints(rule.text);
    return absl::OkStatus();
  }

  const KernelPlanAccess::Impl& impl_;
  const ResolvedProblem& problem_;
  const std::map<std::string, std::string>& symbols_;
  const std::vector<Value> slots_;
  v1::LaunchSequence sequence_;
  SymbolTable names_;
  std::map<std::string, Value> known_;
  std::set<std::string> used_names_;
  std::set<std::string> named_buffers_;  // by any step, whatever its condition
  std::set<std::string> used_buffers_;   // by a step that is kept
};

}  // namespace

bool IsOpenDim(const v1::Dim& dim) {
  return dim.type() == v1::VALUE_TYPE_INT && dim.bind() == v1::BIND_RUN && !dim.inputs_only();
}

absl::StatusOr<v1::LaunchSequence> MakeLaunchSequence(const KernelPlan& plan, const ResolvedProblem& problem,
                                                      const Config& config, const DeviceClass& device,
                                                      const std::map<std::string, std::string>& symbols) {
  if (plan.language() == v1::LANGUAGE_PYTHON) {
    return FieldError("language", definition::kNotSupported,
                      "a kernel in Python makes its launches itself; there are none to write down");
  }
  if (plan.language() == v1::LANGUAGE_TRITON) {
    return FieldError("language", definition::kNotSupported,
                      "how a kernel in Triton is launched lies in its compiled binary, which is not written down yet");
  }
  ASSIGN_OR_RETURN(const std::string broken, plan.FirstBrokenDeviceLimit(problem, config, device));
  if (!broken.empty()) return InvalidArgument("{}", broken);
  const KernelPlanAccess::Impl& impl = KernelPlanAccess::Of(plan);
  return SequenceMaker(impl, problem, symbols, impl.Slots(problem, &config, &device, nullptr)).Make();
}

}  // namespace tunefarm
