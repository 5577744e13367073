// ConfigurationSpace of a T1: parameters with their values, and conditions.
#include <algorithm>
#include <map>
#include <utility>

#include "server/base/status_macros.h"
#include "server/interchange/t1_reader.h"

namespace tunefarm::interchange {
namespace {

constexpr int kParametersMax = 64;
constexpr int kConditionsMax = 128;
constexpr int kValuesMax = 4096;

absl::Status InText(const JsonRef& ref, const absl::Status& status) {
  const std::string reason = ReasonOf(status);
  return ref.ErrorInText(reason.empty() ? kBadExpression : std::string_view(reason), PythonColumn(status),
                         PythonMessage(status));
}

class SpaceReader {
 public:
  explicit SpaceReader(T1* t1) : t1_(t1) {}

  absl::Status Run(const JsonRef& space) {
    RETURN_IF_ERROR(ReadParameters(space));
    return ReadConditions(space);
  }

 private:
  absl::Status ReadParameters(const JsonRef& space) {
    ASSIGN_OR_RETURN(const JsonRef list, Required(space, "TuningParameters"));
    RETURN_IF_ERROR(NeedArray(list));
    const std::vector<JsonRef> entries = list.Children();
    if (entries.size() > kParametersMax)
      return list.Error(kBadField, "{} parameters are too many; at most {} are read", entries.size(), kParametersMax);
    for (const JsonRef& entry : entries) {
      ASSIGN_OR_RETURN(T1Parameter parameter, ReadParameter(entry));
      for (const T1Parameter& other : t1_->parameters) {
        if (other.name == parameter.name)
          return entry.Error(kBadField, "there is already a parameter '{}'", parameter.name);
      }
      t1_->parameters.push_back(std::move(parameter));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<T1Parameter> ReadParameter(const JsonRef& entry) {
    T1Parameter parameter{entry, "", {}, {}};
    ASSIGN_OR_RETURN(parameter.name, RequiredText(entry, "Name"));
    RETURN_IF_ERROR(NeedIdentifier(*entry.Find("Name")));
    static const std::map<std::string, std::optional<ValueType>, std::less<>> kTypes = {{"int", ValueType::kInt},
                                                                                        {"uint", ValueType::kInt},
                                                                                        {"float", ValueType::kFloat},
                                                                                        {"bool", ValueType::kBool},
                                                                                        {"string", ValueType::kString}};
    ASSIGN_OR_RETURN(const JsonRef type_ref, Required(entry, "Type"));
    ASSIGN_OR_RETURN(std::optional<ValueType> type, OneOf(type_ref, kTypes));
    const bool is_unsigned = type_ref.text() == "uint";
    ASSIGN_OR_RETURN(const JsonRef values, Required(entry, "Values"));
    ASSIGN_OR_RETURN(const PythonValue list, ReadValues(values));
    // Kernel Tuner does not look at the type.
    const auto is_float = [](const PythonValue& element) { return element.is_float(); };
    if (type_ref.text() == "int" && std::any_of(list.list().begin(), list.list().end(), is_float)) {
      t1_->notes.push_back(
          fmt::format("Parameter {} is an int with values that are none; it counts as a float.", parameter.name));
      type = ValueType::kFloat;
    }
    bool has_repeats = false;
    for (const PythonValue& element : list.list()) {
      ASSIGN_OR_RETURN(Value value, Convert(values, element, *type, is_unsigned));
      if (std::find(parameter.values.begin(), parameter.values.end(), value) != parameter.values.end()) {
        has_repeats = true;
        continue;
      }
      parameter.values.push_back(std::move(value));
    }
    if (has_repeats)
      t1_->notes.push_back(fmt::format("Parameter {} lists a value twice; it counts once.", parameter.name));
    if (parameter.values.empty()) return values.Error(kBadField, "'{}' has no values", parameter.name);
    if (parameter.values.size() > kValuesMax) {
      return values.Error(kBadField, "'{}' has {} values; at most {} are read", parameter.name, parameter.values.size(),
                          kValuesMax);
    }
    RETURN_IF_ERROR(ReadDefault(entry, *type, is_unsigned, &parameter));
    return parameter;
  }

  absl::Status ReadDefault(const JsonRef& entry, ValueType type, bool is_unsigned, T1Parameter* parameter) {
    const std::optional<JsonRef> ref = entry.Find("Default");
    if (!ref.has_value()) return absl::OkStatus();
    if (ref->is_array() || ref->is_object()) {
      t1_->notes.push_back(fmt::format("Parameter {}: its Default is not one value and is not read.", parameter->name));
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const PythonValue scalar, Scalar(*ref));
    const absl::StatusOr<Value> value = Convert(*ref, scalar, type, is_unsigned);
    if (value.ok() &&
        std::find(parameter->values.begin(), parameter->values.end(), *value) != parameter->values.end()) {
      parameter->default_value = *value;
    } else {
      t1_->notes.push_back(
          fmt::format("Parameter {}: the Default {} is not among its values.", parameter->name, scalar.ToLiteral()));
    }
    return absl::OkStatus();
  }

  static absl::StatusOr<PythonValue> Scalar(const JsonRef& ref) {
    switch (ref.kind()) {
      case JsonKind::kBool:
        return PythonValue(ref.bool_value());
      case JsonKind::kInt:
        return PythonValue(ref.int_value());
      case JsonKind::kFloat:
        return PythonValue(ref.number());
      case JsonKind::kString:
        return PythonValue(ref.text());
      default:
        return ref.Error(kBadField, "a value is needed here, not {}", JsonKindName(ref.kind()));
    }
  }

  // The schema wants Python text; arrays are seen too.
  static absl::StatusOr<PythonValue> ReadValues(const JsonRef& ref) {
    if (ref.is_array()) {
      PythonValue::List list;
      for (const JsonRef& child : ref.Children()) {
        ASSIGN_OR_RETURN(PythonValue value, Scalar(child));
        list.push_back(std::move(value));
      }
      return PythonValue(std::move(list));
    }
    if (!ref.is_string()) return ref.Error(kBadField, "Python text is needed here, not {}", JsonKindName(ref.kind()));
    const absl::StatusOr<PythonText> text = PythonText::Parse(ref.text());
    if (!text.ok()) return InText(ref, text.status());
    const absl::StatusOr<PythonValue> value = text->Evaluate({});
    if (!value.ok()) return InText(ref, value.status());
    if (value->is_list()) return *value;
    return PythonValue(PythonValue::List{*value});
  }

  static absl::StatusOr<Value> Convert(const JsonRef& ref, const PythonValue& value, ValueType type, bool is_unsigned) {
    switch (type) {
      case ValueType::kInt:
        if (!value.is_integral()) break;
        if (is_unsigned && value.integral() < 0)
          return ref.Error(kBadField, "{} is below 0, and the type is uint", value.ToLiteral());
        return Value(value.integral());
      case ValueType::kFloat:
        if (value.is_number()) return Value(value.number());
        break;
      case ValueType::kBool:
        if (value.is_integral() && (value.integral() == 0 || value.integral() == 1))
          return Value(value.integral() == 1);
        break;
      case ValueType::kString:
        if (value.is_string()) return Value(value.text());
        break;
    }
    return ref.Error(kBadField, "{} is no {}", value.is_list() ? "a list" : value.ToLiteral(), ValueTypeName(type));
  }

  absl::Status ReadConditions(const JsonRef& space) {
    const std::optional<JsonRef> list = space.Find("Conditions");
    if (!list.has_value()) return absl::OkStatus();
    RETURN_IF_ERROR(NeedArray(*list));
    const std::vector<JsonRef> entries = list->Children();
    if (entries.size() > kConditionsMax)
      return list->Error(kBadField, "{} conditions are too many; at most {} are read", entries.size(), kConditionsMax);
    SymbolTable symbols;
    PythonTranslation translation;
    for (const T1Parameter& parameter : t1_->parameters) {
      translation.variables[parameter.name] = parameter.name;
      const auto slot = symbols.AddVariable(parameter.name, parameter.values[0].type());
      if (!slot.ok()) return parameter.ref.Error(kBadField, "{}", MessageOf(slot.status()));
    }
    for (const JsonRef& entry : entries) {
      ASSIGN_OR_RETURN(const JsonRef ref, Required(entry, "Expression"));
      if (!ref.is_string()) return ref.Error(kBadField, "a string is needed here, not {}", JsonKindName(ref.kind()));
      RETURN_IF_ERROR(CheckNames(entry));
      // What our language reads means the same there; the rest is written anew.
      std::string text = ref.text();
      if (const auto kept = Expression::Compile(text, symbols); !kept.ok()) {
        const absl::StatusOr<PythonText> python = PythonText::Parse(text);
        if (!python.ok()) return InText(ref, python.status());
        const absl::StatusOr<std::string> written = python->ToExpression(translation);
        if (!written.ok()) return InText(ref, written.status());
        const auto compiled = Expression::Compile(*written, symbols);
        if (!compiled.ok()) return ref.Error(kBadExpression, "{}", MessageOf(compiled.status()));
        text = *written;
      }
      t1_->conditions.push_back({ref, std::move(text)});
    }
    return absl::OkStatus();
  }

  absl::Status CheckNames(const JsonRef& condition) {
    const std::optional<JsonRef> names = condition.Find("Parameters");
    if (!names.has_value()) return absl::OkStatus();
    RETURN_IF_ERROR(NeedArray(*names));
    for (const JsonRef& name : names->Children()) {
      const bool is_known =
          name.is_string() && std::any_of(t1_->parameters.begin(), t1_->parameters.end(),
                                          [&](const T1Parameter& p) { return p.name == name.text(); });
      if (!is_known) return name.Error(kBadField, "this is not the name of a parameter");
    }
    return absl::OkStatus();
  }

  T1* const t1_;
};

}  // namespace

absl::Status ReadT1Space(const JsonRef& space, T1* t1) { return SpaceReader(t1).Run(space); }

SpaceDefinition SpaceOfT1(const T1& t1, const T1SpaceOptions& options) {
  SpaceDefinition definition;
  std::string product;
  for (const T1Parameter& parameter : t1.parameters) {
    definition.parameters.push_back({parameter.name, parameter.values, parameter.default_value});
    const std::string& name = parameter.name;
    if (name != "block_size_x" && name != "block_size_y" && name != "block_size_z") continue;
    product += (product.empty() ? "" : " * ") + name;
  }
  for (const T1Condition& condition : t1.conditions) definition.constraints.push_back({condition.expression, ""});
  if (options.thread_limit > 0 && !product.empty()) {
    definition.constraints.push_back(
        {fmt::format("{} <= {}", product, options.thread_limit), "threads per block, as Kernel Tuner limits them"});
  }
  return definition;
}

}  // namespace tunefarm::interchange
