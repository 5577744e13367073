// Dims, parameters and derived values: the names of a definition.
#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "server/base/status_macros.h"
#include "server/definition/checker.h"
#include "server/definition/field_error.h"
#include "server/definition/macro_rules.h"
#include "server/definition/value_proto.h"

namespace tunefarm::definition {
namespace {

constexpr int kDimValuesMax = 64;
constexpr int kParametersMax = 64;
constexpr int kStartingConfigsMax = 64;
constexpr size_t kStartingConfigBytesMax = 4096;
constexpr int kDomainMax = 4096;
constexpr int kDerivedMax = 64;
constexpr int64_t kDimMaxDefault = int64_t{1} << 40;

absl::Status CheckDescription(const std::string& path, const std::string& text) {
  if (text.size() <= kNoteMax) return absl::OkStatus();
  return FieldError(path + ".description", kLimitExceeded, "the description has {} bytes; at most {} are allowed",
                    text.size(), kNoteMax);
}

absl::StatusOr<Value> ReadValue(const std::string& path, const v1::Value& proto, ValueType type, Baked baked) {
  auto value = FromProto(proto, type);
  if (!value.ok()) return FieldError(path, kTypeMismatch, "{}", MessageOf(value.status()));
  if (value->is_string()) RETURN_IF_ERROR(CheckStringValue(path, value->string_value(), baked));
  return value;
}

absl::StatusOr<std::vector<Value>> RangeValues(const std::string& path, const v1::Range& range, bool powers_of_two) {
  if (range.last() < range.first()) {
    return FieldError(path + ".last", kValueOutOfRange, "last {} is below first {}", range.last(), range.first());
  }
  std::vector<Value> values;
  if (powers_of_two) {
    for (const int64_t bound : {range.first(), range.last()}) {
      if (bound < 1 || !std::has_single_bit(static_cast<uint64_t>(bound))) {
        return FieldError(path, kValueOutOfRange, "{} is not a power of two", bound);
      }
    }
    for (auto value = static_cast<uint64_t>(range.first()); value <= static_cast<uint64_t>(range.last()); value *= 2) {
      values.emplace_back(static_cast<int64_t>(value));
    }
    return values;
  }
  const int64_t step = range.step() == 0 ? 1 : range.step();
  if (step < 1) return FieldError(path + ".step", kValueOutOfRange, "step {} is not at least 1", step);
  // Unsigned: the difference of two 64-bit integers does not fit in one.
  const uint64_t span = static_cast<uint64_t>(range.last()) - static_cast<uint64_t>(range.first());
  const uint64_t count = span / static_cast<uint64_t>(step) + 1;
  if (count > kDomainMax || count == 0) {
    return FieldError(path, kLimitExceeded, "the range has {} values; at most {} are allowed", count, kDomainMax);
  }
  for (uint64_t i = 0; i < count; ++i) {
    values.emplace_back(static_cast<int64_t>(static_cast<uint64_t>(range.first()) + i * static_cast<uint64_t>(step)));
  }
  return values;
}

absl::StatusOr<std::vector<Value>> ListValues(const std::string& path, const v1::ValueList& list, Baked baked) {
  const int filled =
      (list.ints_size() > 0) + (list.doubles_size() > 0) + (list.bools_size() > 0) + (list.strings_size() > 0);
  if (filled == 0)
    return FieldError(path, kMissingField, "there is no value; fill one of ints, doubles, bools and strings");
  if (filled > 1) {
    return FieldError(path, kConflictingFields,
                      "values of several types are listed; fill one of ints, doubles, bools and strings");
  }
  const int count = list.ints_size() + list.doubles_size() + list.bools_size() + list.strings_size();
  if (count > kDomainMax) {
    return FieldError(path, kLimitExceeded, "{} values are too many; at most {} are allowed", count, kDomainMax);
  }
  std::vector<Value> values;
  for (const int64_t value : list.ints()) values.emplace_back(value);
  for (const bool value : list.bools()) values.emplace_back(value);
  for (int i = 0; i < list.doubles_size(); ++i) {
    if (!std::isfinite(list.doubles(i))) {
      return FieldError(fmt::format("{}.doubles[{}]", path, i), kValueOutOfRange, "the value is not a finite number");
    }
    values.emplace_back(list.doubles(i));
  }
  for (int i = 0; i < list.strings_size(); ++i) {
    RETURN_IF_ERROR(CheckStringValue(fmt::format("{}.strings[{}]", path, i), list.strings(i), baked));
    values.emplace_back(list.strings(i));
  }
  return values;
}

absl::StatusOr<std::vector<Value>> DomainValues(const std::string& path, const v1::Parameter& parameter, Baked baked) {
  switch (parameter.domain_case()) {
    case v1::Parameter::kValues:
      return ListValues(path + ".values", parameter.values(), baked);
    case v1::Parameter::kRange:
      return RangeValues(path + ".range", parameter.range(), false);
    case v1::Parameter::kPowersOfTwo:
      return RangeValues(path + ".powers_of_two", parameter.powers_of_two(), true);
    case v1::Parameter::DOMAIN_NOT_SET:
      break;
  }
  return FieldError(path + ".values", kMissingField, "a parameter needs values, range or powers_of_two");
}

class NameChecker {
 public:
  explicit NameChecker(PlanDraft* draft) : draft_(*draft), plan_(*draft->plan) {}

