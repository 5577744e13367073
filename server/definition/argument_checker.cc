// Arguments: buffers, scalars, constant symbols, tensor maps and tensor descriptors.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>

#include "server/base/format.h"
#include "server/base/status_macros.h"
#include "server/definition/checker.h"
#include "server/definition/data_type.h"
#include "server/definition/field_error.h"
#include "server/definition/value_proto.h"

namespace tunefarm::definition {
namespace {

constexpr int kArgumentsMax = 64;
constexpr size_t kSymbolMax = 1024;
constexpr int kTensorRankMax = 5;

// Whether every value of an integer type's fill can be held by the type.
absl::Status CheckIntegerBound(const std::string& path, v1::DataType type, double value) {
  const IntegerRange range = RangeOf(type);
  if (value == std::floor(value) && value >= static_cast<double>(range.lowest) &&
      value <= static_cast<double>(range.highest)) {
    return absl::OkStatus();
  }
  return FieldError(path, kValueOutOfRange, "{} is no value of {} ({} to {})", value, NameOf(type), range.lowest,
                    range.highest);
}

absl::Status CheckF8E4M3(const std::string& path, v1::DataType type, const v1::Fill& fill) {
  const std::optional<double> beyond = BeyondF8E4M3(type, fill);
  if (!beyond) return absl::OkStatus();
  return FieldError(path, kValueOutOfRange, "{} is beyond the values of {} ({} to {})", *beyond, NameOf(type),
                    -driver_step::kF8E4M3Largest, driver_step::kF8E4M3Largest);
}

class ArgumentChecker {
 public:
  explicit ArgumentChecker(PlanDraft* draft) : draft_(*draft), plan_(*draft->plan) {}

  void Check() {
    v1::Kernel& kernel = plan_.kernel;
    if (kernel.arguments_size() > kArgumentsMax) {
      draft_.Note(FieldError("arguments", kLimitExceeded, "{} arguments are too many; at most {} are allowed",
                             kernel.arguments_size(), kArgumentsMax));
      // None is checked, and none is unknown.
      for (const v1::Argument& argument : kernel.arguments()) draft_.broken.insert(argument.name());
      return;
    }
    // Tensor maps and descriptors name buffers that may be declared after them.
    for (int pass = 0; pass < 2; ++pass) {
      for (int i = 0; i < kernel.arguments_size(); ++i) {
        v1::Argument* argument = kernel.mutable_arguments(i);
        const std::string path = fmt::format("arguments[{}]", i);
        if (pass == 0) {
          if (!draft_.Note(CheckArgument(path, argument))) draft_.broken.insert(argument->name());
        } else if (argument->has_tensor_map() && !argument->name().empty()) {
          draft_.Note(CheckTensorMap(path + ".tensor_map", argument->name(), argument->mutable_tensor_map()));
        } else if (argument->has_tensor_descriptor() && !argument->name().empty()) {
          draft_.Note(
              CheckTensorDescriptor(path + ".tensor_descriptor", argument->name(), argument->tensor_descriptor()));
        }
      }
    }
  }

 private:
  absl::Status CheckArgument(const std::string& path, v1::Argument* argument) {
    const std::string& name = argument->name();
    if (name.empty()) return FieldError(path + ".name", kMissingField, "an argument needs a name");
    if (!IsIdentifier(name)) {
      return FieldError(path + ".name", kInvalidField,
                        "'{}' cannot be a name: write [A-Za-z_][A-Za-z0-9_]*, at most 63 characters",
                        name.substr(0, 64));
    }
    if (!draft_.argument_names.insert(name).second) {
      return FieldError(path + ".name", kDuplicateName, "there is already an argument named '{}'", name);
    }
    switch (argument->kind_case()) {
      case v1::Argument::kBuffer:
        return CheckBuffer(path + ".buffer", name, argument->mutable_buffer());
      case v1::Argument::kScalar:
        return CheckScalar(path + ".scalar", name, argument->mutable_scalar());
      case v1::Argument::kConstantSymbol:
        return CheckConstantSymbol(path + ".constant_symbol", name, argument->mutable_constant_symbol());
      case v1::Argument::kTensorMap:
      case v1::Argument::kTensorDescriptor:
        return absl::OkStatus();
      case v1::Argument::KIND_NOT_SET:
        break;
    }
    return FieldError(path, kMissingField,
                      "argument '{}' needs one of buffer, scalar, constant_symbol, tensor_map and tensor_descriptor",
                      name);
  }

