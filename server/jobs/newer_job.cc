#include "server/jobs/newer_job.h"

#include <fmt/core.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/unknown_field_set.h>

#include <algorithm>
#include <vector>

#include "server/search/strategy.h"

namespace tunefarm {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

std::string UnknownValue(const Message& message, const FieldDescriptor& field, const std::string& path) {
  const Reflection& reflection = *message.GetReflection();
  const int count = field.is_repeated() ? reflection.FieldSize(message, &field) : 1;
  for (int i = 0; i < count; ++i) {
    const int value = field.is_repeated() ? reflection.GetRepeatedEnumValue(message, &field, i)
                                          : reflection.GetEnumValue(message, &field);
    if (field.enum_type()->FindValueByNumber(value) == nullptr) return fmt::format("the value {} of {}", value, path);
  }
  return "";
}

std::string UnknownIn(const Message& message, const std::string& path) {
  const Reflection& reflection = *message.GetReflection();
  const auto& unknown = reflection.GetUnknownFields(message);
  if (!unknown.empty()) {
    return fmt::format("the field {} of {}", unknown.field(0).number(), path.empty() ? "the job" : path);
  }
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const std::string name = path.empty() ? field->name() : path + "." + field->name();
    std::string found;
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
      found = UnknownValue(message, *field, name);
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && field->is_repeated()) {
      for (int i = 0; i < reflection.FieldSize(message, field) && found.empty(); ++i) {
        found = UnknownIn(reflection.GetRepeatedMessage(message, field, i), name);
      }
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      found = UnknownIn(reflection.GetMessage(message, field), name);
    }
    if (!found.empty()) return found;
  }
  return "";
}

}  // namespace

std::string FirstUnknown(const tunefarm::v1::Job& spec) {
  const std::string& strategy = spec.strategy().strategy_name();
  const std::vector<std::string> known = StrategyNames();
  if (!strategy.empty() && std::find(known.begin(), known.end(), strategy) == known.end()) {
    return fmt::format("the strategy '{}'", strategy.substr(0, 64));
  }
  return UnknownIn(spec, "");
}

std::string FirstUnknown(const JobRow& row) {
  tunefarm::v1::Job spec;
  return spec.ParseFromString(row.spec) ? FirstUnknown(spec) : "";
}

}  // namespace tunefarm