  void Check() {
    v1::Kernel& kernel = plan_.kernel;
    ForEach("dims", "dims", kDimsMax, kernel.mutable_dims(),
            [this](const std::string& path, v1::Dim* dim) { return CheckDim(path, dim); });
    ForEach("parameters", "parameters", kParametersMax, kernel.mutable_parameters(),
            [this](const std::string& path, v1::Parameter* parameter) { return CheckParameter(path, parameter); });
    // A starting config may name a parameter that has an error.
    if (draft_.broken.empty()) draft_.Note(CheckStartingConfigs());
    draft_.Note(AddDeviceNames());
    ForEach("derived", "derived values", kDerivedMax, kernel.mutable_derived(),
            [this](const std::string& path, v1::Derived* derived) { return CheckDerived(path, derived); });
  }

 private:
  template <typename Items, typename CheckItem>
  void ForEach(std::string_view field, std::string_view what, int most, Items* items, CheckItem check) {
    if (items->size() > most) {
      draft_.Note(
          FieldError(field, kLimitExceeded, "{} {} are too many; at most {} are allowed", items->size(), what, most));
      // None is checked, and none is unknown.
      for (const auto& item : *items) draft_.broken.insert(item.name());
      return;
    }
    for (int i = 0; i < items->size(); ++i) {
      auto* item = items->Mutable(i);
      const absl::Status status = check(fmt::format("{}[{}]", field, i), item);
      if (!draft_.Note(status)) draft_.broken.insert(item->name());
    }
  }

  absl::Status CheckStartingConfigs() {
    v1::Kernel& kernel = plan_.kernel;
    if (kernel.starting_configs_size() > kStartingConfigsMax) {
      return FieldError("starting_configs", kLimitExceeded, "{} starting configs are too many; at most {} are allowed",
                        kernel.starting_configs_size(), kStartingConfigsMax);
    }
    ValueTypeMap types;
    for (const ParameterPlan& plan : plan_.parameters) types[plan.parameter.name] = plan.type;
    for (int i = 0; i < kernel.starting_configs_size(); ++i) {
      const std::string path = fmt::format("starting_configs[{}]", i);
      std::string& text = *kernel.mutable_starting_configs(i);
      if (text.size() > kStartingConfigBytesMax) {
        return FieldError(path, kLimitExceeded, "the config has {} bytes; at most {} are allowed", text.size(),
                          kStartingConfigBytesMax);
      }
      const absl::StatusOr<Config> given = Config::FromText(text, types);
      if (!given.ok()) return FieldError(path, kInvalidField, "{}", MessageOf(given.status()));
      Config config = *given;
      for (const ParameterPlan& plan : plan_.parameters) {
        const std::string& name = plan.parameter.name;
        const Value* value = given->Find(name);
        if (value == nullptr) {
          config.Set(name, *plan.parameter.default_value);
        } else if (plan.texts.count(value->ToText()) == 0) {
          return FieldError(path, kValueOutOfRange, "{} is not one of the values of parameter '{}'", value->ToLiteral(),
                            name);
        }
      }
      text = given->ToText();
      plan_.starting_configs.push_back(std::move(config));
    }
    return absl::OkStatus();
  }

