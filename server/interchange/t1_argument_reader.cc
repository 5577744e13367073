// Arguments and reference arguments of a T1.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "server/base/status_macros.h"
#include "server/interchange/t1_reader.h"

namespace tunefarm::interchange {
namespace {

constexpr int kArgumentsMax = 64;

class ArgumentReader {
 public:
  explicit ArgumentReader(T1* t1) : t1_(t1) {}

  absl::Status Run(const JsonRef& kernel) {
    RETURN_IF_ERROR(ReadArguments(kernel));
    return ReadReferences(kernel);
  }

 private:
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
      RETURN_IF_ERROR(NeedIdentifier(*entry.Find("Name")));
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

absl::Status ReadT1Arguments(const JsonRef& kernel, T1* t1) { return ArgumentReader(t1).Run(kernel); }

}  // namespace tunefarm::interchange
