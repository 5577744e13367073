// JSON to T1: fields, types and Python text.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "server/base/edit_distance.h"
#include "server/base/status_macros.h"
#include "server/interchange/t1.h"

namespace tunefarm::interchange {
namespace {

constexpr int kParametersMax = 64;
constexpr int kConditionsMax = 128;
constexpr int kArgumentsMax = 64;
constexpr int kValuesMax = 4096;
constexpr size_t kNameMax = 63;

bool IsIdentifier(std::string_view name) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !name.empty() && name.size() <= kNameMax && is_letter(name[0]) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

// One of `table`'s words, or an error that lists them.
template <typename T>
absl::StatusOr<T> OneOf(const JsonRef& ref, const std::map<std::string, T, std::less<>>& table) {
  if (ref.is_string()) {
    const auto found = table.find(ref.text());
    if (found != table.end()) return found->second;
  }
  std::string words;
  for (const auto& [word, value] : table) words += (words.empty() ? "" : ", ") + word;
  return ref.Error(kBadField, "{} is none of {}",
                   ref.is_string() ? "'" + ref.text().substr(0, 64) + "'" : std::string(JsonKindName(ref.kind())),
                   words);
}

absl::StatusOr<JsonRef> Required(const JsonRef& object, std::string_view key) {
  if (!object.is_object())
    return object.Error(kBadField, "an object is needed here, not {}", JsonKindName(object.kind()));
  const std::optional<JsonRef> member = object.Find(key);
  if (member.has_value()) return *member;
  std::vector<std::string> keys;
  for (const JsonRef& child : object.Children()) keys.push_back(child.key());
  const std::optional<std::string> close = ClosestMatch(std::string(key), keys);
  return object.Error(kBadField, "\"{}\" is missing{}", key,
                      close ? fmt::format(" (is \"{}\" meant to be it?)", *close) : "");
}

absl::StatusOr<std::string> RequiredText(const JsonRef& object, std::string_view key) {
  ASSIGN_OR_RETURN(const JsonRef member, Required(object, key));
  if (!member.is_string())
    return member.Error(kBadField, "a string is needed here, not {}", JsonKindName(member.kind()));
  return member.text();
}

absl::Status NeedArray(const JsonRef& ref) {
  return ref.is_array() ? absl::OkStatus()
                        : ref.Error(kBadField, "an array is needed here, not {}", JsonKindName(ref.kind()));
}

absl::StatusOr<std::optional<double>> OptionalNumber(const JsonRef& object, std::string_view key) {
  const std::optional<JsonRef> member = object.Find(key);
  if (!member.has_value()) return std::optional<double>();
  if (!member->is_number() || !std::isfinite(member->number())) {
    return member->Error(kBadField, "a number is needed here, not {}", JsonKindName(member->kind()));
  }
  return std::optional<double>(member->number());
}

// A size: Python text, or a number.
absl::StatusOr<T1Text> TextOrInt(const JsonRef& ref) {
  if (ref.is_string()) return T1Text{ref, ref.text()};
  if (ref.is_int()) return T1Text{ref, std::to_string(ref.int_value())};
  return ref.Error(kBadField, "an integer or an expression is needed here, not {}", JsonKindName(ref.kind()));
}

absl::Status InText(const JsonRef& ref, const absl::Status& status) {
  const std::string reason = ReasonOf(status);
  return ref.ErrorInText(reason.empty() ? kBadExpression : std::string_view(reason), PythonColumn(status),
                         PythonMessage(status));
}

class Reader {
 public:
  explicit Reader(T1* t1) : t1_(t1) {}