  absl::Status AddDeviceNames() {
    for (const auto& [name, value] : DeviceClass().Constants()) {
      RETURN_IF_ERROR(draft_.symbols.AddVariable(name, value.type()).status());
      plan_.device_names.push_back(name);
    }
    for (const std::string_view name : {"kernel.max_active_blocks", "kernel.registers", "kernel.static_shared_bytes"}) {
      RETURN_IF_ERROR(draft_.symbols.AddVariable(name, ValueType::kInt).status());
    }
    return absl::OkStatus();
  }

  absl::Status CheckDerived(const std::string& path, v1::Derived* derived) {
    RETURN_IF_ERROR(AddName(path + ".name", derived->name(), "a derived value"));
    if (!v1::Bind_IsValid(derived->bind())) return FieldError(path + ".bind", kInvalidField, "the bind is unknown");
    RETURN_IF_ERROR(CheckBindOfPython(path, derived->bind()));
    if (derived->bind() == v1::BIND_UNSPECIFIED)
      derived->set_bind(draft_.is_python() ? v1::BIND_COMPILE : v1::BIND_RUN);
    ASSIGN_OR_RETURN(Formula formula, draft_.CompileFormula(path + ".expression", derived->expression(),
                                                            WithInputs(kConfigContext), Result::kAny));
    const bool compile = derived->bind() == v1::BIND_COMPILE;
    if (const std::string dim = draft_.InputsDimOf(formula); compile && !dim.empty() && !draft_.is_python()) {
      return FieldError(path + ".bind", kConflictingFields,
                        "'{}' uses the dim '{}', which has inputs_only and so is never part of a binary; leave "
                        "BIND_COMPILE out",
                        derived->name(), dim);
    }
    if (compile) RETURN_IF_ERROR(AddMacro(path + ".name", derived->name(), {}));
    if (const absl::Status status = draft_.symbols.AddDerived(derived->name(), derived->expression()); !status.ok()) {
      return ExpressionError(path + ".expression", status);
    }
    plan_.derived.push_back(DerivedPlan{derived->name(), derived->expression(), std::move(formula), compile});
    return absl::OkStatus();
  }

  absl::Status AddName(const std::string& path, const std::string& name, std::string_view what) {
    if (name.empty()) return FieldError(path, kMissingField, "{} needs a name", what);
    if (!IsIdentifier(name) || !IsValidName(name) || name == "device" || name == "kernel") {
      return FieldError(
          path, kInvalidField,
          "'{}' cannot be a name: write [A-Za-z_][A-Za-z0-9_]*, at most 63 characters, and no word of the "
          "expression language",
          name.substr(0, 64));
    }
    const auto [taken, is_new] = names_.emplace(name, path);
    if (!is_new) return FieldError(path, kDuplicateName, "the name '{}' is already taken by {}", name, taken->second);
    return absl::OkStatus();
  }

