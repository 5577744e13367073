// T1's arguments, their data, and what results are compared with.
#include <algorithm>
#include <cmath>
#include <utility>

#include "server/base/status_macros.h"
#include "server/interchange/t1_kernel_maker.h"

namespace tunefarm::interchange {
namespace {

constexpr double kToleranceDefault = 1e-4;

bool IsFloat(v1::DataType type) {
  return type == v1::DATA_TYPE_F16 || type == v1::DATA_TYPE_F32 || type == v1::DATA_TYPE_F64;
}

const char* CxxTypeOf(v1::DataType type) {
  switch (type) {
    case v1::DATA_TYPE_I8:
      return "signed char";
    case v1::DATA_TYPE_U8:
      return "unsigned char";
    case v1::DATA_TYPE_I16:
      return "short";
    case v1::DATA_TYPE_U16:
      return "unsigned short";
    case v1::DATA_TYPE_I32:
      return "int";
    case v1::DATA_TYPE_U32:
      return "unsigned int";
    case v1::DATA_TYPE_I64:
      return "long long";
    case v1::DATA_TYPE_U64:
      return "unsigned long long";
    case v1::DATA_TYPE_F32:
      return "float";
    case v1::DATA_TYPE_F64:
      return "double";
    default:
      return nullptr;
  }
}

}  // namespace

void KernelMaker::PlanReference() {
  if (options_.is_unverified || options_.reference_kernel.has_value() || t1_.references.empty()) return;
  for (const T1Reference& reference : t1_.references) {
    if (reference.fill == T1Argument::Fill::kConstant || reference.fill == T1Argument::Fill::kGenerator) continue;
    Note(fmt::format(
        "ReferenceArguments: the expected values of {} come from {}, which is not read; results are "
        "compared with those of the default "
        "config instead. A kernel to compare with can be named with --reference.",
        reference.target,
        reference.data_source.has_value() ? "'" + reference.data_source->text.substr(0, 100) + "'" : "another place"));
    return;
  }
  for (const T1Reference& reference : t1_.references) targets_.insert(reference.target);
}

absl::StatusOr<std::string> KernelMaker::Length(const T1Argument& argument) const {
  const absl::StatusOr<PythonText> python = PythonText::Parse(argument.size->text);
  if (!python.ok()) return InText(*argument.size, python.status());
  PythonTranslation lists;
  lists.elements["ProblemSize"] = problem_;
  PythonTranslation singles = lists;
  for (const T1Parameter& parameter : t1_.parameters) {
    PythonValue::List list;
    for (const Value& value : parameter.values) {
      if (value.is_int()) list.emplace_back(value.int_value());
      if (value.is_float()) list.emplace_back(value.float_value());
      if (value.is_bool()) list.emplace_back(value.bool_value());
      if (value.is_string()) list.emplace_back(value.string_value());
    }
    singles.constants[parameter.name] = list.size() == 1 ? list[0] : PythonValue(list);
    lists.constants[parameter.name] = PythonValue(std::move(list));
  }
  // Integers in the file may be written as whole floats ("2 * 1024 / 2").
  absl::StatusOr<std::string> written = python->ToExpression(lists);
  if (!written.ok()) written = python->ToExpression(singles);
  if (!written.ok()) return InText(*argument.size, written.status());
  SymbolTable symbols;
  for (const v1::Dim& dim : made_.kernel.dims())
    RETURN_IF_ERROR(symbols.AddVariable(dim.name(), ValueType::kInt).status());
  const absl::StatusOr<Expression> expression = Expression::Compile(*written, symbols);
  if (!expression.ok()) {
    return argument.size->ref.Error(kNotMappable, "the size of a vector must not depend on the config: {}",
                                    MessageOf(expression.status()));
  }
  std::vector<Value> sizes;
  for (const v1::Dim& dim : made_.kernel.dims()) sizes.emplace_back(int64_t{dim.default_value().int_value()});
  const absl::StatusOr<double> elements = expression->EvaluateFloat(sizes.data());
  if (!elements.ok()) return argument.size->ref.Error(kBadExpression, "{}", MessageOf(elements.status()));
  if (*elements < 1) return argument.size->ref.Error(kBadField, "a vector has at least one element, not {}", *elements);
  std::string length = expression->result_type() == ValueType::kInt ? *written : fmt::format("int({})", *written);
  if (argument.width > 1) length = fmt::format("({}) * {}", length, argument.width);
  return length;
}

absl::Status KernelMaker::AddArguments() {
  if (t1_.arguments.empty()) Note("The file names no Arguments: the kernel is called without any.");
  for (const T1Argument& argument : t1_.arguments) {
    if (argument.memory == T1Argument::Memory::kScalar) {
      RETURN_IF_ERROR(AddScalar(argument));
      passed_.push_back(argument.name);
      continue;
    }
    if (argument.memory == T1Argument::Memory::kVector) {
      RETURN_IF_ERROR(AddBuffer(argument));
      passed_.push_back(argument.name);
    }
    if (argument.memory == T1Argument::Memory::kSymbol || argument.is_also_symbol) RETURN_IF_ERROR(AddSymbol(argument));
  }
  return absl::OkStatus();
}

absl::Status KernelMaker::AddScalar(const T1Argument& argument) {
  if (argument.width != 1) return argument.ref.Error(kNotMappable, "scalars of vector types have no counterpart");
  if (!argument.fill_value.has_value()) return argument.ref.Error(kBadField, "a scalar needs a \"FillValue\"");
  v1::Argument* added = kernel().add_arguments();
  added->set_name(argument.name);
  v1::Scalar* scalar = added->mutable_scalar();
  scalar->set_data_type(argument.type);
  const bool is_float = IsFloat(argument.type);
  const double value = *argument.fill_value;
  if (!is_float && !(value >= -9223372036854775808.0 && value < 9223372036854775808.0)) {
    return argument.ref.Error(kBadField, "{} does not fit in an integer", value);
  }
  scalar->set_value(is_float ? Value(value).ToText() : std::to_string(static_cast<int64_t>(value)));
  return absl::OkStatus();
}

absl::StatusOr<v1::Fill> KernelMaker::FillOf(const T1Argument& argument, const std::string& length) {
  v1::Fill fill;
  const bool is_float = IsFloat(argument.type);
  switch (argument.fill) {
    case T1Argument::Fill::kNone:
      break;
    case T1Argument::Fill::kConstant: {
      const double value = argument.fill_value.value_or(0);
      if (value == 0) {
        fill.mutable_zeros();
      } else {
        fill.mutable_constant()->set_value(is_float ? value : std::trunc(value));
      }
      break;
    }
    case T1Argument::Fill::kRandom: {
      // Kernel Tuner draws from N(0, 1), KTT from [0, FillValue).
      if (t1_.is_kernel_tuner && is_float) {
        fill.mutable_normal();
        break;
      }
      const double high = argument.fill_value.value_or(1);
      if (!(high > 0)) return argument.ref.Error(kBadField, "a random fill needs a FillValue above 0, not {}", high);
      fill.mutable_uniform()->set_low(0);
      fill.mutable_uniform()->set_high(is_float ? high : std::max(1.0, std::floor(high)));
      break;
    }
    case T1Argument::Fill::kGenerator: {
      ASSIGN_OR_RETURN(const std::string step,
                       AddElementStep(argument, *argument.data_source, "fill", length, nullptr));
      fill.set_prepare_step(step);
      break;
    }
    case T1Argument::Fill::kFile:
      return argument.ref.Error(kNotMappable,
                                "data from scripts and files is not read; write a Constant, Random or Generator "
                                "fill, or edit the definition");
  }
  return fill;
}

absl::StatusOr<std::string> KernelMaker::AddElementStep(const T1Argument& argument, const T1Text& generator,
                                                        const std::string& verb, const std::string& length,
                                                        v1::Step* step) {
  const char* const type = CxxTypeOf(argument.type);
  if (type == nullptr || argument.width != 1) {
    return generator.ref.Error(kNotMappable, "a generator of a {} vector has no counterpart",
                               argument.width != 1 ? "vector type's" : "half");
  }
  PythonTranslation translation;
  translation.variables["i"] = kElementIndex;
  const absl::StatusOr<PythonText> python = PythonText::Parse(generator.text);
  if (!python.ok()) return InText(generator, python.status());
  const absl::StatusOr<std::string> value = python->ToCxx(translation);
  if (!value.ok()) return InText(generator, value.status());
  const std::string entry = fmt::format("tunefarm_{}_{}", verb, argument.name);
  functions_.push_back({entry, type, *value});
  const std::string count = argument.name + "_count";
  if (counts_.insert(count).second) {
    v1::Argument* added = kernel().add_arguments();
    added->set_name(count);
    added->mutable_scalar()->set_data_type(v1::DATA_TYPE_I64);
    added->mutable_scalar()->set_value(length);
  }
  if (step == nullptr) step = kernel().add_prepare()->mutable_step();
  step->set_name(verb + "_" + argument.name);
  v1::KernelLaunch* launch = step->mutable_kernel();
  launch->set_entry(entry);
  if (is_cuda()) {
    launch->add_grid(fmt::format("min(ceil_div({}, 256), 4096)", length));
    launch->add_block("256");
  }
  launch->add_arguments(argument.name);
  launch->add_arguments(count);
  return step->name();
}

absl::Status KernelMaker::AddBuffer(const T1Argument& argument) {
  ASSIGN_OR_RETURN(const std::string length, Length(argument));
  lengths_[argument.name] = length;
  ASSIGN_OR_RETURN(v1::Fill fill, FillOf(argument, length));
  v1::Argument* added = kernel().add_arguments();
  added->set_name(argument.name);
  v1::Buffer* buffer = added->mutable_buffer();
  buffer->set_data_type(argument.type);
  buffer->set_length(length);
  v1::Access access = v1::ACCESS_INOUT;
  if (argument.access == T1Argument::Access::kReadOnly) access = v1::ACCESS_IN;
  if (argument.access == T1Argument::Access::kWriteOnly) access = v1::ACCESS_OUT;
  if (argument.is_output && access == v1::ACCESS_IN) {
    Note(fmt::format("Argument {} is an Output although its AccessType is ReadOnly; it counts as ReadWrite.",
                     argument.name));
    access = v1::ACCESS_INOUT;
  }
  // What the file gives no expected values for is not compared.
  if (access != v1::ACCESS_IN && !targets_.empty() && targets_.count(argument.name) == 0) access = v1::ACCESS_SCRATCH;
  buffer->set_access(access);
  if (access == v1::ACCESS_OUT || access == v1::ACCESS_SCRATCH) {
    // A kernel may add to what it is said only to write: its first content is kept.
    if (fill.has_zeros()) {
      buffer->set_init(v1::INIT_ZERO);
      fill.clear_kind();
    } else if (fill.kind_case() != v1::Fill::KIND_NOT_SET) {
      buffer->set_init(v1::INIT_FILL);
    }
  }
  if (fill.kind_case() != v1::Fill::KIND_NOT_SET) *buffer->mutable_fill() = fill;
  has_output_ = has_output_ || access == v1::ACCESS_OUT || access == v1::ACCESS_INOUT;
  return absl::OkStatus();
}

absl::Status KernelMaker::AddSymbol(const T1Argument& argument) {
  if (!is_cuda()) {
    Note(fmt::format("The __constant__ {} is left out: host C++ has none.", argument.name));
    return absl::OkStatus();
  }
  if (argument.fill == T1Argument::Fill::kGenerator) {
    return argument.ref.Error(kNotMappable,
                              "a constant symbol with a generator has no counterpart; write a Constant or Random fill");
  }
  ASSIGN_OR_RETURN(const std::string length, Length(argument));
  ASSIGN_OR_RETURN(const v1::Fill fill, FillOf(argument, length));
  v1::Argument* added = kernel().add_arguments();
  std::string name = argument.memory == T1Argument::Memory::kSymbol ? argument.name : argument.name + "_symbol";
  while (std::count_if(t1_.arguments.begin(), t1_.arguments.end(),
                       [&](const T1Argument& other) { return other.name == name && &other != &argument; }) > 0) {
    name += "_";
  }
  added->set_name(name);
  v1::ConstantSymbol* symbol = added->mutable_constant_symbol();
  symbol->set_symbol(argument.name);
  symbol->set_data_type(argument.type);
  symbol->set_length(length);
  if (fill.kind_case() != v1::Fill::KIND_NOT_SET) *symbol->mutable_fill() = fill;
  if (argument.is_also_symbol && argument.fill == T1Argument::Fill::kRandom) {
    Note(fmt::format("{} is passed and copied to the __constant__ of its name; the two hold different random numbers.",
                     argument.name));
  }
  return absl::OkStatus();
}

absl::Status KernelMaker::AddReference() {
  SetTolerance();
  if (options_.is_unverified || !has_output_) {
    if (!has_output_ && !options_.is_unverified)
      Note("No argument is an output, so nothing can be checked: results are marked as unverified.");
    kernel().set_unverified_reason(has_output_ ? "imported without a reference"
                                               : "imported from a T1 file that names no outputs");
    kernel().clear_tolerance();
    return absl::OkStatus();
  }
  if (options_.reference_kernel.has_value()) {
    const T1ReferenceKernel& reference = *options_.reference_kernel;
    if (is_cuda() && (reference.grid.empty() || reference.block.empty())) {
      return InvalidArgument(
          "the reference {} needs its grid and block: --reference-grid X,Y,Z --reference-block X,Y,Z", reference.entry);
    }
    v1::KernelLaunch* launch = kernel().mutable_reference()->add_steps()->mutable_kernel();
    launch->set_entry(reference.entry);
    for (const std::string& grid : reference.grid) launch->add_grid(grid);
    for (const std::string& block : reference.block) launch->add_block(block);
    for (const std::string& name : reference.arguments.empty() ? passed_ : reference.arguments) {
      if (std::find(passed_.begin(), passed_.end(), name) == passed_.end()) {
        return InvalidArgument("the reference {} wants the argument '{}', which the file does not have",
                               reference.entry, name);
      }
      launch->add_arguments(name);
    }
    return absl::OkStatus();
  }
  if (targets_.empty()) {
    if (t1_.references.empty()) {
      Note(
          "The file gives no expected values: every config is compared with the default config. --reference names a "
          "kernel to compare with.");
    }
    AddLaunch(kernel().mutable_reference()->add_steps());
    return absl::OkStatus();
  }
  for (const T1Reference& reference : t1_.references) {
    const auto target = std::find_if(t1_.arguments.begin(), t1_.arguments.end(),
                                     [&](const T1Argument& a) { return a.name == reference.target; });
    const T1Text value = reference.data_source.has_value() && reference.fill == T1Argument::Fill::kGenerator
                             ? *reference.data_source
                             : T1Text{reference.ref, Value(reference.fill_value.value_or(0)).ToText()};
    RETURN_IF_ERROR(
        AddElementStep(*target, value, "expect", lengths_[reference.target], kernel().mutable_reference()->add_steps())
            .status());
  }
  return absl::OkStatus();
}

void KernelMaker::SetTolerance() {
  double atol = kToleranceDefault;
  double rtol = kToleranceDefault;
  bool is_first = true;
  for (const T1Reference& reference : t1_.references) {
    if (!reference.threshold.has_value()) continue;
    const bool is_relative = reference.method == T1Reference::Method::kSideBySideRelative;
    if (is_first) atol = rtol = 0;
    is_first = false;
    double& bound = is_relative ? rtol : atol;
    bound = std::max(bound, *reference.threshold);
    if (reference.method == T1Reference::Method::kAbsoluteDifference) {
      Note(fmt::format(
          "ValidationMethod AbsoluteDifference of {} bounds the sum of all differences; here it bounds each of them.",
          reference.target));
    }
  }
  kernel().mutable_tolerance()->set_atol(options_.atol.value_or(atol));
  kernel().mutable_tolerance()->set_rtol(options_.rtol.value_or(rtol));
}

}  // namespace tunefarm::interchange