  absl::Status Run() {
    const JsonRef root = t1_->document->root();
    ASSIGN_OR_RETURN(const JsonRef space, Required(root, "ConfigurationSpace"));
    RETURN_IF_ERROR(ReadParameters(space));
    RETURN_IF_ERROR(ReadConditions(space));
    if (const auto general = root.Find("General"); general.has_value()) {
      if (const auto name = general->Find("BenchmarkName"); name.has_value() && name->is_string())
        t1_->benchmark_name = name->text();
    }
    RETURN_IF_ERROR(ReadBudget(root));
    if (const auto search = root.Find("Search"); search.has_value()) {
      ASSIGN_OR_RETURN(const std::string name, RequiredText(*search, "Name"));
      t1_->notes.push_back(
          fmt::format("Search '{}' is not taken over; tunefarm tune has --strategy.", name.substr(0, 64)));
    }
    ASSIGN_OR_RETURN(const JsonRef kernel, Required(root, "KernelSpecification"));
    return ReadKernel(kernel);
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
    if (!IsIdentifier(parameter.name)) {
      return entry.Find("Name")->Error(kBadField,
                                       "'{}' cannot be a name: write [A-Za-z_][A-Za-z0-9_]*, at most {} characters",
                                       parameter.name.substr(0, 64), kNameMax);
    }
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

  absl::Status ReadBudget(const JsonRef& root) {
    const std::optional<JsonRef> budget = root.Find("Budget");
    if (!budget.has_value()) return absl::OkStatus();
    RETURN_IF_ERROR(NeedArray(*budget));
    for (const JsonRef& entry : budget->Children()) {
      ASSIGN_OR_RETURN(const JsonRef type, Required(entry, "Type"));
      static const std::map<std::string, int, std::less<>> kTypes = {
          {"TuningDuration", 0}, {"ConfigurationCount", 1}, {"ConfigurationFraction", 2}};
      ASSIGN_OR_RETURN(const int kind, OneOf(type, kTypes));
      ASSIGN_OR_RETURN(const JsonRef value, Required(entry, "BudgetValue"));
      if (!value.is_number() || !(value.number() >= 0) || value.number() > 1e12)
        return value.Error(kBadField, "this is not a number from 0 to 10^12");
      if (kind == 2) {
        t1_->notes.push_back(fmt::format(
            "The budget of {} of the configs has no counterpart; tunefarm tune has --max-trials.", value.number()));
        continue;
      }
      t1_->budget_options +=
          fmt::format("{}--max-{} {}", t1_->budget_options.empty() ? "" : " ", kind == 0 ? "seconds" : "trials",
                      static_cast<int64_t>(std::ceil(value.number())));
    }
    return absl::OkStatus();
  }

  absl::Status ReadKernel(const JsonRef& kernel) {
    ASSIGN_OR_RETURN(const JsonRef language, Required(kernel, "Language"));
    static const std::map<std::string, T1::Language, std::less<>> kLanguages = {
        {"CUDA", T1::Language::kCuda},
        {"OpenCL", T1::Language::kOpenCl},
        {"Vulkan", T1::Language::kVulkan},
        {"Hypertuner", T1::Language::kHypertuner}};
    ASSIGN_OR_RETURN(t1_->language, OneOf(language, kLanguages));
    t1_->language_ref = language;
    ASSIGN_OR_RETURN(t1_->kernel_name, RequiredText(kernel, "KernelName"));
    // A hypertuner has no kernel.
    if (t1_->language != T1::Language::kHypertuner || kernel.Find("KernelFile").has_value()) {
      ASSIGN_OR_RETURN(t1_->kernel_file, RequiredText(kernel, "KernelFile"));
      t1_->kernel_file_ref = kernel.Find("KernelFile");
    }
    if (const auto options = kernel.Find("CompilerOptions"); options.has_value()) {
      RETURN_IF_ERROR(NeedArray(*options));
      for (const JsonRef& option : options->Children()) {
        if (!option.is_string())
          return option.Error(kBadField, "a string is needed here, not {}", JsonKindName(option.kind()));
        if (!option.text().empty()) t1_->compile_options.emplace_back(option, option.text());
      }
    }
    if (const auto shared = kernel.Find("SharedMemory"); shared.has_value()) {
      if (!shared->is_int() || shared->int_value() < 0)
        return shared->Error(kBadField, "a number of bytes is needed here");
      t1_->shared_memory = shared->int_value();
    }
    RETURN_IF_ERROR(ReadLaunch(kernel));
    RETURN_IF_ERROR(ReadArguments(kernel));
    return ReadReferences(kernel);
  }

  absl::Status ReadLaunch(const JsonRef& kernel) {
    static constexpr const char* kAxes[] = {"X", "Y", "Z"};
    if (const auto size = kernel.Find("ProblemSize"); size.has_value()) {
      std::vector<JsonRef> entries = {*size};
      if (size->is_array()) entries = size->Children();
      if (entries.empty() || entries.size() > 3)
        return size->Error(kBadField, "a problem has 1 to 3 sizes, not {}", entries.size());
      for (const JsonRef& entry : entries) {
        ASSIGN_OR_RETURN(T1Text text, TextOrInt(entry));
        t1_->problem_size.push_back(std::move(text));
      }
    }
    for (int axis = 0; axis < 3; ++axis) {
      const auto divisors = kernel.Find(std::string("GridDiv") + kAxes[axis]);
      if (!divisors.has_value()) continue;
      t1_->has_grid_div = true;
      std::vector<JsonRef> entries = {*divisors};
      if (divisors->is_array()) entries = divisors->Children();
      for (const JsonRef& entry : entries) {
        ASSIGN_OR_RETURN(T1Text text, TextOrInt(entry));
        t1_->grid_div[axis].push_back(std::move(text));
      }
    }
    for (const auto& [key, sizes] :
         {std::pair{"GlobalSize", t1_->global_size}, std::pair{"LocalSize", t1_->local_size}}) {
      const auto object = kernel.Find(key);
      if (!object.has_value()) continue;
      if (!object->is_object())
        return object->Error(kBadField, "an object is needed here, not {}", JsonKindName(object->kind()));
      for (int axis = 0; axis < 3; ++axis) {
        const auto entry = object->Find(kAxes[axis]);
        if (!entry.has_value()) continue;
        ASSIGN_OR_RETURN(T1Text text, TextOrInt(*entry));
        sizes[axis] = std::move(text);
      }
    }
    if (const auto type = kernel.Find("GlobalSizeType"); type.has_value()) {
      static const std::map<std::string, T1::GlobalSizeType, std::less<>> kTypes = {
          {"CUDA", T1::GlobalSizeType::kBlocks},
          {"Vulkan", T1::GlobalSizeType::kBlocks},
          {"OpenCL", T1::GlobalSizeType::kThreads}};
      ASSIGN_OR_RETURN(t1_->global_size_type, OneOf(*type, kTypes));
    } else if (t1_->language == T1::Language::kOpenCl) {
      t1_->global_size_type = T1::GlobalSizeType::kThreads;
    }
    t1_->is_kernel_tuner = !t1_->problem_size.empty() && (t1_->has_grid_div || !t1_->global_size[0].has_value());
    if (t1_->language != T1::Language::kHypertuner && !t1_->is_kernel_tuner && !t1_->global_size[0].has_value()) {
      return kernel.Error(kBadField, "there is neither \"ProblemSize\" nor a \"GlobalSize\" with \"X\"");
    }
    return absl::OkStatus();
  }

  absl::Status ReadArguments(const JsonRef& kernel) {
    const std::optional<JsonRef> list = kernel.Find("Arguments");
    if (!list.has_value()) return absl::OkStatus();
    RETURN_IF_ERROR(NeedArray(*list));
    const std::vector<JsonRef> entries = list->Children();
    if (entries.size() > kArgumentsMax)
      return list->Error(kBadField, "{} arguments are too many; at most {} are read", entries.size(), kArgumentsMax);
    std::set<std::string> names;
    for (const JsonRef& entry : entries) {
      ASSIGN_OR_RETURN(T1Argument argument, ReadArgument(entry, t1_->arguments.size()));
      if (!names.insert(argument.name).second)
        return entry.Error(kBadField, "there is already an argument '{}'", argument.name);
      t1_->arguments.push_back(std::move(argument));
    }
    return absl::OkStatus();
  }

  // "float4" is 4 of f32.
  static absl::Status ReadType(const JsonRef& entry, T1Argument* argument) {
    static const std::map<std::string, tunefarm::v1::DataType, std::less<>> kScalars = {
        {"bool", tunefarm::v1::DATA_TYPE_U8},    {"int8", tunefarm::v1::DATA_TYPE_I8},
        {"uint8", tunefarm::v1::DATA_TYPE_U8},   {"int16", tunefarm::v1::DATA_TYPE_I16},
        {"uint16", tunefarm::v1::DATA_TYPE_U16}, {"int32", tunefarm::v1::DATA_TYPE_I32},
        {"uint32", tunefarm::v1::DATA_TYPE_U32}, {"int64", tunefarm::v1::DATA_TYPE_I64},
        {"uint64", tunefarm::v1::DATA_TYPE_U64}, {"half", tunefarm::v1::DATA_TYPE_F16},
        {"float", tunefarm::v1::DATA_TYPE_F32},  {"double", tunefarm::v1::DATA_TYPE_F64}};
    ASSIGN_OR_RETURN(const JsonRef type, Required(entry, "Type"));
    if (type.is_string()) {
      if (type.text() == "custom") {
        return type.Error(kNotMappable,
                          "arguments of type custom have no counterpart; declare a vector of a plain type instead");
      }
      for (const auto& [name, data_type] : kScalars) {
        const std::string rest = type.text().rfind(name, 0) == 0 ? type.text().substr(name.size()) : "-";
        const bool has_vectors = name == "half" || name == "float" || name == "double";
        if (!rest.empty() && !(has_vectors && (rest == "2" || rest == "4" || rest == "8" || rest == "16"))) continue;
        argument->type = data_type;
        argument->width = rest.empty() ? 1 : std::stoi(rest);
        return absl::OkStatus();
      }
    }
    return OneOf(type, kScalars).status();
  }

  static absl::Status ReadFill(const JsonRef& entry, T1Argument::Fill* fill, std::optional<double>* value,
                               std::optional<T1Text>* source) {
    ASSIGN_OR_RETURN(*value, OptionalNumber(entry, "FillValue"));
    if (const auto ref = entry.Find("FillType"); ref.has_value()) {
      static const std::map<std::string, int, std::less<>> kTypes = {
          {"Constant", 0}, {"Random", 1}, {"Generator", 2}, {"Script", 3}, {"BinaryRaw", 4}, {"BinaryHDF", 5}};
      ASSIGN_OR_RETURN(const int type, OneOf(*ref, kTypes));
      *fill = type == 0   ? T1Argument::Fill::kConstant
              : type == 1 ? T1Argument::Fill::kRandom
              : type == 2 ? T1Argument::Fill::kGenerator
                          : T1Argument::Fill::kFile;
    } else if (value->has_value()) {
      *fill = T1Argument::Fill::kConstant;
    }
    if (const auto ref = entry.Find("DataSource"); ref.has_value()) {
      if (!ref->is_string()) return ref->Error(kBadField, "a string is needed here, not {}", JsonKindName(ref->kind()));
      *source = T1Text{*ref, ref->text()};
    }
    if (*fill == T1Argument::Fill::kGenerator && !source->has_value())
      return entry.Error(kBadField, "a generator needs a \"DataSource\"");
    return absl::OkStatus();
  }

  absl::StatusOr<T1Argument> ReadArgument(const JsonRef& entry, size_t index) {
    T1Argument argument{entry, fmt::format("argument{}", index), tunefarm::v1::DATA_TYPE_UNSPECIFIED};
    if (!entry.is_object())
      return entry.Error(kBadField, "an object is needed here, not {}", JsonKindName(entry.kind()));
    if (entry.Find("Name").has_value()) {
      ASSIGN_OR_RETURN(argument.name, RequiredText(entry, "Name"));
      if (!IsIdentifier(argument.name)) {
        return entry.Find("Name")->Error(kBadField,
                                         "'{}' cannot be a name: write [A-Za-z_][A-Za-z0-9_]*, at most {} characters",
                                         argument.name.substr(0, 64), kNameMax);
      }
    }
    RETURN_IF_ERROR(ReadType(entry, &argument));
    ASSIGN_OR_RETURN(const JsonRef memory, Required(entry, "MemoryType"));
    static const std::map<std::string, int, std::less<>> kMemories = {
        {"Scalar", 0}, {"Vector", 1}, {"Symbol", 2}, {"Local", 3}};
    ASSIGN_OR_RETURN(const int kind, OneOf(memory, kMemories));
    if (kind == 3)
      return memory.Error(kNotMappable,
                          "arguments in local memory have no counterpart; use SharedMemory of the KernelSpecification");
    argument.memory = static_cast<T1Argument::Memory>(kind);
    if (const auto type = entry.Find("MemType"); type.has_value()) {
      static const std::map<std::string, bool, std::less<>> kTypes = {{"Constant", true}, {"Global", false}};
      ASSIGN_OR_RETURN(argument.is_also_symbol, OneOf(*type, kTypes));
    }
    if (const auto size = entry.Find("Size"); size.has_value()) {
      ASSIGN_OR_RETURN(argument.size, TextOrInt(*size));
    } else if (kind != 0) {
      return entry.Error(kBadField, "\"Size\" is missing");
    }
    RETURN_IF_ERROR(ReadFill(entry, &argument.fill, &argument.fill_value, &argument.data_source));
    if (const auto access = entry.Find("AccessType"); access.has_value()) {
      static const std::map<std::string, T1Argument::Access, std::less<>> kAccesses = {
          {"ReadOnly", T1Argument::Access::kReadOnly},
          {"WriteOnly", T1Argument::Access::kWriteOnly},
          {"ReadWrite", T1Argument::Access::kReadWrite}};
      ASSIGN_OR_RETURN(argument.access, OneOf(*access, kAccesses));
    }
    if (const auto output = entry.Find("Output"); output.has_value()) {
      argument.is_output =
          output->kind() == JsonKind::kBool ? output->bool_value() : output->is_number() && output->number() != 0;
    }
    return argument;
  }

  absl::Status ReadReferences(const JsonRef& kernel) {
    const std::optional<JsonRef> list = kernel.Find("ReferenceArguments");
    if (!list.has_value()) return absl::OkStatus();
    RETURN_IF_ERROR(NeedArray(*list));
    for (const JsonRef& entry : list->Children()) {
      T1Reference reference{entry, ""};
      ASSIGN_OR_RETURN(reference.target, RequiredText(entry, "TargetName"));
      const bool is_known = std::any_of(t1_->arguments.begin(), t1_->arguments.end(), [&](const T1Argument& argument) {
        return argument.name == reference.target && argument.memory == T1Argument::Memory::kVector;
      });
      if (!is_known)
        return entry.Find("TargetName")->Error(kBadField, "there is no vector '{}'", reference.target.substr(0, 64));
      RETURN_IF_ERROR(ReadFill(entry, &reference.fill, &reference.fill_value, &reference.data_source));
      if (const auto method = entry.Find("ValidationMethod"); method.has_value()) {
        static const std::map<std::string, T1Reference::Method, std::less<>> kMethods = {
            {"AbsoluteDifference", T1Reference::Method::kAbsoluteDifference},
            {"SideBySideComparison", T1Reference::Method::kSideBySide},
            {"SideBySideRelativeComparison", T1Reference::Method::kSideBySideRelative}};
        ASSIGN_OR_RETURN(reference.method, OneOf(*method, kMethods));
      }
      ASSIGN_OR_RETURN(reference.threshold, OptionalNumber(entry, "ValidationThreshold"));
      t1_->references.push_back(std::move(reference));
    }
    return absl::OkStatus();
  }

  T1* const t1_;
};

}  // namespace

absl::StatusOr<T1> ReadT1(std::string text, std::string file_name) {
  T1 t1;
  ASSIGN_OR_RETURN(t1.document, JsonDocument::Parse(std::move(text), std::move(file_name)));
  RETURN_IF_ERROR(Reader(&t1).Run());
  return t1;
}

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