  absl::Status AddMacro(const std::string& path, const std::string& name, const std::vector<Value>& values) {
    if (draft_.is_triton()) return absl::OkStatus();  // It gets the values themselves.
    const std::string_view why = draft_.is_python() ? std::string_view() : WhyNoMacroName(name, draft_.is_cuda());
    if (!why.empty()) {
      return FieldError(path, kInvalidField, "'{}' is {}, so it cannot be a macro; choose another name or BIND_RUN",
                        name, why);
    }
    std::vector<std::string> macros = {name};
    for (const Value& value : values) {
      if (value.is_string()) macros.push_back(TokenMacro(name, value.string_value()));
    }
    for (const std::string& macro : macros) {
      const auto [taken, is_new] = draft_.macros.emplace(macro, path);
      if (!is_new) {
        return FieldError(path, kDuplicateName, "the macro '{}' would be defined twice, here and by {}", macro,
                          taken->second);
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckBindOfPython(const std::string& path, v1::Bind bind) const {
    if (!draft_.is_python() || bind != v1::BIND_RUN) return absl::OkStatus();
    return FieldError(path + ".bind", kConflictingFields,
                      "a module of Python is given all values at once; leave the bind out");
  }

  absl::Status CheckDim(const std::string& path, v1::Dim* dim) {
    RETURN_IF_ERROR(AddName(path + ".name", dim->name(), "a dim"));
    if (!v1::ValueType_IsValid(dim->type())) return FieldError(path + ".type", kInvalidField, "the type is unknown");
    if (!v1::Bind_IsValid(dim->bind())) return FieldError(path + ".bind", kInvalidField, "the bind is unknown");
    DimPlan plan;
    plan.name = dim->name();
    if (dim->type() == v1::VALUE_TYPE_UNSPECIFIED && dim->values_size() > 0 && dim->values(0).has_string_value()) {
      dim->set_type(v1::VALUE_TYPE_STRING);
    }
    plan.type = FromProto(dim->type());
    dim->set_type(ToProto(plan.type));
    RETURN_IF_ERROR(CheckBindOfPython(path, dim->bind()));
    RETURN_IF_ERROR(CheckDescription(path, dim->description()));
    RETURN_IF_ERROR(CheckDimValues(path, dim, &plan));
    if (dim->has_default_value()) {
      ASSIGN_OR_RETURN(const Value value,
                       ReadValue(path + ".default_value", dim->default_value(), plan.type, Baked::kNo));
      if (const std::string wrong = plan.WhyNot(value); !wrong.empty()) {
        return FieldError(path + ".default_value", kValueOutOfRange, "{}", wrong);
      }
      plan.default_value = value;
      *dim->mutable_default_value() = ToProto(value);
    }
    RETURN_IF_ERROR(CheckDimLookup(path, dim, plan));
    RETURN_IF_ERROR(CheckInputsOnly(path, *dim));
    plan.inputs_only = dim->inputs_only();
    if (plan.type == ValueType::kString && !plan.inputs_only) {
      if (dim->bind() == v1::BIND_RUN) {
        return FieldError(path + ".bind", kConflictingFields,
                          "a string is known only to the compiler; write BIND_COMPILE");
      }
      dim->set_bind(v1::BIND_COMPILE);
    } else if (dim->bind() == v1::BIND_UNSPECIFIED) {
      dim->set_bind(draft_.is_python() ? v1::BIND_COMPILE : v1::BIND_RUN);
    }
    plan.compile = dim->bind() == v1::BIND_COMPILE;
    if (plan.compile) RETURN_IF_ERROR(AddMacro(path + ".name", plan.name, plan.values));
    RETURN_IF_ERROR(draft_.symbols.AddVariable(plan.name, plan.type).status());
    plan_.dims.push_back(std::move(plan));
    return absl::OkStatus();
  }

  absl::Status CheckInputsOnly(const std::string& path, const v1::Dim& dim) const {
    if (!dim.inputs_only()) return absl::OkStatus();
    if (!dim.has_default_value()) {
      return FieldError(path + ".default_value", kMissingField,
                        "a dim with inputs_only needs a default, so that no look-up has to name it");
    }
    if (dim.lookup() != v1::LOOKUP_RULE_EXACT) {
      return FieldError(path + ".lookup", kConflictingFields,
                        "a look-up never compares a dim with inputs_only; leave the rule out");
    }
    if (dim.bind() == v1::BIND_COMPILE && !draft_.is_python()) {
      return FieldError(path + ".bind", kConflictingFields,
                        "a dim with inputs_only is never part of a binary; leave the bind out, and pass the steps that "
                        "make inputs a scalar");
    }
    return absl::OkStatus();
  }

  absl::Status CheckDimValues(const std::string& path, v1::Dim* dim, DimPlan* plan) {
    const bool listable = plan->type == ValueType::kInt || plan->type == ValueType::kString;
    if (dim->values_size() > 0 && !listable) {
      return FieldError(path + ".values", kConflictingFields, "only int and string dims have a list of values");
    }
    if (dim->values_size() > kDimValuesMax) {
      return FieldError(path + ".values", kLimitExceeded, "{} values are too many; at most {} are allowed",
                        dim->values_size(), kDimValuesMax);
    }
    if (dim->values_size() == 0 && plan->type == ValueType::kString) {
      return FieldError(path + ".values", kMissingField, "a string dim needs the list of its values");
    }
    for (int i = 0; i < dim->values_size(); ++i) {
      const std::string value_path = fmt::format("{}.values[{}]", path, i);
      ASSIGN_OR_RETURN(Value value, ReadValue(value_path, dim->values(i), plan->type,
                                              draft_.has_macros() ? Baked::kYes : Baked::kNo));
      if (std::find(plan->values.begin(), plan->values.end(), value) != plan->values.end()) {
        return FieldError(value_path, kDuplicateName, "{} is listed twice", value.ToLiteral());
      }
      plan->values.push_back(std::move(value));
    }
    if (plan->type != ValueType::kInt || !plan->values.empty()) {
      if (dim->min() != 0 || dim->max() != 0) {
        return FieldError(path + (dim->min() != 0 ? ".min" : ".max"), kConflictingFields,
                          "bounds are for int dims without a list of values");
      }
      return absl::OkStatus();
    }
    if (dim->min() == 0) dim->set_min(1);
    if (dim->max() == 0) dim->set_max(kDimMaxDefault);
    if (dim->max() < dim->min()) {
      return FieldError(path + ".max", kValueOutOfRange, "max {} is below min {}", dim->max(), dim->min());
    }
    plan->min = dim->min();
    plan->max = dim->max();
    return absl::OkStatus();
  }

  absl::Status CheckDimLookup(const std::string& path, v1::Dim* dim, const DimPlan& plan) {
    if (!v1::LookupRule_IsValid(dim->lookup()))
      return FieldError(path + ".lookup", kInvalidField, "the rule is unknown");
    if (dim->lookup() == v1::LOOKUP_RULE_UNSPECIFIED) dim->set_lookup(v1::LOOKUP_RULE_EXACT);
    if (dim->lookup() != v1::LOOKUP_RULE_EXACT && plan.type != ValueType::kInt) {
      return FieldError(path + ".lookup", kConflictingFields, "only int dims can be looked up by anything but EXACT");
    }
    if (dim->lookup() == v1::LOOKUP_RULE_LOG || dim->lookup() == v1::LOOKUP_RULE_NEXT_POWER_OF_TWO ||
        dim->lookup() == v1::LOOKUP_RULE_PRODUCT) {
      int64_t lowest = plan.min;
      for (const Value& value : plan.values)
        lowest = std::min(lowest == 0 ? value.int_value() : lowest, value.int_value());
      if (lowest < 1)
        return FieldError(path + ".lookup", kConflictingFields, "{} needs values of at least 1; this dim allows {}",
                          v1::LookupRule_Name(dim->lookup()).substr(std::string_view("LOOKUP_RULE_").size()), lowest);
    }
    const bool has_bounds = dim->bucket_bounds_size() > 0;
    if (has_bounds != (dim->lookup() == v1::LOOKUP_RULE_BUCKET)) {
      return FieldError(path + ".bucket_bounds", has_bounds ? kConflictingFields : kMissingField,
                        "LOOKUP_RULE_BUCKET and bucket_bounds need each other; set both or none");
    }
    if (dim->bucket_bounds_size() > kDimValuesMax) {
      return FieldError(path + ".bucket_bounds", kLimitExceeded, "{} bounds are too many; at most {} are allowed",
                        dim->bucket_bounds_size(), kDimValuesMax);
    }
    for (int i = 1; i < dim->bucket_bounds_size(); ++i) {
      if (dim->bucket_bounds(i) <= dim->bucket_bounds(i - 1)) {
        return FieldError(fmt::format("{}.bucket_bounds[{}]", path, i), kValueOutOfRange, "{} does not ascend from {}",
                          dim->bucket_bounds(i), dim->bucket_bounds(i - 1));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckParameter(const std::string& path, v1::Parameter* parameter) {
    RETURN_IF_ERROR(AddName(path + ".name", parameter->name(), "a parameter"));
    if (!v1::Bind_IsValid(parameter->bind())) return FieldError(path + ".bind", kInvalidField, "the bind is unknown");
    RETURN_IF_ERROR(CheckBindOfPython(path, parameter->bind()));
    RETURN_IF_ERROR(CheckDescription(path, parameter->description()));
    const Baked baked = !draft_.has_macros() || parameter->bind() == v1::BIND_RUN ? Baked::kNo : Baked::kUnlessRun;
    ASSIGN_OR_RETURN(std::vector<Value> values, DomainValues(path, *parameter, baked));
    ParameterPlan plan;
    plan.type = values.front().type();
    if (parameter->type() == v1::VALUE_TYPE_DOUBLE && plan.type == ValueType::kInt && parameter->has_values()) {
      // Whole numbers written as ints; the canonical form says what they are.
      plan.type = ValueType::kFloat;
      parameter->mutable_values()->clear_ints();
      for (Value& value : values) {
        value = Value(static_cast<double>(value.int_value()));
        parameter->mutable_values()->add_doubles(value.float_value());
      }
    }
    if (parameter->type() != v1::VALUE_TYPE_UNSPECIFIED && parameter->type() != ToProto(plan.type)) {
      return FieldError(path + ".type", kConflictingFields,
                        "the values are of type {}; leave the type out or make it agree", ValueTypeName(plan.type));
    }
    parameter->set_type(ToProto(plan.type));
    for (const Value& value : values) {
      if (!plan.texts.insert(value.ToText()).second) {
        return FieldError(path + ".values", kDuplicateName, "{} is listed twice", value.ToLiteral());
      }
    }
    plan.parameter.name = parameter->name();
    plan.parameter.default_value = values.front();
    if (parameter->has_default_value()) {
      ASSIGN_OR_RETURN(plan.parameter.default_value,
                       ReadValue(path + ".default_value", parameter->default_value(), plan.type, Baked::kNo));
      if (plan.texts.count(plan.parameter.default_value->ToText()) == 0) {
        return FieldError(path + ".default_value", kValueOutOfRange, "{} is not one of the parameter's values",
                          plan.parameter.default_value->ToLiteral());
      }
    }
    *parameter->mutable_default_value() = ToProto(*plan.parameter.default_value);
    if (parameter->has_range() && parameter->range().step() == 0) parameter->mutable_range()->set_step(1);
    if (parameter->has_powers_of_two()) parameter->mutable_powers_of_two()->clear_step();
    if (parameter->bind() == v1::BIND_UNSPECIFIED) parameter->set_bind(v1::BIND_COMPILE);
    plan.compile = parameter->bind() == v1::BIND_COMPILE;
    if (plan.compile) RETURN_IF_ERROR(AddMacro(path + ".name", parameter->name(), values));
    RETURN_IF_ERROR(draft_.symbols.AddVariable(parameter->name(), plan.type).status());
    plan.parameter.values = std::move(values);
    plan_.parameter_types[parameter->name()] = plan.type;
    plan_.parameters.push_back(std::move(plan));
    return absl::OkStatus();
  }

  PlanDraft& draft_;
  KernelPlanAccess::Impl& plan_;
  std::map<std::string, std::string, std::less<>> names_;  // name to path
};

}  // namespace

void CheckNames(PlanDraft* draft) { NameChecker(draft).Check(); }

}  // namespace tunefarm::definition
