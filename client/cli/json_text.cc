// JSON of messages, as output.h describes it.

#include <fmt/core.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/cli/output.h"
#include "server/base/log_escape.h"
#include "tunefarm/v1/problem.pb.h"
#include "tunefarm/v1/value.pb.h"

namespace tunefarm::cli {
namespace {

namespace pb = google::protobuf;

std::string JsonNumber(double value) { return std::isfinite(value) ? fmt::format("{}", value) : "null"; }

std::string Base64Of(const std::string& bytes) {
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k) group = group << 8 | (i + k < bytes.size() ? static_cast<uint8_t>(bytes[i + k]) : 0);
    for (size_t k = 0; k < 4; ++k) text += i + k > bytes.size() ? '=' : kDigits[group >> (18 - 6 * k) & 0x3f];
  }
  return text;
}

// The text of one JSON document.
class JsonWriter {
 public:
  explicit JsonWriter(bool is_indented) : is_indented_(is_indented) {}

  void Append(const pb::Message& message) {
    const pb::Descriptor* const type = message.GetDescriptor();
    if (type == v1::Value::descriptor()) return AppendValue(static_cast<const v1::Value&>(message));
    if (type == v1::Config::descriptor()) {
      return AppendMap(message, type->FindFieldByName("values"));
    }
    const pb::Reflection* const reflection = message.GetReflection();
    std::vector<const pb::FieldDescriptor*> fields;
    for (int i = 0; i < type->field_count(); ++i) {
      const pb::FieldDescriptor* const field = type->field(i);
      // What can be absent (messages, members of a oneof) is left out where it is.
      if (field->is_repeated() || !field->has_presence() || reflection->HasField(message, field)) {
        fields.push_back(field);
      }
    }
    std::sort(fields.begin(), fields.end(),
              [](const pb::FieldDescriptor* a, const pb::FieldDescriptor* b) { return a->number() < b->number(); });
    Open('{');
    for (const pb::FieldDescriptor* const field : fields) {
      Name(field->name());
      if (field->is_map()) {
        AppendMap(message, field);
      } else if (field->is_repeated()) {
        AppendList(message, field);
      } else {
        AppendField(message, field, -1);
      }
    }
    Close('}');
  }

  std::string Take() { return std::move(text_); }

 private:
  void NewLine() {
    if (is_indented_) text_ += "\n" + std::string(depth_, ' ');
  }
  void Open(char bracket) {
    text_ += bracket;
    ++depth_;
    is_first_ = true;
  }
  void Close(char bracket) {
    --depth_;
    if (!is_first_) NewLine();
    text_ += bracket;
    is_first_ = false;
  }
  void Item() {
    if (!is_first_) text_ += ',';
    is_first_ = false;
    NewLine();
  }
  void Name(const std::string& name) {
    Item();
    text_ += JsonString(name) + (is_indented_ ? ": " : ":");
  }

  void AppendValue(const v1::Value& value) {
    switch (value.kind_case()) {
      case v1::Value::kIntValue:
        text_ += std::to_string(value.int_value());
        break;
      case v1::Value::kDoubleValue:
        text_ += JsonNumber(value.double_value());
        break;
      case v1::Value::kBoolValue:
        text_ += value.bool_value() ? "true" : "false";
        break;
      case v1::Value::kStringValue:
        text_ += JsonString(value.string_value());
        break;
      case v1::Value::KIND_NOT_SET:
        text_ += "null";
        break;
    }
  }

  void AppendList(const pb::Message& message, const pb::FieldDescriptor* field) {
    const int size = message.GetReflection()->FieldSize(message, field);
    Open('[');
    for (int i = 0; i < size; ++i) {
      Item();
      AppendField(message, field, i);
    }
    Close(']');
  }

  // All maps of the API have text for keys.
  void AppendMap(const pb::Message& message, const pb::FieldDescriptor* field) {
    const pb::Reflection* const reflection = message.GetReflection();
    const pb::FieldDescriptor* const key = field->message_type()->map_key();
    std::map<std::string, const pb::Message*> entries;
    for (int i = 0; i < reflection->FieldSize(message, field); ++i) {
      const pb::Message& entry = reflection->GetRepeatedMessage(message, field, i);
      entries[KeyText(entry, key)] = &entry;
    }
    Open('{');
    for (const auto& [name, entry] : entries) {
      Name(name);
      AppendField(*entry, field->message_type()->map_value(), -1);
    }
    Close('}');
  }

  static std::string KeyText(const pb::Message& entry, const pb::FieldDescriptor* key) {
    const pb::Reflection* const reflection = entry.GetReflection();
    switch (key->cpp_type()) {
      case pb::FieldDescriptor::CPPTYPE_STRING:
        return reflection->GetString(entry, key);
      case pb::FieldDescriptor::CPPTYPE_INT32:
        return std::to_string(reflection->GetInt32(entry, key));
      case pb::FieldDescriptor::CPPTYPE_INT64:
        return std::to_string(reflection->GetInt64(entry, key));
      default:
        return "";
    }
  }