  absl::Status CheckTypeDim(const std::string& path, const std::string& name) {
    const int index = plan_.DimIndex(name);
    if (index < 0) {
      std::vector<std::string> candidates;
      for (const DimPlan& dim : plan_.dims) candidates.push_back(dim.name);
      return FieldError(path, kUnknownDim, "there is no dim '{}'{}", name, DidYouMean(name, candidates));
    }
    const DimPlan& dim = plan_.dims[static_cast<size_t>(index)];
    if (dim.type != ValueType::kString) return FieldError(path, kTypeMismatch, "dim '{}' is not a string dim", name);
    if (dim.inputs_only) return FieldError(path, kConflictingFields, "'{}' has inputs_only; {}", name, kInputsRule);
    for (const Value& value : dim.values) {
      if (!DataTypeOfDim(value.string_value()).has_value()) {
        return FieldError(path, kTypeMismatch,
                          "the value {} of dim '{}' is no data type; write i8, u8, ..., fp8, f16, bf16, f32 or f64",
                          value.ToLiteral(), name);
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckBuffer(const std::string& path, const std::string& name, v1::Buffer* buffer) {
    if ((buffer->data_type() != v1::DATA_TYPE_UNSPECIFIED) == !buffer->data_type_dim().empty()) {
      return FieldError(path + ".data_type", buffer->data_type_dim().empty() ? kMissingField : kConflictingFields,
                        "set exactly one of data_type and data_type_dim");
    }
    if (!buffer->data_type_dim().empty()) {
      RETURN_IF_ERROR(CheckTypeDim(path + ".data_type_dim", buffer->data_type_dim()));
    } else if (!IsKnownType(buffer->data_type())) {
      return FieldError(path + ".data_type", kInvalidField, "the data type is unknown");
    }
    if (buffer->access() == v1::ACCESS_UNSPECIFIED || !v1::Access_IsValid(buffer->access())) {
      return FieldError(path + ".access", kMissingField,
                        "a buffer needs an access: ACCESS_IN, ACCESS_OUT, ACCESS_INOUT or ACCESS_SCRATCH");
    }
    BufferFormula plan;
    plan.name = name;
    plan.path = path;
    plan.type = buffer->data_type();
    plan.type_dim = buffer->data_type_dim();
    const Context& context = buffer->access() == v1::ACCESS_SCRATCH ? kScratchLength : kDimsOnly;
    ASSIGN_OR_RETURN(plan.length, draft_.CompileFormula(path + ".length", buffer->length(), context, Result::kInt));
    RETURN_IF_ERROR(CheckBufferContent(path, buffer));
    RETURN_IF_ERROR(CheckIndexLimit(path + ".index_limit", *buffer, &plan));
    plan.access = buffer->access();
    plan.init = buffer->init();
    plan.restore = buffer->restore();
    if (buffer->has_fill()) plan.fill = buffer->fill();
    plan_.buffers.push_back(std::move(plan));
    return absl::OkStatus();
  }

  absl::Status CheckBufferContent(const std::string& path, v1::Buffer* buffer) {
    if (!v1::Init_IsValid(buffer->init())) return FieldError(path + ".init", kInvalidField, "the init is unknown");
    if (!v1::Restore_IsValid(buffer->restore()))
      return FieldError(path + ".restore", kInvalidField, "the restore is unknown");
    const bool is_input = buffer->access() == v1::ACCESS_IN || buffer->access() == v1::ACCESS_INOUT;
    if (is_input && buffer->init() != v1::INIT_UNSPECIFIED && buffer->init() != v1::INIT_FILL) {
      return FieldError(path + ".init", kConflictingFields, "init is for OUT and SCRATCH buffers; an input has a fill");
    }
    if (buffer->init() == v1::INIT_UNSPECIFIED) buffer->set_init(is_input ? v1::INIT_FILL : v1::INIT_POISON);
    if (buffer->init() != v1::INIT_FILL && buffer->has_fill()) {
      return FieldError(path + ".fill", kConflictingFields, "the fill has no effect without init: INIT_FILL");
    }
    if (buffer->access() == v1::ACCESS_SCRATCH && buffer->fill().has_file()) {
      return FieldError(path + ".fill.file", kConflictingFields,
                        "scratch memory holds no data of its own; fill an IN, INOUT or OUT buffer from the file");
    }
    if (buffer->init() == v1::INIT_FILL) {
      RETURN_IF_ERROR(CheckFill(path + ".fill", buffer->data_type(), buffer->mutable_fill()));
    }
    if (buffer->restore() == v1::RESTORE_PER_SAMPLE) {
      const bool restorable = buffer->access() == v1::ACCESS_INOUT ||
                              (buffer->access() == v1::ACCESS_OUT && buffer->init() != v1::INIT_POISON);
      if (!restorable) {
        return FieldError(path + ".restore", kConflictingFields,
                          "only INOUT buffers, and OUT buffers with init ZERO or FILL, are restored per sample");
      }
    }
    if (buffer->restore() == v1::RESTORE_UNSPECIFIED) buffer->set_restore(v1::RESTORE_NEVER);
    return absl::OkStatus();
  }

  absl::Status CheckIndexLimit(const std::string& path, const v1::Buffer& buffer, BufferFormula* plan) {
    if (buffer.index_limit().empty()) return absl::OkStatus();
    if (buffer.access() != v1::ACCESS_IN && buffer.access() != v1::ACCESS_INOUT) {
      return FieldError(path, kConflictingFields,
                        "what a kernel writes is no index that it reads; leave it out, or write ACCESS_IN or "
                        "ACCESS_INOUT");
    }
    if (buffer.data_type() != v1::DATA_TYPE_UNSPECIFIED && IsFloatType(buffer.data_type())) {
      return FieldError(path, kTypeMismatch, "an index is an integer, and the buffer's type is {}",
                        NameOf(buffer.data_type()));
    }
    ASSIGN_OR_RETURN(plan->index_limit, draft_.CompileOptional(path, buffer.index_limit(), kDimsOnly, Result::kInt));
    return absl::OkStatus();
  }

  // `type` is unspecified where a dim decides it; what depends on it is then checked with the problem.
  absl::Status CheckFill(const std::string& path, v1::DataType type, v1::Fill* fill) {
    const bool is_integer = type != v1::DATA_TYPE_UNSPECIFIED && !IsFloatType(type);
    switch (fill->kind_case()) {
      case v1::Fill::KIND_NOT_SET:
        if (type != v1::DATA_TYPE_UNSPECIFIED) *fill = DefaultFill(type);
        return absl::OkStatus();
      case v1::Fill::kZeros:
        return absl::OkStatus();
      case v1::Fill::kConstant:
        if (!std::isfinite(fill->constant().value())) {
          return FieldError(path + ".constant.value", kValueOutOfRange, "the value is not a finite number");
        }
        return is_integer ? CheckIntegerBound(path + ".constant.value", type, fill->constant().value())
                          : CheckF8E4M3(path + ".constant.value", type, *fill);
      case v1::Fill::kNormal:
        if (is_integer) {
          return FieldError(path + ".normal", kTypeMismatch, "normal fills are for floats; use uniform for {}",
                            NameOf(type));
        }
        if (fill->normal().deviation() == 0) fill->mutable_normal()->set_deviation(1);
        if (!std::isfinite(fill->normal().mean()) || !std::isfinite(fill->normal().deviation()) ||
            fill->normal().deviation() < 0) {
          return FieldError(path + ".normal", kValueOutOfRange,
                            "mean and deviation must be finite, the deviation positive");
        }
        return absl::OkStatus();
      case v1::Fill::kUniform:
        if (!std::isfinite(fill->uniform().low()) || !std::isfinite(fill->uniform().high()) ||
            fill->uniform().high() <= fill->uniform().low()) {
          return FieldError(path + ".uniform.high", kValueOutOfRange, "high {} is not above low {}",
                            fill->uniform().high(), fill->uniform().low());
        }
        if (!is_integer) return CheckF8E4M3(path + ".uniform", type, *fill);
        RETURN_IF_ERROR(CheckIntegerBound(path + ".uniform.low", type, fill->uniform().low()));
        return CheckIntegerBound(path + ".uniform.high", type, fill->uniform().high());
      case v1::Fill::kIota:
        if (fill->iota().step() == 0) fill->mutable_iota()->set_step(1);
        if (!std::isfinite(fill->iota().start()) || !std::isfinite(fill->iota().step())) {
          return FieldError(path + ".iota", kValueOutOfRange, "start and step must be finite");
        }
        return absl::OkStatus();
      case v1::Fill::kPrepareStep:
        if (fill->prepare_step().empty()) {
          return FieldError(path + ".prepare_step", kMissingField, "the name of the prepare step is missing");
        }
        return absl::OkStatus();  // Whether there is such a step is checked with the steps.
      case v1::Fill::kFile:
        return CheckDataFile(path + ".file", type, fill->file());
    }
    return absl::OkStatus();
  }

  absl::Status CheckConstantSymbol(const std::string& path, const std::string& name, v1::ConstantSymbol* symbol) {
    if (!draft_.is_cuda()) {
      return FieldError(path, kConflictingFields, "constant symbols need LANGUAGE_CUDA; pass a buffer instead");
    }
    if (symbol->symbol().empty()) return FieldError(path + ".symbol", kMissingField, "the symbol's name is missing");
    if (symbol->symbol().size() > kSymbolMax) {
      return FieldError(path + ".symbol", kLimitExceeded, "the name has {} bytes; at most {} are allowed",
                        symbol->symbol().size(), kSymbolMax);
    }
    if (!IsKnownType(symbol->data_type())) {
      return FieldError(path + ".data_type", kMissingField, "a constant symbol needs a data type");
    }
    BufferFormula plan;
    plan.name = name;
    plan.path = path;
    plan.type = symbol->data_type();
    plan.is_constant_symbol = true;
    plan.symbol = symbol->symbol();
    // Every function of a binary sees a symbol, also those that are tuned.
    constexpr Context kSymbolLength = {kUsesDims, kDimsOnly.rule};
    ASSIGN_OR_RETURN(plan.length,
                     draft_.CompileFormula(path + ".length", symbol->length(), kSymbolLength, Result::kInt));
    RETURN_IF_ERROR(CheckFill(path + ".fill", symbol->data_type(), symbol->mutable_fill()));
    plan.fill = symbol->fill();
    plan_.buffers.push_back(std::move(plan));
    return absl::OkStatus();
  }

  absl::Status CheckScalar(const std::string& path, const std::string& name, v1::Scalar* scalar) {
    if (!IsKnownType(scalar->data_type()))
      return FieldError(path + ".data_type", kMissingField, "a scalar needs a data type");
    if (draft_.is_triton() && IsFloatType(scalar->data_type()) && SizeOf(scalar->data_type()) < sizeof(float)) {
      return FieldError(path + ".data_type", kNotSupported, "Triton is passed no scalars of type {}; write F32",
                        NameOf(scalar->data_type()));
    }
    const Result result = IsFloatType(scalar->data_type()) ? Result::kNumber : Result::kInt;
    ASSIGN_OR_RETURN(Formula value,
                     draft_.CompileFormula(path + ".value", scalar->value(), WithInputs(kLaunchContext), result));
    if (!draft_.is_cuda() && (value.uses & kUsesKernel) != 0) {
      return FieldError(path + ".value", kConflictingFields, "kernel.* is known only for LANGUAGE_CUDA");
    }
    if (scalar->do_not_specialize() && !draft_.is_triton()) {
      return FieldError(path + ".do_not_specialize", kConflictingFields,
                        "only LANGUAGE_TRITON compiles for the values of scalars; leave it out");
    }
    plan_.scalars.emplace(name, ScalarFormula{scalar->data_type(), std::move(value), !scalar->do_not_specialize()});
    return absl::OkStatus();
  }

  absl::Status CheckTensorMap(const std::string& path, const std::string& name, v1::TensorMap* map) {
    if (!draft_.is_cuda()) return FieldError(path, kConflictingFields, "tensor maps need LANGUAGE_CUDA");
    TensorMapFormula plan;
    plan.path = path;
    ASSIGN_OR_RETURN(const BufferFormula* buffer, draft_.FindBuffer(path + ".buffer", map->buffer()));
    plan.buffer = buffer->name;
    if (map->data_type() == v1::DATA_TYPE_UNSPECIFIED) map->set_data_type(buffer->type);
    if (map->data_type() != v1::DATA_TYPE_UNSPECIFIED && !IsKnownType(map->data_type())) {
      return FieldError(path + ".data_type", kInvalidField, "the data type is unknown");
    }
    plan.type = map->data_type();
    RETURN_IF_ERROR(CheckNanFill(path, map->oob_fill_nan(), plan.type));
    const int rank = map->dims_size();
    if (rank < 1 || rank > kTensorRankMax) {
      return FieldError(path + ".dims", rank == 0 ? kMissingField : kLimitExceeded,
                        "a tensor map has 1 to {} dims, not {}", kTensorRankMax, rank);
    }
    if (map->element_strides_size() == 0) {
      for (int i = 0; i < rank; ++i) map->add_element_strides("1");
    }
    for (const auto& [field, size, wanted] :
         {std::tuple<std::string_view, int, int>{"byte_strides", map->byte_strides_size(), rank - 1},
          {"box", map->box_size(), rank},
          {"element_strides", map->element_strides_size(), rank}}) {
      if (size != wanted) {
        return FieldError(fmt::format("{}.{}", path, field), kConflictingFields, "{} for {}; {} needed",
                          FormatCount(size, "entry", "entries"), FormatCount(rank, "dim"),
                          FormatCount(wanted, "is", "are"));
      }
    }
    for (std::string* mode : {map->mutable_swizzle(), map->mutable_interleave(), map->mutable_l2_promotion()}) {
      if (mode->empty()) *mode = "'none'";
    }
    if (map->base_offset_bytes().empty()) map->set_base_offset_bytes("0");
    constexpr Context kContext = WithInputs(kConfigContext);
    ASSIGN_OR_RETURN(plan.dims, draft_.CompileList(path + ".dims", map->dims(), kContext, Result::kInt));
    ASSIGN_OR_RETURN(plan.byte_strides,
                     draft_.CompileList(path + ".byte_strides", map->byte_strides(), kContext, Result::kInt));
    ASSIGN_OR_RETURN(plan.box, draft_.CompileList(path + ".box", map->box(), kContext, Result::kInt));
    ASSIGN_OR_RETURN(plan.element_strides,
                     draft_.CompileList(path + ".element_strides", map->element_strides(), kContext, Result::kInt));
    ASSIGN_OR_RETURN(plan.swizzle, draft_.CompileFormula(path + ".swizzle", map->swizzle(), kContext, Result::kString));
    ASSIGN_OR_RETURN(plan.interleave,
                     draft_.CompileFormula(path + ".interleave", map->interleave(), kContext, Result::kString));
    ASSIGN_OR_RETURN(plan.l2_promotion,
                     draft_.CompileFormula(path + ".l2_promotion", map->l2_promotion(), kContext, Result::kString));
    ASSIGN_OR_RETURN(plan.base_offset_bytes, draft_.CompileFormula(path + ".base_offset_bytes",
                                                                   map->base_offset_bytes(), kContext, Result::kInt));
    plan.oob_fill_nan = map->oob_fill_nan();
    plan_.tensor_maps.emplace(name, std::move(plan));
    return absl::OkStatus();
  }

  absl::Status CheckTensorDescriptor(const std::string& path, const std::string& name,
                                     const v1::TensorDescriptor& descriptor) {
    if (!draft_.is_triton()) {
      return FieldError(path, kConflictingFields, "tensor descriptors need LANGUAGE_TRITON{}",
                        draft_.is_cuda() ? "; write a tensor_map" : "");
    }
    TensorDescriptorFormula plan;
    plan.path = path;
    ASSIGN_OR_RETURN(const BufferFormula* buffer, draft_.FindBuffer(path + ".buffer", descriptor.buffer()));
    plan.buffer = buffer->name;
    const int rank = descriptor.shape_size();
    if (rank < 1 || rank > kTensorRankMax) {
      return FieldError(path + ".shape", rank == 0 ? kMissingField : kLimitExceeded,
                        "a tensor descriptor has 1 to {} extents, not {}", kTensorRankMax, rank);
    }
    if (descriptor.strides_size() != 0 && descriptor.strides_size() != rank - 1) {
      return FieldError(path + ".strides", kConflictingFields, "{} for {}; {} needed, for the last dimension none",
                        FormatCount(descriptor.strides_size(), "entry", "entries"), FormatCount(rank, "extent"),
                        FormatCount(rank - 1, "is", "are"));
    }
    if (descriptor.block_shape_size() != rank) {
      return FieldError(path + ".block_shape", kConflictingFields, "{} for {}; {} needed",
                        FormatCount(descriptor.block_shape_size(), "entry", "entries"), FormatCount(rank, "extent"),
                        FormatCount(rank, "is", "are"));
    }
    if (descriptor.oob_fill_nan() && buffer->type != v1::DATA_TYPE_UNSPECIFIED && !IsFloatType(buffer->type)) {
      return FieldError(path + ".oob_fill_nan", kTypeMismatch, "{} has no NaN; leave it out", NameOf(buffer->type));
    }
    RETURN_IF_ERROR(CheckNanFill(path, descriptor.oob_fill_nan(), buffer->type));
    constexpr Context kContext = WithInputs(kConfigContext);
    ASSIGN_OR_RETURN(plan.shape, draft_.CompileList(path + ".shape", descriptor.shape(), kContext, Result::kInt));
    ASSIGN_OR_RETURN(plan.strides, draft_.CompileList(path + ".strides", descriptor.strides(), kContext, Result::kInt));
    ASSIGN_OR_RETURN(plan.block_shape,
                     draft_.CompileList(path + ".block_shape", descriptor.block_shape(), kContext, Result::kInt));
    plan.oob_fill_nan = descriptor.oob_fill_nan();
    plan_.tensor_descriptors.emplace(name, std::move(plan));
    return absl::OkStatus();
  }

  PlanDraft& draft_;
  KernelPlanAccess::Impl& plan_;
};

}  // namespace

void CheckArguments(PlanDraft* draft) { ArgumentChecker(draft).Check(); }

}  // namespace tunefarm::definition