  // `index` -1: the field is singular.
  void AppendField(const pb::Message& message, const pb::FieldDescriptor* field, int index) {
    const pb::Reflection* const r = message.GetReflection();
    const bool one = index < 0;
    switch (field->cpp_type()) {
      case pb::FieldDescriptor::CPPTYPE_INT32:
        text_ += std::to_string(one ? r->GetInt32(message, field) : r->GetRepeatedInt32(message, field, index));
        break;
      case pb::FieldDescriptor::CPPTYPE_INT64:
        text_ += std::to_string(one ? r->GetInt64(message, field) : r->GetRepeatedInt64(message, field, index));
        break;
      case pb::FieldDescriptor::CPPTYPE_UINT32:
        text_ += std::to_string(one ? r->GetUInt32(message, field) : r->GetRepeatedUInt32(message, field, index));
        break;
      case pb::FieldDescriptor::CPPTYPE_UINT64:
        text_ += std::to_string(one ? r->GetUInt64(message, field) : r->GetRepeatedUInt64(message, field, index));
        break;
      case pb::FieldDescriptor::CPPTYPE_DOUBLE:
        text_ += JsonNumber(one ? r->GetDouble(message, field) : r->GetRepeatedDouble(message, field, index));
        break;
      case pb::FieldDescriptor::CPPTYPE_FLOAT: {
        const float value = one ? r->GetFloat(message, field) : r->GetRepeatedFloat(message, field, index);
        text_ += std::isfinite(value) ? fmt::format("{}", value) : "null";
        break;
      }
      case pb::FieldDescriptor::CPPTYPE_BOOL:
        text_ += (one ? r->GetBool(message, field) : r->GetRepeatedBool(message, field, index)) ? "true" : "false";
        break;
      case pb::FieldDescriptor::CPPTYPE_ENUM: {
        // A newer daemon may send numbers that this program has no name for.
        const int number = one ? r->GetEnumValue(message, field) : r->GetRepeatedEnumValue(message, field, index);
        const pb::EnumValueDescriptor* const value = field->enum_type()->FindValueByNumber(number);
        text_ += value == nullptr ? std::to_string(number) : JsonString(value->name());
        break;
      }
      case pb::FieldDescriptor::CPPTYPE_STRING: {
        const std::string text = one ? r->GetString(message, field) : r->GetRepeatedString(message, field, index);
        text_ += JsonString(field->type() == pb::FieldDescriptor::TYPE_BYTES ? Base64Of(text) : text);
        break;
      }
      case pb::FieldDescriptor::CPPTYPE_MESSAGE:
        Append(one ? r->GetMessage(message, field) : r->GetRepeatedMessage(message, field, index));
        break;
    }
  }

  const bool is_indented_;
  std::string text_;
  size_t depth_ = 0;
  bool is_first_ = true;  // nothing stands in the innermost brackets yet
};

std::string JsonOf(const pb::Message& message, bool is_indented) {
  JsonWriter writer(is_indented);
  writer.Append(message);
  return writer.Take() + "\n";
}

// Without its last line feed, one level deeper. Texts of JSON have no line feeds of their own.
std::string Nested(std::string_view json) {
  std::string text;
  for (const char c : json.substr(0, json.find_last_not_of('\n') + 1)) {
    text += c;
    if (c == '\n') text += ' ';
  }
  return text;
}

}  // namespace

std::string JsonString(std::string_view text) { return '"' + internal::EscapeForJson(text) + '"'; }

std::string JsonObject(const JsonFields& fields) { return WithFields("{}\n", fields); }

std::string WithFields(std::string_view object, const JsonFields& fields) {
  std::string text(object.substr(0, object.rfind('}')));
  if (text.back() == '\n') text.pop_back();
  for (const auto& [name, value] : fields) {
    text += fmt::format("{}\n {}: {}", text.size() > 1 ? "," : "", JsonString(name), Nested(value));
  }
  return text + (text.size() > 1 ? "\n}\n" : "}\n");
}

std::string JsonList(const std::vector<std::string>& items) {
  std::string text = "[";
  for (const std::string& item : items) text += fmt::format("{}\n {}", text.size() > 1 ? "," : "", Nested(item));
  return text + (items.empty() ? "]\n" : "\n]\n");
}

std::string ToJson(const pb::Message& message) { return JsonOf(message, true); }

std::string ToJsonLine(const pb::Message& message) { return JsonOf(message, false); }

}  // namespace tunefarm::cli
